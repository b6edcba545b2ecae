// SPDX-License-Identifier: GPL-2.0
/*
 * datagrams: queue pairs for unreliable datagrams, which our own library has. Both sides are here;
 * with some options they only wait for what others do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "datagrams/datagrams.h"

#define FIRST_NUMBER 0x800000
#define LAST_NUMBER 0xfffffe
#define EVERYTHING (2 * IBV_QP_DEST_QPN - 1)
#define PROBE_QKEY 0x5555555

struct side a = { .qkey = 0x1234567 }, p = { .qkey = 0x7654321 };
const struct how usual = { .wr = 16, .sge = 4, .inline_data = 64 };
uint32_t mtu;
unsigned int rounds = 20, messages = 10000;

static unsigned int wait_ms;
static const char *later, *silent;
static bool floods;
static struct both b;

static const struct opt options[] = {
	{ "rounds", "N", "how often a queue pair is reset (20)", .num = &rounds, .min = 1,
	  .max = 100000 },
	{ "messages", "N", "of the part with many (10000)", .num = &messages, .min = 1,
	  .max = 1000000 },
	{ "wait", "MS", "only wait so long for messages of others, the last of which is \"over\"",
	  .num = &wait_ms, .min = 1, .max = 600000 },
	{ "later", "ADDR", "only use an address of the server side that comes and goes",
	  .str = &later },
	{ "silent", "ADDR", "nobody answers at this address, nor at the two behind it",
	  .str = &silent },
	{ "flood", "", "only send until the devices are gone", .flag = &floods },
	{ }
};

static struct ibv_context *verbs(const struct side *s)
{
	return s->ep->id->verbs;
}

static void open_side(struct side *s, struct ep *ep)
{
	struct ibv_port_attr port;
	uint32_t longest;

	s->ep = ep;
	s->buf = ep_pages(MEMORY);
	s->mr = ep_reg(ep, s->buf, MEMORY, IBV_ACCESS_LOCAL_WRITE);
	CHECK_SYS(ibv_query_port(verbs(s), 1, &port));
	longest = 128 << port.active_mtu;
	mtu = mtu && mtu < longest ? mtu : longest;
}

void open_devices(void)
{
	static const struct ep_attr attr = { .send_wr = 1, .recv_wr = 1 };

	numbers_make(&b, &where, &attr, &attr);
	open_side(&a, &b.a);
	open_side(&p, &b.p);
}

void close_devices(void)
{
	CHECK_SYS(ibv_dereg_mr(a.mr));
	CHECK_SYS(ibv_dereg_mr(p.mr));
	both_destroy(&b);
}

struct ibv_qp *ud_qp(struct side *s, const struct how *how, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = s->scq, .recv_cq = s->rcq, .srq = srq,
		.cap = { how->wr, how->wr, how->sge, how->sge, how->inline_data },
		.qp_type = IBV_QPT_UD, .sq_sig_all = how->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = s->ep->pd,
	};
	struct ibv_qp *qp;

	if (how->send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = how->send_ops;
	}
	/* Without these flags it is the older function that is called. */
	qp = ibv_create_qp_ex(verbs(s), &attr);
	if (qp)
		s->cap = attr.cap;
	return qp;
}

static void make_probe(struct side *s)
{
	struct side probe = *s;

	probe.qkey = PROBE_QKEY;
	probe.scq = probe.rcq = ibv_create_cq(verbs(s), 4, NULL, NULL, 0);
	CHECK(probe.scq, "completion queue: %m");
	probe.qp = ud_qp(&probe, &usual, NULL);
	CHECK(probe.qp, "queue pair: %m");
	ready(&probe);
	s->probe = probe.qp;
	s->probe_cq = probe.scq;
}

static void make_side(struct side *s, const struct how *how, struct ibv_srq *srq)
{
	s->cc = ibv_create_comp_channel(verbs(s));
	CHECK(s->cc, "completion channel: %m");
	s->scq = ibv_create_cq(verbs(s), 4 * PLACES, NULL, s->cc, 0);
	s->rcq = ibv_create_cq(verbs(s), 4 * PLACES, NULL, s->cc, 0);
	CHECK(s->scq && s->rcq, "completion queues: %m");
	s->qp = ud_qp(s, how, srq);
	CHECK(s->qp, "queue pair: %m");
	s->is = number_for(s->ep, s->qp);
	make_probe(s);
}

void make(const struct how *how)
{
	make_side(&a, how, NULL);
	make_side(&p, how, how->srq);
	a.ah = address(&a, &p.is.gid);
	p.ah = address(&p, &a.is.gid);
}

void begin(const struct how *how)
{
	make(how);
	ready(&a);
	ready(&p);
}

static void unmake_side(struct side *s)
{
	CHECK_SYS(ibv_destroy_ah(s->ah));
	CHECK_SYS(ibv_destroy_qp(s->qp));
	CHECK_SYS(ibv_destroy_qp(s->probe));
	CHECK_SYS(ibv_destroy_cq(s->probe_cq));
	CHECK_SYS(ibv_destroy_cq(s->scq));
	CHECK_SYS(ibv_destroy_cq(s->rcq));
	CHECK_SYS(ibv_destroy_comp_channel(s->cc));
}

void unmake(void)
{
	unmake_side(&a);
	unmake_side(&p);
}

int to_init(struct side *s, uint32_t qkey)
{
	struct ibv_qp_attr qa = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };

	return ibv_modify_qp(s->qp, &qa, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_QKEY);
}

int to_rts(struct side *s, uint32_t psn)
{
	struct ibv_qp_attr qa = { .qp_state = IBV_QPS_RTS, .sq_psn = psn };

	return ibv_modify_qp(s->qp, &qa, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int set_qkey(struct side *s, uint32_t qkey)
{
	struct ibv_qp_attr qa = { .qkey = qkey };

	return ibv_modify_qp(s->qp, &qa, IBV_QP_QKEY);
}

void ready(struct side *s)
{
	CHECK(!to_init(s, s->qkey), "INIT: %m");
	CHECK(!to_state(s->qp, IBV_QPS_RTR), "RTR: %m");
	CHECK(!to_rts(s, s->is.psn), "RTS: %m");
}

void state_is(struct side *s, enum ibv_qp_state want)
{
	enum ibv_qp_state state = wait_state(s->qp, want, 5000);

	expect(state == want, "state %d instead of %d", state, want);
}

struct ibv_ah *address(const struct side *from, const union ibv_gid *to)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = *to, .sgid_index = from->is.index, .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(from->ep->pd, &attr);

	CHECK(ah, "address handle: %m");
	return ah;
}

char *out(const struct side *s, unsigned int n)
{
	return s->buf + n * PLACE;
}

char *in(const struct side *s, unsigned int n)
{
	return s->buf + (PLACES + 1 + n) * PLACE;
}

void fill(const struct side *s, unsigned int n, uint32_t len)
{
	static uint8_t other;
	uint32_t i;

	other += 37;
	for (i = 0; i < len; i++)
		out(s, n)[i] = other + i * 7 + i / 251;
}

struct ibv_send_wr message(const struct side *from, const struct side *to, unsigned int n,
			   uint32_t len, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ (uintptr_t)out(from, n), len, from->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = n, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { from->ah, to->qp->qp_num, to->qkey },
	};
}

int post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(s->qp, wr, &bad);
}

void send_to(struct side *from, const struct side *to, unsigned int n, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = message(from, to, n, len, &sge);

	fill(from, n, len);
	CHECK(!post(from, &wr), "post: %m");
}

void receive(struct side *s, unsigned int n, uint32_t octets)
{
	struct ibv_sge sge = { (uintptr_t)in(s, n), octets, s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	memset(in(s, n), 0xee, PLACE);
	CHECK(!ibv_post_recv(s->qp, &wr, &bad), "post: %m");
}

struct ibv_wc ends(struct ibv_cq *cq, enum ibv_wc_status want, uint64_t id)
{
	struct ibv_wc wc = { };

	if (!expect(ep_poll(cq, &wc, EP_EVENT_MS), "no completion of request %lu", id))
		return wc;
	expect(wc.status == want && wc.wr_id == id, "request %lu: %s; not request %lu: %s",
	       wc.wr_id, ibv_wc_status_str(wc.status), id, ibv_wc_status_str(want));
	return wc;
}

void sent(struct side *s, unsigned int n)
{
	struct ibv_wc wc = ends(s->scq, IBV_WC_SUCCESS, n);

	expect(wc.opcode == IBV_WC_SEND && wc.qp_num == s->qp->qp_num, "opcode %u of %#x",
	       wc.opcode, wc.qp_num);
}

struct ibv_wc arrives(const struct side *from, struct side *to, unsigned int n, uint32_t len)
{
	const struct ibv_grh *grh = (void *)in(to, n);
	struct ibv_wc wc = ends(to->rcq, IBV_WC_SUCCESS, n);

	expect(wc.opcode == IBV_WC_RECV && wc.byte_len == GRH + len, "opcode %u, %u octets",
	       wc.opcode, wc.byte_len);
	expect(wc.qp_num == to->qp->qp_num && wc.src_qp == from->qp->qp_num,
	       "from %#x to %#x", wc.src_qp, wc.qp_num);
	expect(wc.wc_flags & IBV_WC_GRH, "flags %#x", wc.wc_flags);
	expect(!memcmp(&grh->sgid, &from->is.gid, sizeof(grh->sgid)), "another sender's GID");
	expect(!memcmp(&grh->dgid, &to->is.gid, sizeof(grh->dgid)), "another receiver's GID");
	expect(grh->next_hdr == 0x1b && ntohl(grh->version_tclass_flow) >> 28 == 6,
	       "a header of type %#x, %#x", grh->next_hdr, ntohl(grh->version_tclass_flow));
	expect(!memcmp(in(to, n) + GRH, out(from, n), len), "other octets");
	expect(in(to, n)[GRH + len] == (char)0xee, "more octets");
	return wc;
}

void talk(struct side *from, struct side *to, uint32_t len)
{
	receive(to, 0, ROOM);
	send_to(from, to, 0, len);
	sent(from, 0);
	arrives(from, to, 0, len);
}

void passed(struct side *from, struct side *to)
{
	struct ibv_sge sge = { (uintptr_t)in(to, PLACES), ROOM, to->mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { from->ah, to->probe->qp_num, PROBE_QKEY },
	};

	CHECK_SYS(ibv_post_recv(to->probe, &recv, &bad_recv));
	CHECK_SYS(ibv_post_send(from->probe, &wr, &bad));
	ep_done(from->probe_cq, IBV_WC_SUCCESS);
	ep_done(to->probe_cq, IBV_WC_SUCCESS);
}

bool nothing(struct ibv_cq *cq, int ms)
{
	struct ibv_wc wc;

	return !ep_poll(cq, &wc, ms) ||
	       expect(false, "a completion of request %lu: %s", wc.wr_id,
		      ibv_wc_status_str(wc.status));
}

void lost(struct side *from, struct side *to)
{
	passed(from, to);
	nothing(to->rcq, 0);
}

/* The other side may have its events in the same place. */
void no_event(struct side *s)
{
	struct ibv_async_event ev;

	while (async_event(verbs(s), &ev, 0))
		expect(ev.element.qp != s->qp, "event %d", ev.event_type);
}

/* ---- states --------------------------------------------------------------- */

static void shows(struct side *s, enum ibv_qp_state state, uint32_t qkey)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	CHECK_SYS(ibv_query_qp(s->qp, &qa, EVERYTHING, &ia));
	expect(qa.qp_state == state && qa.qkey == qkey, "state %d, Q_Key %#x, not %d, %#x",
	       qa.qp_state, qa.qkey, state, qkey);
	expect(!memcmp(&qa.cap, &s->cap, sizeof(s->cap)) &&
	       !memcmp(&ia.cap, &s->cap, sizeof(s->cap)), "other sizes");
	expect(ia.qp_type == IBV_QPT_UD && ia.send_cq == s->scq && ia.recv_cq == s->rcq,
	       "another queue pair");
}

static void refuses(struct side *s, enum ibv_qp_state to)
{
	int err = to_state(s->qp, to);

	expect(err == EINVAL, "a step to state %d: %s", to, strerror(err));
}

static void numbers(void)
{
	make(&usual);
	expect(a.qp->qp_num >= FIRST_NUMBER && a.qp->qp_num <= LAST_NUMBER &&
	       p.qp->qp_num >= FIRST_NUMBER && p.qp->qp_num <= LAST_NUMBER, "%#x, %#x",
	       a.qp->qp_num, p.qp->qp_num);
	expect(verbs(&a) != verbs(&p) || a.qp->qp_num != p.qp->qp_num, "the same number");
	expect(b.a.id->qp->qp_num < FIRST_NUMBER && b.p.id->qp->qp_num < FIRST_NUMBER,
	       "of a queue pair with a stream: %#x, %#x", b.a.id->qp->qp_num,
	       b.p.id->qp->qp_num);
	expect(a.cap.max_send_wr >= 16 && a.cap.max_recv_wr >= 16 && a.cap.max_send_sge >= 4 &&
	       a.cap.max_recv_sge >= 4 && a.cap.max_inline_data >= 64, "smaller than asked for");
	unmake();
}

static void steps(void)
{
	struct ibv_qp_attr qa = { .qp_state = IBV_QPS_ERR, .cur_qp_state = IBV_QPS_INIT };
	struct ibv_qp_init_attr ia;

	make(&usual);
	state_is(&a, IBV_QPS_RESET);
	refuses(&a, IBV_QPS_RTR);
	refuses(&a, IBV_QPS_RTS);
	refuses(&a, IBV_QPS_SQD);
	/* There is no default for the Q_Key. */
	refuses(&a, IBV_QPS_INIT);
	state_is(&a, IBV_QPS_RESET);
	CHECK(!to_init(&a, 0x111), "INIT: %m");
	shows(&a, IBV_QPS_INIT, 0x111);
	refuses(&a, IBV_QPS_RTS);
	refuses(&a, IBV_QPS_SQD);
	refuses(&a, IBV_QPS_SQE);
	CHECK(!to_init(&a, 0x222), "INIT: %m");
	shows(&a, IBV_QPS_INIT, 0x222);
	CHECK(!to_state(a.qp, IBV_QPS_RTR), "RTR: %m");
	shows(&a, IBV_QPS_RTR, 0x222);
	refuses(&a, IBV_QPS_INIT);
	refuses(&a, IBV_QPS_SQD);
	CHECK(!to_rts(&a, 0x123456), "RTS: %m");
	shows(&a, IBV_QPS_RTS, 0x222);
	CHECK_SYS(ibv_query_qp(a.qp, &qa, EVERYTHING, &ia));
	expect(qa.sq_psn == 0x123456, "PSN %#x", qa.sq_psn);
	refuses(&a, IBV_QPS_INIT);
	refuses(&a, IBV_QPS_RTR);
	refuses(&a, IBV_QPS_SQD);
	refuses(&a, IBV_QPS_SQE);

	part("what stays in RTS and what does not");
	CHECK(!set_qkey(&a, 0x333), "Q_Key: %m");
	shows(&a, IBV_QPS_RTS, 0x333);
	qa.qp_state = IBV_QPS_ERR;
	qa.cur_qp_state = IBV_QPS_INIT;
	expect(ibv_modify_qp(a.qp, &qa, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL,
	       "a step from another state");
	qa.cap = a.cap;
	qa.cap.max_send_wr *= 2;
	expect(ibv_modify_qp(a.qp, &qa, IBV_QP_CAP) == EOPNOTSUPP, "another depth");
	shows(&a, IBV_QPS_RTS, 0x333);
	CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
	shows(&a, IBV_QPS_ERR, 0x333);
	refuses(&a, IBV_QPS_INIT);
	refuses(&a, IBV_QPS_RTR);
	refuses(&a, IBV_QPS_RTS);
	CHECK(!to_state(a.qp, IBV_QPS_ERR), "ERR: %m");
	CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
	state_is(&a, IBV_QPS_RESET);
	refuses(&a, IBV_QPS_INIT);
	ready(&a);
	ready(&p);
	talk(&a, &p, 64);
	talk(&p, &a, 64);
	unmake();
}

/* ---- messages ------------------------------------------------------------- */

/* One message each way, into a receive that it fills and into a longer one. */
static void lengths(void)
{
	const uint32_t length[] = { 0, 1, 2, 3, 4, 5, 1023, mtu - 1, mtu };
	unsigned int i;

	begin(&usual);
	expect(mtu >= 1024 && mtu <= LONGEST, "MTU %u", mtu);
	for (i = 0; i < COUNT(length); i++) {
		receive(&p, 1, GRH + length[i]);
		send_to(&a, &p, 1, length[i]);
		sent(&a, 1);
		arrives(&a, &p, 1, length[i]);
		talk(&p, &a, length[i]);
	}
	no_event(&a);
	no_event(&p);
	unmake();
}

/* What the address handle says of the way is in the header. */
static void ways(void)
{
	static const struct { uint8_t class, hops, shown; } way[] = {
		{ 0x28, 17, 17 }, { 0xb8, 255, 255 }, { 0, 1, 1 },
		/* That of the host. */
		{ 0, 0, 64 },
	};
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	const struct ibv_grh *grh;
	struct side other;
	unsigned int i;

	begin(&usual);
	attr.grh.dgid = p.is.gid;
	attr.grh.sgid_index = a.is.index;
	grh = (void *)in(&p, 0);
	for (i = 0; i < COUNT(way); i++) {
		attr.grh.traffic_class = way[i].class;
		attr.grh.hop_limit = way[i].hops;
		other = a;
		other.ah = ibv_create_ah(a.ep->pd, &attr);
		CHECK(other.ah, "address handle: %m");
		talk(&other, &p, 64);
		expect((ntohl(grh->version_tclass_flow) >> 20 & 0xff) == way[i].class &&
		       grh->hop_limit == way[i].shown, "%#x, hop limit %u",
		       ntohl(grh->version_tclass_flow), grh->hop_limit);
		CHECK_SYS(ibv_destroy_ah(other.ah));
	}
	unmake();
}

static void run(void)
{
	if (wait_ms || later || floods) {
		open_devices();
		if (wait_ms)
			wait_for_strangers(wait_ms);
		else if (later)
			follow_address(later);
		else
			flood();
		return;
	}
	part("a process with queue pairs is killed");
	killed();
	open_devices();
	part("numbers");
	numbers();
	part("the steps to RTS");
	steps();
	part("messages of all lengths");
	lengths();
	part("traffic class and hop limit");
	ways();
	requests();
	failures();
	resets();
	part("many messages");
	many();
	if (silent)
		silent_neighbours(silent);
	part("the devices are closed");
	close_devices();
}

const struct prog prog = {
	.name = "datagrams",
	.text = "Queue pairs for unreliable datagrams.\n",
	.kind = PROG_HERE,
	.port = 20060,
	.limit = 300,
	.run = run,
	.table = options,
};
