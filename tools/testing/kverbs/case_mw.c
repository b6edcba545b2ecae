// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: a part of a region for one stream, bound and taken back by
 * the send queue.
 */
#include "kv.h"

#define LEN 256
#define START 1000		/* of the window in its region */
#define ROOM 3000		/* octets of the window */
#define OF_WINDOW (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)
#define OF_REGION (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND)

/* A window and its region of the PD of end b, over which there is another connection. */
bool kv_mw_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	if (!kv_two(k, l))
		return false;
	l->mr = kv_region(k, &l->p->b, 2, c->access ?: OF_REGION);
	l->mw = l->mr ? kv_mw(k, l->p->b.pd, IB_MW_TYPE_2) : NULL;
	l->m = l->mw ? kv_mem(k, &l->p->a, LEN, 0x99) : NULL;
	if (!l->m)
		return false;
	memset(l->mr->va, 0x42, 2 * PAGE_SIZE);
	l->key = ib_inc_rkey(l->mw->rkey);
	return true;
}

#define BIND(l, ...) ((struct kv_wr) { \
	.op = IB_WR_BIND_MW, .id = 77, .mw = (l)->mw, .mr = (l)->mr->mr, \
	.key = (l)->key, .access = OF_WINDOW, \
	.remote = (l)->mr->mr->iova + START, .length = ROOM, ##__VA_ARGS__ })

static bool bound(struct kv *k, struct kv_lab *l)
{
	return kv_do(k, &l->p->b, &BIND(l), KV_OK);
}

/* End a of @p accesses the window, @at being relative to its start. */
static bool reach(struct kv *k, struct kv_lab *l, struct kv_pair *p,
		  enum ib_wr_opcode op, int at, u32 key, u32 want)
{
	return kv_do(k, &p->a, &(struct kv_wr) {
		.op = op, .id = 5, KV_LOCAL(&p->a, l->m),
		.remote = l->mr->mr->iova + START + at, .key = key }, want);
}

static bool reads(struct kv *k, struct kv_lab *l, u32 key, u32 want)
{
	return reach(k, l, l->p, IB_WR_RDMA_READ, 0, key, want);
}

/* The window's rights count, not the region's, which gives the peer none. */
static void mw_use(struct kv *k, struct kv_lab *l)
{
	if (!bound(k, l) ||
	    !reach(k, l, l->p, IB_WR_RDMA_WRITE, ROOM - LEN, l->key, KV_OK) ||
	    !reads(k, l, l->key, KV_OK) ||
	    !kv_ok(k, *(u8 *)l->m->va == 0x42, "Read's contents"))
		return;
	kv_ok(k, l->mr->va[START + ROOM - LEN] == 0x99 &&
	      l->mr->va[START + ROOM - 1] == 0x99 &&
	      l->mr->va[START + ROOM] == 0x42 &&
	      l->mr->va[START + ROOM - LEN - 1] == 0x42, "Write's place");
}

static void mw_unbound(struct kv *k, struct kv_lab *l)
{
	reads(k, l, l->mw->rkey, KV_FAILS);
}

static void mw_out_of(struct kv *k, struct kv_lab *l, int at)
{
	if (bound(k, l))
		reach(k, l, l->p, IB_WR_RDMA_READ, at, l->key, KV_FAILS);
}

static void mw_before(struct kv *k, struct kv_lab *l)
{
	mw_out_of(k, l, -1);
}

static void mw_behind(struct kv *k, struct kv_lab *l)
{
	mw_out_of(k, l, ROOM - LEN + 1);
}

/* Another stream of the same PD. */
static void mw_other_stream(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    reach(k, l, l->q, IB_WR_RDMA_READ, 0, l->key, KV_FAILS))
		reads(k, l, l->key, KV_OK);
}

static void mw_write_only(struct kv *k, struct kv_lab *l)
{
	if (kv_do(k, &l->p->b, &BIND(l, .access = IB_ACCESS_REMOTE_WRITE),
		  KV_OK) &&
	    reach(k, l, l->p, IB_WR_RDMA_WRITE, 0, l->key, KV_OK))
		reads(k, l, l->key, KV_FAILS);
}

static void mw_zero_based(struct kv *k, struct kv_lab *l)
{
	if (!kv_do(k, &l->p->b, &BIND(l, .access = OF_WINDOW | IB_ZERO_BASED),
		   KV_OK))
		return;
	l->mr->va[START] = 0x17;
	if (kv_read(k, &l->p->a, l->m, 0, l->key, KV_OK))
		kv_ok(k, *(u8 *)l->m->va == 0x17, "contents");
}

/* Overlapping windows of one region, all for one stream. */
static void mw_many(struct kv *k, struct kv_lab *l)
{
	struct ib_mw *mw[6];
	int i;

	for (i = 0; i < ARRAY_SIZE(mw); i++) {
		mw[i] = kv_mw(k, l->p->b.pd, IB_MW_TYPE_2);
		if (!mw[i] || !kv_do(k, &l->p->b, &BIND(l, .mw = mw[i],
				.key = mw[i]->rkey,
				.remote = l->mr->mr->iova + 10 * i), KV_OK))
			return;
	}
	for (i = 0; i < ARRAY_SIZE(mw); i++)
		if (!kv_read(k, &l->p->a, l->m, l->mr->mr->iova + 10 * i,
			     mw[i]->rkey, KV_OK))
			return;
}

/* A bind that is refused: the connection ends, the window stays invalid. */
static void refused(struct kv *k, struct kv_lab *l, const struct kv_wr *wr)
{
	if (kv_do(k, &l->p->b, wr, KV_BIND) && kv_is_down(k, &l->p->a))
		reach(k, l, l->q, IB_WR_RDMA_READ, 0, l->key, KV_FAILS);
}

static void bind_region_key(struct kv *k, struct kv_lab *l)
{
	struct ib_mr wrong;

	wrong = *l->mr->mr;
	wrong.lkey ^= 1;
	refused(k, l, &BIND(l, .mr = &wrong));
}

static void bind_region_invalid(struct kv *k, struct kv_lab *l)
{
	if (kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK))
		refused(k, l, &BIND(l));
}

static void bind_not_allowed(struct kv *k, struct kv_lab *l)
{
	refused(k, l, &BIND(l));
}

static void bind_no_rights(struct kv *k, struct kv_lab *l)
{
	refused(k, l, &BIND(l, .access = 0));
}

/* Remote write takes a region that its owner may write. */
static void bind_write(struct kv *k, struct kv_lab *l)
{
	refused(k, l, &BIND(l));
}

static void bind_beyond(struct kv *k, struct kv_lab *l)
{
	refused(k, l, &BIND(l, .length = 2 * PAGE_SIZE - START + 1));
}

static void bind_before(struct kv *k, struct kv_lab *l)
{
	refused(k, l, &BIND(l, .remote = l->mr->mr->iova - 1));
}

static void bind_window_pd(struct kv *k, struct kv_lab *l)
{
	l->mw = kv_mw(k, l->p->a.pd, IB_MW_TYPE_2);
	if (l->mw)
		refused(k, l, &BIND(l, .key = l->mw->rkey));
}

static void bind_region_pd(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *other;

	other = kv_region(k, &l->p->a, 2, OF_REGION);
	if (other)
		refused(k, l, &BIND(l, .mr = other->mr,
				     .remote = other->mr->iova));
}

static void bind_dma_key(struct kv *k, struct kv_lab *l)
{
	if (kv_ok(k, l->p->b.pd->__internal_mr, "no DMA region"))
		refused(k, l, &BIND(l, .mr = l->p->b.pd->__internal_mr));
}

static void bind_zero_based(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *mr;

	mr = kv_alloc_mr(k, &l->p->b, 2, IB_MR_TYPE_MEM_REG);
	if (!mr || !kv_ok(k, ib_map_mr_sg_zbva(mr->mr, mr->sg, 2, NULL,
					       PAGE_SIZE) == 2, "map") ||
	    !kv_reg(k, &l->p->b, mr, mr->mr->rkey, OF_REGION, KV_OK))
		return;
	refused(k, l, &BIND(l, .mr = mr->mr, .remote = mr->mr->iova));
}

static void bind_valid(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l))
		kv_do(k, &l->p->b, &BIND(l), KV_BIND);
}

static void mw_new_key(struct kv *k, struct kv_lab *l)
{
	u32 old;

	if (!bound(k, l) || !kv_inv(k, &l->p->b, l->key, KV_OK))
		return;
	old = l->key;
	l->key = ib_inc_rkey(old);
	if (bound(k, l) && reads(k, l, l->key, KV_OK))
		reads(k, l, old, KV_FAILS);
}

/* Taken back: no access any more, and nothing holds the region. */
static void mw_inv(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!bound(k, l) || !kv_inv(k, &l->p->b, l->key, KV_OK) ||
	    !kv_inv(k, &l->q->b, l->key, KV_OK) || !reads(k, l, l->key, KV_FAILS))
		return;
	rv = ib_dereg_mr(l->mr->mr);
	if (kv_ok(k, !rv, "deregister: %d", rv))
		l->mr->mr = NULL;
}

static void mw_inv_other_stream(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    kv_inv(k, &l->q->b, l->key, KV_PROT | KV_QP_OP))
		reads(k, l, l->key, KV_OK);
}

static void mw_inv_other_pd(struct kv *k, struct kv_lab *l)
{
	/* Not bound: the PD counts. */
	kv_inv(k, &l->p->a, l->mw->rkey, KV_PROT | KV_QP_OP);
}

static void mw_inv_by_send(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) && kv_send_inv(k, l->p, l->key, KV_OK))
		reads(k, l, l->key, KV_FAILS);
}

/* What has bound windows stays: region and queue pair. */
static void mw_holds(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!bound(k, l))
		return;
	rv = ib_dereg_mr(l->mr->mr);
	if (!kv_ok(k, rv == -EBUSY, "deregister: %d", rv))
		return;
	rv = ib_destroy_qp(l->p->b.qp);
	if (kv_ok(k, rv == -EBUSY, "destroy QP: %d", rv) &&
	    reads(k, l, l->key, KV_OK))
		kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_PROT | KV_QP_OP);
}

static void mw_holds_remote(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    kv_send_inv(k, l->p, l->mr->mr->rkey, KV_REM_INV))
		kv_is_down(k, &l->p->a);
}

static void mw_as_local(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l))
		kv_do(k, &l->p->b, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .sges = 1,
			.sge = { { l->mr->mr->iova + START, LEN, l->key } } },
			KV_PROT);
}

/* The sink of a Read is the peer's to write: a window will do. */
static void mw_as_sink(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *from;

	if (!bound(k, l))
		return;
	from = kv_region(k, &l->p->a, 1, KV_REMOTE);
	if (!from)
		return;
	memset(from->va, 0x3c, PAGE_SIZE);
	if (kv_do(k, &l->p->b, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = 1, .sges = 1,
			.sge = { { l->mr->mr->iova + START, LEN, l->key } },
			.remote = from->mr->iova, .key = from->mr->rkey },
		  KV_OK))
		kv_ok(k, l->mr->va[START] == 0x3c, "contents");
}

const struct kv_case kv_mw_cases[] = {
	{ "mw-use", "V-MW-2 V-MW-5 V-MW-8 T-39", .with = mw_use },
	{ "mw-unbound", "V-MW-1", .with = mw_unbound },
	{ "mw-before", "V-MW-8", .with = mw_before },
	{ "mw-behind", "V-MW-8", .with = mw_behind },
	{ "mw-other-stream", "V-MW-8 V-PD-5 V-SEC-2 S-5042-2 D-DDP-25",
	  .with = mw_other_stream },
	{ "mw-write-only", "V-MW-8", .with = mw_write_only },
	{ "mw-zero-based", "V-MW-6", .with = mw_zero_based },
	{ "mw-many", "V-MW-3", .with = mw_many },
	{ "bind-region-key", "V-MW-4 V-MW-12 V-WC-20", .with = bind_region_key },
	{ "bind-region-invalid", "V-MW-4 V-WC-20", .with = bind_region_invalid },
	{ "bind-not-allowed", "V-MW-4", .with = bind_not_allowed,
	  .access = KV_REMOTE },
	{ "bind-no-rights", "V-MW-4 V-MW-5", .with = bind_no_rights },
	{ "bind-write", "V-MW-4 V-MW-5", .with = bind_write,
	  .access = IB_ACCESS_MW_BIND },
	{ "bind-beyond", "V-MW-4 V-MW-7", .with = bind_beyond },
	{ "bind-before", "V-MW-4 V-MW-7", .with = bind_before },
	{ "bind-window-pd", "V-MW-4 V-PD-6", .with = bind_window_pd },
	{ "bind-region-pd", "V-MW-4 V-PD-6", .with = bind_region_pd },
	{ "bind-dma-key", "V-MW-4 V-STAG0-5", .with = bind_dma_key },
	{ "bind-zero-based", "V-MW-4 V-MW-6", .with = bind_zero_based },
	{ "bind-valid", "V-MW-11 V-WC-17", .with = bind_valid },
	{ "mw-new-key", "V-MW-10", .with = mw_new_key },
	{ "mw-inv", "V-MW-13 V-MW-14", .with = mw_inv },
	{ "mw-inv-other-stream", "V-MW-13", .with = mw_inv_other_stream },
	{ "mw-inv-other-pd", "V-MW-13", .with = mw_inv_other_pd },
	{ "mw-inv-by-send", "V-MW-13 V-INV-1", .with = mw_inv_by_send },
	{ "mw-holds", "V-DEA-4 V-INV-8 V-MW-16 V-QP-24 V-IMM-8 T-39", .with = mw_holds },
	{ "mw-holds-remote", "V-INV-8 V-WC-14", .with = mw_holds_remote,
	  .access = KV_REMOTE | IB_ACCESS_MW_BIND },
	{ "mw-as-local", "V-ACC-12", .with = mw_as_local },
	{ "mw-as-sink", "V-ACC-13", .with = mw_as_sink },
	{ }
};
