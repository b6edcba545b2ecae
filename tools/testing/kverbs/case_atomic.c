// SPDX-License-Identifier: GPL-2.0
/*
 * Atomic Operations (RFC 7306 section 5): a peer's word is changed in one piece,
 * and what it was before comes back.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/kthread.h>

#include "kv.h"

#define WORDS (PAGE_SIZE / sizeof(u64))
#define PEERS 4
#define ADDS 400		/* of each peer */
#define OWN_ADDS (20 * ADDS)	/* of a processor of this host */
#define SUM 9			/* the word that they add to */
#define OF_REGION (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		   IB_ACCESS_REMOTE_ATOMIC)

/* Words of end b, and results at end a. */
bool kv_atomic_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	l->p = kv_connect(k, c->o);
	l->mr = l->p ? kv_region(k, &l->p->b, 1, c->access ?: OF_REGION) : NULL;
	l->m = l->mr ? kv_mem(k, &l->p->a, PAGE_SIZE, 0x5a) : NULL;
	if (!l->m)
		return false;
	l->word = (u64 *)l->mr->va;
	l->result = l->m->va;
	return true;
}

/* On word @n, with the result in word @to of the results. */
static struct kv_wr on_word(struct kv_lab *l, enum ib_wr_opcode op, u64 id, int n, int to)
{
	return (struct kv_wr) {
		.op = op, .id = id, .sges = 1,
		.sge = { { l->m->addr + 8 * to, 8, l->p->a.pd->local_dma_lkey } },
		.remote = l->mr->mr->iova + 8 * n, .key = l->mr->mr->rkey,
	};
}

static struct kv_wr fetch_add(struct kv_lab *l, u64 id, int n, int to, u64 add)
{
	struct kv_wr wr = on_word(l, IB_WR_ATOMIC_FETCH_AND_ADD, id, n, to);

	wr.compare_add = add;
	return wr;
}

static struct kv_wr cmp_swap(struct kv_lab *l, u64 id, int n, int to, u64 compare, u64 swap)
{
	struct kv_wr wr = on_word(l, IB_WR_ATOMIC_CMP_AND_SWP, id, n, to);

	wr.compare_add = compare;
	wr.swap = swap;
	return wr;
}

/* Its completion is of @opcode, and word @n was @before and is @after. */
static bool did(struct kv *k, struct kv_lab *l, const struct kv_wr *wr, int opcode,
		u64 before, u64 after)
{
	int n = (wr->remote - l->mr->mr->iova) / 8;
	int to = (wr->sge[0].addr - l->m->addr) / 8;
	int rv = kv_post(&l->p->a, wr);
	struct ib_wc wc;

	return kv_ok(k, !rv, "post: %d", rv) && kv_wc(k, l->p->a.scq, &wc) &&
	       kv_ok(k, wc.wr_id == wr->id && wc.status == IB_WC_SUCCESS,
		     "request %llu: %s", wc.wr_id, ib_wc_status_msg(wc.status)) &&
	       kv_ok(k, wc.opcode == opcode && wc.byte_len == 8,
		     "opcode %d instead of %d, %u octets", wc.opcode, opcode,
		     wc.byte_len) &&
	       kv_ok(k, l->result[to] == before, "it was %#llx, not %#llx",
		     l->result[to], before) &&
	       kv_ok(k, l->word[n] == after, "it is %#llx, not %#llx",
		     l->word[n], after);
}

static void values_add(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	l->word[3] = 40;
	wr = fetch_add(l, 1, 3, 1, 2);
	if (!did(k, l, &wr, IB_WC_FETCH_ADD, 40, 42))
		return;
	/* Masks are not looked at. */
	wr = fetch_add(l, 2, 3, 1, -43);
	wr.compare_add_mask = U64_MAX;
	wr.swap_mask = U64_MAX;
	if (!did(k, l, &wr, IB_WC_FETCH_ADD, 42, U64_MAX))
		return;
	wr = fetch_add(l, 3, 3, 2, 1);
	if (!did(k, l, &wr, IB_WC_FETCH_ADD, U64_MAX, 0))
		return;
	wr = fetch_add(l, 4, WORDS - 1, WORDS - 1, 7);
	if (!did(k, l, &wr, IB_WC_FETCH_ADD, 0, 7))
		return;
	kv_ok(k, !l->word[2] && !l->word[4] && l->result[0] == 0x5a5a5a5a5a5a5a5a &&
	      l->result[3] == 0x5a5a5a5a5a5a5a5a, "words beside it");
}

static void values_swap(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	wr = cmp_swap(l, 1, 0, 0, 0, 0x1122334455667788);
	if (!did(k, l, &wr, IB_WC_COMP_SWAP, 0, 0x1122334455667788))
		return;
	/* It is something else by now. */
	wr = cmp_swap(l, 2, 0, 0, 0, 9);
	if (!did(k, l, &wr, IB_WC_COMP_SWAP, 0x1122334455667788, 0x1122334455667788))
		return;
	/* Masks are not looked at. */
	wr = cmp_swap(l, 3, 0, 0, 0x1122334455667788, 9);
	did(k, l, &wr, IB_WC_COMP_SWAP, 0x1122334455667788, 9);
}

/* Two counters in a word, and a field of it that is exchanged. */
static void values_masks(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	l->word[0] = 0x7ffffffff;
	wr = on_word(l, IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, 1, 0, 0);
	wr.compare_add = 0x100000001;
	wr.compare_add_mask = BIT_ULL(31);
	/* Not one of its operands. */
	wr.swap = wr.swap_mask = U64_MAX;
	if (!did(k, l, &wr, IB_WC_MASKED_FETCH_ADD, 0x7ffffffff, 0x800000000))
		return;
	wr = on_word(l, IB_WR_MASKED_ATOMIC_CMP_AND_SWP, 2, 0, 0);
	wr.compare_add = 0x8ffffffff;
	wr.compare_add_mask = 0xf00000000;
	wr.swap = 0xabcdef;
	wr.swap_mask = 0x00ff00;
	if (!did(k, l, &wr, IB_WC_MASKED_COMP_SWAP, 0x800000000, 0x80000cd00))
		return;
	wr.compare_add = 0x9ffffffff;
	if (!did(k, l, &wr, IB_WC_MASKED_COMP_SWAP, 0x80000cd00, 0x80000cd00))
		return;
	/* Without any, nothing is compared, and nothing swapped. */
	wr.compare_add_mask = wr.swap_mask = 0;
	if (!did(k, l, &wr, IB_WC_MASKED_COMP_SWAP, 0x80000cd00, 0x80000cd00))
		return;
	wr = on_word(l, IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, 3, 0, 0);
	wr.compare_add = 0x300;
	did(k, l, &wr, IB_WC_MASKED_FETCH_ADD, 0x80000cd00, 0x80000d000);
}

static struct kv_wr read_word(struct kv_lab *l, u64 id, int n, int to)
{
	return on_word(l, IB_WR_RDMA_READ, id, n, to);
}

/* Among Reads, more of both than may be under way: each sees those in front of it. */
static void atomic_order(struct kv *k, struct kv_lab *l)
{
	int i, rv;

	for (i = 0; i < 20; i++) {
		const struct kv_wr wr[] = {
			fetch_add(l, 3 * i, 0, 3 * i, 1),
			read_word(l, 3 * i + 1, 0, 3 * i + 1),
			fetch_add(l, 3 * i + 2, 0, 3 * i + 2, 10),
		};

		rv = kv_post_list(&l->p->a, wr, 3);
		if (!kv_ok(k, !rv, "post: %d", rv))
			return;
	}
	for (i = 0; i < 60; i++)
		if (!kv_want(k, l->p->a.scq, i, KV_OK))
			return;
	for (i = 0; i < 20; i++)
		if (!kv_ok(k, l->result[3 * i] == 11 * i &&
			   l->result[3 * i + 1] == 11 * i + 1 &&
			   l->result[3 * i + 2] == 11 * i + 1, "round %d: %llu %llu %llu",
			   i, l->result[3 * i], l->result[3 * i + 1], l->result[3 * i + 2]))
			return;
	kv_ok(k, l->word[0] == 220, "%llu in the end", l->word[0]);
}

/* A fenced Send has what the operation in front of it has brought. */
static void atomic_fence(struct kv *k, struct kv_lab *l)
{
	struct kv_mem *in;
	struct kv_wr wr[2];
	int i, rv;

	in = kv_mem(k, &l->p->b, 8, 0);
	for (i = 0; in && i < 50; i++) {
		rv = kv_recv(&l->p->b, 100, in->addr, 8, l->p->b.pd->local_dma_lkey);
		wr[0] = fetch_add(l, 1, 0, 0, 1);
		wr[0].quiet = true;
		wr[1] = (struct kv_wr) { .op = IB_WR_SEND, .id = 2,
					 KV_LOCAL(&l->p->a, l->m),
					 .flags = IB_SEND_FENCE };
		wr[1].sge[0].length = 8;
		rv = rv ?: kv_post_list(&l->p->a, wr, 2);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, l->p->a.scq, 2, KV_OK) ||
		    !kv_want(k, l->p->b.rcq, 100, KV_OK) ||
		    !kv_ok(k, *(u64 *)in->va == i,
			   "the Send has %llu, not %d", *(u64 *)in->va, i))
			return;
	}
}

/* A processor of this host that adds as well. */
struct adder {
	atomic64_t *word;
	struct completion through;
};

static int add(void *arg)
{
	struct adder *a = arg;
	int i;

	for (i = 0; i < OWN_ADDS; i++) {
		atomic64_inc(a->word);
		if (!(i % 64))
			usleep_range(20, 50);
	}
	kthread_complete_and_exit(&a->through, 0);
}

/* Each peer keeps some on their way, until all are complete. */
static bool peers_add(struct kv *k, struct kv_lab *l, struct kv_pair **peer)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);
	int posted[PEERS] = { }, done[PEERS] = { };
	int i, left = PEERS * ADDS;
	struct ib_wc wc;

	while (left && time_before(jiffies, end)) {
		bool idle = true;

		for (i = 0; i < PEERS; i++) {
			struct kv_wr wr = fetch_add(l, i, SUM, i, 1);
			int rv = 0;

			wr.sge[0].lkey = peer[i]->a.pd->local_dma_lkey;
			while (!rv && posted[i] < ADDS && posted[i] - done[i] < 16) {
				rv = kv_post(&peer[i]->a, &wr);
				posted[i] += !rv;
			}
			if (!kv_ok(k, !rv, "post: %d", rv))
				return false;
			while (ib_poll_cq(peer[i]->a.scq, 1, &wc) == 1) {
				if (!kv_ok(k, wc.status == IB_WC_SUCCESS, "peer %d: %s",
					   i, ib_wc_status_msg(wc.status)))
					return false;
				done[i]++;
				left--;
				idle = false;
			}
		}
		if (idle)
			usleep_range(50, 200);
	}
	return kv_ok(k, !left, "%d are not complete", left);
}

/* Several peers, and a processor, add to one word: no addition is lost. */
static void atomic_sum(struct kv *k, struct kv_lab *l)
{
	struct kv_opts o = { .depth = 32, .depth_reads = 8 };
	struct kv_pair *peer[PEERS];
	struct task_struct *task;
	struct adder a;
	bool good;
	int i;

	peer[0] = l->p;
	o.pd = l->p->b.pd;
	for (i = 1; i < PEERS; i++) {
		peer[i] = kv_connect(k, &o);
		if (!peer[i])
			return;
	}
	a.word = (atomic64_t *)&l->word[SUM];
	init_completion(&a.through);
	task = kthread_run(add, &a, "kv_adder");
	if (!kv_ok(k, !IS_ERR(task), "thread: %pe", task))
		return;
	good = peers_add(k, l, peer);
	wait_for_completion(&a.through);
	if (good)
		kv_ok(k, l->word[SUM] == PEERS * ADDS + OWN_ADDS, "%llu instead of %d",
		      l->word[SUM], PEERS * ADDS + OWN_ADDS);
}

/* What the request says of itself is refused when it is posted. */
static void atomic_bad_post(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;
	int i, rv;

	for (i = 0; i < 4; i++) {
		wr = fetch_add(l, 1, 0, 0, 1);
		switch (i) {
		case 0:
			wr.sge[0].length = 4;
			break;
		case 1:
			wr.sge[0].length = 16;
			break;
		case 2:
			wr.sges = 0;
			break;
		case 3:
			wr.sges = 2;
			wr.sge[1] = wr.sge[0];
		}
		rv = kv_post(&l->p->a, &wr);
		if (!kv_ok(k, rv == -EINVAL, "case %d: %d", i, rv))
			return;
	}
	/* Inline means nothing here. */
	wr = fetch_add(l, 1, 0, 0, 1);
	wr.flags = IB_SEND_INLINE;
	did(k, l, &wr, IB_WC_FETCH_ADD, 0, 1);
}

/* A sink that is not there to be written. */
static void atomic_sink(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *mr;
	struct kv_wr wr;

	mr = kv_region(k, &l->p->a, 1, IB_ACCESS_REMOTE_READ);
	if (!mr)
		return;
	wr = fetch_add(l, 1, 0, 0, 1);
	wr.sge[0].addr = mr->mr->iova;
	wr.sge[0].lkey = mr->mr->lkey;
	if (kv_do(k, &l->p->a, &wr, KV_PROT))
		kv_ok(k, !l->word[0] && !*(u64 *)mr->va, "something was changed");
}

/*
 * A region of pieces that begin anywhere: its first octet is not aligned, a word
 * of it is, and one lies in two pieces.
 */
static void in_pieces(struct kv *k, int at, u32 want)
{
	const u32 from[] = { 4, 0 }, len[] = { 16, PAGE_SIZE };
	struct kv_mr *mr;
	struct kv_wr wr;
	struct kv_lab l;
	int i, n;

	if (!kv_atomic_begin(k, &l, &(struct kv_case) { }))
		return;
	mr = kv_alloc_mr(k, &l.p->b, 2, IB_MR_TYPE_SG_GAPS);
	if (!mr)
		return;
	for (i = 0; i < 2; i++) {
		sg_dma_address(&mr->sg[i]) += from[i];
		sg_dma_len(&mr->sg[i]) = len[i];
	}
	n = ib_map_mr_sg(mr->mr, mr->sg, 2, NULL, PAGE_SIZE);
	if (!kv_ok(k, n == 2, "map_mr_sg: %d", n) ||
	    !kv_reg(k, &l.p->b, mr, mr->mr->rkey, OF_REGION, KV_OK))
		return;
	wr = fetch_add(&l, 1, 0, 0, 1);
	wr.remote = mr->mr->iova + at;
	wr.key = mr->mr->rkey;
	if (kv_do(k, &l.p->a, &wr, want))
		kv_ok(k, !memchr_inv(mr->va, 0, 2 * PAGE_SIZE) == (want != KV_OK),
		      "what was changed at %d", at);
}

static void atomic_pieces(struct kv *k)
{
	in_pieces(k, 4, KV_OK);
	in_pieces(k, 16, KV_OK);
	in_pieces(k, 0, KV_REM_INV);
	in_pieces(k, 12, KV_REM_INV);
	in_pieces(k, 20, KV_REM_INV);
}

/* The right of a window counts, of which the region gives the peer none. */
static void atomic_window(struct kv *k, enum ib_mw_type type, int access, u32 want)
{
	struct ib_mw *mw;
	struct kv_wr wr;
	struct kv_lab l;
	u32 key;

	if (!kv_atomic_begin(k, &l, &(struct kv_case) {
			.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND }))
		return;
	mw = kv_mw(k, l.p->b.pd, type);
	if (!mw)
		return;
	key = ib_inc_rkey(mw->rkey);
	if (!kv_do(k, &l.p->b, &(struct kv_wr) {
			.op = IB_WR_BIND_MW, .id = 7, .mw = mw, .mr = l.mr->mr,
			.key = key, .access = access,
			.remote = l.mr->mr->iova + 64, .length = 64 }, KV_OK))
		return;
	wr = fetch_add(&l, 1, 15, 0, 1);
	wr.key = key;
	if (!kv_do(k, &l.p->a, &wr, want) ||
	    !kv_ok(k, l.word[15] == (want == KV_OK), "%llu", l.word[15]) ||
	    want != KV_OK)
		return;
	wr = fetch_add(&l, 2, 16, 0, 1);
	wr.key = key;
	if (kv_do(k, &l.p->a, &wr, KV_REM_ACCESS))
		kv_ok(k, !l.word[16], "beyond the window");
}

static void atomic_windows(struct kv *k)
{
	atomic_window(k, IB_MW_TYPE_2, IB_ACCESS_REMOTE_ATOMIC, KV_OK);
	atomic_window(k, IB_MW_TYPE_1, IB_ACCESS_REMOTE_ATOMIC, KV_OK);
	atomic_window(k, IB_MW_TYPE_2, IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
		      KV_REM_ACCESS);
}

/* A window that may be changed, of a region that this side may not write. */
static void atomic_window_legal(struct kv *k, struct kv_lab *l)
{
	struct ib_mw *mw;

	mw = kv_mw(k, l->p->b.pd, IB_MW_TYPE_2);
	if (mw)
		kv_do(k, &l->p->b, &(struct kv_wr) {
			.op = IB_WR_BIND_MW, .id = 7, .mw = mw, .mr = l->mr->mr,
			.key = ib_inc_rkey(mw->rkey), .access = IB_ACCESS_REMOTE_ATOMIC,
			.remote = l->mr->mr->iova, .length = 64 }, KV_BIND);
}

/* An invalidated region is refused; those in front of it are done. */
static void atomic_invalidated(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	wr = fetch_add(l, 1, 0, 0, 1);
	if (!did(k, l, &wr, IB_WC_FETCH_ADD, 0, 1) ||
	    !kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK))
		return;
	wr.id = 2;
	if (kv_do(k, &l->p->a, &wr, KV_REM_ACCESS))
		kv_ok(k, l->word[0] == 1, "%llu", l->word[0]);
}

/* They are not announced: the core would tell programs, which cannot post them. */
static void atomic_announced(struct kv *k, struct kv_lab *l)
{
	kv_ok(k, kv_dev(l->p)->attrs.atomic_cap == IB_ATOMIC_NONE &&
	      kv_dev(l->p)->attrs.masked_atomic_cap == IB_ATOMIC_NONE,
	      "they are announced");
}

/* The device counts so many more than @before. */
static bool counts(struct kv *k, struct kv_lab *l, const char *name, u64 before, u64 want)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);
	u64 now;

	/* Counts are summed up behind what is counted. */
	do {
		msleep(KV_QUIET_MS);
		if (!kv_counter(k, kv_dev(l->p), name, &now))
			return false;
	} while (now - before < want && time_before(jiffies, end));
	return kv_ok(k, now - before == want, "%llu of %s", now - before, name);
}

/* Both ends are counted at their device, which is one here. */
static void atomic_counted(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;
	u64 tx, rx;
	int i;

	if (!kv_counter(k, kv_dev(l->p), "tx_atomic_requests", &tx) ||
	    !kv_counter(k, kv_dev(l->p), "rx_atomic_requests", &rx))
		return;
	for (i = 0; i < 5; i++) {
		wr = fetch_add(l, i, 0, 0, 1);
		if (!did(k, l, &wr, IB_WC_FETCH_ADD, i, i + 1))
			return;
	}
	if (counts(k, l, "tx_atomic_requests", tx, 5))
		counts(k, l, "rx_atomic_requests", rx, 5);
}

const struct kv_case kv_atomic_cases[] = {
	{ "atomic-add", "X-ATM-8 X-ATM-16", .with = values_add },
	{ "atomic-swap", "X-ATM-7 X-ATM-8", .with = values_swap },
	{ "atomic-masks", "X-ATM-5 X-ATM-7 X-ATM-8", .with = values_masks },
	{ "atomic-order", "X-ATM-13 X-ATM-14", .with = atomic_order,
	  .o = &(struct kv_opts) { .depth = 64, .depth_reads = 2 } },
	{ "atomic-fence", "X-ATM-17", .with = atomic_fence },
	{ "atomic-sum", "X-ATM-11", .with = atomic_sum,
	  .o = &(struct kv_opts) { .depth = 32, .depth_reads = 8 } },
	{ "atomic-bad-post", "X-ATM-16", .with = atomic_bad_post },
	{ "atomic-sink", "X-ATM-16", .with = atomic_sink },
	{ "atomic-pieces", "X-ATM-9", atomic_pieces },
	{ "atomic-windows", "X-ATM-10", atomic_windows },
	{ "atomic-window-legal", "X-ATM-10", .with = atomic_window_legal,
	  .access = IB_ACCESS_REMOTE_READ | IB_ACCESS_MW_BIND },
	{ "atomic-invalidated", "X-ATM-10", .with = atomic_invalidated },
	{ "atomic-announced", "X-ATM-11", .with = atomic_announced },
	{ "atomic-counted", "X-ATM-1", .with = atomic_counted },
	{ }
};
