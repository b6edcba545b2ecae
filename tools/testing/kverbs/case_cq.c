// SPDX-License-Identifier: GPL-2.0
/* Arming: what calls the handler, what does not, and how often. */
#include <linux/delay.h>

#include "kv.h"

#define LEN 64

bool kv_cq_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	int i, rv = 0;

	l->p = kv_connect(k, c->o);
	l->m = l->p ? kv_mem(k, &l->p->a, LEN, 1) : NULL;
	l->n = l->m ? kv_mem(k, &l->p->b, LEN, 2) : NULL;
	for (i = 0; l->n && i < 12; i++)
		rv = rv ?: kv_recv(&l->p->b, 9, l->n->addr, LEN,
				   l->p->b.pd->local_dma_lkey);
	return l->n && kv_ok(k, !rv, "post receive: %d", rv);
}

/* @n messages, which have all been completed at end b on return. */
static bool message(struct kv *k, struct kv_lab *l, int n, int flags)
{
	while (n--)
		if (!kv_do(k, &l->p->a, &(struct kv_wr) {
				.op = IB_WR_SEND, .id = 1,
				KV_LOCAL(&l->p->a, l->m), .flags = flags },
			   KV_OK))
			return false;
	/* Answered behind them. */
	return kv_do(k, &l->p->a, &(struct kv_wr) {
		.op = IB_WR_RDMA_READ, .id = 2 }, KV_OK);
}

static bool take(struct kv *k, struct kv_lab *l, int n)
{
	while (n--)
		if (!kv_want(k, l->p->b.rcq, 9, KV_OK))
			return false;
	return true;
}

static int arm(struct kv_lab *l, enum ib_cq_notify_flags flags)
{
	return ib_req_notify_cq(l->p->b.rcq, flags);
}

/* One call for one arming, with the right CQ, however much comes. */
static void cq_next(struct kv *k, struct kv_lab *l)
{
	if (!message(k, l, 1, 0) ||
	    !kv_calls(k, &l->p->b, 0) || !take(k, l, 1))
		return;
	arm(l, IB_CQ_NEXT_COMP);
	if (message(k, l, 3, 0) && kv_calls(k, &l->p->b, 1) &&
	    kv_ok(k, l->p->b.called == l->p->b.rcq, "another CQ's handler") &&
	    take(k, l, 3))
		kv_quiet(k, l->p->b.rcq);
}

/* What is there when arming calls nobody; what comes then does. */
static void cq_there(struct kv *k, struct kv_lab *l)
{
	if (!message(k, l, 2, 0))
		return;
	arm(l, IB_CQ_NEXT_COMP);
	if (kv_calls(k, &l->p->b, 0) && message(k, l, 1, 0))
		kv_calls(k, &l->p->b, 1);
}

/* Unless it asks to be told. */
static void cq_missed(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!message(k, l, 1, 0))
		return;
	rv = arm(l, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
	if (!kv_ok(k, rv > 0, "a missed completion: %d", rv) ||
	    !take(k, l, 1))
		return;
	rv = arm(l, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
	if (kv_ok(k, !rv, "nothing missed: %d", rv) && message(k, l, 1, 0))
		kv_calls(k, &l->p->b, 1);
}

static void cq_solicited(struct kv *k, struct kv_lab *l)
{
	arm(l, IB_CQ_SOLICITED);
	/* A successful request of the send queue is never solicited. */
	ib_req_notify_cq(l->p->a.scq, IB_CQ_SOLICITED);
	if (message(k, l, 3, 0) && kv_calls(k, &l->p->b, 0) &&
	    message(k, l, 1, IB_SEND_SOLICITED) && kv_calls(k, &l->p->b, 1) &&
	    kv_calls(k, &l->p->a, 0) && message(k, l, 1, IB_SEND_SOLICITED))
		kv_calls(k, &l->p->b, 1);
}

/* An error is as good as a solicited message. */
static void cq_solicited_error(struct kv *k, struct kv_lab *l)
{
	arm(l, IB_CQ_SOLICITED);
	if (kv_ok(k, !kv_modify(&l->p->b, IB_QPS_ERR), "to Error"))
		kv_calls(k, &l->p->b, 1);
}

static void cq_send_queue(struct kv *k, struct kv_lab *l)
{
	ib_req_notify_cq(l->p->a.scq, IB_CQ_NEXT_COMP);
	if (message(k, l, 2, 0) && kv_calls(k, &l->p->a, 1))
		kv_ok(k, l->p->a.called == l->p->a.scq, "another CQ's handler");
}

/* Armed twice: "next" counts, in whatever order they came. */
static void twice(struct kv *k, struct kv_lab *l, enum ib_cq_notify_flags first,
		  enum ib_cq_notify_flags second)
{
	arm(l, first);
	arm(l, second);
	if (message(k, l, 2, 0))
		kv_calls(k, &l->p->b, 1);
}

static void cq_next_then_solicited(struct kv *k, struct kv_lab *l)
{
	twice(k, l, IB_CQ_NEXT_COMP, IB_CQ_SOLICITED);
}

static void cq_solicited_then_next(struct kv *k, struct kv_lab *l)
{
	twice(k, l, IB_CQ_SOLICITED, IB_CQ_NEXT_COMP);
}

/* Without a handler everything else works. */
static void cq_no_handler(struct kv *k, struct kv_lab *l)
{
	arm(l, IB_CQ_NEXT_COMP);
	if (message(k, l, 3, IB_SEND_SOLICITED))
		take(k, l, 3);
}

/* An empty CQ is no error; each completion is taken once. */
static void cq_poll(struct kv *k, struct kv_lab *l)
{
	struct ib_wc wc[8];
	int n;

	n = ib_poll_cq(l->p->b.rcq, 8, wc);
	if (!kv_ok(k, !n, "empty: %d", n) || !message(k, l, 5, 0))
		return;
	n = ib_poll_cq(l->p->b.rcq, 8, wc);
	if (kv_ok(k, n == 5, "%d of 5", n))
		kv_quiet(k, l->p->b.rcq);
}

static int writes(struct kv_ep *ep, struct kv_mem *m, struct kv_mr *to, int n)
{
	int rv = 0;

	while (!rv && n--)
		rv = kv_post(ep, &(struct kv_wr) {
			.op = IB_WR_RDMA_WRITE, .id = 5, KV_LOCAL(ep, m),
			.remote = to->mr->iova, .key = to->mr->rkey });
	msleep(KV_QUIET_MS);
	return rv;
}

/* What a destroyed queue pair leaves in a queue takes no place there. */
static void cq_forget(struct kv *k)
{
	enum { SIZE = 16, MANY = 12 };
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .cqe = SIZE });
	struct kv_opts o = { .cq = p ? p->a.scq : NULL };
	struct kv_pair *q = p ? kv_connect(k, &o) : NULL;
	struct kv_mr *pto = q ? kv_region(k, &p->b, 1, KV_REMOTE) : NULL;
	struct kv_mr *qto = pto ? kv_region(k, &q->b, 1, KV_REMOTE) : NULL;
	struct kv_mem *pm = qto ? kv_mem(k, &p->a, LEN, 1) : NULL;
	struct kv_mem *qm = pm ? kv_mem(k, &q->a, LEN, 2) : NULL;
	int i, rv;

	if (!qm)
		return;
	rv = writes(&p->a, pm, pto, MANY);
	rdma_destroy_qp(p->a.id);
	p->a.qp = NULL;
	rv = rv ?: writes(&q->a, qm, qto, MANY);
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	for (i = 0; i < MANY && kv_want(k, o.cq, 5, KV_OK); i++)
		;
	kv_quiet(k, o.cq);
}

const struct kv_case kv_cq_cases[] = {
	{ "cq-next", "V-CQ-16 V-CQ-18 V-CQ-24", .with = cq_next },
	{ "cq-there", "V-CQ-17", .with = cq_there },
	{ "cq-missed", "V-CQ-23", .with = cq_missed },
	{ "cq-solicited", "V-CQ-19 V-CQ-21", .with = cq_solicited },
	{ "cq-solicited-error", "V-CQ-20", .with = cq_solicited_error },
	{ "cq-send-queue", "V-CQ-18 V-CQ-24", .with = cq_send_queue },
	{ "cq-next-then-solicited", "V-CQ-22", .with = cq_next_then_solicited },
	{ "cq-solicited-then-next", "V-CQ-22", .with = cq_solicited_then_next },
	{ "cq-no-handler", "V-CQ-25", .with = cq_no_handler,
	  .o = &(struct kv_opts) { .silent_cq = true } },
	{ "cq-poll", "V-CQ-8 V-CQ-9", .with = cq_poll },
	{ "cq-forget", "V-CQ-29", cq_forget },
	{ }
};
