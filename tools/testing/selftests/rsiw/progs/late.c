// SPDX-License-Identifier: GPL-2.0
/*
 * late: receives that are posted after their messages have come, on a device
 * that waits for them (parameter rnr_wait_ms).
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"
#include "wire.h"

#define LEN 100000
#define MSGS 8
#define LATE_MS 200
/* A disconnect that does not move takes no longer: the driver's CLOSE_TIMEOUT_MS. */
#define CLOSING_MS 5000
/* How often what the patience is too short for, as this machine is slow, is done again. */
#define TRIES 5

static unsigned int patience;		/* rnr_wait_ms */
static bool disconnects;
static char *out, *in;			/* MSGS * LEN each */
static struct both b;
static struct ibv_mr *src, *dst;

static const struct opt options[] = {
	{ "patience", "MS", "the device waits for so long (rnr_wait_ms)",
	  .num = &patience, .min = 1, .max = 60000 },
	{ "disconnects", "", "only disconnects of what the peer takes slowly, past TCP",
	  .flag = &disconnects },
	{ }
};

static void begin(void)
{
	static const struct ep_attr attr = { .send_wr = 16, .recv_wr = 16 };

	both_connect(&b, &listener, &where, &attr, &attr);
	src = ep_reg(&b.a, out, MSGS * LEN, IBV_ACCESS_LOCAL_WRITE);
	dst = ep_reg(&b.p, in, MSGS * LEN, ALL_ACCESS);
	memset(in, 0, MSGS * LEN);
}

static void end(void)
{
	CHECK_SYS(ibv_dereg_mr(src));
	CHECK_SYS(ibv_dereg_mr(dst));
	both_destroy(&b);
}

static void send_it(unsigned int n, uint32_t len)
{
	CHECK_SYS(ep_post_send(&b.a, n, IBV_WR_SEND, out + n * LEN, len,
			       src->lkey, 0, 0));
}

static void post(unsigned int n)
{
	CHECK_SYS(ep_post_recv(&b.p, n, in + n * LEN, LEN, dst->lkey));
}

/* Message `n` has come, `len` octets long. */
static void got(unsigned int n, uint32_t len)
{
	struct ibv_wc wc = { 0 };

	if (!expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "message %u is lost", n))
		return;
	expect(!wc.status && wc.wr_id == n && wc.byte_len == len,
	       "message %u: %s, %u octets", (unsigned int)wc.wr_id,
	       ibv_wc_status_str(wc.status), wc.byte_len);
	expect(!memcmp(in + n * LEN, out + n * LEN, len), "other octets");
}

static void sent(unsigned int count)
{
	struct ibv_wc wc = { 0 };

	while (count--)
		expect(ep_poll(b.a.scq, &wc, EP_EVENT_MS) && !wc.status,
		       "a request: %s", ibv_wc_status_str(wc.status));
}

static enum ibv_qp_state state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	CHECK_SYS(ibv_query_qp(qp, &qa, IBV_QP_STATE, &ia));
	return qa.qp_state;
}

/* Whether so many milliseconds have passed. */
static bool passed(uint64_t since, unsigned int ms)
{
	return ep_now_ns() - since >= ms * 1000000ull;
}

/* Nothing has come, and the connection is there. */
static void nothing_yet(void)
{
	struct ibv_wc wc;

	expect(!ep_poll(b.p.rcq, &wc, LATE_MS), "it did not wait");
	expect(state(b.p.id->qp) == IBV_QPS_RTS, "the connection is over");
}

static void all_at_once(uint32_t len)
{
	unsigned int i;

	begin();
	for (i = 0; i < MSGS; i++)
		send_it(i, len);
	nothing_yet();
	for (i = 0; i < MSGS; i++)
		post(i);
	for (i = 0; i < MSGS; i++)
		got(i, len);
	sent(MSGS);
	end();
}

static void one_by_one(void)
{
	unsigned int i;

	begin();
	for (i = 0; i < MSGS; i++)
		send_it(i, LEN - i);
	for (i = 0; i < MSGS; i++) {
		nothing_yet();
		post(i);
		got(i, LEN - i);
	}
	sent(MSGS);
	end();
}

/* What is behind it waits too. */
static void behind(void)
{
	struct ibv_wc wc = { 0 };
	bool taken;

	begin();
	send_it(0, 64);
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_RDMA_READ, out + LEN, 64,
			       src->lkey, (uintptr_t)in + LEN, dst->rkey));
	/* TCP takes the Send, if it goes through TCP. */
	taken = ep_poll(b.a.scq, &wc, LATE_MS);
	expect(!taken || wc.wr_id == 0, "the Read has overtaken it");
	nothing_yet();
	while (ep_poll(b.a.scq, &wc, 0)) {
		expect(!taken && wc.wr_id == 0, "the Read has overtaken it");
		taken = true;
	}
	post(0);
	got(0, 64);
	sent(taken ? 1 : 2);
	end();
}

/*
 * Other connections go on. Returns false, without a verdict, if that took longer than
 * the device waits and there are tries left.
 */
static bool others(bool is_last)
{
	unsigned int rounds = 100;
	struct ibv_mr *to, *from;
	bool waited, goes_on, late;
	struct both first;
	struct ibv_wc wc;
	uint64_t since;

	begin();
	since = ep_now_ns();
	send_it(0, 64);
	waited = !ep_poll(b.p.rcq, &wc, LATE_MS);
	first = b;
	from = src;
	to = dst;
	begin();
	do {
		post(1);
		send_it(1, 64);
		got(1, 64);
		sent(1);
	} while (--rounds && !passed(since, patience / 2));
	end();
	b = first;
	src = from;
	dst = to;
	goes_on = state(b.p.id->qp) == IBV_QPS_RTS;
	post(0);
	late = !is_last && passed(since, patience);
	if (!late) {
		expect(waited, "it did not wait");
		expect(goes_on, "the connection is over");
		got(0, 64);
	}
	end();
	return !late;
}

/* Likewise. */
static bool shared(bool is_last)
{
	struct ibv_pd *pd = ibv_alloc_pd(listener.id->verbs);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ep_attr active = { .send_wr = 4, .recv_wr = 1 };
	struct ep_attr passive = { .send_wr = 1, .recv_wr = 1, .pd = pd };
	struct ibv_sge sge = { .addr = (uintptr_t)in, .length = LEN };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_mr *from[2], *to;
	struct both two[2];
	struct ibv_wc wc = { 0 };
	bool waited, late;
	uint64_t since;
	unsigned int i;

	passive.srq = ibv_create_srq(pd, &sa);
	CHECK(passive.srq, "SRQ: %m");
	to = ibv_reg_mr(pd, in, LEN, IBV_ACCESS_LOCAL_WRITE);
	CHECK(to, "register: %m");
	sge.lkey = to->lkey;
	for (i = 0; i < 2; i++) {
		both_connect(&two[i], &listener, &where, &active, &passive);
		from[i] = ep_reg(&two[i].a, out, LEN, IBV_ACCESS_LOCAL_WRITE);
	}
	since = ep_now_ns();
	for (i = 0; i < 2; i++)
		CHECK_SYS(ep_post_send(&two[i].a, i, IBV_WR_SEND, out, 64,
				       from[i]->lkey, 0, 0));
	waited = !ep_poll(two[0].p.rcq, &wc, LATE_MS) && !ep_poll(two[1].p.rcq, &wc, 0);
	for (i = 0; i < 2; i++)
		CHECK_SYS(ibv_post_srq_recv(passive.srq, &wr, &bad));
	late = !is_last && passed(since, patience);
	if (!late)
		expect(waited, "it did not wait");
	for (i = 0; i < 2; i++) {
		if (!late)
			expect(ep_poll(two[i].p.rcq, &wc, EP_EVENT_MS) && !wc.status,
			       "connection %u: %s", i, ibv_wc_status_str(wc.status));
		CHECK_SYS(ibv_dereg_mr(from[i]));
		both_destroy(&two[i]);
	}
	CHECK_SYS(ibv_dereg_mr(to));
	CHECK_SYS(ibv_destroy_srq(passive.srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
	return !late;
}

/* The peer has closed behind what waits. */
static void closed(void)
{
	begin();
	send_it(0, LEN);
	nothing_yet();
	CHECK_SYS(rdma_disconnect(b.a.id));
	nothing_yet();
	post(0);
	got(0, LEN);
	ep_expect(b.p.ec, RDMA_CM_EVENT_DISCONNECTED);
	end();
}

/* A disconnect takes as long as the peer goes on taking something. */
static void disconnects_slowly(void)
{
	unsigned int i;

	begin();
	for (i = 0; i < MSGS; i++)
		send_it(i, LEN);
	CHECK_SYS(rdma_disconnect(b.a.id));
	for (i = 0; i < MSGS; i++) {
		usleep(CLOSING_MS / 4 * 1000);
		post(i);
		got(i, LEN);
	}
	sent(MSGS);
	expect(state(b.a.id->qp) != IBV_QPS_ERR, "the sender is in error");
	ep_expect(b.p.ec, RDMA_CM_EVENT_DISCONNECTED);
	end();
}

static void disconnects_in_vain(void)
{
	uint64_t then;

	begin();
	send_it(0, LEN);
	send_it(1, LEN);
	then = ep_now_ns();
	CHECK_SYS(rdma_disconnect(b.a.id));
	expect(wait_state(b.a.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "it waits for what does not move");
	expect(passed(then, CLOSING_MS), "too soon");
	end();
}

static void destroyed(void)
{
	begin();
	send_it(0, LEN);
	nothing_yet();
	end();
}

static void over(void)
{
	uint64_t then;

	begin();
	then = ep_now_ns();
	send_it(0, 64);
	nothing_yet();
	expect(wait_state(b.p.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "the connection goes on");
	expect(ep_now_ns() - then >= patience * 1000000ull, "too soon");
	expect(wait_state(b.a.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "the sender is not told");
	end();
}

static void *dereg(void *done)
{
	CHECK_SYS(ibv_dereg_mr(dst));
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * A message has completed, which lay in TCP's buffers or was collected in the driver's,
 * and nothing came behind it: its memory is the owner's.
 */
static void not_kept(bool collected)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	static uint8_t fpdu[1000 + WIRE_EXTRA + 64];
	struct ibv_wc wc = { 0 };
	bool done = false;
	pthread_t thread;
	unsigned int ms;
	struct ep e;
	int fd, kept;
	size_t len;

	ep_enter_netns(where.client_netns);
	fd = wire_connect(where.addr, listener.port);
	kept = wire_keep_packets();
	ep_enter_netns(where.server_netns);
	ep_accept(&e, &listener, &attr);
	wire_reply(fd);
	dst = ep_reg(&e, in, LEN, IBV_ACCESS_LOCAL_WRITE);
	len = wire_untagged(fpdu, WIRE_SEND, 0, 1, out, 1000);
	if (collected)
		wire_send_apart(fd, fpdu, len);
	else
		wire_send(fd, fpdu, len);
	expect(!ep_poll(e.rcq, &wc, LATE_MS), "it did not wait");
	wire_drop_packets(kept);
	CHECK_SYS(ep_post_recv(&e, 0, in, LEN, dst->lkey));
	expect(ep_poll(e.rcq, &wc, EP_EVENT_MS) && !wc.status && wc.byte_len == 1000,
	       "the message: %s, %u octets", ibv_wc_status_str(wc.status), wc.byte_len);
	CHECK(!pthread_create(&thread, NULL, dereg, &done), "thread");
	for (ms = 0; ms < EP_EVENT_MS && !__atomic_load_n(&done, __ATOMIC_ACQUIRE); ms++)
		usleep(1000);
	expect(__atomic_load_n(&done, __ATOMIC_ACQUIRE), "its region is in use for ever");
	/* The end of the stream lets go of it in any case. */
	close(fd);
	pthread_join(thread, NULL);
	ep_destroy(&e);
}

static void run(void)
{
	unsigned int i;

	out = ep_pages(MSGS * LEN);
	in = ep_pages(MSGS * LEN);
	for (i = 0; i < MSGS * LEN; i++)
		out[i] = i * 7 + i / LEN;
	if (disconnects) {
		part("V-ST-18 a disconnect goes on while something moves");
		disconnects_slowly();
		part("V-ST-18 a disconnect ends when nothing moves");
		disconnects_in_vain();
		return;
	}
	part("V-WR-19 messages of 64 octets wait");
	all_at_once(64);
	part("V-WR-19 messages of many segments wait");
	all_at_once(LEN);
	part("V-WR-19 a receive at a time");
	one_by_one();
	part("V-WR-19 a Read behind a Send that waits");
	behind();
	part("V-WR-19 other connections go on");
	for (i = 1; !others(i == TRIES); i++)
		;
	part("V-SRQ-15 two connections wait for a shared queue");
	for (i = 1; !shared(i == TRIES); i++)
		;
	part("V-WR-19 the peer closes behind it");
	closed();
	part("V-WR-19 destroyed while it waits");
	destroyed();
	part("T-20 a region is free behind a message that waited");
	not_kept(false);
	part("T-20 a region is free behind a message that waited in the buffer");
	not_kept(true);
	part("P-ERR-10 the time is over");
	over();
}

const struct prog prog = {
	.name = "late",
	.text = "Receives that are posted after their messages have come.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 20300,
	.limit = 120,
	.run = run,
};
