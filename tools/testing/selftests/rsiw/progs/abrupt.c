// SPDX-License-Identifier: GPL-2.0
/*
 * abrupt: thousands of connections that end at any moment of their life, by
 * either side, by a call or by the end of the process. Whoever still waits for
 * an answer must get one in time; what is left in the kernel is for the caller
 * to look at (`rdma res`).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

static unsigned int count = 500, batch = 50;
static uint64_t seed;

/* The server process gives way to another one after so many batches. */
#define REIGN 7

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
static uint64_t state;

static unsigned int rnd(unsigned int n)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (state >> 33) % n;
}

struct conn {
	struct ep ep;
	bool answered, gone;
};

static void end(struct conn *c)
{
	if (c->gone)
		return;
	c->gone = true;
	/* The channel is that of all. */
	c->ep.ec = NULL;
	ep_destroy(&c->ep);
}

/* Anything that may be done to a connection in any state. */
static void do_something(struct conn *c)
{
	if (c->gone)
		return;
	switch (rnd(5)) {
	case 0:
		end(c);
		break;
	case 1:
		rdma_disconnect(c->ep.id);
		break;
	case 2:
		to_state(c->ep.id->qp, IBV_QPS_ERR);
		break;
	case 3:
		rdma_disconnect(c->ep.id);
		end(c);
		break;
	default:
		/* Nobody receives it: that ends the stream as well. */
		(void)!ep_post_send(&c->ep, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0);
	}
}

/* ---- the server ---------------------------------------------------------- */

static void request(struct rdma_cm_id *id)
{
	struct conn *c;

	switch (rnd(8)) {
	case 0:
		rdma_reject(id, NULL, 0);
		/* fall through */
	case 1:
		id->context = NULL;
		rdma_destroy_id(id);
		return;
	}
	c = calloc(1, sizeof(*c));
	CHECK(c, "no memory");
	if (!ep_try_setup(&c->ep, id, &attr)) {
		rdma_destroy_id(id);
		free(c);
		return;
	}
	id->context = c;
	if (rdma_accept(id, &c->ep.param))
		end(c);
	else if (!rnd(8))
		do_something(c);
	if (c->gone)
		free(c);
}

static void serve(int ready)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct ep_listener l;
	unsigned int type;
	struct conn *c;

	ep_enter_netns(where.server_netns);
	ep_listen(&l, where.addr, where.port, 64);
	CHECK(write(ready, "r", 1) == 1, "pipe: %m");
	while (!rdma_get_cm_event(l.ec, &ev)) {
		id = ev->id;
		type = ev->event;
		c = id->context;
		rdma_ack_cm_event(ev);
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			request(id);
			continue;
		case RDMA_CM_EVENT_ESTABLISHED:
			if (rnd(2))
				do_something(c);
			break;
		default:
			/* It is over, or will be. */
			end(c);
		}
		if (c->gone)
			free(c);
	}
	DIE("event: %m");
}

static pid_t start_server(void)
{
	int ready[2];
	pid_t pid;
	char r;

	CHECK_SYS(pipe(ready));
	pid = new_process();
	if (!pid) {
		close(ready[0]);
		serve(ready[1]);
	}
	close(ready[1]);
	CHECK(read(ready[0], &r, 1) == 1, "no server");
	close(ready[0]);
	return pid;
}

/* ---- the client ---------------------------------------------------------- */

static void take(struct rdma_event_channel *ec, int ms, unsigned int *open)
{
	struct rdma_cm_event *ev = ep_event(ec, ms);
	struct conn *c;

	if (!ev)
		return;
	c = ev->id->context;
	if (!c->answered)
		--*open;
	c->answered = true;
	rdma_ack_cm_event(ev);
	if (!rnd(3))
		do_something(c);
}

static void client(unsigned int n)
{
	struct rdma_event_channel *ec;
	struct conn *c = calloc(n, sizeof(*c));
	unsigned int i, left, open = 0;
	uint64_t until;

	ep_enter_netns(where.client_netns);
	ec = rdma_create_event_channel();
	CHECK(c && ec, "event channel: %m");
	for (i = 0; i < n; i++) {
		struct rdma_event_channel *own = rdma_create_event_channel();
		struct rdma_cm_id *id;

		CHECK(own, "event channel: %m");
		CHECK_SYS(rdma_create_id(own, &id, &c[i], RDMA_PS_TCP));
		ep_resolve(own, id, where.addr, where.port);
		CHECK_SYS(rdma_migrate_id(id, ec));
		rdma_destroy_event_channel(own);
		ep_setup(&c[i].ep, id, &attr);
		if (rdma_connect(id, &c[i].ep.param))
			c[i].answered = true;
		else
			open++;
		if (!rnd(4)) {
			usleep(rnd(3000));
			do_something(&c[i]);
			/* Whether an event comes of that is open. */
			open -= !c[i].answered;
			c[i].answered = true;
		}
		while (!rnd(3))
			take(ec, 0, &open);
		/* Dies with all it has. */
		if (!rnd(4 * n))
			raise(SIGKILL);
	}
	until = ep_now_ns() + EP_EVENT_MS * 1000000ull;
	while (open) {
		CHECK(ep_now_ns() < until, "%u of %u have no answer", open, n);
		left = open;
		take(ec, 100, &open);
		if (open < left)
			until = ep_now_ns() + EP_EVENT_MS * 1000000ull;
	}
	if (rnd(2))
		raise(SIGKILL);
	for (i = 0; i < n; i++)
		end(&c[i]);
	_exit(0);
}

static void run(void)
{
	unsigned int done, killed = 0, n = 0;
	pid_t server = 0, pid;
	uint64_t start;
	int status;

	seed = seed ? seed : (uint64_t)time(NULL);
	printf("seed %lu\n", seed);
	start = ep_now_ns();
	for (done = 0; done < count; done += batch, n++) {
		state = seed + n * 0x9e3779b97f4a7c15;
		ep_phase("connections from %u on, seed %lu", done, seed);
		if (n % REIGN == 0 && server) {
			CHECK_SYS(kill(server, SIGKILL));
			CHECK(waitpid(server, NULL, 0) == server, "wait: %m");
			server = 0;
		}
		if (!server)
			server = start_server();
		pid = new_process();
		if (!pid)
			client(batch);
		/* In the middle of a batch, too. */
		if (n % REIGN == REIGN - 1) {
			usleep(rnd(100000));
			CHECK_SYS(kill(server, SIGKILL));
		}
		CHECK(waitpid(pid, &status, 0) == pid, "wait: %m");
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		CHECK(!status || (WIFSIGNALED(status) &&
				  WTERMSIG(status) == SIGKILL),
		      "a client ends with status %#x", status);
		if (waitpid(server, &status, WNOHANG) == server) {
			CHECK(n % REIGN == REIGN - 1, "the server ends: %#x",
			      status);
			server = 0;
		}
	}
	if (server) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	printf("%u connections in %.1f s, %u of %u clients died with theirs\n",
	       done, (ep_now_ns() - start) / 1e9, killed, n);
}

static const struct opt options[] = {
	{ "count", "N", "connections in all (500)", .num = &count, .min = 1, .max = 1000000 },
	{ "batch", "N", "of these by one process (50)", .num = &batch, .min = 1, .max = 1000 },
	{ "seed", "N", "of all that is done (default: by the clock; printed)", .num64 = &seed },
	{ }
};

const struct prog prog = {
	.name = "abrupt",
	.text = "Connects and ends connections in every way but the usual one.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18800,
	.limit = 120,
	.run = run,
};
