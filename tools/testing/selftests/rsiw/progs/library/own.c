// SPDX-License-Identifier: GPL-2.0
/* What takes rings of our own, and that it is refused without. */
#include "library.h"
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WINDOW_ACCESS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define REGION_ACCESS (ALL_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_sge sge;

static struct ibv_send_wr request(enum ibv_wr_opcode opcode, uint32_t len, uint32_t offset)
{
	sge = (struct ibv_sge){ (uintptr_t)mem, len, here->lkey };
	return (struct ibv_send_wr){
		.wr_id = 77, .sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)mem + offset, there->rkey },
	};
}

static void immediate(void)
{
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	part("X-IMM-4 RDMA Write with immediate data");
	begin(ALL_ACCESS);
	memcpy(mem, "hello", 6);
	CHECK_SYS(ep_post_recv(&b.p, 5, NULL, 0, 0));
	CHECK_SYS(ep_post_recv(&b.p, 6, NULL, 0, 0));
	wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 6, 4096);
	wr.imm_data = htobe32(0x12345678);
	CHECK_SYS(post(&wr));
	expect(good(b.a.scq, IBV_WC_RDMA_WRITE).wr_id == 77, "name");
	wc = good(b.p.rcq, IBV_WC_RECV_RDMA_WITH_IMM);
	expect(wc.wr_id == 5 && wc.wc_flags == IBV_WC_WITH_IMM, "flags %#x", wc.wc_flags);
	expect(wc.imm_data == htobe32(0x12345678), "%#x", be32toh(wc.imm_data));
	expect(!strcmp(mem + 4096, "hello"), "%.6s", mem + 4096);
	part("X-IMM-4 without octets, and inline");
	wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0);
	wr.imm_data = htobe32(1);
	CHECK_SYS(post(&wr));
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	wc = good(b.p.rcq, IBV_WC_RECV_RDMA_WITH_IMM);
	expect(wc.imm_data == htobe32(1), "%#x", be32toh(wc.imm_data));
	CHECK_SYS(ep_post_recv(&b.p, 7, NULL, 0, 0));
	wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 6, 8192);
	wr.imm_data = htobe32(2);
	wr.send_flags |= IBV_SEND_INLINE;
	CHECK_SYS(post(&wr));
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	wc = good(b.p.rcq, IBV_WC_RECV_RDMA_WITH_IMM);
	expect(wc.imm_data == htobe32(2), "%#x", be32toh(wc.imm_data));
	expect(!strcmp(mem + 8192, "hello"), "%.6s", mem + 8192);
	forget();
}

static int atomic(enum ibv_wr_opcode opcode, uint32_t offset, uint64_t compare_add,
		  uint64_t swap)
{
	struct ibv_send_wr wr = request(opcode, 8, 0);

	wr.wr.atomic.remote_addr = (uintptr_t)mem + offset;
	wr.wr.atomic.rkey = there->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return post(&wr);
}

static void atomics(void)
{
	uint64_t *result = (uint64_t *)mem, *word = (uint64_t *)(mem + 4096);
	struct ibv_send_wr wr;

	part("X-ATM-8 FetchAdd and CmpSwap");
	begin(REGION_ACCESS);
	*word = 40;
	CHECK_SYS(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 2, 0));
	expect(good(b.a.scq, IBV_WC_FETCH_ADD).byte_len == 8, "length");
	expect(*result == 40 && *word == 42, "%lu, %lu", *result, *word);
	CHECK_SYS(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 4096, 42, 7));
	good(b.a.scq, IBV_WC_COMP_SWAP);
	expect(*result == 42 && *word == 7, "%lu, %lu", *result, *word);
	CHECK_SYS(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 4096, 42, 9));
	good(b.a.scq, IBV_WC_COMP_SWAP);
	expect(*result == 7 && *word == 7, "%lu, %lu", *result, *word);
	part("a result is one element of eight octets");
	wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 4096);
	expect(post(&wr) == EINVAL, "of four");
	wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4096);
	wr.num_sge = 0;
	expect(post(&wr) == EINVAL, "none");
	part("X-ATM-9 a word is aligned");
	CHECK_SYS(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 4100, 2, 0));
	completes(b.a.scq, IBV_WC_REM_INV_REQ_ERR);
	expect(*word == 7, "%lu", *word);
	forget();
	part("X-ATM-10 a region grants the right");
	begin(ALL_ACCESS);
	*word = 1;
	CHECK_SYS(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 2, 0));
	completes(b.a.scq, IBV_WC_REM_ACCESS_ERR);
	expect(*word == 1, "%lu", *word);
	forget();
}

/* Binds at the passive end, which has the region; 0 or an error number. */
static int bind_window(struct ibv_mw *mw, uint32_t rkey, uint32_t offset, uint32_t len, int access)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, rkey, { there, (uintptr_t)mem + offset, len, access } },
	}, *at;

	return ibv_post_send(b.p.id->qp, &wr, &at);
}

static int invalidate(uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	}, *at;

	return ibv_post_send(b.p.id->qp, &wr, &at);
}

static void write_by(uint32_t rkey, uint32_t offset, uint32_t len)
{
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, len, offset);

	wr.wr.rdma.rkey = rkey;
	CHECK_SYS(post(&wr));
}

/* A new window of the peer, which is not bound. */
static struct ibv_mw *window(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(b.p.pd, type);

	CHECK(mw, "window: %m");
	return mw;
}

/* Binds a window with `access` to a region with `region_access`, which fails. */
static void bind_refused(int region_access, int access)
{
	struct ibv_mw *mw;

	begin(region_access);
	mw = window(IBV_MW_TYPE_2);
	CHECK_SYS(bind_window(mw, ibv_inc_rkey(mw->rkey), 0, 4096, access));
	completes(b.p.scq, IBV_WC_MW_BIND_ERR);
	CHECK_SYS(ibv_dealloc_mw(mw));
	forget();
}

static void windows(void)
{
	struct ibv_mw *mw;
	uint32_t rkey;

	part("V-MW-1 V-MW-2 V-MW-8 a window of type 2 is bound, and used");
	begin(REGION_ACCESS);
	mw = window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK_SYS(bind_window(mw, rkey, 8192, 4096, WINDOW_ACCESS));
	good(b.p.scq, IBV_WC_BIND_MW);
	memcpy(mem, "hello", 6);
	write_by(rkey, 8192, 6);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	good(b.p.rcq, IBV_WC_RECV);
	good(b.a.scq, IBV_WC_SEND);
	expect(!strcmp(mem + 8192, "hello"), "%.6s", mem + 8192);
	part("V-MW-16 V-IMM-8 V-DEA-4 V-QP-24 neither region nor QP go while it is bound");
	expect(ibv_dereg_mr(there) == EBUSY, "the region");
	expect(ibv_destroy_qp(b.p.id->qp) == EBUSY, "the QP");
	part("V-MR-9 nor is the region registered again");
	expect(ibv_rereg_mr(there, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem, LEN, 0) ==
	       IBV_REREG_MR_ERR_CMD && errno == EBUSY, "%m");
	write_by(rkey, 8192, 6);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	part("V-MW-13 V-MW-14 it is bound again once it was invalidated");
	CHECK_SYS(invalidate(rkey));
	good(b.p.scq, IBV_WC_LOCAL_INV);
	rkey = ibv_inc_rkey(rkey);
	/* The right of this host means nothing to a window. */
	CHECK_SYS(bind_window(mw, rkey, 8192, 16,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	good(b.p.scq, IBV_WC_BIND_MW);
	write_by(rkey, 8192, 16);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	part("V-MW-8 nothing beyond it is reached");
	write_by(rkey, 8192, 17);
	/* It is with TCP before the peer refuses it. */
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	expect(wait_state(b.p.id->qp, IBV_QPS_SQE, 5000) != IBV_QPS_RTS, "refused");
	CHECK_SYS(ibv_dealloc_mw(mw));
	forget();

	part("V-WC-17 a bind that is refused says so");
	bind_refused(ALL_ACCESS, WINDOW_ACCESS);

	part("V-MW-5 nor with rights that a window cannot have");
	bind_refused(REGION_ACCESS, -1);
	bind_refused(REGION_ACCESS, IBV_ACCESS_LOCAL_WRITE);

	part("V-MW-13 the peer invalidates it");
	begin(REGION_ACCESS);
	mw = window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK_SYS(bind_window(mw, rkey, 8192, 4096, WINDOW_ACCESS));
	good(b.p.scq, IBV_WC_BIND_MW);
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND_WITH_INV, NULL, 0, 0, 0, rkey));
	good(b.a.scq, IBV_WC_SEND);
	expect(good(b.p.rcq, IBV_WC_RECV).invalidated_rkey == rkey, "told");
	write_by(rkey, 8192, 6);
	expect(wait_state(b.p.id->qp, IBV_QPS_SQE, 5000) != IBV_QPS_RTS, "refused");
	CHECK_SYS(ibv_dealloc_mw(mw));
	forget();
}

static void old_windows(void)
{
	struct ibv_mw_bind to = {
		.wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_mw *mw;
	uint32_t first;

	part("V-MW-17 a window of type 1 is bound again and again");
	begin(REGION_ACCESS);
	mw = window(IBV_MW_TYPE_1);
	to.bind_info = (struct ibv_mw_bind_info){
		there, (uintptr_t)mem + 8192, 4096, WINDOW_ACCESS,
	};
	CHECK_SYS(ibv_bind_mw(b.p.id->qp, mw, &to));
	good(b.p.scq, IBV_WC_BIND_MW);
	first = mw->rkey;
	memcpy(mem, "hello", 6);
	write_by(first, 8192, 6);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	CHECK_SYS(ibv_bind_mw(b.p.id->qp, mw, &to));
	good(b.p.scq, IBV_WC_BIND_MW);
	expect(mw->rkey != first, "the same key");
	write_by(mw->rkey, 8198, 6);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	good(b.p.rcq, IBV_WC_RECV);
	good(b.a.scq, IBV_WC_SEND);
	expect(!strcmp(mem + 8192, "hello") && !strcmp(mem + 8198, "hello"), "written");
	part("V-MW-17 a bind of nothing ends it");
	to.bind_info = (struct ibv_mw_bind_info){};
	CHECK_SYS(ibv_bind_mw(b.p.id->qp, mw, &to));
	good(b.p.scq, IBV_WC_BIND_MW);
	write_by(mw->rkey, 8192, 6);
	expect(wait_state(b.p.id->qp, IBV_QPS_SQE, 5000) != IBV_QPS_RTS, "refused");
	part("V-IMM-11 one of type 1 takes ibv_bind_mw");
	expect(bind_window(mw, ibv_inc_rkey(mw->rkey), 0, 16, WINDOW_ACCESS) == EINVAL, "posted");
	CHECK_SYS(ibv_dealloc_mw(mw));
	forget();
}

#define MANY 16

static void elements(void)
{
	static const struct ep_attr attr = {
		.send_wr = 4, .recv_wr = 4, .send_sge = MANY, .recv_sge = MANY,
		.inline_data = 256,
	};
	struct ibv_sge list[MANY];
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = list, .num_sge = MANY }, *bad_recv;
	struct ibv_send_wr wr;
	unsigned int i;

	part("V-RNIC-5 V-WR-12 V-IMM-13 sixteen elements, sent and received");
	begin_with(&attr, ALL_ACCESS);
	expect(b.a.cap.max_send_sge == MANY && b.a.cap.max_recv_sge == MANY, "%u, %u",
	       b.a.cap.max_send_sge, b.a.cap.max_recv_sge);
	for (i = 0; i < 1024; i++)
		mem[i] = i * 7;
	for (i = 0; i < MANY; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)mem + 32768 + 100 * i, 64, there->lkey };
	CHECK_SYS(ibv_post_recv(b.p.id->qp, &recv, &bad_recv));
	wr = request(IBV_WR_SEND, 64, 0);
	for (i = 0; i < MANY; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)mem + 64 * i, 64, here->lkey };
	wr.sg_list = list;
	wr.num_sge = MANY;
	CHECK_SYS(post(&wr));
	good(b.a.scq, IBV_WC_SEND);
	expect(good(b.p.rcq, IBV_WC_RECV).byte_len == 1024, "length");
	for (i = 0; i < MANY; i++)
		expect(!memcmp(mem + 64 * i, mem + 32768 + 100 * i, 64), "element %u", i);
	wr.num_sge = MANY + 1;
	expect(post(&wr) == EINVAL, "seventeen");
	part("V-RNIC-5 V-WR-23 256 octets inline");
	expect(b.a.cap.max_inline_data == 256, "%u", b.a.cap.max_inline_data);
	wr = request(IBV_WR_RDMA_WRITE, 256, 16384);
	wr.send_flags |= IBV_SEND_INLINE;
	CHECK_SYS(post(&wr));
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	sge.length = 257;
	expect(post(&wr) == EINVAL, "257");
	CHECK_SYS(ep_post_recv(&b.p, 2, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	good(b.p.rcq, IBV_WC_RECV);
	expect(!memcmp(mem, mem + 16384, 256), "written");
	forget();
}

static void shared(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = MANY } };
	struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct ibv_recv_wr recv = { .wr_id = 9, .num_sge = MANY }, *bad_recv;
	struct ibv_sge list[MANY];
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	unsigned int i;

	part("V-RNIC-5 V-WR-12 sixteen elements of a shared receive");
	pd = ibv_alloc_pd(listener.id->verbs);
	CHECK(pd, "PD: %m");
	srq = ibv_create_srq(pd, &init);
	CHECK(srq, "shared queue: %m");
	attr.srq = srq;
	attr.pd = pd;
	begin_with(&attr, ALL_ACCESS);
	memset(mem, 5, MANY * 10);
	for (i = 0; i < MANY; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)mem + 32768 + 100 * i, 10, there->lkey };
	recv.sg_list = list;
	CHECK_SYS(ibv_post_srq_recv(srq, &recv, &bad_recv));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, mem, MANY * 10, here->lkey, 0, 0));
	good(b.a.scq, IBV_WC_SEND);
	expect(good(b.p.rcq, IBV_WC_RECV).wr_id == 9, "name");
	for (i = 0; i < MANY; i++)
		expect(mem[32768 + 100 * i + 9] == 5, "element %u", i);
	forget();
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;

	CHECK_SYS(clock_gettime(id, &t));
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void time_stamps(void)
{
	static const struct ep_attr attr = {
		.send_wr = 4, .recv_wr = 4,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	uint64_t ticks, wall, ticks_before, wall_before, now;
	struct ibv_poll_cq_attr none = {};
	struct ibv_cq_ex *cq;

	part("time stamps in completions");
	begin_with(&attr, ALL_ACCESS);
	cq = (struct ibv_cq_ex *)b.a.scq;
	ticks_before = clock_of(CLOCK_MONOTONIC);
	wall_before = clock_of(CLOCK_REALTIME);
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_RDMA_WRITE, mem, 8, here->lkey, (uintptr_t)mem,
			       there->rkey));
	while (ibv_start_poll(cq, &none))
		;
	ticks = ibv_wc_read_completion_ts(cq);
	wall = ibv_wc_read_completion_wallclock_ns(cq);
	ibv_end_poll(cq);
	CHECK_SYS(ibv_query_rt_values_ex(b.a.id->verbs, &values));
	/* In one number, as a clock that knows no seconds: programs look at no other. */
	expect(!values.raw_clock.tv_sec, "%ld seconds", values.raw_clock.tv_sec);
	now = values.raw_clock.tv_nsec;
	expect(ticks_before <= ticks && ticks <= now, "%lu, %lu, %lu", ticks_before, ticks, now);
	now = clock_of(CLOCK_REALTIME);
	expect(wall_before <= wall && wall <= now, "%lu, %lu, %lu", wall_before, wall, now);
	forget();
}

static void builders(void)
{
	static const struct ep_attr attr = {
		.send_wr = 8, .recv_wr = 4, .inline_data = 16,
		.send_ops = STANDARD_OPS | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
	};
	uint64_t *word = (uint64_t *)(mem + 4096);
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *qp;
	struct ibv_mw *mw;
	uint32_t rkey;

	part("V-WR-1 all operations by ibv_wr_ functions");
	begin_with(&attr, REGION_ACCESS);
	qp = ibv_qp_to_qp_ex(b.p.id->qp);
	mw = window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	info = (struct ibv_mw_bind_info){ there, (uintptr_t)mem, LEN, WINDOW_ACCESS };
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qp, mw, rkey, &info);
	ibv_wr_local_inv(qp, rkey);
	CHECK_SYS(ibv_wr_complete(qp));
	good(b.p.scq, IBV_WC_BIND_MW);
	good(b.p.scq, IBV_WC_LOCAL_INV);
	CHECK_SYS(ibv_dealloc_mw(mw));
	qp = ibv_qp_to_qp_ex(b.a.id->qp);
	*word = 5;
	CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qp, there->rkey, (uintptr_t)word, 3);
	ibv_wr_set_sge(qp, here->lkey, (uintptr_t)mem, 8);
	ibv_wr_atomic_cmp_swp(qp, there->rkey, (uintptr_t)word, 8, 100);
	ibv_wr_set_sge(qp, here->lkey, (uintptr_t)mem + 8, 8);
	qp->wr_flags |= IBV_SEND_FENCE;
	ibv_wr_rdma_write_imm(qp, there->rkey, (uintptr_t)mem + 8192, htobe32(33));
	ibv_wr_set_inline_data(qp, "hi", 3);
	CHECK_SYS(ibv_wr_complete(qp));
	good(b.a.scq, IBV_WC_FETCH_ADD);
	good(b.a.scq, IBV_WC_COMP_SWAP);
	good(b.a.scq, IBV_WC_RDMA_WRITE);
	expect(good(b.p.rcq, IBV_WC_RECV_RDMA_WITH_IMM).imm_data == htobe32(33), "immediate");
	expect(((uint64_t *)mem)[0] == 5 && ((uint64_t *)mem)[1] == 8 && *word == 100,
	       "%lu, %lu, %lu", ((uint64_t *)mem)[0], ((uint64_t *)mem)[1], *word);
	expect(!strcmp(mem + 8192, "hi"), "written");
	forget();
}

/* A program that resets a queue pair of the RDMA CM does not see its completions any more. */
static void resets(void)
{
	struct ibv_wc wc;
	unsigned int i;

	part("RESET takes out completions");
	begin(ALL_ACCESS);
	for (i = 0; i < 3; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 1, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	good(b.a.scq, IBV_WC_SEND);
	good(b.p.rcq, IBV_WC_RECV);
	CHECK_SYS(to_state(b.p.id->qp, IBV_QPS_ERR));
	/* The last one stays until then. */
	completes(b.p.rcq, IBV_WC_WR_FLUSH_ERR);
	CHECK_SYS(to_state(b.p.id->qp, IBV_QPS_RESET));
	expect(!ep_poll(b.p.rcq, &wc, 0), "there is one");
	forget();
}

/* What the driver does not know of yet is not taken for nothing. */
static void pads(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UD };
	static char answer[RAW_ANSWER];
	unsigned int i;
	uint32_t num;
	int err;

	begin(ALL_ACCESS);
	for (i = 0; i < COUNT(types); i++) {
		part("V-IMM-2 a pad of a request to create a QP is 0, type %d", types[i]);
		err = raw_create_qp(b.a.pd, b.a.scq, types[i],
				    (struct rsiw_ureq_create_qp){ .pad = 1 }, answer, &num);
		expect(err == EINVAL, "created: %s", strerror(err));
		part("V-IMM-2 more time than there can be is refused, type %d", types[i]);
		err = raw_create_qp(b.a.pd, b.a.scq, types[i],
				    (struct rsiw_ureq_create_qp){ .poll_us = RSIW_MAX_POLL_US + 1 },
				    answer, &num);
		expect(err == EINVAL, "created: %s", strerror(err));
	}
	forget();
}

/*
 * The core destroys what a process leaves behind, the newest first: the queue pair
 * and the region before the windows that hold them.
 */
void abandon(void)
{
	struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct ibv_mw_bind to = { .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw *one, *two;

	attr.pd = ibv_alloc_pd(listener.id->verbs);
	CHECK(attr.pd, "PD: %m");
	one = ibv_alloc_mw(attr.pd, IBV_MW_TYPE_1);
	two = ibv_alloc_mw(attr.pd, IBV_MW_TYPE_2);
	CHECK(one && two, "windows: %m");
	begin_with(&attr, REGION_ACCESS);
	to.bind_info = (struct ibv_mw_bind_info){
		there, (uintptr_t)mem, 4096, WINDOW_ACCESS,
	};
	CHECK_SYS(ibv_bind_mw(b.p.id->qp, one, &to));
	ep_done(b.p.scq, IBV_WC_SUCCESS);
	CHECK_SYS(bind_window(two, ibv_inc_rkey(two->rkey), 4096, 4096, WINDOW_ACCESS));
	ep_done(b.p.scq, IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(b.p.id->qp) == EBUSY, "the window does not hold the QP");
	_exit(0);
}

void own_rings(void)
{
	immediate();
	atomics();
	windows();
	old_windows();
	elements();
	shared();
	time_stamps();
	builders();
	resets();
	pads();
	own_depths();
}

void stock_rings(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW,
	};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_send_wr wr;
	unsigned int i;

	stock_depths();
	part("V-IMM-11 what takes rings of our own is refused without");
	begin(ALL_ACCESS);
	for (i = 0; i < COUNT(ops); i++) {
		wr = request(ops[i], 8, 0);
		expect(post(&wr) == EINVAL, "operation %d", ops[i]);
	}
	expect(!ibv_alloc_mw(b.a.pd, IBV_MW_TYPE_2), "a window");
	init.pd = b.a.pd;
	init.send_cq = init.recv_cq = b.a.scq;
	expect(!ibv_create_qp_ex(b.a.id->verbs, &init) && errno == EOPNOTSUPP, "QP: %m");
	expect(!ibv_create_cq_ex(b.a.id->verbs, &cq) && errno == EOPNOTSUPP, "CQ: %m");
	forget();
}
