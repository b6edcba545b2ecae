// SPDX-License-Identifier: GPL-2.0
/*
 * One round of integrity: both plans run at once in both directions,
 * then every byte of the memory in use is compared with what it must be.
 */
#include "integrity.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#define CANARY 0xa5
#define SCRIBBLE 0xee
#define STALL_MS 20000

struct keys {
	uint64_t addr[REGIONS];
	uint32_t rkey[REGIONS][2];
};

static struct keys peer_keys;

static const int region_access[REGIONS] = {
	[R_SRC] = 0,
	[R_RECV] = IBV_ACCESS_LOCAL_WRITE,
	[R_TARGET] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ,
	[R_READ] = IBV_ACCESS_REMOTE_READ,
	/* No REMOTE_WRITE: a sink of Reads needs none (T-22). */
	[R_SINK] = IBV_ACCESS_LOCAL_WRITE,
};

void side_init(struct side *s)
{
	struct keys keys;
	int r, k;

	s->shadow = ep_pages(REGION);
	for (r = 0; r < REGIONS; r++) {
		s->mem[r] = ep_pages(REGION);
		keys.addr[r] = (uintptr_t)s->mem[r];
		for (k = 0; k < 2; k++) {
			s->mr[r][k] = ep_reg(&s->ep, s->mem[r], REGION,
					     region_access[r]);
			keys.rkey[r][k] = s->mr[r][k]->rkey;
		}
	}
	ep_exchange(s->pair, &keys, &peer_keys, sizeof(keys));
}

void side_exit(struct side *s)
{
	int r, k;

	for (r = 0; r < REGIONS; r++) {
		for (k = 0; k < 2; k++)
			CHECK_SYS(ibv_dereg_mr(s->mr[r][k]));
		munmap(s->mem[r], REGION);
	}
	munmap(s->shadow, REGION);
}

/* Runs `fn` over the segments of an op, with the offset in the message. */
static void scatter(uint8_t *base, const struct seg *seg, int n, uint32_t len,
		    uint64_t key)
{
	uint32_t at = 0, part;

	for (; n && at < len; n--, seg++, at += part) {
		part = seg->len < len - at ? seg->len : len - at;
		pattern_fill(base + seg->off, at, part, key);
	}
}

static void check_placed(struct side *s, const char *what, uint64_t round,
			 unsigned int idx, const struct op *op,
			 const uint8_t *base, const struct seg *seg, int n)
{
	uint32_t at = 0, part;
	int64_t bad;

	for (; n && at < op->len; n--, seg++, at += part) {
		part = seg->len < op->len - at ? seg->len : op->len - at;
		bad = pattern_check(base + seg->off, at, part, op->key);
		CHECK(bad < 0,
		      "round %lu: %s: op %u (%s, %u bytes) has %#x at byte %lu, offset %lu in memory",
		      round, what, idx, op_name(op->kind), op->len,
		      base[seg->off + bad], at + bad, seg->off + bad);
	}
	(void)s;
}

static void check_write(struct side *s, const char *what, uint64_t round,
			unsigned int idx, const struct op *op)
{
	struct seg seg = { op->roff, op->len, 0 };

	check_placed(s, what, round, idx, op, s->mem[R_TARGET], &seg, 1);
}

static void scribble(struct side *s, const struct op *op)
{
	unsigned int i;

	for (i = 0; i < op->nsge; i++)
		memset(s->mem[R_SRC] + op->sge[i].off, SCRIBBLE,
		       op->sge[i].len);
}

static bool is_send(const struct op *op)
{
	return op->kind <= OP_SEND_INV;
}

static bool is_read(const struct op *op)
{
	return op->kind == OP_READ || op->kind == OP_READBACK;
}

struct progress {
	const struct plan *mine, *theirs;
	uint64_t round;
	unsigned int next, done;	/* of my ops: posted, completed */
	unsigned int run;		/* unsignalled posts in a row */
	bool sig[MAX_OPS];
	unsigned int got;		/* of their ops, up to the last Send */
	unsigned int received;		/* receive completions */
	uint32_t inval[MAX_OPS];	/* the peer's keys for Send with Inv. */
};

static void post_recvs(struct side *s, const struct plan *theirs)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_recv_wr wr, *bad;
	unsigned int i, k;

	for (i = 0; i < theirs->n; i++) {
		const struct op *op = &theirs->op[i];

		if (!is_send(op))
			continue;
		for (k = 0; k < op->nrsge; k++)
			sge[k] = (struct ibv_sge){
				(uintptr_t)s->mem[R_RECV] + op->rsge[k].off,
				op->rsge[k].len,
				s->mr[R_RECV][op->rsge[k].mr]->lkey,
			};
		wr = (struct ibv_recv_wr){ .wr_id = i, .sg_list = sge,
					   .num_sge = op->nrsge };
		CHECK(!ibv_post_recv(s->ep.id->qp, &wr, &bad),
		      "post receive %u: %m", i);
	}
}

static void build_wr(struct side *s, struct progress *p, unsigned int idx,
		     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	static const enum ibv_wr_opcode opcode[OP_KINDS] = {
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_INV,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ,
	};
	const struct op *op = &p->mine->op[idx];
	enum region local = is_read(op) ? R_SINK : R_SRC;
	enum region remote = op->kind == OP_READ ? R_READ : R_TARGET;
	unsigned int k;

	for (k = 0; k < op->nsge; k++)
		sge[k] = (struct ibv_sge){
			(uintptr_t)s->mem[local] + op->sge[k].off,
			op->sge[k].len,
			op->inlined ? 0xdeadbeef :
				      s->mr[local][op->sge[k].mr]->lkey,
		};
	*wr = (struct ibv_send_wr){
		.wr_id = idx, .sg_list = sge, .num_sge = op->nsge,
		.opcode = opcode[op->kind],
	};
	if (!op->len && op->key & 1)
		wr->num_sge = 0;
	if (op->kind == OP_SEND_INV) {
		wr->invalidate_rkey = p->inval[idx];
		/* Where the siw provider of rdma-core looks for the key. */
		wr->wr.rdma.rkey = p->inval[idx];
	} else if (!is_send(op)) {
		wr->wr.rdma.remote_addr = peer_keys.addr[remote] + op->roff;
		wr->wr.rdma.rkey = peer_keys.rkey[remote][op->key >> 1 & 1];
	}
	p->sig[idx] = op->signaled || idx == p->mine->n - 1 ||
		      p->run + 1 >= s->opt->depth / 2;
	p->run = p->sig[idx] ? 0 : p->run + 1;
	wr->send_flags = (p->sig[idx] ? IBV_SEND_SIGNALED : 0) |
			 (op->inlined ? IBV_SEND_INLINE : 0) |
			 (op->fence ? IBV_SEND_FENCE : 0) |
			 (op->kind == OP_SEND_SE ? IBV_SEND_SOLICITED : 0);
	s->st.ops[op->kind]++;
	s->st.bytes += op->len;
	s->st.inlined += op->inlined;
	s->st.unsignaled += !p->sig[idx];
}

/* Posts a list of one to four requests where the queue has room. */
static bool post_some(struct side *s, struct progress *p)
{
	struct ibv_send_wr wr[4], *bad;
	struct ibv_sge sge[4][MAX_SGE];
	unsigned int i, n, room = s->opt->depth - (p->next - p->done);
	int rv;

	n = 1 + (p->mine->op[p->next % MAX_OPS].key >> 8) % 4;
	if (n > p->mine->n - p->next)
		n = p->mine->n - p->next;
	if (n > room)
		n = room;
	if (!n)
		return false;
	for (i = 0; i < n; i++) {
		build_wr(s, p, p->next + i, &wr[i], sge[i]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	rv = ibv_post_send(s->ep.id->qp, wr, &bad);
	CHECK(!rv, "round %lu: post of op %u: %s", p->round, p->next,
	      strerror(rv));
	for (i = 0; i < n; i++, p->next++)
		if (p->mine->op[p->next].inlined)
			scribble(s, &p->mine->op[p->next]);
	return true;
}

/* An op of mine is complete: its source is mine again (T-19). */
static void op_done(struct side *s, struct progress *p, unsigned int idx)
{
	const struct op *op = &p->mine->op[idx];

	if (is_read(op))
		check_placed(s, "sink of a read", p->round, idx, op,
			     s->mem[R_SINK], op->sge, op->nsge);
	else
		scribble(s, op);
}

static void on_send_wc(struct side *s, struct progress *p,
		       const struct ibv_wc *wc)
{
	unsigned int idx = p->done;
	const struct op *op;
	enum ibv_wc_opcode want;

	while (idx < p->next && !p->sig[idx])
		idx++;
	CHECK(wc->status == IBV_WC_SUCCESS, "round %lu: op %lu: %s", p->round,
	      wc->wr_id, ibv_wc_status_str(wc->status));
	CHECK(idx < p->next && wc->wr_id == idx,
	      "round %lu: completion of op %lu, expected %u (posted %u)",
	      p->round, wc->wr_id, idx, p->next);
	op = &p->mine->op[idx];
	want = is_send(op) ? IBV_WC_SEND :
	       is_read(op) ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
	CHECK(wc->opcode == want, "round %lu: op %u (%s) completes as %d",
	      p->round, idx, op_name(op->kind), wc->opcode);
	CHECK(wc->qp_num == s->ep.id->qp->qp_num, "completion of QP %u",
	      wc->qp_num);
	for (; p->done <= idx; p->done++)
		op_done(s, p, p->done);
}

static void on_recv_wc(struct side *s, struct progress *p,
		       const struct ibv_wc *wc)
{
	unsigned int idx = p->got;
	const struct op *op;

	CHECK(wc->status == IBV_WC_SUCCESS, "round %lu: receive %lu: %s",
	      p->round, wc->wr_id, ibv_wc_status_str(wc->status));
	for (; idx < p->theirs->n && !is_send(&p->theirs->op[idx]); idx++)
		/* Placed before the Send that follows is delivered. */
		if (p->theirs->op[idx].kind == OP_WRITE)
			check_write(s, "write before a received send",
				    p->round, idx, &p->theirs->op[idx]);
	CHECK(idx < p->theirs->n && wc->wr_id == idx,
	      "round %lu: receive completion %lu, expected %u", p->round,
	      wc->wr_id, idx);
	op = &p->theirs->op[idx];
	CHECK(wc->opcode == IBV_WC_RECV, "receive completes as %d", wc->opcode);
	CHECK(wc->byte_len == op->len, "round %lu: receive %u: %u bytes of %u",
	      p->round, idx, wc->byte_len, op->len);
	check_placed(s, "receive buffer", p->round, idx, op, s->mem[R_RECV],
		     op->rsge, op->nrsge);
	p->got = idx + 1;
	p->received++;
}

static unsigned int reap(struct side *s, struct progress *p)
{
	struct ibv_wc wc[8];
	int i, n, all = 0;

	n = ibv_poll_cq(s->ep.rcq, 8, wc);
	CHECK(n >= 0, "poll receive CQ: %d", n);
	for (i = 0; i < n; i++)
		on_recv_wc(s, p, &wc[i]);
	all += n;
	n = ibv_poll_cq(s->ep.scq, 1 + p->round % 8, wc);
	CHECK(n >= 0, "poll send CQ: %d", n);
	for (i = 0; i < n; i++)
		on_send_wc(s, p, &wc[i]);
	return all + n;
}

static void wait_event(struct side *s, struct progress *p)
{
	struct pollfd f = { .fd = s->ep.cc->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	CHECK_SYS(ibv_req_notify_cq(s->ep.rcq, 0));
	CHECK_SYS(ibv_req_notify_cq(s->ep.scq, 0));
	if (reap(s, p))
		return;
	CHECK(poll(&f, 1, STALL_MS) == 1,
	      "round %lu: no event; posted %u, done %u of %u, received %u of %u; %u completions were waiting",
	      p->round, p->next, p->done, p->mine->n, p->received,
	      p->theirs->sends, reap(s, p));
	CHECK_SYS(ibv_get_cq_event(s->ep.cc, &cq, &ctx));
	ibv_ack_cq_events(cq, 1);
}

/* What counts of a region in this round: what is used, and a bit behind. */
static uint32_t span(uint32_t used)
{
	return used + 64 < REGION ? used + 64 : REGION;
}

/* The whole image of a sink region, with what lies between the buffers. */
static void check_image(struct side *s, enum region r, uint32_t used,
			const char *name, uint64_t round)
{
	uint32_t i, len = span(used);

	if (!memcmp(s->mem[r], s->shadow, len))
		return;
	for (i = 0; s->mem[r][i] == s->shadow[i];)
		i++;
	DIE("round %lu: %s memory has %#x instead of %#x at offset %u", round,
	    name, s->mem[r][i], s->shadow[i], i);
}

static void check_images(struct side *s, const struct progress *p)
{
	const struct op *op;
	unsigned int i;

	memset(s->shadow, CANARY, span(p->theirs->used[1][R_TARGET]));
	for (i = 0; i < p->theirs->n; i++) {
		op = &p->theirs->op[i];
		if (op->kind == OP_WRITE)
			pattern_fill(s->shadow + op->roff, 0, op->len, op->key);
	}
	check_image(s, R_TARGET, p->theirs->used[1][R_TARGET], "write target",
		    p->round);
	memset(s->shadow, CANARY, span(p->theirs->used[1][R_RECV]));
	for (i = 0; i < p->theirs->n; i++) {
		op = &p->theirs->op[i];
		if (is_send(op))
			scatter(s->shadow, op->rsge, op->nrsge, op->len,
				op->key);
	}
	check_image(s, R_RECV, p->theirs->used[1][R_RECV], "receive",
		    p->round);
	memset(s->shadow, CANARY, span(p->mine->used[0][R_SINK]));
	for (i = 0; i < p->mine->n; i++) {
		op = &p->mine->op[i];
		if (is_read(op))
			scatter(s->shadow, op->sge, op->nsge, op->len, op->key);
	}
	check_image(s, R_SINK, p->mine->used[0][R_SINK], "read sink",
		    p->round);
}

static void fill_memory(struct side *s, const struct plan *mine,
			const struct plan *theirs)
{
	const struct op *op;
	unsigned int i;

	memset(s->mem[R_TARGET], CANARY, span(theirs->used[1][R_TARGET]));
	memset(s->mem[R_RECV], CANARY, span(theirs->used[1][R_RECV]));
	memset(s->mem[R_SINK], CANARY, span(mine->used[0][R_SINK]));
	for (i = 0; i < mine->n; i++) {
		op = &mine->op[i];
		if (!is_read(op))
			scatter(s->mem[R_SRC], op->sge, op->nsge, op->len,
				op->key);
	}
	for (i = 0; i < theirs->n; i++) {
		op = &theirs->op[i];
		if (op->kind == OP_READ)
			pattern_fill(s->mem[R_READ] + op->roff, 0, op->len,
				     op->key);
	}
}

void run_round(struct side *s, const struct plan *mine,
	       const struct plan *theirs, enum wait_mode mode, uint64_t round)
{
	struct progress p = { .mine = mine, .theirs = theirs, .round = round };
	struct ibv_mr *victim[MAX_OPS] = { 0 };
	uint32_t inval[MAX_OPS] = { 0 };
	uint64_t last = ep_now_ns();
	unsigned int i;

	ep_phase("round %lu, %u and %u operations", round, mine->n, theirs->n);
	fill_memory(s, mine, theirs);
	post_recvs(s, theirs);
	for (i = 0; i < theirs->n; i++)
		if (theirs->op[i].kind == OP_SEND_INV) {
			victim[i] = ep_reg(&s->ep, s->mem[R_TARGET], SMALL_PAGE,
					   IBV_ACCESS_LOCAL_WRITE |
					   IBV_ACCESS_REMOTE_WRITE);
			inval[i] = victim[i]->rkey;
		}
	ep_exchange(s->pair, inval, p.inval, sizeof(inval));

	while (p.done < mine->n || p.received < theirs->sends) {
		bool moved = p.next < mine->n && post_some(s, &p);

		if (reap(s, &p) || moved) {
			last = ep_now_ns();
			continue;
		}
		if (mode == WAIT_EVENT)
			wait_event(s, &p);
		else
			sched_yield();
		CHECK(ep_now_ns() - last < STALL_MS * 1000000ull,
		      "round %lu stalls: posted %u, done %u of %u, received %u of %u",
		      round, p.next, p.done, mine->n, p.received,
		      theirs->sends);
	}
	/* Plans end behind their last Write, so by now all of it is placed. */
	ep_sync(s->pair);
	check_images(s, &p);
	for (i = 0; i < theirs->n; i++)
		if (victim[i])
			CHECK_SYS(ibv_dereg_mr(victim[i]));
	s->st.rounds++;
	ep_sync(s->pair);
}
