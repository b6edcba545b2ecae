// SPDX-License-Identifier: GPL-2.0
/*
 * depths: Reads under way, fences, and attributes of queue pairs: what is
 * negotiated, changed, queried, and refused at once.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"
#include "raw.h"

#define LEN 65536
#define READS 100

static struct ibv_device_attr dev;
static char *mem;

static void depths(struct ibv_qp *qp, int ord, int ird)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	CHECK_SYS(ibv_query_qp(qp, &qa, IBV_QP_MAX_QP_RD_ATOMIC |
			       IBV_QP_MAX_DEST_RD_ATOMIC, &ia));
	expect(qa.max_rd_atomic == ord, "ORD %u instead of %d",
	       qa.max_rd_atomic, ord);
	expect(ird < 0 || qa.max_dest_rd_atomic == ird, "IRD %u instead of %d",
	       qa.max_dest_rd_atomic, ird);
}

static int set_ord(struct ibv_qp *qp, int ord)
{
	struct ibv_qp_attr qa = { .max_rd_atomic = ord };

	return ibv_modify_qp(qp, &qa, IBV_QP_MAX_QP_RD_ATOMIC);
}

static int set_ird(struct ibv_qp *qp, int ird)
{
	struct ibv_qp_attr qa = { .max_dest_rd_atomic = ird };

	return ibv_modify_qp(qp, &qa, IBV_QP_MAX_DEST_RD_ATOMIC);
}

static int post(struct ep *e, uint64_t id, enum ibv_wr_opcode op, int flags,
		struct ibv_mr *mr, uint32_t len, struct ibv_mr *to)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.wr.rdma = { (uintptr_t)to->addr, to->rkey },
	};

	return ibv_post_send(e->id->qp, &wr, &bad);
}

/* `n` successes, numbered from 0, in order, at both queues. */
static void in_order(struct ibv_cq *a, struct ibv_cq *p, unsigned int n)
{
	unsigned int na = 0, np = 0, before = n + n;
	uint64_t end = 0;
	struct ibv_wc wc;

	while (na < n || np < n) {
		if (na + np != before)
			end = ep_now_ns() + EP_EVENT_MS * 1000000ull;
		before = na + np;
		if (!expect(ep_now_ns() < end, "stuck: %u and %u of %u", na, np, n))
			return;
		if (ep_poll(a, &wc, 0))
			expect(!wc.status && wc.wr_id == na++, "%s of %lu",
			       ibv_wc_status_str(wc.status), wc.wr_id);
		if (ep_poll(p, &wc, 0))
			expect(!wc.status && wc.wr_id == np++, "%s of %lu",
			       ibv_wc_status_str(wc.status), wc.wr_id);
	}
}

static void negotiation(void)
{
	static const struct ep_attr one = { .send_wr = 128, .recv_wr = 128,
					    .ird = 1, .ord = 1 };
	static const struct ep_attr many = { .send_wr = 128, .recv_wr = 128,
					     .ird = 16, .ord = 16 };
	static const struct ep_attr few = { .send_wr = 128, .recv_wr = 128,
					    .ird = 4, .ord = 6 };
	struct ibv_mr *ma, *mp;
	struct both b;
	int i;

	part("V-QP-11 X-ENH-7 no more Reads than the peer takes");
	both_connect(&b, &listener, &where, &few, &many);
	depths(b.p.id->qp, 4, 16);
	both_close(&b);
	both_connect(&b, &listener, &where, &many, &few);
	depths(b.a.id->qp, 16, 16);
	depths(b.p.id->qp, 6, 16);
	part("V-RD-6 V-QP-18 ORD is lowered while connected");
	expect(!set_ord(b.a.id->qp, 2), "refused");
	depths(b.a.id->qp, 2, -1);
	part("V-RD-7 V-IMM-5 what the peer was told does not grow");
	expect(set_ord(b.a.id->qp, 64), "ORD raised");
	expect(set_ird(b.a.id->qp, 64), "IRD raised");
	depths(b.a.id->qp, 2, -1);
	part("V-RD-3 V-WC-15 ORD 0: a Read fails");
	ma = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	mp = ep_reg(&b.p, mem, LEN, ALL_ACCESS);
	expect(!set_ord(b.a.id->qp, 0), "refused");
	CHECK_SYS(post(&b.a, 0, IBV_WR_RDMA_READ, 0, ma, 64, mp));
	completes(b.a.scq, IBV_WC_LOC_QP_OP_ERR);
	CHECK_SYS(ibv_dereg_mr(ma));
	CHECK_SYS(ibv_dereg_mr(mp));
	both_destroy(&b);
	part("V-RD-4 V-RD-2 V-RD-12 ORD 1 and 100 Reads on each side");
	both_connect(&b, &listener, &where, &one, &one);
	depths(b.a.id->qp, 1, -1);
	ma = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	mp = ep_reg(&b.p, mem + LEN, LEN, ALL_ACCESS);
	for (i = 0; i < READS; i++) {
		CHECK_SYS(post(&b.a, i, IBV_WR_RDMA_READ, 0, ma, LEN, mp));
		CHECK_SYS(post(&b.p, i, IBV_WR_RDMA_READ, 0, mp, LEN, ma));
	}
	in_order(b.a.scq, b.p.scq, READS);
	part("V-RD-12 V-FNC-1 V-FNC-5 V-WR-10 the same with fences on all");
	for (i = 0; i < READS; i++) {
		enum ibv_wr_opcode op = i & 1 ? IBV_WR_RDMA_WRITE :
						IBV_WR_RDMA_READ;

		CHECK_SYS(post(&b.a, i, op, IBV_SEND_FENCE, ma, 4096, mp));
		CHECK_SYS(post(&b.p, i, op, IBV_SEND_FENCE, mp, 4096, ma));
	}
	in_order(b.a.scq, b.p.scq, READS);
	part("V-FNC-4 a fence without Reads in front of it");
	for (i = 0; i < 4; i++) {
		CHECK_SYS(post(&b.a, i, IBV_WR_RDMA_WRITE, IBV_SEND_FENCE, ma,
			       64, mp));
		CHECK_SYS(post(&b.p, i, IBV_WR_RDMA_WRITE, IBV_SEND_FENCE, mp,
			       64, ma));
	}
	in_order(b.a.scq, b.p.scq, 4);
	part("V-ORD-2 V-FNC-2 zero-length Reads complete in their order");
	for (i = 0; i < 8; i++) {
		CHECK_SYS(post(&b.a, i, i & 1 ? IBV_WR_RDMA_WRITE :
			       IBV_WR_RDMA_READ, i & 1 ? IBV_SEND_FENCE : 0,
			       ma, 0, mp));
		CHECK_SYS(post(&b.p, i, IBV_WR_RDMA_READ, 0, mp, 0, ma));
	}
	in_order(b.a.scq, b.p.scq, 8);
	CHECK_SYS(ibv_dereg_mr(ma));
	CHECK_SYS(ibv_dereg_mr(mp));
	both_close(&b);
}

static struct ibv_qp *make(struct ep *e, struct ibv_qp_init_attr a)
{
	a.send_cq = a.send_cq ? a.send_cq : e->scq;
	a.recv_cq = a.recv_cq ? a.recv_cq : e->rcq;
	a.qp_type = a.qp_type ? a.qp_type : IBV_QPT_RC;
	if (!a.cap.max_send_wr)
		a.cap.max_send_wr = 4;
	if (!a.cap.max_recv_wr)
		a.cap.max_recv_wr = 4;
	return ibv_create_qp(e->pd, &a);
}

static bool fails_with(void *obj, int err)
{
	return !obj && (errno == err || (err == EINVAL && errno == ENOMEM));
}

/* With rings of our own they can be changed, as the library tells. */
static void sizes(struct ep *e)
{
	bool can = raw_own_rings(e->id->verbs);
	struct ibv_qp_attr qa = {
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_init_attr ia;

	part("V-IMM-5 V-QP-20 V-RNIC-21 queue sizes are changed, or that is refused");
	expect(!(dev.device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR) == !can, "told");
	expect(ibv_modify_qp(e->id->qp, &qa, IBV_QP_CAP) == (can ? 0 : EOPNOTSUPP),
	       "%s", can ? "refused" : "accepted");
	CHECK_SYS(ibv_query_qp(e->id->qp, &qa, IBV_QP_CAP, &ia));
	expect(qa.cap.max_send_wr == (can ? 64 : e->cap.max_send_wr) &&
	       qa.cap.max_recv_wr == (can ? 64 : e->cap.max_recv_wr), "%u and %u",
	       qa.cap.max_send_wr, qa.cap.max_recv_wr);
	qa.cap.max_send_wr = dev.max_qp_wr + 1;
	expect(ibv_modify_qp(e->id->qp, &qa, IBV_QP_CAP) == (can ? EINVAL : EOPNOTSUPP),
	       "more than the device can");
}

static void refusals(struct ep *e)
{
	const struct ibv_qp_init_attr over[] = {
		{ .cap = { .max_send_wr = dev.max_qp_wr + 1 } },
		{ .cap = { .max_recv_wr = dev.max_qp_wr + 1 } },
		{ .cap = { .max_send_sge = dev.max_sge + 1 } },
		{ .cap = { .max_recv_sge = dev.max_sge + 1 } },
		{ .cap = { .max_inline_data = 4096 } },
	};
	const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_RAW_PACKET };
	struct ibv_sge many[64] = { { 0 } };
	struct ibv_send_wr *bad, wr = { .sg_list = many, .num_sge = 64,
					.opcode = IBV_WR_SEND };
	struct ibv_recv_wr *rbad, rwr = { .sg_list = many, .num_sge = 64 };
	char *ro;
	unsigned int i;

	part("V-IMM-2 V-RNIC-5 V-QP-6 more than the device can");
	for (i = 0; i < COUNT(over); i++)
		expect(fails_with(make(e, over[i]), EINVAL), "QP %u: %s", i,
		       strerror(errno));
	expect(fails_with(ibv_create_cq(e->id->verbs, dev.max_cqe + 1, NULL,
					NULL, 0), EINVAL), "CQ");
	expect(set_ord(e->id->qp, dev.max_qp_init_rd_atom + 1), "ORD");
	expect(set_ird(e->id->qp, dev.max_qp_rd_atom + 1), "IRD");
	part("V-IMM-3 V-PD-3 V-CQ-14 objects in use");
	expect(ibv_dealloc_pd(e->pd) == EBUSY, "PD");
	expect(ibv_destroy_cq(e->scq) == EBUSY, "CQ");
	sizes(e);
	part("V-IMM-9 V-MR-6 V-MR-25 S-5042-11 memory that is not there, or only read");
	expect(fails_with(ibv_reg_mr(e->pd, mem, 0, 0), EINVAL), "empty: %s",
	       strerror(errno));
	expect(fails_with(ibv_reg_mr(e->pd, (void *)4096, 4096, 0), EFAULT),
	       "nothing: %s", strerror(errno));
	expect(fails_with(ibv_reg_mr(e->pd, (void *)UINTPTR_MAX, 64, 0), EINVAL),
	       "wraps: %s", strerror(errno));
	ro = (char *)prog.text;
	expect(fails_with(ibv_reg_mr(e->pd, ro, 64, ALL_ACCESS), EFAULT),
	       "read-only: %s", strerror(errno));
	part("V-ACC-1 remote write needs local write");
	expect(fails_with(ibv_reg_mr(e->pd, mem, 64, IBV_ACCESS_REMOTE_WRITE),
			  EINVAL), "accepted");
	part("V-IMM-13 V-WR-13 too many elements");
	i = ibv_post_send(e->id->qp, &wr, &bad);
	expect(i && bad == &wr, "Send: %d", i);
	expect(ibv_post_recv(e->id->qp, &rwr, &rbad) && rbad == &rwr, "receive");
	part("V-IMM-11 V-WR-2 an unknown operation");
	wr.num_sge = 0;
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	expect(ibv_post_send(e->id->qp, &wr, &bad) && bad == &wr, "accepted");
	part("V-IMM-15 V-QP-1 C-003-11 types of queue pairs that are not for iWARP");
	for (i = 0; i < COUNT(types); i++)
		expect(fails_with(make(e, (struct ibv_qp_init_attr){
			.qp_type = types[i] }), EOPNOTSUPP), "type %d: %s",
		       types[i], strerror(errno));
}

static void attributes(struct ep *e)
{
	struct ibv_qp_attr qa = { .qp_state = IBV_QPS_SQE, .max_rd_atomic = 3 };
	struct ibv_qp *qp[8];
	struct ibv_qp_init_attr ia;
	unsigned int i, k;

	part("V-QP-9 V-QP-10 numbers are unique, new queue pairs are Idle");
	for (i = 0; i < 8; i++) {
		qp[i] = make(e, (struct ibv_qp_init_attr){ .sq_sig_all = i & 1,
			.cap = { .max_send_wr = 3, .max_recv_wr = 9,
				 .max_send_sge = 2, .max_recv_sge = 3 } });
		CHECK(qp[i], "create QP: %m");
		for (k = 0; k < i; k++)
			expect(qp[i]->qp_num != qp[k]->qp_num, "number used");
		expect(wait_state(qp[i], IBV_QPS_RESET, 0) == IBV_QPS_RESET,
		       "state");
	}
	part("V-QP-12 V-QP-2 a query tells what was made");
	CHECK_SYS(ibv_query_qp(qp[1], &qa, IBV_QP_CAP | IBV_QP_STATE, &ia));
	expect(ia.cap.max_send_wr >= 3 && ia.cap.max_recv_wr >= 9 &&
	       ia.cap.max_send_sge >= 2 && ia.cap.max_recv_sge >= 3,
	       "capabilities");
	expect(ia.sq_sig_all == 1 && ia.qp_type == IBV_QPT_RC &&
	       ia.send_cq == e->scq && ia.recv_cq == e->rcq && !ia.srq, "rest");
	part("V-QP-16 V-RD-6 depths are set in Idle");
	expect(!set_ord(qp[0], 1) && !set_ird(qp[0], 2), "refused");
	depths(qp[0], 1, 2);
	expect(!set_ord(qp[0], 5), "raised");
	depths(qp[0], 5, 2);
	part("V-QP-15 V-RNIC-27 V-QP-23 all or nothing");
	qa = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQE, .max_rd_atomic = 3 };
	expect(ibv_modify_qp(qp[0], &qa, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC),
	       "an illegal transition with a depth");
	qa = (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR, .max_rd_atomic = 200 };
	expect(ibv_modify_qp(qp[0], &qa, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC),
	       "a transition with an illegal depth");
	expect(wait_state(qp[0], IBV_QPS_RESET, 0) == IBV_QPS_RESET, "state");
	depths(qp[0], 5, 2);
	for (i = 0; i < 8; i++)
		CHECK_SYS(ibv_destroy_qp(qp[i]));
	part("V-CQ-1 V-CQ-2 V-CQ-10 sizes of completion queues");
	for (i = 1; i < 300; i += 37) {
		struct ibv_cq *cq = ibv_create_cq(e->id->verbs, i, NULL, NULL, 0);

		CHECK(cq, "CQ of %u: %m", i);
		expect(cq->cqe >= (int)i, "%d instead of %u", cq->cqe, i);
		CHECK_SYS(ibv_destroy_cq(cq));
	}
	part("V-RNIC-4 V-RNIC-10 V-RNIC-12 V-RNIC-14 V-RNIC-17 the device");
	expect(dev.max_sge >= 4 && dev.max_sge_rd == 1, "elements");
	expect(dev.max_qp_rd_atom >= 1 && dev.max_qp_init_rd_atom >= 1,
	       "read depths");
	expect(dev.max_qp > 0 && dev.max_qp_wr > 0 && dev.max_cq > 0 &&
	       dev.max_cqe > 0 && dev.max_mr > 0 && dev.max_pd > 0, "counts");
	expect(e->id->verbs->num_comp_vectors >= 1, "completion vectors");
	expect(dev.page_size_cap & sysconf(_SC_PAGESIZE), "page sizes %#lx", dev.page_size_cap);
}

static void run(void)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct both b;

	CHECK_SYS(ibv_query_device(listener.id->verbs, &dev));
	mem = ep_pages(2 * LEN);
	negotiation();
	both_connect(&b, &listener, &where, &attr, &attr);
	refusals(&b.p);
	attributes(&b.p);
	both_close(&b);
}

const struct prog prog = {
	.name = "depths",
	.text =
		"Read depths, fences and attributes; both ends are in this process.\n",
	.kind = PROG_LISTENS,
	.port = 18760,
	.limit = 120,
	.run = run,
};
