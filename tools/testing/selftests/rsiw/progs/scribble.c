// SPDX-License-Identifier: GPL-2.0
/*
 * scribble: what a process can do with the queues it has mapped. Connections
 * carry traffic while two threads, and a forked child, write whatever they like
 * into the rings of both ends, also while these go away. Memory that nobody
 * granted has to stay as it is; whoever uses the device beside this process
 * must not notice (others look after that).
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rsiw-abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"
#include "raw.h"
#include "scribble/ring.h"

static unsigned int seconds = 5, least = 20;

/* Of memory; those of rings may be larger. */
#define PAGE 4096
#define REGION (16 * PAGE)
static size_t page;
/*
 * With depths that give rings of different numbers of pages, if these are of 4 KiB; of others, so
 * many times these depths do.
 */
static struct form stock_form = {
	.sqe = 120, .rqe = 112, .cqe = 32, .sqe_sge = 24, .rqe_sge = 16, .max_sge = 6,
	.sq_depth = 128, .rq_depth = 64, .cq_depth = 256, .srq_depth = 256,
	.sq_pages = 4, .rq_pages = 2, .cq_pages = 3, .srq_pages = 7,
};
static struct form own_form = {
	.own = true,
	.sqe = sizeof(struct rsiw_sqe), .rqe = sizeof(struct rsiw_rqe),
	.cqe = sizeof(struct rsiw_cqe), .sqe_sge = offsetof(struct rsiw_sqe, sge),
	.rqe_sge = offsetof(struct rsiw_rqe, sge), .max_sge = RSIW_MAX_SGE,
	.sq_depth = 128, .rq_depth = 32, .cq_depth = 256, .srq_depth = 256,
	.sq_pages = 10, .rq_pages = 3, .cq_pages = 5, .srq_pages = 17,
};
const struct form *form;
static bool own;
/* One connection is attacked for so long if it lasts, longer on a slow machine. */
#define ROUND_MS 100
/* What is sent before, each way. */
#define BEFORE 4

/*
 * Of each end, in one piece: memory nobody registered, the region, memory
 * nobody registered, a region nobody may write to, one of another domain.
 */
enum {
	CANARY = 0,
	GRANTED = PAGE,
	BEHIND = GRANTED + REGION,
	LOCKED = BEHIND + PAGE,
	FOREIGN = LOCKED + PAGE,
	TOTAL = FOREIGN + PAGE
};

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *other;
	uint8_t *mem;
	struct ibv_mr *mr, *locked, *foreign;
	struct ibv_srq *srq;
	struct ibv_mw *mw;		/* of own rings only */
	/* Of the round: */
	struct ep *ep;
	struct ring *sq, *rq;
	struct ring *cq[2];
	uint32_t put, rput, get[2];
	uint32_t sq_depth, rq_depth;	/* at the moment: rings are as long at most */
};

static struct side side[2];		/* the connecting one first */
static uint64_t seed;
static struct pool pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring rings[MAX_RINGS];	/* under the lock */
static unsigned int ring_count;
/* The shared receive queues, which come first and stay: of side 0, of side 1. */
static unsigned int shared;
static unsigned int live;		/* how many of them are attacked */
static bool gentle;			/* with values that may be right */
static bool over;
static unsigned long acts[2], posted, completed, failed, rounds, forks, resizes;

static void *vandal(void *arg)
{
	unsigned int me = (uintptr_t)arg, i;
	uint64_t s = seed * 2 + me + 1;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		/* In turns, quiet and not: an error ends a connection at once. */
		unsigned int burst = 1u << rnd(&s) % 8;

		pthread_mutex_lock(&lock);
		for (i = 0; live && i < burst; i++, acts[me]++)
			(gentle ? swap_right : scribble)(
				&rings[rnd(&s) % live], &pool, &s);
		pthread_mutex_unlock(&lock);
		if (rnd(&s) % 4 == 0)
			usleep(rnd(&s) % 3000);
		else
			sched_yield();
	}
	return NULL;
}

static void check(const struct side *s, size_t from, size_t len,
		  const char *what)
{
	size_t i;

	for (i = from; i < from + len; i++)
		CHECK(s->mem[i] == 0xc5, "%s was written to, byte %zu", what,
		      i - from);
}

static void check_all(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		check(&side[i], CANARY, PAGE, "memory before the region");
		check(&side[i], BEHIND, PAGE, "memory behind the region");
		check(&side[i], LOCKED, PAGE, "a region without any right");
		check(&side[i], FOREIGN, PAGE, "a region of another domain");
	}
}

static void open_side(struct side *s, struct ibv_context *ctx)
{
	struct ibv_srq_init_attr sa = { .attr = { form->srq_depth, form->max_sge, 0 } };

	s->ctx = ctx;
	s->pd = ibv_alloc_pd(ctx);
	s->other = ibv_alloc_pd(ctx);
	CHECK(s->pd && s->other, "alloc PD: %m");
	s->mem = ep_pages(TOTAL);
	memset(s->mem, 0xc5, TOTAL);
	s->mr = ibv_reg_mr(s->pd, s->mem + GRANTED, REGION, own ? ALL_ACCESS |
			   IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_ATOMIC : ALL_ACCESS);
	s->locked = ibv_reg_mr(s->pd, s->mem + LOCKED, PAGE, 0);
	s->foreign = ibv_reg_mr(s->other, s->mem + FOREIGN, PAGE, ALL_ACCESS);
	CHECK(s->mr && s->locked && s->foreign, "register: %m");
	s->srq = ibv_create_srq(s->pd, &sa);
	CHECK(s->srq, "create SRQ: %m");
}

static void close_side(struct side *s)
{
	CHECK_SYS(ibv_destroy_srq(s->srq));
	CHECK_SYS(ibv_dereg_mr(s->mr));
	CHECK_SYS(ibv_dereg_mr(s->locked));
	CHECK_SYS(ibv_dereg_mr(s->foreign));
	CHECK_SYS(ibv_dealloc_pd(s->pd));
	CHECK_SYS(ibv_dealloc_pd(s->other));
}

static void fill_pool(void)
{
	const struct pool p = {
		.key = {
			side[0].mr->lkey, side[1].mr->lkey, side[0].mr->lkey,
			side[1].mr->lkey, side[0].locked->lkey,
			side[1].locked->lkey, side[0].foreign->lkey,
			side[1].foreign->lkey,
		},
		.addr = {
			(uintptr_t)side[0].mem + GRANTED,
			(uintptr_t)side[1].mem + GRANTED,
			(uintptr_t)side[0].mem + GRANTED + PAGE - 32,
			(uintptr_t)side[1].mem + GRANTED + 3 * PAGE,
			(uintptr_t)side[0].mem + BEHIND - 64,
			(uintptr_t)side[1].mem + LOCKED,
			(uintptr_t)side[0].mem + LOCKED,
			(uintptr_t)side[1].mem + FOREIGN,
			(uintptr_t)side[0].mem + FOREIGN,
			0, UINT64_MAX - 63, 0xffff888000000000,
		},
	};

	pool = p;
}

/* Adds the mappings that came to be, as queues of an end. */
static void adopt(struct side *s)
{
	struct ring found[MAX_RINGS];
	unsigned int i, n = new_mappings(found, rings, ring_count), cqs = 0;

	CHECK(ring_count + n <= MAX_RINGS, "too many rings");
	for (i = 0; i < n; i++) {
		struct ring *r = &rings[ring_count++];

		*r = found[i];
		if (r->len == form->sq_pages * page) {
			r->kind = SQ;
			r->entries = form->sq_depth;
			s->sq = r;
		} else if (r->len == form->rq_pages * page) {
			r->kind = RQ;
			r->entries = form->rq_depth;
			s->rq = r;
		} else if (r->len == form->cq_pages * page) {
			r->kind = CQ;
			r->entries = form->cq_depth;
			if (cqs < 2)
				s->cq[cqs++] = r;
		} else if (r->len == form->srq_pages * page) {
			r->kind = SRQ;
			r->entries = form->srq_depth;
			s->rq = r;
		} else if (own && r->len == page) {
			CHECK_SYS(mprotect(r->at, page, PROT_READ | PROT_WRITE));
			r->kind = POLLED;
			r->entries = 1;
		} else {
			DIE("a ring of %zu bytes", r->len);
		}
	}
}

/* A bind of the window of type 1, which may be bound already. */
static void bind_window(struct side *s, void *entry, uint32_t at, uint32_t len)
{
	struct sqe *e = entry;
	struct {
		uint32_t window, region;
		uint64_t length;
		uint32_t access;
	} bind = { s->mw->rkey, s->mr->lkey, len, IBV_ACCESS_REMOTE_WRITE };

	s->mw->rkey = ibv_inc_rkey(s->mw->rkey);
	e->rkey = s->mw->rkey;
	e->raddr = (uintptr_t)s->mem + GRANTED + at;
	memcpy(e + 1, &bind, sizeof(bind));
}

static void post(struct side *s, struct side *to, bool forged, uint64_t *state)
{
	static const uint8_t op[] = {
		SEND_, WRITE_, READ_, SEND_, WRITE_IMM_, FETCH_ADD_, COMP_SWAP_, BIND_,
	};
	uint32_t len = 1 + rnd(state) % 2048, at = rnd(state) % (REGION - len);
	struct sqe *slot = (struct sqe *)(s->sq->at + s->put % s->sq_depth * form->sqe);
	uint8_t entry[MAX_ENTRY] = {};
	struct sqe *e = (struct sqe *)entry;

	*e = (struct sqe){
		.id = s->put++, .num_sge = 1, .opcode = op[rnd(state) % (own ? 8 : 4)],
		.rkey = to->mr->rkey,
		.raddr = (uintptr_t)to->mem + GRANTED + at,
	};
	if (e->opcode == FETCH_ADD_ || e->opcode == COMP_SWAP_) {
		e->raddr &= ~7ull;
		len = 8;
	}
	*elements(SQ, entry) = (struct sge){ (uintptr_t)s->mem + GRANTED + at, len,
					     s->mr->lkey };
	if (e->opcode == BIND_)
		bind_window(s, entry, at, len);
	if (forged)
		forge_sqe(entry, &pool, state);
	e->flags |= SIGNALLED;
	memcpy((char *)slot + 16, entry + 16, form->sqe - 16);
	slot->num_sge = e->num_sge;
	slot->opcode = e->opcode;
	slot->rkey = e->rkey;
	slot->id = e->id;
	__atomic_store_n(&slot->flags, e->flags | VALID, __ATOMIC_RELEASE);
	posted++;
}

static void receives(struct side *s, unsigned int n)
{
	while (n--) {
		struct rqe *slot = (struct rqe *)(s->rq->at +
				   s->rput % s->rq_depth * form->rqe);

		if (__atomic_load_n(&slot->flags, __ATOMIC_ACQUIRE) & VALID)
			return;
		slot->id = s->rput++;
		slot->num_sge = 1;
		*elements(RQ, slot) = (struct sge){ (uintptr_t)s->mem + GRANTED, 4096,
					     s->mr->lkey };
		__atomic_store_n(&slot->flags, VALID, __ATOMIC_RELEASE);
	}
}

static void reap(struct side *s, uint64_t *state)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct cqe *c = (struct cqe *)(s->cq[i]->at +
				s->get[i] % form->cq_depth * form->cqe);

		while (__atomic_load_n(&c->flags, __ATOMIC_ACQUIRE) & VALID) {
			c->status ? failed++ : completed++;
			c->flags = 0;
			c = (struct cqe *)(s->cq[i]->at +
			    ++s->get[i] % form->cq_depth * form->cqe);
			/* What is forged as valid has no end. */
			if (rnd(state) % 64 == 0)
				break;
		}
	}
}

/* A child has the rings as well, and keeps them beyond the end of the QPs. */
static pid_t heir(uint64_t s, unsigned int ms)
{
	uint64_t end = ep_now_ns() + ms * 1000000ull;
	pid_t pid = fork();

	CHECK(pid >= 0, "fork: %m");
	if (pid)
		return pid;
	alarm(30);
	while (ep_now_ns() < end)
		scribble(&rings[rnd(&s) % ring_count], &pool, &s);
	_exit(0);
}

static void begin(struct both *b, uint64_t *state)
{
	struct ep_attr attr[2];
	/* Before there is a connection, or once it has been used. */
	bool early = rnd(state) % 8 == 0;
	struct rdma_cm_id *id;
	unsigned int i;

	memset(b, 0, sizeof(*b));
	for (i = 0; i < 2; i++)
		attr[i] = (struct ep_attr){
			.send_wr = form->sq_depth, .recv_wr = form->rq_depth,
			.send_sge = form->max_sge, .recv_sge = form->max_sge,
			.cqe = form->cq_depth,
			.pd = side[i].pd,
			.srq = rnd(state) % 2 ? side[i].srq : NULL,
		};
	for (i = 0; own && i < 2; i++) {
		side[i].mw = ibv_alloc_mw(side[i].pd, IBV_MW_TYPE_1);
		CHECK(side[i].mw, "window: %m");
		pool.key[8 + i] = side[i].mw->rkey;
	}
	b->a.ec = rdma_create_event_channel();
	CHECK(b->a.ec, "event channel: %m");
	id = active_id(b->a.ec, &listener, &where);
	side[0].ep = &b->a;
	side[1].ep = &b->p;
	pthread_mutex_lock(&lock);
	ep_setup(&b->a, id, &attr[0]);
	adopt(&side[0]);
	live = early ? ring_count : 0;
	pthread_mutex_unlock(&lock);
	CHECK_SYS(rdma_connect(id, &b->a.param));
	/* As ep_accept does it, with the rings taken as they come. */
	id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	b->p.ec = rdma_create_event_channel();
	CHECK(b->p.ec, "event channel: %m");
	CHECK_SYS(rdma_migrate_id(id, b->p.ec));
	pthread_mutex_lock(&lock);
	ep_setup(&b->p, id, &attr[1]);
	adopt(&side[1]);
	live = early ? ring_count : 0;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < 2; i++) {
		if (attr[i].srq)
			side[i].rq = &rings[i];
		side[i].put = side[i].get[0] = side[i].get[1] = 0;
		side[i].sq_depth = form->sq_depth;
		side[i].rq_depth = side[i].rq->entries;
		if (!attr[i].srq)
			side[i].rput = 0;
		receives(&side[i], 32);
	}
	/* An attack on one end may end the set-up of the other. */
	(void)!rdma_accept(id, &b->p.param);
}

/*
 * Maps a ring in the place of the one that there was, of which the rest stays
 * mapped: the others go on writing there.
 */
static void replace(const struct ring *r, uint32_t entries, uint64_t key, int fd)
{
	size_t behind = r->kind == RQ ? sizeof(struct rsiw_rq_ctrl) : 0;
	size_t len = (entries * entry_size(r->kind) + behind + page - 1) / page * page;

	CHECK(len <= r->len, "%zu instead of %zu bytes", len, r->len);
	CHECK(mmap(r->at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, key) ==
	      r->at, "map a ring: %m");
}

/* What is forged as valid may be more than there is room for. */
static bool was_resized(int err)
{
	CHECK(!err || err == EINVAL, "resize: %s", strerror(err));
	resizes += !err;
	return !err;
}

static bool resize_shared(struct side *s, uint32_t depth)
{
	struct rsiw_uresp_resize_srq resp;

	if (!was_resized(raw_resize_srq(s->srq, depth, &resp)))
		return false;
	replace(&rings[s - side], resp.num_rqe, resp.srq_key, s->ctx->cmd_fd);
	return true;
}

/* Other depths for the queues of an end, which are being written to. */
static void resize(struct side *s, uint64_t *state)
{
	uint32_t sq = form->sq_depth >> rnd(state) % 3, rq = s->rq->entries >> rnd(state) % 3;
	bool is_shared = s->rq->kind == SRQ;
	struct rsiw_uresp_resize_qp resp;

	if (is_shared && resize_shared(s, rq))
		s->rq_depth = rq;
	if (!was_resized(raw_resize_qp(s->ep->id->qp, sq, is_shared ? 0 : rq, &resp)))
		return;
	replace(s->sq, resp.num_sqe, resp.sq_key, s->ctx->cmd_fd);
	s->sq_depth = sq;
	if (is_shared)
		return;
	replace(s->rq, resp.num_rqe, resp.rq_key, s->ctx->cmd_fd);
	s->rq_depth = rq;
}

static bool in_error(struct side *s)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	return !ibv_query_qp(s->ep->id->qp, &qa, IBV_QP_STATE, &ia) &&
	       qa.qp_state == IBV_QPS_ERR;
}

/* Whether both threads have done something since `before`. */
static bool attacked(const unsigned long before[2])
{
	bool both;

	pthread_mutex_lock(&lock);
	both = acts[0] > before[0] && acts[1] > before[1];
	pthread_mutex_unlock(&lock);
	return both;
}

static void round_(uint64_t *state)
{
	unsigned long before[2] = { acts[0], acts[1] };
	uint64_t end = 0, n = 0;
	struct both b;
	pid_t child = 0;
	unsigned int i;

	gentle = rnd(state) % 2;
	begin(&b, state);
	if (rnd(state) % 8 == 0) {
		child = heir(rnd(state), ROUND_MS);
		forks++;
	}
	while (n < BEFORE || ep_now_ns() < end || !attacked(before)) {
		bool forged = !gentle && n > BEFORE && rnd(state) % 32 == 0;

		for (i = 0; i < 2; i++) {
			reap(&side[i], state);
			receives(&side[i], 8);
			post(&side[i], &side[!i], forged, state);
			ring_bell(side[i].ctx, side[i].ep->id->qp->handle, &pool, state);
			if (own && n > BEFORE && rnd(state) % 16 == 0)
				resize(&side[i], state);
		}
		if (++n == BEFORE) {
			end = ep_now_ns() + ROUND_MS * 1000000ull;
			pthread_mutex_lock(&lock);
			live = ring_count;
			pthread_mutex_unlock(&lock);
		}
		if (n % 16 == 0 && in_error(&side[0]) && in_error(&side[1]))
			break;
	}
	/* Sometimes in an order, sometimes just gone. */
	if (rnd(state) % 2)
		rdma_disconnect(b.a.id);
	pthread_mutex_lock(&lock);
	ring_count = shared;
	live = 0;
	pthread_mutex_unlock(&lock);
	/* For the next round, which looks for mappings that are new. */
	for (i = 0; own && i < 2; i++)
		while (!resize_shared(&side[i], form->srq_depth))
			;
	/* As long as they are bound the region has to stay. */
	for (i = 0; own && i < 2; i++)
		CHECK_SYS(ibv_dealloc_mw(side[i].mw));
	both_destroy(&b);
	if (child)
		CHECK(waitpid(child, NULL, 0) == child, "wait: %m");
	async_drain(side[0].ctx);
	async_drain(side[1].ctx);
	check_all();
	rounds++;
}

static void open_sides(void)
{
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_cm_id *id = active_id(ec, &listener, &where);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		open_side(&side[i], i ? listener.id->verbs : id->verbs);
		adopt(&side[i]);
	}
	shared = ring_count;
	CHECK(shared == 2, "%u shared receive queues", shared);
	CHECK_SYS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ec);
	fill_pool();
}

/* Sets the form of the rings. */
static void measure(void)
{
	struct form *f = own ? &own_form : &stock_form;
	unsigned int times;

	page = sysconf(_SC_PAGESIZE);
	times = page / 4096;
	f->sq_depth *= times;
	f->rq_depth *= times;
	f->cq_depth *= times;
	f->srq_depth *= times;
	form = f;
}

static void run(void)
{
	pthread_t thread[2];
	uint64_t end, state;
	uintptr_t i;

	measure();
	seed = seed ? seed : (uint64_t)time(NULL);
	printf("seed %lu\n", seed);
	fflush(stdout);
	state = seed;
	open_sides();
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, vandal, (void *)i),
		      "thread");
	end = ep_now_ns() + seconds * 1000000000ull;
	while (rounds < least || ep_now_ns() < end) {
		ep_phase("round %lu of seed %lu", rounds, seed);
		round_(&state);
	}
	over = true;
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < 2; i++)
		close_side(&side[i]);
	printf("%lu rounds, %lu forks, %lu and %lu acts\n", rounds, forks,
	       acts[0], acts[1]);
	printf("%lu requests, %lu completions, %lu in error, %lu resizes\n", posted,
	       completed, failed, resizes);
	CHECK(rounds && acts[0] && acts[1] && posted && completed && (!own || resizes),
	      "nothing was attacked");
}

static const struct opt options[] = {
	{ "own", "", "with the rings of our own library", .flag = &own },
	{ "seed", "N", "of all that is written (default: by the clock; printed)", .num64 = &seed },
	{ "seconds", "N", "how long at least (5)", .num = &seconds, .min = 1, .max = 100000 },
	{ "rounds", "N", "how many connections at least (20)",
	  .num = &least, .min = 1, .max = 1000000 },
	{ }
};

const struct prog prog = {
	.name = "scribble",
	.text =
		"Writes nonsense into its own mapped queues while they carry traffic.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18760,
	.limit = 120,
	.run = run,
};
