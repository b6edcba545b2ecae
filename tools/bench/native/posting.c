// SPDX-License-Identifier: GPL-2.0
/*
 * posting: what it takes to post small RDMA Writes to a queue pair of this host,
 * with the kernel looking for them by itself or not.
 *
 * Both ends are in this process, which posts and polls; nothing is to be done on
 * the other end. It moves some messages unseen, then COUNT, and prints
 *
 *	posted COUNT NANOSECONDS CALLS
 *
 * where CALLS is how often the kernel was called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prog.h"

#define LEN 64
#define MAX_DEPTH 64

static unsigned int poll_us, depth = 1, count = 20000;
static bool events;
static int device = -1;
static unsigned long calls;

/* The library's: the linker prefers the program's. */
ssize_t write(int fd, const void *data, size_t len)
{
	calls += fd == device;
	return syscall(SYS_write, fd, data, len);
}

/* A completion, for which it waits by an event or not at all. */
static int next(struct ep *e, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(e->scq, 1, wc);
	struct ibv_cq *cq;
	void *context;

	if (n || !events)
		return n;
	CHECK_SYS(ibv_req_notify_cq(e->scq, 0));
	n = ibv_poll_cq(e->scq, 1, wc);
	if (n)
		return n;
	CHECK_SYS(ibv_get_cq_event(e->cc, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	return ibv_poll_cq(e->scq, 1, wc);
}

/* Moves so many messages, with as many requests in flight as there may be. */
static void move(struct ep *e, struct ibv_send_wr *wr, unsigned int left)
{
	/* Each one that completes tells of those in front of it. */
	unsigned int step = depth > 4 ? depth / 4 : 1;
	unsigned int in_flight = 0, since = 0;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	while (left || in_flight) {
		while (left && in_flight < depth) {
			since++;
			left--;
			in_flight++;
			wr->send_flags = IBV_SEND_INLINE;
			if (since == step || !left) {
				wr->send_flags |= IBV_SEND_SIGNALED;
				wr->wr_id = since;
				since = 0;
			}
			CHECK_SYS(ibv_post_send(e->id->qp, wr, &bad));
		}
		n = next(e, &wc);
		CHECK(n >= 0, "polling: %m");
		if (n) {
			CHECK(wc.status == IBV_WC_SUCCESS, "%s",
			      ibv_wc_status_str(wc.status));
			in_flight -= wc.wr_id;
		}
	}
}

static void run(void)
{
	struct ep_attr attr = {
		.send_wr = MAX_DEPTH, .recv_wr = 1, .inline_data = LEN,
	};
	struct ibv_sge sge = { .length = LEN };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
	};
	struct rdma_event_channel *ec;
	struct ep a = {}, p = {};
	struct rdma_cm_id *id;
	uint64_t begin, ns;
	struct ibv_mr *mr;
	char us[12];
	void *mem;

	attr.channel = events;
	snprintf(us, sizeof(us), "%u", poll_us);
	CHECK_SYS(setenv("RSIW_POLL_US", us, 1));
	ec = rdma_create_event_channel();
	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, where.addr, listener.port);
	ep_setup(&a, id, &attr);
	CHECK_SYS(rdma_connect(id, &a.param));
	/* The other end needs nobody to poll for its requests. */
	CHECK_SYS(unsetenv("RSIW_POLL_US"));
	ep_accept(&p, &listener, &attr);
	ep_expect(ec, RDMA_CM_EVENT_ESTABLISHED);
	mem = ep_pages(4096);
	mr = ep_reg(&p, mem, 4096, ALL_ACCESS);
	sge.addr = (uintptr_t)mem;
	wr.wr.rdma.remote_addr = (uintptr_t)mem + 2048;
	wr.wr.rdma.rkey = mr->rkey;

	move(&a, &wr, count / 10);
	device = a.id->verbs->cmd_fd;
	begin = ep_now_ns();
	move(&a, &wr, count);
	ns = ep_now_ns() - begin;
	printf("posted %u %lu %lu\n", count, ns, calls);
}

static const struct opt options[] = {
	{ "poll", "US", "microseconds for which the kernel polls (0: not at all)",
	  .num = &poll_us, .max = 1000 },
	{ "depth", "N", "requests in flight (1)", .num = &depth, .min = 1, .max = MAX_DEPTH },
	{ "count", "N", "messages (20000)", .num = &count, .min = 1, .max = 10000000 },
	{ "events", "", "sleep until an event instead of polling", .flag = &events },
	{ }
};

const struct prog prog = {
	.name = "posting",
	.text = "Prints \"posted COUNT NANOSECONDS CALLS\".\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 21000,
	.limit = 60,
	.run = run,
};
