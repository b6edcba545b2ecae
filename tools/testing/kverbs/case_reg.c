// SPDX-License-Identifier: GPL-2.0
/* Registering by the send queue (REG_MR): what it gives, and what it checks. */
#include "kv.h"

#define LEN 256

/* The other end reads from a region, by this key. */
static bool peer_reads(struct kv *k, struct kv_ep *peer, struct kv_mr *mr,
		       u32 key, u32 want)
{
	struct kv_mem *m = kv_mem(k, peer, LEN, 0);

	return m && kv_read(k, peer, m, mr->mr->iova, key, want) &&
	       kv_ok(k, !(want & KV_OK) || !memcmp(m->va, mr->va, LEN),
		     "other contents than the region's");
}

static void reg_use(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, 4, KV_REMOTE) : NULL;

	if (!mr)
		return;
	memset(mr->va, 0x42, 4 * PAGE_SIZE);
	peer_reads(k, &p->a, mr, mr->mr->rkey, KV_OK);
}

/* An allocated region cannot be used before it is registered. */
static void reg_not_yet(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 4, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (mr)
		kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .sges = 1,
			.sge = { { mr->mr->iova, LEN, mr->mr->lkey } } },
			KV_PROT);
}

static void reg_not_yet_remote(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->b, 4, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (mr)
		peer_reads(k, &p->a, mr, mr->mr->rkey, KV_FAILS);
}

/* The consumer's key is used, the index stays, the key before is dead. */
static void reg_new_key(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, 2, KV_REMOTE) : NULL;
	u32 old, new;

	if (!mr)
		return;
	old = mr->mr->rkey;
	new = ib_inc_rkey(old);
	if (!kv_ok(k, old >> 8 == new >> 8 && old != new, "keys") ||
	    !kv_inv(k, &p->b, old, KV_OK))
		return;
	ib_update_fast_reg_key(mr->mr, new & 0xff);
	if (!kv_ok(k, mr->mr->rkey == new, "updated key") ||
	    !kv_reg(k, &p->b, mr, new, KV_REMOTE, KV_OK))
		return;
	memset(mr->va, 0x5a, LEN);
	if (peer_reads(k, &p->a, mr, new, KV_OK))
		peer_reads(k, &p->a, mr, old, KV_FAILS);
}

/* One list: the registration counts for what is behind it. */
static void reg_then_send(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 2, IB_MR_TYPE_MEM_REG) :
			       NULL;
	struct kv_mem *in = p ? kv_mem(k, &p->b, LEN, 0) : NULL;
	int rv;

	if (!mr || !in)
		return;
	memset(mr->va, 0x33, LEN);
	rv = kv_recv(&p->b, 9, in->addr, LEN, p->b.pd->local_dma_lkey);
	if (!kv_ok(k, !rv, "post receive: %d", rv))
		return;
	rv = kv_post_list(&p->a, (struct kv_wr[]) {
		{ .op = IB_WR_REG_MR, .id = 1, .quiet = true, .mr = mr->mr,
		  .key = mr->mr->rkey, .access = IB_ACCESS_LOCAL_WRITE },
		{ .op = IB_WR_SEND, .id = 2, .sges = 1,
		  .sge = { { mr->mr->iova, LEN, mr->mr->lkey } } } }, 2);
	if (kv_ok(k, !rv, "post: %d", rv) &&
	    kv_want(k, p->a.scq, 2, KV_OK) && kv_want(k, p->b.rcq, 9, KV_OK))
		kv_ok(k, !memcmp(in->va, mr->va, LEN), "contents");
}

/* Registers with something wrong; the connection ends by it. */
static void refused(struct kv *k, struct kv_pair *p, struct kv_mr *mr,
		    int access, u32 want)
{
	if (!mr || !kv_reg(k, &p->a, mr, mr->mr->rkey, access, want) ||
	    !kv_is_down(k, &p->b))
		return;
	/* Then all else is flushed. */
	kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND, .id = 8 }, KV_FLUSH);
}

static void reg_twice(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);

	if (p)
		refused(k, p, kv_region(k, &p->a, 1, KV_REMOTE), KV_REMOTE,
			KV_BIND | KV_QP_OP);
}

static void reg_other_pd(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);

	if (p)
		refused(k, p, kv_alloc_mr(k, &p->b, 1, IB_MR_TYPE_MEM_REG),
			KV_REMOTE, KV_PROT);
}

static void reg_rights(struct kv *k, int access)
{
	struct kv_pair *p = kv_connect(k, NULL);

	if (p)
		refused(k, p, kv_alloc_mr(k, &p->a, 1, IB_MR_TYPE_MEM_REG),
			access, KV_QP_OP | KV_ACCESS);
}

static void reg_remote_write_only(struct kv *k)
{
	reg_rights(k, IB_ACCESS_REMOTE_WRITE);
}

static void reg_atomic_only(struct kv *k)
{
	reg_rights(k, IB_ACCESS_REMOTE_ATOMIC);
}

/* What map_mr_sg noted in the region, spoilt before it is registered. */
static void reg_spoilt(struct kv *k, u64 more_len, u64 more_iova)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 2, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (!mr)
		return;
	mr->mr->length += more_len;
	mr->mr->iova += more_iova;
	refused(k, p, mr, KV_REMOTE, KV_QP_OP);
}

static void reg_too_long(struct kv *k)
{
	reg_spoilt(k, 1, 0);
}

static void reg_offset(struct kv *k)
{
	reg_spoilt(k, 0, 1);
}

/* No power of two: mapping is refused already, or registering is. */
static void reg_page_size(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 2, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (mr && ib_map_mr_sg(mr->mr, mr->sg, 2, NULL, 5000) > 0)
		refused(k, p, mr, KV_REMOTE, KV_QP_OP);
}

static void reg_wraps(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 2, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (!mr)
		return;
	mr->mr->iova = -(u64)PAGE_SIZE;
	refused(k, p, mr, KV_REMOTE, KV_QP_OP);
}

/* A key that is not the index the region got. */
static void reg_wrong_index(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->a, 1, IB_MR_TYPE_MEM_REG) :
			       NULL;

	if (mr)
		kv_reg(k, &p->a, mr, mr->mr->rkey ^ 0x100, KV_REMOTE,
		       KV_QP_OP | KV_PROT);
}

/* What was not registered for the peer cannot become so by registering less. */
static void reg_local_only(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, 1, IB_ACCESS_LOCAL_WRITE) :
			       NULL;

	if (mr)
		peer_reads(k, &p->a, mr, mr->mr->rkey, KV_FAILS);
}

/* A region as large as the device takes at once; every page is reached. */
static void reg_1024_pages(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->b, 1024, KV_REMOTE) : NULL;
	struct kv_mem *m = p ? kv_mem(k, &p->a, 16, 0xc3) : NULL;
	unsigned int i;

	for (i = 0; mr && m && i < 1024; i += 31)
		if (!kv_do(k, &p->a, &(struct kv_wr) {
				.op = IB_WR_RDMA_WRITE, .id = i, KV_LOCAL(&p->a, m),
				/* Across the end of the page, but for the last. */
				.remote = mr->mr->iova + (i + 1) * PAGE_SIZE -
					  (i < 1023 ? 8 : 16),
				.key = mr->mr->rkey }, KV_OK))
			return;
	/* A Read proves that all Writes have arrived. */
	if (!mr || !m || !peer_reads(k, &p->a, mr, mr->mr->rkey, KV_OK))
		return;
	for (i = 0; i < 1024; i += 31)
		if (!kv_ok(k, mr->va[(i + 1) * PAGE_SIZE - 1] == 0xc3 &&
			   (i == 1023 || mr->va[(i + 1) * PAGE_SIZE + 7] == 0xc3),
			   "page %u", i))
			return;
}

const struct kv_case kv_reg_cases[] = {
	{ "reg-use", "V-MR-16 V-WC-1 L-CORE-9", reg_use },
	{ "reg-not-yet", "V-MR-1", reg_not_yet },
	{ "reg-not-yet-remote", "V-MR-1 V-STAG-6", reg_not_yet_remote },
	{ "reg-new-key", "V-MR-19 V-STAG-1 V-STAG-3 V-STAG-4", reg_new_key },
	{ "reg-then-send", "V-MR-18 V-ORD-12", reg_then_send },
	{ "reg-twice", "V-MR-17 V-WC-17", reg_twice },
	{ "reg-other-pd", "V-MR-17 V-PD-6 V-WC-9", reg_other_pd },
	{ "reg-remote-write-only", "V-MR-17 V-ACC-2 V-WC-19",
	  reg_remote_write_only },
	{ "reg-atomic-only", "V-MR-17 V-ACC-2 V-WC-19", reg_atomic_only },
	{ "reg-too-long", "V-MR-17 V-WC-18", reg_too_long },
	{ "reg-offset", "V-MR-17 V-WC-18", reg_offset },
	{ "reg-page-size", "V-MR-17 V-WC-18", reg_page_size },
	{ "reg-wraps", "V-MR-17 V-WC-18", reg_wraps },
	{ "reg-wrong-index", "V-MR-17 V-WC-18", reg_wrong_index },
	{ "reg-local-only", "V-MR-21", reg_local_only },
	{ "reg-1024-pages", "V-RNIC-15", reg_1024_pages },
	{ }
};
