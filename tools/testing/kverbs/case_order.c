// SPDX-License-Identifier: GPL-2.0
/* Fences, Reads, and the order in which requests complete. */
#include "kv.h"

#define LEN 32768
#define BUSY 300

/* A region to read from at each end, and a sink. */
bool kv_order_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	l->p = kv_connect(k, c->o);
	if (!l->p)
		return false;
	l->a = kv_region(k, &l->p->a, LEN / PAGE_SIZE, KV_REMOTE);
	l->b = kv_region(k, &l->p->b, LEN / PAGE_SIZE, KV_REMOTE);
	l->m = kv_mem(k, &l->p->a, LEN, 0);
	l->n = kv_mem(k, &l->p->b, LEN, 0);
	if (!l->a || !l->b || !l->m || !l->n)
		return false;
	memset(l->b->va, 0x18, LEN);
	return true;
}

#define READ_B(s, n, ...) { \
	.op = IB_WR_RDMA_READ, .id = (n), KV_LOCAL(&(s)->p->a, (s)->m), \
	.remote = (s)->b->mr->iova, .key = (s)->b->mr->rkey, \
	##__VA_ARGS__ }

#define SEND_A(s, n, ...) { \
	.op = IB_WR_SEND, .id = (n), .sges = 1, \
	.sge = { { (s)->m->addr, 64, (s)->p->a.pd->local_dma_lkey } }, \
	##__VA_ARGS__ }

static bool receives(struct kv *k, struct kv_lab *l, int n)
{
	struct kv_ep *b = &l->p->b;
	int rv = 0;

	while (n-- && !rv)
		rv = kv_recv(b, 100, l->n->addr, LEN, b->pd->local_dma_lkey);
	return kv_ok(k, !rv, "post receive: %d", rv);
}

/* A Send does not wait for the Read in front of it, but completes after it. */
static void order_behind_read(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!receives(k, l, 2))
		return;
	rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
		READ_B(l, 1), SEND_A(l, 2), READ_B(l, 3), SEND_A(l, 4) }, 4);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, l->p->a.scq, 1, KV_OK) &&
	    kv_want(k, l->p->a.scq, 2, KV_OK) &&
	    kv_want(k, l->p->a.scq, 3, KV_OK))
		kv_want(k, l->p->a.scq, 4, KV_OK);
}

/* A fenced Send carries what the Read in front of it has brought. */
static void fence_send(struct kv *k, struct kv_lab *l)
{
	int i, rv;

	for (i = 0; i < 8; i++) {
		memset(l->b->va, 0x20 + i, LEN);
		if (!receives(k, l, 1))
			return;
		rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
			READ_B(l, 1, .quiet = true),
			SEND_A(l, 2, .flags = IB_SEND_FENCE) }, 2);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, l->p->a.scq, 2, KV_OK) ||
		    !kv_want(k, l->p->b.rcq, 100, KV_OK) ||
		    !kv_ok(k, *(u8 *)l->n->va == 0x20 + i,
			   "the Send went out before the Read was over"))
			return;
	}
}

/*
 * Nor what the end of its last segment brought, while the other end's Reads keep
 * this one sending all the time.
 */
static void fence_busy(struct kv *k, struct kv_lab *l)
{
	struct ib_sge end = { .length = 64 };
	u8 *got;
	int i, n, rv;

	end.addr = l->m->addr + LEN - end.length;
	end.lkey = l->p->a.pd->local_dma_lkey;
	got = l->n->va;
	for (i = 0; i < BUSY; i++) {
		memset(l->b->va, i, LEN);
		rv = kv_recv(&l->p->b, 100, l->n->addr, end.length,
			     l->p->b.pd->local_dma_lkey);
		for (n = 0; n < 8 && !rv; n++)
			rv = kv_post(&l->p->b, &(struct kv_wr) {
				.op = IB_WR_RDMA_READ, .id = n, .sges = 1,
				.sge = { { l->n->addr + LEN / 2, 4096,
					   l->p->b.pd->local_dma_lkey } },
				.remote = l->a->mr->iova,
				.key = l->a->mr->rkey });
		rv = rv ?: kv_post_list(&l->p->a, (struct kv_wr[]) {
			READ_B(l, 1, .quiet = true),
			{ .op = IB_WR_SEND, .id = 2, .sges = 1, .sge = { end },
			  .flags = IB_SEND_FENCE } }, 2);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, l->p->a.scq, 2, KV_OK) ||
		    !kv_want(k, l->p->b.rcq, 100, KV_OK) ||
		    !kv_ok(k, got[0] == (u8)i && got[end.length - 1] == (u8)i,
			   "the Send went out before the Read was over"))
			return;
		for (n = 0; n < 8; n++)
			if (!kv_want(k, l->p->b.scq, n, KV_OK))
				return;
	}
}

/* A fenced invalidation waits for the Read into what it invalidates. */
static void fence_invalidate(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *to;
	int i, rv;

	to = kv_alloc_mr(k, &l->p->a, LEN / PAGE_SIZE, IB_MR_TYPE_MEM_REG);
	for (i = 0; to && i < 8; i++) {
		memset(l->b->va, 0x30 + i, LEN);
		rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
			{ .op = IB_WR_REG_MR, .id = 1, .quiet = true,
			  .mr = to->mr, .key = to->mr->rkey,
			  .access = IB_ACCESS_LOCAL_WRITE |
				    IB_ACCESS_REMOTE_WRITE },
			{ .op = IB_WR_RDMA_READ, .id = 2, .sges = 1,
			  .sge = { { to->mr->iova, LEN, to->mr->lkey } },
			  .remote = l->b->mr->iova,
			  .key = l->b->mr->rkey },
			{ .op = IB_WR_LOCAL_INV, .id = 3, .key = to->mr->rkey,
			  .flags = IB_SEND_FENCE } }, 3);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, l->p->a.scq, 2, KV_OK) ||
		    !kv_want(k, l->p->a.scq, 3, KV_OK) ||
		    !kv_ok(k, !memcmp(to->va, l->b->va, LEN), "contents"))
			return;
	}
}

/* The flag on what needs no fence does no harm. */
static void fence_anywhere(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *mr;
	int rv;

	mr = kv_alloc_mr(k, &l->p->a, 1, IB_MR_TYPE_MEM_REG);
	if (!mr)
		return;
	rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
		READ_B(l, 1, .flags = IB_SEND_FENCE),
		READ_B(l, 2, .flags = IB_SEND_FENCE),
		{ .op = IB_WR_REG_MR, .id = 3, .flags = IB_SEND_FENCE,
		  .mr = mr->mr, .key = mr->mr->rkey, .access = KV_REMOTE },
		READ_B(l, 4, .flags = IB_SEND_FENCE) }, 4);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, l->p->a.scq, 1, KV_OK) &&
	    kv_want(k, l->p->a.scq, 2, KV_OK) &&
	    kv_want(k, l->p->a.scq, 3, KV_OK))
		kv_want(k, l->p->a.scq, 4, KV_OK);
}

/* What was unsignaled makes no completion, what is behind it does. */
static void unsignaled(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!receives(k, l, 3))
		return;
	rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
		SEND_A(l, 1, .quiet = true), SEND_A(l, 2, .quiet = true),
		SEND_A(l, 3) }, 3);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, l->p->a.scq, 3, KV_OK) && kv_quiet(k, l->p->a.scq))
		/* An error completes in any case. */
		kv_do(k, &l->p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 4, .quiet = true, .sges = 1,
			.sge = { { 0, 1, 0x5a5a5a5a } } }, KV_PROT);
}

const struct kv_case kv_order_cases[] = {
	{ "order-behind-read", "V-ORD-2", .with = order_behind_read },
	{ "fence-send", "V-FNC-1", .with = fence_send },
	{ "fence-busy", "V-FNC-1", .with = fence_busy,
	  .o = &(struct kv_opts) { .depth = 120, .depth_reads = 16 } },
	{ "fence-invalidate", "V-FNC-3 T-41", .with = fence_invalidate },
	{ "fence-anywhere", "V-FNC-5 V-WR-10 T-41", .with = fence_anywhere },
	{ "unsignaled", "V-CQ-28 V-WR-9", .with = unsignaled },
	{ }
};
