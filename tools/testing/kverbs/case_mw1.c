// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows of type 1: a part of a region for all streams of a protection
 * domain, until the window is bound to something else.
 */
#include "kv.h"

#define LEN 256
#define START 1000		/* of the window in its region */
#define ROOM 3000		/* octets of the window */
#define OF_REGION (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND)

/* The same, and a connection over PDs of its own. */
bool kv_mw1_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	if (!kv_two(k, l))
		return false;
	l->r = kv_connect(k, NULL);
	l->mr = l->r ? kv_region(k, &l->p->b, 2, OF_REGION) : NULL;
	l->mw = l->mr ? kv_mw(k, l->p->b.pd, IB_MW_TYPE_1) : NULL;
	if (!l->mw)
		return false;
	l->key = ib_inc_rkey(l->mw->rkey);
	return true;
}

#define BIND(l, ...) ((struct kv_wr) { \
	.op = IB_WR_BIND_MW, .id = 77, .mw = (l)->mw, .mr = (l)->mr->mr, \
	.key = (l)->key, .access = IB_ACCESS_REMOTE_READ, \
	.remote = (l)->mr->mr->iova + START, .length = ROOM, ##__VA_ARGS__ })

static bool bound(struct kv *k, struct kv_lab *l)
{
	return kv_do(k, &l->p->b, &BIND(l), KV_OK);
}

/* End a of @p reads from the window, @at being relative to its start. */
static bool reads(struct kv *k, struct kv_lab *l, struct kv_pair *p, int at,
		  u32 key, u32 want)
{
	struct kv_mem *m = kv_mem(k, &p->a, LEN, 0x99);

	return m && kv_read(k, &p->a, m, l->mr->mr->iova + START + at, key, want);
}

/* All streams of the PD, no others. */
static void mw1_use(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    reads(k, l, l->p, 0, l->key, KV_OK) &&
	    reads(k, l, l->q, ROOM - LEN, l->key, KV_OK) &&
	    reads(k, l, l->r, 0, l->key, KV_FAILS) &&
	    reads(k, l, l->q, ROOM - LEN + 1, l->key, KV_FAILS))
		reads(k, l, l->p, 0, l->key, KV_OK);
}

/* Bound elsewhere, by another queue pair: only the new key and place count. */
static void mw1_again(struct kv *k, struct kv_lab *l)
{
	u32 old;

	if (!bound(k, l))
		return;
	old = l->key;
	l->key = ib_inc_rkey(old);
	if (kv_do(k, &l->q->b, &BIND(l, .remote = l->mr->mr->iova + START + LEN),
		  KV_OK) &&
	    reads(k, l, l->p, ROOM, l->key, KV_OK) &&
	    reads(k, l, l->p, 0, l->key, KV_FAILS))
		reads(k, l, l->q, ROOM, old, KV_FAILS);
}

static void mw1_same_key(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    kv_do(k, &l->p->b, &BIND(l), KV_BIND))
		reads(k, l, l->q, 0, l->key, KV_OK);
}

/* Bound to nothing: no access any more, and nothing holds the region. */
static void mw1_nothing(struct kv *k, struct kv_lab *l)
{
	u32 old;
	int rv;

	if (!bound(k, l))
		return;
	rv = ib_dereg_mr(l->mr->mr);
	old = l->key;
	l->key = ib_inc_rkey(old);
	if (!kv_ok(k, rv == -EBUSY, "deregister: %d", rv) ||
	    !kv_do(k, &l->p->b, &BIND(l, .length = 0), KV_OK) ||
	    !reads(k, l, l->p, 0, old, KV_FAILS) ||
	    !reads(k, l, l->q, 0, l->key, KV_FAILS))
		return;
	rv = ib_dereg_mr(l->mr->mr);
	if (kv_ok(k, !rv, "deregister: %d", rv))
		l->mr->mr = NULL;
}

static void mw1_pd(struct kv *k, struct kv_lab *l)
{
	kv_do(k, &l->r->b, &BIND(l), KV_BIND);
}

/* Only a bind takes it back. */
static void mw1_inv(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    kv_inv(k, &l->p->b, l->key, KV_PROT | KV_QP_OP))
		reads(k, l, l->q, 0, l->key, KV_OK);
}

static void mw1_inv_by_send(struct kv *k, struct kv_lab *l)
{
	if (bound(k, l) &&
	    kv_send_inv(k, l->p, l->key, KV_REM_INV))
		reads(k, l, l->q, 0, l->key, KV_OK);
}

/* The queue pair that bound it may go. */
static void mw1_without_binder(struct kv *k, struct kv_lab *l)
{
	int rv;

	if (!bound(k, l))
		return;
	rv = ib_destroy_qp(l->p->b.qp);
	if (!kv_ok(k, !rv, "destroy QP: %d", rv))
		return;
	l->p->b.qp = NULL;
	l->p->b.id->qp = NULL;
	reads(k, l, l->q, 0, l->key, KV_OK);
}

const struct kv_case kv_mw1_cases[] = {
	{ "mw1-use", "V-MW-17 T-39", .with = mw1_use },
	{ "mw1-again", "V-MW-17", .with = mw1_again },
	{ "mw1-same-key", "V-MW-17", .with = mw1_same_key },
	{ "mw1-nothing", "V-MW-17", .with = mw1_nothing },
	{ "mw1-pd", "V-MW-17", .with = mw1_pd },
	{ "mw1-inv", "V-MW-17", .with = mw1_inv },
	{ "mw1-inv-by-send", "V-MW-17", .with = mw1_inv_by_send },
	{ "mw1-without-binder", "V-MW-17", .with = mw1_without_binder },
	{ }
};
