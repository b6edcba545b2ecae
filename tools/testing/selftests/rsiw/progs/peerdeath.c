// SPDX-License-Identifier: GPL-2.0
/*
 * peerdeath: one of two processes is killed in each state of a connection;
 * the other one must learn of it in time, get its work flushed and be able to
 * clean up. What the kernel cleaned up of the dead one is for the caller to
 * look at (`rdma res`).
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"

#define RECVS 8
#define SENDS RECVS	/* no more than the receives there are for sure */
#define LEN 65536

enum state { LISTENING, QP_ONLY, REQUESTED, IDLE, STREAMS, TARGET, CLOSING };

struct pcase {
	const char *name;
	enum state state;
	bool victim_serves;
	enum ibv_wr_opcode op;	/* of the stream */
};

static const struct pcase cases[] = {
	{ "server-listening", LISTENING, true, 0 },
	{ "client-with-qp", QP_ONLY, false, 0 },
	{ "client-connecting", REQUESTED, false, 0 },
	{ "server-before-accept", REQUESTED, true, 0 },
	{ "client-idle", IDLE, false, 0 },
	{ "server-idle", IDLE, true, 0 },
	{ "client-sends", STREAMS, false, IBV_WR_SEND },
	{ "client-writes", STREAMS, false, IBV_WR_RDMA_WRITE },
	{ "client-reads", STREAMS, false, IBV_WR_RDMA_READ },
	{ "server-writes", STREAMS, true, IBV_WR_RDMA_WRITE },
	{ "server-written-to", TARGET, true, IBV_WR_RDMA_WRITE },
	{ "server-read-from", TARGET, true, IBV_WR_RDMA_READ },
	{ "client-read-from", TARGET, false, IBV_WR_RDMA_READ },
	{ "client-sent-to", TARGET, false, IBV_WR_SEND },
	{ "client-disconnecting", CLOSING, false, 0 },
	{ "server-disconnecting", CLOSING, true, 0 },
};

struct dance {
	const struct pcase *c;
	struct ep ep;
	struct ibv_mr *mr;
	uint8_t *buf;
	unsigned int out;	/* requests in flight */
	struct { uint64_t addr; uint32_t rkey; } me, peer;
};

static const struct ep_attr attr = { .send_wr = RECVS, .recv_wr = RECVS };

static void post_recvs(struct dance *d)
{
	int i;

	d->buf = ep_pages(LEN);
	d->mr = ep_reg(&d->ep, d->buf, LEN, IBV_ACCESS_LOCAL_WRITE |
		       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	for (i = 0; i < RECVS; i++)
		CHECK(!ep_post_recv(&d->ep, i, d->buf, LEN, d->mr->lkey),
		      "post receive");
	d->me.addr = (uintptr_t)d->buf;
	d->me.rkey = d->mr->rkey;
}

static void establish(struct dance *d)
{
	ep_open(&d->ep, &pair, &listener, &where, &attr);
	post_recvs(d);
	ep_exchange(&pair, &d->me, &d->peer, sizeof(d->me));
}

static int post_op(struct dance *d)
{
	return ep_post_send(&d->ep, 1, d->c->op, d->buf, LEN, d->mr->lkey,
			    d->peer.addr, d->peer.rkey);
}

/* Takes the completions of all that is posted. */
static void take_all(struct dance *d)
{
	struct ibv_wc wc;

	for (; d->out; d->out--)
		CHECK(ep_poll(d->ep.scq, &wc, EP_EVENT_MS),
		      "a posted request never completes");
}

/* Keeps four requests in flight; false as soon as one of them failed. */
static bool stream(struct dance *d, unsigned int rounds)
{
	struct ibv_wc wc;

	while (rounds--) {
		while (d->out < 4 && !post_op(d))
			d->out++;
		if (!d->out)
			return false;
		CHECK(ep_poll(d->ep.scq, &wc, EP_EVENT_MS),
		      "a posted request never completes");
		d->out--;
		if (wc.status != IBV_WC_SUCCESS) {
			take_all(d);
			return false;
		}
	}
	return true;
}

/* All that is posted completes; a receive posted by now never would. */
static void drain_receives(struct dance *d)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < RECVS; i++)
		CHECK(ep_poll(d->ep.rcq, &wc, EP_EVENT_MS),
		      "%d receives are not flushed", RECVS - i);
}

static void hold(void)
{
	ep_sync(&pair);
	for (;;)
		pause();
}

static void victim(struct dance *d)
{
	struct rdma_cm_id *id;
	struct ibv_wc wc;

	if (pair.server)
		start_listening();
	ep_sync(&pair);
	switch (d->c->state) {
	case LISTENING:
		hold();
		break;
	case QP_ONLY:
	case REQUESTED:
		if (pair.server) {
			ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
			hold();
		}
		d->ep.ec = rdma_create_event_channel();
		CHECK_SYS(rdma_create_id(d->ep.ec, &id, NULL, RDMA_PS_TCP));
		ep_resolve(d->ep.ec, id, where.addr, where.port);
		ep_setup(&d->ep, id, &attr);
		post_recvs(d);
		if (d->c->state == REQUESTED)
			CHECK_SYS(rdma_connect(id, &d->ep.param));
		hold();
		break;
	case IDLE:
	case TARGET:
		establish(d);
		ep_sync(&pair);
		/* Receives are answered with new ones until the end. */
		for (;;)
			if (ep_poll(d->ep.rcq, &wc, 1000) &&
			    wc.status == IBV_WC_SUCCESS)
				ep_post_recv(&d->ep, 0, d->buf, LEN,
					     d->mr->lkey);
		break;
	case STREAMS:
		establish(d);
		ep_sync(&pair);
		/* A Send without a receive would end it all too early. */
		if (d->c->op == IBV_WR_SEND)
			stream(d, SENDS - 3);
		else
			stream(d, ~0u);
		break;
	case CLOSING:
		establish(d);
		rdma_disconnect(d->ep.id);
		hold();
		break;
	}
	for (;;)
		pause();
}

static void kill_victim(void)
{
	int status;

	CHECK_SYS(kill(pair.child, SIGKILL));
	status = ep_join(&pair);
	CHECK(status == 128 + SIGKILL, "victim ended with %d", status);
}

static void cleanup(struct dance *d)
{
	if (d->mr)
		CHECK_SYS(ibv_dereg_mr(d->mr));
	ep_destroy(&d->ep);
}

/* A client whose server is gone: a connect ends in an error in time. */
static void connect_fails(struct dance *d)
{
	struct rdma_cm_event *ev;

	ev = ep_event(d->ep.ec, EP_EVENT_MS);
	CHECK(ev, "connect to a dead server gives no event");
	CHECK(ev->event == RDMA_CM_EVENT_REJECTED ||
	      ev->event == RDMA_CM_EVENT_UNREACHABLE ||
	      ev->event == RDMA_CM_EVENT_CONNECT_ERROR,
	      "connect to a dead server: %s", rdma_event_str(ev->event));
	rdma_ack_cm_event(ev);
}

static void survive_connecting(struct dance *d)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	if (!pair.server) {
		d->ep.ec = rdma_create_event_channel();
		CHECK_SYS(rdma_create_id(d->ep.ec, &id, NULL, RDMA_PS_TCP));
		if (d->c->state == LISTENING) {
			ep_sync(&pair);
			kill_victim();
		}
		ep_resolve(d->ep.ec, id, where.addr, where.port);
		ep_setup(&d->ep, id, &attr);
		if (d->c->state == LISTENING) {
			/* Refused at once or by an event. */
			if (!rdma_connect(id, &d->ep.param))
				connect_fails(d);
			cleanup(d);
			return;
		}
		CHECK_SYS(rdma_connect(id, &d->ep.param));
		ep_sync(&pair);
		kill_victim();
		connect_fails(d);
		cleanup(d);
		return;
	}
	ep_sync(&pair);
	if (d->c->state == QP_ONLY) {
		kill_victim();
		return;
	}
	id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	kill_victim();
	d->ep.ec = NULL;
	if (!ep_try_setup(&d->ep, id, &attr)) {
		CHECK_SYS(rdma_destroy_id(id));
		return;
	}
	/* May still work, when the news of the death come a little later. */
	if (!rdma_accept(id, &d->ep.param)) {
		ev = ep_event(listener.ec, EP_EVENT_MS);
		CHECK(ev, "accept of a dead client gives no event");
		if (ev->event == RDMA_CM_EVENT_ESTABLISHED) {
			rdma_ack_cm_event(ev);
			ep_expect(listener.ec, RDMA_CM_EVENT_DISCONNECTED);
		} else {
			rdma_ack_cm_event(ev);
		}
	}
	cleanup(d);
}

static void survive_established(struct dance *d)
{
	establish(d);
	ep_sync(&pair);
	if (d->c->state == STREAMS && d->c->op == IBV_WR_SEND) {
		struct ibv_wc wc;

		CHECK(ep_poll(d->ep.rcq, &wc, EP_EVENT_MS),
		      "no message of the victim");
		CHECK(!ep_post_recv(&d->ep, 0, d->buf, LEN, d->mr->lkey),
		      "post receive");
	} else if (d->c->state == STREAMS) {
		usleep(50000);
	} else if (d->c->state == TARGET) {
		/* Then requests are in flight as it dies. */
		CHECK(stream(d, d->c->op == IBV_WR_SEND ? SENDS - 3 : 20),
		      "stream breaks early");
	}
	kill_victim();
	while (d->c->state == TARGET && d->c->op != IBV_WR_SEND &&
	       stream(d, 1))
		;
	take_all(d);
	ep_expect(d->ep.ec, RDMA_CM_EVENT_DISCONNECTED);
	drain_receives(d);
	cleanup(d);
}

/* Of the case that is run. */
static const struct pcase *current;

static int run_case(void)
{
	struct dance d = { .c = current };

	ep_fork(&pair, &where, !d.c->victim_serves);
	ep_watchdog(time_limit);
	if (!pair.child) {
		victim(&d);
		_exit(0);
	}
	if (pair.server)
		start_listening();
	ep_sync(&pair);
	if (d.c->state < IDLE)
		survive_connecting(&d);
	else
		survive_established(&d);
	if (pair.server)
		ep_unlisten(&listener);
	return 0;
}

/* A process of its own for each: namespaces and limits end with it. */
static void run(void)
{
	const unsigned int port = where.port;
	unsigned int i;
	int status;

	/* The limit is that of each case. */
	alarm(0);
	for (i = 0; i < COUNT(cases); i++) {
		if (!prog_chosen(cases[i].name))
			continue;
		current = &cases[i];
		part("%s", current->name);
		where.port = port + i;
		status = in_child(run_case);
		expect(!status, "status %#x", status);
	}
}

const struct prog prog = {
	.name = "peerdeath",
	.text =
		"Kills a process in each state of a connection and watches the other one.\n",
	.kind = PROG_FREE,
	.cases = true,
	.port = 18620,
	.limit = 60,
	.run = run,
};
