// SPDX-License-Identifier: GPL-2.0
/*
 * Completion events as T-14 has them: "next" fires on every completion,
 * "solicited" on receives of a Send with Solicited Event and on errors, and
 * each arming gives one event.
 */
#include "integrity.h"

#include <poll.h>
#include <sys/mman.h>

#define QUIET_MS 200
#define EVENT_MS 5000
#define RECVS 16

static bool got_event(struct ep *e, int ms)
{
	struct pollfd f = { .fd = e->cc->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&f, 1, ms) != 1)
		return false;
	CHECK_SYS(ibv_get_cq_event(e->cc, &cq, &ctx));
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void arm(struct ibv_cq *cq, bool solicited)
{
	CHECK_SYS(ibv_req_notify_cq(cq, solicited));
}

static void must_fire(struct ep *e, const char *what)
{
	CHECK(got_event(e, EVENT_MS), "no event: %s", what);
}

static void must_not_fire(struct ep *e, const char *what)
{
	CHECK(!got_event(e, QUIET_MS), "event without cause: %s", what);
}

/* One message with these flags, and its own completion. */
static void send_one(struct ep *e, struct ibv_mr *mr, uint32_t len, int flags)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
	};

	CHECK(!ibv_post_send(e->id->qp, &wr, &bad), "post send");
}

struct step {
	const char *what;
	int arm_first, arm_then;	/* -1: not, 0: next, 1: solicited */
	int plain, solicited;		/* messages the peer sends */
	uint32_t len;
	bool fires;
};

static const struct step steps[] = {
	{ "next, one send", 0, -1, 1, 0, 16, true },
	{ "not armed again, sends", -1, -1, 2, 0, 16, false },
	{ "not armed again, solicited send", -1, -1, 0, 1, 16, false },
	{ "solicited, plain sends", 1, -1, 3, 0, 16, false },
	{ "still armed, solicited send", -1, -1, 0, 1, 16, true },
	{ "fired once, solicited send", -1, -1, 0, 1, 16, false },
	{ "solicited then next, plain send", 1, 0, 1, 0, 16, true },
	{ "solicited, empty solicited send", 1, -1, 0, 1, 0, true },
	{ "next, empty send", 0, -1, 1, 0, 0, true },
	{ "solicited, solicited send of three segments", 1, -1, 0, 1, 4000,
	  true },
};

static void receiver(struct ep_pair *pair, struct ep *e, struct ibv_mr *mr)
{
	unsigned int i;
	int k;

	for (i = 0; i < RECVS; i++)
		CHECK(!ep_post_recv(e, i, mr->addr, 4096, mr->lkey),
		      "post receive");
	ep_sync(pair);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct step *t = &steps[i];

		ep_phase("notify: %s", t->what);
		if (t->arm_first >= 0)
			arm(e->rcq, t->arm_first);
		if (t->arm_then >= 0)
			arm(e->rcq, t->arm_then);
		ep_sync(pair);
		if (t->fires)
			must_fire(e, t->what);
		for (k = 0; k < t->plain + t->solicited; k++)
			ep_done(e->rcq, IBV_WC_SUCCESS);
		/* Also: no second event of the one arming. */
		must_not_fire(e, t->what);
		ep_sync(pair);
	}
	ep_phase("notify: send queue, next");
	arm(e->rcq, true);
	ep_sync(pair);
	ep_done(e->rcq, IBV_WC_SUCCESS);
}

static void sender(struct ep_pair *pair, struct ep *e, struct ibv_mr *mr)
{
	unsigned int i;
	int k;

	ep_sync(pair);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct step *t = &steps[i];

		ep_phase("notify: %s", t->what);
		/* A Send that completes is never a solicited completion. */
		arm(e->scq, true);
		ep_sync(pair);
		for (k = 0; k < t->plain + t->solicited; k++) {
			send_one(e, mr, t->len,
				 k < t->plain ? 0 : IBV_SEND_SOLICITED);
			ep_done(e->scq, IBV_WC_SUCCESS);
		}
		must_not_fire(e, "solicited arming of a send queue");
		ep_sync(pair);
	}
	ep_phase("notify: send queue, next");
	arm(e->scq, false);
	send_one(e, mr, 16, 0);
	must_fire(e, "next, completion of a send");
	ep_done(e->scq, IBV_WC_SUCCESS);
	ep_sync(pair);
}

void run_notify(struct ep_pair *pair, const struct ep_where *w,
		struct ep_listener *l)
{
	const struct ep_attr a = { .send_wr = 8, .recv_wr = RECVS,
				   .channel = true };
	void *buf = ep_pages(SMALL_PAGE);
	struct ibv_mr *mr;
	struct ep e;

	ep_phase("notify: connect");
	ep_open(&e, pair, l, w, &a);
	mr = ep_reg(&e, buf, SMALL_PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (pair->server) {
		receiver(pair, &e, mr);
	} else {
		sender(pair, &e, mr);
		rdma_disconnect(e.id);
	}
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	if (pair->server) {
		must_fire(&e, "solicited arming and a flushed receive");
		ep_done(e.rcq, IBV_WC_WR_FLUSH_ERR);
	}
	ep_sync(pair);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
	munmap(buf, SMALL_PAGE);
}
