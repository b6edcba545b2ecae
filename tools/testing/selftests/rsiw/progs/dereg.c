// SPDX-License-Identifier: GPL-2.0
/*
 * dereg: T-20. A region is deregistered while the peer writes to it or reads
 * from it; once the call has returned, the memory is the owner's alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opt.h"

static const char usage[] =
"usage: dereg [options]\n"
"Deregisters a region under RDMA Writes and Reads and watches its memory.\n"
USAGE_WHERE
"  --rounds N           of each kind (10)\n"
"  --limit SECONDS      watchdog (120)\n";

#define LEN (1u << 20)
#define OURS 0x77		/* what the owner writes afterwards */
#define THEIRS 0x21

static const struct ep_attr attr = { .send_wr = 8, .recv_wr = 1 };

struct msg { uint64_t addr; uint32_t rkey; };

static void owner(struct ep_pair *pair, struct ep_listener *l, bool reads,
		  unsigned int round)
{
	struct msg me = { 0 }, peer;
	struct ibv_mr *mr;
	struct ep e;
	uint8_t *buf = ep_pages(LEN);
	unsigned int i;

	ep_accept(&e, l, &attr);
	mr = ep_reg(&e, buf, LEN, IBV_ACCESS_LOCAL_WRITE |
		    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	me = (struct msg){ (uintptr_t)buf, mr->rkey };
	memset(buf, THEIRS, LEN);
	ep_exchange(pair, &me, &peer, sizeof(me));
	ep_sync(pair);		/* the peer has its first requests out */
	usleep(1000 * round);
	CHECK_SYS(ibv_dereg_mr(mr));
	memset(buf, OURS, LEN);
	/* All that is in flight has arrived when the connection is over. */
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < LEN && !reads; i++)
		CHECK(buf[i] == OURS, "byte %u written after deregistration",
		      i);
	ep_sync(pair);
	ep_destroy(&e);
}

static void peer(struct ep_pair *pair, const struct ep_where *w, bool reads)
{
	struct msg me = { 0 }, theirs;
	unsigned int out = 0, good = 0, bad = 0, i;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct ep e;
	uint8_t *buf = ep_pages(LEN);
	uint32_t step = LEN / 4, at;

	ep_connect(&e, w->addr, w->port, &attr);
	mr = ep_reg(&e, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	memset(buf, THEIRS, LEN);
	ep_exchange(pair, &me, &theirs, sizeof(me));
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
			ep_sync(pair);
		for (i = 0; i < step && reads; i++)
			CHECK(buf[wc.wr_id + i] == THEIRS,
			      "a Read brought what was written after deregistration");
	}
	CHECK(good, "nothing was transferred before");
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	ep_sync(pair);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

int main(int argc, char **argv)
{
	struct ep_where w = { .addr = "127.0.0.1", .port = 18650 };
	unsigned int i, rounds = 10, limit = 120;
	struct ep_listener l = { 0 };
	struct ep_pair pair;
	const struct opt table[] = {
		{ "rounds", .num = &rounds, .min = 1, .max = 10000 },
		{ "limit", .num = &limit, .min = 1, .max = 100000 },
		{ }
	};
	int status = 0;

	opt_parse(argc, argv, usage, &w, table);
	ep_begin(&pair, &l, &w, limit);
	for (i = 0; i < 2 * rounds; i++) {
		ep_phase("round %u, %s", i / 2, i % 2 ? "reads" : "writes");
		if (pair.server)
			owner(&pair, &l, i % 2, i / 2);
		else
			peer(&pair, &w, i % 2);
	}
	if (pair.server) {
		status = ep_end(&pair, &l);
		printf("rounds %u of writes and of reads\n", rounds);
	}
	return status;
}
