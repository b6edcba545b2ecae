// SPDX-License-Identifier: GPL-2.0
/* datagrams: many messages, and messages until the devices are gone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datagrams.h"

#define LEN 64
#define WINDOW 32
/* Longer than any message is on its way. */
#define GIVE_UP_NS 1000000000ull

static uint8_t *seen;
/* The first may be the next one; later ones came before it. */
static uint32_t came, highest, late;

static void send_number(uint32_t n)
{
	uint32_t *at = (void *)out(&a, n % PLACES);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	unsigned int i;

	for (i = 0; i < LEN / sizeof(n); i++)
		at[i] = n;
	wr = message(&a, &p, n % PLACES, LEN, &sge);
	CHECK(!post(&a, &wr), "post: %m");
}

static void take_number(const struct ibv_wc *wc, uint32_t below)
{
	uint32_t octets[LEN / sizeof(uint32_t)], n;
	unsigned int i;

	CHECK(wc->status == IBV_WC_SUCCESS && wc->byte_len == GRH + LEN, "%s, %u octets",
	      ibv_wc_status_str(wc->status), wc->byte_len);
	memcpy(octets, in(&p, wc->wr_id) + GRH, LEN);
	n = octets[0];
	for (i = 0; i < COUNT(octets); i++)
		CHECK(octets[i] == n, "message %u, word %u: %#x", n, i, octets[i]);
	CHECK(n < below, "message %u was not sent", n);
	CHECK(!seen[n], "message %u came twice", n);
	seen[n] = 1;
	came++;
	if (n < highest)
		late++;
	else
		highest = n;
}

void many(void)
{
	uint64_t last = ep_now_ns();
	uint32_t count = 0, done = 0, given_up = 0;
	struct how how = usual;
	struct ibv_wc wc;
	unsigned int n;

	how.wr = PLACES;
	seen = calloc(messages, 1);
	CHECK(seen, "no memory");
	begin(&how);
	for (n = 0; n < PLACES; n++)
		receive(&p, n, GRH + LEN);
	while (done < messages || came + given_up < messages) {
		bool idle = true;

		while (count < messages && count - done < WINDOW &&
		       (int32_t)(count - came - given_up) < WINDOW)
			send_number(count++);
		while (ep_poll(a.scq, &wc, 0)) {
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == done % PLACES,
			      "message %u: %s", done, ibv_wc_status_str(wc.status));
			done++;
			idle = false;
		}
		while (ep_poll(p.rcq, &wc, 0)) {
			take_number(&wc, count);
			receive(&p, wc.wr_id, GRH + LEN);
			idle = false;
		}
		if (!idle) {
			last = ep_now_ns();
		} else if (ep_now_ns() > last + GIVE_UP_NS) {
			CHECK(done == count, "%u of %u have completed", done, count);
			/* Those that are on their way are lost. */
			given_up = count - came;
			last = ep_now_ns();
		}
	}
	printf("# %u of %u messages arrived, %u late\n", came, messages, late);
	expect(came >= messages / 10 * 9, "%u of %u arrived", came, messages);
	nothing(a.scq, 0);
	unmake();
	free(seen);
}

/* ---- devices that go ----------------------------------------------------------- */

/* Sends one message, and posts receives again. What is refused may be. */
static void send_one(struct side *from, struct side *to)
{
	struct ibv_recv_wr *bad, recv = { .num_sge = 1 };
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	wr = message(from, to, 0, LEN, &sge);
	post(from, &wr);
	while (ibv_poll_cq(from->scq, 1, &wc) > 0)
		;
	while (ibv_poll_cq(to->rcq, 1, &wc) > 0) {
		sge = (struct ibv_sge){ (uintptr_t)in(to, wc.wr_id), ROOM, to->mr->lkey };
		recv.wr_id = wc.wr_id;
		recv.sg_list = &sge;
		ibv_post_recv(to->qp, &recv, &bad);
	}
}

/* Calls on what is no more: any answer, but an answer. */
static void prod(struct side *s)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	CHECK(ibv_query_qp(s->qp, &qa, IBV_QP_STATE, &ia), "a query works");
	CHECK(to_state(s->qp, IBV_QPS_ERR), "a step works");
	CHECK(!ud_qp(s, &usual, NULL), "there is a new queue pair");
	ibv_req_notify_cq(s->rcq, 0);
	/* The kernel's part is gone already; results do not matter. */
	ibv_destroy_ah(s->ah);
	ibv_destroy_qp(s->qp);
	ibv_destroy_cq(s->scq);
	ibv_destroy_cq(s->rcq);
	ibv_destroy_comp_channel(s->cc);
	ibv_dereg_mr(s->mr);
}

void flood(void)
{
	struct side *sides[] = { &a, &p };
	bool gone[2] = { };
	unsigned int i;

	begin(&usual);
	for (i = 0; i < 16; i++) {
		receive(&a, i, ROOM);
		receive(&p, i, ROOM);
	}
	puts("# floods");
	fflush(stdout);
	ep_phase("waiting for the removal");
	while (!gone[0] || !gone[1]) {
		for (i = 0; i < 100; i++) {
			send_one(&a, &p);
			send_one(&p, &a);
		}
		for (i = 0; i < 2; i++)
			gone[i] = gone[i] || async_fatal(sides[i]->ep->id->verbs, 0);
		/* Both may be on one device, and have one event. */
		if (a.ep->id->verbs == p.ep->id->verbs)
			gone[0] = gone[1] = gone[0] || gone[1];
	}
	ep_phase("calls on a removed device");
	for (i = 0; i < 100; i++) {
		send_one(&a, &p);
		send_one(&p, &a);
	}
	prod(&a);
	prod(&p);
}
