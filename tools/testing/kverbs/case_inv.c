// SPDX-License-Identifier: GPL-2.0
/*
 * Invalidating: by the owner's send queue, by the peer's Send, by a Read. Where
 * it has to fail, a second connection over the same PD shows that the region
 * is as good as before.
 */
#include <linux/delay.h>

#include "kv.h"

#define LEN 128

/* A region of the PD of end b, over which there is another connection. */
bool kv_inv_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	if (!kv_two(k, l))
		return false;
	l->mr = kv_region(k, &l->p->b, 1, c->access ?: KV_REMOTE);
	l->m = l->mr ? kv_mem(k, &l->p->a, LEN, 0) : NULL;
	return l->m;
}

/* Reads from the region of end b. */
static bool reads(struct kv *k, struct kv_pair *p, struct kv_lab *l, u32 want)
{
	return kv_read(k, &p->a, l->m, l->mr->mr->iova, l->mr->mr->rkey, want);
}

/* A Send with Invalidate from end a, and what the receive at b is told. */
static bool send_inv(struct kv *k, struct kv_lab *l, u32 key, u32 want,
		     struct ib_wc *wc)
{
	struct kv_ep *b = &l->p->b;
	struct kv_mem *in = kv_mem(k, b, LEN, 0);
	int rv;

	if (!in)
		return false;
	rv = kv_recv(b, 9, in->addr, LEN, b->pd->local_dma_lkey);
	if (!kv_ok(k, !rv, "post receive: %d", rv))
		return false;
	/* What this side is told depends on when the other complains. */
	rv = kv_post(&l->p->a, &(struct kv_wr) {
		.op = IB_WR_SEND_WITH_INV, .id = 4, KV_LOCAL(&l->p->a, l->m),
		.key = key });
	return kv_ok(k, !rv, "post: %d", rv) && kv_wc(k, b->rcq, wc) &&
	       kv_ok(k, wc->wr_id == 9 && want & BIT(wc->status),
		     "receive: %s", ib_wc_status_msg(wc->status));
}

static void inv_local(struct kv *k, struct kv_lab *l)
{
	if (!kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK) ||
	    !reads(k, l->p, l, KV_FAILS))
		return;
	/* Nor can its owner use it. */
	kv_do(k, &l->q->b, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 5, .sges = 1,
		.sge = { { l->mr->mr->iova, LEN, l->mr->mr->lkey } } }, KV_PROT);
}

static void inv_twice(struct kv *k, struct kv_lab *l)
{
	if (kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK) &&
	    kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK) &&
	    kv_reg(k, &l->p->b, l->mr, l->mr->mr->rkey, KV_REMOTE, KV_OK))
		reads(k, l->p, l, KV_OK);
}

/* Fails, ends the connection, and the region lives on. */
static void inv_fails(struct kv *k, struct kv_lab *l, u32 key)
{
	if (kv_inv(k, &l->p->b, key, KV_QP_OP | KV_PROT) &&
	    kv_is_down(k, &l->p->a))
		reads(k, l->q, l, KV_OK);
}

static void inv_wrong_key(struct kv *k, struct kv_lab *l)
{
	inv_fails(k, l, l->mr->mr->rkey ^ 1);
}

static void inv_unknown(struct kv *k, struct kv_lab *l)
{
	inv_fails(k, l, l->mr->mr->rkey ^ 0x5a5a5a00);
}

static void inv_zero(struct kv *k, struct kv_lab *l)
{
	inv_fails(k, l, 0);
}

static void inv_dma_key(struct kv *k, struct kv_lab *l)
{
	/* The Read that follows uses the key. */
	inv_fails(k, l, l->p->b.pd->local_dma_lkey);
}

static void inv_other_pd(struct kv *k, struct kv_lab *l)
{
	struct kv_mr *mr;

	/* End a of the same connection has another PD. */
	mr = kv_region(k, &l->p->a, 1, KV_REMOTE);
	if (mr)
		inv_fails(k, l, mr->mr->rkey);
}

/* Done before the receive completes, which tells of it. */
static void inv_by_send(struct kv *k, struct kv_lab *l)
{
	struct ib_wc wc;

	if (send_inv(k, l, l->mr->mr->rkey, KV_OK, &wc) &&
	    kv_ok(k, wc.wc_flags & IB_WC_WITH_INVALIDATE &&
		  wc.ex.invalidate_rkey == l->mr->mr->rkey &&
		  wc.opcode == IB_WC_RECV && wc.byte_len == LEN &&
		  wc.qp == l->p->b.qp, "fields of the completion") &&
	    kv_want(k, l->p->a.scq, 4, KV_OK))
		reads(k, l->p, l, KV_FAILS);
}

/* A refused one: the receive fails, the stream ends, the region lives on. */
static void send_inv_fails(struct kv *k, struct kv_lab *l, u32 key)
{
	struct ib_wc wc;

	if (send_inv(k, l, key, KV_REM_INV, &wc) &&
	    kv_is_down(k, &l->p->a) && kv_is_down(k, &l->p->b))
		reads(k, l->q, l, KV_OK);
}

static void inv_by_send_wrong_key(struct kv *k, struct kv_lab *l)
{
	send_inv_fails(k, l, l->mr->mr->rkey ^ 1);
}

static void inv_by_send_dma_key(struct kv *k, struct kv_lab *l)
{
	send_inv_fails(k, l, l->p->b.pd->local_dma_lkey);
}

/*
 * The next key, which the owner is about to register: the peer may know it
 * beforehand, and the owner would take the memory back before it is registered.
 */
static void inv_by_send_early(struct kv *k, struct kv_lab *l)
{
	struct ib_wc wc;

	if (kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK) &&
	    send_inv(k, l, ib_inc_rkey(l->mr->mr->rkey), KV_REM_INV, &wc))
		kv_is_down(k, &l->p->a);
}

/* The same with a window that is about to be bound. */
static void inv_by_send_early_window(struct kv *k, struct kv_lab *l)
{
	struct ib_wc wc;
	struct ib_mw *mw;

	mw = kv_mw(k, l->p->b.pd, IB_MW_TYPE_2);
	if (mw && send_inv(k, l, ib_inc_rkey(mw->rkey), KV_REM_INV, &wc))
		kv_is_down(k, &l->p->a);
}

/* The sink of a Read is invalid when the Read completes. */
static void inv_by_read(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *from = p ? kv_region(k, &p->b, 1, KV_REMOTE) : NULL;
	struct kv_mr *to = from ? kv_region(k, &p->a, 1, IB_ACCESS_LOCAL_WRITE |
					    IB_ACCESS_REMOTE_WRITE) : NULL;

	if (!to)
		return;
	memset(from->va, 0x77, PAGE_SIZE);
	if (!kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ_WITH_INV, .id = 6, .sges = 1,
			.sge = { { to->mr->iova, PAGE_SIZE, to->mr->lkey } },
			.remote = from->mr->iova, .key = from->mr->rkey },
		   KV_OK) ||
	    !kv_ok(k, !memcmp(from->va, to->va, PAGE_SIZE), "contents"))
		return;
	kv_do(k, &p->a, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 5, .sges = 1,
		.sge = { { to->mr->iova, LEN, to->mr->lkey } } }, KV_PROT);
}

/* Pages of a Read that takes its responder several turns. */
#define MANY 1024

/*
 * The region that the peer invalidates is just being read from: the responder's
 * sender and its receiver must not wait for each other.
 */
static bool inv_in_read(struct kv *k, unsigned int us)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *from = p ? kv_region(k, &p->b, MANY, KV_REMOTE) : NULL;
	struct kv_mr *to = from ? kv_region(k, &p->a, MANY,
					    IB_ACCESS_LOCAL_WRITE |
					    IB_ACCESS_REMOTE_WRITE) : NULL;
	struct kv_mem *in = to ? kv_mem(k, &p->b, LEN, 0) : NULL;
	struct kv_wr read;
	struct ib_wc wc;
	int i, rv;

	if (!in)
		return false;
	read = (struct kv_wr) {
		.op = IB_WR_RDMA_READ, .id = 6, .sges = 1,
		.sge = { { to->mr->iova, MANY * PAGE_SIZE, to->mr->lkey } },
		.remote = from->mr->iova, .key = from->mr->rkey };
	/* TCP takes as much at a time as it has seen go through. */
	for (i = 0; i < 4; i++)
		if (!kv_do(k, &p->a, &read, KV_OK))
			return false;
	rv = kv_recv(&p->b, 9, in->addr, LEN, p->b.pd->local_dma_lkey);
	if (!rv)
		rv = kv_post(&p->a, &read);
	fsleep(us);
	if (!rv)
		rv = kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_SEND_WITH_INV, .id = 4, .sges = 1,
			.sge = { { to->mr->iova, LEN, to->mr->lkey } },
			.key = from->mr->rkey });
	/* Whether the Read ends well depends on who was first. */
	return kv_ok(k, !rv, "post: %d", rv) && kv_wc(k, p->a.scq, &wc) &&
	       kv_wc(k, p->b.rcq, &wc) &&
	       kv_ok(k, wc.wr_id == 9 && (KV_OK | KV_FLUSH) & BIT(wc.status),
		     "receive: %s", ib_wc_status_msg(wc.status));
}

static void inv_during_read(struct kv *k)
{
	unsigned int us;

	for (us = 500; us < 20000 && inv_in_read(k, us); us += us / 2)
		;
}

/* Freed in either state, and its key whatever it is. */
static void dealloc_states(struct kv *k, struct kv_lab *l)
{
	kv_ok(k, !ib_dereg_mr(l->mr->mr), "deregister a valid region");
	l->mr->mr = NULL;
	l->mr = kv_region(k, &l->p->b, 1, KV_REMOTE);
	if (!l->mr || !kv_inv(k, &l->p->b, l->mr->mr->rkey, KV_OK))
		return;
	kv_ok(k, !ib_dereg_mr(l->mr->mr), "deregister an invalid region");
	l->mr->mr = NULL;
}

const struct kv_case kv_inv_cases[] = {
	{ "inv-local", "V-INV-2 V-STAG-6", .with = inv_local },
	{ "inv-twice", "V-INV-3 V-INV-4", .with = inv_twice },
	{ "inv-wrong-key", "V-INV-9 V-INV-13 V-WC-22 V-STAG-5", .with = inv_wrong_key },
	{ "inv-unknown", "V-INV-13 V-WC-22", .with = inv_unknown },
	{ "inv-zero", "V-INV-6", .with = inv_zero },
	{ "inv-dma-key", "V-INV-6 V-STAG0-7", .with = inv_dma_key },
	{ "inv-other-pd", "V-INV-7 V-WC-22", .with = inv_other_pd },
	{ "inv-by-send", "V-INV-1 V-INV-14 V-CQ-26", .with = inv_by_send },
	{ "inv-by-send-wrong-key", "V-INV-9 V-INV-12", .with = inv_by_send_wrong_key },
	{ "inv-by-send-dma-key", "V-STAG0-6", .with = inv_by_send_dma_key },
	{ "inv-by-send-early", "V-INV-9 V-INV-12", .with = inv_by_send_early },
	{ "inv-by-send-early-window", "V-INV-9 V-INV-12",
	  .with = inv_by_send_early_window },
	{ "inv-by-read", "V-INV-1 V-INV-15 L-CORE-9", inv_by_read },
	{ "inv-during-read", "V-INV-14 T-20", inv_during_read },
	{ "dealloc-states", "V-DEA-1", .with = dealloc_states },
	{ }
};
