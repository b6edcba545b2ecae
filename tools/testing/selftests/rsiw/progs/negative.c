// SPDX-License-Identifier: GPL-2.0
/*
 * negative: what an iWARP device cannot do, or is asked for wrongly, ends in
 * a clean error at once, and what goes on beside it is not disturbed.
 */
#include <errno.h>
#include <string.h>

#include "prog.h"

#define LEN 4096
#define DEPTH 4

static void verdict(const char *what, bool good, const char *detail)
{
	part("%s", what);
	expect(good, "%s", detail);
}

/* Refused with one of "not supported", for a thing that does not exist. */
static void unsupported(const char *what, const void *obj)
{
	int err = errno;

	verdict(what, !obj && (err == EOPNOTSUPP || err == ENOSYS),
		obj ? "created" : strerror(err));
}

static void refused(const char *what, int rv)
{
	verdict(what, rv != 0, rv ? strerror(rv < 0 ? errno : rv) : "accepted");
}

static void qp_types(struct ep *e)
{
	static const struct { const char *name; enum ibv_qp_type type; } t[] = {
		{ "XRC send queue pair", IBV_QPT_XRC_SEND },
		{ "raw packet queue pair", IBV_QPT_RAW_PACKET },
	};
	struct ibv_qp_init_attr_ex xrc = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
	};
	unsigned int i;

	for (i = 0; i < COUNT(t); i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = e->scq, .recv_cq = e->rcq,
			.cap = { 4, 4, 1, 1, 0 }, .qp_type = t[i].type,
		};

		errno = 0;
		unsupported(t[i].name, ibv_create_qp(e->pd, &a));
	}
	errno = 0;
	unsupported("XRC domain", ibv_open_xrcd(e->id->verbs, &xa));
	errno = 0;
	unsupported("XRC receive queue pair",
		    ibv_create_qp_ex(e->id->verbs, &xrc));
}

static void objects(struct ep *e)
{
	struct ibv_ah_attr ah = { .port_num = 1 };
	struct ibv_device_attr attr;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	errno = 0;
	unsupported("memory window", ibv_alloc_mw(e->pd, IBV_MW_TYPE_1));
	errno = 0;
	verdict("address handle", !ibv_create_ah(e->pd, &ah), strerror(errno));
	mr = ibv_reg_mr(e->pd, (void *)(UINTPTR_MAX - LEN), 4 * LEN, 0);
	verdict("region across the end of memory", !mr, strerror(errno));
	cq = ibv_create_cq(e->id->verbs, 4, NULL, NULL, 100000);
	verdict("completion vector out of range", !cq, strerror(errno));
	CHECK_SYS(ibv_query_device(e->id->verbs, &attr));
	verdict("atomics are not announced", attr.atomic_cap == IBV_ATOMIC_NONE,
		"atomic_cap");
	verdict("memory windows are not announced V-RNIC-20", attr.max_mw == 0,
		"max_mw");
}

static int post(struct ep *e, struct ibv_mr *mr, enum ibv_wr_opcode op,
		unsigned int sges, uint32_t len, int flags)
{
	struct ibv_send_wr *bad, wr = { .opcode = op, .num_sge = sges,
					.send_flags = flags };
	struct ibv_sge sge[16];
	unsigned int i;

	for (i = 0; i < sges; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)mr->addr, len, mr->lkey };
	wr.sg_list = sge;
	return ibv_post_send(e->id->qp, &wr, &bad);
}

static void requests(struct ep *e, struct ibv_mr *mr)
{
	struct ibv_recv_wr *bad, rwr = { .num_sge = 7 };
	struct ibv_sge sge[7] = { { 0 } };

	refused("atomic fetch and add",
		post(e, mr, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 0));
	refused("atomic compare and swap",
		post(e, mr, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 8, 0));
	refused("send with immediate",
		post(e, mr, IBV_WR_SEND_WITH_IMM, 1, 8, 0));
	refused("write with immediate",
		post(e, mr, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 8, 0));
	refused("send of 7 segments V-WR-13 V-IMM-13",
		post(e, mr, IBV_WR_SEND, 7, 8, 0));
	refused("81 bytes inline",
		post(e, mr, IBV_WR_SEND, 1, 81, IBV_SEND_INLINE));
	rwr.sg_list = sge;
	refused("receive of 7 segments V-WR-13 V-IMM-13",
		ibv_post_recv(e->id->qp, &rwr, &bad));
}

/* By hand, as ibv_rc_pingpong does it: not possible on iWARP (T-45). */
static void by_hand(struct ep *e, struct ibv_mr *mr)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ep_qp(e->pd, e->scq, e->rcq, 4);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	int rv;

	ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		      IBV_QP_ACCESS_FLAGS);
	/* It may be queued (V-ST-2); nothing comes of it, see below. */
	(void)ibv_post_send(qp, &wr, &bad);
	a.qp_state = IBV_QPS_RTR;
	rv = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV |
			   IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	rv = rv ? rv : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT |
				     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	refused("connection by modify_qp alone V-QP-17 V-ST-3", rv);
	a.qp_state = 77;
	refused("unknown state", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	CHECK_SYS(ibv_destroy_qp(qp));
	verdict("no completion of a destroyed QP V-CQ-29",
		ibv_poll_cq(e->scq, 1, &wc) == 0, "none");
	(void)mr;
}

/* The connection is as good as before. */
static void still_works(struct ep *e, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	if (pair.server) {
		CHECK(ep_poll(e->rcq, &wc, EP_EVENT_MS) &&
		      wc.status == IBV_WC_SUCCESS && wc.byte_len == 100,
		      "the connection suffered");
	} else {
		CHECK(!ep_post_send(e, 5, IBV_WR_SEND, mr->addr, 100, mr->lkey,
				    0, 0), "post send");
		CHECK(ep_poll(e->scq, &wc, EP_EVENT_MS), "no completion");
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5,
		      "the connection suffered: request %lu is %s", wc.wr_id,
		      ibv_wc_status_str(wc.status));
		verdict("the connection beside it", true, "works");
	}
}

static void run(void)
{
	const struct ep_attr attr = { .send_wr = DEPTH, .recv_wr = DEPTH,
				      .send_sge = 6, .recv_sge = 6,
				      .inline_data = 80 };
	void *buf = ep_pages(LEN);
	struct ibv_mr *mr;
	unsigned int i;
	struct ep e;

	ep_phase("connect");
	ep_open(&e, &pair, &listener, &where, &attr);
	mr = ep_reg(&e, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < DEPTH && pair.server; i++)
		CHECK(!ep_post_recv(&e, i, buf, LEN, mr->lkey), "receive");
	ep_sync(&pair);
	if (!pair.server) {
		qp_types(&e);
		objects(&e);
		by_hand(&e, mr);
		requests(&e, mr);
	}
	still_works(&e, mr);
	ep_sync(&pair);
	if (!pair.server)
		rdma_disconnect(e.id);
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

const struct prog prog = {
	.name = "negative",
	.text = "Asks the device for what it must refuse.\n",
	.kind = PROG_PAIR,
	.port = 18670,
	.limit = 60,
	.run = run,
};
