// SPDX-License-Identifier: GPL-2.0
/* Every way in which a request fails, and the status that says so. */
#include "kv.h"

#define LEN 1024

/* A region and memory of each end. */
bool kv_status_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	l->p = kv_connect(k, NULL);
	l->a = l->p ? kv_region(k, &l->p->a, 1, KV_REMOTE) : NULL;
	l->b = l->a ? kv_region(k, &l->p->b, 1, c->access ?: KV_REMOTE) : NULL;
	l->m = l->b ? kv_mem(k, &l->p->a, LEN, 0x11) : NULL;
	l->n = l->m ? kv_mem(k, &l->p->b, LEN, 0x22) : NULL;
	return l->n;
}

/* A Send out of one local element. */
static void local(struct kv *k, struct kv_lab *l, u64 addr, u32 len, u32 key,
		  u32 want)
{
	if (!kv_do(k, &l->p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .sges = 1,
			.sge = { { addr, len, key } } }, want) ||
	    !kv_is_down(k, &l->p->b))
		return;
	/* One request failed; all others are flushed. */
	kv_do(k, &l->p->a, &(struct kv_wr) { .op = IB_WR_SEND, .id = 2 },
	      KV_FLUSH);
}

static void local_key(struct kv *k, struct kv_lab *l)
{
	local(k, l, l->a->mr->iova, 16, l->a->mr->lkey ^ 0x5a5a5a00,
	      KV_PROT);
}

static void local_key_byte(struct kv *k, struct kv_lab *l)
{
	local(k, l, l->a->mr->iova, 16, l->a->mr->lkey ^ 1, KV_PROT);
}

static void local_behind(struct kv *k, struct kv_lab *l)
{
	local(k, l, l->a->mr->iova + PAGE_SIZE - 15, 16,
	      l->a->mr->lkey, KV_PROT | KV_LEN);
}

static void local_before(struct kv *k, struct kv_lab *l)
{
	local(k, l, l->a->mr->iova - 1, 16, l->a->mr->lkey,
	      KV_PROT | KV_LEN);
}

static void local_pd(struct kv *k, struct kv_lab *l)
{
	local(k, l, l->b->mr->iova, 16, l->b->mr->lkey, KV_PROT);
}

static void local_wraps(struct kv *k, struct kv_lab *l)
{
	local(k, l, U64_MAX, 2, l->a->mr->lkey, KV_PROT);
}

static void local_sum(struct kv *k, struct kv_lab *l)
{
	u32 key;

	/* Nothing of it is touched: the length is wrong first. */
	key = l->p->a.pd->local_dma_lkey;
	kv_do(k, &l->p->a, &(struct kv_wr) {
		.op = IB_WR_RDMA_WRITE, .id = 1, .sges = 2,
		.sge = { { l->m->addr, U32_MAX, key }, { l->m->addr, 2, key } },
		.remote = l->b->mr->iova, .key = l->b->mr->rkey }, KV_LEN);
}

/* The second element is wrong: nothing of the message is delivered. */
static void local_second(struct kv *k, struct kv_lab *l)
{
	kv_do(k, &l->p->a, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 1, .sges = 2,
		.sge = { { l->m->addr, LEN, l->p->a.pd->local_dma_lkey },
			 { l->m->addr, LEN, 0x5a5a5a5a } } }, KV_PROT);
}

/* Elements without length are not looked at. */
static void local_empty(struct kv *k, struct kv_lab *l)
{
	int rv;

	rv = kv_recv(&l->p->b, 9, l->n->addr, LEN, l->p->b.pd->local_dma_lkey);
	if (kv_ok(k, !rv, "post receive: %d", rv) &&
	    kv_do(k, &l->p->a, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 1, .sges = 3,
		.sge = { { 0, 0, 0x5a5a5a5a },
			 { l->m->addr, LEN, l->p->a.pd->local_dma_lkey },
			 { U64_MAX, 0, 0 } } }, KV_OK) &&
	    kv_want(k, l->p->b.rcq, 9, KV_OK))
		kv_ok(k, !memcmp(l->m->va, l->n->va, LEN), "contents");
}

/* A receive into what is wrong, and a message for it. */
static void receive(struct kv *k, struct kv_lab *l, u64 addr, u32 len, u32 key,
		    u32 want)
{
	struct ib_wc wc;
	int rv;

	rv = kv_recv(&l->p->b, 9, addr, len, key);
	rv = rv ?: kv_recv(&l->p->b, 10, addr, len, key);
	if (!kv_ok(k, !rv, "posting it: %d", rv))
		return;
	rv = kv_post(&l->p->a, &(struct kv_wr) {
		.op = IB_WR_SEND, .id = 1, KV_LOCAL(&l->p->a, l->m) });
	if (!kv_ok(k, !rv, "post: %d", rv) || !kv_wc(k, l->p->b.rcq, &wc) ||
	    !kv_ok(k, wc.wr_id == 9 && want & BIT(wc.status), "it ends with %s",
		   ib_wc_status_msg(wc.status)))
		return;
	if (kv_want(k, l->p->b.rcq, 10, KV_FLUSH))
		kv_is_down(k, &l->p->a);
}

static void receive_key(struct kv *k, struct kv_lab *l)
{
	receive(k, l, l->n->addr, LEN, 0x5a5a5a5a, KV_PROT);
}

static void receive_readonly(struct kv *k, struct kv_lab *l)
{
	receive(k, l, l->b->mr->iova, LEN, l->b->mr->lkey,
		KV_PROT | KV_ACCESS);
}

static void receive_pd(struct kv *k, struct kv_lab *l)
{
	receive(k, l, l->a->mr->iova, LEN, l->a->mr->lkey, KV_PROT);
}

static void receive_short(struct kv *k, struct kv_lab *l)
{
	receive(k, l, l->n->addr, LEN - 1, l->p->b.pd->local_dma_lkey,
		KV_LEN);
}

/* Two faults at the same time: one request fails, the others are flushed. */
static void two_faults(struct kv *k, struct kv_lab *l)
{
	int i, failed = 0, rv;
	struct ib_wc wc;

	rv = kv_post_list(&l->p->a, (struct kv_wr[]) {
		{ .op = IB_WR_RDMA_READ, .id = 1, KV_LOCAL(&l->p->a, l->m),
		  .remote = l->b->mr->iova, .key = 0x5a5a5a5a },
		{ .op = IB_WR_SEND, .id = 2, .sges = 1,
		  .sge = { { 0, 1, 0x5a5a5a5a } } },
		{ .op = IB_WR_RDMA_READ, .id = 3, KV_LOCAL(&l->p->a, l->m),
		  .remote = l->b->mr->iova, .key = 0x5a5a5a5a } }, 3);
	if (!kv_ok(k, !rv, "post: %d", rv))
		return;
	for (i = 1; i <= 3; i++) {
		if (!kv_wc(k, l->p->a.scq, &wc) ||
		    !kv_ok(k, wc.wr_id == i, "order") ||
		    !kv_ok(k, wc.status != IB_WC_SUCCESS, "success"))
			return;
		failed += wc.status != IB_WC_WR_FLUSH_ERR;
	}
	kv_ok(k, failed == 1, "%d requests failed", failed);
}

/* A request that fails, and a new state that its poster asks for at once: the failure was first. */
static bool fault_and(struct kv *k, struct kv_ep *a, enum ib_qp_state state)
{
	struct ib_wc wc;
	int rv;

	rv = kv_post_list(a, (struct kv_wr[]) {
		{ .op = IB_WR_SEND, .id = 1, .sges = 1,
		  .sge = { { 0, 1, 0x5a5a5a5a } } } }, 1);
	return kv_ok(k, !rv, "post: %d", rv) &&
	       kv_ok(k, !kv_modify(a, state), "to state %d", state) &&
	       kv_wc(k, a->scq, &wc) &&
	       kv_ok(k, wc.wr_id == 1 && wc.status == IB_WC_LOC_PROT_ERR, "status %d", wc.status);
}

static void fault_and_close(struct kv *k, struct kv_lab *l)
{
	if (fault_and(k, &l->p->a, IB_QPS_SQD))
		kv_events(k, &l->p->a, IB_EVENT_QP_FATAL, 0);
}

/* This end resets: the peer is told of that or of the failure, not of a good end. */
static void fault_and_end(struct kv *k, struct kv_lab *l)
{
	if (fault_and(k, &l->p->a, IB_QPS_ERR))
		kv_events(k, &l->p->b, IB_EVENT_QP_FATAL, 1);
}

const struct kv_case kv_status_cases[] = {
	{ "local-key", "V-WC-6 V-WR-21", .with = local_key },
	{ "local-key-byte", "V-STAG-5 V-WC-6", .with = local_key_byte },
	{ "local-behind", "V-WC-7", .with = local_behind },
	{ "local-before", "V-WC-7", .with = local_before },
	{ "local-pd", "V-WC-9 V-PD-4", .with = local_pd },
	{ "local-wraps", "V-WC-10", .with = local_wraps },
	{ "local-sum", "V-WC-21", .with = local_sum },
	{ "local-second", "V-WC-6", .with = local_second },
	{ "local-empty", "V-WR-12 V-WR-14", .with = local_empty },
	{ "receive-key", "V-WC-6", .with = receive_key },
	{ "receive-readonly", "V-WC-8 V-ACC-4", .with = receive_readonly,
	  .access = IB_ACCESS_REMOTE_READ },
	{ "receive-pd", "V-WC-9 V-PD-4", .with = receive_pd },
	{ "receive-short", "V-WC-11", .with = receive_short },
	{ "two-faults", "V-ST-26", .with = two_faults },
	{ "fault-and-close", "V-ST-14 V-ST-26", .with = fault_and_close },
	{ "fault-and-end", "V-ST-14 V-ST-26", .with = fault_and_end },
	{ }
};
