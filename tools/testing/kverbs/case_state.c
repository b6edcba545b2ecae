// SPDX-License-Identifier: GPL-2.0
/* Posts in every state, flushes in order, draining, and states by modify_qp. */
#include <linux/delay.h>
#include <linux/ktime.h>

#include "kv.h"

#define LEN 128
#define MANY 10

static int post_sends(struct kv_ep *ep, int first, int n)
{
	int rv = 0;

	for (; n-- && !rv; first++)
		rv = kv_post(ep, &(struct kv_wr) { .op = IB_WR_SEND,
						   .id = first });
	return rv;
}

static int post_recvs(struct kv_ep *ep, int first, int n)
{
	int rv = 0;

	for (; n-- && !rv; first++)
		rv = kv_recv(ep, first, 0, 0, 0);
	return rv;
}

static bool flushed(struct kv *k, struct ib_cq *cq, int first, int n)
{
	for (; n--; first++)
		if (!kv_want(k, cq, first, KV_FLUSH))
			return false;
	return true;
}

/* Idle: nothing is processed; Error: everything is flushed, in order. */
static void state_idle(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.unconnected = true });
	struct kv_ep *a;
	int rv;

	if (!p)
		return;
	a = &p->a;
	rv = post_recvs(a, 0, MANY);
	if (!kv_ok(k, !rv, "receive in Idle: %d", rv))
		return;
	/* Sends may be refused there. */
	rv = post_sends(a, 0, MANY);
	if (!kv_quiet(k, a->rcq) || !kv_quiet(k, a->scq) ||
	    !kv_ok(k, !kv_modify(a, IB_QPS_ERR), "Idle to Error") ||
	    !flushed(k, a->rcq, 0, MANY))
		return;
	if (!rv)
		flushed(k, a->scq, 0, MANY);
}

static void prepost(struct kv *k, struct kv_ep *ep)
{
	int rv = post_recvs(ep, 0, 4);

	kv_ok(k, !rv, "receive before the connection: %d", rv);
}

/* What was posted before the connection is processed when it is there. */
static void state_preposted(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.prepare = prepost });
	int i, rv;

	if (!p)
		return;
	rv = post_sends(&p->a, 0, 4);
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	for (i = 0; i < 4; i++)
		if (!kv_want(k, p->a.scq, i, KV_OK) ||
		    !kv_want(k, p->b.rcq, i, KV_OK))
			return;
}

static void state_error(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_ep *a;
	int round, rv;

	if (!p)
		return;
	a = &p->a;
	rv = post_recvs(a, 0, MANY);
	if (!kv_ok(k, !rv, "receive: %d", rv) ||
	    !kv_ok(k, !kv_modify(a, IB_QPS_ERR), "RTS to Error") ||
	    !kv_state(k, a, IB_QPS_ERR) || !flushed(k, a->rcq, 0, MANY))
		return;
	/* For as long as anybody posts. */
	for (round = 0; round < 50; round++) {
		rv = post_sends(a, 7 * round, MANY);
		rv = rv ?: post_recvs(a, 7 * round, MANY);
		if (!kv_ok(k, !rv, "post in Error: %d", rv) ||
		    !flushed(k, a->scq, 7 * round, MANY) ||
		    !flushed(k, a->rcq, 7 * round, MANY))
			return;
	}
	/* Again: a no-op that succeeds. */
	if (kv_ok(k, !kv_modify(a, IB_QPS_ERR), "Error to Error"))
		kv_is_down(k, &p->b);
}

/* Work in flight: what went through, then flushes, all in post order. */
static void state_error_in_flight(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .depth = 64 });
	struct kv_mr *from = p ? kv_region(k, &p->b, 16, KV_REMOTE) : NULL;
	struct kv_mem *to = from ? kv_mem(k, &p->a, 16 * PAGE_SIZE, 0) : NULL;
	bool over = false;
	struct ib_wc wc;
	int i, rv = 0;

	if (!to)
		return;
	for (i = 0; i < 40 && !rv; i++)
		rv = kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = i, KV_LOCAL(&p->a, to),
			.remote = from->mr->iova, .key = from->mr->rkey });
	if (!kv_ok(k, !rv, "post: %d", rv) ||
	    !kv_want(k, p->a.scq, 0, KV_OK) ||
	    !kv_ok(k, !kv_modify(&p->a, IB_QPS_ERR), "to Error"))
		return;
	for (i = 1; i < 40; i++) {
		if (!kv_wc(k, p->a.scq, &wc) ||
		    !kv_ok(k, wc.wr_id == i, "%llu for %d", wc.wr_id, i) ||
		    !kv_ok(k, (KV_FLUSH | (over ? 0 : KV_OK)) & BIT(wc.status),
			   "%s", ib_wc_status_msg(wc.status)))
			return;
		over |= wc.status != IB_WC_SUCCESS;
	}
	kv_quiet(k, p->a.scq);
}

/*
 * Closing: receives are flushed; a Send is refused, or flushed, or queued if the
 * end is Idle again by then.
 */
static void state_closing(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_ep *a;
	int rv;

	if (!p)
		return;
	a = &p->a;
	rv = post_recvs(a, 0, MANY);
	if (!kv_ok(k, !rv, "receive: %d", rv) ||
	    !kv_ok(k, !kv_modify(a, IB_QPS_SQD), "RTS to Closing") ||
	    !flushed(k, a->rcq, 0, MANY))
		return;
	rv = post_sends(a, 20, 1);
	if (kv_is_down(k, &p->b) &&
	    kv_ok(k, !kv_modify(a, IB_QPS_ERR), "to Error") && !rv)
		flushed(k, a->scq, 20, 1);
}

/* The connection ends by itself: both ends' receives are flushed. */
static void state_disconnect(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	int rv;

	if (!p)
		return;
	rv = post_recvs(&p->a, 0, MANY) ?: post_recvs(&p->b, 0, MANY);
	if (kv_ok(k, !rv, "receive: %d", rv) &&
	    kv_ok(k, !rdma_disconnect(p->a.id), "disconnect") &&
	    kv_is_down(k, &p->a) && kv_is_down(k, &p->b) &&
	    flushed(k, p->a.rcq, 0, MANY))
		flushed(k, p->b.rcq, 0, MANY);
}

/* A target's last answers: posted, disconnected, drained. They arrive. */
static void state_last_words(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	int i, rv;

	if (!p)
		return;
	rv = post_recvs(&p->b, 0, MANY) ?: post_sends(&p->a, 0, MANY);
	if (!kv_ok(k, !rv, "post: %d", rv) ||
	    !kv_ok(k, !rdma_disconnect(p->a.id), "disconnect") ||
	    !kv_ok(k, !kv_modify(&p->a, IB_QPS_ERR), "to Error"))
		return;
	for (i = 0; i < MANY; i++)
		if (!kv_want(k, p->b.rcq, i, KV_OK))
			return;
	kv_is_down(k, &p->b);
	kv_ok(k, !rdma_disconnect(p->b.id), "disconnect of the other end");
}

/* The core marks the end of the queues and waits for the mark. */
static void drain(struct kv *k, const struct kv_opts *o)
{
	struct kv_pair *p = kv_connect(k, o);
	ktime_t start;
	s64 ms;

	if (!p)
		return;
	start = ktime_get();
	ib_drain_qp(o->srq ? p->b.qp : p->a.qp);
	/* For a shared queue it waits for an event, each time. */
	if (o->srq) {
		if (!kv_ok(k, !kv_modify(&p->b, IB_QPS_INIT), "to Idle"))
			return;
		ib_drain_qp(p->b.qp);
	}
	ms = ktime_ms_delta(ktime_get(), start);
	kv_ok(k, ms < 30000, "%lld ms", ms);
}

static void drain_idle(struct kv *k)
{
	drain(k, &(struct kv_opts) { .core_cq = true });
}

static void drain_srq(struct kv *k)
{
	drain(k, &(struct kv_opts) { .core_cq = true, .srq = true });
}

static void drain_unconnected(struct kv *k)
{
	drain(k, &(struct kv_opts) { .core_cq = true, .unconnected = true });
}

/*
 * A full queue refuses; what completes and is polled makes room. A send queue takes
 * at least as many as it is said to have, a receive queue no more.
 */
static void queue_full(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .depth = 8,
							      .cqe = 128 });
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int i, rv, depth;

	if (!p || !kv_ok(k, !ib_query_qp(p->a.qp, &attr, IB_QP_CAP, &init),
			 "query"))
		return;
	depth = init.cap.max_send_wr;
	if (!kv_ok(k, depth >= 8 && depth <= 32, "depth %d", depth))
		return;
	rv = post_recvs(&p->b, 0, init.cap.max_recv_wr);
	if (!kv_ok(k, !rv, "receive: %d", rv) ||
	    !kv_ok(k, post_recvs(&p->b, 0, 1) == -ENOMEM,
		   "one receive too many"))
		return;
	/* Empty Writes, which need no receive; not polled. */
	for (i = 0; !rv && i < 8 * depth; i++)
		rv = kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_WRITE, .id = i });
	if (!kv_ok(k, rv == -ENOMEM && i > depth, "request %d: %d", i, rv))
		return;
	depth = i - 1;
	msleep(KV_QUIET_MS);
	rv = kv_post(&p->a, &(struct kv_wr) { .op = IB_WR_RDMA_WRITE,
					      .id = depth });
	if (!kv_ok(k, rv == -ENOMEM, "one too many, not polled: %d", rv) ||
	    !kv_want(k, p->a.scq, 0, KV_OK))
		return;
	rv = kv_post(&p->a, &(struct kv_wr) { .op = IB_WR_RDMA_WRITE,
					      .id = depth });
	if (!kv_ok(k, !rv, "one more after polling: %d", rv))
		return;
	/* What was refused has left nothing. */
	for (i = 1; i <= depth; i++)
		if (!kv_want(k, p->a.scq, i, KV_OK))
			return;
	kv_quiet(k, p->a.scq);
}

const struct kv_case kv_state_cases[] = {
	{ "state-idle", "V-ST-2 V-ST-7 V-ST-28 V-WC-2", state_idle },
	{ "state-preposted", "V-ST-8", state_preposted },
	{ "state-error", "V-ST-25 V-ST-28 V-ST-29 V-WC-2", state_error },
	{ "state-error-in-flight", "V-ST-28", state_error_in_flight },
	{ "state-closing", "V-ST-33 V-ST-37", state_closing },
	{ "state-disconnect", "V-ST-33", state_disconnect },
	{ "state-last-words", "V-ST-10 L-CORE-3", state_last_words },
	{ "drain-idle", "L-CORE-7", drain_idle },
	{ "drain-srq", "V-SRQ-24 L-CORE-8 T-16", drain_srq },
	{ "drain-unconnected", "L-CORE-7", drain_unconnected },
	{ "queue-full", "V-WR-5 V-WR-6 V-IMM-10 T-12 T-15", queue_full },
	{ }
};
