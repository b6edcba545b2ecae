// SPDX-License-Identifier: GPL-2.0
/*
 * states: all 25 transitions between the states of a QP, what they do to work
 * requests and to the other side, and queue pairs that are used again.
 *
 * Closing and Terminate last as long as TCP needs: a route to nowhere keeps
 * them until their timer ends them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

#define IDLE IBV_QPS_INIT
#define RTS IBV_QPS_RTS
#define CLOSING IBV_QPS_SQD
#define TERMINATE IBV_QPS_SQE
#define ERROR IBV_QPS_ERR
#define LEN 4096
/* Closing takes no longer: the driver's CLOSE_TIMEOUT_MS. */
#define CLOSING_MS 5000
/* How often what that is too short for, as this machine is slow, is done again. */
#define TRIES 5

static const struct ep_attr plain = { .send_wr = 16, .recv_wr = 16 };
static bool is_direct;
static char *buf, client[32];		/* the address of that side */

static const char *name(enum ibv_qp_state s)
{
	switch (s) {
	case IBV_QPS_RESET:
	case IDLE: return "Idle";
	case RTS: return "RTS";
	case CLOSING: return "Closing";
	case TERMINATE: return "Terminate";
	case ERROR: return "Error";
	default: return "?";
	}
}

static enum ibv_qp_state now(struct ibv_qp *qp)
{
	return wait_state(qp, IBV_QPS_RESET, 0);
}

static void refused(struct ibv_qp *qp, enum ibv_qp_state from,
		    enum ibv_qp_state to)
{
	expect(to_state(qp, to), "%s to %s is accepted", name(from), name(to));
	expect(now(qp) == from, "%s to %s: now %s", name(from), name(to),
	       name(now(qp)));
}

/* A disconnect of what has no connection, or is about to end it. */
static void disconnected(struct ibv_qp *qp, enum ibv_qp_state from)
{
	int err = to_state(qp, CLOSING);

	expect(!err, "%s to Closing: %s", name(from), strerror(err));
	expect(now(qp) == from, "%s to Closing: now %s", name(from),
	       name(now(qp)));
}

static void accepted(struct ibv_qp *qp, enum ibv_qp_state from,
		     enum ibv_qp_state to)
{
	int err = to_state(qp, to);

	expect(!err, "%s to %s: %s", name(from), name(to), strerror(err));
	expect(now(qp) == to, "%s to %s: now %s", name(from), name(to),
	       name(now(qp)));
}

/* Nothing of side `p` gets to the other one any more, or all does again. */
static void cut(bool on)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "ip route %s blackhole %s/32",
		 on ? "add" : "del", client);
	CHECK(!system(cmd), "%s", cmd);
}

static void connected(struct both *b)
{
	struct sockaddr_in *sin;

	both_connect(b, &listener, &where, &plain, &plain);
	sin = (void *)rdma_get_peer_addr(b->p.id);
	inet_ntop(AF_INET, &sin->sin_addr, client, sizeof(client));
	async_drain(listener.id->verbs);
}

/* Whether a Closing that began at `since` or later may have come to its end. */
static bool may_be_over(uint64_t since)
{
	return ep_now_ns() - since >= CLOSING_MS * 1000000ull;
}

/* So many events of `qp`, which come behind its state, and for a while no more. */
static void events(struct ibv_qp *qp, unsigned int want)
{
	struct ibv_async_event ev;
	unsigned int n = 0;

	while (async_event(listener.id->verbs, &ev, n < want ? EP_EVENT_MS : 100))
		n += ev.element.qp == qp;
	expect(n == want, "%u events", n);
}

static void idle_and_rts(void)
{
	/* Idle is either to the consumer. */
	static const enum ibv_qp_state idle[] = { IBV_QPS_RESET, IDLE };
	struct both b;
	size_t i;

	part("V-ST-1 V-ST-3 V-QP-17 from Idle");
	connected(&b);
	/* A QP of the same kind without a connection. */
	struct ibv_qp *qp = ep_qp(b.p.pd, b.p.scq, b.p.rcq, 4);

	for (i = 0; i < COUNT(idle); i++) {
		refused(qp, idle[i], RTS);
		disconnected(qp, idle[i]);
		refused(qp, idle[i], TERMINATE);
		accepted(qp, idle[i], idle[i]);
		accepted(qp, idle[i], idle[!i]);
	}
	accepted(qp, IBV_QPS_RESET, ERROR);
	part("V-ST-38 V-IMM-6 from Error");
	refused(qp, ERROR, RTS);
	disconnected(qp, ERROR);
	refused(qp, ERROR, TERMINATE);
	accepted(qp, ERROR, ERROR);
	part("V-ST-30 V-QP-19 Error to Idle");
	accepted(qp, ERROR, IDLE);
	CHECK_SYS(ibv_destroy_qp(qp));
	part("V-ST-1 from RTS to Idle and RTS");
	refused(b.p.id->qp, RTS, IDLE);
	refused(b.p.id->qp, RTS, IBV_QPS_RTS + 100);
	accepted(b.p.id->qp, RTS, RTS);
	part("V-ST-9 V-ST-36 V-CM-5 V-QP-19 RTS to Closing: both sides become Idle");
	CHECK_SYS(to_state(b.p.id->qp, CLOSING));
	expect(wait_state(b.p.id->qp, IDLE, EP_EVENT_MS) == IDLE, "this side is %s",
	       name(now(b.p.id->qp)));
	expect(wait_state(b.a.id->qp, IDLE, EP_EVENT_MS) == IDLE, "the other is %s",
	       name(now(b.a.id->qp)));
	events(b.p.id->qp, 0);
	both_destroy(&b);
}

static void closing(void)
{
	struct ibv_wc wc;
	struct both b;
	uint64_t since;

	part("V-ST-1 V-ST-22 from Closing");
	connected(&b);
	CHECK_SYS(ep_post_recv(&b.p, 5, buf, 0, 0));
	cut(true);
	accepted(b.p.id->qp, RTS, CLOSING);
	refused(b.p.id->qp, CLOSING, IDLE);
	refused(b.p.id->qp, CLOSING, RTS);
	disconnected(b.p.id->qp, CLOSING);
	refused(b.p.id->qp, CLOSING, TERMINATE);
	part("V-ST-33 receives are flushed in Closing");
	expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS) && wc.wr_id == 5 &&
	       wc.status == IBV_WC_WR_FLUSH_ERR, "no flushed receive");
	expect(now(b.p.id->qp) == CLOSING, "flushed in %s", name(now(b.p.id->qp)));
	part("V-ST-35 Closing ends in Error when TCP gets nowhere");
	expect(wait_state(b.p.id->qp, ERROR, 15000) == ERROR, "now %s",
	       name(now(b.p.id->qp)));
	cut(false);
	both_destroy(&b);
	part("V-ST-22 T-34 Closing to Error");
	connected(&b);
	cut(true);
	CHECK_SYS(to_state(b.p.id->qp, CLOSING));
	accepted(b.p.id->qp, CLOSING, ERROR);
	cut(false);
	both_destroy(&b);
	part("V-ST-34 V-ST-37 D-DDP-17 a Send in Closing: Error, flushed, an event");
	connected(&b);
	cut(true);
	since = ep_now_ns();
	CHECK_SYS(to_state(b.p.id->qp, CLOSING));
	CHECK_SYS(ep_post_send(&b.p, 6, IBV_WR_SEND, buf, 0, 0, 0, 0));
	expect(ep_poll(b.p.scq, &wc, EP_EVENT_MS) && wc.wr_id == 6 &&
	       wc.status == IBV_WC_WR_FLUSH_ERR, "not flushed");
	expect(!may_be_over(since), "flushed as the time was over");
	expect(now(b.p.id->qp) == ERROR, "now %s", name(now(b.p.id->qp)));
	events(b.p.id->qp, 1);
	cut(false);
	both_destroy(&b);
}

static void terminate(void)
{
	struct ibv_async_event ev;
	struct ibv_wc wc;
	struct both b;
	int send, recv;

	part("V-ST-1 V-ST-22 V-QP-19 from Terminate");
	connected(&b);
	cut(true);
	accepted(b.p.id->qp, RTS, TERMINATE);
	refused(b.p.id->qp, TERMINATE, IDLE);
	refused(b.p.id->qp, TERMINATE, RTS);
	disconnected(b.p.id->qp, TERMINATE);
	refused(b.p.id->qp, TERMINATE, TERMINATE);
	send = ep_post_send(&b.p, 7, IBV_WR_SEND, buf, 0, 0, 0, 0);
	recv = ep_post_recv(&b.p, 8, buf, 0, 0);
	part("V-ST-18 Terminate lasts a bounded time");
	expect(wait_state(b.p.id->qp, ERROR, 15000) == ERROR, "now %s",
	       name(now(b.p.id->qp)));
	part("V-ST-21 posts in Terminate are refused, or flushed once");
	expect(send ? !ep_poll(b.p.scq, &wc, 50) :
	       ep_poll(b.p.scq, &wc, EP_EVENT_MS) && wc.wr_id == 7 &&
	       wc.status == IBV_WC_WR_FLUSH_ERR, "Send (%d)", send);
	expect(recv ? !ep_poll(b.p.rcq, &wc, 50) :
	       ep_poll(b.p.rcq, &wc, EP_EVENT_MS) && wc.wr_id == 8 &&
	       wc.status == IBV_WC_WR_FLUSH_ERR, "receive (%d)", recv);
	expect(!ep_poll(b.p.scq, &wc, 20) && !ep_poll(b.p.rcq, &wc, 0),
	       "one too many");
	part("V-ST-23 Terminate by modify raises no event");
	events(b.p.id->qp, 0);
	cut(false);
	both_destroy(&b);
	part("V-ST-13 V-ST-15 V-CM-6 V-AE-2 the other side gets a Terminate");
	connected(&b);
	async_drain(b.a.id->verbs);
	CHECK_SYS(to_state(b.p.id->qp, TERMINATE));
	expect(wait_state(b.a.id->qp, ERROR, EP_EVENT_MS) == ERROR, "the other is %s",
	       name(now(b.a.id->qp)));
	expect(async_event(b.a.id->verbs, &ev, EP_EVENT_MS) &&
	       ev.event_type == IBV_EVENT_QP_FATAL &&
	       ev.element.qp == b.a.id->qp, "no event there");
	expect(wait_state(b.p.id->qp, ERROR, EP_EVENT_MS) == ERROR, "this side is %s",
	       name(now(b.p.id->qp)));
	both_destroy(&b);
}

/* `n` completions, flushed, with these numbers in this order. */
static void flushed(struct ibv_cq *cq, uint64_t first, unsigned int n)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (!expect(ep_poll(cq, &wc, EP_EVENT_MS), "%u of %u flushed", i, n))
			return;
		expect(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == first + i,
		       "%lu: %s", wc.wr_id, ibv_wc_status_str(wc.status));
	}
	expect(!ep_poll(cq, &wc, 20), "one too many");
}

/*
 * A receive is posted while Closing waits for the other side. Returns false, without a
 * verdict, if that took too long and there are tries left.
 */
static bool kept_for_nobody(bool is_last)
{
	enum ibv_qp_state end;
	uint64_t since;
	struct both b;
	bool late;

	connected(&b);
	cut(true);
	since = ep_now_ns();
	CHECK_SYS(to_state(b.p.id->qp, CLOSING));
	CHECK_SYS(ep_post_recv(&b.p, 5, buf, 0, 0));
	cut(false);
	end = wait_state(b.p.id->qp, IDLE, EP_EVENT_MS);
	late = end != IDLE && !is_last && may_be_over(since);
	if (!late) {
		expect(end == IDLE, "now %s", name(end));
		flushed(b.p.rcq, 5, 1);
	}
	both_destroy(&b);
	return !late;
}

static void flushing(void)
{
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct both b;
	int i;

	part("V-ST-33 V-ST-37 a receive in Closing is flushed, not kept for the next connection");
	for (i = 1; !kept_for_nobody(i == TRIES); i++)
		;
	part("V-ST-2 Idle: posts are accepted, nothing happens");
	connected(&b);
	struct rdma_cm_id id = { .qp = ep_qp(b.p.pd, b.p.scq, b.p.rcq, 8) };
	struct ep idle = { .id = &id };

	CHECK_SYS(to_state(id.qp, IDLE));
	for (i = 0; i < 4; i++) {
		CHECK_SYS(ep_post_send(&idle, i, IBV_WR_SEND, buf, 0, 0, 0, 0));
		CHECK_SYS(ep_post_recv(&idle, 10 + i, buf, 0, 0));
	}
	expect(!ep_poll(b.p.scq, &wc, 50) && !ep_poll(b.p.rcq, &wc, 0),
	       "a completion");
	part("V-ST-7 V-ST-28 V-WC-2 V-QP-19 Idle to Error flushes in post order");
	CHECK_SYS(to_state(id.qp, ERROR));
	flushed(b.p.scq, 0, 4);
	flushed(b.p.rcq, 10, 4);
	part("V-ST-29 posts in Error are flushed");
	for (i = 0; i < 20; i++) {
		CHECK_SYS(ep_post_send(&idle, i, IBV_WR_SEND, buf, 0, 0, 0, 0));
		flushed(b.p.scq, i, 1);
		CHECK_SYS(ep_post_recv(&idle, 10 + i, buf, 0, 0));
		flushed(b.p.rcq, 10 + i, 1);
	}
	part("V-ST-29 receives alone are flushed as well, whenever they are posted");
	for (i = 0; i < 20; i++) {
		usleep(i % 4 * 50000);
		CHECK_SYS(ep_post_recv(&idle, i, buf, 0, 0));
		flushed(b.p.rcq, i, 1);
	}
	part("V-ST-2 V-ST-30 those that are posted behind Error are kept");
	accepted(id.qp, ERROR, IDLE);
	CHECK_SYS(ep_post_recv(&idle, 1, buf, 0, 0));
	expect(!ep_poll(b.p.rcq, &wc, 50), "a completion");
	CHECK_SYS(to_state(id.qp, ERROR));
	flushed(b.p.rcq, 1, 1);
	CHECK_SYS(ibv_destroy_qp(id.qp));
	part("V-ST-16 V-ST-25 V-CM-7 V-QP-19 RTS to Error: all flushed, once");
	mr = ep_reg(&b.p, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < 4; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, buf, LEN, mr->lkey));
	CHECK_SYS(to_state(b.p.id->qp, ERROR));
	flushed(b.p.rcq, 0, 4);
	expect(wait_state(b.a.id->qp, ERROR, EP_EVENT_MS) == ERROR, "the other is %s",
	       name(now(b.a.id->qp)));
	CHECK_SYS(ibv_dereg_mr(mr));
	both_destroy(&b);
}

/* Closing, with a Read under way that is not answered before cut(false). */
static void busy(struct both *b)
{
	connected(b);
	cut(true);
	CHECK_SYS(ep_post_send(&b->p, 1, IBV_WR_RDMA_READ, buf, 0, 0, 0, 0));
	accepted(b->p.id->qp, RTS, CLOSING);
}

static void draining(void)
{
	struct both b;

	part("V-ST-1 V-ST-22 from Closing with work");
	busy(&b);
	refused(b.p.id->qp, CLOSING, IDLE);
	refused(b.p.id->qp, CLOSING, RTS);
	refused(b.p.id->qp, CLOSING, TERMINATE);
	disconnected(b.p.id->qp, CLOSING);
	part("V-ST-22 T-34 Closing with work to Error: flushed, no event");
	accepted(b.p.id->qp, CLOSING, ERROR);
	flushed(b.p.scq, 1, 1);
	events(b.p.id->qp, 0);
	cut(false);
	both_destroy(&b);
	part("V-ST-10 V-ST-35 V-AE-21 Closing with work ends in time, in Error");
	busy(&b);
	expect(wait_state(b.p.id->qp, ERROR, 15000) == ERROR, "now %s",
	       name(now(b.p.id->qp)));
	flushed(b.p.scq, 1, 1);
	events(b.p.id->qp, 1);
	cut(false);
	both_destroy(&b);
	part("V-QP-24 destroyed in Closing with work");
	busy(&b);
	both_destroy(&b);
	cut(false);
}

/* What librdmacm makes of a disconnect is a modification to SQD. */
static void disconnects(void)
{
	struct both b;
	int i;

	part("L-CORE-3 disconnects of both sides, twice each");
	connected(&b);
	expect(!rdma_disconnect(b.a.id), "the first: %m");
	ep_expect(b.p.ec, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < 2; i++)
		expect(!rdma_disconnect(b.p.id), "after the peer's: %m");
	ep_expect(b.a.ec, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < 2; i++)
		expect(!rdma_disconnect(b.a.id), "after the own: %m");
	expect(now(b.a.id->qp) == IDLE && now(b.p.id->qp) == IDLE,
	       "now %s and %s", name(now(b.a.id->qp)), name(now(b.p.id->qp)));
	both_destroy(&b);
	part("L-CORE-3 a disconnect after an abrupt end");
	connected(&b);
	CHECK_SYS(to_state(b.a.id->qp, ERROR));
	ep_expect(b.p.ec, RDMA_CM_EVENT_DISCONNECTED);
	expect(!rdma_disconnect(b.p.id), "at this side: %m");
	expect(!rdma_disconnect(b.a.id), "at the other: %m");
	expect(now(b.p.id->qp) == ERROR, "now %s", name(now(b.p.id->qp)));
	both_destroy(&b);
}

/* Connects a QP of ours, without an id of its own, and sends a message. */
static void once_more(struct ep *e, struct ibv_qp *qp)
{
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = qp->qp_num,
					 .responder_resources = 1,
					 .initiator_depth = 1 };
	struct rdma_cm_id *id = active_id(ec, &listener, &where), own = { .qp = qp };
	struct ep p, me = { .id = &own };

	CHECK_SYS(rdma_connect(id, &param));
	ep_accept(&p, &listener, &plain);
	ep_expect(ec, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_SYS(ep_post_recv(&p, 1, buf, 0, 0));
	/* The first time libibverbs knows of no state but RESET. */
	CHECK_SYS(ep_post_send(&me, 2, IBV_WR_SEND, buf, 0, 0, 0, 0));
	expect(now(qp) == RTS, "now %s", name(now(qp)));
	completes(e->scq, IBV_WC_SUCCESS);
	completes(p.rcq, IBV_WC_SUCCESS);
	CHECK_SYS(to_state(qp, ERROR));
	ep_expect(ec, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_SYS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ec);
	ep_destroy(&p);
}

static void reuse(void)
{
	struct both b;
	int i;

	part("V-ST-30 V-ST-4 V-CM-10 T-35 connected again after Error");
	connected(&b);
	struct ibv_qp *qp = ep_qp(b.a.pd, b.a.scq, b.a.rcq, 8);

	for (i = 0; i < 5; i++) {
		once_more(&b.a, qp);
		accepted(qp, ERROR, IDLE);
	}
	part("V-QP-24 destroyed in every state");
	CHECK_SYS(ibv_destroy_qp(qp));
	both_destroy(&b);
	for (i = 0; i < 4; i++) {
		static const enum ibv_qp_state state[] = { RTS, CLOSING,
							   TERMINATE, ERROR };

		connected(&b);
		cut(true);
		if (state[i] != RTS)
			CHECK_SYS(to_state(b.p.id->qp, state[i]));
		both_destroy(&b);
		cut(false);
	}
}

static void run(void)
{
	buf = ep_pages(LEN);
	idle_and_rts();
	closing();
	terminate();
	flushing();
	if (!is_direct)
		draining();
	disconnects();
	reuse();
}

static const struct opt options[] = {
	{ "direct", "",
	  "what is sent is answered though the path is cut: no Reads without an answer",
	  .flag = &is_direct },
	{ }
};

const struct prog prog = {
	.name = "states",
	.text = "State transitions of queue pairs; both ends are in this process.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18720,
	.limit = 120,
	.run = run,
};
