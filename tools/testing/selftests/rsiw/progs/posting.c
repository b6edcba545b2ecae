// SPDX-License-Identifier: GPL-2.0
/*
 * posting: every request that was posted completes once, and none completes that
 * was refused: while threads post to one queue pair, while it fails, and for
 * threads that have become somebody else.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

#define LEN 4096
#define NOBODY 65534
/* Of a completion queue in which there is room for all that is posted. */
#define ROOM 65536
/* In which one of those that were posted completes. */
#define PATIENCE_MS 5000

static const uint32_t depths[] = { 1, 2, 4, 16, 64, 256, 2048 };

static unsigned int run_ms = 400, rounds = 10;
static struct ibv_context *ctx;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static atomic_long posted, completed;
static atomic_bool stop;
static long most;

static void new_qp(uint32_t depth, int cqe)
{
	qp = ep_own_qp(ctx, depth, cqe);
	cq = qp->send_cq;
	posted = completed = 0;
	stop = false;
}

static bool poll_some(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, COUNT(wc), wc);

	CHECK(n >= 0, "poll");
	completed += n;
	return n;
}

static bool post_one(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (ibv_post_send(qp, &wr, &bad))
		return false;
	posted++;
	return true;
}

static void *posts_and_polls(void *arg)
{
	while (!stop) {
		post_one();
		poll_some();
	}
	return arg;
}

static void *posts(void *arg)
{
	while (!stop && posted < most)
		post_one();
	return arg;
}

static void start(pthread_t *thread, void *(*f)(void *))
{
	int err = pthread_create(thread, NULL, f, NULL);

	CHECK(!err, "thread: %s", strerror(err));
}

/* All that was posted has completed, and nothing else. */
static void settled(void)
{
	uint64_t since = ep_now_ns();

	while (completed != posted && ep_now_ns() - since < PATIENCE_MS * 1000000ull) {
		if (poll_some())
			since = ep_now_ns();
		else
			usleep(1000);
	}
	poll_some();
	expect(completed == posted, "%ld were posted, %ld completed", (long)posted,
	       (long)completed);
}

static void in_error(uint32_t depth)
{
	pthread_t threads[2];
	unsigned int i;

	part("two threads post in Error, depth %u", depth);
	new_qp(depth, 4 * depth + 64);
	CHECK_SYS(to_state(qp, IBV_QPS_ERR));
	for (i = 0; i < COUNT(threads); i++)
		start(&threads[i], posts_and_polls);
	usleep(run_ms * 1000);
	stop = true;
	for (i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	expect(posted > 0, "nothing was posted");
	settled();
	ep_destroy_own_qp(qp);
}

static void to_error(uint32_t depth)
{
	pthread_t thread;
	unsigned int i;

	part("a thread posts while the queue pair fails, depth %u", depth);
	for (i = 0; i < rounds; i++) {
		new_qp(depth, ROOM);
		most = 3L * depth;
		start(&thread, posts);
		usleep(5000 + 1000 * i);
		CHECK_SYS(to_state(qp, IBV_QPS_ERR));
		usleep(20000);
		stop = true;
		pthread_join(thread, NULL);
		settled();
		ep_destroy_own_qp(qp);
	}
}

/* As new when it is used again: what it was left with is flushed, not sent. */
static void again(uint32_t depth)
{
	pthread_t threads[2];
	unsigned int i;

	part("a queue pair that failed is flushed before it is used again, depth %u", depth);
	new_qp(depth, ROOM);
	most = ROOM / 2;
	CHECK_SYS(to_state(qp, IBV_QPS_ERR));
	for (i = 0; i < COUNT(threads); i++)
		start(&threads[i], posts);
	usleep(20000);
	stop = true;
	for (i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	CHECK_SYS(to_state(qp, IBV_QPS_INIT));
	poll_some();
	settled();
	ep_destroy_own_qp(qp);
}

static void post_recv(uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	CHECK_SYS(ibv_post_recv(qp, &wr, &bad));
}

/* Whether the next completion is that of a flushed receive with this number. */
static bool is_flushed(uint64_t id)
{
	struct ibv_wc wc;

	return ep_poll(cq, &wc, PATIENCE_MS) && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == id;
}

/* As programs do that count their receives down: one is posted for each that is flushed. */
static void count_down(void)
{
	struct ibv_qp_attr deeper = { .cap = { .max_send_wr = 16, .max_recv_wr = 64 } };
	uint64_t next, done;

	part("V-ST-29 receives are posted for those that are flushed, and are flushed");
	new_qp(16, 1024);
	CHECK_SYS(to_state(qp, IBV_QPS_INIT));
	for (next = 0; next < 4; next++)
		post_recv(next);
	CHECK_SYS(to_state(qp, IBV_QPS_ERR));
	for (done = 0; done < 200 && expect(is_flushed(done), "%lu of 200", done); done++)
		if (next < 200)
			post_recv(next++);
	part("V-ST-29 a receive is flushed after a while, and in other rings");
	usleep(300000);
	post_recv(200);
	expect(is_flushed(200), "after a while");
	/* Only own rings can be replaced. */
	if (!ibv_modify_qp(qp, &deeper, IBV_QP_CAP))
		for (next = 300; next < 364; next++)
			post_recv(next);
	for (done = 300; done < next && expect(is_flushed(done), "%lu in other rings", done); done++)
		;
	ep_destroy_own_qp(qp);
}

static void *posts_until_cancelled(void *arg)
{
	for (;;) {
		post_one();
		pthread_testcancel();
	}
	return arg;
}

/* What a thread has posted that is cancelled is not in the way of what others post. */
static void cancelled(void)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	unsigned int i;

	part("threads are cancelled while they post");
	for (i = 0; i < 10 * rounds; i++) {
		struct ibv_wc wc = {};
		pthread_t thread;
		int ret;

		new_qp(16, ROOM);
		CHECK_SYS(to_state(qp, IBV_QPS_ERR));
		start(&thread, posts_until_cancelled);
		while (posted < i % 8)
			poll_some();
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		while ((ret = ibv_post_send(qp, &wr, &bad)) == ENOMEM && ep_poll(cq, &wc, PATIENCE_MS))
			;
		if (!expect(!ret, "round %u: the queue stays full", i))
			break;
		while (wc.wr_id != 1)
			if (!expect(ep_poll(cq, &wc, PATIENCE_MS),
				    "round %u: what was posted next does not complete", i))
				return;
		ep_destroy_own_qp(qp);
	}
}

/* What a thread does that has become somebody else. */
static struct both b;
static struct ibv_mr *src, *dst;
static char *mem;
static int result;

static void *writes(void *arg)
{
	CHECK(!syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY), "setresuid: %m");
	result = ep_post_send(&b.a, 1, IBV_WR_RDMA_WRITE, mem, 64, src->lkey,
			      (uintptr_t)mem + LEN / 2, dst->rkey);
	return arg;
}

static void *writes_by_builder(void *arg)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(b.a.id->qp);

	CHECK(!syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY), "setresuid: %m");
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, dst->rkey, (uintptr_t)mem + LEN / 2);
	ibv_wr_set_sge(ex, src->lkey, (uintptr_t)mem, 64);
	result = ibv_wr_complete(ex);
	return arg;
}

static void somebody_else(const char *how, void *(*f)(void *), uint64_t ops)
{
	struct ep_attr attr = { .send_wr = 4, .recv_wr = 4, .send_ops = ops };
	struct ibv_wc wc = {};
	pthread_t thread;
	bool done;

	part("a thread that has become somebody else posts, %s", how);
	both_connect(&b, &listener, &where, &attr, &attr);
	mem = ep_pages(LEN);
	src = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	dst = ep_reg(&b.p, mem, LEN, ALL_ACCESS);
	memset(mem, 7, 64);
	result = -1;
	start(&thread, f);
	pthread_join(thread, NULL);
	done = ep_poll(b.a.scq, &wc, PATIENCE_MS);
	expect(!result, "refused: %s", strerror(result));
	expect(done && !wc.status && wc.wr_id == 1, "it has not completed");
	expect(mem[LEN / 2] == 7, "it was not done");
	/* Nor is it in the way of what comes behind. */
	CHECK_SYS(ep_post_send(&b.a, 2, IBV_WR_RDMA_WRITE, mem, 64, src->lkey,
			       (uintptr_t)mem + LEN / 2, dst->rkey));
	expect(ep_poll(b.a.scq, &wc, PATIENCE_MS) && !wc.status && wc.wr_id == 2,
	       "the next one has not completed");
	CHECK_SYS(ibv_dereg_mr(src));
	CHECK_SYS(ibv_dereg_mr(dst));
	both_destroy(&b);
}

static void run(void)
{
	unsigned int i;

	ctx = listener.id->verbs;
	for (i = 0; i < COUNT(depths); i++)
		in_error(depths[i]);
	for (i = 0; i < COUNT(depths); i++)
		to_error(depths[i]);
	for (i = 0; i < COUNT(depths); i++)
		again(depths[i]);
	count_down();
	cancelled();
	somebody_else("ibv_post_send", writes, 0);
	somebody_else("ibv_wr_complete", writes_by_builder, IBV_QP_EX_WITH_RDMA_WRITE);
}

static const struct opt options[] = {
	{ "run-ms", "MS", "for how long threads post (400)",
	  .num = &run_ms, .min = 1, .max = 60000 },
	{ "rounds", "N", "how often a queue pair fails (10)",
	  .num = &rounds, .min = 1, .max = 1000 },
	{ }
};

const struct prog prog = {
	.name = "posting",
	.text = "Every request that was posted completes once.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18891,
	.limit = 120,
	.run = run,
};
