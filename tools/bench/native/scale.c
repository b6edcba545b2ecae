// SPDX-License-Identifier: GPL-2.0
/*
 * scale: many connections between two processes, the same for every RDMA device.
 *
 * With --connects: connects and disconnects, one after the other, and prints how
 * many of these it does in a second. What one costs is counted from outside
 * (marks.h).
 *
 * Else connects --qps queue pairs, prints how much memory an idle connection takes,
 * then moves --messages of each size given, whose cost is counted from outside
 * (marks.h). The queue pairs take turns: a message on each of the next WINDOW, then
 * the client waits until all of these are sent and the server says that they have
 * arrived, with a message of one byte. Nobody polls an empty queue twice: who has
 * nothing to do sleeps until an event.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "marks.h"
#include "prog.h"

/* Messages on their way, and receives that a queue pair has. */
#define WINDOW 16
#define LARGEST 4096

static const unsigned int sizes[] = { 64, 4096 };
static unsigned int qps = 1, messages = 3200, cycles;
static const char *maps;

struct side {
	struct rdma_event_channel *ec;
	struct ibv_pd *pd;
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *buf;			/* of all messages, in and out */
	struct rdma_cm_id **id;
	unsigned int qps, open, up;	/* how many are wanted, made, connected */
	unsigned int left[2];		/* completions of sends, of receives */
};

enum { SENT, RECEIVED };

static void post_recv(struct side *s, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, LARGEST, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	CHECK(!ibv_post_recv(s->id[i]->qp, &wr, &bad), "post receive: %m");
}

static void post_send(struct side *s, unsigned int i, unsigned int size)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + LARGEST, size, s->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	CHECK(!ibv_post_send(s->id[i]->qp, &wr, &bad), "post send: %m");
}

/* What all connections share, made with the first of them. */
static void share(struct side *s, struct ibv_context *device)
{
	if (s->pd)
		return;
	s->pd = ibv_alloc_pd(device);
	CHECK(s->pd, "PD: %m");
	s->cc = ibv_create_comp_channel(device);
	CHECK(s->cc, "completion channel: %m");
	s->cq = ibv_create_cq(device, s->qps * (WINDOW + 2) + WINDOW, NULL,
			      s->cc, 0);
	CHECK(s->cq, "CQ: %m");
	CHECK_SYS(ibv_req_notify_cq(s->cq, 0));
	s->buf = ep_pages(2 * LARGEST);
	s->mr = ibv_reg_mr(s->pd, s->buf, 2 * LARGEST, IBV_ACCESS_LOCAL_WRITE);
	CHECK(s->mr, "region: %m");
}

static void open_qp(struct side *s, unsigned int i, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = WINDOW, .max_recv_wr = WINDOW,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	unsigned int n;

	share(s, id->verbs);
	attr.send_cq = attr.recv_cq = s->cq;
	CHECK(!rdma_create_qp(id, s->pd, &attr), "QP %u: %m", i);
	s->id[i] = id;
	for (n = 0; n < WINDOW; n++)
		post_recv(s, i);
}

static struct rdma_cm_event *event(struct side *s)
{
	struct rdma_cm_event *ev = ep_event(s->ec, EP_EVENT_MS);

	CHECK(ev, "no event of the connection manager, %u up", s->up);
	return ev;
}

static const struct rdma_conn_param param = {
	.initiator_depth = 1, .responder_resources = 1,
	.retry_count = 7, .rnr_retry_count = 7,
};

static void call_next(struct side *s)
{
	struct rdma_conn_param p = param;
	struct rdma_cm_id *id;

	CHECK_SYS(rdma_create_id(s->ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(s->ec, id, where.addr, where.port);
	open_qp(s, s->open++, id);
	CHECK_SYS(rdma_connect(id, &p));
	ep_expect(s->ec, RDMA_CM_EVENT_ESTABLISHED);
	s->up++;
}

/* The next request may come before the last one is known to be established. */
static void serve_next(struct side *s)
{
	struct rdma_conn_param p = param;
	enum rdma_cm_event_type what;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	unsigned int up = s->up;

	while (s->up == up) {
		ev = event(s);
		what = ev->event;
		id = ev->id;
		rdma_ack_cm_event(ev);
		if (what == RDMA_CM_EVENT_ESTABLISHED) {
			s->up++;
			continue;
		}
		CHECK(what == RDMA_CM_EVENT_CONNECT_REQUEST, "event %s",
		      rdma_event_str(what));
		CHECK(s->open < s->qps, "too many requests");
		open_qp(s, s->open++, id);
		CHECK_SYS(rdma_accept(id, &p));
	}
}

static void open_next(struct side *s)
{
	if (pair.server)
		serve_next(s);
	else
		call_next(s);
}

static void close_last(struct side *s)
{
	struct rdma_cm_id *id = s->id[--s->open];

	s->up--;
	if (!pair.server)
		CHECK_SYS(rdma_disconnect(id));
	ep_expect(s->ec, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK_SYS(rdma_destroy_id(id));
}

/* Takes what has completed; sleeps first when there is nothing. */
static void collect(struct side *s)
{
	struct ibv_wc wc[WINDOW];
	struct ibv_cq *cq;
	void *context;
	int n, i;

	n = ibv_poll_cq(s->cq, WINDOW, wc);
	if (!n) {
		CHECK_SYS(ibv_get_cq_event(s->cc, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		/* What comes after this raises an event, the rest is found. */
		CHECK_SYS(ibv_req_notify_cq(s->cq, 0));
		n = ibv_poll_cq(s->cq, WINDOW, wc);
	}
	CHECK(n >= 0, "poll: %m");
	for (i = 0; i < n; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS, "completion: %s",
		      ibv_wc_status_str(wc[i].status));
		if (wc[i].opcode & IBV_WC_RECV) {
			post_recv(s, wc[i].wr_id);
			s->left[RECEIVED]--;
		} else {
			s->left[SENT]--;
		}
	}
}

static void wait_for(struct side *s, unsigned int sent, unsigned int received)
{
	s->left[SENT] += sent;
	s->left[RECEIVED] += received;
	while ((int)s->left[SENT] > 0 || (int)s->left[RECEIVED] > 0)
		collect(s);
}

/* `count` messages, a multiple of WINDOW; goes on behind queue pair `next`. */
static void move(struct side *s, unsigned int *next, unsigned int count,
		 unsigned int size)
{
	unsigned int n;

	for (; count; count -= WINDOW) {
		if (pair.server) {
			wait_for(s, 0, WINDOW);
			*next = (*next + WINDOW) % s->qps;
			post_send(s, (*next + s->qps - 1) % s->qps, 1);
			wait_for(s, 1, 0);
			continue;
		}
		for (n = 0; n < WINDOW; n++) {
			post_send(s, *next, size);
			*next = (*next + 1) % s->qps;
		}
		wait_for(s, WINDOW, 1);
	}
}

static void keep_maps(const char *to)
{
	FILE *in = fopen("/proc/self/maps", "r"), *out = fopen(to, "w");
	int c;

	CHECK(in && out, "%s: %m", to);
	while ((c = getc(in)) != EOF)
		putc(c, out);
	fclose(in);
	CHECK(!fclose(out), "%s: %m", to);
}

/* Bytes that nobody else can have. */
static long long used_memory(void)
{
	static const char *const not_used[] = { "MemFree:", "Buffers:", "Cached:",
						"SReclaimable:" };
	long long kib, used = 0;
	char name[64];
	unsigned int i;
	FILE *f;

	f = fopen("/proc/meminfo", "r");
	CHECK(f, "meminfo: %m");
	while (fscanf(f, "%63s %lld%*[^\n]", name, &kib) == 2) {
		if (!strcmp(name, "MemTotal:"))
			used += kib;
		for (i = 0; i < sizeof(not_used) / sizeof(*not_used); i++)
			if (!strcmp(name, not_used[i]))
				used -= kib;
	}
	fclose(f);
	return used * 1024;
}

/* Both sides at rest; what that is in memory. */
static long long rest(void)
{
	ep_sync(&pair);
	/* Let the kernel free what it frees later. */
	usleep(300000);
	return used_memory();
}

static void messages_of_all(struct side *s)
{
	/* The first ones bring what all share. */
	unsigned int first = s->qps / 10, next = 0, i;
	long long before = 0, after;
	uint64_t begin;

	while (s->up < s->qps) {
		if (s->up == first)
			before = rest();
		ep_phase("connection %u", s->up);
		open_next(s);
	}
	after = rest();
	ep_sync(&pair);
	if (!pair.server && s->qps > 1)
		printf("memory %lld\n", (after - before) / (s->qps - first));
	/* To a multiple of the window; each queue pair moves some unseen. */
	messages = (messages + WINDOW - 1) / WINDOW * WINDOW;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		ep_phase("messages of %u bytes", sizes[i]);
		move(s, &next, (s->qps / WINDOW + 4) * WINDOW, sizes[i]);
		ep_sync(&pair);
		begin = ep_now_ns();
		if (!pair.server)
			set_mark(MARK_START);
		move(s, &next, messages, sizes[i]);
		if (!pair.server) {
			set_mark(MARK_STOP);
			printf("size %u messages %u\n", sizes[i], messages);
			printf("took %u ns %llu\n", sizes[i],
			       (unsigned long long)(ep_now_ns() - begin));
		}
		ep_sync(&pair);
	}
	if (!pair.server && maps)
		keep_maps(maps);
}

static void connects(struct side *s)
{
	uint64_t begin = 0;
	unsigned int i;

	/* The first one brings what all share. */
	for (i = 0; i <= cycles; i++) {
		ep_phase("connection %u", i);
		if (i == 1) {
			begin = ep_now_ns();
			if (!pair.server)
				set_mark(MARK_START);
		}
		open_next(s);
		close_last(s);
		/* Else the next request may come before this one's end. */
		ep_sync(&pair);
	}
	if (pair.server)
		return;
	set_mark(MARK_STOP);
	printf("connects %.2f\n", cycles * 1e9 / (ep_now_ns() - begin));
	if (maps)
		keep_maps(maps);
}

static void run(void)
{
	struct side s = { .qps = qps, .ec = listener.ec };

	s.id = calloc(qps, sizeof(*s.id));
	CHECK(s.id, "no memory");
	if (!pair.server) {
		s.ec = rdma_create_event_channel();
		CHECK(s.ec, "event channel: %m");
	}
	if (cycles)
		connects(&s);
	else
		messages_of_all(&s);
	fflush(stdout);
	/* The end of the processes closes what is open. */
	ep_sync(&pair);
}

static const struct opt options[] = {
	{ "qps", "N", "connections at the same time (1)",
	  .num = &qps, .min = 1, .max = 10000 },
	{ "messages", "N", "of each size (3200)", .num = &messages, .min = 1, .max = 1000000 },
	{ "maps", "FILE", "keep what the client has mapped in FILE", .str = &maps },
	{ "connects", "N", "only connect and disconnect so often", .num = &cycles, .max = 1000000 },
	{ }
};

const struct prog prog = {
	.name = "scale",
	.text = "Prints \"NAME VALUE\" per line; counts what messages of two sizes cost.\n",
	.table = options,
	.kind = PROG_PAIR,
	.port = 18650,
	.limit = 600,
	.backlog = 64,
	.run = run,
};
