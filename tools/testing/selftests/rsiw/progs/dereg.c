// SPDX-License-Identifier: GPL-2.0
/*
 * dereg: T-20. A region is deregistered while the peer writes to it or reads
 * from it; once the call has returned, the memory is the owner's alone.
 */
#include <string.h>
#include <unistd.h>

#include "prog.h"

static unsigned int rounds = 10;

#define LEN (1u << 20)
#define OURS 0x77		/* what the owner writes afterwards */
#define THEIRS 0x21

static const struct ep_attr attr = { .send_wr = 8, .recv_wr = 1 };

struct msg { uint64_t addr; uint32_t rkey; };

static void owner(bool reads, unsigned int round)
{
	struct msg me = { 0 }, peer;
	struct ibv_mr *mr;
	struct ep e;
	uint8_t *buf = ep_pages(LEN);
	unsigned int i;

	ep_accept(&e, &listener, &attr);
	mr = ep_reg(&e, buf, LEN, ALL_ACCESS);
	me = (struct msg){ (uintptr_t)buf, mr->rkey };
	memset(buf, THEIRS, LEN);
	ep_exchange(&pair, &me, &peer, sizeof(me));
	ep_sync(&pair);		/* the peer has its first requests out */
	usleep(1000 * round);
	CHECK_SYS(ibv_dereg_mr(mr));
	memset(buf, OURS, LEN);
	/* All that is in flight has arrived when the connection is over. */
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < LEN && !reads; i++)
		CHECK(buf[i] == OURS, "byte %u written after deregistration",
		      i);
	ep_sync(&pair);
	ep_destroy(&e);
}

static void peer(bool reads)
{
	struct msg me = { 0 }, theirs;
	unsigned int out = 0, good = 0, bad = 0, i;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct ep e;
	uint8_t *buf = ep_pages(LEN);
	uint32_t step = LEN / 4, at;

	ep_connect(&e, where.addr, where.port, &attr);
	mr = ep_reg(&e, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	memset(buf, THEIRS, LEN);
	ep_exchange(&pair, &me, &theirs, sizeof(me));
	while (!bad || out) {
		while (!bad && out < 4) {
			at = (good + out) % 4 * step;
			if (ep_post_send(&e, at, reads ? IBV_WR_RDMA_READ :
					 IBV_WR_RDMA_WRITE, buf + at, step,
					 mr->lkey, theirs.addr + at,
					 theirs.rkey))
				bad = 1;
			else
				out++;
		}
		if (!out)
			break;
		CHECK(ep_poll(e.scq, &wc, EP_EVENT_MS), "no completion");
		out--;
		if (wc.status != IBV_WC_SUCCESS) {
			bad++;
			continue;
		}
		if (++good == 1)
			ep_sync(&pair);
		for (i = 0; i < step && reads; i++)
			CHECK(buf[wc.wr_id + i] == THEIRS,
			      "a Read brought what was written after deregistration");
	}
	CHECK(good, "nothing was transferred before");
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	ep_sync(&pair);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

static void run(void)
{
	unsigned int i;

	for (i = 0; i < 2 * rounds; i++) {
		ep_phase("round %u, %s", i / 2, i % 2 ? "reads" : "writes");
		if (pair.server)
			owner(i % 2, i / 2);
		else
			peer(i % 2);
	}
}

static const struct opt options[] = {
	{ "rounds", "N", "of each kind (10)", .num = &rounds, .min = 1, .max = 10000 },
	{ }
};

const struct prog prog = {
	.name = "dereg",
	.text =
		"Deregisters a region under RDMA Writes and Reads and watches its memory.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18650,
	.limit = 120,
	.run = run,
};
