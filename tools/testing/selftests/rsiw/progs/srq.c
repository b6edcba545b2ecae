// SPDX-License-Identifier: GPL-2.0
/*
 * srq: shared receive queues: sizes, limits, protection domains, many QPs on
 * one queue, and what becomes of it when one of them fails.
 */
#include <errno.h>
#include <string.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

#define QPS 6
#define DEPTH 64
#define MSG 64
#define BURST 1000

static struct ibv_context *ctx;
static struct ibv_device_attr dev;
static char *buf;			/* DEPTH receives, then one Send */

static struct ibv_srq *make(struct ibv_pd *pd, uint32_t wr, uint32_t sge,
			    uint32_t limit, struct ibv_srq_attr *got)
{
	struct ibv_srq_init_attr a = {
		.attr = { .max_wr = wr, .max_sge = sge, .srq_limit = limit },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	if (got)
		*got = a.attr;
	return srq;
}

static int post(struct ibv_srq *srq, uint64_t id, void *at, uint32_t len,
		uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)at, len, lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge,
					.num_sge = 1 };

	return ibv_post_srq_recv(srq, &wr, &bad);
}

/* With rings of our own there can be one, as the library tells. `got` is what there is. */
static void other_depth(struct ibv_srq *srq, struct ibv_srq_attr *got)
{
	struct ibv_srq_attr now = { .max_wr = 1024, .srq_limit = 1 };
	bool can = raw_own_rings(ctx);
	int err;

	part("V-SRQ-5 V-RNIC-21 another depth, or it is refused and changes nothing");
	expect(!(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) == !can, "told");
	err = ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	expect(err == (can ? 0 : EOPNOTSUPP), "%s", strerror(err));
	CHECK_SYS(raw_query_srq(srq, &now));
	if (can)
		*got = now;
	expect(now.max_wr == (can ? 1024 : got->max_wr) && now.srq_limit == (can ? 1 : 3),
	       "%u, limit %u", now.max_wr, now.srq_limit);
}

static void creation(void)
{
	const uint32_t size[] = { 1, 2, 3, 100, 4097 };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq_attr got, now;
	struct ibv_srq *srq;
	unsigned int i, n;

	part("V-RNIC-9 V-RNIC-23 the device has shared receive queues");
	expect(dev.max_srq > 0 && dev.max_srq_wr > 0 && dev.max_srq_sge >= 4,
	       "%d of %d and %d elements", dev.max_srq, dev.max_srq_wr,
	       dev.max_srq_sge);
	part("V-SRQ-3 at least what was asked for, or an error");
	for (i = 0; i < COUNT(size); i++) {
		srq = make(pd, size[i], 3, 0, &got);
		CHECK(srq, "SRQ of %u: %m", size[i]);
		expect(got.max_wr >= size[i] && got.max_sge >= 3,
		       "%u becomes %u", size[i], got.max_wr);
		CHECK_SYS(ibv_destroy_srq(srq));
	}
	srq = make(pd, dev.max_srq_wr, dev.max_srq_sge, 0, &got);
	expect(srq, "the maximum: %s", strerror(errno));
	if (srq)
		CHECK_SYS(ibv_destroy_srq(srq));
	expect(!make(pd, dev.max_srq_wr + 1, 1, 0, NULL), "more than the maximum");
	expect(!make(pd, 8, dev.max_srq_sge + 1, 0, NULL), "too many elements");
	part("V-SRQ-20 a limit above the depth is refused");
	expect(!make(pd, 8, 1, 9, NULL), "at creation");
	srq = make(pd, 8, 2, 3, &got);
	CHECK(srq, "SRQ: %m");
	now.srq_limit = got.max_wr + 1;
	expect(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT), "by modification");
	part("V-SRQ-4 a query tells depth, elements and limit");
	CHECK_SYS(raw_query_srq(srq, &now));
	expect(now.max_wr == got.max_wr && now.max_sge == got.max_sge &&
	       now.srq_limit == 3, "%u %u %u", now.max_wr, now.max_sge,
	       now.srq_limit);
	other_depth(srq, &got);
	part("V-SRQ-9 no more receives than slots");
	for (n = 0; n <= got.max_wr && !post(srq, n, buf, 0, 0); n++)
		;
	expect(n == got.max_wr, "%u of %u", n, got.max_wr);
	part("V-PD-3 a PD with a shared receive queue stays");
	expect(ibv_dealloc_pd(pd) == EBUSY, "deallocated");
	part("V-SRQ-6 destroyed with receives posted");
	expect(!ibv_destroy_srq(srq), "%s", strerror(errno));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

/* A connection whose passive end receives from `srq`. */
static void join(struct both *b, struct ibv_srq *srq, struct ibv_pd *pd)
{
	const struct ep_attr active = { .send_wr = 64, .recv_wr = 1 };
	const struct ep_attr passive = { .send_wr = 1, .recv_wr = 1 << 30,
					 .cqe = 2 * DEPTH, .srq = srq,
					 .pd = pd };

	both_connect(b, &listener, &where, &active, &passive);
}

static void send_one(struct both *b, uint64_t id, uint32_t lkey, uint32_t val)
{
	uint32_t *at = (uint32_t *)(buf + DEPTH * MSG);

	*at = val;
	CHECK_SYS(ep_post_send(&b->a, id, IBV_WR_SEND, at, MSG, lkey, 0, 0));
	ep_done(b->a.scq, IBV_WC_SUCCESS);
}

/* Every QP sends as fast as there are receives. */
static void burst(struct both *b, struct ibv_mr **src, struct ibv_srq *srq,
		  struct ibv_mr *mr)
{
	unsigned int sent[QPS] = { 0 }, done[QPS] = { 0 }, got[QPS] = { 0 };
	unsigned int i, left = DEPTH, total = 0;
	struct ibv_wc wc;

	while (total < QPS * BURST) {
		for (i = 0; i < QPS && left; i++) {
			if (sent[i] == BURST || sent[i] - done[i] >= 60)
				continue;
			CHECK_SYS(ep_post_send(&b[i].a, i, IBV_WR_SEND,
					       buf + DEPTH * MSG, MSG,
					       src[i]->lkey, 0, 0));
			sent[i]++;
			left--;
		}
		for (i = 0; i < QPS; i++) {
			while (ep_poll(b[i].a.scq, &wc, 0))
				done[i]++;
			while (ep_poll(b[i].p.rcq, &wc, 0)) {
				if (!expect(!wc.status, "receive: %s",
					    ibv_wc_status_str(wc.status)))
					return;
				CHECK_SYS(post(srq, wc.wr_id,
					       buf + wc.wr_id * MSG, MSG,
					       mr->lkey));
				left++;
				got[i]++;
				total++;
			}
		}
	}
	for (i = 0; i < QPS; i++) {
		expect(got[i] == BURST, "QP %u receives %u", i, got[i]);
		while (done[i] < sent[i] && ep_poll(b[i].a.scq, &wc, 1000))
			done[i]++;
	}
}

static void sharing(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 0, NULL);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, (DEPTH + 1) * MSG,
				       IBV_ACCESS_LOCAL_WRITE);
	unsigned int i, round, used[DEPTH] = { 0 };
	struct ibv_mr *src[QPS];
	struct both b[QPS];
	struct ibv_wc wc;

	CHECK(srq && mr, "SRQ or MR: %m");
	part("V-QP-3 V-SRQ-7 receive depth and elements of the QP are ignored");
	for (i = 0; i < QPS; i++) {
		join(&b[i], srq, pd);
		src[i] = ep_reg(&b[i].a, buf, (DEPTH + 1) * MSG, 0);
	}
	expect(!b[0].p.cap.max_recv_wr, "depth %u", b[0].p.cap.max_recv_wr);
	part("V-SRQ-6 not destroyed while QPs use it");
	expect(ibv_destroy_srq(srq) == EBUSY, "destroyed");
	part("V-SRQ-11 V-SRQ-13 each message one receive, in order, at its QP");
	for (i = 0; i < DEPTH; i++)
		CHECK_SYS(post(srq, i, buf + i * MSG, MSG, mr->lkey));
	for (round = 0; round < 40; round++) {
		for (i = 0; i < QPS; i++)
			send_one(&b[i], round, src[i]->lkey, i << 16 | round);
		for (i = 0; i < QPS; i++) {
			uint32_t *got;

			CHECK(ep_poll(b[i].p.rcq, &wc, EP_EVENT_MS), "no receive");
			CHECK(!wc.status, "receive: %s",
			      ibv_wc_status_str(wc.status));
			CHECK(wc.wr_id < DEPTH, "wr_id %lu", wc.wr_id);
			got = (uint32_t *)(buf + wc.wr_id * MSG);
			expect(*got == (i << 16 | round), "QP %u round %u gets %x",
			       i, round, *got);
			expect(wc.qp_num == b[i].p.id->qp->qp_num, "QP number");
			used[wc.wr_id]++;
			CHECK_SYS(post(srq, wc.wr_id, got, MSG, mr->lkey));
		}
	}
	part("V-SRQ-14 all QPs at once");
	burst(b, src, srq, mr);
	part("V-SRQ-14 one QP may use up all receives");
	for (i = 0; i < DEPTH; i++) {
		send_one(&b[1], i, src[1]->lkey, i);
		CHECK(ep_poll(b[1].p.rcq, &wc, EP_EVENT_MS), "no receive");
		expect(!wc.status, "receive %u: %s", i,
		       ibv_wc_status_str(wc.status));
	}
	part("V-SRQ-15 without a receive the stream ends, the queue lives");
	async_drain(ctx);
	send_one(&b[2], 0, src[2]->lkey, 0);
	expect(wait_state(b[2].p.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "state");
	expect(!ep_poll(b[2].p.rcq, &wc, 50), "a completion");
	part("V-SRQ-17 the others go on");
	CHECK_SYS(post(srq, 7, buf, MSG, mr->lkey));
	send_one(&b[3], 0, src[3]->lkey, 99);
	expect(ep_poll(b[3].p.rcq, &wc, EP_EVENT_MS) && !wc.status &&
	       wc.wr_id == 7, "no receive at another QP");
	for (i = 0; i < QPS; i++) {
		CHECK_SYS(ibv_dereg_mr(src[i]));
		both_destroy(&b[i]);
	}
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void domains(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 0, NULL);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, (DEPTH + 1) * MSG,
				       IBV_ACCESS_LOCAL_WRITE), *own, *src;
	struct both b, fine;
	struct ibv_wc wc;

	CHECK(srq && mr, "SRQ or MR: %m");
	part("V-PD-7 T-38 receives are checked by the queue's PD, not the QP's");
	join(&b, srq, NULL);
	own = ep_reg(&b.p, buf, DEPTH * MSG, IBV_ACCESS_LOCAL_WRITE);
	src = ep_reg(&b.a, buf, (DEPTH + 1) * MSG, 0);
	CHECK_SYS(post(srq, 1, buf, MSG, mr->lkey));
	CHECK_SYS(post(srq, 2, buf, MSG, own->lkey));
	send_one(&b, 1, src->lkey, 0x1234);
	expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS) && !wc.status &&
	       *(uint32_t *)buf == 0x1234, "region of the queue's PD");
	send_one(&b, 2, src->lkey, 0x5678);
	CHECK(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no completion");
	expect(wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 2,
	       "region of the QP's PD: %s", ibv_wc_status_str(wc.status));
	expect(*(uint32_t *)buf == 0x1234, "placed all the same");
	CHECK_SYS(ibv_dereg_mr(own));
	CHECK_SYS(ibv_dereg_mr(src));
	both_destroy(&b);
	part("V-SRQ-16 V-STAG0-3 T-38 no STag 0 for the queue pair of a process");
	join(&b, srq, pd);
	join(&fine, srq, pd);
	src = ep_reg(&b.a, buf, (DEPTH + 1) * MSG, 0);
	own = ep_reg(&fine.a, buf, (DEPTH + 1) * MSG, 0);
	CHECK_SYS(post(srq, 3, buf, MSG, 0));
	send_one(&b, 3, src->lkey, 0x9abc);
	CHECK(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no completion");
	expect(wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 3, "%s",
	       ibv_wc_status_str(wc.status));
	expect(*(uint32_t *)buf == 0x1234, "placed all the same");
	CHECK_SYS(post(srq, 4, buf, MSG, mr->lkey));
	send_one(&fine, 4, own->lkey, 0xdef0);
	expect(ep_poll(fine.p.rcq, &wc, EP_EVENT_MS) && !wc.status &&
	       *(uint32_t *)buf == 0xdef0, "another QP of the queue");
	CHECK_SYS(ibv_dereg_mr(own));
	CHECK_SYS(ibv_dereg_mr(src));
	both_destroy(&fine);
	both_destroy(&b);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void limit(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 4, NULL);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, (DEPTH + 1) * MSG,
				       IBV_ACCESS_LOCAL_WRITE), *src;
	struct ibv_async_event ev;
	struct ibv_srq_attr now;
	struct ibv_wc wc;
	struct both b;
	int i;

	CHECK(srq && mr, "SRQ or MR: %m");
	join(&b, srq, pd);
	src = ep_reg(&b.a, buf, (DEPTH + 1) * MSG, 0);
	async_drain(ctx);
	part("V-SRQ-19 S-5042-12 one event below the limit, and who took what");
	for (i = 0; i < 8; i++)
		CHECK_SYS(post(srq, i, buf, MSG, mr->lkey));
	for (i = 0; i < 6; i++) {
		send_one(&b, i, src->lkey, i);
		CHECK(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no receive");
		expect(wc.qp_num == b.p.id->qp->qp_num, "who took %d", i);
		if (i < 4)
			expect(!async_event(ctx, &ev, 20), "early: %d left", 7 - i);
		else if (i == 4)
			expect(async_event(ctx, &ev, EP_EVENT_MS) &&
			       ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
			       ev.element.srq == srq, "no event with 3 left");
		else
			expect(!async_event(ctx, &ev, 50), "a second event");
	}
	part("V-SRQ-4 the limit reads as 0 once it was reached");
	CHECK_SYS(raw_query_srq(srq, &now));
	expect(!now.srq_limit, "limit %u", now.srq_limit);
	part("V-SRQ-19 armed again by modification, also twice");
	now.srq_limit = 3;
	CHECK_SYS(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT));
	now.srq_limit = 2;
	CHECK_SYS(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT));
	send_one(&b, 6, src->lkey, 6);
	CHECK(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no receive");
	expect(async_event(ctx, &ev, EP_EVENT_MS) &&
	       ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "no event");
	expect(!async_event(ctx, &ev, 50), "two events");
	part("V-SRQ-21 the limit event disturbs nothing");
	send_one(&b, 7, src->lkey, 7);
	completes(b.p.rcq, IBV_WC_SUCCESS);
	CHECK_SYS(ibv_dereg_mr(src));
	both_close(&b);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

/* Events of `qp` of a type: waits for one, and then a while for more. */
static unsigned int events(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event ev;
	unsigned int n = 0;

	while (async_event(ctx, &ev, n ? 300 : EP_EVENT_MS))
		n += ev.event_type == type && ev.element.qp == qp;
	return n;
}

/*
 * A long message for receive `id`, the first of three, ends with its connection.
 * False if all of it was there by then.
 */
static bool cut_short(struct ibv_srq *srq, struct ibv_pd *pd, struct ibv_mr *mr,
		      uint64_t id)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct ibv_async_event ev;
	struct ibv_mr *src;
	struct ibv_wc wc;
	struct both b;
	bool got;

	join(&b, srq, pd);
	async_drain(ctx);
	src = ep_reg(&b.a, mr->addr, mr->length, 0);
	/* Tells that the receive is taken. */
	CHECK_SYS(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, mr->addr, mr->length,
			       src->lkey, 0, 0));
	CHECK(async_event(ctx, &ev, EP_EVENT_MS) &&
	      ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "nothing is taken");
	CHECK_SYS(to_state(b.a.id->qp, IBV_QPS_ERR));
	expect(wait_state(b.p.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "state");
	got = ep_poll(b.p.rcq, &wc, EP_EVENT_MS);
	expect(got && wc.wr_id == id &&
	       (!wc.status || wc.status == IBV_WC_WR_FLUSH_ERR),
	       "no flushed receive");
	expect(!ep_poll(b.p.rcq, &(struct ibv_wc){ 0 }, 50), "a second one");
	expect(events(b.p.id->qp, IBV_EVENT_QP_LAST_WQE_REACHED) == 1,
	       "not one LAST_WQE_REACHED");
	CHECK_SYS(ibv_dereg_mr(src));
	both_destroy(&b);
	return !got || wc.status;
}

/* To Error, again and again; how many events that makes. */
static unsigned int to_error(struct ibv_qp *qp)
{
	unsigned int i;

	for (i = 0; i < 50; i++) {
		CHECK_SYS(to_state(qp, IBV_QPS_ERR));
		if (i < 49)
			CHECK_SYS(to_state(qp, IBV_QPS_INIT));
	}
	return events(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

static void repetition(void)
{
	const struct ep_attr active = { .send_wr = 1, .recv_wr = 1 };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 0, NULL);
	const struct ep_attr passive = { .send_wr = 1, .srq = srq, .pd = pd };
	struct rdma_cm_id *id;
	struct both b = { 0 };

	CHECK(srq, "SRQ: %m");
	part("V-SRQ-24 LAST_WQE_REACHED once before the QP is connected");
	b.a.ec = rdma_create_event_channel();
	b.p.ec = rdma_create_event_channel();
	CHECK(b.a.ec && b.p.ec, "event channel: %m");
	ep_setup(&b.a, active_id(b.a.ec, &listener, &where), &active);
	CHECK_SYS(rdma_connect(b.a.id, &b.a.param));
	id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK_SYS(rdma_migrate_id(id, b.p.ec));
	ep_setup(&b.p, id, &passive);
	async_drain(ctx);
	expect(to_error(id->qp) == 1, "not one event");
	part("V-SRQ-24 once more after it was connected");
	CHECK_SYS(to_state(id->qp, IBV_QPS_INIT));
	CHECK_SYS(rdma_accept(id, &b.p.param));
	ep_expect(b.p.ec, RDMA_CM_EVENT_ESTABLISHED);
	ep_expect(b.a.ec, RDMA_CM_EVENT_ESTABLISHED);
	expect(to_error(id->qp) == 1, "not one event");
	both_destroy(&b);
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

/* Either end closes the connection in good order; then the QP goes to Error. */
static void closing(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 0, NULL);
	struct both b;
	int own;

	CHECK(srq, "SRQ: %m");
	part("V-SRQ-24 V-ST-36 LAST_WQE_REACHED once for a QP whose connection was closed");
	for (own = 0; own < 2; own++) {
		join(&b, srq, pd);
		async_drain(ctx);
		CHECK_SYS(rdma_disconnect(own ? b.p.id : b.a.id));
		expect(events(b.p.id->qp, IBV_EVENT_QP_LAST_WQE_REACHED) == 1,
		       "not one event, own %d", own);
		expect(wait_state(b.p.id->qp, IBV_QPS_INIT, EP_EVENT_MS) ==
		       IBV_QPS_INIT, "state");
		CHECK_SYS(to_state(b.p.id->qp, IBV_QPS_ERR));
		expect(!async_event(ctx, &(struct ibv_async_event){ 0 }, 300),
		       "one more event, own %d", own);
		both_destroy(&b);
	}
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void failures(void)
{
	const size_t big = 8 << 20;
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = make(pd, DEPTH, 1, 0, NULL);
	char *mem = ep_pages(big);
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, big, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *src;
	struct ibv_wc wc;
	struct both b;
	int i, first;

	CHECK(srq && mr, "SRQ or MR: %m");
	for (i = 0; i < 3; i++)
		CHECK_SYS(post(srq, i, mem, big, mr->lkey));
	part("V-SRQ-24 T-16 LAST_WQE_REACHED once for a QP that enters error");
	join(&b, srq, pd);
	async_drain(ctx);
	CHECK_SYS(to_state(b.p.id->qp, IBV_QPS_ERR));
	CHECK_SYS(to_state(b.p.id->qp, IBV_QPS_ERR));
	expect(events(b.p.id->qp, IBV_EVENT_QP_LAST_WQE_REACHED) == 1,
	       "not one event");
	part("V-SRQ-17 receives in the queue are not flushed");
	expect(!ep_poll(b.p.rcq, &wc, 50), "%s", ibv_wc_status_str(wc.status));
	both_destroy(&b);
	part("V-SRQ-18 the receive that a QP has taken is flushed with it");
	for (first = 0; !cut_short(srq, pd, mr, first) && first < 10; first++)
		CHECK_SYS(post(srq, first + 3, mem, big, mr->lkey));
	expect(first < 10, "all messages came whole");
	part("V-SRQ-17 the others are there for the next QP");
	join(&b, srq, pd);
	src = ep_reg(&b.a, buf, (DEPTH + 1) * MSG, 0);
	for (i = 1; i < 3; i++) {
		send_one(&b, 1, src->lkey, 1);
		expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS) && !wc.status &&
		       wc.wr_id == (uint64_t)first + i, "receive %d", i);
	}
	CHECK_SYS(ibv_dereg_mr(src));
	both_close(&b);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void run(void)
{
	ctx = listener.id->verbs;
	CHECK_SYS(ibv_query_device(ctx, &dev));
	buf = ep_pages((DEPTH + 1) * MSG);
	creation();
	sharing();
	domains();
	limit();
	repetition();
	closing();
	failures();
}

const struct prog prog = {
	.name = "srq",
	.text = "Shared receive queues; both ends are in this process.\n",
	.kind = PROG_LISTENS,
	.port = 18700,
	.limit = 60,
	.run = run,
};
