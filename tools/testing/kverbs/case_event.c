// SPDX-License-Identifier: GPL-2.0
/* Asynchronous events: each at its own cause, and only there. */
#include "kv.h"

#define LEN 64

static int total(const struct kv_ep *ep)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < ARRAY_SIZE(ep->events); i++)
		n += atomic_read(&ep->events[i]);
	return n;
}

/* After a while: @n of the event, and no other. */
static bool events(struct kv *k, struct kv_ep *ep, enum ib_event_type event,
		   int n)
{
	return kv_events(k, ep, event, n) &&
	       kv_ok(k, total(ep) == n, "%d events in all", total(ep));
}

static bool no_events(struct kv *k, struct kv_ep *ep)
{
	return events(k, ep, IB_EVENT_QP_FATAL, 0);
}

/* An access of the peer that the region does not grant; errors.c has all kinds of them. */
static void event_key(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, 1, KV_REMOTE) : NULL;
	struct kv_mem *m = mr ? kv_mem(k, &p->a, LEN, 1) : NULL;

	if (m && kv_ok(k, !kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_WRITE, .id = 1, KV_LOCAL(&p->a, m),
			.remote = mr->mr->iova, .key = mr->mr->rkey ^ 0x5a5a5a00 }), "post"))
		/* Here by the check, there by the Terminate. */
		if (events(k, &p->b, IB_EVENT_QP_ACCESS_ERR, 1))
			events(k, &p->a, IB_EVENT_QP_ACCESS_ERR, 1);
}

/* What a completion tells is not told again. */
static void event_not_twice(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);

	if (p && kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .sges = 1,
			.sge = { { 0, 16, 0x5a5a5a00 } } }, KV_PROT) &&
	    kv_is_down(k, &p->a))
		no_events(k, &p->a);
}

/* Flushing and closing are no events of a queue pair. */
static void event_none(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_pair *q = p ? kv_connect(k, NULL) : NULL;

	if (!q || !kv_ok(k, !kv_recv(&p->a, 1, 0, 0, 0), "receive") ||
	    !kv_ok(k, !kv_modify(&p->a, IB_QPS_ERR), "to Error") ||
	    !kv_want(k, p->a.rcq, 1, KV_FLUSH) ||
	    !kv_ok(k, !rdma_disconnect(q->a.id), "disconnect") ||
	    !kv_is_down(k, &q->a) || !kv_is_down(k, &q->b))
		return;
	if (no_events(k, &p->a) && no_events(k, &q->a))
		no_events(k, &q->b);
}

/* A queue pair of an SRQ that is done with it says so, once. */
static void event_last_wqe(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });

	if (p && kv_ok(k, !kv_recv(&p->b, 1, 0, 0, 0), "receive") &&
	    kv_ok(k, !kv_modify(&p->b, IB_QPS_ERR), "to Error") &&
	    events(k, &p->b, IB_EVENT_QP_LAST_WQE_REACHED, 1))
		/* The receive stays the SRQ's. */
		kv_quiet(k, p->b.rcq);
}

/* So does one whose connection is closed, by the consumer or by the peer. */
static void event_last_wqe_closed(struct kv *k)
{
	const struct kv_opts o = { .srq = true };
	struct kv_pair *p = kv_connect(k, &o);
	struct kv_pair *q = p ? kv_connect(k, &o) : NULL;

	if (q && kv_ok(k, !kv_recv(&p->b, 1, 0, 0, 0), "receive") &&
	    kv_ok(k, !rdma_disconnect(p->b.id), "disconnect") &&
	    kv_ok(k, !rdma_disconnect(q->a.id), "disconnect of the peer") &&
	    kv_is_down(k, &p->b) && kv_is_down(k, &q->b) &&
	    events(k, &p->b, IB_EVENT_QP_LAST_WQE_REACHED, 1) &&
	    events(k, &q->b, IB_EVENT_QP_LAST_WQE_REACHED, 1))
		kv_quiet(k, p->b.rcq);
}

static int srq_depth(struct kv_pair *p, u32 max_wr, u32 limit)
{
	struct ib_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return ib_modify_srq(p->b.srq, &attr,
			     IB_SRQ_MAX_WR | (limit ? IB_SRQ_LIMIT : 0));
}

/* Another depth with receives in the queue: none is lost, none comes twice. */
static void srq_resize(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });
	struct ib_srq_attr attr;
	int i;

	for (i = 0; p && i < 6; i++)
		if (!kv_ok(k, !kv_recv(&p->b, i, 0, 0, 0), "receive"))
			return;
	if (!p ||
	    !kv_ok(k, srq_depth(p, 5, 0) == -EINVAL, "less than there are") ||
	    !kv_ok(k, srq_depth(p, 100, 101) == -EINVAL, "a limit above") ||
	    !kv_ok(k, !srq_depth(p, 500, 0), "more") ||
	    !kv_ok(k, !ib_query_srq(p->b.srq, &attr) && attr.max_wr == 500,
		   "query") ||
	    !kv_ok(k, !srq_depth(p, 6, 0), "as many as there are") ||
	    !kv_ok(k, kv_recv(&p->b, 6, 0, 0, 0) == -ENOMEM, "one too many"))
		return;
	for (i = 0; i < 6; i++)
		if (!kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND,
						       .id = i }, KV_OK) ||
		    !kv_want(k, p->b.rcq, i, KV_OK))
			return;
	if (kv_ok(k, !kv_recv(&p->b, 6, 0, 0, 0), "receive") &&
	    kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND, .id = 6 }, KV_OK))
		kv_want(k, p->b.rcq, 6, KV_OK);
}

/* Armed once, told once: fewer receives left than the limit. */
static void event_srq_limit(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });
	struct ib_srq_attr attr = { .srq_limit = 3 };
	int i;

	for (i = 0; p && i < 6; i++)
		if (!kv_ok(k, !kv_recv(&p->b, i, 0, 0, 0), "receive"))
			return;
	if (!p || !kv_ok(k, !ib_modify_srq(p->b.srq, &attr, IB_SRQ_LIMIT),
			 "set the limit"))
		return;
	for (i = 0; i < 6; i++)
		if (!kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND,
						       .id = i }, KV_OK) ||
		    !kv_want(k, p->b.rcq, i, KV_OK) ||
		    (i == 2 && !no_events(k, &p->b)))
			return;
	events(k, &p->b, IB_EVENT_SRQ_LIMIT_REACHED, 1);
}

const struct kv_case kv_event_cases[] = {
	{ "event-key", "V-AE-16 V-AE-2", event_key },
	{ "event-not-twice", "V-ST-24 T-33", event_not_twice },
	{ "event-none", "V-AE-1 V-AE-38", event_none },
	{ "event-last-wqe", "V-AE-34 V-SRQ-24", event_last_wqe },
	{ "event-last-wqe-closed", "V-AE-34 V-SRQ-24 V-ST-36", event_last_wqe_closed },
	{ "srq-resize", "V-SRQ-5 V-SRQ-20", srq_resize },
	{ "event-srq-limit", "V-AE-30 V-SRQ-19", event_srq_limit },
	{ }
};
