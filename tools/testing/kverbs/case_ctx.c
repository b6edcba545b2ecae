// SPDX-License-Identifier: GPL-2.0
/*
 * The data path from everywhere: a thread that may sleep, and may have a mutex;
 * one that may not, for a number of reasons; timers (softirq), interrupts, and
 * the handler of completions. The requests of each context travel and complete
 * as usual. Only a thread sends them itself that has no spin lock; where it may not
 * sleep it leaves to others what would have to be waited for.
 */
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/timer.h>
#include <net/sock.h>

#include "kv.h"

#define ROUNDS 16
/* A thread sends so often; it may take more rounds, but no more than these. */
#define ENOUGH (ROUNDS / 2)
#define MOST_ROUNDS (20 * ROUNDS)
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
	u64 by_thread;		/* what the device had counted before */
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
	/* What the connection has sent by now is none of the job's. */
	return j->in && kv_quiet(k, j->p->a.scq) &&
	       kv_counter(k, kv_dev(j->p), "tx_batches_thread", &j->by_thread) &&
	       kv_ok(k, j->by_thread != KV_NO_COUNTER || !kv_is_rsiw(kv_dev(j->p)),
		     "who sends is not counted");
}

/* How often threads sent what they posted; all in one call, or in few. */
static u64 times_by_thread(struct kv *k, struct job *j)
{
	u64 now;

	if (!kv_counter(k, kv_dev(j->p), "tx_batches_thread", &now) ||
	    now == KV_NO_COUNTER)
		return KV_NO_COUNTER;
	return now - j->by_thread;
}

/* Whether the thread sent what it posted. */
static void sent_by_thread(struct kv *k, struct job *j, bool want)
{
	u64 times = times_by_thread(k, j);

	if (times == KV_NO_COUNTER)
		return;
	if (want)
		kv_ok(k, times >= ENOUGH, "the thread sent %llu times", times);
	else
		kv_ok(k, !times, "the thread sent %llu times, but may not", times);
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
	sent_by_thread(k, &j, false);
}

/* Where a thread may be; from FIRST_LEFT on it is not to send itself. */
enum where {
	IN_ANYWHERE, IN_MUTEX, IN_SRCU, IN_NOIO, IN_RCU, IN_WAITING,
	FIRST_LEFT, IN_IRQS_OFF = FIRST_LEFT, IN_PREEMPT_OFF,
	IN_BH_OFF, IN_SPINLOCK, IN_RECLAIM, IN_NICE,
};

static DEFINE_MUTEX(own_mutex);
static DEFINE_SPINLOCK(own_lock);
DEFINE_STATIC_SRCU(own_srcu);

static int post_in(struct job *j, enum where where)
{
	unsigned long flags;
	int rv;

	switch (where) {
	case IN_ANYWHERE:
		return post_all(j);
	case IN_MUTEX:
		mutex_lock(&own_mutex);
		rv = post_all(j);
		mutex_unlock(&own_mutex);
		return rv;
	case IN_SRCU:
		flags = srcu_read_lock(&own_srcu);
		rv = post_all(j);
		srcu_read_unlock(&own_srcu, flags);
		return rv;
	case IN_NOIO:
		flags = memalloc_noio_save();
		rv = post_all(j);
		/* It is as it was, and stays until here. */
		if (!(current->flags & PF_MEMALLOC_NOIO))
			rv = -EBADE;
		memalloc_noio_restore(flags);
		return rv;
	case IN_IRQS_OFF:
		local_irq_save(flags);
		rv = post_all(j);
		if (!irqs_disabled())
			rv = -EBADE;
		local_irq_restore(flags);
		return rv;
	case IN_PREEMPT_OFF:
		preempt_disable();
		rv = post_all(j);
		preempt_enable();
		return rv;
	case IN_BH_OFF:
		local_bh_disable();
		rv = post_all(j);
		local_bh_enable();
		return rv;
	case IN_SPINLOCK:
		spin_lock(&own_lock);
		rv = post_all(j);
		spin_unlock(&own_lock);
		return rv;
	case IN_RCU:
		rcu_read_lock();
		rv = post_all(j);
		rcu_read_unlock();
		return rv;
	case IN_WAITING:
		/* As in a loop that waits for what the request brings. */
		set_current_state(TASK_UNINTERRUPTIBLE);
		rv = post_all(j);
		if (get_current_state() != TASK_UNINTERRUPTIBLE)
			rv = -EBADE;
		__set_current_state(TASK_RUNNING);
		return rv;
	case IN_RECLAIM:
		flags = memalloc_noreclaim_save();
		rv = post_all(j);
		memalloc_noreclaim_restore(flags);
		return rv;
	case IN_NICE:
		flags = task_nice(current);
		set_user_nice(current, MAX_NICE);
		rv = post_all(j);
		set_user_nice(current, flags);
		return rv;
	}
	return -EINVAL;
}

/*
 * The other end answers, so that all is acknowledged that it got before. No thread sends
 * the answer, as the device counts those of both ends.
 */
static bool answered(struct kv *k, struct job *j)
{
	struct kv_ep *a = &j->p->a, *b = &j->p->b;
	int rv;

	preempt_disable();
	rv = kv_recv(a, 1, 0, 0, 0) ?:
	     kv_post(b, &(struct kv_wr) { .op = IB_WR_SEND, .id = 1 });
	preempt_enable();
	return kv_ok(k, !rv, "post an answer: %d", rv) &&
	       kv_want(k, b->scq, 1, KV_OK) && kv_want(k, a->rcq, 1, KV_OK);
}

static void thread_in(struct kv *k, enum where where)
{
	struct job j;
	bool sends;

	if (!begin(k, &j))
		return;
	/* Without that an RCU reader looks like one with a spin lock. */
	if (where == IN_RCU && !(IS_ENABLED(CONFIG_PREEMPT_RCU) && !IS_ENABLED(CONFIG_PREEMPT_RT)))
		sends = false;
	else
		sends = where < FIRST_LEFT;
	/* Where it sends, the work item may happen to have the mutex, and sends instead. */
	for (; j.round < ROUNDS || (sends && j.round < MOST_ROUNDS &&
				    times_by_thread(k, &j) < ENOUGH); j.round++) {
		j.rv = post_in(&j, where);
		if (!arrived(k, &j) || !answered(k, &j))
			return;
		/* The next one is none of many. */
		usleep_range(1000, 2000);
	}
	sent_by_thread(k, &j, sends);
}

#define THREAD_IN(name, where) \
	static void name(struct kv *k) { thread_in(k, where); }

THREAD_IN(ctx_thread, IN_ANYWHERE)
THREAD_IN(ctx_mutex, IN_MUTEX)
THREAD_IN(ctx_srcu, IN_SRCU)
THREAD_IN(ctx_noio, IN_NOIO)
THREAD_IN(ctx_irqs_off, IN_IRQS_OFF)
THREAD_IN(ctx_preempt_off, IN_PREEMPT_OFF)
THREAD_IN(ctx_bh_off, IN_BH_OFF)
THREAD_IN(ctx_spinlock, IN_SPINLOCK)
THREAD_IN(ctx_rcu, IN_RCU)
THREAD_IN(ctx_waiting, IN_WAITING)
THREAD_IN(ctx_reclaim, IN_RECLAIM)
THREAD_IN(ctx_nice, IN_NICE)

/*
 * What work items send, by sockets that may use reserves of memory and by others,
 * while they have the reserves themselves and while they have not.
 */
static atomic_t by_work[2][2];

static int on_tcp_send(struct kprobe *probe, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)regs_get_kernel_argument(regs, 0);

	if (current->flags & PF_WQ_WORKER)
		atomic_inc(&by_work[sock_flag(sk, SOCK_MEMALLOC)]
				   [!!(current->flags & PF_MEMALLOC)]);
	return 0;
}
NOKPROBE_SYMBOL(on_tcp_send);

/*
 * Who frees memory by what it posts gets on without free memory: the side that has
 * connected may use the reserves, in each work item and by its socket. The side that
 * serves may not.
 */
static void ctx_reserves(struct kv *k)
{
	struct kprobe probe = { .symbol_name = "tcp_sendmsg_locked", .pre_handler = on_tcp_send };
	u64 before, now;
	struct job j;
	int rv;

	memset(by_work, 0, sizeof(by_work));
	if (!begin(k, &j) || !kv_is_rsiw(kv_dev(j.p)) ||
	    !kv_counter(k, kv_dev(j.p), "rx_direct_segments", &before))
		return;
	rv = register_kprobe(&probe);
	if (!kv_ok(k, !rv, "probe: %d", rv))
		return;
	for (; j.round < ROUNDS; j.round++) {
		j.rv = post_in(&j, IN_RECLAIM);
		if (!arrived(k, &j) || !answered(k, &j))
			break;
	}
	unregister_kprobe(&probe);
	if (j.round < ROUNDS || !kv_counter(k, kv_dev(j.p), "rx_direct_segments", &now))
		return;
	kv_ok(k, !atomic_read(&by_work[true][false]), "work items send without the reserves");
	kv_ok(k, !atomic_read(&by_work[false][true]), "who serves has the reserves");
	if (now == before) {
		kv_ok(k, atomic_read(&by_work[true][true]), "nobody has the reserves");
		kv_ok(k, atomic_read(&by_work[false][false]), "nobody answers");
	}
}

/*
 * An RCU reader posts what needs waiting for, and more behind it: all is done, in
 * order. Each registration finds the region invalidated.
 */
static void ctx_rcu_order(struct kv *k)
{
	struct kv_mr *mr;
	struct kv_ep *a;
	struct job j;
	u32 key;

	if (!begin(k, &j))
		return;
	a = &j.p->a;
	mr = kv_alloc_mr(k, a, 2, IB_MR_TYPE_MEM_REG);
	if (!mr)
		return;
	key = mr->mr->rkey;
	for (; j.round < ROUNDS; j.round++) {
		memset(mr->va, j.round + 1, LEN);
		ib_update_fast_reg_key(mr->mr, key & 0xff);
		rcu_read_lock();
		j.rv = kv_recv(&j.p->b, 1, j.in->addr, LEN, j.p->b.pd->local_dma_lkey) ?:
		       kv_recv(&j.p->b, 2, j.in->addr, 0, j.p->b.pd->local_dma_lkey) ?:
		       kv_post_list(a, (struct kv_wr[]) {
			{ .op = IB_WR_REG_MR, .id = 1, .mr = mr->mr, .key = key,
			  .access = IB_ACCESS_LOCAL_WRITE },
			{ .op = IB_WR_SEND, .id = 2, .sges = 1,
			  .sge = { { mr->mr->iova, LEN, key } } },
			{ .op = IB_WR_LOCAL_INV, .id = 3, .key = key },
			{ .op = IB_WR_SEND, .id = 4 } }, 4);
		rcu_read_unlock();
		if (!kv_ok(k, !j.rv, "post: %d", j.rv) ||
		    !kv_want(k, a->scq, 1, KV_OK) || !kv_want(k, a->scq, 2, KV_OK) ||
		    !kv_want(k, a->scq, 3, KV_OK) || !kv_want(k, a->scq, 4, KV_OK) ||
		    !kv_want(k, j.p->b.rcq, 1, KV_OK) || !kv_want(k, j.p->b.rcq, 2, KV_OK) ||
		    !kv_ok(k, !memcmp(j.in->va, mr->va, LEN), "contents"))
			return;
		key = ib_inc_rkey(key);
	}
}

/* Posts in a row go out in order, whoever sends them. */
static void ctx_row(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .depth = 4 * ROUNDS });
	struct kv_mem *out = p ? kv_mem(k, &p->a, 4 * ROUNDS, 0) : NULL;
	struct kv_mem *in = p ? kv_mem(k, &p->b, 4 * ROUNDS, 0) : NULL;
	int n, rv = 0;

	if (!out || !in)
		return;
	for (n = 0; n < 4 * ROUNDS; n++) {
		((u8 *)out->va)[n] = n + 1;
		rv = rv ?: kv_recv(&p->b, n, in->addr + n, 1, p->b.pd->local_dma_lkey);
	}
	for (n = 0; n < 4 * ROUNDS && !rv; n++) {
		/* As block devices do. */
		rcu_read_lock();
		rv = kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = n, .sges = 1,
			.sge = { { out->addr + n, 1, p->a.pd->local_dma_lkey } } });
		rcu_read_unlock();
	}
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	for (n = 0; n < 4 * ROUNDS; n++)
		if (!kv_want(k, p->a.scq, n, KV_OK) || !kv_want(k, p->b.rcq, n, KV_OK))
			return;
	kv_ok(k, !memcmp(in->va, out->va, 4 * ROUNDS), "contents");
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
	sent_by_thread(k, &j, false);
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
	{ "ctx-thread", "V-PRIV-5", ctx_thread },
	{ "ctx-mutex", "V-PRIV-5 L-CORE-12", ctx_mutex },
	{ "ctx-srcu", "V-PRIV-5 L-CORE-12", ctx_srcu },
	{ "ctx-noio", "V-PRIV-5 L-CORE-12", ctx_noio },
	{ "ctx-irqs-off", "V-PRIV-6 L-CORE-12", ctx_irqs_off },
	{ "ctx-preempt-off", "V-PRIV-6 L-CORE-12", ctx_preempt_off },
	{ "ctx-bh-off", "V-PRIV-6 L-CORE-12", ctx_bh_off },
	{ "ctx-spinlock", "V-PRIV-6 L-CORE-12", ctx_spinlock },
	{ "ctx-rcu", "V-PRIV-6 L-CORE-12", ctx_rcu },
	{ "ctx-rcu-order", "V-MR-17 V-PRIV-6 L-CORE-12", ctx_rcu_order },
	{ "ctx-row", "V-PRIV-6 L-CORE-12", ctx_row },
	{ "ctx-waiting", "V-PRIV-6 L-CORE-12", ctx_waiting },
	{ "ctx-reclaim", "V-PRIV-6 L-CORE-12", ctx_reclaim },
	{ "ctx-reserves", "V-PRIV-6", ctx_reserves },
	{ "ctx-nice", "V-PRIV-5", ctx_nice },
	{ "ctx-softirq", "V-PRIV-5 V-PRIV-6 L-CORE-12", ctx_softirq },
	{ "ctx-hardirq", "V-PRIV-6", ctx_hardirq },
	{ "ctx-handler", "L-CORE-12 V-CQ-23", ctx_handler },
	{ "ctx-callchain", "L-CORE-12", ctx_callchain },
	{ }
};
