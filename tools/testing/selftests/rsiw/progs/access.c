// SPDX-License-Identifier: GPL-2.0
/*
 * access: requests that must not be carried out. Each case has a connection
 * of its own: a Write or Read outside of what the peer granted, a receive that
 * is missing or too small, local keys that do not fit. What counts: no byte
 * lands where none may, the request does not succeed where the requester can
 * know, both sides learn of the end in time and all work is flushed.
 */
#include <stdio.h>
#include <string.h>

#include "prog.h"

#define LEN 8192
#define AREA (4 * LEN)		/* the region is LEN..3*LEN of it */
#define RECVS 4
#define FILL 0x5c

enum target { RW, NO_WRITE, NO_READ, OTHER_PD, DEREGISTERED, BAD_KEY_BYTE,
	      KEY_ZERO, KEY_GARBAGE };
/* Where the request goes, relative to a region of 2 * LEN bytes. */
enum place { INSIDE, BEFORE, BEHIND, ACROSS_END, WRAPS };
enum local { FINE, BAD_LKEY, OUTSIDE_LKEY, SINK_READONLY, RECV_READONLY,
	     RECV_SHORT, RECV_NONE, INLINE_MANY };
enum outcome { ENDS, LIVES, MUST_FAIL };

struct acase {
	const char *name;
	enum ibv_wr_opcode op;
	enum target target;
	enum place place;
	enum local local;
	uint32_t len;
	enum outcome outcome;
	const char *rows;		/* of the requirement matrix */
};

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ
#define S IBV_WR_SEND

static const struct acase cases[] = {
	/* What is right works, and a QP that met nothing wrong lives on. */
	{ "write", W, RW, INSIDE, FINE, LEN, LIVES,
	  "V-WC-1" },
	{ "read", R, RW, INSIDE, FINE, LEN, LIVES,
	  "V-WC-1" },
	/* Inline data is copied by the library, from as many as one likes. */
	{ "inline-10-segments", S, RW, INSIDE, INLINE_MANY, 80, LIVES,
	  "" },
	/* Nothing is checked for no bytes (T-23). */
	{ "write-empty-garbage-key", W, KEY_GARBAGE, INSIDE, FINE, 0, LIVES,
	  "V-ACC-16" },
	{ "read-empty-garbage-key", R, KEY_GARBAGE, INSIDE, FINE, 0, LIVES,
	  "V-ACC-16 V-ORD-14 V-WR-15" },
	{ "write-readonly", W, NO_WRITE, INSIDE, FINE, LEN, ENDS,
	  "V-ACC-6 S-5042-5" },
	{ "read-writeonly", R, NO_READ, INSIDE, FINE, LEN, MUST_FAIL,
	  "V-ACC-7 V-SEC-4 S-5042-5" },
	{ "write-other-pd", W, OTHER_PD, INSIDE, FINE, LEN, ENDS,
	  "S-5042-1" },
	{ "read-other-pd", R, OTHER_PD, INSIDE, FINE, LEN, MUST_FAIL,
	  "S-5042-1" },
	{ "write-deregistered", W, DEREGISTERED, INSIDE, FINE, LEN, ENDS,
	  "V-ACC-18" },
	{ "read-deregistered", R, DEREGISTERED, INSIDE, FINE, LEN, MUST_FAIL,
	  "V-ACC-18" },
	{ "write-key-byte", W, BAD_KEY_BYTE, INSIDE, FINE, LEN, ENDS,
	  "V-STAG-5" },
	{ "read-key-byte", R, BAD_KEY_BYTE, INSIDE, FINE, LEN, MUST_FAIL,
	  "V-STAG-5" },
	{ "write-key-zero", W, KEY_ZERO, INSIDE, FINE, LEN, ENDS,
	  "" },
	{ "read-key-zero", R, KEY_ZERO, INSIDE, FINE, LEN, MUST_FAIL,
	  "" },
	{ "write-key-garbage", W, KEY_GARBAGE, INSIDE, FINE, 1, ENDS,
	  "" },
	{ "write-before", W, RW, BEFORE, FINE, LEN, ENDS,
	  "V-ACC-14" },
	{ "read-before", R, RW, BEFORE, FINE, LEN, MUST_FAIL,
	  "V-ACC-14" },
	{ "write-behind", W, RW, BEHIND, FINE, 1, ENDS,
	  "V-ACC-14 V-SEC-3" },
	{ "read-behind", R, RW, BEHIND, FINE, 1, MUST_FAIL,
	  "V-ACC-14 V-SEC-3" },
	{ "write-across-end", W, RW, ACROSS_END, FINE, LEN, ENDS,
	  "V-ACC-14 S-5042-3" },
	{ "read-across-end", R, RW, ACROSS_END, FINE, LEN, MUST_FAIL,
	  "V-ACC-14 S-5042-3" },
	{ "write-wraps", W, RW, WRAPS, FINE, LEN, ENDS,
	  "V-ACC-15" },
	{ "read-wraps", R, RW, WRAPS, FINE, LEN, MUST_FAIL,
	  "V-ACC-15" },
	{ "send-bad-lkey", S, RW, INSIDE, BAD_LKEY, LEN, MUST_FAIL,
	  "V-WC-6 V-WR-21" },
	{ "write-bad-lkey", W, RW, INSIDE, BAD_LKEY, LEN, MUST_FAIL,
	  "V-WC-6 V-WR-21" },
	{ "send-outside-lkey", S, RW, INSIDE, OUTSIDE_LKEY, LEN, MUST_FAIL,
	  "V-WC-7" },
	{ "read-sink-bad-lkey", R, RW, INSIDE, BAD_LKEY, LEN, MUST_FAIL,
	  "V-WC-6" },
	{ "read-sink-readonly", R, RW, INSIDE, SINK_READONLY, LEN, MUST_FAIL,
	  "" },
	{ "recv-readonly", S, RW, INSIDE, RECV_READONLY, LEN, ENDS,
	  "V-ACC-4 V-WC-8" },
	{ "recv-too-small", S, RW, INSIDE, RECV_SHORT, LEN, ENDS,
	  "V-WC-11 V-WR-17" },
	{ "recv-missing", S, RW, INSIDE, RECV_NONE, LEN, ENDS,
	  "V-WR-19" },
};

struct party {
	struct ep_pair *pair;
	struct ep ep;
	uint8_t *area;
	struct ibv_mr *mr, *ro;
	struct { uint64_t addr; uint32_t rkey; } me, peer;
	struct ibv_pd *other_pd;
};

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = RECVS,
				     .inline_data = 80 };

static void setup(struct party *p, const struct acase *c)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ;
	struct ibv_pd *pd = p->ep.pd;
	bool passive = p->pair->server;

	p->area = ep_pages(AREA);
	memset(p->area, passive ? FILL : 0x11, AREA);
	if (passive && c->target == NO_WRITE)
		access = IBV_ACCESS_REMOTE_READ;
	if (passive && c->target == NO_READ)
		access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	p->other_pd = ibv_alloc_pd(p->ep.id->verbs);
	CHECK(p->other_pd, "alloc PD: %m");
	if (passive && c->target == OTHER_PD)
		pd = p->other_pd;
	p->mr = ibv_reg_mr(pd, p->area + LEN, 2 * LEN, access);
	CHECK(p->mr, "register: %m");
	p->ro = ep_reg(&p->ep, p->area, AREA, 0);
	p->me.addr = (uintptr_t)p->area + LEN;
	p->me.rkey = p->mr->rkey;
	if (passive && c->target == DEREGISTERED) {
		CHECK_SYS(ibv_dereg_mr(p->mr));
		p->mr = NULL;
	}
}

static void post_recvs(struct party *p, const struct acase *c)
{
	bool passive = p->pair->server;
	uint32_t lkey = p->mr && c->target != OTHER_PD ? p->mr->lkey : 0;
	uint32_t len = LEN;
	int i;

	if (passive && c->local == RECV_NONE)
		return;
	if (passive && c->local == RECV_SHORT)
		len = LEN - 1;
	if (passive && c->local == RECV_READONLY)
		lkey = p->ro->lkey;
	if (passive && !lkey)
		len = 0;
	for (i = 0; i < RECVS; i++)
		CHECK(!ep_post_recv(&p->ep, i, p->area + 2 * LEN, len, lkey),
		      "post receive");
}

static uint64_t address(const struct party *p, const struct acase *c)
{
	switch (c->place) {
	case BEFORE:
		return p->peer.addr - 1;
	case BEHIND:
		return p->peer.addr + 2 * LEN;
	case ACROSS_END:
		return p->peer.addr + 2 * LEN - c->len + 1;
	case WRAPS:
		return UINT64_MAX - c->len / 2;
	default:
		return p->peer.addr;
	}
}

static uint32_t key(const struct party *p, const struct acase *c)
{
	switch (c->target) {
	case BAD_KEY_BYTE:
		return p->peer.rkey ^ 1;
	case KEY_ZERO:
		return 0;
	case KEY_GARBAGE:
		return p->peer.rkey ^ 0x5a5a5a00;
	default:
		return p->peer.rkey;
	}
}

/* How the one request or receive fails whose own side is to blame. */
static bool as_it_should(enum local local, enum ibv_wc_status status)
{
	switch (local) {
	case BAD_LKEY:
	case OUTSIDE_LKEY:
		return status == IBV_WC_LOC_PROT_ERR;
	case RECV_READONLY:
		return status == IBV_WC_LOC_PROT_ERR ||
		       status == IBV_WC_LOC_ACCESS_ERR;
	case RECV_SHORT:
		return status == IBV_WC_LOC_LEN_ERR;
	default:
		return true;
	}
}

/* The connection is over: told in time, and everything flushed. */
static void expect_end(struct party *p, const struct acase *c)
{
	int i, n = p->pair->server && c->local == RECV_NONE ? 0 : RECVS;
	struct ibv_wc wc;
	bool good = false;
	int failed = 0;

	ep_expect(p->ep.ec, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < n; i++) {
		CHECK(ep_poll(p->ep.rcq, &wc, 5000),
		      "receive %d of %d is not flushed", i, n);
		good |= wc.status == IBV_WC_SUCCESS;
		if (wc.status == IBV_WC_SUCCESS ||
		    wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		failed++;
		CHECK(p->pair->server && as_it_should(c->local, wc.status),
		      "a receive fails with %s", ibv_wc_status_str(wc.status));
	}
	CHECK(failed == (p->pair->server && (c->local == RECV_READONLY ||
					     c->local == RECV_SHORT)),
	      "%d receives failed", failed);
	CHECK(!good, "a receive is completed as good");
}

static int post_inline(struct party *p, const struct acase *c)
{
	struct ibv_sge sge[10];
	struct ibv_send_wr *bad, wr = {
		.wr_id = 7, .sg_list = sge, .num_sge = 10, .opcode = c->op,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};
	int i;

	for (i = 0; i < 10; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)p->area + LEN,
					   c->len / 10, 0 };
	return ibv_post_send(p->ep.id->qp, &wr, &bad);
}

static void active(struct party *p, const struct acase *c)
{
	uint32_t lkey = p->mr->lkey;
	struct ibv_wc wc;
	uint8_t *buf = p->area + LEN;
	int rv, i;

	if (c->local == BAD_LKEY)
		lkey ^= 0x5a5a5a00;
	if (c->local == OUTSIDE_LKEY)
		buf = p->area + LEN / 2;
	if (c->local == SINK_READONLY)
		lkey = p->ro->lkey;
	if (c->local == INLINE_MANY)
		rv = post_inline(p, c);
	else
		rv = ep_post_send(&p->ep, 7, c->op, buf, c->len, lkey,
				  address(p, c), key(p, c));
	CHECK(!rv, "post: %s", strerror(rv));
	CHECK(ep_poll(p->ep.scq, &wc, EP_EVENT_MS), "no completion");
	printf("  %s: %s\n", c->name, ibv_wc_status_str(wc.status));
	CHECK(c->outcome != LIVES || wc.status == IBV_WC_SUCCESS,
	      "fails with %s", ibv_wc_status_str(wc.status));
	CHECK(c->outcome != MUST_FAIL || wc.status != IBV_WC_SUCCESS,
	      "is reported as done");
	CHECK(wc.status == IBV_WC_SUCCESS || c->local >= RECV_READONLY ||
	      as_it_should(c->local, wc.status),
	      "fails with %s", ibv_wc_status_str(wc.status));
	if (c->outcome == LIVES) {
		/* Something behind it still arrives. */
		CHECK(!ep_post_send(&p->ep, 8, S, p->area + LEN, 64,
				    p->mr->lkey, 0, 0), "post");
		CHECK(ep_poll(p->ep.scq, &wc, EP_EVENT_MS) &&
		      wc.status == IBV_WC_SUCCESS, "the next Send fails");
		return;
	}
	expect_end(p, c);
	/* Work that is posted now is accepted and flushed, or refused. */
	rv = ep_post_send(&p->ep, 9, S, p->area + LEN, 64, p->mr->lkey, 0, 0);
	if (!rv)
		CHECK(ep_poll(p->ep.scq, &wc, 5000) &&
		      wc.status == IBV_WC_WR_FLUSH_ERR,
		      "a Send behind the end is not flushed");
	for (i = 0; c->op == R && i < AREA; i++)
		CHECK(p->area[i] == 0x11, "a refused Read brought data");
}

static void passive(struct party *p, const struct acase *c)
{
	struct ibv_wc wc;
	int i;

	if (c->outcome == LIVES) {
		CHECK(ep_poll(p->ep.rcq, &wc, EP_EVENT_MS) &&
		      (wc.status == IBV_WC_SUCCESS || c->target == OTHER_PD),
		      "the Send behind a good request does not arrive");
	} else {
		expect_end(p, c);
		for (i = 0; i < AREA; i++)
			/*
			 * Segments are checked one by one: of a message that
			 * is too long, those in front may be placed.
			 */
			CHECK(p->area[i] == FILL ||
			      (c->local == RECV_SHORT && i >= 2 * LEN &&
			       i < 3 * LEN - 1) ||
			      (c->place == ACROSS_END && c->len > 1400 &&
			       i > 2 * LEN && i < 3 * LEN),
			      "byte %d has been written", i);
	}
}

static void run_case(const struct acase *c)
{
	struct party p = { .pair = &pair };

	if (pair.server)
		part("%s%s%s", c->name, *c->rows ? " " : "", c->rows);
	ep_phase("%s", c->name);
	ep_open(&p.ep, &pair, &listener, &where, &attr);
	setup(&p, c);
	post_recvs(&p, c);
	ep_exchange(&pair, &p.me, &p.peer, sizeof(p.me));
	if (pair.server)
		passive(&p, c);
	else
		active(&p, c);
	ep_sync(&pair);
	if (c->outcome == LIVES) {
		if (!pair.server)
			rdma_disconnect(p.ep.id);
		ep_expect(p.ep.ec, RDMA_CM_EVENT_DISCONNECTED);
	}
	if (p.mr)
		CHECK_SYS(ibv_dereg_mr(p.mr));
	CHECK_SYS(ibv_dereg_mr(p.ro));
	CHECK_SYS(ibv_dealloc_pd(p.other_pd));
	ep_destroy(&p.ep);
}

static void run(void)
{
	unsigned int i;

	for (i = 0; i < COUNT(cases); i++)
		if (prog_chosen(cases[i].name))
			run_case(&cases[i]);
}

const struct prog prog = {
	.name = "access",
	.text =
		"Work requests that violate rights, bounds and sizes; one connection each.\n",
	.kind = PROG_PAIR,
	.cases = true,
	.port = 18640,
	.limit = 200,
	.run = run,
};
