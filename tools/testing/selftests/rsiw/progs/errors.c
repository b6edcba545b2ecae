// SPDX-License-Identifier: GPL-2.0
/*
 * errors: every status of a completion and every asynchronous event that verbs
 * can provoke, each at its own cause, at the right side, once, and nothing
 * else; of what is refused no octet goes through.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "both.h"
#include "prog.h"
#include "raw.h"

#define LEN 4096
#define HERE 0x11
#define THERE 0x5c
/* What a key is changed by, so that it is that of nothing. */
#define GARBAGE 0x5a5a00
#define NO_EVENT ((enum ibv_event_type)-1)

static const struct ep_attr attr = { .send_wr = 16, .recv_wr = 16 };
static char *mem;			/* LEN here, 4 * LEN there */
static struct both b;
static struct ibv_mr *here;		/* at the active side */
static struct ibv_mr *there;		/* LEN..3 * LEN at the passive side */
static struct ibv_pd *other;		/* another PD */

static void begin(int rights, bool other_pd)
{
	static const struct ep_attr active = { .send_wr = 16, .recv_wr = 16, .inline_data = 80 };

	memset(mem, HERE, LEN);
	memset(mem + LEN, THERE, 3 * LEN);
	both_connect(&b, &listener, &where, &active, &attr);
	here = ep_reg(&b.a, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	there = ibv_reg_mr(other_pd ? other : b.p.pd, mem + 2 * LEN, 2 * LEN,
			   rights);
	CHECK(there, "register: %m");
	async_drain(listener.id->verbs);
}

static void end(void)
{
	CHECK_SYS(ibv_dereg_mr(here));
	if (there)
		CHECK_SYS(ibv_dereg_mr(there));
	both_destroy(&b);
}

/* The stream has ended: one event of this type at each side, or none. */
static void over(enum ibv_event_type a, enum ibv_event_type p)
{
	unsigned int na = 0, np = 0, due = (a != NO_EVENT) + (p != NO_EVENT);
	struct ibv_async_event ev;

	expect(wait_state(b.a.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "the active side is not in error");
	expect(wait_state(b.p.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR,
	       "the passive side is not in error");
	/* Events come behind the state that they are of. */
	while (async_event(listener.id->verbs, &ev, na + np < due ? EP_EVENT_MS : 50)) {
		bool at_a = ev.element.qp == b.a.id->qp;

		expect(ev.event_type == (at_a ? a : p), "%s at the %s side",
		       ibv_event_type_str(ev.event_type),
		       at_a ? "active" : "passive");
		at_a ? na++ : np++;
	}
	expect(na == (a != NO_EVENT) && np == (p != NO_EVENT),
	       "%u and %u events", na, np);
}

static int request(enum ibv_wr_opcode op, uint32_t len, uint64_t raddr,
		   uint32_t rkey)
{
	return ep_post_send(&b.a, 1, op, mem, len, here->lkey, raddr, rkey);
}

struct target {
	const char *write, *read;
	int rights;
	bool other_pd;
	int64_t offset;
	uint32_t key;			/* to be changed in the key */
	bool wrap, no_key, gone;
};

static const struct target targets[] = {
	{ "V-AE-16 P-RDMAP-22 Write to an invalid STag",
	  "V-AE-25 V-WC-5 Read of an invalid STag", ALL_ACCESS, .key = GARBAGE },
	{ "V-STAG-5 Write with another key", "V-STAG-5 Read with another key",
	  ALL_ACCESS, .key = 1 },
	/* No Write to it leaves this host. */
	{ NULL, "V-STAG0-4 Read of STag 0", ALL_ACCESS, .no_key = true },
	{ "V-ACC-18 Write to a region that is gone",
	  "V-ACC-18 Read of a region that is gone", ALL_ACCESS, .gone = true },
	{ "V-ACC-14 Write before the beginning",
	  "V-ACC-14 Read before the beginning", ALL_ACCESS, .offset = -1 },
	{ "V-AE-17 V-ACC-14 V-SEC-3 S-5042-3 Write behind the end",
	  "V-AE-25 V-WC-5 V-ACC-14 Read behind the end", ALL_ACCESS, .offset = 2 * LEN - 1 },
	{ "V-AE-18 V-ACC-6 S-5042-5 Write without the right",
	  "V-AE-25 V-WC-5 V-ACC-7 V-SEC-4 S-5042-5 Read without the right",
	  .rights = IBV_ACCESS_LOCAL_WRITE },
	{ "V-AE-19 V-PD-4 S-5042-1 Write to another PD",
	  "V-AE-25 V-WC-5 V-PD-4 S-5042-1 Read of another PD", ALL_ACCESS, .other_pd = true },
	{ "V-AE-20 V-ACC-15 Write that wraps",
	  "V-AE-25 V-WC-5 V-ACC-15 Read that wraps", ALL_ACCESS, .wrap = true },
};

/* No octet has gone through. */
static void untouched(void)
{
	int i;

	for (i = 0; i < 4 * LEN; i++)
		if (!expect(mem[i] == (i < LEN ? HERE : THERE), "octet %d was written", i))
			return;
}

static void remote(const struct target *t, bool read)
{
	uint32_t rkey;
	uint64_t to;

	part("%s", read ? t->read : t->write);
	begin(t->rights, t->other_pd);
	to = t->wrap ? UINT64_MAX : (uintptr_t)(mem + 2 * LEN) + t->offset;
	rkey = t->no_key ? 0 : there->rkey ^ t->key;
	if (t->gone) {
		CHECK_SYS(ibv_dereg_mr(there));
		there = NULL;
	}
	CHECK_SYS(request(read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 64, to, rkey));
	completes(b.a.scq, read ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	over(read ? NO_EVENT : IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	untouched();
	end();
}

/* Inline data is copied by the library, from as many elements as one likes. */
static void inline_of_many(void)
{
	struct ibv_sge sge[10];
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = sge, .num_sge = COUNT(sge), .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};
	unsigned int i;

	for (i = 0; i < COUNT(sge); i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)mem, 8, 0 };
	CHECK_SYS(ibv_post_send(b.a.id->qp, &wr, &bad));
	completes(b.a.scq, IBV_WC_SUCCESS);
}

/* What is right, or not looked at, works; what is behind it arrives. */
static void good_requests(void)
{
	uint64_t to = (uintptr_t)mem + 2 * LEN;
	int i;

	part("V-WC-1 Write, Read and inline data");
	begin(ALL_ACCESS, false);
	for (i = 0; i < 2; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, mem + 3 * LEN, LEN, there->lkey));
	CHECK_SYS(request(IBV_WR_RDMA_WRITE, LEN, to, there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	CHECK_SYS(request(IBV_WR_RDMA_READ, LEN, to, there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	expect(!memcmp(mem, mem + 2 * LEN, LEN), "other octets");
	inline_of_many();
	completes(b.p.rcq, IBV_WC_SUCCESS);
	part("V-ACC-16 V-ORD-14 V-WR-15 Write and Read of nothing");
	CHECK_SYS(request(IBV_WR_RDMA_WRITE, 0, to, there->rkey ^ GARBAGE));
	completes(b.a.scq, IBV_WC_SUCCESS);
	CHECK_SYS(request(IBV_WR_RDMA_READ, 0, to, there->rkey ^ GARBAGE));
	completes(b.a.scq, IBV_WC_SUCCESS);
	CHECK_SYS(request(IBV_WR_SEND, 64, 0, 0));
	completes(b.p.rcq, IBV_WC_SUCCESS);
	end();
}

static void enable(int access)
{
	struct ibv_qp_attr qa = { .qp_access_flags = access }, now;
	struct ibv_qp_init_attr ia;

	CHECK_SYS(ibv_modify_qp(b.p.id->qp, &qa, IBV_QP_ACCESS_FLAGS));
	CHECK_SYS(ibv_query_qp(b.p.id->qp, &now, IBV_QP_ACCESS_FLAGS, &ia));
	expect((int)now.qp_access_flags == access, "query says %#x",
	       now.qp_access_flags);
}

static void enables(void)
{
	part("V-ACC-9 V-QP-7 V-AE-12 V-WC-5 Read that the QP has not enabled");
	begin(ALL_ACCESS, false);
	enable(IBV_ACCESS_REMOTE_WRITE);
	CHECK_SYS(request(IBV_WR_RDMA_WRITE, 64, (uintptr_t)mem + 2 * LEN,
			  there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	CHECK_SYS(request(IBV_WR_RDMA_READ, 64, (uintptr_t)mem + 2 * LEN,
			  there->rkey));
	completes(b.a.scq, IBV_WC_REM_INV_REQ_ERR);
	over(NO_EVENT, IBV_EVENT_QP_ACCESS_ERR);
	end();
	part("V-ACC-10 V-QP-7 V-AE-13 Write that the QP has not enabled");
	begin(ALL_ACCESS, false);
	enable(IBV_ACCESS_REMOTE_READ);
	CHECK_SYS(request(IBV_WR_RDMA_READ, 64, (uintptr_t)mem + 2 * LEN,
			  there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	CHECK_SYS(request(IBV_WR_RDMA_WRITE, 64, (uintptr_t)mem + 2 * LEN,
			  there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	over(IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	end();
	part("V-ACC-11 enables do not matter to local elements");
	begin(ALL_ACCESS, false);
	enable(0);
	CHECK_SYS(ep_post_recv(&b.p, 1, mem + 2 * LEN, LEN, there->lkey));
	CHECK_SYS(request(IBV_WR_SEND, 64, 0, 0));
	completes(b.p.rcq, IBV_WC_SUCCESS);
	end();
}

/* A bad receive: its own side is told by the completion, the other by event. */
static void receive(const char *name, void *at, uint32_t len, uint32_t lkey,
		    enum ibv_wc_status want, enum ibv_event_type peer)
{
	part("%s", name);
	CHECK_SYS(ep_post_recv(&b.p, 1, at, len, lkey));
	CHECK_SYS(ep_post_recv(&b.p, 2, NULL, 0, 0));
	CHECK_SYS(request(IBV_WR_SEND, 64, 0, 0));
	completes(b.a.scq, IBV_WC_SUCCESS);
	completes(b.p.rcq, want);
	completes(b.p.rcq, IBV_WC_WR_FLUSH_ERR);
	over(peer, NO_EVENT);
	end();
}

static void receives(void)
{
	struct ibv_mr *foreign = ibv_reg_mr(other, mem, LEN, ALL_ACCESS);
	char *at = mem + 2 * LEN;

	part("V-AE-23 V-WR-19 no receive");
	begin(ALL_ACCESS, false);
	CHECK_SYS(request(IBV_WR_SEND, 64, 0, 0));
	over(IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	end();
	begin(ALL_ACCESS, false);
	receive("V-WC-6 receive with an invalid STag", at, LEN,
		there->lkey ^ GARBAGE, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL);
	begin(ALL_ACCESS, false);
	receive("V-WC-7 receive beyond the region", at + 2 * LEN - 1, LEN,
		there->lkey, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL);
	begin(0, false);
	receive("V-WC-8 V-ACC-4 receive into a region that is only read", at,
		LEN, there->lkey, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL);
	begin(ALL_ACCESS, false);
	receive("V-WC-9 V-PD-4 receive into another PD", mem, LEN, foreign->lkey,
		IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL);
	begin(ALL_ACCESS, false);
	receive("V-WC-10 receive that wraps", (void *)UINTPTR_MAX, 64,
		there->lkey, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL);
	begin(ALL_ACCESS, false);
	receive("V-WC-11 V-WR-17 message longer than the receive", at, 63,
		there->lkey, IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR);
	CHECK_SYS(ibv_dereg_mr(foreign));
}

/* A bad request: its side is told by the completion; the rest is flushed. */
static void bad_request(const char *name, enum ibv_wr_opcode op, struct ibv_sge sge,
			uint32_t rkey, struct ibv_mr *only_read)
{
	struct ibv_send_wr wr[3], *bad;
	int i;

	part("%s", name);
	for (i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .next = i < 2 ? &wr[i + 1] : NULL,
			.sg_list = &sge, .num_sge = 1, .opcode = op,
			.wr.rdma = { (uintptr_t)mem + 2 * LEN, rkey },
		};
	CHECK_SYS(ibv_post_send(b.a.id->qp, wr, &bad));
	completes(b.a.scq, IBV_WC_LOC_PROT_ERR);
	completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
	completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
	over(NO_EVENT, IBV_EVENT_QP_FATAL);
	untouched();
	CHECK_SYS(ibv_dereg_mr(only_read));
	end();
}

/* What is wrong of the local element, or that nobody is at the other end. */
enum fault { UNKNOWN, ZERO, FOREIGN, BEYOND, WRAPS, ONLY_READ, NOBODY };

static void bad_requests(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode op;
		enum fault fault;
	} list[] = {
		{ "V-WC-6 V-ST-26 V-WR-21 Send with an invalid STag", IBV_WR_SEND, UNKNOWN },
		{ "V-WC-6 V-WR-21 Write with an invalid STag", IBV_WR_RDMA_WRITE, UNKNOWN },
		{ "V-STAG0-8 Write to STag 0", IBV_WR_RDMA_WRITE, NOBODY },
		{ "V-WC-6 Read into an invalid STag", IBV_WR_RDMA_READ, UNKNOWN },
		{ "V-WC-8 Read into a region that is only read", IBV_WR_RDMA_READ, ONLY_READ },
		{ "V-STAG0-3 Send with STag 0", IBV_WR_SEND, ZERO },
		{ "V-STAG0-8 Read into STag 0", IBV_WR_RDMA_READ, ZERO },
		{ "V-WC-9 V-PD-4 Send from another PD", IBV_WR_SEND, FOREIGN },
		{ "V-WC-7 Send beyond the region", IBV_WR_SEND, BEYOND },
		{ "V-WC-10 Send that wraps", IBV_WR_SEND, WRAPS },
	};
	struct ibv_mr *foreign = ibv_reg_mr(other, mem, LEN, ALL_ACCESS), *only_read;
	struct ibv_sge sge;
	unsigned int i;
	uint32_t rkey;

	for (i = 0; i < COUNT(list); i++) {
		begin(ALL_ACCESS, false);
		only_read = ep_reg(&b.a, mem, LEN, 0);
		sge = (struct ibv_sge){ (uintptr_t)mem, 64, here->lkey };
		rkey = there->rkey;
		switch (list[i].fault) {
		case UNKNOWN:
			sge.lkey ^= GARBAGE;
			break;
		case ZERO:
			sge.lkey = 0;
			break;
		case FOREIGN:
			sge.lkey = foreign->lkey;
			break;
		case BEYOND:
			sge.addr += LEN - 1;
			break;
		case WRAPS:
			sge.addr = UINT64_MAX;
			break;
		case ONLY_READ:
			sge.lkey = only_read->lkey;
			break;
		case NOBODY:
			rkey = 0;
			break;
		}
		bad_request(list[i].name, list[i].op, sge, rkey, only_read);
	}
	CHECK_SYS(ibv_dereg_mr(foreign));
}

static void invalidation(const char *name, int rights, bool other_pd,
			 uint32_t change, enum ibv_event_type peer)
{
	part("%s", name);
	begin(rights, other_pd);
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	/* The library takes the STag from here. */
	CHECK_SYS(request(IBV_WR_SEND_WITH_INV, 0, 0, there->rkey ^ change));
	completes(b.p.rcq, IBV_WC_REM_INV_REQ_ERR);
	over(peer, NO_EVENT);
	end();
}

static void invalidations(void)
{
	const enum ibv_event_type access = IBV_EVENT_QP_ACCESS_ERR;

	invalidation("V-WC-13 V-INV-11 V-INV-12 invalidation of an unknown STag",
		     ALL_ACCESS, false, GARBAGE, access);
	invalidation("V-WC-13 V-INV-9 invalidation with another key", ALL_ACCESS, false,
		     1, access);
	invalidation("V-WC-12 V-INV-10 invalidation without remote rights",
		     IBV_ACCESS_LOCAL_WRITE, false, 0, access);
	invalidation("V-WC-12 V-INV-7 invalidation in another PD", ALL_ACCESS, true, 0,
		     access);
	part("V-INV-2 V-INV-14 an invalidated STag is dead");
	begin(ALL_ACCESS, false);
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(request(IBV_WR_SEND_WITH_INV, 0, 0, there->rkey));
	completes(b.a.scq, IBV_WC_SUCCESS);
	completes(b.p.rcq, IBV_WC_SUCCESS);
	memset(mem + 2 * LEN, 7, LEN);
	CHECK_SYS(request(IBV_WR_RDMA_WRITE, 64, (uintptr_t)mem + 2 * LEN,
			  there->rkey));
	over(access, access);
	expect(mem[2 * LEN] == 7, "written");
	end();
}

static void overflow(void)
{
	static const struct ep_attr tiny = { .send_wr = 16, .recv_wr = 16,
					     .cqe = 1 };
	unsigned int cq = 0, fatal = 0, i;
	struct ibv_async_event ev;
	struct both fine;
	int room;

	part("V-CQ-7 V-AE-26 V-AE-29 T-43 a CQ that overflows ends its QP");
	both_connect(&fine, &listener, &where, &attr, &attr);
	both_connect(&b, &listener, &where, &tiny, &attr);
	room = b.a.scq->cqe;
	async_drain(listener.id->verbs);
	for (i = 0; i < 16; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, NULL, 0, 0));
	for (i = 0; (int)i < room + 1; i++)
		CHECK_SYS(ep_post_send(&b.a, i, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	expect(wait_state(b.a.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR, "state");
	while (async_event(listener.id->verbs, &ev, cq && fatal ? 100 : EP_EVENT_MS)) {
		cq += ev.event_type == IBV_EVENT_CQ_ERR &&
		      ev.element.cq == b.a.scq;
		fatal += ev.event_type == IBV_EVENT_QP_FATAL &&
			 ev.element.qp == b.a.id->qp;
	}
	expect(cq == 1 && fatal == 1, "%u CQ_ERR, %u QP_FATAL", cq, fatal);
	part("V-CQ-6 S-5042-8 others do not notice");
	CHECK_SYS(ep_post_recv(&fine.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&fine.a, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	completes(fine.a.scq, IBV_WC_SUCCESS);
	completes(fine.p.rcq, IBV_WC_SUCCESS);
	both_close(&fine);
	both_destroy(&b);
}

/* An entry in the mapped queues of this process, the first of its queue. */
static uint8_t *find_entry(uint64_t magic)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	uint8_t *found = NULL;

	CHECK(f, "maps: %m");
	while (!found && fgets(line, sizeof(line), f)) {
		uintptr_t from, to, at;

		if (!strstr(line, "uverbs") ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2)
			continue;
		for (at = from; !found && at + 120 <= to; at += 120)
			if (__atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED) == magic)
				found = (uint8_t *)at;
	}
	fclose(f);
	CHECK(found, "no such entry in the mapped queues");
	return found;
}

/* What the first entry of a queue says, so that it is found. */
#define MAGIC 0x5157a9b1c3d5e7f9ull

/* A QP that is not connected, in which one request or receive is posted. */
static void begin_forged(const char *name, bool is_receive)
{
	part("%s", name);
	b.a.ec = rdma_create_event_channel();
	ep_setup(&b.a, active_id(b.a.ec, &listener, &where), &attr);
	if (is_receive)
		CHECK_SYS(ep_post_recv(&b.a, MAGIC, NULL, 0, 0));
	else
		CHECK_SYS(ep_post_send(&b.a, MAGIC, IBV_WR_SEND, NULL, 0, 0, 0, 0));
}

/* Makes of what is posted an entry that no library writes, and connects the QP. */
static void forge(unsigned int at, uint8_t value)
{
	find_entry(MAGIC)[at] = value;
	async_drain(listener.id->verbs);
	CHECK_SYS(rdma_connect(b.a.id, &b.a.param));
	ep_accept(&b.p, &listener, &attr);
	ep_expect(b.a.ec, RDMA_CM_EVENT_ESTABLISHED);
}

static void forged(const char *name, unsigned int at, uint8_t value,
		   enum ibv_wc_status want)
{
	begin_forged(name, false);
	forge(at, value);
	completes(b.a.scq, want);
	over(NO_EVENT, IBV_EVENT_QP_FATAL);
	both_destroy(&b);
}

/* The same of a receive, for which a message comes. */
static void forged_recv(const char *name, unsigned int at, uint8_t value, enum ibv_wc_status want)
{
	begin_forged(name, true);
	forge(at, value);
	CHECK_SYS(ep_post_send(&b.p, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	completes(b.a.rcq, want);
	both_destroy(&b);
}

static void run(void)
{
	unsigned int i;

	other = ibv_alloc_pd(listener.id->verbs);
	CHECK(other, "alloc PD: %m");
	mem = ep_pages(4 * LEN);
	good_requests();
	for (i = 0; i < 2 * COUNT(targets); i++)
		if (i & 1 || targets[i / 2].write)
			remote(&targets[i / 2], i & 1);
	enables();
	receives();
	bad_requests();
	invalidations();
	overflow();
	forged("V-WC-3 T-3 an unknown operation", 11, 99, IBV_WC_LOC_QP_OP_ERR);
	forged("V-WC-16 V-QP-8 fast registration by a process", 11, 11,
	       IBV_WC_LOC_QP_OP_ERR);
	forged("V-WC-3 T-3 more elements than there are", 10, 200,
	       IBV_WC_LOC_QP_OP_ERR);
	if (raw_own_rings(listener.id->verbs)) {
		forged("V-WC-3 T-3 a pad of a request that is not 0", 52, 1, IBV_WC_LOC_QP_OP_ERR);
		forged("V-WC-3 T-3 the last one", 63, 1, IBV_WC_LOC_QP_OP_ERR);
		forged_recv("V-WC-3 T-3 a pad of a receive that is not 0", 12, 1,
			    IBV_WC_LOC_QP_OP_ERR);
	}
	CHECK_SYS(ibv_dealloc_pd(other));
}

const struct prog prog = {
	.name = "errors",
	.text = "Completion statuses and events; both ends are in this process.\n",
	.kind = PROG_LISTENS,
	.port = 18740,
	.limit = 120,
	.run = run,
};
