// SPDX-License-Identifier: GPL-2.0
/* Work requests of all kinds, lists of them, and slots in queues. */
#include <linux/delay.h>
#include <linux/slab.h>

#include "kv.h"

#define LEN 64

/* A region and memory of each end. */
bool kv_request_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	l->p = kv_connect(k, c->o);
	l->a = l->p ? kv_region(k, &l->p->a, 1, KV_REMOTE) : NULL;
	l->b = l->a ? kv_region(k, &l->p->b, 1, KV_REMOTE) : NULL;
	l->m = l->b ? kv_mem(k, &l->p->a, LEN, 0x31) : NULL;
	l->n = l->m ? kv_mem(k, &l->p->b, LEN, 0) : NULL;
	return l->n;
}

static bool receive(struct kv *k, struct kv_lab *l, int n)
{
	int rv = 0;

	while (n-- && !rv)
		rv = kv_recv(&l->p->b, 9, l->n->addr, LEN,
			     l->p->b.pd->local_dma_lkey);
	return kv_ok(k, !rv, "posting it: %d", rv);
}

/* One of each on one queue. Binds are case_mw.c's. */
static void all_kinds(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr[] = {
		{ .op = IB_WR_SEND },
		{ .op = IB_WR_SEND, .flags = IB_SEND_SOLICITED },
		{ .op = IB_WR_SEND_WITH_INV },
		{ .op = IB_WR_SEND_WITH_INV, .flags = IB_SEND_SOLICITED },
		{ .op = IB_WR_RDMA_WRITE }, { .op = IB_WR_RDMA_READ },
		{ .op = IB_WR_RDMA_READ_WITH_INV },
		{ .op = IB_WR_REG_MR }, { .op = IB_WR_LOCAL_INV },
	};
	struct kv_mr *spare;
	int i;

	if (!receive(k, l, 4))
		return;
	spare = kv_region(k, &l->p->b, 1, KV_REMOTE);
	for (i = 0; spare && i < ARRAY_SIZE(wr); i++) {
		wr[i].id = i;
		wr[i].remote = l->b->mr->iova;
		wr[i].key = l->b->mr->rkey;
		wr[i].sges = 1;
		wr[i].sge[0] = (struct ib_sge) { l->m->addr, LEN,
						 l->p->a.pd->local_dma_lkey };
		if (i == 2 || i == 3)
			wr[i].key = spare->mr->rkey;
		if (i == 6)
			wr[i].sge[0] = (struct ib_sge) { l->a->mr->iova, LEN,
							 l->a->mr->lkey };
		if (i > 6) {
			wr[i].sges = 0;
			wr[i].mr = l->a->mr;
			wr[i].key = l->a->mr->rkey;
			wr[i].access = KV_REMOTE;
		}
		if (!kv_do(k, &l->p->a, &wr[i], KV_OK) ||
		    (i < 4 && !kv_want(k, l->p->b.rcq, 9, KV_OK)))
			return;
	}
}

/* What no send queue knows; and a list that has such a thing in it. */
static void bad_kinds(struct kv *k, struct kv_lab *l)
{
	struct ib_send_wr wr[3] = {
		{ .next = &wr[1], .wr_id = 1, .send_flags = IB_SEND_SIGNALED },
		{ .next = &wr[2], .wr_id = 2, .send_flags = IB_SEND_SIGNALED },
		{ .wr_id = 3, .send_flags = IB_SEND_SIGNALED },
	};
	static const enum ib_wr_opcode bad_op[] = {
		IB_WR_SEND_WITH_IMM, IB_WR_LSO, 0x77,
	};
	const struct ib_send_wr *bad;
	int i, rv;

	for (i = 0; i < ARRAY_SIZE(bad_op); i++) {
		if (!receive(k, l, 1))
			return;
		wr[0].opcode = IB_WR_SEND;
		wr[1].opcode = bad_op[i];
		wr[2].opcode = IB_WR_SEND;
		bad = NULL;
		rv = ib_post_send(l->p->a.qp, wr, &bad);
		if (!kv_ok(k, rv == -EINVAL && bad == &wr[1],
			   "opcode %#x: %d", bad_op[i], rv) ||
		    !kv_want(k, l->p->a.scq, 1, KV_OK) ||
		    !kv_want(k, l->p->b.rcq, 9, KV_OK) ||
		    !kv_quiet(k, l->p->a.scq))
			return;
	}
}

/* A Read has one sink. */
static void read_two_sinks(struct kv *k, struct kv_lab *l)
{
	u32 key;
	int rv;

	key = l->p->a.pd->local_dma_lkey;
	rv = kv_post(&l->p->a, &(struct kv_wr) {
		.op = IB_WR_RDMA_READ, .id = 1, .sges = 2,
		.sge = { { l->m->addr, 8, key }, { l->m->addr + 8, 8, key } },
		.remote = l->b->mr->iova, .key = l->b->mr->rkey });
	kv_ok(k, rv == -EINVAL, "two sinks: %d", rv);
}

/* Copied while it is posted; the key is not looked at. */
static void inline_data(struct kv *k, struct kv_lab *l)
{
	int i, rv;

	for (i = 0; i < 10; i++) {
		if (!receive(k, l, 1))
			return;
		memset(l->m->va, 0x70 + i, LEN);
		rv = kv_post(&l->p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .flags = IB_SEND_INLINE,
			.sges = 1, .sge = { { l->m->addr, LEN, 0xdeadbeef } } });
		memset(l->m->va, 0, LEN);
		if (!kv_ok(k, !rv, "post: %d", rv) ||
		    !kv_want(k, l->p->a.scq, 1, KV_OK) ||
		    !kv_want(k, l->p->b.rcq, 9, KV_OK) ||
		    !kv_ok(k, *(u8 *)l->n->va == 0x70 + i, "contents"))
			return;
	}
}

static bool full(struct kv *k, struct kv_ep *ep, const char *what)
{
	int rv = kv_recv(ep, 9, 0, 0, 0);

	return kv_ok(k, rv == -ENOMEM, "%s: %d", what, rv);
}

/* The slot of a receive is taken until its completion is polled. */
static void slots_until_polled(struct kv *k, const struct kv_opts *o)
{
	struct kv_pair *p = kv_connect(k, o);
	int i;

	for (i = 0; p && i < 8; i++)
		if (!kv_ok(k, !kv_recv(&p->b, 9, 0, 0, 0), "receive %d", i))
			return;
	if (!p || !full(k, &p->b, "one too many") ||
	    !kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND }, KV_OK))
		return;
	msleep(KV_QUIET_MS);
	if (full(k, &p->b, "complete, not polled") &&
	    kv_want(k, p->b.rcq, 9, KV_OK) &&
	    kv_ok(k, !kv_recv(&p->b, 9, 0, 0, 0), "polled"))
		full(k, &p->b, "one too many again");
}

static void slots_receive(struct kv *k)
{
	slots_until_polled(k, &(struct kv_opts) { .depth = 8 });
}

static void slots_srq(struct kv *k)
{
	slots_until_polled(k, &(struct kv_opts) { .depth = 8, .srq = true });
}

/* A queue pair with an SRQ has no receives of its own. */
static void srq_post(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });
	struct ib_recv_wr wr = { };
	const struct ib_recv_wr *bad = NULL;
	int rv;

	if (!p)
		return;
	rv = ib_post_recv(p->b.qp, &wr, &bad);
	kv_ok(k, rv == -EINVAL && bad == &wr, "%d", rv);
}

/* Receives of as many elements as there can be, an octet each, filled at once. */
#define PIECES 32
#define MANY 240

static void free_it(void *obj)
{
	kfree(obj);
}

static void receive_pieces(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.depth = MANY, .recv_sge = PIECES });
	struct kv_mem *from = p ? kv_mem(k, &p->a, MANY * PIECES, 0) : NULL;
	struct kv_mem *to = from ? kv_mem(k, &p->b, MANY * PIECES, 0) : NULL;
	struct {
		struct ib_send_wr wr;
		struct ib_sge sge;
	} *send = to ? kcalloc(MANY, sizeof(*send), GFP_KERNEL) : NULL;
	struct ib_sge sge[PIECES];
	int n, i, rv = 0;

	if (!kv_ok(k, !!send, "no memory") || !kv_own(k, send, free_it))
		return;
	for (n = 0; n < MANY && !rv; n++) {
		/* The last octet comes first. */
		for (i = 0; i < PIECES; i++)
			sge[i] = (struct ib_sge) {
				to->addr + n * PIECES + PIECES - 1 - i, 1,
				p->b.pd->local_dma_lkey };
		rv = ib_post_recv(p->b.qp, &(struct ib_recv_wr) {
			.wr_id = n, .sg_list = sge, .num_sge = PIECES }, NULL);
		for (i = 0; i < PIECES; i++)
			((u8 *)from->va)[n * PIECES + i] = n * 7 + i;
		send[n].sge = (struct ib_sge) { from->addr + n * PIECES, PIECES,
						p->a.pd->local_dma_lkey };
		send[n].wr = (struct ib_send_wr) {
			.next = n + 1 < MANY ? &send[n + 1].wr : NULL,
			.wr_id = n, .sg_list = &send[n].sge, .num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED };
	}
	if (!kv_ok(k, !rv, "posting receives: %d", rv))
		return;
	rv = ib_post_send(p->a.qp, &send[0].wr, NULL);
	if (!kv_ok(k, !rv, "posting sends: %d", rv))
		return;
	for (n = 0; n < MANY; n++)
		if (!kv_want(k, p->b.rcq, n, KV_OK) ||
		    !kv_want(k, p->a.scq, n, KV_OK))
			return;
	for (i = 0; i < MANY * PIECES; i++)
		if (!kv_ok(k, ((u8 *)to->va)[i] ==
			   (u8)(i / PIECES * 7 + PIECES - 1 - i % PIECES),
			   "octet %d is %#x", i, ((u8 *)to->va)[i]))
			return;
}

const struct kv_case kv_request_cases[] = {
	{ "all-kinds", "V-WR-1 V-WR-15", .with = all_kinds },
	{ "bad-kinds", "V-WR-2 V-WR-3 V-IMM-11 X-IMM-5", .with = bad_kinds },
	{ "read-two-sinks", "V-RNIC-12 V-IMM-13", .with = read_two_sinks },
	{ "inline-data", "V-WR-23", .with = inline_data,
	  .o = &(struct kv_opts) { .inline_data = LEN } },
	{ "slots-receive", "V-WR-8 V-WR-5 T-15", slots_receive },
	{ "slots-srq", "V-SRQ-9 V-SRQ-10", slots_srq },
	{ "srq-post", "V-SRQ-8 V-IMM-14", srq_post },
	{ "receive-pieces", "V-RNIC-10", receive_pieces },
	{ }
};
