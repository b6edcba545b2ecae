// SPDX-License-Identifier: GPL-2.0
/*
 * marks: preloaded into a program whose instructions are counted (count.c), tells
 * where polls found nothing and where the part that is counted begins and ends.
 *
 * RSIW_SPAN=connection	from the connection's establishment to its end, or to the
 *			RSIW_CLOCK'th time (1) that perftest finds out how fast
 *			the clock is, which it does when it is done
 * RSIW_SPAN=process	from begin to end of the process
 * RSIW_SPAN=none	this program's polls are marked, nothing else
 * RSIW_MAPS=FILE	after that: what the process had mapped
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "marks.h"

/* Functions of this name in the libraries behind this one. */
#define NEXT(f) ((__typeof__(&f))next_of(#f))

static enum { NONE, CONNECTION, PROCESS } span;
static int begun;
static int clocks = 1;		/* so often it is still asked for the time */
static int worked;		/* since it was last asked */
static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

static void *next_of(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		abort();
	return f;
}

static void keep_maps(void)
{
	const char *to = getenv("RSIW_MAPS");
	char text[4096];
	ssize_t n;
	int in, out;

	if (!to)
		return;
	in = open("/proc/self/maps", O_RDONLY);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	while (in >= 0 && out >= 0 && (n = read(in, text, sizeof(text))) > 0)
		if (write(out, text, n) != n)
			break;
	close(in);
	close(out);
}

static void begin(void)
{
	if (begun)
		return;
	begun = 1;
	set_mark(MARK_START);
}

static void end(void)
{
	static int ended;

	if (ended++)
		return;
	if (begun)
		set_mark(MARK_STOP);
	keep_maps();
}

static int marked_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int found = poll_cq(cq, n, wc);

	if (found) {
		set_mark(MARK_FOUND);
		worked = 1;
	} else {
		set_mark(MARK_EMPTY);
	}
	return found;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_context_ops *ops = &context->ops;

	/* One provider in a process: all contexts have the same function. */
	if (ops->poll_cq != marked_poll) {
		poll_cq = ops->poll_cq;
		ops->poll_cq = marked_poll;
	}
	return NEXT(ibv_create_cq)(context, cqe, cq_context, channel, vector);
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **event)
{
	int status = NEXT(rdma_get_cm_event)(channel, event);

	if (span == CONNECTION && !status &&
	    (*event)->event == RDMA_CM_EVENT_ESTABLISHED)
		begin();
	return status;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	end();
	return NEXT(rdma_disconnect)(id);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	end();
	return NEXT(ibv_destroy_qp)(qp);
}

/*
 * Perftest finds out how fast the processor is before it prints its result: it
 * watches this clock for a quarter of a second, while the other side may still
 * work. With a clock that jumps that is over at once; what it prints is not used.
 */
int gettimeofday(struct timeval *tv, void *tz)
{
	static long jumps;

	if (span == PROCESS)
		return NEXT(gettimeofday)(tv, tz);
	if (worked && !--clocks)
		end();
	worked = 0;
	tv->tv_sec = 1000000000 + ++jumps;
	tv->tv_usec = 0;
	return 0;
}

__attribute__((constructor)) static void loaded(void)
{
	const char *what = getenv("RSIW_SPAN");
	const char *many = getenv("RSIW_CLOCK");

	if (many)
		clocks = atoi(many);
	if (what && !strcmp(what, "connection"))
		span = CONNECTION;
	if (what && !strcmp(what, "process")) {
		span = PROCESS;
		begin();
	}
}

__attribute__((destructor)) static void unloaded(void)
{
	end();
}
