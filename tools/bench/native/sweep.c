// SPDX-License-Identifier: GPL-2.0
/*
 * sweep: what messages of many sizes take between two processes, over one
 * connection, the same for every RDMA device, or over plain TCP.
 *
 * One series: a verb, latency or throughput, and a number of requests in flight.
 * For each size it moves some messages unseen, then COUNT with a look at the clock
 * before and after, and prints
 *
 *	point SIZE COUNT NANOSECONDS
 *
 * Latency: a Send is answered by a Send, an RDMA Write by an RDMA Write, so that
 * COUNT messages each way are COUNT rounds; an RDMA Read is a round by itself.
 * Throughput: as many requests are posted as may be in flight, one at a time, and
 * another one for each that completes. The time ends when the server has said that
 * all have arrived. It says so by messages of one byte, every CREDIT Sends, and at
 * the end; the client is never more Sends ahead than there are receives.
 *
 * Who waits for a completion polls once and then sleeps until an event; with --poll
 * he polls, and yields the processor each time he finds nothing. Who waits for an
 * RDMA Write of the peer always does so, looking at the last byte.
 *
 * All messages lie in the same memory; nobody looks at the others' bytes.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"

#define LARGEST (8u << 20)
#define MAX_DEPTH 128

/* Receives that a queue pair has, and by how many Sends the server answers. */
#define RECEIVES 512
#define CREDIT 128

/* With rounds, one request in so many is signalled. */
#define SIGNAL 16

/* Microseconds in which what was printed is gone before the next point. */
#define PAUSE 20000

struct side {
	struct ep ep;
	struct ibv_mr *mr;
	char *out, *in;			/* one buffer: both of LARGEST bytes */
	uint64_t raddr;			/* of the peer's buffer */
	uint32_t rkey;
	int tcp;			/* the socket, instead of all that */
	bool polls;
	unsigned int reads;		/* IRD and ORD */
	unsigned int posted;		/* signalled requests, */
	unsigned int done;		/* those that have completed, */
	unsigned int received;		/* and messages of the peer */
};

/* What is measured. */
static struct {
	const char *verb;
	enum ibv_wr_opcode opcode;
	bool latency;
	unsigned int depth;
} series = { .verb = "send", .depth = 1 };
static struct side the_side = { .tcp = -1, .reads = 16 };
static const char *points = "";
static bool tcp;

/* What both sides tell each other about their buffer. */
struct region {
	uint64_t addr;
	uint32_t key;
};

static void post(struct side *s, enum ibv_wr_opcode opcode, unsigned int size,
		 bool signalled)
{
	bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_sge sge = {
		.addr = (uintptr_t)(read ? s->in : s->out), .length = size,
		.lkey = s->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.send_flags = signalled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = {
			.remote_addr = s->raddr + (read ? 0 : LARGEST),
			.rkey = s->rkey,
		},
	};
	struct ibv_send_wr *bad;

	CHECK(!ibv_post_send(s->ep.id->qp, &wr, &bad), "post: %m");
	s->posted += signalled;
}

static void post_receive(struct side *s)
{
	CHECK(!ep_post_recv(&s->ep, 0, s->in, LARGEST, s->mr->lkey),
	      "post receive: %m");
}

/* Takes what has completed; whether there was something. */
static bool take(struct side *s)
{
	struct ibv_wc wc[16];
	int n, i, sends;

	sends = ibv_poll_cq(s->ep.scq, COUNT(wc), wc);
	for (i = 0; i < sends; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS, "request: %s",
		      ibv_wc_status_str(wc[i].status));
	n = ibv_poll_cq(s->ep.rcq, COUNT(wc), wc);
	CHECK(sends >= 0 && n >= 0, "poll: %m");
	s->done += sends;
	s->received += n;
	for (i = 0; i < n; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS, "receive: %s",
		      ibv_wc_status_str(wc[i].status));
		post_receive(s);
	}
	return sends || n;
}

/* Takes what has completed; waits first if there is nothing. */
static void collect(struct side *s)
{
	struct ibv_cq *cq;
	void *context;

	if (take(s))
		return;
	if (s->polls) {
		sched_yield();
		return;
	}
	CHECK_SYS(ibv_get_cq_event(s->ep.cc, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	/* What comes after this raises an event; the caller finds the rest. */
	CHECK_SYS(ibv_req_notify_cq(cq, 0));
}

/* Waits until the peer has sent so many messages, and until all is done. */
static void settle(struct side *s, unsigned int received)
{
	while (s->received < received || s->done != s->posted)
		collect(s);
}

/* ---- latency ----------------------------------------------------------- */

static void rounds_send(struct side *s, unsigned int size, unsigned int count)
{
	unsigned int n, first = s->received;

	for (n = 1; n <= count; n++) {
		/* The server's turn is after the client's. */
		while (pair.server && s->received - first < n)
			collect(s);
		post(s, IBV_WR_SEND, size, n % SIGNAL == 0 || n == count);
		while (s->received - first < n)
			collect(s);
	}
	settle(s, first + count);
}

static void await_byte(const char *byte, char value)
{
	while (__atomic_load_n(byte, __ATOMIC_ACQUIRE) != value)
		sched_yield();
}

static void rounds_write(struct side *s, unsigned int size, unsigned int count)
{
	unsigned int n;
	char value;

	for (n = 1; n <= count; n++) {
		/* Never the one before, nor what is there in the beginning. */
		value = n % 127 + 1;
		if (pair.server)
			await_byte(s->in + size - 1, value);
		s->out[size - 1] = value;
		post(s, IBV_WR_RDMA_WRITE, size, n % SIGNAL == 0 || n == count);
		if (!pair.server)
			await_byte(s->in + size - 1, value);
		settle(s, 0);
	}
}

static void rounds_read(struct side *s, unsigned int size, unsigned int count)
{
	for (; count && !pair.server; count--) {
		post(s, IBV_WR_RDMA_READ, size, true);
		settle(s, 0);
	}
}

static void rounds(struct side *s, enum ibv_wr_opcode opcode, unsigned int size,
		   unsigned int count)
{
	if (opcode == IBV_WR_SEND)
		rounds_send(s, size, count);
	else if (opcode == IBV_WR_RDMA_WRITE)
		rounds_write(s, size, count);
	else
		rounds_read(s, size, count);
}

/* ---- throughput -------------------------------------------------------- */

/* The server's part: says what has arrived. */
static void acknowledge(struct side *s, unsigned int count, unsigned int credit)
{
	unsigned int n, first = s->received;

	for (n = 0; n < count;) {
		n += count - n < credit ? count - n : credit;
		while (s->received - first < n)
			collect(s);
		post(s, IBV_WR_SEND, 1, true);
	}
	settle(s, first + count);
}

static void stream(struct side *s, unsigned int size, unsigned int count)
{
	bool send = series.opcode == IBV_WR_SEND;
	unsigned int answers = (count + CREDIT - 1) / CREDIT;
	unsigned int n, first = s->received;

	if (pair.server) {
		if (send)
			acknowledge(s, count, CREDIT);
		else if (series.opcode == IBV_WR_RDMA_WRITE)
			acknowledge(s, 1, 1);
		return;
	}
	for (n = 0; n < count; n++) {
		while (s->posted - s->done >= series.depth ||
		       (send && n - (s->received - first) * CREDIT >= RECEIVES))
			collect(s);
		post(s, series.opcode, size, true);
	}
	if (series.opcode == IBV_WR_RDMA_WRITE) {
		/* Arrives behind them. */
		post(s, IBV_WR_SEND, 1, true);
		answers = 1;
	} else if (!send) {
		answers = 0;
	}
	settle(s, first + answers);
}

/* ---- plain TCP --------------------------------------------------------- */

static void tcp_send(struct side *s, size_t size)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < size) {
		n = write(s->tcp, s->out + sent, size - sent);
		CHECK(n > 0, "write: %m");
		sent += n;
	}
}

static void tcp_receive(struct side *s, size_t size)
{
	size_t got = 0;
	ssize_t n;

	while (got < size) {
		n = read(s->tcp, s->in + got, size - got);
		CHECK(n > 0, "read: %m");
		got += n;
	}
}

static void tcp_move(struct side *s, bool latency, unsigned int size,
		     unsigned int count)
{
	unsigned int n;

	for (n = 0; n < count; n++) {
		if (pair.server)
			tcp_receive(s, size);
		else
			tcp_send(s, size);
		if (latency && pair.server)
			tcp_send(s, size);
		else if (latency)
			tcp_receive(s, size);
	}
	if (!latency && pair.server)
		tcp_send(s, 1);
	else if (!latency)
		tcp_receive(s, 1);
}

static void tcp_open(struct side *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(where.port) };
	int fd, one = 1;

	CHECK(inet_pton(AF_INET, where.addr, &a.sin_addr) == 1,
	      "%s is no IPv4 address", where.addr);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0, "socket: %m");
	if (pair.server) {
		CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one,
				     sizeof(one)));
		CHECK_SYS(bind(fd, (struct sockaddr *)&a, sizeof(a)));
		CHECK_SYS(listen(fd, 1));
		ep_sync(&pair);
		s->tcp = accept(fd, NULL, NULL);
		CHECK(s->tcp >= 0, "accept: %m");
		close(fd);
	} else {
		ep_sync(&pair);
		CHECK_SYS(connect(fd, (struct sockaddr *)&a, sizeof(a)));
		s->tcp = fd;
	}
	CHECK_SYS(setsockopt(s->tcp, IPPROTO_TCP, TCP_NODELAY, &one,
			     sizeof(one)));
}

/* ---- the rest ---------------------------------------------------------- */

static void rdma_open(struct side *s)
{
	struct ep_attr attr = {
		.send_wr = MAX_DEPTH + RECEIVES / CREDIT + 1,
		.recv_wr = RECEIVES, .cqe = RECEIVES + MAX_DEPTH + 16,
		.ird = s->reads, .ord = s->reads, .channel = !s->polls,
	};
	struct ep_listener listener = { 0 };
	struct region own, peer;
	unsigned int n;

	if (pair.server)
		ep_listen(&listener, where.addr, where.port, 1);
	ep_sync(&pair);
	ep_open(&s->ep, &pair, &listener, &where, &attr);
	s->mr = ep_reg(&s->ep, s->out, 2 * (size_t)LARGEST, ALL_ACCESS);
	for (n = 0; n < RECEIVES; n++)
		post_receive(s);
	if (!s->polls) {
		CHECK_SYS(ibv_req_notify_cq(s->ep.scq, 0));
		CHECK_SYS(ibv_req_notify_cq(s->ep.rcq, 0));
	}
	own = (struct region){ (uintptr_t)s->out, s->mr->rkey };
	ep_exchange(&pair, &own, &peer, sizeof(own));
	s->raddr = peer.addr;
	s->rkey = peer.key;
}

/* Nanoseconds from the time when both sides are ready until the client is done. */
static uint64_t move(struct side *s, unsigned int size, unsigned int count)
{
	uint64_t begin;

	/* What an RDMA Write before has left is no sign of one that comes now. */
	s->in[size - 1] = 0;
	ep_sync(&pair);
	begin = ep_now_ns();
	if (s->tcp >= 0)
		tcp_move(s, series.latency, size, count);
	else if (series.latency)
		rounds(s, series.opcode, size, count);
	else
		stream(s, size, count);
	return ep_now_ns() - begin;
}

static void measure(struct side *s, unsigned int size, unsigned int count)
{
	uint64_t ns;

	/* As many as may be in flight, and some more. */
	move(s, size, series.depth + count / 8);
	ns = move(s, size, count);
	if (!pair.server) {
		printf("point %u %u %llu\n", size, count,
		       (unsigned long long)ns);
		fflush(stdout);
		usleep(PAUSE);
	}
	ep_sync(&pair);
}

/* A number that `end` follows, or the end of the text; goes on behind that. */
static unsigned int number(const char **text, char end, unsigned int max)
{
	unsigned long value;
	char *rest;

	value = strtoul(*text, &rest, 10);
	if (rest == *text || (*rest && *rest != end) || !value || value > max) {
		fprintf(stderr, "sweep: bad point: %s\n", *text);
		exit(2);
	}
	*text = *rest ? rest + 1 : rest;
	return value;
}

/* The point that the text begins with; false if there is none left. */
static bool next_point(const char **text, unsigned int *size,
		       unsigned int *count)
{
	if (!**text)
		return false;
	*size = number(text, ':', LARGEST);
	*count = number(text, ',', 10000000);
	return true;
}

static void check(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} verbs[] = {
		{ "send", IBV_WR_SEND },
		{ "write", IBV_WR_RDMA_WRITE },
		{ "read", IBV_WR_RDMA_READ },
	};
	const char *text = points;
	unsigned int i, size, count;

	for (i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verbs[i].name, series.verb))
			break;
	if (i == COUNT(verbs) || (tcp && i) ||
	    (series.latency && series.depth > 1)) {
		fprintf(stderr, "sweep: no such series\n");
		exit(2);
	}
	series.opcode = verbs[i].opcode;
	while (next_point(&text, &size, &count))
		;
}

static void run(void)
{
	struct side *s = &the_side;
	unsigned int size, count;

	check();
	/* Nobody sleeps while the peer writes. */
	if (series.latency && series.opcode == IBV_WR_RDMA_WRITE)
		s->polls = true;
	ep_fork(&pair, &where, true);
	ep_watchdog(time_limit);
	s->out = ep_pages(2 * (size_t)LARGEST);
	s->in = s->out + LARGEST;
	if (tcp)
		tcp_open(s);
	else
		rdma_open(s);
	while (next_point(&points, &size, &count)) {
		ep_watchdog(time_limit);
		ep_phase("%s of %u bytes, %u in flight", series.verb, size, series.depth);
		measure(s, size, count);
	}
	if (!tcp) {
		CHECK_SYS(ibv_dereg_mr(s->mr));
		ep_close(&s->ep);
	}
	if (pair.server)
		exit(ep_join(&pair));
}

static const struct opt options[] = {
	{ "verb", "VERB", "send, write or read (send)", .str = &series.verb },
	{ "latency", "", "instead of throughput", .flag = &series.latency },
	{ "depth", "N", "requests in flight (1)",
	  .num = &series.depth, .min = 1, .max = MAX_DEPTH },
	{ "reads", "N", "RDMA Reads that a connection allows, each way (16)",
	  .num = &the_side.reads, .min = 1, .max = MAX_DEPTH },
	{ "points", "S:N,...", "sizes in bytes, and how many messages of each", .str = &points },
	{ "poll", "", "poll instead of sleeping until an event", .flag = &the_side.polls },
	{ "tcp", "", "plain TCP, of which there are sends only", .flag = &tcp },
	{ }
};

const struct prog prog = {
	.name = "sweep",
	.text = "Prints \"point SIZE COUNT NANOSECONDS\" for each point.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18660,
	.limit = 60,
	.run = run,
};
