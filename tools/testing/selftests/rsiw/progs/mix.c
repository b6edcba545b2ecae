// SPDX-License-Identifier: GPL-2.0
/*
 * mix: both ends of a connection post requests of every kind, fenced or not, signalled
 * or not, poll or sleep until an event, and resize their queues, all at once and at
 * random. Each request completes once and in order, each message is received once and in
 * order, each addition is made once, and nobody sleeps while there is something to poll.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

/* Octets of a Write or a Read at most, and of a message. */
#define LONG 65536
#define MSG 8192
/* What goes inline; what a request of a queue may have so. */
#define INLINE 200
#define RECVS 200
/* More than messages are under way at most. */
#define SLOTS 256
/* Requests that are posted at a time. */
#define BATCH 8
/* Signalled requests under way at most, and room for their ids. */
#define MOST 900
#define IDS 4096
/* In which an event comes, and in which something goes on. */
#define EVENT_MS 1000
#define PATIENCE_MS 20000

/*
 * The memory of an end: source and sink of its requests, target of the other's, receives,
 * and messages that are not inline. The first word of the target is what is added to.
 */
#define TARGET LONG
#define RECEIVES (2 * LONG)
#define MESSAGES (RECEIVES + RECVS * MSG)
#define SIZE (MESSAGES + SLOTS * MSG)

/* What one end posts, and what becomes of it at the other. */
struct way {
	const char *name;
	struct ep *from;
	struct way *back;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	char *mem;
	unsigned int seed;
	/* Of the poster. */
	uint64_t next_id;
	uint64_t next_msg;
	char octets[BATCH][INLINE];
	/* Ids of signalled requests, from the poster to the poller. */
	uint64_t ids[IDS];
	atomic_uint head, tail;
	/* Receives that the other end has for messages. */
	atomic_int credits;
	atomic_ulong posted, sent, received, added;
	unsigned long completed, woken;
};

static unsigned int run_ms = 5000, seed = 1, resizes;
static atomic_bool stop, broken;
static atomic_uint posters;
static struct both b;
static struct way ways[2];

static unsigned int some(unsigned int *state, unsigned int below)
{
	*state = *state * 1103515245 + 12345;
	return (*state >> 8) % below;
}

static void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Threads fail by this: the part does, and all of them end. */
static void wrong(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (atomic_exchange(&broken, true))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	expect(false, "%s", text);
}

/* As long as its number says: mostly short. */
static uint32_t msg_len(uint64_t number)
{
	uint32_t x = (uint32_t)(number * 2654435761u) >> 7;

	return 8 + (x % 8 ? x % 120 : x % (MSG - 8));
}

static void post_recv(struct way *w, unsigned int i)
{
	int err;

	do {
		err = ep_post_recv(w->from, i, w->mem + RECEIVES + i * MSG, MSG, w->mr->lkey);
	} while (err == ENOMEM && !usleep(100));
	if (err)
		wrong("%s: post_recv: %s", w->name, strerror(err));
}

/* ---- posting ------------------------------------------------------------ */

static void make_send(struct way *w, struct ibv_send_wr *wr, struct ibv_sge *sge, char *octets)
{
	uint64_t number = w->next_msg++;
	char *at = w->mem + MESSAGES + number % SLOTS * MSG;

	sge->length = msg_len(number);
	if (sge->length <= INLINE) {
		at = octets;
		wr->send_flags |= IBV_SEND_INLINE;
	}
	memcpy(at, &number, sizeof(number));
	sge->addr = (uintptr_t)at;
	wr->opcode = IBV_WR_SEND;
	if (some(&w->seed, 3) == 0)
		wr->send_flags |= IBV_SEND_SOLICITED;
	w->credits--;
	w->sent++;
}

static void make_one(struct way *w, struct ibv_send_wr *wr, struct ibv_sge *sge, char *octets)
{
	unsigned int what = some(&w->seed, 16);
	bool signalled = some(&w->seed, 4) == 0 || w->next_id % 16 == 0;
	char *target = w->back->mem + TARGET;

	*wr = (struct ibv_send_wr){
		.wr_id = w->next_id++,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = signalled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { (uintptr_t)target + 64, w->back->mr->rkey },
	};
	*sge = (struct ibv_sge){
		.addr = (uintptr_t)w->mem + 64,
		.length = some(&w->seed, some(&w->seed, 4) ? 512 : LONG - 64),
		.lkey = w->mr->lkey,
	};
	if (some(&w->seed, 8) == 0)
		wr->send_flags |= IBV_SEND_FENCE;
	if (what < 6 && w->credits > 0) {
		make_send(w, wr, sge, octets);
	} else if (what == 15) {
		wr->opcode = IBV_WR_LOCAL_INV;
		wr->invalidate_rkey = w->mw->rkey;
		wr->num_sge = 0;
		wr->send_flags |= IBV_SEND_FENCE;
	} else if (what == 14) {
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		sge->addr = (uintptr_t)w->mem + 8;
		sge->length = 8;
		wr->wr.atomic.remote_addr = (uintptr_t)target;
		wr->wr.atomic.rkey = w->back->mr->rkey;
		wr->wr.atomic.compare_add = 1;
		w->added++;
	} else {
		wr->opcode = what < 10 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	}
}

/* Posts `n` requests, in several calls if the queue is full. */
static void post(struct way *w, struct ibv_send_wr *wr, unsigned int n)
{
	struct ibv_send_wr *bad;
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		/* Before it can complete. */
		if (wr[i].send_flags & IBV_SEND_SIGNALED) {
			w->ids[w->head % IDS] = wr[i].wr_id;
			w->head++;
		}
	}
	while (!broken) {
		bad = NULL;
		err = ibv_post_send(w->from->id->qp, wr, &bad);
		if (!err)
			break;
		if (err != ENOMEM) {
			wrong("%s: post_send: %s", w->name, strerror(err));
			break;
		}
		wr = bad;
		usleep(100);
	}
	w->posted += n;
}

static void *poster(void *arg)
{
	struct ibv_send_wr wr[BATCH];
	struct ibv_sge sge[BATCH];
	struct way *w = arg;
	unsigned int n, i;

	while (!stop && !broken) {
		if (w->head - w->tail > MOST) {
			usleep(50);
			continue;
		}
		if (some(&w->seed, 64) == 0)
			usleep(some(&w->seed, 3000));
		n = 1 + some(&w->seed, BATCH);
		for (i = 0; i < n; i++)
			make_one(w, &wr[i], &sge[i], w->octets[i]);
		post(w, wr, n);
	}
	/* When this one completes, so have all in front of it. */
	wr[0] = (struct ibv_send_wr){
		.wr_id = w->next_id++,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.wr.rdma = { (uintptr_t)w->back->mem + TARGET, w->back->mr->rkey },
	};
	post(w, wr, 1);
	posters--;
	return NULL;
}

/* ---- polling ------------------------------------------------------------ */

static unsigned int poll_sends(struct way *w, unsigned int *state)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(w->from->scq, 1 + some(state, COUNT(wc)), wc), i;

	for (i = 0; i < n; i++) {
		bool wanted = w->tail != w->head && w->ids[w->tail % IDS] == wc[i].wr_id;

		if (!wanted || wc[i].status) {
			wrong("%s: completion %lu, %s (%#x), of %u that are due", w->name,
			      wc[i].wr_id, ibv_wc_status_str(wc[i].status), wc[i].vendor_err,
			      w->head - w->tail);
			return 0;
		}
		w->tail++;
		w->completed++;
	}
	return n;
}

/* What the other end has sent here. */
static unsigned int poll_recvs(struct way *w, unsigned int *state)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(w->from->rcq, 1 + some(state, COUNT(wc)), wc), i;
	uint64_t number;

	for (i = 0; i < n; i++) {
		if (wc[i].status) {
			wrong("%s: a receive fails: %s (%#x)", w->name,
			      ibv_wc_status_str(wc[i].status), wc[i].vendor_err);
			return 0;
		}
		memcpy(&number, w->mem + RECEIVES + wc[i].wr_id * MSG, sizeof(number));
		if (number != w->back->received || wc[i].byte_len != msg_len(number)) {
			wrong("%s: received message %lu of %u octets instead of %lu", w->name,
			      number, wc[i].byte_len, w->back->received);
			return 0;
		}
		w->back->received++;
		post_recv(w, wc[i].wr_id);
		w->back->credits++;
	}
	return n;
}

static unsigned int poll_both(struct way *w, unsigned int *state)
{
	return poll_sends(w, state) + poll_recvs(w, state);
}

static bool is_due(const struct way *w)
{
	return w->tail != w->head || w->back->received != w->back->sent;
}

/* Asks for an event, and waits for it unless there is something by now. */
static void sleep_until_event(struct way *w, unsigned int *state)
{
	struct pollfd fd = { .fd = w->from->cc->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	CHECK_SYS(ibv_req_notify_cq(w->from->scq, 0));
	CHECK_SYS(ibv_req_notify_cq(w->from->rcq, 0));
	if (poll_both(w, state))
		return;
	if (!poll(&fd, 1, EVENT_MS)) {
		/* What came meanwhile has made an event, which may be on its way. */
		if (poll_both(w, state) && !poll(&fd, 1, PATIENCE_MS))
			wrong("%s: completions without an event", w->name);
		if (!poll(&fd, 1, 0))
			return;
	}
	CHECK_SYS(ibv_get_cq_event(w->from->cc, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	w->woken++;
}

static void *poller(void *arg)
{
	struct way *w = arg;
	unsigned int state = seed + (w - ways), in_vain = 0;
	uint64_t since = ep_now_ns();

	while (!broken) {
		if (poll_both(w, &state)) {
			since = ep_now_ns();
			in_vain = 0;
			continue;
		}
		if (!is_due(w)) {
			if (!posters && !is_due(w->back))
				break;
			since = ep_now_ns();
		}
		if (ep_now_ns() - since > PATIENCE_MS * 1000000ull)
			wrong("%s: %u requests do not complete, %lu messages of %lu came",
			      w->name, w->head - w->tail, w->back->received, w->back->sent);
		if (++in_vain < some(&state, 200))
			continue;
		in_vain = 0;
		if (some(&state, 4))
			sleep_until_event(w, &state);
		else
			usleep(some(&state, 500));
	}
	return NULL;
}

/* ---- all of it ---------------------------------------------------------- */

static void *resizer(void *arg)
{
	struct ibv_qp_attr attr = { .cap = { .max_send_sge = 1, .max_recv_sge = 1,
					     .max_inline_data = INLINE } };
	unsigned int state = 7 * seed;
	int err;

	while (!stop && !broken) {
		struct ep *e = ways[some(&state, 2)].from;

		usleep(some(&state, 8000));
		switch (some(&state, 4)) {
		case 0:
			err = ibv_resize_cq(e->scq, 1024 << some(&state, 3));
			break;
		case 1:
			err = ibv_resize_cq(e->rcq, 512 << some(&state, 3));
			break;
		default:
			attr.cap.max_send_wr = 16 << some(&state, 6);
			attr.cap.max_recv_wr = 256 << some(&state, 3);
			err = ibv_modify_qp(e->id->qp, &attr, IBV_QP_CAP);
		}
		/* More may be posted than there would be room for. */
		if (err && err != EINVAL && errno != EINVAL)
			wrong("a queue is not resized: %s", strerror(errno));
		resizes += !err;
	}
	return arg;
}

static void set_up(void)
{
	const struct ep_attr attr = { .send_wr = 256, .recv_wr = 256, .cqe = 1024, .ird = 16,
				      .ord = 16, .inline_data = INLINE, .channel = true };
	unsigned int i, k;

	both_connect(&b, &listener, &where, &attr, &attr);
	ways[0] = (struct way){ .name = "connected", .from = &b.a, .back = &ways[1] };
	ways[1] = (struct way){ .name = "accepted", .from = &b.p, .back = &ways[0] };
	for (i = 0; i < COUNT(ways); i++) {
		struct way *w = &ways[i];

		w->seed = seed * 3 + i;
		w->mem = ep_pages(SIZE);
		memset(w->mem, 0, SIZE);
		w->mr = ep_reg(w->from, w->mem, SIZE, ALL_ACCESS | IBV_ACCESS_REMOTE_ATOMIC);
		w->mw = ibv_alloc_mw(w->from->pd, IBV_MW_TYPE_2);
		CHECK(w->mw, "alloc_mw: %m");
		for (k = 0; k < RECVS; k++)
			post_recv(w, k);
		w->credits = RECVS;
	}
}

static void start(pthread_t *thread, void *(*f)(void *), struct way *w)
{
	int err = pthread_create(thread, NULL, f, w);

	CHECK(!err, "thread: %s", strerror(err));
}

static void run(void)
{
	pthread_t threads[5];
	unsigned int i;

	part("everything at once, seed %u", seed);
	set_up();
	posters = COUNT(ways);
	for (i = 0; i < COUNT(ways); i++) {
		start(&threads[i], poster, &ways[i]);
		start(&threads[2 + i], poller, &ways[i]);
	}
	start(&threads[4], resizer, NULL);
	ep_phase("everything at once");
	for (i = 0; i < run_ms / 100 && !broken; i++)
		usleep(100000);
	stop = true;
	ep_phase("everything to complete");
	for (i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < COUNT(ways) && !broken; i++) {
		struct way *w = &ways[i];
		uint64_t sum;

		memcpy(&sum, w->back->mem + TARGET, sizeof(sum));
		expect(sum == w->added, "%s: %lu additions made %lu", w->name, w->added, sum);
		expect(w->completed && w->received, "%s: nothing was done", w->name);
		printf("# %s: %lu requests, %lu completions, %lu messages, %lu additions, %lu events\n",
		       w->name, w->posted, w->completed, w->received, w->added, w->woken);
	}
	printf("# queues were resized %u times\n", resizes);
	for (i = 0; i < COUNT(ways); i++) {
		CHECK_SYS(ibv_dealloc_mw(ways[i].mw));
		CHECK_SYS(ibv_dereg_mr(ways[i].mr));
	}
	both_destroy(&b);
}

static const struct opt options[] = {
	{ "run-ms", "N", "for how long (5000)", .num = &run_ms, .min = 100, .max = 3600000 },
	{ "seed", "N", "of what is chosen", .num = &seed, .min = 1, .max = 1000000 },
	{ }
};

const struct prog prog = {
	.name = "mix",
	.text =
		"Both ends of a connection post everything at once: all of it completes once and in\n"
		"order.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18897,
	.limit = 120,
	.run = run,
};
