// SPDX-License-Identifier: GPL-2.0
/*
 * faults: each thing in the driver that can fail fails once: an allocation, a
 * copy to or from the program, a call of the network's. What is made to fail
 * and where is set up by the caller (see rsiwtest/faults.py); here it is only
 * counted off: the file `space` says how many pass, `times` that one fails.
 */
#include "faults/faults.h"
#include "control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* More than this in one step is a loop. */
#define MOST 2000

struct ibv_context *ctx;
static const char *dir, *only;
static unsigned int injected;
static bool each_step;

void bind_id(struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(port) };

	CHECK(inet_pton(AF_INET, where.addr, &sin.sin_addr) == 1, "address");
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&sin), "bind: %m");
}

/* No failures any more; whether there was one. */
static bool disarm(void)
{
	unsigned int left = control_get("times");

	control_set("times", 0);
	return left == 0;
}

/* What failed last, where that is known. */
const char *last_failure(void)
{
	static char name[64];
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/last", dir);
	f = fopen(path, "r");
	if (!f || !fgets(name, sizeof(name), f))
		snprintf(name, sizeof(name), "?");
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = 0;
	return name;
}

/* What a program can make sense of after something ran out. */
static bool clear(int err)
{
	switch (err) {
	case ENOMEM:
	case ENOBUFS:
	case ENFILE:		/* what there is no socket for */
	case EAGAIN:
	case EFAULT:
	case EADDRINUSE:	/* what there is no memory for the port of */
	case ENOSPC:
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return true;
	}
	return false;
}

void sweep(const struct step *s)
{
	unsigned int n, reported = 0, slowest = 0;
	uint64_t start, most = 0, took;
	char why[64] = "?";
	bool fired = true;
	int err;

	if (only && fnmatch(only, s->name, 0))
		return;
	part("failures to %s", s->name);
	for (n = 0; fired && n < MOST; n++) {
		if (s->prepare)
			s->prepare();
		ep_phase("%s, failure %u", s->name, n);
		start = ep_now_ns();
		control_arm(n, 1);
		err = s->run();
		fired = disarm();
		took = ep_now_ns() - start;
		if (took > most) {
			most = took;
			slowest = n;
			snprintf(why, sizeof(why), "%s", last_failure());
		}
		reported += err != 0;
		expect(fired || !err, "nothing failed, and yet: %s",
		       strerror(err));
		expect(!err || !s->succeeds, "failure %u (%s): %s", n, last_failure(),
		       strerror(err));
		expect(!err || clear(err), "failure %u (%s) is told as: %s", n,
		       last_failure(), strerror(err));
		if (!err && s->undo)
			s->undo();
	}
	expect(!fired, "no end after %u failures", n);
	expect(n > 1 || !each_step || !strstr(s->name, "V-IMM-1"),
	       "nothing in it failed");
	injected += n - 1;
	printf("# %s: %u failures inside, %u seen by the program; at most %lu ms, by failure %u (%s)\n",
	       s->name, n - 1, reported, most / 1000000, slowest, why);
}

static void run(void)
{
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id;

	CHECK(dir, "--dir is missing");
	control_open(dir);
	control_set("times", 0);
	/* An id that is bound names the device. */
	ec = rdma_create_event_channel();
	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	bind_id(id, 0);
	ctx = id->verbs;
	CHECK(ctx, "%s is the address of no device", where.addr);
	sweep_objects();
	sweep_connections();
	CHECK_SYS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ec);
	part("there were failures");
	expect(injected, "none");
}

static const struct opt options[] = {
	{ "dir", "DIR", "controls of the failures", .str = &dir },
	{ "only", "PATTERN", "only the steps with such names", .str = &only },
	{ "each", "", "a step that names a row has failures inside", .flag = &each_step },
	{ }
};

const struct prog prog = {
	.name = "faults",
	.text = "Makes what the driver does fail, one thing after the other.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18840,
	.limit = 300,
	.run = run,
};
