// SPDX-License-Identifier: GPL-2.0
/*
 * changing: memory that its owner changes all the time while it is sent, written
 * from and read by the peer. What arrives must be what was in it, octet by octet,
 * at some moment, and no connection may end because of it.
 *
 * Each octet has one of two values, which follow from its place and of which one
 * is the complement of the other. A thread of each side goes through its memory
 * and changes one for the other.
 */
#include <pthread.h>
#include <string.h>

#include "prog.h"

#define LEN (1u << 20)
#define ROUNDS 3

static const uint32_t sizes[] = { 1, 7, 64, 1000, 1460, 4096, 17000, 65536, 300001, LEN };
static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
static const char *const names[] = { "Send", "RDMA Write", "RDMA Read" };

static uint8_t value[LEN];
static bool over;

struct msg { uint64_t source, sink; uint32_t rkey; };

static void *change(void *memory)
{
	uint8_t *source = memory;
	unsigned int n, i;

	for (n = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++)
		for (i = 0; i < LEN; i++)
			source[i] = n % 2 ? value[i] : ~value[i];
	return NULL;
}

/* No octet has a value of its own. */
static void clear(uint8_t *sink)
{
	unsigned int i;

	for (i = 0; i < LEN; i++)
		sink[i] = value[i] ^ 0x55;
}

static void check(const uint8_t *sink, uint32_t size)
{
	unsigned int i;

	for (i = 0; i < size; i++)
		CHECK(sink[i] == value[i] || sink[i] == (uint8_t)~value[i],
		      "octet %u of %u is %#x, which was never there", i, size, sink[i]);
	for (; i < LEN; i++)
		CHECK(sink[i] == (value[i] ^ 0x55), "octet %u, behind %u, was written", i, size);
}

static void one(struct ep *e, enum ibv_wr_opcode op, uint32_t size, uint8_t *source,
		uint8_t *sink, struct ibv_mr *mr, const struct msg *peer)
{
	bool reads = op == IBV_WR_RDMA_READ, receives = pair.server != reads;
	uint32_t len;

	ep_phase("operation %d of %u octets", op, size);
	if (receives)
		clear(sink);
	if (op == IBV_WR_SEND && pair.server)
		CHECK_SYS(ep_post_recv(e, 1, sink, LEN, mr->lkey));
	ep_sync(&pair);
	if (!pair.server) {
		CHECK_SYS(ep_post_send(e, 2, op, reads ? sink : source, size, mr->lkey,
				       reads ? peer->source : peer->sink, peer->rkey));
		ep_done(e->scq, IBV_WC_SUCCESS);
		/* What was written is there when an answer is. */
		if (op == IBV_WR_RDMA_WRITE) {
			static uint8_t nothing;

			CHECK_SYS(ep_post_send(e, 3, IBV_WR_RDMA_READ, &nothing, 0, 0,
					       peer->source, peer->rkey));
			ep_done(e->scq, IBV_WC_SUCCESS);
		}
	} else if (op == IBV_WR_SEND) {
		len = ep_done(e->rcq, IBV_WC_SUCCESS).byte_len;
		CHECK(len == size, "%u octets", len);
	}
	ep_sync(&pair);
	if (receives)
		check(sink, size);
}

static void run(void)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4, .ird = 4, .ord = 4 };
	uint8_t *source = ep_pages(2 * LEN), *sink = source + LEN;
	unsigned int i, k, round;
	struct msg me, peer;
	struct ibv_mr *mr;
	pthread_t thread;
	struct ep e;

	for (i = 0; i < LEN; i++)
		value[i] = i * 7 + i / 251;
	memcpy(source, value, LEN);
	CHECK(!pthread_create(&thread, NULL, change, source), "thread");
	ep_open(&e, &pair, &listener, &where, &attr);
	mr = ep_reg(&e, source, 2 * LEN, ALL_ACCESS);
	me = (struct msg){ (uintptr_t)source, (uintptr_t)sink, mr->rkey };
	ep_exchange(&pair, &me, &peer, sizeof(me));
	for (k = 0; k < COUNT(ops); k++) {
		if (!pair.server)
			part("T-19 memory that changes, %s", names[k]);
		for (i = 0; i < COUNT(sizes); i++)
			for (round = 0; round < ROUNDS; round++)
				one(&e, ops[k], sizes[i], source, sink, mr, &peer);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ep_sync(&pair);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

const struct prog prog = {
	.name = "changing",
	.text = "Memory that its owner changes while it is sent.\n",
	.kind = PROG_PAIR,
	.port = 18900,
	.limit = 120,
	.run = run,
};
