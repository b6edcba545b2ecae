// SPDX-License-Identifier: GPL-2.0
/*
 * What a responder does before its peer has sent anything: it may not send, but
 * what concerns its own side only does not wait.
 */
#include "kv.h"

static struct kv_ep *begin(struct kv *k)
{
	const struct kv_opts o = { .mute = true };
	struct kv_pair *p = kv_connect(k, &o);

	return p ? &p->b : NULL;
}

static void first_reg(struct kv *k)
{
	struct kv_ep *b = begin(k);

	if (b)
		kv_region(k, b, 2, KV_REMOTE);
}

static void first_inv(struct kv *k)
{
	struct kv_ep *b = begin(k);
	struct kv_mr *mr = b ? kv_region(k, b, 2, KV_REMOTE) : NULL;

	if (mr)
		kv_inv(k, b, mr->mr->rkey, KV_OK);
}

static void first_bind(struct kv *k)
{
	struct kv_ep *b = begin(k);
	struct kv_mr *mr;
	struct ib_mw *mw;

	mr = b ? kv_region(k, b, 2, KV_REMOTE | IB_ACCESS_MW_BIND) : NULL;
	mw = mr ? kv_mw(k, b->pd, IB_MW_TYPE_2) : NULL;
	if (mw)
		kv_do(k, b, &(struct kv_wr) {
			.op = IB_WR_BIND_MW, .id = 4, .mw = mw, .mr = mr->mr,
			.key = ib_inc_rkey(mw->rkey), .length = 64,
			.access = IB_ACCESS_REMOTE_READ,
			.remote = mr->mr->iova }, KV_OK);
}

/* It waits, and what is behind it, too. */
static void first_send(struct kv *k)
{
	struct kv_ep *b = begin(k);
	struct kv_mr *mr = b ? kv_region(k, b, 2, KV_REMOTE) : NULL;
	const struct kv_wr wr[] = {
		{ .op = IB_WR_SEND, .id = 5 },
		{ .op = IB_WR_LOCAL_INV, .id = 6, .key = mr ? mr->mr->rkey : 0 },
	};

	if (mr && kv_ok(k, !kv_post_list(b, wr, 2), "post") &&
	    kv_quiet(k, b->scq) &&
	    kv_ok(k, !kv_modify(b, IB_QPS_ERR), "to Error") &&
	    kv_want(k, b->scq, 5, KV_FLUSH))
		kv_want(k, b->scq, 6, KV_FLUSH);
}

const struct kv_case kv_first_cases[] = {
	{ "first-reg", "T-24", first_reg },
	{ "first-inv", "T-24", first_inv },
	{ "first-bind", "T-24", first_bind },
	{ "first-send", "T-24", first_send },
	{ }
};
