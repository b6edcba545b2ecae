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

#include "opt.h"

static const char usage[] =
"usage: conns [options]\n"
"Connects COUNT times, PARALLEL at once, and prints connections per second.\n"
USAGE_WHERE
"  --count N            connections in all (100)\n"
"  --parallel N         of these at the same time (1)\n"
"  --ping BYTES         one message and its echo on each (0: none)\n"
"  --disconnect SIDE    client, server or both (client)\n"
"  --ordered            the server is told of requests in the order of the calls\n"
"  --limit SECONDS      watchdog (120)\n";

struct conn {
	struct ep ep;
	uint8_t *buf;
	struct ibv_mr *mr;
	uint32_t number;		/* of the call, for the other side */
	bool up, down;
};

struct run {
	struct ep_pair pair;
	struct ep_where w;
	struct ep_listener l;
	struct rdma_event_channel *ec;	/* of all ids of this side */
	struct conn *conn;
	unsigned int parallel, ping;
	bool i_disconnect, ordered;
	uint64_t slowest;		/* ns for a batch to be up */
};

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };

static void open_conn(struct run *r, struct conn *c, struct rdma_cm_id *id)
{
	memset(c, 0, sizeof(*c));
	id->context = c;
	ep_setup(&c->ep, id, &attr);
	if (!r->ping)
		return;
	c->buf = malloc(2 * r->ping);
	CHECK(c->buf, "no memory");
	c->mr = ep_reg(&c->ep, c->buf, 2 * r->ping, IBV_ACCESS_LOCAL_WRITE);
	CHECK(!ep_post_recv(&c->ep, 0, c->buf + r->ping, r->ping, c->mr->lkey),
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
	ep_resolve(r->ec, id, r->w.addr, r->w.port);
	open_conn(r, &r->conn[i], id);
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
 * overtake them, which is the network's affair. Of the Requests themselves, which
 * the driver's work sends from any processor, none waits: with so few packets in
 * the queue the sender brings its own to the peer before it goes on.
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
	unsigned int left = r->parallel, accepted = 0, number;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct conn *c;
	bool *flag;

	while (left) {
		ev = ep_event(r->ec, EP_EVENT_MS);
		CHECK(ev, "%u of %u not %s after %d ms", left, r->parallel,
		      up ? "up" : "down", EP_EVENT_MS);
		id = ev->id;
		c = id->context;
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && up) {
			number = number_of(ev);
			rdma_ack_cm_event(ev);
			CHECK(accepted < r->parallel, "too many requests");
			CHECK(!r->ordered || number == accepted,
			      "the request of call %u comes as number %u",
			      number, accepted);
			c = &r->conn[accepted++];
			open_conn(r, c, id);
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

static void want_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	CHECK(ep_poll(cq, &wc, EP_EVENT_MS), "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS, "completion: %s",
	      ibv_wc_status_str(wc.status));
}

static void send_on(struct run *r, struct conn *c)
{
	CHECK(!ep_post_send(&c->ep, 1, IBV_WR_SEND, c->buf, r->ping,
			    c->mr->lkey, 0, 0), "post send");
}

static void ping(struct run *r)
{
	struct conn *c;
	unsigned int i;

	for (i = 0; i < r->parallel && !r->pair.server; i++) {
		memset(r->conn[i].buf, i * 37 + 1, r->ping);
		send_on(r, &r->conn[i]);
	}
	for (i = 0; i < r->parallel; i++) {
		c = &r->conn[i];
		want_wc(c->ep.rcq);
		if (r->pair.server) {
			memcpy(c->buf, c->buf + r->ping, r->ping);
			send_on(r, c);
		}
		CHECK(!memcmp(c->buf, c->buf + r->ping, r->ping),
		      "echo differs on connection %u", i);
		want_wc(c->ep.scq);
	}
}

static void batch(struct run *r, bool want_data)
{
	uint64_t start = ep_now_ns(), ns;
	unsigned int i;

	if (!r->pair.server)
		for (i = 0; i < r->parallel; i++)
			request(r, i);
	/* That may take long; the server waits for what follows only. */
	ep_sync(&r->pair);
	/* All requests leave at once. */
	if (!r->pair.server)
		for (i = 0; i < r->parallel; i++)
			CHECK_SYS(rdma_connect(r->conn[i].ep.id,
					       &r->conn[i].ep.param));
	gather(r, true);
	ep_sync(&r->pair);
	ns = ep_now_ns() - start;
	r->slowest = ns > r->slowest ? ns : r->slowest;
	if (want_data) {
		ping(r);
		ep_sync(&r->pair);
	}
	for (i = 0; i < r->parallel && r->i_disconnect; i++)
		/* May come second when both do it. */
		rdma_disconnect(r->conn[i].ep.id);
	gather(r, false);
	/* Or the next batch's requests would meet a side that waits for ends. */
	ep_sync(&r->pair);
	for (i = 0; i < r->parallel; i++)
		close_conn(&r->conn[i]);
}

int main(int argc, char **argv)
{
	struct run r = { .w = { .addr = "127.0.0.1", .port = 18610 },
			 .parallel = 1 };
	unsigned int count = 100, limit = 120, done;
	const char *who = "client";
	const struct opt table[] = {
		{ "count", .num = &count, .min = 1, .max = 1000000 },
		{ "parallel", .num = &r.parallel, .min = 1, .max = 5000 },
		{ "ping", .num = &r.ping, .max = 1 << 20 },
		{ "disconnect", .str = &who },
		{ "ordered", .flag = &r.ordered },
		{ "limit", .num = &limit, .min = 1, .max = 100000 },
		{ }
	};
	uint64_t start, ns;
	int status = 0;

	opt_parse(argc, argv, usage, &r.w, table);
	ep_fork(&r.pair, &r.w, true);
	ep_watchdog(limit);
	r.i_disconnect = !strcmp(who, "both") ||
			 !strcmp(who, r.pair.server ? "server" : "client");
	r.conn = calloc(r.parallel, sizeof(*r.conn));
	CHECK(r.conn, "no memory");
	if (r.pair.server) {
		ep_listen(&r.l, r.w.addr, r.w.port, r.parallel + 8);
		r.ec = r.l.ec;
	} else {
		r.ec = rdma_create_event_channel();
		CHECK(r.ec, "event channel: %m");
		if (r.ordered)
			stay_here();
	}
	ep_sync(&r.pair);
	start = ep_now_ns();
	for (done = 0; done < count; done += r.parallel) {
		ep_phase("connections %u to %u", done, done + r.parallel - 1);
		if (r.parallel > count - done)
			r.parallel = count - done;
		batch(&r, r.ping);
	}
	ep_sync(&r.pair);
	ns = ep_now_ns() - start;
	if (r.pair.server) {
		ep_unlisten(&r.l);
		status = ep_join(&r.pair);
		printf("connections %u seconds %.3f rate %.1f /s\n", count,
		       ns / 1e9, count * 1e9 / ns);
		printf("slowest batch %.3f s\n", r.slowest / 1e9);
	} else {
		rdma_destroy_event_channel(r.ec);
	}
	free(r.conn);
	return status;
}
