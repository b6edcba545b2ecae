// SPDX-License-Identifier: GPL-2.0
/*
 * limits: queues of every size from nothing to what the device reports, what
 * lies beyond, and queries that tell the truth about what was made.
 */
#include <errno.h>
#include <string.h>

#include "both.h"
#include "prog.h"

static unsigned int mtu;

static const struct ep_attr small = { .send_wr = 4, .recv_wr = 4, .ird = 3,
				      .ord = 2 };

static struct ibv_qp *make_qp(struct ep *e, uint32_t sq, uint32_t rq,
			      uint32_t sge, uint32_t inl, struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->scq, .recv_cq = e->rcq, .qp_type = IBV_QPT_RC,
		.cap = { sq, rq, sge, sge, inl },
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	*cap = a.cap;
	return qp;
}

/* As many receives fit as the capability says; rings are powers of two. */
static void fill_rq(struct ibv_qp *qp, uint32_t room)
{
	struct ibv_sge none = { 0 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &none,
					.num_sge = 1 };
	uint32_t n = 0;

	CHECK_SYS(to_state(qp, IBV_QPS_INIT));
	while (n <= 2 * room && !ibv_post_recv(qp, &wr, &bad))
		n++;
	expect(n >= room, "receive queue of %u takes %u", room, n);
	expect(n < 2 * room || room == 1, "receive queue of %u takes more", room);
}

static void queue_sizes(struct ep *e, const struct ibv_device_attr *d)
{
	const uint32_t size[] = { 0, 1, 2, 3, 7, 8, 9, 100, 1000, 4097,
				  d->max_qp_wr };
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;
	struct ibv_qp_cap cap;
	struct ibv_qp *qp;
	unsigned int i;
	uint32_t n;

	part("queue pairs of all sizes");
	for (i = 0; i < 2 * COUNT(size); i++) {
		uint32_t sq = i & 1 ? 5 : size[i / 2];
		uint32_t rq = i & 1 ? size[i / 2] : 5;

		ep_phase("queue pair of %u and %u", sq, rq);
		n = size[i / 2];
		qp = make_qp(e, sq, rq, 1, 0, &cap);
		expect(qp, "queue pair of %u and %u: %s", sq, rq,
		       strerror(errno));
		if (!qp)
			continue;
		expect(cap.max_send_wr >= sq && cap.max_recv_wr >= rq,
		       "asked for %u and %u, got %u and %u", sq, rq,
		       cap.max_send_wr, cap.max_recv_wr);
		expect(!ibv_query_qp(qp, &qa, IBV_QP_CAP, &ia) &&
		       ia.cap.max_send_wr == cap.max_send_wr &&
		       ia.cap.max_recv_wr == cap.max_recv_wr,
		       "query_qp says %u and %u for %u and %u",
		       ia.cap.max_send_wr, ia.cap.max_recv_wr,
		       cap.max_send_wr, cap.max_recv_wr);
		if (i & 1 && n)
			fill_rq(qp, cap.max_recv_wr);
		CHECK_SYS(ibv_destroy_qp(qp));
	}
	qp = make_qp(e, d->max_qp_wr + 1, 1, 1, 0, &cap);
	expect(!qp, "send queue over the limit %d is made", d->max_qp_wr);
	qp = make_qp(e, 1, d->max_qp_wr + 1, 1, 0, &cap);
	expect(!qp, "receive queue over the limit %d is made", d->max_qp_wr);
	qp = make_qp(e, 1, 1, d->max_sge + 1, 0, &cap);
	expect(!qp, "%d segments over the limit", d->max_sge + 1);
	for (n = 0; n <= (uint32_t)d->max_sge; n++) {
		qp = make_qp(e, 2, 2, n, 0, &cap);
		expect(qp && cap.max_send_sge >= n, "%u segments", n);
		if (qp)
			CHECK_SYS(ibv_destroy_qp(qp));
	}
	for (n = 0; n <= 80; n += 16) {
		qp = make_qp(e, 2, 2, 1, n, &cap);
		expect(qp && cap.max_inline_data >= n, "%u bytes inline", n);
		if (qp)
			CHECK_SYS(ibv_destroy_qp(qp));
	}
	qp = make_qp(e, 2, 2, 1, 65536, &cap);
	expect(!qp || cap.max_inline_data < 65536, "65536 bytes inline");
	if (qp)
		CHECK_SYS(ibv_destroy_qp(qp));
}

static void cq_sizes(struct ep *e, const struct ibv_device_attr *d)
{
	const int size[] = { 1, 2, 3, 63, 64, 65, 1000, 65537, d->max_cqe };
	struct ibv_cq *cq;
	unsigned int i;

	part("completion queues of all sizes");
	for (i = 0; i < COUNT(size); i++) {
		ep_phase("CQ of %d", size[i]);
		cq = ibv_create_cq(e->id->verbs, size[i], NULL, NULL, 0);
		expect(cq && cq->cqe >= size[i], "CQ of %d: %s", size[i],
		       cq ? "smaller" : strerror(errno));
		if (cq)
			CHECK_SYS(ibv_destroy_cq(cq));
	}
	/* Nothing is either refused or works; it does not fault. */
	cq = ibv_create_cq(e->id->verbs, 0, NULL, NULL, 0);
	if (cq)
		CHECK_SYS(ibv_destroy_cq(cq));
}

static void srq_sizes(struct ep *e, const struct ibv_device_attr *d)
{
	const uint32_t size[] = { 1, 2, 5, 256, 4097, d->max_srq_wr };
	struct ibv_sge none = { 0 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &none,
					.num_sge = 1 };
	struct ibv_srq *srq;
	unsigned int i;
	uint32_t n;

	part("shared receive queues of all sizes");
	/* A device without shared receive queues says so. */
	for (i = 0; d->max_srq && i < COUNT(size); i++) {
		struct ibv_srq_init_attr a = {
			.attr = { .max_wr = size[i], .max_sge = 2 },
		};

		ep_phase("SRQ of %u", size[i]);
		srq = ibv_create_srq(e->pd, &a);
		expect(srq, "SRQ of %u: %s", size[i], strerror(errno));
		if (!srq)
			continue;
		expect(a.attr.max_wr >= size[i] && a.attr.max_sge >= 2,
		       "SRQ of %u comes with %u", size[i], a.attr.max_wr);
		for (n = 0; n < size[i] && n < 5000; n++)
			if (ibv_post_srq_recv(srq, &wr, &bad))
				break;
		expect(n == size[i] || n == 5000, "SRQ of %u takes %u",
		       size[i], n);
		a.attr.srq_limit = 1;
		expect(!ibv_modify_srq(srq, &a.attr, IBV_SRQ_LIMIT),
		       "SRQ limit is refused");
		CHECK_SYS(ibv_destroy_srq(srq));
	}
}

static void device_truth(struct ep *e, const struct ibv_device_attr *d)
{
	static const unsigned int bytes[] = { 0, 256, 512, 1024, 2048, 4096 };
	struct ibv_device *dev = e->id->verbs->device;
	const union ibv_gid zero = { { 0 } };
	struct ibv_port_attr p;
	union ibv_gid gid;

	part("queries of the device and its port");
	expect(dev->transport_type == IBV_TRANSPORT_IWARP &&
	       dev->node_type == IBV_NODE_RNIC, "not an iWARP device");
	expect(d->phys_port_cnt == 1, "%u ports", d->phys_port_cnt);
	expect(d->max_sge >= 6 && d->max_qp_wr > 0 && d->max_cqe > 0 &&
	       d->max_mr > 0 && d->max_qp > 0 && d->max_sge_rd >= 1 &&
	       d->max_qp_rd_atom >= 1, "device limits");
	expect(d->node_guid, "no node GUID");
	CHECK_SYS(ibv_query_port(e->id->verbs, 1, &p));
	expect(p.state == IBV_PORT_ACTIVE, "port state %d", p.state);
	expect(p.max_msg_sz == UINT32_MAX, "max_msg_sz %u", p.max_msg_sz);
	expect(p.active_mtu >= IBV_MTU_256 && p.active_mtu <= p.max_mtu,
	       "active MTU %d, max %d", p.active_mtu, p.max_mtu);
	if (mtu && p.active_mtu <= IBV_MTU_4096)
		expect(bytes[p.active_mtu] <= mtu,
		       "active MTU %u over an interface of %u",
		       bytes[p.active_mtu], mtu);
	expect(p.gid_tbl_len >= 1, "no GID");
	expect(!ibv_query_gid(e->id->verbs, 1, 0, &gid) &&
	       memcmp(&gid, &zero, sizeof(gid)), "GID 0 is zero");
	expect(ibv_query_gid(e->id->verbs, 1, p.gid_tbl_len, &gid),
	       "a GID behind the end of the table");
	expect(ibv_query_port(e->id->verbs, 2, &p), "a second port");
}

static void qp_truth(struct ep *e)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	part("queries of a connected queue pair, %s",
	     pair.server ? "server" : "client");
	CHECK_SYS(ibv_query_qp(e->id->qp, &qa, IBV_QP_STATE | IBV_QP_CAP |
			       IBV_QP_MAX_QP_RD_ATOMIC |
			       IBV_QP_MAX_DEST_RD_ATOMIC, &ia));
	expect(!qa.qkey && !qa.rq_psn && !qa.sq_psn && !qa.dest_qp_num &&
	       !qa.ah_attr.dlid && !qa.ah_attr.is_global && !qa.min_rnr_timer &&
	       !qa.alt_timeout, "what iWARP does not have is not zero");
	expect(qa.qp_state == IBV_QPS_RTS, "state %d", qa.qp_state);
	expect(ia.qp_type == IBV_QPT_RC, "type %d", ia.qp_type);
	expect(ia.cap.max_send_wr == e->cap.max_send_wr &&
	       ia.cap.max_recv_wr == e->cap.max_recv_wr &&
	       ia.cap.max_send_sge == e->cap.max_send_sge &&
	       ia.cap.max_inline_data == e->cap.max_inline_data,
	       "capabilities differ from those at creation");
	/* Both sides: ORD 2, IRD 3 (T-30: max_rd_atomic is the ORD). */
	expect(qa.max_rd_atomic == 2, "ORD %u instead of 2", qa.max_rd_atomic);
	/* The IRD may have come down to what the peer will ever use. */
	expect(qa.max_dest_rd_atomic == 3 || qa.max_dest_rd_atomic == 2,
	       "IRD %u instead of 3", qa.max_dest_rd_atomic);
}

static void run(void)
{
	struct ibv_device_attr d;
	struct ep e;

	ep_phase("connect");
	ep_open(&e, &pair, &listener, &where, &small);
	qp_truth(&e);
	if (!pair.server) {
		CHECK_SYS(ibv_query_device(e.id->verbs, &d));
		device_truth(&e, &d);
		queue_sizes(&e, &d);
		cq_sizes(&e, &d);
		srq_sizes(&e, &d);
	}
	ep_sync(&pair);
	if (!pair.server)
		rdma_disconnect(e.id);
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	ep_destroy(&e);
}

static const struct opt options[] = {
	{ "mtu", "BYTES", "of the network interface under the device (0: any)",
	  .num = &mtu, .max = 1 << 20 },
	{ }
};

const struct prog prog = {
	.name = "limits",
	.text =
		"Creates queues of all sizes and compares queries with what was asked for.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18680,
	.limit = 60,
	.run = run,
};
