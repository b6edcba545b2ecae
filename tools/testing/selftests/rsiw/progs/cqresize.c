// SPDX-License-Identifier: GPL-2.0
/*
 * cqresize: completion queues that get another size while completions come in.
 * The library does not know of it; the rings, of either kind, are polled here.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

static unsigned int rounds = 200;

#define RECVS 64

/* What an entry begins with. */
struct cqe {
	uint64_t id;
	uint8_t flags;
	uint8_t opcode;
	uint16_t status;
};

struct ring {
	uint8_t *at;
	uint32_t len, get;
};

static struct both b;
static struct ring ring, old;
static size_t entry_size;

static size_t bytes(uint32_t len)
{
	return (len * entry_size + 8 + 4095) & ~4095ul;
}

static struct cqe *entry(uint32_t number)
{
	return (struct cqe *)(ring.at + number % ring.len * entry_size);
}

static int resize(struct ibv_cq *cq, uint32_t entries)
{
	uint64_t key;
	int err = raw_resize_cq(cq, &entries, &key);

	if (err)
		return err;
	if (old.at)
		munmap(old.at, bytes(old.len));
	old = ring;
	ring = (struct ring){ .len = entries };
	ring.at = mmap(NULL, bytes(entries), PROT_READ | PROT_WRITE, MAP_SHARED,
		       cq->context->cmd_fd, key);
	CHECK(ring.at != MAP_FAILED, "map %u entries: %m", entries);
	return 0;
}

/* Waits until there are `n` completions. */
static bool waiting(uint32_t n, int ms)
{
	uint64_t end = ep_now_ns() + ms * 1000000ull;
	struct cqe *c = entry(ring.get + n - 1);

	while (!__atomic_load_n(&c->flags, __ATOMIC_ACQUIRE))
		if (ep_now_ns() > end)
			return false;
	return true;
}

static bool take(uint64_t *id, int ms)
{
	struct cqe *c = entry(ring.get);

	if (!waiting(1, ms))
		return false;
	*id = c->id;
	expect(!c->status, "status %u", c->status);
	__atomic_store_n(&c->flags, 0, __ATOMIC_RELEASE);
	ring.get++;
	return true;
}

static void send_one(void)
{
	CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	ep_done(b.a.scq, IBV_WC_SUCCESS);
}

static void idle(void)
{
	struct ibv_wc wc;
	uint64_t id = 0;
	uint32_t i;

	part("V-CQ-11 what waits moves along, in order");
	for (i = 0; i < 8; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, NULL, 0, 0));
	for (i = 0; i < 5; i++)
		send_one();
	while (ibv_poll_cq(b.p.rcq, 1, &wc) == 0)
		;
	expect(wc.wr_id == 0, "the first is %lu", wc.wr_id);
	usleep(200000);
	CHECK_SYS(resize(b.p.rcq, 100));
	expect(ring.len >= 100, "%u entries", ring.len);
	for (i = 1; i < 5; i++)
		expect(take(&id, EP_EVENT_MS) && id == i, "%u: %lu", i, id);
	expect(!take(&id, 20), "one too many");
	part("V-CQ-11 the old ring is memory and empty");
	expect(ibv_poll_cq(b.p.rcq, 1, &wc) == 0, "a completion");
	part("V-CQ-12 V-IMM-4 not below what waits");
	for (i = 5; i < 8; i++)
		send_one();
	expect(waiting(3, EP_EVENT_MS), "no completions");
	expect(resize(b.p.rcq, 2) == EINVAL, "not refused");
	for (i = 5; i < 8; i++)
		expect(take(&id, EP_EVENT_MS) && id == i, "%u: %lu", i, id);
	part("V-CQ-13 V-IMM-2 impossible sizes change nothing");
	expect(resize(b.p.rcq, 0) == EINVAL, "none");
	expect(resize(b.p.rcq, UINT32_MAX) == EINVAL, "too many");
	CHECK_SYS(ep_post_recv(&b.p, 8, NULL, 0, 0));
	send_one();
	expect(take(&id, EP_EVENT_MS) && id == 8, "%lu", id);
}

static void arming(void)
{
	struct pollfd p = { .fd = b.p.cc->fd, .events = POLLIN };
	struct ibv_cq *cq;
	uint64_t id;
	void *ctx;

	part("V-CQ-11 V-CQ-16 a queue that is armed stays so");
	/* The next completion. */
	__atomic_store_n((uint32_t *)(ring.at + ring.len * entry_size), 3, __ATOMIC_RELEASE);
	CHECK_SYS(resize(b.p.rcq, 32));
	expect(poll(&p, 1, 100) == 0, "an event at once");
	CHECK_SYS(ep_post_recv(&b.p, 9, NULL, 0, 0));
	send_one();
	if (expect(poll(&p, 1, EP_EVENT_MS) == 1, "no event")) {
		CHECK_SYS(ibv_get_cq_event(b.p.cc, &cq, &ctx));
		ibv_ack_cq_events(cq, 1);
	}
	expect(take(&id, EP_EVENT_MS) && id == 9, "completion");
}

static atomic_ulong credits, sent;
static atomic_bool ended;

/* Sends for each receive that was posted, until told to stop. */
static void *sender(void *arg)
{
	unsigned long done = 0;
	struct ibv_wc wc;

	(void)arg;
	while (!ended || done < sent) {
		while (!ended && sent < credits && sent - done < 32) {
			CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0,
					       0, 0));
			sent++;
		}
		while (ep_poll(b.a.scq, &wc, 0))
			done++;
	}
	return NULL;
}

static void load(unsigned int rounds)
{
	uint64_t id, next = 1000, posted = 1000;
	unsigned int r, i;
	pthread_t thread;

	part("V-CQ-11 V-CQ-8 under load nothing is lost and nothing comes twice");
	for (i = 0; i < RECVS; i++)
		CHECK_SYS(ep_post_recv(&b.p, posted++, NULL, 0, 0));
	CHECK_SYS(resize(b.p.rcq, RECVS));
	credits = RECVS;
	CHECK_SYS(pthread_create(&thread, NULL, sender, NULL));
	for (r = 0; r < rounds || sent <= rounds; r++) {
		for (i = 0; i < 100; i++) {
			if (!take(&id, 0))
				continue;
			expect(id == next, "%lu instead of %lu", id, next);
			next++;
			CHECK_SYS(ep_post_recv(&b.p, posted++, NULL, 0, 0));
			credits++;
		}
		/* Never less than what can wait. */
		CHECK_SYS(resize(b.p.rcq, RECVS << r % 5));
	}
	ended = true;
	CHECK_SYS(pthread_join(thread, NULL));
	while (next < 1000 + sent) {
		if (!expect(take(&id, EP_EVENT_MS), "%lu lost", next))
			return;
		expect(id == next, "%lu instead of %lu", id, next);
		next++;
	}
	expect(!take(&id, 20), "one too many");
}

static void run(void)
{
	static const struct ep_attr attr = { .send_wr = 64, .recv_wr = 128,
					     .cqe = 8, .channel = true };
	static const struct ep_attr active = { .send_wr = 64, .recv_wr = 1 };

	both_connect(&b, &listener, &where, &active, &attr);
	entry_size = raw_cqe_size(b.p.id->verbs);
	idle();
	arming();
	load(rounds);
	part("V-CQ-15 a mapping outlives its queue");
	both_close(&b);
	memset(ring.at, 1, bytes(ring.len));
	munmap(ring.at, bytes(ring.len));
}

static const struct opt options[] = {
	{ "rounds", "N", "resizes under load (200)", .num = &rounds, .min = 1, .max = 1000000 },
	{ }
};

const struct prog prog = {
	.name = "cqresize",
	.text =
		"Resizes completion queues under load; both ends are in this process.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18800,
	.limit = 90,
	.run = run,
};
