// SPDX-License-Identifier: GPL-2.0
/*
 * Immediate data (RFC 7306 section 6): an RDMA Write that completes a receive at
 * the peer, which gets 32 bits and no octet of it.
 */
#include <linux/delay.h>

#include "kv.h"

#define PAGES 32
#define LEN (PAGES * PAGE_SIZE)
#define STREAM 300

/* A region of end b, and memory of end a. */
bool kv_imm_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c)
{
	u32 i;

	l->p = kv_connect(k, c->o);
	l->mr = l->p ? kv_region(k, &l->p->b, PAGES, c->access ?: KV_REMOTE) : NULL;
	l->m = l->mr ? kv_mem(k, &l->p->a, LEN, 0) : NULL;
	for (i = 0; l->m && i < LEN; i++)
		((u8 *)l->m->va)[i] = i * 7 + i / 251;
	return l->m;
}

/* A receive without room: nothing is placed there. */
static bool receive(struct kv *k, struct kv_lab *l, u64 id)
{
	int rv = kv_recv(&l->p->b, id, 0, 0, l->p->b.pd->local_dma_lkey);

	return kv_ok(k, !rv, "posting receive %llu: %d", id, rv);
}

/* Writes the first @len octets to the region. */
static struct kv_wr write(struct kv_lab *l, u64 id, u32 len, u32 imm)
{
	struct kv_wr wr = {
		.op = IB_WR_RDMA_WRITE_WITH_IMM, .id = id, .imm = cpu_to_be32(imm),
	};

	if (len) {
		wr.sges = 1;
		wr.sge[0] = (struct ib_sge) { l->m->addr, len,
					      l->p->a.pd->local_dma_lkey };
		wr.remote = l->mr->mr->iova;
		wr.key = l->mr->mr->rkey;
	}
	return wr;
}

/* What the receive is told. */
static bool told(struct kv *k, struct kv_lab *l, u64 id, u32 imm)
{
	struct ib_wc wc;

	return kv_wc(k, l->p->b.rcq, &wc) &&
	       kv_ok(k, wc.wr_id == id && wc.status == IB_WC_SUCCESS,
		     "receive %llu: %s", wc.wr_id, ib_wc_status_msg(wc.status)) &&
	       kv_ok(k, wc.opcode == IB_WC_RECV_RDMA_WITH_IMM &&
		     wc.wc_flags == IB_WC_WITH_IMM, "opcode %d, flags %#x",
		     wc.opcode, wc.wc_flags) &&
	       kv_ok(k, wc.ex.imm_data == cpu_to_be32(imm), "%#x instead of %#x",
		     be32_to_cpu(wc.ex.imm_data), imm) &&
	       kv_ok(k, !wc.byte_len, "%u octets", wc.byte_len);
}

static bool done(struct kv *k, struct kv_lab *l, u64 id)
{
	struct ib_wc wc;

	return kv_wc(k, l->p->a.scq, &wc) &&
	       kv_ok(k, wc.wr_id == id && wc.status == IB_WC_SUCCESS &&
		     wc.opcode == IB_WC_RDMA_WRITE, "request %llu: %s, opcode %d",
		     wc.wr_id, ib_wc_status_msg(wc.status), wc.opcode);
}

static bool post(struct kv *k, struct kv_lab *l, const struct kv_wr *wr, int n)
{
	int rv = kv_post_list(&l->p->a, wr, n);

	return kv_ok(k, !rv, "post: %d", rv);
}

/* All of the Write is there when the receive completes. */
static void imm_write(struct kv *k, struct kv_lab *l)
{
	static const u32 lens[] = { 1, 64, 1400, 1500, 4096, 65536, LEN };
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct kv_wr wr = write(l, i, lens[i], 0x01020304 + i);

		memset(l->mr->va, 0, LEN);
		if (!receive(k, l, 90 + i) || !post(k, l, &wr, 1) ||
		    !told(k, l, 90 + i, 0x01020304 + i) ||
		    !kv_ok(k, !memcmp(l->mr->va, l->m->va, lens[i]),
			   "the Write of %u octets is not there", lens[i]) ||
		    !kv_ok(k, lens[i] == LEN || !l->mr->va[lens[i]],
			   "more than %u octets", lens[i]) ||
		    !done(k, l, i))
			return;
	}
	/* One completion each. */
	kv_quiet(k, l->p->a.scq);
}

/* Without a Write, which names no memory; zero is data as well. */
static void imm_alone(struct kv *k, struct kv_lab *l)
{
	static const u32 data[] = { 1, 0, 0x80000000, 0xffffffff, 0xff };
	int i;

	for (i = 0; i < ARRAY_SIZE(data); i++) {
		struct kv_wr wr = write(l, i, 0, data[i]);

		if (!receive(k, l, 90) || !post(k, l, &wr, 1) ||
		    !told(k, l, 90, data[i]) || !done(k, l, i))
			return;
	}
}

/* Inline, by a shared receive queue. */
static void imm_srq(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	if (!receive(k, l, 90))
		return;
	wr = write(l, 1, 64, 0x77);
	wr.sge[0].addr = (uintptr_t)l->m->va;
	wr.flags = IB_SEND_INLINE;
	if (post(k, l, &wr, 1) && told(k, l, 90, 0x77) && done(k, l, 1))
		kv_ok(k, !memcmp(l->mr->va, l->m->va, 64), "contents");
}

/* Among Sends: each has the receive that it is due. */
static void imm_among_sends(struct kv *k, struct kv_lab *l)
{
	struct kv_mem *in;
	struct kv_wr wr[3];
	struct ib_wc wc;

	if (!receive(k, l, 90))
		return;
	in = kv_mem(k, &l->p->b, 64, 0);
	if (!in || !kv_ok(k, !kv_recv(&l->p->b, 91, in->addr, 64,
				      l->p->b.pd->local_dma_lkey), "receive") ||
	    !receive(k, l, 92))
		return;
	wr[0] = write(l, 1, 100, 11);
	wr[0].quiet = true;
	wr[1] = (struct kv_wr) { .op = IB_WR_SEND, .id = 2, KV_LOCAL(&l->p->a, l->m) };
	wr[1].sge[0].length = 64;
	wr[2] = write(l, 3, 0, 12);
	if (!post(k, l, wr, 3) || !told(k, l, 90, 11) ||
	    !kv_wc(k, l->p->b.rcq, &wc) ||
	    !kv_ok(k, wc.wr_id == 91 && wc.opcode == IB_WC_RECV && !wc.wc_flags &&
		   wc.byte_len == 64, "the Send: %llu, opcode %d, flags %#x, %u octets",
		   wc.wr_id, wc.opcode, wc.wc_flags, wc.byte_len) ||
	    !told(k, l, 92, 12) || !kv_want(k, l->p->a.scq, 2, KV_OK))
		return;
	done(k, l, 3);
}

/* Many of them, small ones and large ones, one list behind the other. */
static void imm_stream(struct kv *k, struct kv_lab *l)
{
	static const u32 lens[] = { 0, 8, 3000, 20000 };
	u32 i, j;

	for (i = 0; i < STREAM; i += ARRAY_SIZE(lens)) {
		struct kv_wr wr[ARRAY_SIZE(lens)];

		for (j = 0; j < ARRAY_SIZE(lens); j++) {
			if (!receive(k, l, i + j))
				return;
			wr[j] = write(l, i + j, lens[j], ~(i + j));
		}
		if (!post(k, l, wr, ARRAY_SIZE(lens)))
			return;
		for (j = 0; j < ARRAY_SIZE(lens); j++)
			if (!told(k, l, i + j, ~(i + j)) || !done(k, l, i + j))
				return;
	}
}

/* The peer asks for an event with some. */
static void imm_solicited(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;
	int calls;

	if (!receive(k, l, 90) ||
	    !receive(k, l, 91))
		return;
	calls = atomic_read(&l->p->b.calls);
	if (!kv_ok(k, ib_req_notify_cq(l->p->b.rcq, IB_CQ_SOLICITED) >= 0, "arming"))
		return;
	wr = write(l, 1, 100, 1);
	if (!post(k, l, &wr, 1) || !told(k, l, 90, 1) || !done(k, l, 1))
		return;
	if (!kv_calls(k, &l->p->b, calls))
		return;
	wr = write(l, 2, 100, 2);
	wr.flags = IB_SEND_SOLICITED;
	if (post(k, l, &wr, 1) && told(k, l, 91, 2) && done(k, l, 2))
		kv_calls(k, &l->p->b, calls + 1);
}

/* Without a receive the stream ends, though the Write is there. */
static void imm_no_receive(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	wr = write(l, 1, 100, 1);
	if (post(k, l, &wr, 1) && kv_is_down(k, &l->p->a) && kv_is_down(k, &l->p->b))
		kv_ok(k, !memcmp(l->mr->va, l->m->va, 100), "contents");
}

/* A Write that is refused: the peer is told nothing of the data behind it. */
static void imm_refused(struct kv *k, struct kv_lab *l)
{
	struct kv_wr wr;

	if (!receive(k, l, 90))
		return;
	wr = write(l, 1, 100, 1);
	if (post(k, l, &wr, 1) && kv_is_down(k, &l->p->a))
		kv_want(k, l->p->b.rcq, 90, KV_FLUSH);
}

const struct kv_case kv_imm_cases[] = {
	{ "imm-write", "X-IMM-3 X-IMM-4", .with = imm_write },
	{ "imm-alone", "X-IMM-1 X-IMM-6", .with = imm_alone },
	{ "imm-srq", "X-IMM-4", .with = imm_srq,
	  .o = &(struct kv_opts) { .srq = true, .inline_data = 64 } },
	{ "imm-among-sends", "X-IMM-1 X-IMM-3", .with = imm_among_sends },
	{ "imm-stream", "X-IMM-3", .with = imm_stream },
	{ "imm-solicited", "X-IMM-1", .with = imm_solicited },
	{ "imm-no-receive", "X-IMM-1", .with = imm_no_receive },
	{ "imm-refused", "X-IMM-3", .with = imm_refused,
	  .access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ },
	{ }
};
