// SPDX-License-Identifier: GPL-2.0
/*
 * The DMA key (RDMAC's STag of zero): local access to any mapped address, for
 * any queue pair of the kernel; never anything for the peer.
 */
#include "kv.h"

#define LEN 4000

/* For Sends, Writes, Reads and receives: with a key for each end. */
static void all_work(struct kv *k, struct kv_pair *p, u32 key, u32 other)
{
	struct kv_mr *mr = kv_region(k, &p->b, 1, KV_REMOTE);
	struct kv_mem *m = mr ? kv_mem(k, &p->a, LEN, 0x29) : NULL;
	struct kv_mem *n = m ? kv_mem(k, &p->b, LEN, 0) : NULL;

	if (!n)
		return;
	if (!kv_ok(k, !kv_recv(&p->b, 9, n->addr, LEN, other), "receive") ||
	    !kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 1, .sges = 1,
			.sge = { { m->addr, LEN, key } } }, KV_OK) ||
	    !kv_want(k, p->b.rcq, 9, KV_OK) ||
	    !kv_ok(k, !memcmp(n->va, m->va, LEN), "Send's contents") ||
	    !kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_WRITE, .id = 2, .sges = 1,
			.sge = { { m->addr, LEN, key } },
			.remote = mr->mr->iova, .key = mr->mr->rkey }, KV_OK))
		return;
	memset(m->va, 0, LEN);
	if (kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_READ, .id = 3, .sges = 1,
			.sge = { { m->addr, LEN, key } },
			.remote = mr->mr->iova, .key = mr->mr->rkey }, KV_OK))
		kv_ok(k, !memcmp(n->va, m->va, LEN), "Read's contents");
}

static void dma_local(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);

	if (p)
		all_work(k, p, p->a.pd->local_dma_lkey,
			 p->b.pd->local_dma_lkey);
}

/* It is the key of the device: any PD's will do. */
static void dma_other_pd(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct ib_pd *pd = p ? kv_pd(k, kv_dev(p)) : NULL;

	if (pd)
		all_work(k, p, pd->local_dma_lkey, pd->local_dma_lkey);
}

static void dma_remote(struct kv *k, enum ib_wr_opcode op, u32 want)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mem *m = p ? kv_mem(k, &p->a, LEN, 0x29) : NULL;
	struct kv_mem *n = m ? kv_mem(k, &p->b, LEN, 0) : NULL;
	u8 *a, *b;

	if (!n || !kv_do(k, &p->a, &(struct kv_wr) {
			.op = op, .id = 1, KV_LOCAL(&p->a, m),
			.remote = n->addr, .key = p->b.pd->local_dma_lkey },
			want) || !kv_is_down(k, &p->b))
		return;
	a = m->va;
	b = n->va;
	kv_ok(k, a[0] == 0x29 && !b[0], "data went through");
	kv_events(k, &p->b, IB_EVENT_QP_ACCESS_ERR, 1);
}

static void dma_remote_write(struct kv *k)
{
	dma_remote(k, IB_WR_RDMA_WRITE, KV_OK | KV_FLUSH | KV_REM_ACCESS);
}

static void dma_remote_read(struct kv *k)
{
	dma_remote(k, IB_WR_RDMA_READ, KV_FAILS);
}

/* The device's addresses are the kernel's own. */
static void dma_addresses(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mem *m = p ? kv_mem(k, &p->a, LEN, 0) : NULL;

	if (m)
		kv_ok(k, (void *)(uintptr_t)m->addr == m->va,
		      "%llx is not the address of the memory", m->addr);
}

const struct kv_case kv_dma_cases[] = {
	{ "dma-local", "V-STAG0-1 L-CORE-10", dma_local },
	{ "dma-other-pd", "V-STAG0-2", dma_other_pd },
	{ "dma-remote-write", "V-STAG0-4", dma_remote_write },
	{ "dma-remote-read", "V-STAG0-4", dma_remote_read },
	{ "dma-addresses", "L-CORE-14", dma_addresses },
	{ }
};
