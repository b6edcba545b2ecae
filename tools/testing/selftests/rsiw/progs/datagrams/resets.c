// SPDX-License-Identifier: GPL-2.0
/* datagrams: ERR, which flushes, and RESET, which drops all without a word. */
#include <errno.h>
#include <string.h>

#include "datagrams.h"

/* Fills both queues of `a`, which does not send yet. */
static void post_all(void)
{
	unsigned int i;

	for (i = 0; i < a.cap.max_send_wr; i++)
		send_to(&a, &p, i, 64);
	for (i = 0; i < a.cap.max_recv_wr; i++)
		receive(&a, i, ROOM);
}

static void are_flushed(void)
{
	unsigned int i;

	for (i = 0; i < a.cap.max_send_wr; i++)
		ends(a.scq, IBV_WC_WR_FLUSH_ERR, i);
	for (i = 0; i < a.cap.max_recv_wr; i++)
		ends(a.rcq, IBV_WC_WR_FLUSH_ERR, i);
	nothing(a.scq, 0);
	nothing(a.rcq, 0);
}

static void in_error(void)
{
	struct ibv_recv_wr *bad, recv = { };
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	unsigned int i;

	make(&usual);
	ready(&p);
	receive(&p, 0, ROOM);
	CHECK(!to_init(&a, a.qkey), "INIT: %m");
	CHECK(!to_state(a.qp, IBV_QPS_RTR), "RTR: %m");
	post_all();
	wr = message(&a, &p, 0, 64, &sge);
	expect(post(&a, &wr) == ENOMEM, "there is room for one more Send");
	expect(ibv_post_recv(a.qp, &recv, &bad) == ENOMEM, "there is room for one more receive");
	nothing(a.scq, 0);
	CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
	are_flushed();
	no_event(&a);

	part("requests in ERR are flushed, too");
	for (i = 0; i < 3; i++) {
		receive(&a, i, ROOM);
		ends(a.rcq, IBV_WC_WR_FLUSH_ERR, i);
		wr = message(&a, &p, i, 64, &sge);
		/* Those that are not signalled as well. */
		wr.send_flags = i % 2 ? IBV_SEND_SIGNALED : 0;
		CHECK(!post(&a, &wr), "post: %m");
		ends(a.scq, IBV_WC_WR_FLUSH_ERR, i);
	}
	post_all();
	are_flushed();
	CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
	nothing(a.scq, A_WHILE_MS);
	nothing(a.rcq, 0);
	lost(&a, &p);
	state_is(&a, IBV_QPS_ERR);

	part("a message to a queue pair in ERR is lost");
	CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
	ready(&a);
	talk(&a, &p, 64);
	CHECK(!to_state(p.qp, IBV_QPS_ERR), "ERR: %m");
	ends(p.rcq, IBV_WC_WR_FLUSH_ERR, 0);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	lost(&a, &p);
	unmake();
}

/* `a` has completions that nobody has looked at, requests that nobody has taken, or both. */
static void leave_much(unsigned int round)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		receive(&a, i, ROOM);
		send_to(&p, &a, i, 64);
		sent(&p, i);
		receive(&p, i, ROOM);
		send_to(&a, &p, i, 64);
	}
	for (i = 0; i < 4; i++)
		arrives(&a, &p, i, 64);
	passed(&p, &a);
	if (round & 1)
		CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
	if (round & 2) {
		CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
		CHECK(!to_init(&a, a.qkey), "INIT: %m");
		post_all();
	}
	/* All are being flushed, perhaps, when they are dropped. */
	if (round & 4)
		CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
}

static void again(void)
{
	unsigned int i;

	begin(&usual);
	for (i = 0; i < rounds; i++) {
		talk(&a, &p, 64);
		talk(&p, &a, 64);
		leave_much(i);
		CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
		nothing(a.scq, 0);
		nothing(a.rcq, 0);
		CHECK(!to_init(&a, a.qkey), "INIT: %m");
		receive(&a, 20, ROOM);
		CHECK(!to_state(a.qp, IBV_QPS_RTR), "RTR: %m");
		/* What was posted before is not sent, and not flushed late. */
		CHECK(!to_rts(&a, a.is.psn), "RTS: %m");
		nothing(a.scq, 10);
		nothing(a.rcq, 0);
		nothing(p.rcq, 0);
		state_is(&a, IBV_QPS_RTS);
		send_to(&p, &a, 20, 64);
		sent(&p, 20);
		arrives(&p, &a, 20, 64);
	}
	unmake();
}

/* Completions of others stay where they are. */
static void beside(void)
{
	struct side q;
	unsigned int i;

	begin(&usual);
	q = a;
	q.qp = ud_qp(&q, &usual, NULL);
	CHECK(q.qp, "queue pair: %m");
	ready(&q);
	for (i = 0; i < 4; i++)
		send_to(i % 2 ? &q : &a, &p, i, 64);
	CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
	sent(&q, 1);
	sent(&q, 3);
	nothing(a.scq, 0);
	CHECK_SYS(ibv_destroy_qp(q.qp));
	unmake();
}

void resets(void)
{
	part("ERR flushes all");
	in_error();
	part("RESET, and again");
	again();
	part("RESET takes out completions of its queue pair only");
	beside();
}
