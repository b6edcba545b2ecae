// SPDX-License-Identifier: GPL-2.0
/*
 * order: programs wait for a message by looking at its last octet. Who sees that
 * change sees all octets in front of it, and the octets of the last word, which
 * are those from a multiple of eight on, change in order.
 *
 * A thread looks at one octet of the word that a message ends in, the last or one
 * in front of it, and then at all octets before that one, the first ones first:
 * these take as long to come as the placement takes if it begins at the other end.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "both.h"
#include "prog.h"

#define ALIGNMENTS 64
/* All sizes up to this one, and then some. */
#define SMALL 80
#define MOST 65536
#define ROOM (MOST + 2 * ALIGNMENTS)
/* Looks at an octet before the other thread gets the processor. */
#define LOOKS 2000

static const uint32_t sizes[] = {
	95, 127, 128, 129, 255, 256, 400, 511, 513, 679, 680, 1000, 1447, 1448, 1449,
	2048, 2897, 4095, 4096, 4097, 12345, 32768, 65535, MOST,
};

enum { WRITE, READ, SEND };
static const char *const names[] = { "RDMA Write", "Read Response", "Send" };

/* What is looked for, and what came of it. */
static struct {
	const uint8_t *at;
	uint32_t octet;		/* the one to be waited for, */
	uint8_t value;		/* until it has this value, as those before it then have */
	uint32_t old;		/* the first one that had not, or NONE */
	bool waited;		/* the one to be waited for was old at first */
} look;

/* Not one of the threads keeps a processor from the other while it waits for it. */
static sem_t wanted, ready, done;

#define NONE UINT32_MAX

static struct both b;
static uint8_t *source, *sink;
static struct ibv_mr *source_mr, *sink_mr;
static unsigned int seed = 1;
/* Messages that were waited for, of all. */
static unsigned int waited, all;

static uint32_t any(uint32_t below)
{
	return (uint32_t)rand_r(&seed) % below;
}

static void await(sem_t *sem)
{
	while (sem_wait(sem))
		CHECK(errno == EINTR, "semaphore: %m");
}

static bool is_new(uint32_t octet)
{
	return __atomic_load_n(look.at + octet, __ATOMIC_RELAXED) == look.value;
}

static void *looks(void *unused)
{
	unsigned int n;
	uint32_t k;

	for (;;) {
		await(&wanted);
		sem_post(&ready);
		for (n = 0; !is_new(look.octet); n++)
			if (n % LOOKS == LOOKS - 1)
				sched_yield();
		look.waited = n > 0;
		/* Loads stay behind those in front on any processor. */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		for (k = 0; k < look.octet && is_new(k); k++)
			;
		look.old = k < look.octet ? k : NONE;
		sem_post(&done);
	}
	return unused;
}

/* Up to two elements for `len` octets from `at` on. */
static int cut(struct ibv_sge sge[2], const uint8_t *at, uint32_t len, uint32_t lkey)
{
	uint32_t first = any(2) ? len : 1 + any(len);

	sge[0] = (struct ibv_sge){ (uintptr_t)at, first, lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)at + first, len - first, lkey };
	return first < len ? 2 : 1;
}

/* One message from `from` to `to`; false if its octets did not come in order. */
static bool moved(int kind, const uint8_t *from, uint8_t *to, uint32_t len)
{
	bool reads = kind == READ;
	struct ibv_send_wr send = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_recv_wr recv = { .wr_id = 2 }, *bad_recv;
	struct ibv_sge here[2], there[2];
	uint32_t word;

	look.value = 1 + any(255);
	memset((uint8_t *)from, look.value, len);
	memset(to, 0, len);
	/* From the beginning of the word on, or of the message. */
	word = (((uintptr_t)to + len - 1) % 8) + 1;
	look.at = to;
	look.octet = len - 1 - (any(2) ? 0 : any(word < len ? word : len));
	if (kind == SEND) {
		recv.sg_list = there;
		recv.num_sge = cut(there, to, len, sink_mr->lkey);
		CHECK_SYS(ibv_post_recv(b.p.id->qp, &recv, &bad_recv));
	}
	send.opcode = kind == WRITE ? IBV_WR_RDMA_WRITE : reads ? IBV_WR_RDMA_READ : IBV_WR_SEND;
	send.sg_list = here;
	send.num_sge = 1;
	if (reads) {
		/* The sink of a Read of iWARP is one element. */
		here[0] = (struct ibv_sge){ (uintptr_t)to, len, sink_mr->lkey };
		send.wr.rdma.remote_addr = (uintptr_t)from;
		send.wr.rdma.rkey = source_mr->rkey;
	} else {
		if (len <= b.a.cap.max_inline_data && any(2))
			send.send_flags |= IBV_SEND_INLINE;
		send.num_sge = cut(here, from, len, source_mr->lkey);
		send.wr.rdma.remote_addr = (uintptr_t)to;
		send.wr.rdma.rkey = sink_mr->rkey;
	}
	ep_phase("%s of %u octets, %u to %u", names[kind], len,
		 (unsigned int)((uintptr_t)from % ALIGNMENTS),
		 (unsigned int)((uintptr_t)to % ALIGNMENTS));
	sem_post(&wanted);
	await(&ready);
	CHECK_SYS(ibv_post_send(b.a.id->qp, &send, &bad));
	ep_done(b.a.scq, IBV_WC_SUCCESS);
	if (kind == SEND)
		ep_done(b.p.rcq, IBV_WC_SUCCESS);
	await(&done);
	all++;
	waited += look.waited;
	return expect(look.old == NONE,
		      "%u octets, from %u to %u: octet %u was old when octet %u was new",
		      len, (unsigned int)((uintptr_t)from % ALIGNMENTS),
		      (unsigned int)((uintptr_t)to % ALIGNMENTS), look.old, look.octet);
}

/* To all alignments, from those below, at and above it. */
static bool size_is_good(int kind, uint32_t len)
{
	uint32_t to;

	for (to = 0; to < ALIGNMENTS; to++)
		if (!moved(kind, source + any(ALIGNMENTS), sink + to, len))
			return false;
	return true;
}

static void all_sizes(int kind)
{
	unsigned int len, i;

	part("%s: the last word comes last, all small sizes", names[kind]);
	for (len = 2; len <= SMALL; len++)
		if (!size_is_good(kind, len))
			break;
	part("%s: the last word comes last, up to %u octets", names[kind], MOST);
	for (i = 0; i < COUNT(sizes); i++)
		if (!size_is_good(kind, sizes[i]))
			break;
}

static void run(void)
{
	static const struct ep_attr attr = {
		.send_wr = 4, .recv_wr = 4, .send_sge = 2, .recv_sge = 2, .inline_data = 64,
		.ird = 4, .ord = 4,
	};
	pthread_t thread;
	int kind;

	both_connect(&b, &listener, &where, &attr, &attr);
	source = ep_pages(ROOM);
	sink = ep_pages(ROOM);
	/* A Read goes to memory of the side that asks. */
	CHECK_SYS(sem_init(&wanted, 0, 0));
	CHECK_SYS(sem_init(&ready, 0, 0));
	CHECK_SYS(sem_init(&done, 0, 0));
	CHECK(!pthread_create(&thread, NULL, looks, NULL), "thread");
	for (kind = WRITE; kind <= SEND; kind++) {
		bool reads = kind == READ;

		source_mr = ep_reg(reads ? &b.p : &b.a, source, ROOM, ALL_ACCESS);
		sink_mr = ep_reg(reads ? &b.a : &b.p, sink, ROOM, ALL_ACCESS);
		all_sizes(kind);
		CHECK_SYS(ibv_dereg_mr(source_mr));
		CHECK_SYS(ibv_dereg_mr(sink_mr));
	}
	both_destroy(&b);
	/* Who finds all of it new at once sees no order. */
	part("messages were looked for before they came");
	expect(waited, "all %u were there before the first look", all);
}

const struct prog prog = {
	.name = "order",
	.text = "Octets of a message that are seen before those in front of them.\n",
	.kind = PROG_LISTENS,
	.port = 18920,
	.limit = 240,
	.run = run,
};
