// SPDX-License-Identifier: GPL-2.0
/*
 * conns: connects and disconnects, many at once or one after the other, and
 * tells the rate. Every connection has its own PD, queue pair and two CQs, so
 * 200 at once are also 200 queue pairs and 800 mapped rings in one process.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"

static unsigned int count = 100, parallel = 1, ping_bytes;
static const char *who = "client";
static bool ordered, hold;

struct conn {
	struct ep ep;
	uint8_t *buf;
	struct ibv_mr *mr;
	uint32_t number;		/* of the call, for the other side */
	bool up, down;
};

struct run {
	struct rdma_event_channel *ec;	/* of all ids of this side */
	struct conn *conn;
	bool i_disconnect;
	uint64_t slowest;		/* ns for a batch to be up */
};

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };

static void open_conn(struct conn *c, struct rdma_cm_id *id)
{
	memset(c, 0, sizeof(*c));
	id->context = c;
	ep_setup(&c->ep, id, &attr);
	if (!ping_bytes)
		return;
	c->buf = malloc(2 * ping_bytes);
	CHECK(c->buf, "no memory");
	c->mr = ep_reg(&c->ep, c->buf, 2 * ping_bytes, IBV_ACCESS_LOCAL_WRITE);
	CHECK(!ep_post_recv(&c->ep, 0, c->buf + ping_bytes, ping_bytes, c->mr->lkey),
	      "post receive");
}

static void close_conn(struct conn *c)
{
	if (c->mr)
		CHECK_SYS(ibv_dereg_mr(c->mr));
	free(c->buf);
	c->ep.ec = NULL;
	ep_destroy(&c->ep);
}

static void request(struct run *r, unsigned int i)
{
	struct rdma_cm_id *id;

	/* One after the other up to here: these steps are not the subject. */
	CHECK_SYS(rdma_create_id(r->ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(r->ec, id, where.addr, where.port);
	open_conn(&r->conn[i], id);
	r->conn[i].number = i;
	r->conn[i].ep.param.private_data = &r->conn[i].number;
	r->conn[i].ep.param.private_data_len = sizeof(r->conn[i].number);
}

/* Of the call that this request comes from. */
static uint32_t number_of(const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *param = &ev->param.conn;
	uint32_t number;

	CHECK(param->private_data_len >= sizeof(number),
	      "private data of %u octets", param->private_data_len);
	memcpy(&number, param->private_data, sizeof(number));
	return number;
}

/*
 * Calls in a row that are to arrive in a row come from one processor. Each packet
 * over lo or a veth pair waits in the queue of the processor that sends it, as
 * there is neither RPS nor NAPI with them: one queue, in order. It is mostly
 * empty when the sender goes on, but under load SYNs, and the answers to them,
 * may stay there. If the caller moved to another processor then, later ones would
 * overtake them, which is the network's affair. So do Requests, which the driver's
 * work sends: the tests keep that on the same processor.
 */
static void stay_here(void)
{
	cpu_set_t here;
	int cpu = sched_getcpu();

	CHECK(cpu >= 0, "which processor: %m");
	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	CHECK_SYS(sched_setaffinity(0, sizeof(here), &here));
}

/* Waits until all of this batch are up, or all are down. */
static void gather(struct run *r, bool up)
{
	enum rdma_cm_event_type want = up ? RDMA_CM_EVENT_ESTABLISHED :
					    RDMA_CM_EVENT_DISCONNECTED;
	unsigned int left = parallel, accepted = 0, number;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct conn *c;
	bool *flag;

	while (left) {
		ev = ep_event(r->ec, EP_EVENT_MS);
		CHECK(ev, "%u of %u not %s after %d ms", left, parallel,
		      up ? "up" : "down", EP_EVENT_MS);
		id = ev->id;
		c = id->context;
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && up) {
			number = number_of(ev);
			rdma_ack_cm_event(ev);
			CHECK(accepted < parallel, "too many requests");
			CHECK(!ordered || number == accepted,
			      "the request of call %u comes as number %u",
			      number, accepted);
			c = &r->conn[accepted++];
			open_conn(c, id);
			CHECK_SYS(rdma_accept(id, &c->ep.param));
			continue;
		}
		CHECK(ev->event == want, "event %s status %d instead of %s",
		      rdma_event_str(ev->event), ev->status,
		      rdma_event_str(want));
		flag = up ? &c->up : &c->down;
		CHECK(!*flag, "event %s twice", rdma_event_str(want));
		*flag = true;
		left--;
		rdma_ack_cm_event(ev);
	}
}

static void send_on(struct conn *c)
{
	CHECK(!ep_post_send(&c->ep, 1, IBV_WR_SEND, c->buf, ping_bytes,
			    c->mr->lkey, 0, 0), "post send");
}

static void ping(struct run *r)
{
	struct conn *c;
	unsigned int i;

	for (i = 0; i < parallel && !pair.server; i++) {
		memset(r->conn[i].buf, i * 37 + 1, ping_bytes);
		send_on(&r->conn[i]);
	}
	for (i = 0; i < parallel; i++) {
		c = &r->conn[i];
		ep_done(c->ep.rcq, IBV_WC_SUCCESS);
		if (pair.server) {
			memcpy(c->buf, c->buf + ping_bytes, ping_bytes);
			send_on(c);
		}
		CHECK(!memcmp(c->buf, c->buf + ping_bytes, ping_bytes),
		      "echo differs on connection %u", i);
		ep_done(c->ep.scq, IBV_WC_SUCCESS);
	}
}

static void batch(struct run *r)
{
	uint64_t start = ep_now_ns(), ns;
	unsigned int i;

	if (!pair.server)
		for (i = 0; i < parallel; i++)
			request(r, i);
	/* That may take long; the server waits for what follows only. */
	ep_sync(&pair);
	/* All requests leave at once. */
	if (!pair.server)
		for (i = 0; i < parallel; i++)
			CHECK_SYS(rdma_connect(r->conn[i].ep.id,
					       &r->conn[i].ep.param));
	gather(r, true);
	ep_sync(&pair);
	ns = ep_now_ns() - start;
	r->slowest = ns > r->slowest ? ns : r->slowest;
	if (ping_bytes) {
		ping(r);
		ep_sync(&pair);
	}
	if (hold) {
		if (pair.server)
			puts("HOLDING");
		fflush(stdout);
		pause();
	}
	for (i = 0; i < parallel && r->i_disconnect; i++)
		/* May come second when both do it. */
		rdma_disconnect(r->conn[i].ep.id);
	gather(r, false);
	/* Or the next batch's requests would meet a side that waits for ends. */
	ep_sync(&pair);
	for (i = 0; i < parallel; i++)
		close_conn(&r->conn[i]);
}

static void run(void)
{
	struct run r = { .conn = calloc(parallel, sizeof(*r.conn)) };
	unsigned int done;
	uint64_t start, ns;

	CHECK(r.conn, "no memory");
	r.i_disconnect = !strcmp(who, "both") ||
			 !strcmp(who, pair.server ? "server" : "client");
	r.ec = pair.server ? listener.ec : rdma_create_event_channel();
	CHECK(r.ec, "event channel: %m");
	if (ordered && !pair.server)
		stay_here();
	start = ep_now_ns();
	for (done = 0; done < count; done += parallel) {
		ep_phase("connections %u to %u", done, done + parallel - 1);
		if (parallel > count - done)
			parallel = count - done;
		batch(&r);
	}
	ep_sync(&pair);
	ns = ep_now_ns() - start;
	if (pair.server) {
		printf("connections %u seconds %.3f rate %.1f /s\n", count,
		       ns / 1e9, count * 1e9 / ns);
		printf("slowest batch %.3f s\n", r.slowest / 1e9);
	} else {
		rdma_destroy_event_channel(r.ec);
	}
	free(r.conn);
}

static const struct opt options[] = {
	{ "count", "N", "connections in all (100)", .num = &count, .min = 1, .max = 1000000 },
	{ "parallel", "N", "of these at the same time (1)",
	  .num = &parallel, .min = 1, .max = 5000 },
	{ "ping", "BYTES", "one message and its echo on each (0: none)",
	  .num = &ping_bytes, .max = 1 << 20 },
	{ "disconnect", "SIDE", "client, server or both (client)", .str = &who },
	{ "ordered", "", "the server is told of requests in the order of the calls",
	  .flag = &ordered },
	{ "hold", "",
	  "says HOLDING when the first are up and have sent, and keeps them until killed",
	  .flag = &hold },
	{ }
};

const struct prog prog = {
	.name = "conns",
	.text =
		"Connects COUNT times, PARALLEL at once, and prints connections per second.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18610,
	.limit = 120,
	/* As much as the RDMA CM lets a program have. */
	.backlog = 1024,
	.run = run,
};
