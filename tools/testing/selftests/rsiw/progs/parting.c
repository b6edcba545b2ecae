// SPDX-License-Identifier: GPL-2.0
/*
 * parting: connections that end while messages arrive. The client sends on a
 * connection, and destroys its queue pair when the requests are complete. The server
 * has one completion queue for all connections, and destroys its end when the first
 * message is there, when it is told of the end and has polled, or then without having
 * polled.
 *
 * It polls before it looks for the event, as libfabric does, and expects what a
 * program may rely on: what has arrived is in the queue before the event is there,
 * and a connection that stays gets its completions in order. Of a queue pair that was
 * destroyed nothing is polled, if the library takes that out.
 */
#include <stdio.h>

#include "prog.h"

static unsigned int count = 500;
static bool clean;

#define MESSAGES 4
/* Beyond those that get a message: they are flushed. */
#define RECEIVES 8

/* What the server does with its end. */
enum kind {
	AT_FIRST,	/* destroys it at the first message */
	POLLED,		/* waits for the event, polls, destroys */
	UNPOLLED,	/* waits for the event, destroys */
	KINDS
};

struct server {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct rdma_cm_id *lasting;
	unsigned int got;		/* messages of the lasting connection */
	/* Of this round. */
	struct rdma_cm_id *id;
	uint32_t qp_num;
	unsigned int messages;		/* before the queue pair was destroyed */
	unsigned int late, all_late;	/* completions afterwards, and those of all rounds */
	bool sent, ended;
};

static struct rdma_conn_param param = {
	.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7,
};

static void make_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 2 * MESSAGES, 2 * RECEIVES, 1, 1, 0 },
	};

	CHECK_SYS(rdma_create_qp(id, pd, &attr));
}

static void post_recvs(struct rdma_cm_id *id, unsigned int first, unsigned int n)
{
	struct ibv_sge none = {};
	struct ibv_recv_wr wr = { .sg_list = &none, .num_sge = 1 }, *bad;

	for (wr.wr_id = first; wr.wr_id < first + n; wr.wr_id++)
		CHECK_SYS(ibv_post_recv(id->qp, &wr, &bad));
}

static void send_one(struct rdma_cm_id *id)
{
	struct ibv_sge none = {};
	struct ibv_send_wr wr = {
		.sg_list = &none, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	CHECK_SYS(ibv_post_send(id->qp, &wr, &bad));
}

static struct rdma_cm_id *accepted(struct server *s, unsigned int receives)
{
	struct rdma_cm_id *id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);

	if (!s->pd) {
		s->pd = ibv_alloc_pd(id->verbs);
		s->cq = ibv_create_cq(id->verbs, 4 * RECEIVES, NULL, NULL, 0);
		CHECK(s->pd && s->cq, "PD, CQ: %m");
	}
	make_qp(id, s->pd, s->cq);
	post_recvs(id, 0, receives);
	CHECK_SYS(rdma_accept(id, &param));
	ep_expect(listener.ec, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

/* Whether there was a completion, which is the next of its connection. */
static bool polled(struct server *s)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(s->cq, 1, &wc);

	CHECK(n >= 0, "poll CQ: %d", n);
	if (!n)
		return false;
	if (wc.qp_num == s->lasting->qp->qp_num) {
		CHECK(!wc.status && wc.opcode == IBV_WC_RECV && wc.wr_id == s->got,
		      "lasting connection, message %u: %lu, %s", s->got, wc.wr_id,
		      ibv_wc_status_str(wc.status));
		post_recvs(s->lasting, s->got++ + RECEIVES, 1);
		return true;
	}
	CHECK(wc.qp_num == s->qp_num, "QP %u instead of %u", wc.qp_num, s->qp_num);
	if (!s->id->qp) {
		s->late++;
	} else if (wc.opcode == IBV_WC_SEND) {
		CHECK(!wc.status && !s->sent, "Send: %s", ibv_wc_status_str(wc.status));
		s->sent = true;
	} else if (!wc.status) {
		CHECK(wc.wr_id == s->messages, "receive %lu as number %u", wc.wr_id,
		      s->messages);
		s->messages++;
	} else {
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && s->messages == MESSAGES,
		      "receive %lu: %s after %u messages", wc.wr_id,
		      ibv_wc_status_str(wc.status), s->messages);
	}
	return true;
}

/* Looks for the end of this round's connection, and does not wait. */
static void look_for_end(struct server *s)
{
	struct rdma_cm_event *ev = ep_event(listener.ec, 0);

	if (!ev)
		return;
	CHECK(ev->id == s->id && ev->event == RDMA_CM_EVENT_DISCONNECTED, "event %s",
	      rdma_event_str(ev->event));
	s->ended = true;
	rdma_ack_cm_event(ev);
}

static void serve_one(struct server *s, enum kind kind)
{
	unsigned int last = s->got + MESSAGES;

	s->messages = s->late = 0;
	s->sent = s->ended = false;
	s->id = accepted(s, RECEIVES);
	s->qp_num = s->id->qp->qp_num;
	send_one(s->id);
	ep_sync(&pair);
	if (kind == AT_FIRST) {
		while (!s->messages)
			polled(s);
	} else {
		while (!s->ended) {
			if (kind == POLLED)
				while (polled(s))
					;
			look_for_end(s);
		}
		if (kind == POLLED) {
			while (polled(s))
				;
			CHECK(s->messages == MESSAGES && s->sent,
			      "%u messages, %s, when the connection has ended",
			      s->messages, s->sent ? "sent" : "not sent");
		}
	}
	rdma_destroy_qp(s->id);
	while (s->got < last)
		polled(s);
	/* The client is through, and so is what it sent. */
	ep_sync(&pair);
	while (polled(s))
		;
	CHECK(!clean || !s->late, "%u completions of a queue pair that was destroyed",
	      s->late);
	s->all_late += s->late;
	CHECK_SYS(rdma_destroy_id(s->id));
}

static void serve(void)
{
	struct server s = {};
	unsigned int i;

	s.lasting = accepted(&s, RECEIVES);
	ep_sync(&pair);
	for (i = 0; i < count; i++) {
		ep_phase("connection %u", i);
		serve_one(&s, i % KINDS);
	}
	ep_sync(&pair);
	printf("%u connections, %u completions of queue pairs that were destroyed\n", count,
	       s.all_late);
	rdma_destroy_qp(s.lasting);
	CHECK_SYS(rdma_destroy_id(s.lasting));
	CHECK_SYS(ibv_destroy_cq(s.cq));
	CHECK_SYS(ibv_dealloc_pd(s.pd));
}

static struct rdma_cm_id *connected(struct rdma_event_channel *ec, struct ibv_pd **pd,
				    struct ibv_cq **cq)
{
	struct rdma_cm_id *id;

	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, where.addr, where.port);
	*pd = ibv_alloc_pd(id->verbs);
	*cq = ibv_create_cq(id->verbs, 4 * RECEIVES, NULL, NULL, 0);
	CHECK(*pd && *cq, "PD, CQ: %m");
	make_qp(id, *pd, *cq);
	post_recvs(id, 0, 1);
	CHECK_SYS(rdma_connect(id, &param));
	ep_expect(ec, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void done(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq)
{
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK_SYS(rdma_destroy_id(id));
	CHECK_SYS(ibv_destroy_cq(cq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void send_all(void)
{
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_cm_id *lasting, *id;
	struct ibv_pd *lasting_pd, *pd;
	struct ibv_cq *lasting_cq, *cq;
	unsigned int i, n;
	struct ibv_wc wc;

	CHECK(ec, "event channel: %m");
	lasting = connected(ec, &lasting_pd, &lasting_cq);
	ep_sync(&pair);
	for (i = 0; i < count; i++) {
		ep_phase("connection %u", i);
		id = connected(ec, &pd, &cq);
		ep_sync(&pair);
		/* What comes after the end would reset the connection. */
		CHECK(ep_poll(cq, &wc, EP_EVENT_MS) && !wc.status, "receive");
		for (n = 0; n < MESSAGES; n++) {
			send_one(id);
			send_one(lasting);
		}
		/*
		 * What has completed arrives, although the queue pair is destroyed. The
		 * server may be faster, and then requests fail.
		 */
		for (n = 0; n < MESSAGES; n++)
			CHECK(ep_poll(cq, &wc, EP_EVENT_MS) &&
			      (!wc.status || i % KINDS == AT_FIRST), "Send");
		rdma_destroy_qp(id);
		for (n = 0; n < MESSAGES; n++)
			CHECK(ep_poll(lasting_cq, &wc, EP_EVENT_MS) && !wc.status,
			      "Send of the lasting connection");
		ep_sync(&pair);
		done(id, pd, cq);
	}
	ep_sync(&pair);
	done(lasting, lasting_pd, lasting_cq);
	rdma_destroy_event_channel(ec);
}

static void run(void)
{
	if (pair.server)
		serve();
	else
		send_all();
}

static const struct opt options[] = {
	{ "count", "N", "connections (500)", .num = &count, .min = 1, .max = 1000000 },
	{ "clean", "", "destroyed queue pairs leave no completions", .flag = &clean },
	{ }
};

const struct prog prog = {
	.name = "parting",
	.text =
		"Ends COUNT connections while messages arrive.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18620,
	.limit = 120,
	.run = run,
};
