// SPDX-License-Identifier: GPL-2.0
/* Objects that are made, changed and destroyed while things fail inside. */
#include "faults.h"

#include <errno.h>
#include <sys/mman.h>

#include "raw.h"

#define BIG (4u << 20)

static struct ibv_context *second;
static struct ibv_pd *pd, *new_pd;
static struct ibv_cq *cq, *new_cq;
static struct ibv_qp *qp;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static char *memory;

static int made(const void *object)
{
	return object ? 0 : errno;
}

static int open_run(void)
{
	second = ibv_open_device(ctx->device);
	return made(second);
}

static int open_end(void)
{
	return ibv_close_device(second) ? errno : 0;
}

static int pd_run(void)
{
	new_pd = ibv_alloc_pd(ctx);
	return made(new_pd);
}

static int pd_end(void)
{
	return ibv_dealloc_pd(new_pd);
}

static int cq_run(void)
{
	new_cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	return made(new_cq);
}

static int cq_end(void)
{
	return ibv_destroy_cq(new_cq);
}

static int resize_run(void)
{
	uint32_t entries = 1000;
	uint64_t key;
	int err = raw_resize_cq(new_cq, &entries, &key);
	size_t len = (entries * raw_cqe_size(ctx) + 8 + 4095) & ~4095ul;
	void *ring;

	if (err)
		return err;
	ring = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, ctx->cmd_fd,
		    key);
	if (ring == MAP_FAILED)
		return errno;
	munmap(ring, len);
	return 0;
}

static int srq_run(void)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = 64, .max_sge = 2 } };

	srq = ibv_create_srq(pd, &ia);
	return made(srq);
}

static int srq_end(void)
{
	return ibv_destroy_srq(srq);
}

static int limit_run(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 8 };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) ? errno : 0;
}

static int qp_run(void)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 64, 64, 4, 4, 0 },
	};

	qp = ibv_create_qp(pd, &ia);
	return made(qp);
}

static int qp_end(void)
{
	return ibv_destroy_qp(qp);
}

/* Whether a ring can be mapped that the kernel has made, with `behind` octets behind its entries. */
static int mapped(uint32_t entries, size_t size, size_t behind, uint64_t key)
{
	size_t len = (entries * size + behind + 4095) & ~4095ul;
	void *ring = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, ctx->cmd_fd, key);

	if (ring == MAP_FAILED)
		return errno;
	munmap(ring, len);
	return 0;
}

/* The depths of the queue pair, and of the shared receive queue. */
static struct ibv_qp_cap depths(uint32_t *shared)
{
	struct ibv_qp_init_attr ia;
	struct ibv_srq_attr sa;
	struct ibv_qp_attr qa;

	CHECK_SYS(ibv_query_qp(qp, &qa, IBV_QP_CAP, &ia));
	CHECK_SYS(raw_query_srq(srq, &sa));
	*shared = sa.max_wr;
	return qa.cap;
}

/* Between two depths, each time to the other one. */
static int resize_qp_run(void)
{
	struct rsiw_uresp_resize_qp resp;
	struct ibv_qp_cap before, after;
	uint32_t shared, want;
	int err;

	before = depths(&shared);
	want = before.max_send_wr == 64 ? 256 : 64;
	err = raw_resize_qp(qp, want, want, &resp);
	if (!err)
		err = mapped(resp.num_sqe, sizeof(struct rsiw_sqe), 0, resp.sq_key) ?:
		      mapped(resp.num_rqe, sizeof(struct rsiw_rqe),
			     sizeof(struct rsiw_rq_ctrl), resp.rq_key);
	else
		want = before.max_send_wr;
	after = depths(&shared);
	expect(after.max_send_wr == want && after.max_recv_wr == want, "%u, %u instead of %u",
	       after.max_send_wr, after.max_recv_wr, want);
	return err;
}

static int resize_srq_run(void)
{
	struct rsiw_uresp_resize_srq resp;
	uint32_t before, after, want;
	int err;

	depths(&before);
	want = before == 64 ? 256 : 64;
	err = raw_resize_srq(srq, want, &resp);
	if (!err)
		err = mapped(resp.num_rqe, sizeof(struct rsiw_rqe), 0, resp.srq_key);
	else
		want = before;
	depths(&after);
	expect(after == want, "%u instead of %u", after, want);
	return err;
}

static int modify_run(void)
{
	return to_state(qp, IBV_QPS_ERR);
}

static int query_run(void)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	return ibv_query_qp(qp, &qa, IBV_QP_STATE, &ia);
}

static int mr_run(void)
{
	mr = ibv_reg_mr(pd, memory, BIG, IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_REMOTE_READ);
	return made(mr);
}

static int mr_end(void)
{
	return ibv_dereg_mr(mr);
}

static int rereg_run(void)
{
	return raw_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION |
			    IBV_REREG_MR_CHANGE_ACCESS, NULL, memory + 65536,
			    BIG / 2, (uintptr_t)memory,
			    IBV_ACCESS_LOCAL_WRITE);
}

/* An object's life: made, which may fail, then destroyed, which may not. */
#define END(name) static void name ## _undo(void) { CHECK_SYS(name ## _end()); }
#define MAKE(name) static void name ## _make(void) { CHECK_SYS(name ## _run()); }
END(open) END(pd) END(cq) END(srq) END(qp) END(mr)
MAKE(open) MAKE(pd) MAKE(cq) MAKE(srq) MAKE(qp) MAKE(mr)

static const struct step lives[] = {
	{ "make a context V-IMM-1", NULL, open_run, open_undo, false },
	{ "destroy a context", open_make, open_end, NULL, true },
	{ "make a protection domain V-IMM-1", NULL, pd_run, pd_undo, false },
	{ "destroy a protection domain", pd_make, pd_end, NULL, true },
	{ "make a completion queue V-IMM-1", NULL, cq_run, cq_undo, false },
	{ "destroy a completion queue", cq_make, cq_end, NULL, true },
	{ "make a shared receive queue V-IMM-1", NULL, srq_run, srq_undo, false },
	{ "destroy a shared receive queue", srq_make, srq_end, NULL, true },
	{ "make a queue pair V-IMM-1", NULL, qp_run, qp_undo, false },
	{ "destroy a queue pair", qp_make, qp_end, NULL, true },
	{ "make a region V-IMM-1", NULL, mr_run, mr_undo, false },
	{ "destroy a region", mr_make, mr_end, NULL, true },
};

static const struct step changes[] = {
	{ "resize a completion queue V-IMM-1", NULL, resize_run, NULL, false },
	{ "limit a shared receive queue", NULL, limit_run, NULL, false },
	{ "query a queue pair", NULL, query_run, NULL, false },
	{ "end a queue pair", NULL, modify_run, NULL, false },
	{ "register a region again V-IMM-1", NULL, rereg_run, NULL, false },
};

/* What takes rings of our own. */
static const struct step own_changes[] = {
	{ "resize a queue pair V-IMM-1", NULL, resize_qp_run, NULL, false },
	{ "resize a shared receive queue V-IMM-1", NULL, resize_srq_run, NULL, false },
};

void sweep_objects(void)
{
	unsigned int i;

	memory = ep_pages(BIG);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd, "alloc PD: %m");
	cq = ibv_create_cq(ctx, 200, NULL, NULL, 0);
	CHECK(cq, "create CQ: %m");
	for (i = 0; i < COUNT(lives); i++)
		sweep(&lives[i]);
	cq_make();
	srq_make();
	qp_make();
	mr_make();
	for (i = 0; i < COUNT(changes); i++)
		sweep(&changes[i]);
	for (i = 0; raw_own_rings(ctx) && i < COUNT(own_changes); i++)
		sweep(&own_changes[i]);
	mr_undo();
	qp_undo();
	srq_undo();
	cq_undo();
	CHECK_SYS(ibv_destroy_cq(cq));
	CHECK_SYS(ibv_dealloc_pd(pd));
	munmap(memory, BIG);
}
