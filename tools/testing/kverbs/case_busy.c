// SPDX-License-Identifier: GPL-2.0
/* What is taken away, destroyed or changed while it is in use. */
#include <linux/delay.h>

#include "kv.h"

#define PAGES 256
#define LEN (PAGES * PAGE_SIZE)
#define READS 8

static void destroy_cqs(struct kv_ep *ep)
{
	ib_destroy_cq(ep->scq);
	ib_destroy_cq(ep->rcq);
	ep->scq = NULL;
	ep->rcq = NULL;
}

/* @n Reads of all of @mr through @key, into the same memory. */
static bool reads(struct kv *k, struct kv_ep *a, struct kv_mem *m,
		  struct kv_mr *mr, u32 key, int n)
{
	int i, rv = 0;

	for (i = 0; i < n && !rv; i++)
		rv = kv_post(a, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = i, KV_LOCAL(a, m),
			.remote = mr->mr->iova, .key = key });
	return kv_ok(k, !rv, "post: %d", rv);
}

/*
 * A window is taken back under Reads. Those that it cuts off fail, and what
 * is written to the memory afterwards, nobody has read.
 */
static void busy_window(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, PAGES, IB_ACCESS_MW_BIND |
					 IB_ACCESS_LOCAL_WRITE) : NULL;
	struct ib_mw *mw = mr ? kv_mw(k, p->b.pd, IB_MW_TYPE_2) : NULL;
	struct kv_mem *m = mw ? kv_mem(k, &p->a, LEN, 0) : NULL;
	struct ib_wc wc;
	int i, failed = 0;
	u32 key;

	if (!m)
		return;
	key = ib_inc_rkey(mw->rkey);
	memset(mr->va, 0x42, LEN);
	if (!kv_do(k, &p->b, &(struct kv_wr) {
			.op = IB_WR_BIND_MW, .id = 77, .mw = mw, .mr = mr->mr,
			.key = key, .access = IB_ACCESS_REMOTE_READ,
			.remote = mr->mr->iova, .length = LEN }, KV_OK) ||
	    !reads(k, &p->a, m, mr, key, READS) ||
	    !kv_inv(k, &p->b, key, KV_OK))
		return;
	memset(mr->va, 0x17, LEN);
	if (!reads(k, &p->a, m, mr, key, 1))
		return;
	for (i = 0; i <= READS; i++) {
		if (!kv_wc(k, p->a.scq, &wc))
			return;
		if (wc.status == IB_WC_SUCCESS) {
			kv_ok(k, !failed, "Read %d succeeds behind a failed one", i);
			continue;
		}
		kv_ok(k, wc.status == (failed ? IB_WC_WR_FLUSH_ERR :
						IB_WC_REM_ACCESS_ERR),
		      "Read %d: %s", i, ib_wc_status_msg(wc.status));
		failed++;
	}
	kv_ok(k, failed, "all Reads succeed");
	kv_ok(k, !memchr(m->va, 0x17, LEN), "read after the window was gone");
}

static void arm_again(struct kv_ep *ep, struct ib_cq *cq)
{
	ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
}

/* Destruction under load: no handler runs for what is gone. */
static void busy_destroy(struct kv *k)
{
	struct kv_pair *p;
	struct kv_mem *m;
	struct kv_mr *mr;
	int i, round, calls, all = 0;

	for (round = 0; round < 10 && !k->failed; round++) {
		p = kv_connect(k, &(struct kv_opts) { .depth = 64 });
		mr = p ? kv_region(k, &p->b, 4, KV_REMOTE) : NULL;
		m = mr ? kv_mem(k, &p->a, 4 * PAGE_SIZE, 1) : NULL;
		if (!m)
			return;
		p->a.on_call = arm_again;
		ib_req_notify_cq(p->a.scq, IB_CQ_NEXT_COMP);
		for (i = 0; i < 60; i++)
			if (kv_post(&p->a, &(struct kv_wr) {
					.op = IB_WR_RDMA_WRITE, .id = i,
					KV_LOCAL(&p->a, m),
					.remote = mr->mr->iova,
					.key = mr->mr->rkey }))
				break;
		if (!kv_ok(k, i == 60, "post %d", i))
			return;
		usleep_range(500 * round, 500 * round + 100);
		rdma_destroy_qp(p->a.id);
		p->a.qp = NULL;
		destroy_cqs(&p->a);
		calls = atomic_read(&p->a.calls);
		msleep(20);
		kv_ok(k, atomic_read(&p->a.calls) == calls,
		      "%d calls after the destruction",
		      atomic_read(&p->a.calls) - calls);
		all += calls;
	}
	kv_ok(k, all, "no call at all");
}

/*
 * The id goes while events about it are on their way: none gets to it any more,
 * and the other end hears of it.
 */
static void busy_id(struct kv *k)
{
	struct kv_pair *p;
	int round;

	for (round = 0; round < 20 && !k->failed; round++) {
		p = kv_connect(k, NULL);
		if (!p)
			return;
		if (round & 1)
			rdma_disconnect(p->a.id);
		else
			rdma_disconnect(p->b.id);
		udelay(50 * round);
		rdma_destroy_qp(p->a.id);
		p->a.qp = NULL;
		rdma_destroy_id(p->a.id);
		p->a.id = NULL;
		destroy_cqs(&p->a);
		reinit_completion(&p->a.down);
		p->a.last = RDMA_CM_EVENT_TIMEWAIT_EXIT;
		kv_is_down(k, &p->b);
		msleep(20);
		kv_ok(k, !completion_done(&p->a.down) &&
		      p->a.last == RDMA_CM_EVENT_TIMEWAIT_EXIT,
		      "an event for an id that is gone");
	}
}

/* ORD becomes less than what is under way; others do not notice. */
static void busy_depth(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_pair *q = p ? kv_connect(k, NULL) : NULL;
	struct kv_mr *mr = q ? kv_region(k, &p->b, PAGES, KV_REMOTE) : NULL;
	struct kv_mr *of_q = mr ? kv_region(k, &q->b, PAGES, KV_REMOTE) : NULL;
	struct kv_mem *m = of_q ? kv_mem(k, &p->a, LEN, 0) : NULL;
	struct ib_qp_attr attr = { .max_rd_atomic = 1 };
	struct ib_wc wc;
	int i, rv;

	if (!m || !reads(k, &p->a, m, mr, mr->mr->rkey, READS) ||
	    !reads(k, &q->a, m, of_q, of_q->mr->rkey, 4))
		return;
	rv = ib_modify_qp(p->a.qp, &attr, IB_QP_MAX_QP_RD_ATOMIC);
	kv_ok(k, !rv, "lower ORD: %d", rv);
	for (i = 0; i < 4; i++)
		if (!kv_want(k, q->a.scq, i, KV_OK))
			return;
	/* This one may break; but each request ends, in its turn. */
	for (i = 0; i < READS; i++)
		if (!kv_wc(k, p->a.scq, &wc) ||
		    !kv_ok(k, wc.wr_id == i, "%llu instead of %d", wc.wr_id, i))
			return;
	if (kv_ok(k, !kv_recv(&q->b, 1, 0, 0, 0), "receive") &&
	    kv_do(k, &q->a, &(struct kv_wr) { .op = IB_WR_SEND }, KV_OK))
		kv_want(k, q->b.rcq, 1, KV_OK);
}

const struct kv_case kv_busy_cases[] = {
	{ "busy-window", "V-MW-15 V-INV-16", busy_window },
	{ "busy-destroy", "L-CORE-13 V-CQ-15", busy_destroy },
	{ "busy-id", "L-CORE-6", busy_id },
	{ "busy-depth", "V-RD-8", busy_depth },
	{ }
};
