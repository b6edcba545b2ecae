// SPDX-License-Identifier: GPL-2.0
/*
 * unplug: holds devices open with all that a busy program has, while somebody
 * removes them. Prints READY, then waits: every context must get its fatal
 * event, every connection its end, every later call must return, and cleaning
 * up must work. Nothing may hang, nothing may fault.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

static unsigned int conns = 4, patience = 30;
static const char *removed = "both";
static bool idle;

#define LEN 65536
#define DEPTH 8

struct conn {
	struct ep ep;
	uint8_t *buf;
	struct ibv_mr *mr;
	struct { uint64_t addr; uint32_t rkey; } me, peer;
	bool removed, gone;
};

static const struct ep_attr attr = { .send_wr = DEPTH, .recv_wr = DEPTH,
				     .channel = true };

static void open_conn(struct conn *c)
{
	int i;

	ep_open(&c->ep, &pair, &listener, &where, &attr);
	c->buf = ep_pages(LEN);
	c->mr = ep_reg(&c->ep, c->buf, LEN, ALL_ACCESS);
	for (i = 0; i < DEPTH; i++)
		CHECK(!ep_post_recv(&c->ep, i, c->buf, LEN, c->mr->lkey),
		      "post receive");
	CHECK_SYS(ibv_req_notify_cq(c->ep.rcq, 0));
	c->me.addr = (uintptr_t)c->buf;
	c->me.rkey = c->mr->rkey;
	ep_exchange(&pair, &c->me, &c->peer, sizeof(c->me));
}

static void traffic(struct conn *c, unsigned int i)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(c->ep.scq, 1, &wc) > 0)
		;
	/* A failing post is the news that everybody here waits for. */
	ep_post_send(&c->ep, 1, i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		     c->buf, LEN, c->mr->lkey, c->peer.addr, c->peer.rkey);
}

static void cm_event(struct conn *c, bool mine)
{
	struct rdma_cm_event *ev = ep_event(c->ep.ec, 0);

	if (!ev)
		return;
	CHECK(ev->event == RDMA_CM_EVENT_DISCONNECTED ||
	      (mine && ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL),
	      "unexpected event %s", rdma_event_str(ev->event));
	c->removed |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
	c->gone = true;
	rdma_ack_cm_event(ev);
}

/* Calls on what is no more: any answer, but an answer. */
static void prod(struct conn *c, bool mine)
{
	struct ibv_port_attr port;
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	int i;

	for (i = 0; i < 3; i++) {
		ep_post_send(&c->ep, 1, IBV_WR_RDMA_WRITE, c->buf, LEN,
			     c->mr->lkey, c->peer.addr, c->peer.rkey);
		ep_post_recv(&c->ep, 1, c->buf, LEN, c->mr->lkey);
		ibv_req_notify_cq(c->ep.rcq, 0);
	}
	for (i = 0; i < 4 * DEPTH; i++)
		if (ibv_poll_cq(c->ep.rcq, 1, &wc) != 1)
			break;
	if (!mine)
		return;
	CHECK(ibv_query_port(c->ep.id->verbs, 1, &port),
	      "query_port works on a removed device");
	CHECK(ibv_query_qp(c->ep.id->qp, &qa, IBV_QP_STATE, &ia),
	      "query_qp works on a removed device");
	mr = ibv_reg_mr(c->ep.pd, c->buf, LEN, 0);
	CHECK(!mr, "reg_mr works on a removed device");
}

static void take_down(struct conn *c)
{
	/* The kernel's part is gone already; results do not matter. */
	ibv_dereg_mr(c->mr);
	rdma_destroy_qp(c->ep.id);
	ibv_destroy_cq(c->ep.scq);
	ibv_destroy_cq(c->ep.rcq);
	ibv_destroy_comp_channel(c->ep.cc);
	ibv_dealloc_pd(c->ep.pd);
	rdma_destroy_id(c->ep.id);
	rdma_destroy_event_channel(c->ep.ec);
}

/* Traffic until each connection has its end, and each device its removal. */
static void wait_for_end(struct conn *conn, bool mine)
{
	uint64_t until = ep_now_ns() + patience * 1000000000ull;
	unsigned int i, k, left = 1;

	for (k = 0; left; k++) {
		for (i = 0, left = 0; i < conns; i++) {
			if (!idle && !conn[i].gone)
				traffic(&conn[i], i + k);
			cm_event(&conn[i], mine);
			left += !conn[i].gone || (mine && !conn[i].removed);
		}
		CHECK(!left || ep_now_ns() < until,
		      "%u of %u connections got no %s event", left, conns,
		      mine ? "removal" : "disconnect");
		if (idle)
			usleep(1000);
	}
}

static void run(void)
{
	bool mine = !strcmp(removed, "both") ||
		    !strcmp(removed, pair.server ? "server" : "client");
	struct conn *conn = calloc(conns, sizeof(*conn));
	struct ibv_context *second;
	unsigned int i;

	CHECK(conn, "no memory");
	ep_phase("connect");
	for (i = 0; i < conns; i++)
		open_conn(&conn[i]);
	/* A second context of the same device, with nothing in it. */
	second = ibv_open_device(conn[0].ep.id->verbs->device);
	CHECK(second, "open the device again: %m");
	ep_sync(&pair);
	ep_phase("waiting for the removal");
	if (pair.server) {
		puts("READY");
		fflush(stdout);
	}
	wait_for_end(conn, mine);
	if (mine) {
		ep_phase("fatal events");
		/* The core asks uverbs to let go when the RDMA CM has. */
		CHECK(async_fatal(conn[0].ep.id->verbs, patience * 1000),
		      "no fatal event on the context in use");
		CHECK(async_fatal(second, patience * 1000),
		      "no fatal event on the idle context");
	}
	ep_phase("calls on a removed device");
	for (i = 0; i < conns; i++)
		prod(&conn[i], mine);
	ep_phase("taking down");
	for (i = 0; i < conns; i++)
		take_down(&conn[i]);
	ibv_close_device(second);
	ep_sync(&pair);
	free(conn);
}

static const struct opt options[] = {
	{ "removed", "SIDE", "whose device goes away: server, client or both (both)",
	  .str = &removed },
	{ "conns", "N", "connections (4)", .num = &conns, .min = 1, .max = 1000 },
	{ "idle", "", "no traffic", .flag = &idle },
	{ "wait", "SECONDS", "for the removal after READY (30)",
	  .num = &patience, .min = 1, .max = 1000 },
	{ }
};

const struct prog prog = {
	.name = "unplug",
	.text =
		"Two connected processes; the device of one or both is removed after READY.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18660,
	.limit = 90,
	.run = run,
};
