// SPDX-License-Identifier: GPL-2.0
/*
 * hoard: makes objects of one kind, as many as it is told or may have. Each is
 * as small as it can be. With --hold it keeps them until SIGUSR1, then gives them
 * back one by one; without, it ends and leaves that to the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prog.h"

static const char *kind_name = "pd";
static unsigned int count = 1000;
static bool hold;

/* How often it says how far it is. */
#define STEP 64
/* How many ports a listener asks for that may have any. */
#define PORT_CHOICES 16

static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static void *page;

static void *make_pd(void)
{
	return ibv_alloc_pd(id->verbs);
}

static int drop_pd(void *obj)
{
	return ibv_dealloc_pd(obj);
}

static void *make_cq(void)
{
	return ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
}

static int drop_cq(void *obj)
{
	return ibv_destroy_cq(obj);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &a);
}

static int drop_srq(void *obj)
{
	return ibv_destroy_srq(obj);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};

	return ibv_create_qp(pd, &a);
}

static int drop_qp(void *obj)
{
	return ibv_destroy_qp(obj);
}

/* All of the same page. */
static void *make_mr(void)
{
	return ibv_reg_mr(pd, page, 1, IBV_ACCESS_LOCAL_WRITE);
}

static int drop_mr(void *obj)
{
	return ibv_dereg_mr(obj);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static int drop_mw(void *obj)
{
	return ibv_dealloc_mw(obj);
}

static struct rdma_cm_id *listen_anywhere(struct sockaddr *addr)
{
	struct rdma_cm_id *listener;
	int err;

	if (rdma_create_id(id->channel, &listener, NULL, RDMA_PS_TCP))
		return NULL;
	if (!rdma_bind_addr(listener, addr) && !rdma_listen(listener, 1))
		return listener;
	err = errno;
	rdma_destroy_id(listener);
	errno = err;
	return NULL;
}

static void *make_listener(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *listener;
	struct rdma_addrinfo *ai;
	unsigned int i;

	CHECK_SYS(rdma_getaddrinfo(where.addr, "0", &hints, &ai));
	/*
	 * The core chooses a port without a look at TCP's sockets, so it may be one that some
	 * connection of another program still has. Another choice is then up to the caller.
	 */
	for (i = 0; i < PORT_CHOICES; i++) {
		listener = listen_anywhere(ai->ai_src_addr);
		if (listener || errno != EADDRINUSE)
			break;
	}
	rdma_freeaddrinfo(ai);
	return listener;
}

static int drop_listener(void *obj)
{
	return rdma_destroy_id(obj);
}

static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*drop)(void *obj);
} kinds[] = {
	{ "pd", make_pd, drop_pd },
	{ "cq", make_cq, drop_cq },
	{ "srq", make_srq, drop_srq },
	{ "qp", make_qp, drop_qp },
	{ "mr", make_mr, drop_mr },
	{ "mw", make_mw, drop_mw },
	{ "listener", make_listener, drop_listener },
};

static const struct kind *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < COUNT(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	fprintf(stderr, "hoard: no kind %s\n", name);
	exit(2);
}

static void run(void)
{
	const struct kind *kind = find(kind_name);
	unsigned int n;
	sigset_t set;
	void **obj;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_SYS(sigprocmask(SIG_BLOCK, &set, NULL));
	id = listener.id;
	page = ep_pages(4096);
	obj = calloc(count, sizeof(*obj));
	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	CHECK(obj && pd && cq, "what all of them need: %m");
	errno = 0;
	for (n = 0; n < count; n++) {
		obj[n] = kind->make();
		if (!obj[n])
			break;
		if ((n + 1) % STEP == 0) {
			printf("made %u\n", n + 1);
			fflush(stdout);
		}
	}
	printf("all %u: %s\n", n, n < count ? strerrorname_np(errno) : "asked for");
	fflush(stdout);
	/* The end of the process gives them back. */
	if (!hold)
		exit(0);
	CHECK_SYS(sigwait(&set, &sig));
	while (n--)
		CHECK(!kind->drop(obj[n]), "%s %u does not go: %m", kind->name, n);
	puts("given back");
	fflush(stdout);
	CHECK_SYS(sigwait(&set, &sig));
	exit(0);
}

static const struct opt options[] = {
	{ "kind", "KIND", "pd, cq, srq, qp, mr, mw or listener (pd)", .str = &kind_name },
	{ "count", "N", "how many at most (1000)", .num = &count, .min = 1, .max = 1 << 24 },
	{ "hold", "", "keeps them until SIGUSR1", .flag = &hold },
	{ }
};

const struct prog prog = {
	.name = "hoard",
	.text =
		"Makes many objects of a device. Says \"made N\" as it goes, at last \"all N: why\".\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18900,
	.limit = 120,
	.run = run,
};
