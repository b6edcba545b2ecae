// SPDX-License-Identifier: GPL-2.0
/*
 * uverbs: what a process asks of uverbs directly: about objects by numbers that
 * are not its own or no more, commands that the driver does not offer, and
 * memory beyond what it may lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

#define LEN 65536
#define LOCKED 65536
#define NOBODY 65534

static struct ibv_context *ctx;

static void regions(struct ibv_pd *pd, char *mem)
{
	const uint64_t iova = 0x123456789000;
	struct raw_mr_info info;
	struct ibv_mr *mr;
	uint32_t handle;

	part("V-QMR-1 a query tells keys, length and address");
	mr = ibv_reg_mr_iova(pd, mem, LEN, iova, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_READ);
	CHECK(mr, "register: %m");
	handle = mr->handle;
	expect(!raw_query_mr(ctx, handle, &info), "%s", strerror(errno));
	expect(info.lkey == mr->lkey && info.rkey == mr->rkey, "keys %#x, %#x",
	       info.lkey, info.rkey);
	expect(info.length == LEN && info.iova == iova, "%#lx octets at %#lx",
	       info.length, info.iova);
	part("V-DEA-5 an unknown region cannot be deregistered");
	expect(raw_dereg(ctx, handle + 1000), "a number nobody has");
	expect(!raw_query_mr(ctx, handle, &info), "the region is gone");
	CHECK_SYS(ibv_dereg_mr(mr));
	expect(raw_dereg(ctx, handle), "a number that is free again");
	expect(raw_query_mr(ctx, handle, &info), "queried");
}

/* Rings for every number that another file has; how often it was heard. */
static unsigned int heard(struct ibv_context *from)
{
	unsigned int n = 0, i;

	for (i = 0; i < 1000; i++)
		n += !raw_doorbell(from, i);
	return n;
}

static void doorbells(void)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct ibv_context *other = ibv_open_device(ctx->device);
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_wc wc;
	struct ibv_qp *qp;
	struct both b;

	CHECK(other, "open the device again: %m");
	part("V-PRIV-4 doorbells ring at queue pairs of the same file only");
	both_connect(&b, &listener, &where, &attr, &attr);
	expect(!heard(other), "another file's doorbell is heard");
	pd = ibv_alloc_pd(other);
	cq = ibv_create_cq(other, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
	};
	qp = ibv_create_qp(pd, &ia);
	CHECK(qp, "create QP: %m");
	expect(!raw_doorbell(other, qp->handle), "the own one is not");
	expect(heard(other) == 1, "others' too");
	part("V-PRIV-4 those of others go on");
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 2, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	expect(ep_poll(b.a.scq, &wc, EP_EVENT_MS) && !wc.status, "Send");
	expect(ep_poll(b.p.rcq, &wc, EP_EVENT_MS) && !wc.status, "receive");
	CHECK_SYS(ibv_destroy_qp(qp));
	CHECK_SYS(ibv_destroy_cq(cq));
	CHECK_SYS(ibv_dealloc_pd(pd));
	CHECK_SYS(ibv_close_device(other));
	both_close(&b);
}

static void commands(void)
{
	static const struct {
		const char *name;
		unsigned int number;
	} none[] = {
		{ "CREATE_AH", IB_USER_VERBS_CMD_CREATE_AH },
		{ "DESTROY_AH", IB_USER_VERBS_CMD_DESTROY_AH },
		{ "ATTACH_MCAST", IB_USER_VERBS_CMD_ATTACH_MCAST },
		{ "DETACH_MCAST", IB_USER_VERBS_CMD_DETACH_MCAST },
		{ "OPEN_XRCD", IB_USER_VERBS_CMD_OPEN_XRCD },
		{ "CLOSE_XRCD", IB_USER_VERBS_CMD_CLOSE_XRCD },
		/* Numbers that no command ever had. */
		{ "PEEK_CQ", IB_USER_VERBS_CMD_PEEK_CQ },
		{ "QUERY_MR", IB_USER_VERBS_CMD_QUERY_MR },
		{ "REG_SMR", IB_USER_VERBS_CMD_REG_SMR },
		{ "one behind the last", IB_USER_VERBS_CMD_OPEN_QP + 1 },
	};
	unsigned int i;

	part("L-CORE-19 commands that are not offered say so");
	for (i = 0; i < COUNT(none); i++) {
		int err = raw_command(ctx, none[i].number);

		expect(err == EOPNOTSUPP || err == EINVAL, "%s: %s",
		       none[i].name, strerror(err));
		/* No object was found to be wrong: it did not come to that. */
		expect(i > 5 || err == EOPNOTSUPP, "%s: %s", none[i].name,
		       strerror(err));
	}
}

/* In a process of its own; its exit status is 0, or the line that fails. */
static int poor(void)
{
	const struct rlimit limit = { LOCKED, LOCKED };
	struct rdma_event_channel *ec;
	char *mem = ep_pages(4 * LOCKED);
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	int i;

	CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &limit));
	CHECK_SYS(setresuid(NOBODY, NOBODY, NOBODY));
	ec = rdma_create_event_channel();
	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, where.addr, where.port);
	pd = ibv_alloc_pd(id->verbs);
	CHECK(pd, "PD: %m");
	/* What fails uses nothing up. */
	for (i = 0; i < 20; i++) {
		errno = 0;
		mr = ibv_reg_mr(pd, mem, 4 * LOCKED, 0);
		if (mr || errno != ENOMEM)
			return __LINE__;
	}
	mr = ibv_reg_mr(pd, mem, 4096, 0);
	if (!mr)
		return __LINE__;
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dealloc_pd(pd));
	return 0;
}

static void locked(void)
{
	int status;

	part("V-IMM-1 V-MR-6 S-5042-10 more memory than the process may lock");
	/* Before anything of verbs is there: a fork would share it. */
	status = in_child(poor);
	expect(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x, line %d",
	       status, WEXITSTATUS(status));
}

static void run(void)
{
	struct ibv_pd *pd;

	locked();
	start_listening();
	ctx = listener.id->verbs;
	CHECK(ctx, "%s is the address of no device", where.addr);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd, "PD: %m");
	regions(pd, ep_pages(LEN));
	CHECK_SYS(ibv_dealloc_pd(pd));
	commands();
	doorbells();
	ep_unlisten(&listener);
}

const struct prog prog = {
	.name = "uverbs",
	.text = "Numbers of objects, commands and limits, without the library.\n",
	.kind = PROG_HERE,
	.port = 18860,
	.limit = 60,
	.run = run,
};
