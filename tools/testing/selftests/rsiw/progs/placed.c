// SPDX-License-Identifier: GPL-2.0
/*
 * placed: is what has completed at one end in the memory of the other? Both ends
 * are here, so that the one looks as soon as the other is told.
 */
#include <string.h>

#include "both.h"
#include "prog.h"

#define LEN (1 << 20)
#define SENDS 16
#define SEND_LEN 3000
#define SMALL 64

static unsigned int rounds = 20, early;
static char *out, *in;			/* LEN each */
static struct both b;
static struct ibv_mr *src, *dst;
static unsigned int too_early;

static const struct opt options[] = {
	{ "rounds", "N", "how often (20)", .num = &rounds, .min = 1, .max = 100000 },
	{ "early", "0|1", "requests complete before, as iWARP allows: some have to (0)",
	  .num = &early, .max = 1 },
	{ "by-number", "", "the ends connect by number", .flag = &where.by_number },
	{ }
};

static void fill(size_t len, unsigned int round)
{
	size_t i;

	memset(in, 0, len);
	for (i = 0; i < len; i++)
		out[i] = i * 7 + i / 251 + round * 13 + 1;
}

/* All of it has completed. */
static void look(const char *what, size_t len)
{
	size_t i;

	for (i = 0; i < len && in[i] == out[i]; i++)
		;
	too_early += i < len;
	if (!early)
		expect(i == len, "%s: octet %zu of %zu is not there", what, i, len);
}

static void complete(struct ibv_cq *cq, unsigned int count)
{
	while (count--)
		completes(cq, IBV_WC_SUCCESS);
}

static void write_one(size_t len, unsigned int round)
{
	fill(len, round);
	CHECK_SYS(ep_post_send(&b.a, round, IBV_WR_RDMA_WRITE, out, len, src->lkey,
			       (uintptr_t)in, dst->rkey));
	complete(b.a.scq, 1);
	look("a Write", len);
}

/* Writes of which each is looked at as soon as it has completed. */
static void write_many(unsigned int round)
{
	unsigned int i;

	fill(SENDS * SEND_LEN, round);
	for (i = 0; i < SENDS; i++)
		CHECK_SYS(ep_post_send(&b.a, i, IBV_WR_RDMA_WRITE, out + i * SEND_LEN,
				       SEND_LEN, src->lkey, (uintptr_t)in + i * SEND_LEN,
				       dst->rkey));
	for (i = 1; i <= SENDS; i++) {
		complete(b.a.scq, 1);
		look("one of many Writes", i * SEND_LEN);
	}
}

static void send_many(unsigned int round)
{
	unsigned int i;

	fill(SENDS * SEND_LEN, round);
	for (i = 0; i < SENDS; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, in + i * SEND_LEN, SEND_LEN, dst->lkey));
	for (i = 0; i < SENDS; i++)
		CHECK_SYS(ep_post_send(&b.a, i, IBV_WR_SEND, out + i * SEND_LEN, SEND_LEN,
				       src->lkey, 0, 0));
	complete(b.a.scq, SENDS);
	look("Sends", SENDS * SEND_LEN);
	complete(b.p.rcq, SENDS);
}

/* The other end sends, too. */
static void back(unsigned int round)
{
	memset(out, round, SMALL);
	memset(in, ~round, SMALL);
	CHECK_SYS(ep_post_send(&b.p, round, IBV_WR_RDMA_WRITE, in, SMALL, dst->lkey,
			       (uintptr_t)out, src->rkey));
	complete(b.p.scq, 1);
	look("a Write back", SMALL);
}

/* A Read behind a Write, whose response tells of both. */
static void read_behind(unsigned int round)
{
	fill(LEN / 2, round);
	CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_RDMA_WRITE, out, LEN / 2, src->lkey,
			       (uintptr_t)in, dst->rkey));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_RDMA_READ, out + LEN / 2, SMALL, src->lkey,
			       (uintptr_t)in, dst->rkey));
	complete(b.a.scq, 1);
	look("a Write in front of a Read", LEN / 2);
	complete(b.a.scq, 1);
}

static void run(void)
{
	static const struct ep_attr attr = { .send_wr = 64, .recv_wr = 64 };
	unsigned int i;

	out = ep_pages(LEN);
	in = ep_pages(LEN);
	both_connect(&b, &listener, &where, &attr, &attr);
	src = ep_reg(&b.a, out, LEN, ALL_ACCESS);
	dst = ep_reg(&b.p, in, LEN, ALL_ACCESS);
	part("what has completed is there");
	/* The side that was connected to may send once it has heard something. */
	write_one(SMALL, 0);
	for (i = 1; i <= rounds; i++) {
		write_one(LEN, i);
		write_many(i);
		send_many(i);
		back(i);
		read_behind(i);
		write_one(SMALL, i);
	}
	if (early)
		expect(too_early, "all was there each time: the test shows nothing");
	CHECK_SYS(ibv_dereg_mr(src));
	CHECK_SYS(ibv_dereg_mr(dst));
	both_close(&b);
}

const struct prog prog = {
	.name = "placed",
	.text = "Is what has completed at one end in the memory of the other?\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 20310,
	.limit = 300,
	.run = run,
};
