// SPDX-License-Identifier: GPL-2.0
/*
 * foreign: a process that would connect a queue pair of somebody else, whose
 * number it knows: as the side that connects, and as the one that accepts.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "both.h"
#include "prog.h"

static unsigned int num;
static bool only_connect;

static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };

/* Whether SIGTERM, which is blocked, has come. */
static bool is_over(void)
{
	sigset_t pending;

	CHECK_SYS(sigpending(&pending));
	return sigismember(&pending, SIGTERM);
}

/* rdma_connect, to a port where nobody listens; 0 or an error number. */
static int connect_it(void)
{
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = num };
	struct rdma_cm_id *id;
	int err;

	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, where.addr, where.port + 1);
	err = rdma_connect(id, &param) ? errno : 0;
	CHECK_SYS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ec);
	return err;
}

/* rdma_accept of a connection that this process asks itself for. */
static int accept_it(struct ep_listener *l)
{
	struct rdma_conn_param param = { .qp_num = num };
	struct ep e = { .ec = rdma_create_event_channel() };
	struct rdma_cm_id *id, *asked;
	int err;

	CHECK(e.ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(e.ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(e.ec, id, where.addr, l->port);
	ep_setup(&e, id, &attr);
	CHECK_SYS(rdma_connect(id, &e.param));
	asked = ep_expect(l->ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	err = rdma_accept(asked, &param) ? errno : 0;
	CHECK_SYS(rdma_destroy_id(asked));
	ep_destroy(&e);
	return err;
}

static void run(void)
{
	unsigned int rounds = 0;
	sigset_t term;
	int err;

	CHECK(num, "--num is missing");
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	CHECK_SYS(sigprocmask(SIG_BLOCK, &term, NULL));
	part("V-PRIV-2 rdma_connect with the number of another's queue pair");
	err = connect_it();
	expect(err == EINVAL, "%s", strerror(err));
	if (!only_connect) {
		part("V-PRIV-2 rdma_accept with the number of another's queue pair");
		err = accept_it(&listener);
		expect(err == EINVAL, "%s", strerror(err));
	}
	part("V-PRIV-2 the same again and again");
	puts("LOOPING");
	fflush(stdout);
	do {
		err = connect_it();
		expect(err == EINVAL, "connect: %s", strerror(err));
		if (!only_connect) {
			err = accept_it(&listener);
			expect(err == EINVAL, "accept: %s", strerror(err));
		}
		rounds++;
	} while (!is_over());
	printf("%u rounds\n", rounds);
}

static const struct opt options[] = {
	{ "num", "N", "number of the queue pair", .num = &num, .min = 1, .max = ~0u },
	{ "only-connect", "", "does not accept", .flag = &only_connect },
	{ }
};

const struct prog prog = {
	.name = "foreign",
	.text = "Tries once, says LOOPING, and goes on until it gets SIGTERM.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18840,
	.limit = 60,
	.run = run,
};
