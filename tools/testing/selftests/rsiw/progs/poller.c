// SPDX-License-Identifier: GPL-2.0
/*
 * poller: queues of requests that the kernel polls by itself, so that it need not
 * be called for each one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

#define LEN 65536
#define NOBODY 65534
#define UNCALLED 100	/* requests that are to be carried out without a call */

static struct both b;
static char *mem;
static struct ibv_mr *here, *there;
static bool streams, replaced;
static int device = -1;	/* its file, while there is a connection */
static unsigned int calls;
static int *is_gone;	/* the process that made the queue pair does nothing more */

/* The library's: the linker prefers the program's. Counts calls of the device. */
ssize_t write(int fd, const void *data, size_t len)
{
	if (fd == device)
		calls++;
	return syscall(SYS_write, fd, data, len);
}

static void begin(const char *us)
{
	static const struct ep_attr attr = {
		.send_wr = 32, .recv_wr = 4, .inline_data = 64, .ord = 2, .ird = 2,
	};

	if (us)
		CHECK_SYS(setenv("RSIW_POLL_US", us, 1));
	else
		CHECK_SYS(unsetenv("RSIW_POLL_US"));
	both_connect(&b, &listener, &where, &attr, &attr);
	here = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	there = ep_reg(&b.p, mem, LEN, ALL_ACCESS);
	device = b.a.id->verbs->cmd_fd;
}

static void end(void)
{
	device = -1;
	CHECK_SYS(ibv_dereg_mr(here));
	CHECK_SYS(ibv_dereg_mr(there));
	both_destroy(&b);
}

/* Threads of this process that look. */
static unsigned int lookers(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int count = 0;
	struct dirent *entry;

	CHECK(dir, "/proc/self/task: %m");
	while ((entry = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file))
			count += !strcmp(name, "rsiw-poll\n");
		fclose(file);
	}
	closedir(dir);
	return count;
}

/* A thread is among those of the process for a moment after it has said that it ends. */
static void no_lookers(void)
{
	unsigned int ms;

	for (ms = 0; ms < EP_EVENT_MS && lookers(); ms++)
		usleep(1000);
	expect(lookers() == 0, "%u are left", lookers());
}

static int post(enum ibv_wr_opcode op, uint64_t id, uint32_t len, uint32_t offset)
{
	return ep_post_send(&b.a, id, op, mem, len, here->lkey, (uintptr_t)mem + offset,
			    there->rkey);
}

static void good(uint64_t id)
{
	uint64_t found = ep_done(b.a.scq, IBV_WC_SUCCESS).wr_id;

	CHECK(found == id, "request %lu instead of %lu", found, id);
}

static void who_asks(void)
{
	cpu_set_t all, one;
	unsigned int i;

	part("a thread of the process looks, if it asks for that");
	begin(NULL);
	expect(lookers() == 0, "%u without a request", lookers());
	end();
	begin("0");
	expect(lookers() == 0, "%u for no time", lookers());
	end();
	begin("50");
	expect(lookers() == 2, "%u for two queue pairs", lookers());
	end();
	no_lookers();
	begin("4000000");
	expect(lookers() == 2, "%u for a long time", lookers());
	end();
	no_lookers();
	part("not where there is no processor for it");
	CHECK_SYS(sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	for (i = 0; !CPU_ISSET(i, &all); i++)
		;
	CPU_SET(i, &one);
	CHECK_SYS(sched_setaffinity(0, sizeof(one), &one));
	begin("50");
	expect(lookers() == 0, "%u with one processor", lookers());
	end();
	CHECK_SYS(sched_setaffinity(0, sizeof(all), &all));
}

/*
 * When the thread gets a processor is the scheduler's business: how many requests
 * that takes does not count.
 */
static void without_a_call(void)
{
	uint64_t until = ep_now_ns() + 60000000000ull, id;
	unsigned int uncalled = 0, before;

	part("requests are carried out without a call");
	begin("1000");
	for (id = 0; uncalled < UNCALLED && ep_now_ns() < until; id++) {
		memset(mem, id, 64);
		before = calls;
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, id, 64, 4096));
		good(id);
		expect(mem[4096] == (char)id, "request %lu wrote %d", id, mem[4096]);
		uncalled += calls == before;
	}
	expect(uncalled == UNCALLED, "%u of %lu requests", uncalled, id);
	end();
}

static void asleep(void)
{
	unsigned int i, before, called = 0;

	part("the kernel is called again when it has stopped looking");
	begin("1");
	for (i = 0; i < 50; i++) {
		before = calls;
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, i, 64, 4096));
		good(i);
		called += calls != before;
		usleep(5000);
	}
	expect(called, "it was not called");
	end();
	part("no request is forgotten when it stops looking");
	begin("1");
	for (i = 0; i < 3000; i++) {
		uint64_t go = ep_now_ns() + i % 100 * 100;

		CHECK_SYS(post(IBV_WR_RDMA_WRITE, i, 64, 4096));
		good(i);
		while (ep_now_ns() < go)
			;
	}
	end();
}

static void waiting(void)
{
	unsigned int i, round;

	part("requests that have to wait for others");
	begin("1000");
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 32; i++)
			CHECK_SYS(post(i % 4 == 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i, 4096,
				       8192));
		for (i = 0; i < 32; i++)
			good(i);
	}
	end();
}

static void errors(void)
{
	unsigned int i;

	part("requests are flushed after an error");
	begin("1000");
	for (i = 0; i < 20; i++) {
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, i, 64, 4096));
		good(i);
	}
	CHECK_SYS(ep_post_send(&b.a, 20, IBV_WR_RDMA_READ, mem, 64, here->lkey,
			       (uintptr_t)mem, there->rkey + 256));
	completes(b.a.scq, IBV_WC_REM_ACCESS_ERR);
	for (i = 0; i < 10; i++) {
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, i, 64, 4096));
		completes(b.a.scq, IBV_WC_WR_FLUSH_ERR);
	}
	end();
}

/* As a user who may have no more threads than this one. */
static int at_the_limit(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct rlimit one = { 1, 1 };
	struct ibv_context *ctx;
	struct ibv_qp *qp;

	CHECK_SYS(setenv("RSIW_POLL_US", "1000", 1));
	CHECK_SYS(setrlimit(RLIMIT_NPROC, &one));
	CHECK_SYS(setresuid(NOBODY, NOBODY, NOBODY));
	ctx = ibv_open_device(listener.id->verbs->device);
	CHECK(ctx, "open: %m");
	qp = ep_own_qp(ctx, 4, 8);
	CHECK(lookers() == 0, "there is a thread");
	CHECK_SYS(to_state(qp, IBV_QPS_ERR));
	CHECK_SYS(ibv_post_send(qp, &wr, &bad));
	ep_done(qp->send_cq, IBV_WC_WR_FLUSH_ERR);
	CHECK_SYS(ibv_destroy_qp(qp));
	return 0;
}

/* A queue pair in Error, whose requests are flushed, and looked at. */
static struct ibv_qp *new_qp(struct ibv_cq **cq)
{
	struct ibv_context *ctx = ibv_open_device(listener.id->verbs->device);
	struct ibv_qp *qp;

	CHECK(ctx, "open: %m");
	CHECK_SYS(setenv("RSIW_POLL_US", "1000", 1));
	qp = ep_own_qp(ctx, 8, 64);
	*cq = qp->send_cq;
	CHECK(lookers() == 1, "%u threads", lookers());
	CHECK_SYS(to_state(qp, IBV_QPS_ERR));
	return qp;
}

/* Posts until the parent, whose the thread is, has been gone for some time. */
static int goes_on(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	unsigned int after = 0;
	struct ibv_wc wc;

	while (after < 100) {
		if (ibv_post_send(qp, &wr, &bad))
			return 1;
		if (!ep_poll(cq, &wc, EP_EVENT_MS / 2))
			return 2;
		after += __atomic_load_n(is_gone, __ATOMIC_RELAXED);
	}
	return 0;
}

/* The one is killed or stopped after so many microseconds. Returns how the other one went on. */
static int without_maker(int by, unsigned int us)
{
	int ends[2], how = -1;
	pid_t child;

	is_gone = mmap(NULL, sizeof(*is_gone), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(is_gone != MAP_FAILED, "mmap: %m");
	CHECK_SYS(pipe(ends));
	child = new_process();
	if (!child) {
		struct ibv_cq *cq;
		struct ibv_qp *qp = new_qp(&cq);

		if (!new_process()) {
			how = goes_on(qp, cq);
			CHECK(write(ends[1], &how, sizeof(how)) == sizeof(how), "pipe: %m");
			_exit(0);
		}
		how = 0;
		CHECK(write(ends[1], &how, sizeof(how)) == sizeof(how), "pipe: %m");
		pause();
	}
	close(ends[1]);
	CHECK(read(ends[0], &how, sizeof(how)) == sizeof(how), "pipe: it has ended");
	usleep(us);
	CHECK_SYS(kill(child, by));
	CHECK(waitpid(child, NULL, WUNTRACED) == child, "wait: %m");
	__atomic_store_n(is_gone, 1, __ATOMIC_RELAXED);
	CHECK(read(ends[0], &how, sizeof(how)) == sizeof(how), "pipe: the other one has ended");
	if (by == SIGSTOP) {
		CHECK_SYS(kill(child, SIGKILL));
		CHECK(waitpid(child, NULL, 0) == child, "wait: %m");
	}
	close(ends[0]);
	CHECK_SYS(munmap(is_gone, sizeof(*is_gone)));
	return how;
}

static void inherited(void)
{
	unsigned int n;

	part("who has inherited a queue pair goes on when the process is killed");
	for (n = 0; n < 40; n++)
		if (!expect(!without_maker(SIGKILL, 5000 + 137 * n),
			    "round %u: a request was forgotten", n))
			break;
	part("and when it is stopped");
	for (n = 0; n < 40; n++)
		if (!expect(!without_maker(SIGSTOP, 5000 + 137 * n),
			    "round %u: a request was forgotten", n))
			break;
}

static void limit(void)
{
	part("a process that may have no more threads does without");
	expect(in_child(at_the_limit) == 0, "it fails");
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* A signal that comes while a queue pair is made. */
static void signalled(void)
{
	struct sigaction alarm = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval once = {};
	struct ibv_context *ctx = ibv_open_device(listener.id->verbs->device);
	unsigned int us;

	part("a signal does not keep a queue from being looked at");
	CHECK(ctx, "open: %m");
	CHECK_SYS(setenv("RSIW_POLL_US", "1000", 1));
	CHECK_SYS(sigaction(SIGALRM, &alarm, NULL));
	for (us = 50; us < 5000; us += 50) {
		struct ibv_qp *qp;
		unsigned int count;

		once.it_value.tv_usec = us;
		CHECK_SYS(setitimer(ITIMER_REAL, &once, NULL));
		qp = ep_own_qp(ctx, 8, 8);
		count = lookers();
		ep_destroy_own_qp(qp);
		if (!expect(count == 1, "%u threads with a signal after %u us", count, us))
			break;
		no_lookers();
	}
	CHECK_SYS(ibv_close_device(ctx));
}

static void ends(void)
{
	unsigned int i, n;

	part("a queue pair goes while its queue is looked at");
	for (n = 0; n < 30; n++) {
		begin("1000");
		for (i = 0; i < n; i++)
			CHECK_SYS(post(IBV_WR_RDMA_WRITE, i, 64, 4096));
		end();
	}
	no_lookers();
}

/* Until it is killed. */
static void stream(void)
{
	uint64_t id;

	begin("1000");
	puts("streams");
	fflush(stdout);
	for (id = 0; ; id++) {
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, id, 64, 4096));
		good(id);
	}
}

static void run(void)
{
	mem = ep_pages(LEN);
	if (streams)
		stream();
	if (replaced) {
		begin("1000");
		CHECK_SYS(post(IBV_WR_RDMA_WRITE, 0, 64, 4096));
		execl("/bin/true", "true", NULL);
		DIE("/bin/true: %m");
	}
	who_asks();
	without_a_call();
	asleep();
	waiting();
	errors();
	limit();
	signalled();
	inherited();
	ends();
}

static const struct opt options[] = {
	{ "stream", "", "only go on until killed", .flag = &streams },
	{ "exec", "", "only become another program", .flag = &replaced },
	{ }
};

const struct prog prog = {
	.name = "poller",
	.text = "Queues that the kernel looks at by itself.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18890,
	.limit = 120,
	.run = run,
};
