// SPDX-License-Identifier: GPL-2.0
/* Other depths for queues of requests, with something in them and under load. */
#include "library.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "raw.h"

/* Messages of the runs under load, and how many of them there are at a time. */
#define MESSAGES 20000
#define WINDOW 8
/* What numbers of entries are asked for meanwhile: at least the window. */
#define LEAST 8
#define DOUBLINGS 5

static int set_depths(struct ibv_qp *qp, uint32_t send, uint32_t recv)
{
	struct ibv_qp_attr attr = {
		.cap = { .max_send_wr = send, .max_recv_wr = recv, .max_send_sge = 1,
			 .max_recv_sge = recv ? 1 : 0 },
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_CAP);
}

static void depths_are(struct ibv_qp *qp, uint32_t send, uint32_t recv)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_SYS(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	expect(attr.cap.max_send_wr == send && attr.cap.max_recv_wr == recv,
	       "depths %u and %u instead of %u and %u", attr.cap.max_send_wr,
	       attr.cap.max_recv_wr, send, recv);
}

static int set_shared(struct ibv_srq *srq, uint32_t depth)
{
	struct ibv_srq_attr attr = { .max_wr = depth };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static void shared_is(struct ibv_srq *srq, uint32_t depth, uint32_t limit)
{
	struct ibv_srq_attr attr;

	CHECK_SYS(ibv_query_srq(srq, &attr));
	expect(attr.max_wr == depth && attr.srq_limit == limit,
	       "depth %u and limit %u instead of %u and %u", attr.max_wr, attr.srq_limit,
	       depth, limit);
}

/* Where the receive with that name puts its message, of eight octets. */
static uint64_t *place_of(uint64_t id)
{
	return (uint64_t *)(mem + 4096) + id % 256;
}

static int post_recv(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)place_of(id), 8, there->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *at;

	*place_of(id) = -1;
	if (srq)
		return ibv_post_srq_recv(srq, &wr, &at);
	return ibv_post_recv(b.p.id->qp, &wr, &at);
}

/* Sends the number `id`. */
static int post_send(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)&id, 8, 0 };
	struct ibv_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	return post(&wr);
}

/* The next messages, from that number on, have come in their order. */
static void come(uint64_t first, unsigned int n)
{
	struct ibv_wc wc;

	for (; n--; first++) {
		wc = good(b.p.rcq, IBV_WC_RECV);
		expect(wc.wr_id == first && *place_of(first) == first, "%lu, %lu instead of %lu",
		       wc.wr_id, *place_of(first), first);
	}
}

static void sent(uint64_t first, unsigned int n)
{
	for (; n--; first++)
		expect(good(b.a.scq, IBV_WC_SEND).wr_id == first, "order");
}

/* Posts receives up to that number, after which there is room for none. */
static void fill(struct ibv_srq *srq, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		CHECK_SYS(post_recv(srq, first));
	expect(post_recv(srq, end) == ENOMEM, "more than there is room for");
}

/* Sends the numbers up to that one, which come in their order. */
static void send_all(uint64_t first, uint64_t end)
{
	uint64_t id;

	for (id = first; id < end; id++)
		CHECK_SYS(post_send(id));
	come(first, end - first);
}

static void receives_wait(void)
{
	static const struct ep_attr attr = {
		.send_wr = 16, .recv_wr = 16, .inline_data = 8, .cqe = 64,
	};
	struct ibv_qp *qp;
	unsigned int i;

	part("V-QP-21 V-IMM-5 receives wait while depths change");
	begin_with(&attr, ALL_ACCESS);
	qp = b.p.id->qp;
	for (i = 0; i < 8; i++)
		CHECK_SYS(post_recv(NULL, i));
	CHECK_SYS(set_depths(qp, 5, 100));
	depths_are(qp, 8, 128);
	send_all(0, 3);
	expect(set_depths(qp, 64, 4) == EINVAL, "fewer than what waits");
	depths_are(qp, 8, 128);
	CHECK_SYS(set_depths(qp, 64, 5));
	depths_are(qp, 64, 8);
	fill(NULL, 8, 11);
	CHECK_SYS(set_depths(qp, 64, 16));
	fill(NULL, 11, 19);
	send_all(3, 19);
	sent(0, 19);
	CHECK_SYS(set_depths(qp, 1, 1));
	depths_are(qp, 1, 1);
	CHECK_SYS(post_recv(NULL, 19));
	send_all(19, 20);
	sent(19, 1);
	forget();
}

/* What is posted before there is a connection waits in the queue. */
static void sends_wait(void)
{
	static const struct ep_attr attr = {
		.send_wr = 8, .recv_wr = 32, .inline_data = 8, .cqe = 64,
	};
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	unsigned int i;

	part("V-QP-21 V-WR-23 requests wait while depths change");
	b.a.ec = rdma_create_event_channel();
	b.p.ec = rdma_create_event_channel();
	CHECK(b.a.ec && b.p.ec, "event channel: %m");
	ep_setup(&b.a, active_id(b.a.ec, &listener, &where), &attr);
	qp = b.a.id->qp;
	for (i = 0; i < 6; i++)
		CHECK_SYS(post_send(i));
	expect(set_depths(qp, 4, 32) == EINVAL, "fewer than what waits");
	depths_are(qp, 8, 32);
	CHECK_SYS(set_depths(qp, 64, 1));
	depths_are(qp, 64, 1);
	CHECK_SYS(set_depths(qp, 6, 32));
	depths_are(qp, 8, 32);
	for (; i < 8; i++)
		CHECK_SYS(post_send(i));
	expect(post_send(i) == ENOMEM, "more than there is room for");
	CHECK_SYS(set_depths(qp, 16, 32));
	for (; i < 16; i++)
		CHECK_SYS(post_send(i));
	expect(post_send(i) == ENOMEM, "more than there is room for");
	CHECK_SYS(rdma_connect(b.a.id, &b.a.param));
	id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK_SYS(rdma_migrate_id(id, b.p.ec));
	ep_setup(&b.p, id, &attr);
	here = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	there = ep_reg(&b.p, mem, LEN, ALL_ACCESS);
	for (i = 0; i < 20; i++)
		CHECK_SYS(post_recv(NULL, i));
	CHECK_SYS(rdma_accept(id, &b.p.param));
	ep_expect(b.p.ec, RDMA_CM_EVENT_ESTABLISHED);
	ep_expect(b.a.ec, RDMA_CM_EVENT_ESTABLISHED);
	for (i = 16; i < 20; i++)
		while (post_send(i) == ENOMEM)
			;
	come(0, 20);
	sent(0, 20);
	forget();
}

static struct ibv_srq *begin_shared(struct ibv_pd **pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ep_attr attr = { .send_wr = 16, .recv_wr = 16, .inline_data = 8, .cqe = 64 };
	struct ep_attr of_peer = attr;
	struct ibv_srq *srq;

	*pd = ibv_alloc_pd(listener.id->verbs);
	CHECK(*pd, "PD: %m");
	srq = ibv_create_srq(*pd, &init);
	CHECK(srq, "shared queue: %m");
	of_peer.srq = srq;
	of_peer.pd = *pd;
	begin_ends(&attr, &of_peer, ALL_ACCESS);
	return srq;
}

static void end_shared(struct ibv_srq *srq, struct ibv_pd *pd)
{
	forget();
	CHECK_SYS(ibv_destroy_srq(srq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void shared(void)
{
	struct ibv_srq_attr attr = {};
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	unsigned int i;

	part("V-SRQ-5 V-SRQ-20 V-IMM-5 shared receives wait while the depth changes");
	srq = begin_shared(&pd);
	for (i = 0; i < 8; i++)
		CHECK_SYS(post_recv(srq, i));
	CHECK_SYS(set_shared(srq, 100));
	shared_is(srq, 128, 0);
	send_all(0, 3);
	expect(set_shared(srq, 4) == EINVAL, "fewer than what waits");
	attr.max_wr = 8;
	attr.srq_limit = 9;
	expect(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL,
	       "a limit above the depth");
	expect(set_shared(srq, 0) == EINVAL, "none");
	expect(set_shared(srq, -1) == EINVAL, "more than can be counted");
	shared_is(srq, 128, 0);
	attr.srq_limit = 2;
	CHECK_SYS(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	shared_is(srq, 8, 2);
	fill(srq, 8, 11);
	CHECK_SYS(set_shared(srq, 16));
	shared_is(srq, 16, 2);
	fill(srq, 11, 19);
	send_all(3, 19);
	sent(0, 19);
	part("V-QP-22 its queue pair has no receive queue to be resized");
	expect(set_depths(b.p.id->qp, 16, 16) == EINVAL, "accepted");
	CHECK_SYS(set_depths(b.p.id->qp, 100, 0));
	depths_are(b.p.id->qp, 128, 0);
	end_shared(srq, pd);
}

static void refusals(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	part("V-IMM-2 V-IMM-5 V-QP-23 depths that there cannot be, and more than depths");
	begin(ALL_ACCESS);
	qp = b.a.id->qp;
	expect(set_depths(qp, 32769, 16) == EINVAL, "too many requests");
	expect(set_depths(qp, 16, 32769) == EINVAL, "too many receives");
	expect(set_depths(qp, -1, -1) == EINVAL, "more than can be counted");
	attr = (struct ibv_qp_attr){ .cap = { 32, 32, b.a.cap.max_send_sge + 1, 1, 0 } };
	expect(ibv_modify_qp(qp, &attr, IBV_QP_CAP) == EINVAL, "elements of requests");
	attr = (struct ibv_qp_attr){ .cap = { 32, 32, 1, b.a.cap.max_recv_sge + 1, 0 } };
	expect(ibv_modify_qp(qp, &attr, IBV_QP_CAP) == EINVAL, "elements of receives");
	attr = (struct ibv_qp_attr){ .cap = { 32, 32, 1, 1, b.a.cap.max_inline_data + 1 } };
	expect(ibv_modify_qp(qp, &attr, IBV_QP_CAP) == EINVAL, "octets");
	attr = (struct ibv_qp_attr){ .cap = { 32, 32, 1, 1, 0 }, .qp_state = IBV_QPS_ERR };
	expect(ibv_modify_qp(qp, &attr, IBV_QP_CAP | IBV_QP_STATE) == EINVAL, "with a state");
	depths_are(qp, b.a.cap.max_send_wr, b.a.cap.max_recv_wr);
	expect(wait_state(qp, IBV_QPS_RTS, 0) == IBV_QPS_RTS, "state");
	part("V-QP-21 the most that there can be");
	CHECK_SYS(set_depths(qp, 32768, 32768));
	depths_are(qp, 32768, 32768);
	CHECK_SYS(post_recv(NULL, 0));
	send_all(0, 1);
	sent(0, 1);
	forget();
}

/* Calls of the methods that the library does not make. */
static void raw_calls(void)
{
	struct ibv_context *ctx = listener.id->verbs;
	struct { struct rsiw_ureq_resize_qp req; uint64_t behind; } req = { { 32, 32, 0, 0 }, 1 };
	struct rsiw_ureq_resize_srq shared = { .num_rqe = 32, .flags = 1 << 3 };
	struct rsiw_uresp_resize_srq shared_resp;
	struct rsiw_uresp_resize_qp resp;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	uint32_t qp, sq;

	part("V-PRIV-3 V-IMM-5 methods that are called wrongly");
	srq = begin_shared(&pd);
	sq = srq->handle;
	qp = b.a.id->qp->handle;
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, NULL, 0, &shared_resp, 16) == EINVAL,
	       "no request");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 12, &shared_resp, 16) == EINVAL,
	       "a short request");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 16, &shared_resp, 16) == EINVAL,
	       "an unknown flag");
	shared.flags = 0;
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 16, NULL, 0) == EINVAL,
	       "no room for an answer");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 16, &shared_resp, 12) == EINVAL,
	       "little room for an answer");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, (void *)8, 16, &shared_resp, 16) == EFAULT,
	       "no memory of a request");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 16, (void *)8, 16) == EFAULT,
	       "no memory for an answer");
	shared.pad = 1;
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, sq, &shared, 16, &shared_resp, 16) == EINVAL,
	       "something in what is unused");
	expect(raw_resize(ctx, UVERBS_OBJECT_SRQ, -2, &shared, 16, &shared_resp, 16) != 0,
	       "no such queue");
	shared_is(srq, 16, 0);
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, NULL, 0, &resp, 24) == EINVAL,
	       "no request");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 4, &resp, 24) == EINVAL,
	       "a short request");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 24, &resp, 24) == EOPNOTSUPP,
	       "a longer request with something in it");
	req.req.pad = 1;
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 16, &resp, 24) == EINVAL,
	       "something in what is unused");
	req.req.pad = 0;
	req.req.flags = 1;
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 16, &resp, 24) == EINVAL,
	       "an unknown flag");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 8, NULL, 0) == EINVAL,
	       "no room for an answer");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 8, &resp, 16) == EINVAL,
	       "little room for an answer");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, qp, &req, 8, (void *)8, 24) == EFAULT,
	       "no memory for an answer");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, -2, &req, 8, &resp, 24) != 0,
	       "no such queue pair");
	expect(raw_resize(ctx, UVERBS_OBJECT_QP, b.p.id->qp->handle, &req, 8, &resp, 24) ==
	       EINVAL, "a receive queue where there is a shared one");
	depths_are(b.a.id->qp, 16, 16);
	depths_are(b.p.id->qp, 16, 0);
	end_shared(srq, pd);
}

/* Whether the memory of a ring can be mapped by that key. */
static bool maps(uint64_t key, size_t octets)
{
	size_t page = sysconf(_SC_PAGESIZE), len = (octets + page - 1) / page * page;
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED,
			listener.id->verbs->cmd_fd, key);

	return at != MAP_FAILED && !munmap(at, len);
}

static int requests_step(uint32_t depth, uint32_t flags, struct rsiw_uresp_resize_qp *resp)
{
	struct rsiw_ureq_resize_qp req = { depth, depth, flags, 0 };
	struct ibv_qp *qp = b.a.id->qp;

	return raw_resize(qp->context, UVERBS_OBJECT_QP, qp->handle, &req, sizeof(req), resp,
			  resp ? sizeof(*resp) : 0);
}

/* The library does not learn of the last of them. */
static void steps_of_requests(void)
{
	const size_t size = sizeof(struct rsiw_sqe);
	struct rsiw_uresp_resize_qp resp, other;
	unsigned int i;

	part("V-QP-23 V-IMM-5 a queue pair that is resized in steps");
	begin(ALL_ACCESS);
	CHECK_SYS(set_depths(b.a.id->qp, 16, 16));
	expect(requests_step(32, RSIW_RESIZE_MOVE, NULL) == EINVAL, "to nothing");
	expect(requests_step(32, RSIW_RESIZE_MAKE | RSIW_RESIZE_MOVE, &resp) == EINVAL,
	       "two steps at once");
	expect(requests_step(32, RSIW_RESIZE_MAKE, NULL) == EINVAL, "no room for an answer");
	expect(requests_step(32769, RSIW_RESIZE_MAKE, &resp) == EINVAL, "too many");
	expect(requests_step(32, RSIW_RESIZE_MOVE, NULL) == EINVAL, "to what was not made");
	CHECK_SYS(requests_step(30, RSIW_RESIZE_MAKE, &resp));
	expect(resp.num_sqe == 32 && resp.num_rqe == 32, "%u, %u", resp.num_sqe, resp.num_rqe);
	depths_are(b.a.id->qp, 16, 16);
	expect(maps(resp.sq_key, 32 * size), "made and not mapped");
	CHECK_SYS(requests_step(64, RSIW_RESIZE_MAKE, &other));
	expect(!maps(resp.sq_key, 32 * size), "another set of rings");
	expect(maps(other.sq_key, 64 * size), "made and not mapped");
	CHECK_SYS(post_recv(NULL, 0));
	send_all(0, 1);
	sent(0, 1);
	part("V-QP-23 rings that are too small are gone afterwards");
	for (i = 0; i < 8; i++)
		CHECK_SYS(ep_post_recv(&b.a, i, mem, 8, here->lkey));
	CHECK_SYS(requests_step(4, RSIW_RESIZE_MAKE, &resp));
	expect(requests_step(64, RSIW_RESIZE_MOVE, NULL) == EINVAL, "fewer than what waits");
	expect(!maps(resp.sq_key, 4 * size), "there are still some");
	expect(requests_step(64, RSIW_RESIZE_MOVE, NULL) == EINVAL, "to what is gone");
	depths_are(b.a.id->qp, 16, 16);
	CHECK_SYS(requests_step(64, RSIW_RESIZE_MAKE, &resp));
	/* Numbers of entries are those of the rings, whatever the request says. */
	CHECK_SYS(requests_step(-1, RSIW_RESIZE_MOVE, NULL));
	depths_are(b.a.id->qp, 64, 64);
	expect(maps(resp.sq_key, 64 * size), "moved and not mapped");
	part("V-QP-23 rings that nothing has moved to go with their queue pair");
	CHECK_SYS(requests_step(128, RSIW_RESIZE_MAKE, &resp));
	forget();
	expect(!maps(resp.sq_key, 128 * size), "there are still some");
}

static int shared_step(struct ibv_srq *srq, uint32_t depth, uint32_t flags, uint32_t limit,
		       struct rsiw_uresp_resize_srq *resp)
{
	struct rsiw_ureq_resize_srq req = { depth, limit, flags, 0 };

	return raw_resize(srq->context, UVERBS_OBJECT_SRQ, srq->handle, &req, sizeof(req), resp,
			  resp ? sizeof(*resp) : 0);
}

static void steps_of_shared(void)
{
	const uint32_t move_and_limit = RSIW_RESIZE_MOVE | RSIW_RESIZE_SRQ_LIMIT;
	struct rsiw_uresp_resize_srq resp, other;
	const size_t size = sizeof(struct rsiw_rqe);
	struct ibv_srq *srq;
	struct ibv_pd *pd;

	part("V-SRQ-5 V-IMM-5 a shared receive queue that is resized in steps");
	srq = begin_shared(&pd);
	expect(shared_step(srq, 32, RSIW_RESIZE_MOVE, 0, NULL) == EINVAL, "to nothing");
	expect(shared_step(srq, 32, RSIW_RESIZE_MAKE | RSIW_RESIZE_MOVE, 0, &resp) == EINVAL,
	       "two steps at once");
	CHECK_SYS(shared_step(srq, 32, RSIW_RESIZE_MAKE, 0, &resp));
	CHECK_SYS(shared_step(srq, 64, RSIW_RESIZE_MAKE, 0, &other));
	expect(!maps(resp.srq_key, 32 * size) && maps(other.srq_key, 64 * size), "keys");
	shared_is(srq, 16, 0);
	CHECK_SYS(post_recv(srq, 0));
	send_all(0, 1);
	sent(0, 1);
	expect(shared_step(srq, 0, move_and_limit, 65, NULL) == EINVAL, "a limit above the depth");
	expect(shared_step(srq, 0, RSIW_RESIZE_MOVE, 0, NULL) == EINVAL, "to what is gone");
	shared_is(srq, 16, 0);
	CHECK_SYS(shared_step(srq, 32, RSIW_RESIZE_MAKE | RSIW_RESIZE_SRQ_LIMIT, 99, &resp));
	shared_is(srq, 16, 0);
	CHECK_SYS(shared_step(srq, 0, move_and_limit, 3, NULL));
	shared_is(srq, 32, 3);
	CHECK_SYS(shared_step(srq, 128, RSIW_RESIZE_MAKE, 0, &resp));
	end_shared(srq, pd);
	expect(!maps(resp.srq_key, 128 * size), "there are still some");
}

static int completions_step(struct ibv_cq *cq, uint32_t entries, uint32_t flags, uint64_t *key)
{
	const struct rsiw_ureq_resize_cq ours = { flags, 0 };

	return raw_resize_cq_with(cq, ours, &entries, key);
}

/* With rings of either kind. */
static void steps_of_completions(void)
{
	struct ibv_context *ctx = listener.id->verbs;
	const struct rsiw_ureq_resize_cq unknown = { 1, 0 }, pad = { 0, 1 };
	const size_t size = raw_cqe_size(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	uint64_t key, other;
	uint32_t n = 32;

	part("V-CQ-13 V-IMM-4 a completion queue that is resized in steps");
	CHECK(cq, "completion queue: %m");
	expect(completions_step(cq, 32, RSIW_RESIZE_MOVE, &key) == EINVAL, "to nothing");
	expect(completions_step(cq, 32, RSIW_RESIZE_MAKE | RSIW_RESIZE_MOVE, &key) == EINVAL,
	       "two steps at once");
	expect(raw_resize_cq_with(cq, unknown, &n, &key) == EINVAL, "an unknown flag");
	expect(raw_resize_cq_with(cq, pad, &n, &key) == EINVAL, "something in what is unused");
	CHECK_SYS(completions_step(cq, 32, RSIW_RESIZE_MAKE, &key));
	CHECK_SYS(completions_step(cq, 256, RSIW_RESIZE_MAKE, &other));
	expect(!maps(key, 32 * size + 8) && maps(other, 256 * size + 8), "keys");
	CHECK_SYS(completions_step(cq, 1, RSIW_RESIZE_MOVE, &key));
	expect(maps(other, 256 * size + 8), "moved and not mapped");
	expect(completions_step(cq, 32, RSIW_RESIZE_MOVE, &key) == EINVAL, "to what is gone");
	CHECK_SYS(completions_step(cq, 32, RSIW_RESIZE_MAKE, &key));
	CHECK_SYS(ibv_destroy_cq(cq));
	expect(!maps(key, 32 * size + 8), "there are still some");
}

static struct load {
	struct ibv_srq *srq;
	bool over;
	unsigned long resizes;
	int err;
} load;

static uint32_t some_depth(unsigned int *seed)
{
	return LEAST << rand_r(seed) % DOUBLINGS;
}

/* Resizes all queues, again and again. */
static void *resize_all(void *arg)
{
	struct load *l = arg;
	unsigned int seed = 1;
	uint32_t recv;

	while (!__atomic_load_n(&l->over, __ATOMIC_RELAXED) && !l->err) {
		l->err = set_depths(b.a.id->qp, some_depth(&seed), some_depth(&seed));
		recv = l->srq ? 0 : some_depth(&seed);
		l->err = l->err ?: set_depths(b.p.id->qp, some_depth(&seed), recv);
		if (l->srq)
			l->err = l->err ?: set_shared(l->srq, some_depth(&seed));
		l->resizes++;
	}
	return NULL;
}

/* Messages with their numbers, of which some are on their way all the time. */
static void transfer(void)
{
	uint64_t receives = 0, sends = 0, done = 0, came = 0, last = ep_now_ns();
	struct ibv_wc wc;

	while (came < MESSAGES || done < MESSAGES) {
		for (; receives < came + WINDOW; receives++)
			CHECK_SYS(post_recv(load.srq, receives));
		for (; sends < receives && sends < done + WINDOW && sends < MESSAGES; sends++)
			CHECK_SYS(post_send(sends));
		if (ep_poll(b.a.scq, &wc, 0)) {
			CHECK(!wc.status && wc.wr_id == done, "send %lu of %lu: %s", wc.wr_id,
			      done, ibv_wc_status_str(wc.status));
			done++;
			last = ep_now_ns();
		}
		if (ep_poll(b.p.rcq, &wc, 0)) {
			CHECK(!wc.status && wc.wr_id == came && *place_of(came) == came,
			      "receive %lu of %lu, message %lu: %s", wc.wr_id, came,
			      *place_of(came), ibv_wc_status_str(wc.status));
			came++;
			last = ep_now_ns();
		}
		CHECK(ep_now_ns() < last + EP_EVENT_MS * 1000000ull, "stuck: %lu and %lu", done,
		      came);
	}
}

static void under_load(bool is_shared)
{
	static const struct ep_attr attr = {
		.send_wr = 16, .recv_wr = 16, .inline_data = 8, .cqe = 64,
	};
	struct ibv_pd *pd = NULL;
	pthread_t thread;

	part("V-QP-21 %s queues are resized under load", is_shared ? "V-SRQ-5 shared" : "all");
	load = (struct load){};
	if (is_shared)
		load.srq = begin_shared(&pd);
	else
		begin_with(&attr, ALL_ACCESS);
	CHECK(!pthread_create(&thread, NULL, resize_all, &load), "thread");
	transfer();
	__atomic_store_n(&load.over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	expect(!load.err, "%s", strerror(load.err));
	expect(load.resizes >= 10, "only %lu times", load.resizes);
	if (is_shared)
		end_shared(load.srq, pd);
	else
		forget();
}

/* Entries of queues for which there is hardly room. */
#define MANY 4096

static struct ibv_srq *srq;

static int more_completions(void)
{
	return ibv_resize_cq(b.p.rcq, MANY);
}

static int more_shared(void)
{
	return set_shared(srq, MANY);
}

static int more_requests(void)
{
	return set_depths(b.a.id->qp, MANY, MANY);
}

static const struct {
	const char *name;
	int (*resize)(void);
	unsigned int rings;
	size_t octets;			/* of the largest, which counts as each is mapped */
} queues[] = {
	{ "completions", more_completions, 1, MANY * sizeof(struct rsiw_cqe) },
	{ "shared receives", more_shared, 1, MANY * sizeof(struct rsiw_rqe) },
	{ "requests", more_requests, 2, MANY * sizeof(struct rsiw_sqe) },
};

/* A message goes through all queues. */
static void works(void)
{
	static uint64_t id;

	CHECK_SYS(post_recv(srq, id));
	send_all(id, id + 1);
	sent(id++, 1);
	CHECK_SYS(ep_post_recv(&b.a, 0, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.p, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	good(b.a.rcq, IBV_WC_RECV);
	good(b.p.scq, IBV_WC_SEND);
}

/* How many mappings of the device are made before one fails; none fails if it is negative. */
static int before_failure = -1;

/* Takes the place of the C library's, for our library as well. */
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && before_failure >= 0 && !before_failure--) {
		errno = EAGAIN;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

/* There was room when the call began, which another thread has taken since. */
static void room_is_taken(void)
{
	const int entries = b.p.rcq->cqe;
	unsigned int i, n;
	int ret;

	for (i = 0; i < COUNT(queues); i++)
		for (n = 0; n < queues[i].rings; n++) {
			part("V-CQ-13 V-QP-23 ring %u of %s cannot be mapped", n + 1,
			     queues[i].name);
			before_failure = n;
			ret = queues[i].resize();
			expect(ret == EAGAIN && before_failure < 0, "%s, %d", strerror(ret),
			       before_failure);
			before_failure = -1;
			expect(b.p.rcq->cqe == entries, "%d completions", b.p.rcq->cqe);
			shared_is(srq, 16, 0);
			depths_are(b.a.id->qp, 16, 16);
			works();
		}
}

static size_t locked(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	size_t kib = 0;
	char line[256];

	CHECK(f, "status: %m");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %zu", &kib);
	fclose(f);
	return kib * 1024;
}

static void little_memory(void)
{
	struct rlimit before, now;
	unsigned int i, quarters;
	int ret;

	CHECK_SYS(getrlimit(RLIMIT_MEMLOCK, &before));
	CHECK_SYS(mlockall(MCL_FUTURE));
	for (i = 0; i < COUNT(queues); i++)
		for (quarters = 3; quarters <= 5; quarters += 2) {
			part("V-CQ-11 V-QP-23 memory for %u quarters of a ring of %s", quarters,
			     queues[i].name);
			now = before;
			now.rlim_cur = locked() + queues[i].octets / 4 * quarters;
			CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &now));
			ret = queues[i].resize();
			CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &before));
			expect(ret == (quarters < 4 ? EAGAIN : 0), "%s", strerror(ret));
			works();
		}
	CHECK_SYS(munlockall());
}

/* All mappings that there may be, by splitting one, which is returned. */
static char *many_mappings(size_t *len)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	char *at, *p;

	CHECK(f && fscanf(f, "%zu", len) == 1, "most: %m");
	fclose(f);
	*len *= page;
	at = mmap(NULL, *len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED, "map: %m");
	for (p = at; !mprotect(p, page, PROT_READ | PROT_WRITE); p += 2 * page)
		CHECK(p + 2 * page < at + *len, "there may be more mappings");
	return at;
}

static void few_mappings(void)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	unsigned int i, n;
	size_t len;
	char *at;
	int ret;

	at = many_mappings(&len);
	for (i = 0; i < COUNT(queues); i++) {
		part("V-CQ-11 V-QP-23 no mapping more than the rings of %s", queues[i].name);
		/* The last one may be one too many. */
		for (n = 1; n < queues[i].rings; n++) {
			expect(queues[i].resize() == ENOMEM, "one mapping is too few");
			works();
			CHECK_SYS(munmap(at, page));
			at += page;
			len -= page;
		}
		ret = queues[i].resize();
		expect(!ret, "%s", strerror(ret));
		works();
	}
	CHECK_SYS(munmap(at, len));
}

/* Of what the process may have there is hardly more than what the new rings take. */
void scarce_depths(void)
{
	struct ibv_pd *pd;

	srq = begin_shared(&pd);
	room_is_taken();
	little_memory();
	few_mappings();
	end_shared(srq, pd);
}

void own_depths(void)
{
	receives_wait();
	sends_wait();
	shared();
	refusals();
	raw_calls();
	steps_of_requests();
	steps_of_shared();
	steps_of_completions();
	under_load(false);
	under_load(true);
}

void stock_depths(void)
{
	struct rsiw_uresp_resize_srq shared_resp;
	struct rsiw_uresp_resize_qp resp;
	struct ibv_srq *srq;
	struct ibv_pd *pd;

	part("V-QP-20 V-SRQ-5 V-IMM-11 depths stay as they are with stock rings");
	srq = begin_shared(&pd);
	expect(set_depths(b.a.id->qp, 32, 32) == EOPNOTSUPP, "a queue pair");
	expect(set_shared(srq, 32) == EOPNOTSUPP, "a shared receive queue");
	expect(raw_resize_qp(b.a.id->qp, 32, 32, &resp) == EOPNOTSUPP, "by the method");
	expect(raw_resize_srq(srq, 32, &shared_resp) == EOPNOTSUPP, "by the method");
	depths_are(b.a.id->qp, 16, 16);
	shared_is(srq, 16, 0);
	end_shared(srq, pd);
	steps_of_completions();
}
