// SPDX-License-Identifier: GPL-2.0
/*
 * integrity: do the bytes arrive, all of them, in order, nowhere else?
 *
 * Two processes, connected over RDMA, post random work to each other: every
 * opcode, one to six segments, odd places, sizes from nothing to megabytes,
 * with all flags. Both derive the same plan from one seed, so each knows what
 * its memory must hold afterwards, down to the bytes between the buffers.
 * Sources are overwritten as soon as their work request is complete.
 */
#include "integrity/integrity.h"
#include "prog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct options o = {
	.max_size = 1 << 20, .kinds = (1u << OP_KINDS) - 1,
	.segments = MAX_SGE, .depth = 16, .iterations = 200,
};
static bool server, client;
static const char *kinds;

/* Bit mask of the kinds of operations in a list with commas. */
static unsigned int kinds_of(const char *list)
{
	unsigned int k, mask = 0;
	char copy[128], *word;

	snprintf(copy, sizeof(copy), "%s", list);
	for (word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
		for (k = 0; k < OP_KINDS && strcmp(word, op_name(k)); k++)
			;
		if (k == OP_KINDS) {
			fprintf(stderr, "integrity: no kind '%s'\n", word);
			exit(2);
		}
		mask |= 1u << k;
	}
	return mask;
}

static void run_split(struct side *s)
{
	static struct plan mine, theirs;
	unsigned int first = 0;
	uint64_t round = 0;

	while (plan_split(&mine, s->opt, first, s->pair->server)) {
		plan_split(&theirs, s->opt, first, !s->pair->server);
		run_round(s, &mine, &theirs, WAIT_POLL, round++);
		first += s->opt->depth - 1;
	}
}

static void run_random(struct side *s)
{
	static struct plan mine, theirs;
	uint64_t end = ep_now_ns() + s->opt->seconds * 1000000000ull;
	uint64_t round;
	char go, theirs_go;

	for (round = 0;; round++) {
		go = s->opt->seconds ? ep_now_ns() < end :
				       round < s->opt->iterations;
		/* Clocks differ a little: both go on or none. */
		ep_exchange(s->pair, &go, &theirs_go, 1);
		if (!go || !theirs_go)
			return;
		plan_random(&mine, s->opt, round, s->pair->server);
		plan_random(&theirs, s->opt, round, !s->pair->server);
		run_round(s, &mine, &theirs, round % WAIT_MODES, round);
	}
}

static void report(const struct side *s, const char *what, uint64_t start)
{
	int k;

	if (!s->pair->server)
		return;
	printf("%s: %lu rounds, %.1f MB in %.1f s;", what, s->st.rounds,
	       s->st.bytes / 1e6, (ep_now_ns() - start) / 1e9);
	for (k = 0; k < OP_KINDS; k++)
		printf(" %s %lu", op_name(k), s->st.ops[k]);
	printf("; inline %lu, unsignalled %lu\n", s->st.inlined,
	       s->st.unsignaled);
	fflush(stdout);
}

static void run_data(bool split, bool random)
{
	const struct ep_attr a = {
		.send_wr = o.depth, .recv_wr = o.depth, .send_sge = MAX_SGE,
		.recv_sge = MAX_SGE, .inline_data = INLINE_MAX, .ird = 4,
		.ord = 4, .channel = true,
	};
	static struct side s;
	uint64_t start = ep_now_ns();

	s.pair = &pair;
	s.opt = &o;
	ep_phase("connect");
	ep_open(&s.ep, &pair, &listener, &where, &a);
	side_init(&s);
	if (split) {
		run_split(&s);
		report(&s, "split", start);
		memset(&s.st, 0, sizeof(s.st));
		start = ep_now_ns();
	}
	if (random) {
		run_random(&s);
		report(&s, "random", start);
	}
	ep_phase("disconnect");
	ep_sync(&pair);
	if (!pair.server)
		rdma_disconnect(s.ep.id);
	ep_expect(s.ep.ec, RDMA_CM_EVENT_DISCONNECTED);
	side_exit(&s);
	ep_destroy(&s.ep);
}

/* This host's process, and the other's; or one here forks the other. */
static void meet(void)
{
	uint64_t seed;

	if (server || client) {
		ep_ctl_tcp(&pair, &where, server);
		ep_enter_netns(server ? where.server_netns : where.client_netns);
	} else {
		ep_fork(&pair, &where, true);
		/* The child got no alarm of the parent. */
		ep_watchdog(time_limit);
	}
	ep_exchange(&pair, &o.seed, &seed, sizeof(seed));
	if (pair.server)
		printf("seed %lu\n", o.seed);
	else
		o.seed = seed;
	ep_phase("listen");
	if (pair.server)
		start_listening();
	ep_sync(&pair);
}

static void run(void)
{
	bool split = prog_chosen("split"), random = prog_chosen("random");
	bool notify = prog_chosen("notify");
	int status = 0;

	if (!split && !random && !notify)
		return;
	if (kinds)
		o.kinds = kinds_of(kinds);
	if (!o.kinds || o.min_size > o.max_size) {
		fputs("integrity: no such messages\n", stderr);
		exit(2);
	}
	o.seed = o.seed ? o.seed : ep_now_ns();
	meet();
	if (split || random)
		run_data(split, random);
	if (notify) {
		run_notify(&pair, &where, &listener);
		if (pair.server)
			puts("notify: right");
	}
	ep_sync(&pair);
	if (pair.server)
		ep_unlisten(&listener);
	if (pair.child)
		status = ep_join(&pair);
	if (status)
		exit(status);
}

static const struct opt options[] = {
	{ "server", "", "run only this side; PORT + 1 is then a TCP control connection",
	  .flag = &server },
	{ "client", "", "the same, the other side", .flag = &client },
	{ "seed", "N", "of the random plans (default: by the clock; printed)", .num64 = &o.seed },
	{ "iterations", "N", "random rounds (200)", .num = &o.iterations, .max = 1 << 30 },
	{ "seconds", "N", "random rounds for N seconds instead",
	  .num = &o.seconds, .min = 1, .max = 1 << 20 },
	{ "kinds", "LIST", "of send, send-se, send-inv, write, read, readback", .str = &kinds },
	{ "min-size", "BYTES", "of a random message (0)", .num = &o.min_size, .max = REGION / 2 },
	{ "max-size", "BYTES", "of a random message (1048576)",
	  .num = &o.max_size, .max = REGION / 2 },
	{ "segments", "N", "at most, of a request, 1..6 (6)",
	  .num = &o.segments, .min = 1, .max = MAX_SGE },
	{ "depth", "N", "of the work queues, 4..48 (16)",
	  .num = &o.depth, .min = 4, .max = MAX_OPS },
	{ }
};

const struct prog prog = {
	.name = "integrity",
	.text =
		"Checks data integrity over a connected pair of RDMA queue pairs.\n"
		"Without --server or --client both ends run here, in two processes.\n",
	.table = options,
	.kind = PROG_FREE,
	.cases = true,
	.port = 18600,
	.limit = 300,
	.run = run,
};
