// SPDX-License-Identifier: GPL-2.0
/*
 * uverbs: what a process asks of uverbs directly: about objects by numbers that
 * are not its own or no more, and commands that the driver does not offer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rsiw-abi.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

#define LEN 65536

static struct ibv_context *ctx;

static void regions(struct ibv_pd *pd, char *mem)
{
	const uint64_t iova = 0x123456780000;
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
	struct ibv_qp *qp;
	struct both b;

	CHECK(other, "open the device again: %m");
	part("V-PRIV-4 doorbells ring at queue pairs of the same file only");
	both_connect(&b, &listener, &where, &attr, &attr);
	expect(!heard(other), "another file's doorbell is heard");
	qp = ep_own_qp(other, 4, 4);
	expect(!raw_doorbell(other, qp->handle), "the own one is not");
	expect(heard(other) == 1, "others' too");
	part("V-PRIV-4 those of others go on");
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 2, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	completes(b.a.scq, IBV_WC_SUCCESS);
	completes(b.p.rcq, IBV_WC_SUCCESS);
	ep_destroy_own_qp(qp);
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

/* What the driver answers to a process that opens a context. */
static void handshakes(void)
{
	static const uint64_t all = RSIW_FEATURE_RINGS | RSIW_FEATURE_IMM |
				    RSIW_FEATURE_ATOMIC | RSIW_FEATURE_WINDOWS |
				    RSIW_FEATURE_TIMESTAMP | RSIW_FEATURE_RESIZE |
				    RSIW_FEATURE_POLL | RSIW_FEATURE_FLUSH |
				    RSIW_FEATURE_RESIZE_STEPS | RSIW_FEATURE_SEND_IMM |
				    RSIW_FEATURE_UD;
	static const struct {
		const char *name;
		struct rsiw_ureq_alloc_ctx req;
		uint64_t behind;
		uint32_t len, room;
		int err;
		bool spoken;		/* the answer is more than siw's */
		uint64_t features;
	} tries[] = {
		{ "no request", .room = 8 },
		{ "no request, more room", .room = 56 },
		{ "all", { RSIW_ABI_MAGIC, 1, all }, .len = 16, .room = 56, .spoken = true,
		  .features = all },
		{ "more room", { RSIW_ABI_MAGIC, 1, all }, .len = 16, .room = 128,
		  .spoken = true, .features = all },
		{ "another magic number", { RSIW_ABI_MAGIC + 1, 1, all }, .len = 16,
		  .room = 56 },
		{ "no version", { RSIW_ABI_MAGIC, 0, all }, .len = 16, .room = 56 },
		{ "a newer version", { RSIW_ABI_MAGIC, 99, all }, .len = 16, .room = 56,
		  .spoken = true, .features = all },
		{ "nothing wanted", { RSIW_ABI_MAGIC, 1, 0 }, .len = 16, .room = 56,
		  .spoken = true },
		{ "no rings", { RSIW_ABI_MAGIC, 1, RSIW_FEATURE_ATOMIC }, .len = 16,
		  .room = 56, .spoken = true },
		{ "rings only", { RSIW_ABI_MAGIC, 1, RSIW_FEATURE_RINGS }, .len = 16,
		  .room = 56, .spoken = true, .features = RSIW_FEATURE_RINGS },
		{ "datagrams without the word that tells of flushes",
		  { RSIW_ABI_MAGIC, 1, RSIW_FEATURE_RINGS | RSIW_FEATURE_UD }, .len = 16,
		  .room = 56, .spoken = true, .features = RSIW_FEATURE_RINGS },
		{ "unknown features", { RSIW_ABI_MAGIC, 1, UINT64_MAX }, .len = 16,
		  .room = 56, .spoken = true, .features = all },
		{ "no room for the answer", { RSIW_ABI_MAGIC, 1, all }, .len = 16,
		  .room = 52 },
		{ "room for siw's answer", { RSIW_ABI_MAGIC, 1, all }, .len = 16, .room = 8 },
		{ "a short request", { RSIW_ABI_MAGIC, 1, all }, .len = 8, .room = 56 },
		{ "a longer request", { RSIW_ABI_MAGIC, 1, all }, .len = 24, .room = 56,
		  .spoken = true, .features = all },
		{ "one with more in it", { RSIW_ABI_MAGIC, 1, all }, .behind = 1, .len = 24,
		  .room = 56, .err = EOPNOTSUPP },
		{ "no room at all", .err = EINVAL },
	};
	struct {
		struct rsiw_ureq_alloc_ctx req;
		uint64_t behind;
	} req;
	union {
		struct rsiw_uresp_alloc_ctx resp;
		uint8_t octets[128];
	} answer;
	unsigned int i, j;
	int err;

	part("the handshake of a process with the driver");
	for (i = 0; i < COUNT(tries); i++) {
		req.req = tries[i].req;
		req.behind = tries[i].behind;
		memset(&answer, 0, sizeof(answer));
		err = raw_get_context(ctx, &req, tries[i].len, &answer, tries[i].room);
		expect(err == tries[i].err, "%s: %s", tries[i].name, strerror(err));
		if (err)
			continue;
		if (!tries[i].spoken) {
			for (j = 0; j < tries[i].room; j++)
				expect(!answer.octets[j], "%s: octet %u", tries[i].name, j);
			continue;
		}
		expect(answer.resp.magic == RSIW_ABI_MAGIC && answer.resp.version == 1 &&
		       answer.resp.features == tries[i].features, "%s: version %u, %#llx",
		       tries[i].name, answer.resp.version, answer.resp.features);
		expect(answer.resp.max_sge == 16 && answer.resp.max_inline == 256 &&
		       answer.resp.clock_khz == 1000000 && answer.resp.max_windows,
		       "%s: limits", tries[i].name);
	}
}

/* A queue pair of a process takes what is in its ring, and nothing else. */
static void posts(void)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV,
	};
	uint64_t *mem = ep_pages(LEN);
	struct ibv_sge sge = { .addr = (uintptr_t)mem, .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *here, *there;
	struct ibv_wc wc;
	struct both b;
	unsigned int i;
	int err;

	part("V-PRIV-1 requests that the core would post are refused");
	both_connect(&b, &listener, &where, &attr, &attr);
	here = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	there = ep_reg(&b.p, mem, LEN, ALL_ACCESS | IBV_ACCESS_REMOTE_ATOMIC);
	sge.lkey = here->lkey;
	CHECK_SYS(ep_post_recv(&b.p, 1, mem, LEN, there->lkey));
	mem[100] = 7;
	for (i = 0; i < COUNT(ops); i++) {
		wr.opcode = ops[i];
		if (ops[i] == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    ops[i] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = (uintptr_t)&mem[100];
			wr.wr.atomic.compare_add = 7;
			wr.wr.atomic.rkey = there->rkey;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)&mem[100];
			wr.wr.rdma.rkey = there->rkey;
		}
		err = raw_post_send(ctx, b.a.id->qp->handle, &wr);
		expect(err == EINVAL, "operation %d: %s", ops[i], strerror(err));
	}
	expect(!ep_poll(b.a.scq, &wc, 200), "one completes");
	expect(ibv_poll_cq(b.p.rcq, 1, &wc) == 0, "one arrives");
	expect(mem[100] == 7, "one has changed memory");
	CHECK_SYS(ibv_dereg_mr(here));
	CHECK_SYS(ibv_dereg_mr(there));
	both_close(&b);
	munmap(mem, LEN);
}

static void run(void)
{
	struct ibv_pd *pd;

	ctx = listener.id->verbs;
	pd = ibv_alloc_pd(ctx);
	CHECK(pd, "PD: %m");
	regions(pd, ep_pages(LEN));
	CHECK_SYS(ibv_dealloc_pd(pd));
	commands();
	doorbells();
	handshakes();
	posts();
}

const struct prog prog = {
	.name = "uverbs",
	.text = "Numbers of objects and commands, without the library.\n",
	.kind = PROG_LISTENS,
	.port = 18860,
	.limit = 60,
	.run = run,
};
