// SPDX-License-Identifier: GPL-2.0
/*
 * owner: connections and the processes they belong to: nobody connects the
 * queue pair of another process, or one that is still being created, and a
 * process that ends while it connects to a peer that does not answer is gone at
 * once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

/* Starts to connect; 0 or an error number. `qp_num` 0: a QP of its own. */
static int begin(uint16_t port, uint32_t qp_num)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = qp_num };
	struct rdma_cm_id *id;
	struct ep e;

	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, where.addr, port);
	if (!qp_num)
		ep_setup(&e, id, &attr);
	return rdma_connect(id, qp_num ? &param : &e.param) ? errno : 0;
}

/* A queue pair of this process on the device of its listener, without a connection. */
static struct ibv_qp *queue_pair(struct ep_listener *l)
{
	ep_listen(l, where.addr, where.port, 4);
	return ep_own_qp(l->id->verbs, 4, 4);
}

static void foreign(void)
{
	struct ep_listener l;
	struct ibv_qp *qp;
	int status, to[2];
	uint32_t num = 0;
	pid_t child;

	part("V-PRIV-2 rdma_connect with the number of another's queue pair");
	/* Before anything of verbs is there: a fork would share it. */
	CHECK_SYS(pipe(to));
	child = new_process();
	if (!child) {
		CHECK(read(to[0], &num, sizeof(num)) == sizeof(num), "pipe");
		_exit(begin(where.port, num));
	}
	qp = queue_pair(&l);
	num = qp->qp_num;
	CHECK(write(to[1], &num, sizeof(num)) == sizeof(num), "pipe: %m");
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == EINVAL, "status %#x",
	       status);
	expect(wait_state(qp, IBV_QPS_RESET, 0) == IBV_QPS_RESET, "connected");
	part("V-PRIV-2 its owner may connect it");
	expect(!begin(where.port, num), "%s", strerror(errno));
	ep_destroy_own_qp(qp);
	ep_unlisten(&l);
}

/* A process that has a number of its own choice. */
static pid_t process_with_number(pid_t number)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	pid_t pid;

	fflush(NULL);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	CHECK(pid >= 0, "process %d: %m", number);
	if (!pid)
		alarm(time_limit);
	return pid;
}

/*
 * The owner ends, and its number becomes another's. A child of the owner keeps
 * what it had open, and so the queue pair.
 */
static void recycled(void)
{
	int status, to[2], until[2];
	pid_t owner, other;
	uint32_t num = 0;
	char c;

	part("V-PRIV-2 rdma_connect by a process with the number of one that has ended");
	/* The owner's child is ours then: what it has open is to be gone in the end. */
	CHECK_SYS(prctl(PR_SET_CHILD_SUBREAPER, 1));
	CHECK_SYS(pipe(to));
	CHECK_SYS(pipe(until));
	owner = new_process();
	if (!owner) {
		struct ep_listener l;

		num = queue_pair(&l)->qp_num;
		close(until[1]);
		if (!new_process()) {
			/* Until the test is over. */
			_exit(read(until[0], &c, 1));
		}
		CHECK(write(to[1], &num, sizeof(num)) == sizeof(num), "pipe: %m");
		_exit(0);
	}
	CHECK(read(to[0], &num, sizeof(num)) == sizeof(num), "pipe");
	CHECK(waitpid(owner, &status, 0) == owner, "wait: %m");
	other = process_with_number(owner);
	if (!other)
		_exit(begin(where.port + 1, num));
	CHECK(waitpid(other, &status, 0) == other, "wait: %m");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == EINVAL, "status %#x", status);
	close(until[0]);
	close(until[1]);
	CHECK(wait(&status) > 0, "wait: %m");
}

static const struct rsiw_ureq_create_qp none;

struct creation {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	void *answer;
	uint32_t num;
	int err;
};

static void *create(void *arg)
{
	struct creation *c = arg;

	c->err = raw_create_qp(c->pd, c->cq, IBV_QPT_RC, none, c->answer, &c->num);
	return NULL;
}

/* Memory that is not there until it is given; the descriptor that tells of use. */
static int withhold(void *page, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)page, len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	CHECK(fd >= 0, "userfaultfd: %m");
	CHECK_SYS(ioctl(fd, UFFDIO_API, &api));
	CHECK_SYS(ioctl(fd, UFFDIO_REGISTER, &reg));
	return fd;
}

/*
 * The creation stops at the answer, which the process keeps back: the number is
 * known to the driver then, though not to anybody else.
 */
static void unfinished(void)
{
	const size_t len = sysconf(_SC_PAGESIZE);
	struct uffdio_zeropage zero = { .range = { .len = len } };
	struct ep_listener l;
	struct creation c;
	struct uffd_msg msg;
	pthread_t thread;
	uint32_t n, last;
	int fd, err = 0;

	part("V-QP-1 rdma_connect with the number of a queue pair in creation");
	ep_listen(&l, where.addr, where.port, 4);
	c.pd = ibv_alloc_pd(l.id->verbs);
	c.cq = ibv_create_cq(l.id->verbs, 4, NULL, NULL, 0);
	CHECK(c.pd && c.cq, "PD and CQ: %m");
	c.answer = ep_pages(len);
	CHECK_SYS(raw_create_qp(c.pd, c.cq, IBV_QPT_RC, none, c.answer, &last));
	c.answer = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(c.answer != MAP_FAILED, "mmap: %m");
	fd = withhold(c.answer, len);
	CHECK(!pthread_create(&thread, NULL, create, &c), "thread");
	CHECK(read(fd, &msg, sizeof(msg)) == sizeof(msg), "userfaultfd: %m");
	for (n = last + 1; n <= last + 4 && (!err || err == EINVAL); n++)
		err = begin(where.port, n);
	expect(err == EINVAL, "%s", strerror(err));
	zero.range.start = (uintptr_t)c.answer;
	CHECK_SYS(ioctl(fd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(thread, NULL);
	expect(!c.err, "creation: %s", strerror(c.err));
	part("V-QP-1 the same once it is there");
	expect(c.num == last + 1, "number %u after %u", c.num, last);
	expect(!begin(where.port, c.num), "%s", strerror(errno));
	close(fd);
	ep_unlisten(&l);
}

/* A process that ends by itself, or is killed, once it waits for an answer. */
static void silent(const char *name, bool killed)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(where.port + 1) };
	int s = socket(AF_INET, SOCK_STREAM, 0), c, one = 1, status;
	uint64_t start;
	pid_t child;

	part("%s", name);
	CHECK(inet_pton(AF_INET, where.addr, &sin.sin_addr) == 1, "address");
	CHECK_SYS(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK_SYS(bind(s, (struct sockaddr *)&sin, sizeof(sin)));
	CHECK_SYS(listen(s, 4));
	child = new_process();
	if (!child) {
		if (begin(where.port + 1, 0))
			_exit(1);
		sleep(killed ? 100 : 1);
		_exit(0);
	}
	c = accept(s, NULL, NULL);
	CHECK(c >= 0, "accept: %m");
	start = ep_now_ns();
	if (killed)
		kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	expect(killed || (WIFEXITED(status) && !WEXITSTATUS(status)),
	       "status %#x", status);
	/* An answer is waited for twice as long. */
	expect(ep_now_ns() - start < 15000000000ull, "takes %lu ms",
	       (ep_now_ns() - start) / 1000000);
	close(c);
	close(s);
}

static void run(void)
{
	silent("a process that ends while it connects", false);
	silent("a process that is killed while it connects", true);
	recycled();
	foreign();
	unfinished();
}

const struct prog prog = {
	.name = "owner",
	.text = "Connections and the processes they belong to.\n",
	.kind = PROG_HERE,
	.port = 18820,
	.limit = 60,
	.run = run,
};
