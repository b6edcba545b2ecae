// SPDX-License-Identifier: GPL-2.0
/*
 * fence: a request that waits until all in front of it are complete is carried out when
 * they are, whenever it was posted: also while they complete, which the driver does in
 * several steps.
 */
#include <string.h>

#include "both.h"
#include "prog.h"

#define LEN 4096
/* Requests behind the Read that keeps them all, as many as complete in four steps. */
#define WRITES 250
/* All that are posted in a round. */
#define ALL (WRITES + 2)
/* In which one of them completes. */
#define PATIENCE_MS 5000
/*
 * In half of the rounds the last one is posted up to so many microseconds after the Read
 * is seen to complete, in the others up to as many after the first ones were posted.
 */
#define BEHIND_US 40
#define AFTER_US 400
#define STEP_US 2

static unsigned int rounds = 1500;
static struct both b;
static struct ibv_mr *mr, *peer_mr;
static struct ibv_mw *mw;
static char *mem;

static void wait_us(unsigned int us)
{
	uint64_t since = ep_now_ns();

	while (ep_now_ns() - since < us * 1000ull)
		;
}

/* Polls until there are `wanted` completions in all, which are in order. */
static bool complete(unsigned int *seen, unsigned int wanted)
{
	uint64_t since = ep_now_ns();
	struct ibv_wc wc[16];
	int n, i;

	while (*seen < wanted && ep_now_ns() - since < PATIENCE_MS * 1000000ull) {
		n = ibv_poll_cq(b.a.scq, COUNT(wc), wc);
		CHECK(n >= 0, "poll");
		for (i = 0; i < n; i++, ++*seen)
			CHECK(wc[i].wr_id == *seen && !wc[i].status, "completion of %lu, %s",
			      wc[i].wr_id, ibv_wc_status_str(wc[i].status));
		if (n)
			since = ep_now_ns();
	}
	return *seen >= wanted;
}

/* A Read, and Writes behind it. */
static void post_first(void)
{
	struct ibv_sge sge = { (uintptr_t)mem, 8, mr->lkey };
	struct ibv_send_wr wr[WRITES + 1], *bad;
	unsigned int i;

	memset(wr, 0, sizeof(wr));
	for (i = 0; i < COUNT(wr); i++) {
		wr[i].wr_id = i;
		wr[i].opcode = i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		/* The Writes are empty. */
		wr[i].sg_list = &sge;
		wr[i].num_sge = !i;
		wr[i].wr.rdma.remote_addr = (uintptr_t)mem + 64;
		wr[i].wr.rdma.rkey = peer_mr->rkey;
		wr[i].next = i + 1 < COUNT(wr) ? &wr[i + 1] : NULL;
	}
	CHECK_SYS(ibv_post_send(b.a.id->qp, wr, &bad));
}

static bool one(unsigned int round)
{
	struct ibv_send_wr last = {
		.wr_id = ALL - 1,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.invalidate_rkey = mw->rkey,
	}, *bad;
	unsigned int seen = 0;
	bool is_complete;

	post_first();
	if (round % 2) {
		CHECK(complete(&seen, 1), "the Read does not complete");
		wait_us(round / 2 % BEHIND_US);
	} else {
		wait_us(round / 2 * STEP_US % AFTER_US);
	}
	CHECK_SYS(ibv_post_send(b.a.id->qp, &last, &bad));
	is_complete = complete(&seen, ALL);
	return expect(is_complete, "round %u: %u of %d completed", round, seen, ALL);
}

static void run(void)
{
	const struct ep_attr attr = { .send_wr = 2 * ALL, .recv_wr = 1, .cqe = 2 * ALL,
				      .ird = 4, .ord = 4 };
	unsigned int i;

	part("what waits for all in front of it goes on when they are complete");
	both_connect(&b, &listener, &where, &attr, &attr);
	mem = ep_pages(LEN);
	mr = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	peer_mr = ep_reg(&b.p, mem, LEN, ALL_ACCESS);
	mw = ibv_alloc_mw(b.a.pd, IBV_MW_TYPE_2);
	CHECK(mw, "alloc_mw: %m");
	for (i = 0; i < rounds && one(i); i++)
		;
	CHECK_SYS(ibv_dealloc_mw(mw));
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dereg_mr(peer_mr));
	both_destroy(&b);
}

static const struct opt options[] = {
	{ "rounds", "N", "how often it is tried (1500)",
	  .num = &rounds, .min = 1, .max = 1000000 },
	{ }
};

const struct prog prog = {
	.name = "fence",
	.text =
		"A fenced invalidation is carried out when all in front of it are complete,\n"
		"whenever it was posted.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18899,
	.limit = 120,
	.run = run,
};
