// SPDX-License-Identifier: GPL-2.0
/* by_number: queue pairs that programs connect themselves. Both ends are here. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "by_number/by_number.h"

#define LEN 4096
/* Of the 2 seconds that requests wait at least for a peer that is gone. */
#define SOME_TIME_MS 1000
/* Octets of a message that is not through when one sees that it has begun. */
#define LONG (16 << 20)

unsigned int rounds = 20, stock;
struct both b;
struct number a, p;
struct ibv_mr *amr, *pmr;
char *abuf, *pbuf;

static unsigned int hold_ms, pile_ms, cuts;
static bool piles_at_dialler;
static const char *step_as;
static const struct ep_attr attr = { .send_wr = 16, .recv_wr = 16 };

static const struct opt options[] = {
	{ "rounds", "N", "how often a queue pair is reset (20)", .num = &rounds, .min = 1,
	  .max = 100000 },
	{ "stock", "0|1", "the library has one status for all errors of the peer (0)",
	  .num = &stock, .max = 1 },
	{ "hold-ms", "N", "only wait so long in RTR, for a peer that does not exist (0)",
	  .num = &hold_ms, .max = 600000 },
	{ "pile-ms", "N", "only leave messages without a receive so long, at the end that listens (0)",
	  .num = &pile_ms, .max = 600000 },
	{ "pile-at-dialler", "", "at the end that dials", .flag = &piles_at_dialler },
	{ "cuts", "N", "only cut so many messages in two, as the peer goes (0)", .num = &cuts,
	  .max = 1000 },
	{ "step-as", "NAME", "only take the step to RTR, with this name of the thread",
	  .str = &step_as },
	{ }
};

/* Completions of requests that the peer does not answer have this status. */
static enum ibv_wc_status unanswered(enum ibv_wc_status status)
{
	return stock ? IBV_WC_GENERAL_ERR : status;
}

void make(void)
{
	numbers_make(&b, &where, &attr, &attr);
	a = number_of(&b.a);
	p = number_of(&b.p);
	amr = ep_reg(&b.a, abuf, LEN, ALL_ACCESS);
	pmr = ep_reg(&b.p, pbuf, LEN, ALL_ACCESS);
}

void unmake(void)
{
	CHECK_SYS(ibv_dereg_mr(amr));
	CHECK_SYS(ibv_dereg_mr(pmr));
	both_destroy(&b);
}

void meet(const struct number_attr *how)
{
	CHECK(!number_rtr(b.a.id->qp, &a, &p, how), "RTR: %m");
	CHECK(!number_rtr(b.p.id->qp, &p, &a, how), "RTR: %m");
	CHECK(!number_rts(b.a.id->qp, &a, how), "RTS: %m");
	CHECK(!number_rts(b.p.id->qp, &p, how), "RTS: %m");
}

void post(struct ep *e, enum ibv_wr_opcode op)
{
	bool is_a = e == &b.a;

	CHECK_SYS(ep_post_send(e, 7, op, is_a ? abuf : pbuf, 64, is_a ? amr->lkey : pmr->lkey,
			       (uintptr_t)(is_a ? pbuf : abuf) + 1024,
			       is_a ? pmr->rkey : amr->rkey));
}

void receive(struct ep *e)
{
	bool is_a = e == &b.a;

	CHECK_SYS(ep_post_recv(e, 9, (is_a ? abuf : pbuf) + 2048, 64,
			       is_a ? amr->lkey : pmr->lkey));
}

void talk(void)
{
	static char fill;

	memset(abuf, ++fill, 64);
	memset(pbuf, ++fill, 64);
	receive(&b.a);
	receive(&b.p);
	post(&b.a, IBV_WR_SEND);
	post(&b.p, IBV_WR_SEND);
	completes(b.a.scq, IBV_WC_SUCCESS);
	completes(b.p.scq, IBV_WC_SUCCESS);
	completes(b.a.rcq, IBV_WC_SUCCESS);
	completes(b.p.rcq, IBV_WC_SUCCESS);
	expect(!memcmp(abuf, pbuf + 2048, 64) && !memcmp(pbuf, abuf + 2048, 64),
	       "other octets");
	post(&b.a, IBV_WR_RDMA_WRITE);
	completes(b.a.scq, IBV_WC_SUCCESS);
	expect(!memcmp(abuf, pbuf + 1024, 64), "the Write is not there");
	post(&b.p, IBV_WR_RDMA_READ);
	completes(b.p.scq, IBV_WC_SUCCESS);
	expect(!memcmp(abuf + 1024, pbuf, 64), "the Read brings other octets");
}

bool nothing(struct ibv_cq *cq, int ms)
{
	struct ibv_wc wc;

	return !ep_poll(cq, &wc, ms) ||
	       expect(false, "a completion: %s", ibv_wc_status_str(wc.status));
}

/* The other end may have its events in the same place. */
static void no_event(struct ep *e)
{
	struct ibv_async_event ev;

	while (async_event(e->id->verbs, &ev, 0))
		expect(ev.element.qp != e->id->qp, "event %d", ev.event_type);
}

static void state_is(struct ep *e, enum ibv_qp_state want)
{
	enum ibv_qp_state state = wait_state(e->id->qp, want, 5000);

	expect(state == want, "state %d instead of %d", state, want);
}

static void step_with(unsigned int n, const struct number_attr *attr)
{
	switch (n) {
	case 0:
		CHECK(!number_rtr(b.a.id->qp, &a, &p, attr), "RTR: %m");
		break;
	case 1:
		CHECK(!number_rts(b.a.id->qp, &a, attr), "RTS: %m");
		break;
	case 2:
		CHECK(!number_rtr(b.p.id->qp, &p, &a, attr), "RTR: %m");
		break;
	case 3:
		CHECK(!number_rts(b.p.id->qp, &p, attr), "RTS: %m");
		break;
	}
}

static void step(unsigned int n)
{
	step_with(n, &number_defaults);
}

/* Each end takes its two steps in order; otherwise in any order. */
static void orders(unsigned int pause_ms)
{
	static const char all[][4] = {
		{ 0, 1, 2, 3 }, { 0, 2, 1, 3 }, { 0, 2, 3, 1 },
		{ 2, 3, 0, 1 }, { 2, 0, 3, 1 }, { 2, 0, 1, 3 },
	};
	unsigned int i, n;

	for (i = 0; i < COUNT(all); i++) {
		make();
		for (n = 0; n < 4; n++) {
			step(all[i][n]);
			usleep(pause_ms * 1000);
		}
		talk();
		unmake();
	}
}

static void shown(void)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	make();
	meet(&number_defaults);
	CHECK_SYS(ibv_query_qp(b.a.id->qp, &qa, 2 * IBV_QP_DEST_QPN - 1, &ia));
	expect(qa.qp_state == IBV_QPS_RTS, "state %d", qa.qp_state);
	expect(qa.dest_qp_num == p.qpn && qa.sq_psn == a.psn && qa.rq_psn == p.psn,
	       "QPN %u, PSNs %#x, %#x", qa.dest_qp_num, qa.sq_psn, qa.rq_psn);
	expect(qa.ah_attr.is_global && qa.ah_attr.grh.sgid_index == a.index &&
	       !memcmp(&qa.ah_attr.grh.dgid, &p.gid, sizeof(p.gid)), "another address");
	expect(qa.path_mtu == IBV_MTU_1024 && qa.timeout == 14 && qa.retry_cnt == 7 &&
	       qa.rnr_retry == 7 && qa.min_rnr_timer == 12, "other times");
	expect(qa.max_rd_atomic == 4 && qa.max_dest_rd_atomic == 4, "Reads %u, %u",
	       qa.max_rd_atomic, qa.max_dest_rd_atomic);
	talk();
	unmake();
}

/* The peer's queue pair is gone: nobody hears of it but the next request. */
static void gone(bool killed)
{
	struct ibv_wc wc;

	make();
	meet(&number_defaults);
	talk();
	receive(&b.a);
	if (killed)
		CHECK(!to_state(b.p.id->qp, IBV_QPS_ERR), "ERR: %m");
	else
		rdma_destroy_qp(b.p.id);
	nothing(b.a.rcq, A_WHILE_MS);
	no_event(&b.a);
	state_is(&b.a, IBV_QPS_RTS);
	post(&b.a, IBV_WR_SEND);
	post(&b.a, IBV_WR_SEND);
	nothing(b.a.scq, SOME_TIME_MS);
	completes(b.a.scq, unanswered(IBV_WC_RETRY_EXC_ERR));
	completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
	if (expect(ep_poll(b.a.rcq, &wc, EP_EVENT_MS), "no receive is flushed"))
		expect(wc.status == IBV_WC_WR_FLUSH_ERR, "%s", ibv_wc_status_str(wc.status));
	no_event(&b.a);
	state_is(&b.a, IBV_QPS_ERR);
	unmake();
}

void reset(struct ep *e)
{
	CHECK(!to_state(e->id->qp, IBV_QPS_RESET), "RESET: %m");
	if (!stock) {
		expect(ep_post_recv(e, 9, abuf, 0, 0) == EINVAL, "a receive in RESET");
		expect(ep_post_send(e, 7, IBV_WR_SEND, abuf, 0, 0, 0, 0) == EINVAL,
		       "a Send in RESET");
	}
	state_is(e, IBV_QPS_RESET);
	CHECK(!number_init(e->id->qp), "INIT: %m");
}

/* The peer goes while it has a message for which there is no receive. */
static void leave_behind(void)
{
	make();
	meet(&number_defaults);
	talk();
	post(&b.a, IBV_WR_SEND);
	nothing(b.a.scq, 20);
	rdma_destroy_qp(b.p.id);
}

/*
 * A request to a peer that is gone fails after a while, unless its queue pair is destroyed or reset
 * before.
 */
static void left_behind(void)
{
	leave_behind();
	nothing(b.a.scq, SOME_TIME_MS);
	no_event(&b.a);
	state_is(&b.a, IBV_QPS_RTS);
	completes(b.a.scq, unanswered(IBV_WC_RETRY_EXC_ERR));
	state_is(&b.a, IBV_QPS_ERR);
	unmake();
	leave_behind();
	unmake();
	leave_behind();
	reset(&b.a);
	nothing(b.a.scq, 3 * SOME_TIME_MS);
	state_is(&b.a, IBV_QPS_INIT);
	unmake();
}

/* A receive of the request `id` is flushed. */
static void is_flushed(uint64_t id)
{
	struct ibv_wc wc;

	if (expect(ep_poll(b.a.rcq, &wc, EP_EVENT_MS), "receive %lu is not flushed", id))
		expect(wc.wr_id == id && wc.status == IBV_WC_WR_FLUSH_ERR, "receive %lu: %s",
		       wc.wr_id, ibv_wc_status_str(wc.status));
}

/*
 * The peer goes when a part of a message is there. Its receive waits for a peer like those behind
 * it, and is flushed in front of them, or dropped. Returns false if the message was through before.
 */
static bool cut(char *from, char *to, bool destroyed, bool resets)
{
	struct ibv_mr *from_mr, *to_mr;
	struct ibv_wc wc;
	bool is_through;
	unsigned int i;

	make();
	from_mr = ep_reg(&b.p, from, LONG, ALL_ACCESS);
	to_mr = ep_reg(&b.a, to, LONG, ALL_ACCESS);
	meet(&number_defaults);
	talk();
	memset(from, 1, LONG);
	memset(to, 0, LONG);
	CHECK_SYS(ep_post_recv(&b.a, 1, to, LONG, to_mr->lkey));
	for (i = 2; i <= 4; i++)
		CHECK_SYS(ep_post_recv(&b.a, i, abuf, 64, amr->lkey));
	CHECK_SYS(ep_post_send(&b.p, 7, IBV_WR_SEND, from, LONG, from_mr->lkey, 0, 0));
	while (!__atomic_load_n((char *)to, __ATOMIC_RELAXED))
		;
	if (destroyed)
		rdma_destroy_qp(b.p.id);
	else
		CHECK(!to_state(b.p.id->qp, IBV_QPS_ERR), "ERR: %m");
	is_through = ep_poll(b.a.rcq, &wc, A_WHILE_MS);
	if (is_through)
		expect(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	no_event(&b.a);
	state_is(&b.a, IBV_QPS_RTS);
	if (resets) {
		reset(&b.a);
		nothing(b.a.rcq, A_WHILE_MS);
	} else {
		post(&b.a, IBV_WR_SEND);
		completes(b.a.scq, unanswered(IBV_WC_RETRY_EXC_ERR));
		for (i = is_through ? 2 : 1; i <= 4; i++)
			is_flushed(i);
	}
	CHECK_SYS(ibv_dereg_mr(from_mr));
	CHECK_SYS(ibv_dereg_mr(to_mr));
	unmake();
	return !is_through;
}

static void cut_all(void)
{
	char *from = ep_pages(LONG), *to = ep_pages(LONG);
	unsigned int i, done = 0;

	for (i = 0; i < cuts; i++)
		done += cut(from, to, i & 1, i & 2);
	printf("# in the middle: %u of %u\n", done, cuts);
	expect(done, "all messages were through before");
}

/* "The peer was not there in time", as the driver's own library tells. */
#define NOT_THERE 0x4000c

/* Nobody is at the other end, perhaps of a queue pair that has had a peer before. */
static void absent(bool again)
{
	static const struct number_attr fast = {
		.timeout = 8, .retry_cnt = 1, .rnr_retry = 7, .min_rnr_timer = 12, .reads = 1,
	};
	struct ibv_wc wc = { 0 };
	struct number other;
	uint64_t since;

	make();
	if (again) {
		meet(&number_defaults);
		talk();
		reset(&b.a);
	}
	other = p;
	other.qpn = p.qpn + 1000;
	CHECK(!number_rtr(b.a.id->qp, &a, &other, &fast), "RTR: %m");
	CHECK(!number_rts(b.a.id->qp, &a, &fast), "RTS: %m");
	receive(&b.a);
	nothing(b.a.rcq, A_WHILE_MS);
	since = ep_now_ns();
	post(&b.a, IBV_WR_SEND);
	expect(ep_poll(b.a.scq, &wc, EP_EVENT_MS) &&
	       wc.status == unanswered(IBV_WC_RETRY_EXC_ERR) &&
	       (stock || wc.vendor_err == NOT_THERE),
	       "%s, %#x", ibv_wc_status_str(wc.status), wc.vendor_err);
	since = (ep_now_ns() - since) / 1000000;
	expect(since >= 1000, "after %lu ms", since);
	completes(b.a.rcq, IBV_WC_WR_FLUSH_ERR);
	no_event(&b.a);
	unmake();
}

/* What the two ends say of each other does not fit together. */
static void mismatch(int what)
{
	static const struct number_attr fast = {
		.timeout = 8, .retry_cnt = 1, .rnr_retry = 7, .min_rnr_timer = 12, .reads = 1,
	};
	struct number other;

	make();
	other = a;
	if (what == 0)
		other.psn ^= 1;
	else
		other.qpn += 1000;
	CHECK(!number_rtr(b.a.id->qp, &a, &p, &fast), "RTR: %m");
	CHECK(!number_rtr(b.p.id->qp, &p, &other, &fast), "RTR: %m");
	CHECK(!number_rts(b.a.id->qp, &a, &fast), "RTS: %m");
	CHECK(!number_rts(b.p.id->qp, &p, &fast), "RTS: %m");
	receive(&b.p);
	post(&b.a, IBV_WR_SEND);
	completes(b.a.scq, unanswered(IBV_WC_RETRY_EXC_ERR));
	nothing(b.p.rcq, A_WHILE_MS);
	unmake();
}

static bool dials(const struct number *own, const struct number *other)
{
	return own->qpn > other->qpn || (own->qpn == other->qpn &&
					 memcmp(&own->gid, &other->gid, sizeof(own->gid)) > 0);
}

/*
 * Who dials gives up while its Request waits for the other end, and dials again. What is said of the
 * first call later is of no account.
 */
static void called_off(unsigned int pause_us)
{
	bool a_dials;

	make();
	a_dials = dials(&a, &p);
	step(a_dials ? 0 : 2);
	usleep(pause_us);
	reset(a_dials ? &b.a : &b.p);
	step(a_dials ? 2 : 0);
	step(a_dials ? 3 : 1);
	usleep(pause_us);
	step(a_dials ? 0 : 2);
	step(a_dials ? 1 : 3);
	talk();
	unmake();
}

static void no_receive(void)
{
	static const struct number_attr twice = {
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 2, .min_rnr_timer = 12, .reads = 1,
	};
	unsigned int called, i;
	struct ep *sends;

	make();
	meet(&number_defaults);
	post(&b.a, IBV_WR_SEND);
	nothing(b.a.scq, 3 * A_WHILE_MS);
	receive(&b.p);
	completes(b.p.rcq, IBV_WC_SUCCESS);
	completes(b.a.scq, IBV_WC_SUCCESS);
	unmake();

	part("no receive, and a sender that tries twice");
	make();
	/* The retries of who is called are known, as it is in RTS before the other end calls. */
	called = dials(&a, &p) ? 2 : 0;
	for (i = 0; i < 4; i++)
		step_with((called + i) % 4, &twice);
	sends = called ? &b.p : &b.a;
	post(sends, IBV_WR_SEND);
	completes(sends->scq, unanswered(IBV_WC_RNR_RETRY_EXC_ERR));
	state_is(sends, IBV_QPS_ERR);
	unmake();
}

/* The peer may not do what the request asks for. */
static void denied(void)
{
	make();
	meet(&number_defaults);
	talk();
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_RDMA_WRITE, abuf, 64, amr->lkey,
			       (uintptr_t)pbuf, pmr->rkey ^ 0x100));
	post(&b.a, IBV_WR_SEND);
	completes(b.a.scq, IBV_WC_REM_ACCESS_ERR);
	completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
	state_is(&b.a, IBV_QPS_ERR);
	no_event(&b.a);
	unmake();
}

/* The peer cannot take what is sent, as its receive names no region. */
static void unable(void)
{
	make();
	meet(&number_defaults);
	talk();
	CHECK_SYS(ep_post_recv(&b.p, 5, pbuf, LEN, pmr->lkey ^ 0x100));
	post(&b.a, IBV_WR_SEND);
	completes(b.p.rcq, IBV_WC_LOC_PROT_ERR);
	completes(b.a.scq, unanswered(IBV_WC_REM_OP_ERR));
	state_is(&b.a, IBV_QPS_ERR);
	state_is(&b.p, IBV_QPS_ERR);
	unmake();
}

/* A Read that the peer denies, behind a Write, which is placed, and in front of a Send. */
static void denied_read(void)
{
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr *bad, wr[] = {
			{ .opcode = IBV_WR_RDMA_WRITE },
			{ .opcode = IBV_WR_RDMA_READ },
			{ .opcode = IBV_WR_SEND },
		};
		unsigned int n;

		make();
		meet(&number_defaults);
		talk();
		sge = (struct ibv_sge) { (uintptr_t)abuf, 64, amr->lkey };
		for (n = 0; n < 3; n++) {
			wr[n].next = n < 2 ? &wr[n + 1] : NULL;
			wr[n].sg_list = &sge;
			wr[n].num_sge = 1;
			wr[n].send_flags = IBV_SEND_SIGNALED;
			wr[n].wr.rdma.remote_addr = (uintptr_t)pbuf + 1024;
			wr[n].wr.rdma.rkey = pmr->rkey ^ (n == 1 ? 0x100 : 0);
		}
		CHECK_SYS(ibv_post_send(b.a.id->qp, wr, &bad));
		completes(b.a.scq, IBV_WC_SUCCESS);
		completes(b.a.scq, IBV_WC_REM_ACCESS_ERR);
		completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
		state_is(&b.a, IBV_QPS_ERR);
		unmake();
	}
}

/* A Send with immediate data, of one segment and of many. */
static void immediates(void)
{
	static const uint32_t lengths[] = { 0, 64, 3000 };
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;
	unsigned int i;
	int err;

	make();
	sge.lkey = amr->lkey;
	sge.addr = (uintptr_t)abuf;
	sge.length = 64;
	err = ibv_post_send(b.a.id->qp, &wr, &bad);
	expect(err == EOPNOTSUPP, "without a peer: %d", err);
	meet(&number_defaults);
	for (i = 0; i < COUNT(lengths); i++) {
		memset(abuf, i + 1, lengths[i]);
		sge.length = lengths[i];
		wr.imm_data = htonl(0x01020304 + i);
		CHECK_SYS(ep_post_recv(&b.p, 5, pbuf, LEN, pmr->lkey));
		CHECK_SYS(ibv_post_send(b.a.id->qp, &wr, &bad));
		completes(b.a.scq, IBV_WC_SUCCESS);
		if (!expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no receive"))
			continue;
		expect(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
		       wc.byte_len == lengths[i], "status %u, opcode %u, %u octets", wc.status,
		       wc.opcode, wc.byte_len);
		expect(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == wr.imm_data,
		       "flags %#x, data %#x", wc.wc_flags, ntohl(wc.imm_data));
		expect(!memcmp(abuf, pbuf, lengths[i]), "other octets");
	}
	/* A Write with immediate data is told apart. */
	receive(&b.p);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.rdma.remote_addr = (uintptr_t)pbuf;
	wr.wr.rdma.rkey = pmr->rkey;
	CHECK_SYS(ibv_post_send(b.a.id->qp, &wr, &bad));
	completes(b.a.scq, IBV_WC_SUCCESS);
	if (expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS), "no receive"))
		expect(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == wr.imm_data,
		       "opcode %u", wc.opcode);
	unmake();
}

static void to_itself(enum ibv_wr_opcode op, char *from, char *to)
{
	CHECK_SYS(ep_post_send(&b.a, 7, op, from, 512, amr->lkey, (uintptr_t)to, amr->rkey));
}

static void meet_itself(void)
{
	CHECK(!number_rtr(b.a.id->qp, &a, &a, &number_defaults), "RTR: %m");
	CHECK(!number_rts(b.a.id->qp, &a, &number_defaults), "RTS: %m");
}

/* A queue pair that is its own peer: each operation, and several at once. */
static void itself(void)
{
	unsigned int round, i;

	make();
	for (round = 0; round < 20; round++) {
		meet_itself();
		memset(abuf, 1 + round, 512);
		memset(abuf + 512, 0, LEN - 512);
		receive(&b.a);
		CHECK_SYS(ep_post_send(&b.a, 7, IBV_WR_SEND, abuf, 64, amr->lkey, 0, 0));
		completes(b.a.scq, IBV_WC_SUCCESS);
		completes(b.a.rcq, IBV_WC_SUCCESS);
		expect(!memcmp(abuf, abuf + 2048, 64), "the Send brings other octets");
		to_itself(IBV_WR_RDMA_WRITE, abuf, abuf + 1024);
		completes(b.a.scq, IBV_WC_SUCCESS);
		expect(!memcmp(abuf, abuf + 1024, 512), "the Write is not there");
		to_itself(IBV_WR_RDMA_READ, abuf + 3072, abuf + 1024);
		completes(b.a.scq, IBV_WC_SUCCESS);
		expect(!memcmp(abuf, abuf + 3072, 512), "the Read brings other octets");
		for (i = 0; i < 8; i++)
			to_itself(i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, abuf, abuf + 1024);
		for (i = 0; i < 8; i++)
			completes(b.a.scq, IBV_WC_SUCCESS);
		no_event(&b.a);
		reset(&b.a);
	}
	/* Requests of one that goes away end with it. */
	meet_itself();
	to_itself(IBV_WR_RDMA_WRITE, abuf, abuf + 1024);
	/* Nobody posts a receive for it. */
	to_itself(IBV_WR_SEND, abuf, abuf);
	nothing(b.a.rcq, 20);
	unmake();
}

/* Says who is there, and whom it waits for; nobody gets through to it. */
static void hold(void)
{
	struct number nobody;

	make();
	nobody = a;
	/* This end is the one that listens. */
	nobody.qpn = 0xfffff0;
	nobody.psn = 0x777777;
	CHECK(!number_rtr(b.p.id->qp, &p, &nobody, &number_defaults), "RTR: %m");
	receive(&b.p);
	printf("# waits: %u %u %u %u\n", p.qpn, p.psn, nobody.qpn, b.a.id->qp->qp_num);
	fflush(stdout);
	nothing(b.p.rcq, hold_ms);
	no_event(&b.p);
	state_is(&b.p, IBV_QPS_RTR);
	unmake();
}

/* What has no receive stays with TCP. */
static void pile(void)
{
	struct ep *from;
	unsigned int i;

	make();
	meet(&number_defaults);
	talk();
	from = dials(&a, &p) == piles_at_dialler ? &b.p : &b.a;
	for (i = 0; i < attr.send_wr; i++)
		CHECK_SYS(ep_post_send(from, 7, IBV_WR_SEND, from == &b.a ? abuf : pbuf, LEN,
				       from == &b.a ? amr->lkey : pmr->lkey, 0, 0));
	printf("# piled: %u\n", attr.send_wr * LEN);
	fflush(stdout);
	nothing(from->scq, pile_ms);
	unmake();
}

/* The device may be gone when the step is done, or before. */
static void only_step(void)
{
	struct number nobody;
	int err;

	make();
	nobody = a;
	nobody.qpn = 1;
	CHECK_SYS(prctl(PR_SET_NAME, step_as));
	err = number_rtr(b.a.id->qp, &a, &nobody, &number_defaults);
	printf("# stepped: %d\n", err);
	fflush(stdout);
}

static void run(void)
{
	unsigned int i;

	abuf = ep_pages(LEN);
	pbuf = ep_pages(LEN);
	if (step_as) {
		only_step();
		return;
	}
	if (pile_ms) {
		part("messages without a receive");
		pile();
		return;
	}
	if (cuts) {
		part("the peer goes in the middle of a message");
		cut_all();
		return;
	}
	if (hold_ms) {
		part("nobody gets through");
		hold();
		return;
	}
	part("what was set is shown");
	shown();
	part("steps in all orders");
	orders(0);
	part("steps in all orders, with pauses");
	orders(120);
	part("a call that is called off");
	called_off(A_WHILE_MS * 1000);
	/* Before the Request is sent, and up to when it has been parked. */
	for (i = 0; i < rounds; i++)
		called_off(i * 200 % 4000);
	part("what cannot be is refused");
	refused();
	part("RESET before there is a peer");
	flushed_early();
	part("the peer is gone");
	gone(false);
	part("the peer is in error");
	gone(true);
	part("the peer goes before a message is done");
	left_behind();
	part("nobody is there");
	absent(false);
	part("nobody is there, where there was somebody before");
	absent(true);
	part("another PSN");
	mismatch(0);
	part("another QPN");
	mismatch(1);
	part("a message waits for a receive");
	no_receive();
	part("the peer refuses a request");
	denied();
	part("the peer's receive is bad");
	unable();
	part("the peer refuses a Read behind a Write");
	denied_read();
	if (!stock) {
		part("Sends with immediate data");
		immediates();
	}
	part("RESET, and again");
	resets();
	part("a queue pair that is its own peer");
	itself();
}

const struct prog prog = {
	.name = "by_number",
	.text = "Queue pairs that programs connect themselves.\n",
	.kind = PROG_HERE,
	.port = 20020,
	.limit = 300,
	.run = run,
	.table = options,
};
