// SPDX-License-Identifier: GPL-2.0
/*
 * stuck: a process that stands still inside of the driver, with locks of it, as
 * one of least priority does that is kept off the processor. rsiw_fail holds the
 * call of its second thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "both.h"
#include "control.h"
#include "prog.h"

/* What rsiw_fail knows the thread by. */
#define NAME "rsiw-stuck"
#define CONTROLS "/sys/kernel/debug/rsiw_fail"
#define HELD "stopped"

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
static const char *what = "connect";
static struct both both;
static struct ep alone;
static atomic_bool is_held;

static void *connect_it(void *arg)
{
	CHECK_SYS(prctl(PR_SET_NAME, NAME));
	CHECK(rdma_connect(alone.id, &alone.param), "connected");
	return arg;
}

static void *send_it(void *arg)
{
	static uint8_t byte;
	struct ibv_wc wc;

	CHECK_SYS(prctl(PR_SET_NAME, NAME));
	/* While the connection's lock is taken, a work item sends in its place. */
	do {
		CHECK(!ep_post_send(&both.a, 1, IBV_WR_RDMA_WRITE, &byte, 0, 0, 0, 0),
		      "posted");
		if (!is_held)
			CHECK(ep_poll(both.a.scq, &wc, 20000) && !wc.status, "written");
	} while (!is_held);
	return arg;
}

static void run(void)
{
	bool sends = !strcmp(what, "send");
	pthread_t thread;

	CHECK(sends || !strcmp(what, "connect"), "--in takes connect or send");
	/* Another namespace may have another /sys. */
	control_open(CONTROLS);
	ep_enter_netns(where.server_netns);
	start_listening();
	if (sends) {
		both_connect(&both, &listener, &where, &attr, &attr);
	} else {
		alone.ec = rdma_create_event_channel();
		CHECK(alone.ec, "event channel: %m");
		CHECK_SYS(rdma_create_id(alone.ec, &alone.id, NULL, RDMA_PS_TCP));
		ep_resolve(alone.ec, alone.id, where.addr, where.port);
		ep_setup(&alone, alone.id, &attr);
	}
	CHECK(!pthread_create(&thread, NULL, sends ? send_it : connect_it, NULL),
	      "thread");
	while (!control_get(HELD))
		usleep(10000);
	is_held = true;
	/* Something for the connection's work to do, which needs the lock. */
	if (!sends)
		CHECK(!to_state(alone.id->qp, IBV_QPS_ERR), "to Error: %m");
	puts("STUCK");
	fflush(stdout);
	pthread_join(thread, NULL);
	puts("let go");
}

static const struct opt options[] = {
	{ "in", "WHAT",
	  "connect: while it sets up a connection; send: while it sends",
	  .str = &what },
	{ }
};

const struct prog prog = {
	.name = "stuck",
	.text = "Says STUCK once it is, and ends when it is let go.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18860,
	.limit = 60,
	.run = run,
};
