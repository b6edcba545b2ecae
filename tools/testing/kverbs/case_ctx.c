// SPDX-License-Identifier: GPL-2.0
/*
 * The data path from where nothing may sleep: timers (softirq), interrupts
 * switched off, interrupts themselves, and from within the handler of
 * completions. The requests of each context travel and complete as usual.
 * Handlers are called in softirq only.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/sched.h>
#include <linux/timer.h>

#include "kv.h"

#define ROUNDS 16
#define LEN 5000		/* several segments */

struct job {
	struct kv *k;
	struct kv_pair *p;
	struct kv_mem *out, *in;
	struct kv_mr *target;
	struct timer_list timer;
	struct irq_work irq;
	struct completion over;
	int round, rv;
};

/* All that the data path has: receives, a list of requests, arming. */
static int post_all(struct job *j)
{
	struct kv_ep *a = &j->p->a, *b = &j->p->b;
	int rv;

	rv = kv_recv(b, j->round, j->in->addr, LEN, b->pd->local_dma_lkey);
	rv = rv ?: kv_post_list(a, (struct kv_wr[]) {
		{ .op = IB_WR_RDMA_WRITE, .id = 1000, KV_LOCAL(a, j->out),
		  .remote = j->target->mr->iova, .key = j->target->mr->rkey,
		  .quiet = true },
		{ .op = IB_WR_SEND, .id = j->round, KV_LOCAL(a, j->out) } }, 2);
	if (ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP) < 0)
		rv = -EIO;
	return rv;
}

static bool begin(struct kv *k, struct job *j)
{
	memset(j, 0, sizeof(*j));
	j->k = k;
	j->p = kv_connect(k, NULL);
	j->target = j->p ? kv_region(k, &j->p->b, 2, KV_REMOTE) : NULL;
	j->out = j->target ? kv_mem(k, &j->p->a, LEN, 0x66) : NULL;
	j->in = j->out ? kv_mem(k, &j->p->b, LEN, 0) : NULL;
	init_completion(&j->over);
	return j->in;
}

static bool arrived(struct kv *k, struct job *j)
{
	if (!kv_ok(k, !j->rv, "post: %d", j->rv) ||
	    !kv_want(k, j->p->a.scq, j->round, KV_OK) ||
	    !kv_want(k, j->p->b.rcq, j->round, KV_OK) ||
	    !kv_ok(k, !memcmp(j->in->va, j->out->va, LEN), "Send's contents") ||
	    !kv_ok(k, !memcmp(j->target->va, j->out->va, LEN),
		   "Write's contents"))
		return false;
	memset(j->in->va, 0, LEN);
	memset(j->target->va, 0, LEN);
	return true;
}

static bool wait_over(struct kv *k, struct job *j)
{
	return kv_ok(k, wait_for_completion_timeout(&j->over,
						    msecs_to_jiffies(KV_WAIT_MS)),
		     "the context never came");
}

static void on_timer(struct timer_list *t)
{
	struct job *j = timer_container_of(j, t, timer);

	j->rv = post_all(j);
	complete(&j->over);
}

static void ctx_softirq(struct kv *k)
{
	struct job j;

	if (!begin(k, &j))
		return;
	timer_setup_on_stack(&j.timer, on_timer, 0);
	for (; j.round < ROUNDS; j.round++) {
		mod_timer(&j.timer, jiffies + 1);
		if (!wait_over(k, &j) || !arrived(k, &j))
			break;
	}
	timer_delete_sync(&j.timer);
	timer_destroy_on_stack(&j.timer);
}

static void ctx_irqs_off(struct kv *k)
{
	unsigned long flags;
	struct job j;

	if (!begin(k, &j))
		return;
	for (; j.round < ROUNDS; j.round++) {
		local_irq_save(flags);
		j.rv = post_all(&j);
		local_irq_restore(flags);
		if (!arrived(k, &j))
			break;
	}
}

static void on_irq(struct irq_work *work)
{
	struct job *j = container_of(work, struct job, irq);

	j->rv = post_all(j);
	complete(&j->over);
}

static void ctx_hardirq(struct kv *k)
{
	struct job j;

	if (!begin(k, &j))
		return;
	/*
	 * In hard interrupt context, but for kernels with PREEMPT_RT, where
	 * spinlocks may not be taken there.
	 */
	init_irq_work(&j.irq, on_irq);
	for (; j.round < ROUNDS; j.round++) {
		irq_work_queue(&j.irq);
		if (!wait_over(k, &j) || !arrived(k, &j))
			break;
	}
	irq_work_sync(&j.irq);
}

/* The handler polls, posts the next one and arms again. */
struct chain {
	struct kv_mem *out, *in;
	struct completion over;
	int left, rv;
};

static struct chain chain;

static void on_call(struct kv_ep *ep, struct ib_cq *cq)
{
	struct kv_ep *b = &ep->pair->b;
	struct ib_wc wc;

	do {
		while (ib_poll_cq(cq, 1, &wc) == 1) {
			if (wc.status != IB_WC_SUCCESS)
				chain.rv = -EIO;
			if (chain.rv || !chain.left--) {
				complete(&chain.over);
				return;
			}
			chain.rv = kv_recv(b, 1, chain.in->addr, LEN,
					   b->pd->local_dma_lkey) ?:
				   kv_post(ep, &(struct kv_wr) {
					.op = IB_WR_SEND, .id = 1,
					KV_LOCAL(ep, chain.out) });
		}
	} while (ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
				  IB_CQ_REPORT_MISSED_EVENTS) > 0);
}

static void ctx_handler(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .depth = 128 });
	struct kv_ep *a;
	int rv;

	if (!p)
		return;
	a = &p->a;
	chain = (struct chain) { .left = 100 };
	init_completion(&chain.over);
	chain.out = kv_mem(k, a, LEN, 0x12);
	chain.in = kv_mem(k, &p->b, LEN, 0);
	if (!chain.out || !chain.in)
		return;
	a->on_call = on_call;
	rv = kv_recv(&p->b, 1, chain.in->addr, LEN, p->b.pd->local_dma_lkey);
	rv = rv ?: ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP);
	rv = rv ?: kv_post(a, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 1, KV_LOCAL(a, chain.out) });
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	if (kv_ok(k, wait_for_completion_timeout(&chain.over,
						 msecs_to_jiffies(KV_WAIT_MS)),
		  "the chain breaks with %d left", chain.left))
		kv_ok(k, !chain.rv, "posting from the handler: %d", chain.rv);
	a->on_call = NULL;
}

static atomic_t threads;

static void count_threads(struct kv_ep *ep, struct ib_cq *cq)
{
	if (in_task())
		atomic_inc(&threads);
}

/*
 * No thread calls a handler, as it may be in a call of the consumer: one that
 * posts, or that flushes, on the processor on which handlers are called.
 */
static void ctx_callchain(struct kv *k)
{
	struct kv_ep *a, *b;
	struct job j;
	int rv = 0;

	if (!begin(k, &j))
		return;
	a = &j.p->a;
	b = &j.p->b;
	a->on_call = count_threads;
	b->on_call = count_threads;
	atomic_set(&threads, 0);
	set_cpus_allowed_ptr(current, cpumask_of(0));
	for (; j.round < ROUNDS; j.round++) {
		rv = ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP) ?:
		     ib_req_notify_cq(b->rcq, IB_CQ_NEXT_COMP);
		j.rv = post_all(&j);
		if (!kv_ok(k, !rv, "arming: %d", rv) || !arrived(k, &j))
			goto out;
		usleep_range(1000, 2000);
	}
	rv = ib_req_notify_cq(b->rcq, IB_CQ_NEXT_COMP) ?:
	     kv_recv(b, 99, 0, 0, 0) ?:
	     kv_modify(b, IB_QPS_ERR);
	if (kv_ok(k, !rv, "flushing: %d", rv) &&
	    kv_want(k, b->rcq, 99, KV_FLUSH) && kv_quiet(k, b->rcq))
		kv_ok(k, atomic_read(&a->calls) >= ROUNDS &&
		      atomic_read(&b->calls) > ROUNDS, "%d and %d calls",
		      atomic_read(&a->calls), atomic_read(&b->calls));
	if (kv_is_rsiw(kv_dev(j.p)))
		kv_ok(k, !atomic_read(&threads), "%d calls by threads",
		      atomic_read(&threads));
out:
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

const struct kv_case kv_ctx_cases[] = {
	{ "ctx-softirq", "V-PRIV-5 V-PRIV-6 L-CORE-12", ctx_softirq },
	{ "ctx-irqs-off", "V-PRIV-6 L-CORE-12", ctx_irqs_off },
	{ "ctx-hardirq", "V-PRIV-6", ctx_hardirq },
	{ "ctx-handler", "L-CORE-12 V-CQ-23", ctx_handler },
	{ "ctx-callchain", "L-CORE-12", ctx_callchain },
	{ }
};
