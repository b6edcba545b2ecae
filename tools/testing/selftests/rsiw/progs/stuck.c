// SPDX-License-Identifier: GPL-2.0
/*
 * stuck: a process that stands still inside of the driver, with locks of it, as
 * one of least priority does that is kept off the processor. rsiw_fail holds the
 * call of its second thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "both.h"
#include "opt.h"

static const char usage[] =
"usage: stuck [options]\n"
"Says STUCK once it is, and ends when it is let go.\n"
USAGE_WHERE
"  --in WHAT            connect: while it sets up a connection\n"
"                       send: while it sends\n"
"  --limit SECONDS      watchdog (60)\n";

/* What rsiw_fail knows the thread by. */
#define NAME "rsiw-stuck"
#define CONTROLS "/sys/kernel/debug/rsiw_fail"
#define HELD "stopped"

static struct ep_where w = { .addr = "127.0.0.1", .port = 18860 };
static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
static const char *what = "connect";
static struct both both;
static struct ep alone;

/* Opened before the network namespace is another, of which sysfs has its own. */
static int controls;

static bool is_held(void)
{
	char text[16] = "";

	int fd = openat(controls, HELD, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, HELD ": %m");
	close(fd);
	return atoi(text) > 0;
}

static void *connect_it(void *arg)
{
	CHECK_SYS(prctl(PR_SET_NAME, NAME));
	CHECK(rdma_connect(alone.id, &alone.param), "connected");
	return arg;
}

static void *send_it(void *arg)
{
	static uint8_t byte;

	CHECK_SYS(prctl(PR_SET_NAME, NAME));
	ep_post_send(&both.a, 1, IBV_WR_SEND, &byte, 0, 0, 0, 0);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 60;
	struct ep_listener l;
	pthread_t thread;
	const struct opt table[] = {
		{ "in", .str = &what },
		{ "limit", .num = &seconds, .min = 1, .max = 100000 },
		{ }
	};
	bool sends;

	opt_parse(argc, argv, usage, &w, table);
	sends = !strcmp(what, "send");
	CHECK(sends || !strcmp(what, "connect"), "--in takes connect or send");
	ep_watchdog(seconds);
	/* Another namespace may have another /sys. */
	controls = open(CONTROLS, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(controls >= 0, CONTROLS ": %m");
	ep_enter_netns(w.server_netns);
	ep_listen(&l, w.addr, w.port, 4);
	if (sends) {
		both_connect(&both, &l, &w, &attr, &attr);
	} else {
		alone.ec = rdma_create_event_channel();
		CHECK(alone.ec, "event channel: %m");
		CHECK_SYS(rdma_create_id(alone.ec, &alone.id, NULL, RDMA_PS_TCP));
		ep_resolve(alone.ec, alone.id, w.addr, w.port);
		ep_setup(&alone, alone.id, &attr);
	}
	CHECK(!pthread_create(&thread, NULL, sends ? send_it : connect_it, NULL),
	      "thread");
	while (!is_held())
		usleep(10000);
	/* Something for the connection's work to do, which needs the lock. */
	if (!sends)
		CHECK(!to_state(alone.id->qp, IBV_QPS_ERR), "to Error: %m");
	puts("STUCK");
	fflush(stdout);
	pthread_join(thread, NULL);
	puts("let go");
	return 0;
}
