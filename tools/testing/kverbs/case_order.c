// SPDX-License-Identifier: GPL-2.0
/* Fences, Reads, and the order in which requests complete. */
#include "kv.h"

#define LEN 32768
#define READS 60
#define BUSY 300

/* A region to read from at each end, and a sink. */
struct sides {
	struct kv_pair *p;
	struct kv_mr *from_a, *from_b;
	struct kv_mem *to_a, *to_b;
};

static bool begin(struct kv *k, struct sides *s, const struct kv_opts *o)
{
	s->p = kv_connect(k, o);
	if (!s->p)
		return false;
	s->from_a = kv_region(k, &s->p->a, LEN / PAGE_SIZE, KV_REMOTE);
	s->from_b = kv_region(k, &s->p->b, LEN / PAGE_SIZE, KV_REMOTE);
	s->to_a = kv_mem(k, &s->p->a, LEN, 0);
	s->to_b = kv_mem(k, &s->p->b, LEN, 0);
	if (!s->from_a || !s->from_b || !s->to_a || !s->to_b)
		return false;
	memset(s->from_b->va, 0x18, LEN);
	return true;
}

#define READ_B(s, n, ...) { \
	.op = IB_WR_RDMA_READ, .id = (n), KV_LOCAL(&(s)->p->a, (s)->to_a), \
	.remote = (s)->from_b->mr->iova, .key = (s)->from_b->mr->rkey, \
	##__VA_ARGS__ }

#define SEND_A(s, n, ...) { \
	.op = IB_WR_SEND, .id = (n), .sges = 1, \
	.sge = { { (s)->to_a->addr, 64, (s)->p->a.pd->local_dma_lkey } }, \
	##__VA_ARGS__ }

static bool receives(struct kv *k, struct sides *s, int n)
{
	struct kv_ep *b = &s->p->b;
	int rv = 0;

	while (n-- && !rv)
		rv = kv_recv(b, 100, s->to_b->addr, LEN, b->pd->local_dma_lkey);
	return kv_ok(k, !rv, "post receive: %d", rv);
}

/* A Send does not wait for the Read in front of it, but completes after it. */
static void order_behind_read(struct kv *k)
{
	struct sides s;
	int rv;

	if (!begin(k, &s, NULL) || !receives(k, &s, 2))
		return;
	rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
		READ_B(&s, 1), SEND_A(&s, 2), READ_B(&s, 3), SEND_A(&s, 4) }, 4);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, s.p->a.scq, 1, KV_OK) &&
	    kv_want(k, s.p->a.scq, 2, KV_OK) &&
	    kv_want(k, s.p->a.scq, 3, KV_OK))
		kv_want(k, s.p->a.scq, 4, KV_OK);
}

/* A fenced Send carries what the Read in front of it has brought. */
static void fence_send(struct kv *k)
{
	struct sides s;
	int i, rv;

	if (!begin(k, &s, NULL))
		return;
	for (i = 0; i < 8; i++) {
		memset(s.from_b->va, 0x20 + i, LEN);
		if (!receives(k, &s, 1))
			return;
		rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
			READ_B(&s, 1, .quiet = true),
			SEND_A(&s, 2, .flags = IB_SEND_FENCE) }, 2);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, s.p->a.scq, 2, KV_OK) ||
		    !kv_want(k, s.p->b.rcq, 100, KV_OK) ||
		    !kv_ok(k, *(u8 *)s.to_b->va == 0x20 + i,
			   "the Send went out before the Read was over"))
			return;
	}
}

/*
 * Nor what the end of its last segment brought, while the other end's Reads keep
 * this one sending all the time.
 */
static void fence_busy(struct kv *k)
{
	const struct kv_opts o = { .depth = 2 * READS, .depth_reads = 16 };
	struct ib_sge end = { .length = 64 };
	struct sides s;
	u8 *got;
	int i, n, rv;

	if (!begin(k, &s, &o))
		return;
	end.addr = s.to_a->addr + LEN - end.length;
	end.lkey = s.p->a.pd->local_dma_lkey;
	got = s.to_b->va;
	for (i = 0; i < BUSY; i++) {
		memset(s.from_b->va, i, LEN);
		rv = kv_recv(&s.p->b, 100, s.to_b->addr, end.length,
			     s.p->b.pd->local_dma_lkey);
		for (n = 0; n < 8 && !rv; n++)
			rv = kv_post(&s.p->b, &(struct kv_wr) {
				.op = IB_WR_RDMA_READ, .id = n, .sges = 1,
				.sge = { { s.to_b->addr + LEN / 2, 4096,
					   s.p->b.pd->local_dma_lkey } },
				.remote = s.from_a->mr->iova,
				.key = s.from_a->mr->rkey });
		rv = rv ?: kv_post_list(&s.p->a, (struct kv_wr[]) {
			READ_B(&s, 1, .quiet = true),
			{ .op = IB_WR_SEND, .id = 2, .sges = 1, .sge = { end },
			  .flags = IB_SEND_FENCE } }, 2);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, s.p->a.scq, 2, KV_OK) ||
		    !kv_want(k, s.p->b.rcq, 100, KV_OK) ||
		    !kv_ok(k, got[0] == (u8)i && got[end.length - 1] == (u8)i,
			   "the Send went out before the Read was over"))
			return;
		for (n = 0; n < 8; n++)
			if (!kv_want(k, s.p->b.scq, n, KV_OK))
				return;
	}
}

/* Also behind an empty Read; and where no Read is under way it means nothing. */
static void fence_empty_read(struct kv *k)
{
	struct sides s;
	int rv;

	if (!begin(k, &s, NULL) || !receives(k, &s, 2))
		return;
	rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
		SEND_A(&s, 1, .flags = IB_SEND_FENCE),
		{ .op = IB_WR_RDMA_READ, .id = 2, .key = 0xdeadbeef },
		SEND_A(&s, 3, .flags = IB_SEND_FENCE) }, 3);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, s.p->a.scq, 1, KV_OK) &&
	    kv_want(k, s.p->a.scq, 2, KV_OK))
		kv_want(k, s.p->a.scq, 3, KV_OK);
}

/* A fenced invalidation waits for the Read into what it invalidates. */
static void fence_invalidate(struct kv *k)
{
	struct kv_mr *to;
	struct sides s;
	int i, rv;

	if (!begin(k, &s, NULL))
		return;
	to = kv_alloc_mr(k, &s.p->a, LEN / PAGE_SIZE, IB_MR_TYPE_MEM_REG);
	for (i = 0; to && i < 8; i++) {
		memset(s.from_b->va, 0x30 + i, LEN);
		rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
			{ .op = IB_WR_REG_MR, .id = 1, .quiet = true,
			  .mr = to->mr, .key = to->mr->rkey,
			  .access = IB_ACCESS_LOCAL_WRITE |
				    IB_ACCESS_REMOTE_WRITE },
			{ .op = IB_WR_RDMA_READ, .id = 2, .sges = 1,
			  .sge = { { to->mr->iova, LEN, to->mr->lkey } },
			  .remote = s.from_b->mr->iova,
			  .key = s.from_b->mr->rkey },
			{ .op = IB_WR_LOCAL_INV, .id = 3, .key = to->mr->rkey,
			  .flags = IB_SEND_FENCE } }, 3);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, s.p->a.scq, 2, KV_OK) ||
		    !kv_want(k, s.p->a.scq, 3, KV_OK) ||
		    !kv_ok(k, !memcmp(to->va, s.from_b->va, LEN), "contents"))
			return;
	}
}

/* The flag on what needs no fence does no harm. */
static void fence_anywhere(struct kv *k)
{
	struct kv_mr *mr;
	struct sides s;
	int rv;

	if (!begin(k, &s, NULL))
		return;
	mr = kv_alloc_mr(k, &s.p->a, 1, IB_MR_TYPE_MEM_REG);
	if (!mr)
		return;
	rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
		READ_B(&s, 1, .flags = IB_SEND_FENCE),
		READ_B(&s, 2, .flags = IB_SEND_FENCE),
		{ .op = IB_WR_REG_MR, .id = 3, .flags = IB_SEND_FENCE,
		  .mr = mr->mr, .key = mr->mr->rkey, .access = KV_REMOTE },
		READ_B(&s, 4, .flags = IB_SEND_FENCE) }, 4);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, s.p->a.scq, 1, KV_OK) &&
	    kv_want(k, s.p->a.scq, 2, KV_OK) &&
	    kv_want(k, s.p->a.scq, 3, KV_OK))
		kv_want(k, s.p->a.scq, 4, KV_OK);
}

/* Both ends read over their ORD of 1, with fenced Sends among the Reads. */
static void reads_both_ways(struct kv *k)
{
	const struct kv_opts o = { .depth = 2 * READS, .depth_reads = 1 };
	struct sides s;
	int i, rv = 0;

	if (!begin(k, &s, &o) || !receives(k, &s, READS / 4))
		return;
	for (i = 0; i < READS / 4; i++)
		rv = rv ?: kv_recv(&s.p->a, 100, s.to_a->addr, LEN,
				   s.p->a.pd->local_dma_lkey);
	for (i = 0; i < READS && !rv; i++) {
		rv = kv_post(&s.p->a, &(struct kv_wr) READ_B(&s, i));
		rv = rv ?: kv_post(&s.p->b, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = i,
			KV_LOCAL(&s.p->b, s.to_b),
			.remote = s.from_a->mr->iova,
			.key = s.from_a->mr->rkey });
		if (i % 4 || rv)
			continue;
		rv = kv_post(&s.p->a, &(struct kv_wr)
			SEND_A(&s, 999, .flags = IB_SEND_FENCE, .quiet = true));
		rv = rv ?: kv_post(&s.p->b, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 999, .quiet = true,
			.flags = IB_SEND_FENCE });
	}
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	for (i = 0; i < READS; i++)
		if (!kv_want(k, s.p->a.scq, i, KV_OK) ||
		    !kv_want(k, s.p->b.scq, i, KV_OK))
			return;
}

/* With an ORD of zero a Read fails by itself. */
static void read_without_ord(struct kv *k)
{
	const struct kv_opts o = { .no_reads = true };
	struct sides s;

	if (begin(k, &s, &o))
		kv_do(k, &s.p->a, &(struct kv_wr) READ_B(&s, 1), KV_QP_OP);
}

/* What was unsignaled makes no completion, what is behind it does. */
static void unsignaled(struct kv *k)
{
	struct sides s;
	int rv;

	if (!begin(k, &s, NULL) || !receives(k, &s, 3))
		return;
	rv = kv_post_list(&s.p->a, (struct kv_wr[]) {
		SEND_A(&s, 1, .quiet = true), SEND_A(&s, 2, .quiet = true),
		SEND_A(&s, 3) }, 3);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, s.p->a.scq, 3, KV_OK) && kv_quiet(k, s.p->a.scq))
		/* An error completes in any case. */
		kv_do(k, &s.p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 4, .quiet = true, .sges = 1,
			.sge = { { 0, 1, 0x5a5a5a5a } } }, KV_PROT);
}

const struct kv_case kv_order_cases[] = {
	{ "order-behind-read", "V-ORD-2", order_behind_read },
	{ "fence-send", "V-FNC-1", fence_send },
	{ "fence-busy", "V-FNC-1", fence_busy },
	{ "fence-empty-read", "V-FNC-4 V-ORD-14", fence_empty_read },
	{ "fence-invalidate", "V-FNC-3 T-41", fence_invalidate },
	{ "fence-anywhere", "V-FNC-5 V-WR-10 T-41", fence_anywhere },
	{ "reads-both-ways", "V-RD-2 V-RD-4 V-RD-12", reads_both_ways },
	{ "read-without-ord", "V-RD-3 V-WC-15", read_without_ord },
	{ "unsignaled", "V-CQ-28 V-WR-9", unsignaled },
	{ }
};
