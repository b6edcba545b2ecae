// SPDX-License-Identifier: GPL-2.0
/* More requests than the consumer counted, and other depths for its queues. */
#include <linux/kthread.h>
#include <linux/slab.h>

#include "kv.h"

#define CHAIN 200
#define ASKED (CHAIN + 8)	/* for one chain, and a little */
#define SGES 3
#define SGE_LEN 100
#define ROUNDS 20
#define DEPTH 16

/* Posts its chain again and again, each time when the last one is complete. */
struct poster {
	struct kv_ep *ep;
	struct task_struct *task;
	struct ib_rdma_wr *chain;
	struct ib_sge *sge;
	struct completion done, over;
	int rv, id;
};

static int poster_run(void *arg)
{
	struct poster *w = arg;
	int round;

	for (round = 0; round < ROUNDS && !w->rv; round++) {
		w->rv = ib_post_send(w->ep->qp, &w->chain[0].wr, NULL);
		if (!w->rv && !wait_for_completion_timeout(&w->done,
						msecs_to_jiffies(KV_WAIT_MS)))
			w->rv = -ETIMEDOUT;
	}
	complete(&w->over);
	return 0;
}

static void poster_release(void *obj)
{
	struct poster *w = obj;

	if (w->task)
		kthread_stop_put(w->task);
	kfree(w->chain);
	kfree(w->sge);
	kfree(w);
}

/* Writes all of @from, piece by piece, to as many octets from @to on. */
static struct poster *poster(struct kv *k, struct kv_ep *ep, int id,
			     const struct kv_mem *from, u64 to, u32 key)
{
	struct poster *w = kzalloc_obj(*w, GFP_KERNEL);
	int i, j, at = 0;

	if (!kv_ok(k, w, "out of memory") || !kv_own(k, w, poster_release))
		return NULL;
	w->ep = ep;
	w->id = id;
	init_completion(&w->done);
	init_completion(&w->over);
	w->chain = kcalloc(CHAIN, sizeof(*w->chain), GFP_KERNEL);
	w->sge = kcalloc(CHAIN * SGES, sizeof(*w->sge), GFP_KERNEL);
	if (!kv_ok(k, w->chain && w->sge, "out of memory"))
		return NULL;
	for (i = 0; i < CHAIN; i++) {
		struct ib_rdma_wr *wr = &w->chain[i];

		wr->wr.opcode = IB_WR_RDMA_WRITE;
		wr->wr.wr_id = id;
		wr->wr.sg_list = &w->sge[i * SGES];
		wr->wr.num_sge = SGES;
		wr->remote_addr = to + at;
		wr->rkey = key;
		if (i + 1 < CHAIN)
			wr->wr.next = &wr[1].wr;
		else
			wr->wr.send_flags = IB_SEND_SIGNALED;
		for (j = 0; j < SGES; j++, at += SGE_LEN)
			w->sge[i * SGES + j] = (struct ib_sge) {
				from->addr + at, SGE_LEN,
				ep->pd->local_dma_lkey };
	}
	return w;
}

/*
 * Two threads post lists, each as long as the queue that was asked for, of which
 * only the last request makes a completion: services count like this.
 */
static void depth_chains(struct kv *k)
{
	const u32 len = CHAIN * SGES * SGE_LEN;
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.depth = ASKED, .cqe = ASKED });
	struct kv_mr *to = p ? kv_region(k, &p->b, DIV_ROUND_UP(2 * len, PAGE_SIZE),
					 KV_REMOTE) : NULL;
	struct ib_qp_init_attr init;
	struct poster *w[2];
	struct kv_mem *from;
	struct ib_qp_attr attr;
	struct ib_wc wc;
	int i, left;

	if (!to || !kv_ok(k, !ib_query_qp(p->a.qp, &attr, IB_QP_CAP, &init) &&
			  init.cap.max_send_wr == ASKED,
			  "a depth of %u", init.cap.max_send_wr))
		return;
	for (i = 0; i < 2; i++) {
		from = kv_mem(k, &p->a, len, 0x21 + i);
		w[i] = from ? poster(k, &p->a, i, from, to->mr->iova + i * len,
				     to->mr->rkey) : NULL;
		if (!w[i])
			return;
	}
	for (i = 0; i < 2; i++) {
		struct task_struct *task = kthread_create(poster_run, w[i], "kv");

		if (!kv_ok(k, !IS_ERR(task), "no thread"))
			return;
		w[i]->task = get_task_struct(task);
	}
	for (i = 0; i < 2; i++)
		wake_up_process(w[i]->task);
	for (left = 2 * ROUNDS; left; left--) {
		if (w[0]->rv || w[1]->rv || !kv_wc(k, p->a.scq, &wc) ||
		    !kv_ok(k, wc.status == IB_WC_SUCCESS && wc.wr_id < 2,
			   "%llu: %s", wc.wr_id, ib_wc_status_msg(wc.status)))
			break;
		complete(&w[wc.wr_id]->done);
	}
	for (i = 0; i < 2; i++) {
		/* Why one of them ended early is more to the point. */
		wait_for_completion(&w[i]->over);
		if (w[i]->rv) {
			k->failed = false;
			kv_ok(k, false, "thread %d: %d", i, w[i]->rv);
		}
	}
	/* Answered behind them. */
	if (k->failed || !kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = 2 }, KV_OK))
		return;
	for (i = 0; i < 2; i++)
		kv_ok(k, !memchr_inv(to->va + i * len, 0x21 + i, len),
		      "contents of %d", i);
}

/* Posts until the queue is full; every fourth request makes a completion. */
static int post_all(struct kv_ep *ep)
{
	int i;

	for (i = 0; i < 8 * DEPTH; i++)
		if (kv_post(ep, &(struct kv_wr) { .op = IB_WR_SEND, .id = i,
						  .quiet = i % 4 }))
			break;
	return i;
}

/*
 * All requests of a full queue are flushed into a completion queue that has room
 * for as many as were asked for: none gets lost, and the slots are free again.
 */
static void depth_flush(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.depth = DEPTH, .cqe = DEPTH, .unconnected = true });
	int i, n, round, posted;

	if (!p)
		return;
	n = post_all(&p->a);
	if (!kv_ok(k, n >= 2 * DEPTH && n < 8 * DEPTH, "%d requests", n) ||
	    !kv_ok(k, !kv_modify(&p->a, IB_QPS_ERR), "to Error"))
		return;
	for (round = 0; round < 3; round++) {
		for (i = 0; i < n; i++)
			if (!kv_want(k, p->a.scq, i, KV_FLUSH))
				return;
		if (!kv_quiet(k, p->a.scq))
			return;
		posted = post_all(&p->a);
		if (!kv_ok(k, posted == n, "%d requests, then %d", n, posted))
			return;
	}
	kv_events(k, &p->a, IB_EVENT_CQ_ERR, 0);
}

static int resize(struct kv_ep *ep, u32 send, u32 recv)
{
	struct ib_qp_attr attr = {
		.cap = { .max_send_wr = send, .max_recv_wr = recv } };

	return ib_modify_qp(ep->qp, &attr, IB_QP_CAP);
}

static bool depths(struct kv *k, struct kv_ep *ep, u32 send, u32 recv)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = { };

	return kv_ok(k, !ib_query_qp(ep->qp, &attr, IB_QP_CAP, &init) &&
		     attr.cap.max_send_wr == send &&
		     attr.cap.max_recv_wr == recv, "depths %u, %u",
		     attr.cap.max_send_wr, attr.cap.max_recv_wr);
}

static bool gives(struct kv *k, int rv, int want, const char *what)
{
	return kv_ok(k, rv == want, "%s: %d", what, rv);
}

/*
 * Posts empty Writes until the queue is full. It has at least @asked slots, of which
 * @used are taken. Gives how many there are then.
 */
static int fill(struct kv *k, struct kv_ep *ep, int used, int asked)
{
	const struct kv_wr write = { .op = IB_WR_RDMA_WRITE };
	int rv = 0;

	for (; !rv && used <= 8 * asked; used += !rv)
		rv = kv_post(ep, &write);
	kv_ok(k, rv == -ENOMEM && used >= asked, "%d requests: %d", used, rv);
	return used;
}

/*
 * Never less than what is in use, and then nothing changes. A send queue has more
 * slots than were asked for, a receive queue as many.
 */
static void qp_resize(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .cqe = 2048 });
	const struct kv_wr send = { .op = IB_WR_SEND };
	struct kv_ep *a, *b;
	int i, used;

	if (!p)
		return;
	a = &p->a;
	b = &p->b;
	for (i = 0; i < 10; i++)
		if (!kv_ok(k, !kv_recv(b, i, 0, 0, 0), "receive") ||
		    !kv_ok(k, !kv_post(a, &send), "send"))
			return;
	for (i = 0; i < 10; i++)
		if (!kv_want(k, b->rcq, i, KV_OK))
			return;
	/* Nobody has seen the completions of a's requests. */
	if (!gives(k, resize(a, 2, 16), -EINVAL, "sends in use") ||
	    !depths(k, a, 16, 16) ||
	    !gives(k, resize(a, INT_MAX, 16), -EINVAL, "too many") ||
	    !kv_ok(k, !kv_recv(a, 1, 0, 0, 0), "receive") ||
	    !gives(k, resize(a, 300, 0), -EINVAL, "receive in use") ||
	    !depths(k, a, 16, 16) ||
	    !gives(k, resize(a, 10, 1), 0, "as many as there are") ||
	    !depths(k, a, 10, 1) ||
	    !kv_ok(k, kv_recv(a, 2, 0, 0, 0) == -ENOMEM, "one too many"))
		return;
	used = fill(k, a, 10, 10);
	if (!gives(k, resize(a, used + 290, 2) ?: resize(b, 0, 300), 0, "more") ||
	    !depths(k, a, used + 290, 2) || !depths(k, b, 0, 300) ||
	    !kv_ok(k, kv_post(b, &send) == -ENOMEM, "queue without slots"))
		return;
	for (i = 0; i < 290; i++)
		if (!kv_ok(k, !kv_recv(b, i, 0, 0, 0), "receive %d", i) ||
		    !kv_ok(k, !kv_post(a, &send), "send %d", i))
			return;
	used = fill(k, a, used + 290, used + 290);
	for (i = 0; i < 290; i++)
		if (!kv_want(k, b->rcq, i, KV_OK))
			return;
	for (i = 0; i < used; i++)
		if (!kv_want(k, a->scq, 0, KV_OK))
			return;
}

/* Sizes that change all the time beside messages: none lost, none twice. */
static void qp_resize_busy(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .cqe = 512 });
	int i, n, from = 0, got = 0;
	struct kv_mem *out, *in;

	if (!p)
		return;
	out = kv_mem(k, &p->a, 20000, 0x5a);
	in = kv_mem(k, &p->b, 20000, 0);
	for (n = 0; out && in && n < 150; n++) {
		for (i = 0; i <= n % 13; i++, from++)
			if (!kv_ok(k, !kv_recv(&p->b, from, in->addr, in->len,
					       p->b.pd->local_dma_lkey),
				   "receive %d", from) ||
			    !kv_ok(k, !kv_post(&p->a, &(struct kv_wr) {
				   .op = IB_WR_SEND, .id = from,
				   KV_LOCAL(&p->a, out) }), "send %d", from))
				return;
		/* Some of these are too small for what is under way. */
		resize(&p->a, 1 + (n * 7) % 31, 16);
		resize(&p->b, 16, 1 + (n * 11) % 31);
		for (; got < from; got++)
			if (!kv_want(k, p->a.scq, got, KV_OK) ||
			    !kv_want(k, p->b.rcq, got, KV_OK))
				return;
		if (!kv_ok(k, !resize(&p->a, 16, 16) && !resize(&p->b, 16, 16),
			   "resize"))
			return;
	}
	if (out && in)
		kv_ok(k, !memcmp(in->va, out->va, in->len), "contents");
}

/* Octets of a request that waits, in the queue's own memory. */
static u8 waiting_octets[48];
static struct kv_mem *waiting_sink;

static void wait_and_resize(struct kv *k, struct kv_ep *ep)
{
	const struct kv_wr send = {
		.op = IB_WR_SEND, .id = 1, .sges = 1, .flags = IB_SEND_INLINE,
		.sge = { { (uintptr_t)waiting_octets, sizeof(waiting_octets) } } };

	if (ep == &ep->pair->b) {
		waiting_sink = kv_mem(k, ep, sizeof(waiting_octets), 0);
		kv_ok(k, waiting_sink &&
		      !kv_recv(ep, 1, waiting_sink->addr, waiting_sink->len,
			       ep->pd->local_dma_lkey), "receive");
		return;
	}
	memset(waiting_octets, 0x77, sizeof(waiting_octets));
	if (kv_ok(k, !kv_post(ep, &send), "send"))
		gives(k, resize(ep, 40, 16), 0, "more");
	memset(waiting_octets, 0, sizeof(waiting_octets));
}

/* A request that waits for a connection moves with the octets it came with. */
static void qp_resize_inline(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.inline_data = sizeof(waiting_octets),
		.prepare = wait_and_resize });
	int i;

	if (!p || !kv_want(k, p->b.rcq, 1, KV_OK) ||
	    !kv_want(k, p->a.scq, 1, KV_OK))
		return;
	for (i = 0; i < waiting_sink->len; i++)
		if (!kv_ok(k, ((u8 *)waiting_sink->va)[i] == 0x77,
			   "octet %d is %#x", i, ((u8 *)waiting_sink->va)[i]))
			return;
}

const struct kv_case kv_depth_cases[] = {
	{ "depth-chains", "V-WR-5 V-WR-7", depth_chains },
	{ "depth-flush", "V-WR-7 V-CQ-28", depth_flush },
	{ "qp-resize", "V-QP-21 V-IMM-5", qp_resize },
	{ "qp-resize-busy", "V-QP-21", qp_resize_busy },
	{ "qp-resize-inline", "V-QP-21 V-WR-23", qp_resize_inline },
	{ }
};
