// SPDX-License-Identifier: GPL-2.0
/*
 * mappings: the queues are mapped wrongly, the mappings and the registered
 * memory go away, change or are inherited in the middle of a transfer, and
 * limits are reached. Each part is a process of its own, which ends without
 * giving anything back; a connection beside it must not notice.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "both.h"
#include "prog.h"

static bool only_greedy;

#define PAGE ((unsigned long)sysconf(_SC_PAGESIZE))
#define LEN (256u << 10)

static struct both b;
static uint8_t *from, *to;
static struct ibv_mr *from_mr, *to_mr;
static unsigned int child_port;

/* A listener and a connection of this process's own. */
static void begin(void)
{
	static const struct ep_attr attr = { .send_wr = 64, .recv_wr = 64 };

	ep_listen(&listener, where.addr, where.port + child_port, 8);
	both_connect(&b, &listener, &where, &attr, &attr);
	from = ep_pages(LEN);
	to = ep_pages(LEN);
	memset(from, 0x5a, LEN);
	from_mr = ep_reg(&b.a, from, LEN, ALL_ACCESS);
	to_mr = ep_reg(&b.p, to, LEN, ALL_ACCESS);
}

static void writes(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		CHECK(!ep_post_send(&b.a, i, IBV_WR_RDMA_WRITE, from, LEN,
				    from_mr->lkey, (uintptr_t)to, to_mr->rkey),
		      "post");
}

static void read_(uint32_t len)
{
	CHECK(!ep_post_send(&b.a, 99, IBV_WR_RDMA_READ, from, len,
			    from_mr->lkey, (uintptr_t)to, to_mr->rkey), "post");
}

static void reads(unsigned int n)
{
	while (n--)
		read_(LEN);
}

static void done(unsigned int n)
{
	while (n--)
		ep_done(b.a.scq, IBV_WC_SUCCESS);
}

static void arrived(void)
{
	size_t i;

	/* Comes back when the Writes before it are there. */
	read_(1);
	done(1);
	for (i = 0; i < LEN; i++)
		CHECK(to[i] == 0x5a, "byte %zu is %#x", i, to[i]);
}

/* Calls `f` with each mapping of the device's queues. */
static unsigned int each(void (*f)(void *at, size_t len))
{
	struct { void *at; size_t len; } found[32];
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0, i;
	char line[512];

	CHECK(maps, "maps: %m");
	while (n < 32 && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		if (!strstr(line, "uverbs") ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		found[n].at = (void *)start;
		found[n++].len = end - start;
	}
	fclose(maps);
	CHECK(n, "no queue is mapped");
	for (i = 0; i < n; i++)
		f(found[i].at, found[i].len);
	return n;
}

static void unmap(void *at, size_t len)
{
	CHECK_SYS(munmap(at, len));
}

/* Tries all offsets and lengths of the beginning of the file. */
static unsigned int try_all(int fd, int prot, int flags)
{
	unsigned int found = 0;
	unsigned long page, n;

	for (page = 0; page < 0x120; page++) {
		for (n = 1; n <= 5; n++) {
			void *p = mmap(NULL, n * PAGE, prot, flags, fd,
				       page * PAGE);

			if (p == MAP_FAILED)
				continue;
			found++;
			CHECK_SYS(munmap(p, n * PAGE));
		}
	}
	return found;
}

static void offsets(void)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct ibv_context *other;
	unsigned int here;
	uint64_t huge;

	begin();
	here = each(unmap);
	/* Those of this process, in one length each, and nothing else. */
	if (!where.client_netns)
		CHECK(try_all(b.a.id->verbs->cmd_fd, rw, MAP_SHARED) == here,
		      "other mappings than %u", here);
	CHECK(!try_all(b.a.id->verbs->cmd_fd, rw, MAP_PRIVATE), "private ones");
	CHECK(try_all(b.a.id->verbs->cmd_fd, PROT_READ, MAP_SHARED),
	      "not to be read");
	(void)try_all(b.a.id->verbs->cmd_fd, rw | PROT_EXEC, MAP_SHARED);
	other = ibv_open_device(b.a.id->verbs->device);
	CHECK(other, "open: %m");
	CHECK(!try_all(other->cmd_fd, rw, MAP_SHARED),
	      "queues of others can be mapped");
	for (huge = PAGE << 31; huge; huge <<= 1)
		CHECK(mmap(NULL, PAGE, rw, MAP_SHARED, other->cmd_fd, huge) ==
		      MAP_FAILED, "offset %#lx", huge);
	CHECK(mmap(NULL, 1ul << 40, rw, MAP_SHARED, b.a.id->verbs->cmd_fd,
		   0x91 * PAGE) == MAP_FAILED, "1 TiB");
}

static void change(void *at, size_t len)
{
	CHECK(mremap(at, len, 2 * len, MREMAP_MAYMOVE) == MAP_FAILED,
	      "a queue grows");
	CHECK(mremap(at, 0, len, MREMAP_MAYMOVE) == MAP_FAILED,
	      "a queue has a second mapping");
	/* What these give back is no concern of the driver's. */
	(void)!mlock(at, len);
	(void)!madvise(at, len, MADV_REMOVE);
	(void)!madvise(at, len, MADV_PAGEOUT);
	(void)!madvise(at, len, MADV_DOFORK);
	CHECK_SYS(mprotect(at, len, PROT_NONE));
	CHECK_SYS(mprotect(at, len, PROT_READ | PROT_WRITE));
}

static void changes(void)
{
	begin();
	writes(8);
	each(change);
	done(8);
	arrived();
}

static void zap(void *at, size_t len)
{
	(void)!madvise(at, len, MADV_DONTNEED);
}

static void rings_gone(void)
{
	begin();
	writes(32);
	each(zap);
	each(unmap);
	usleep(200000);
}

static uint64_t *noted[32];
static unsigned int notes;

static void note(void *at, size_t len)
{
	(void)len;
	noted[notes++] = at;
}

/* A child keeps the queues mapped, and writes them while they are freed. */
static void queues_gone(void)
{
	static const struct ep_attr attr = { .send_wr = 8, .recv_wr = 8 };
	unsigned int i, n;
	struct both c;
	pid_t child;

	begin();
	for (i = 0; i < 20; i++) {
		both_connect(&c, &listener, &where, &attr, &attr);
		child = fork();
		CHECK(child >= 0, "fork: %m");
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			each(note);
			for (n = 0;; n = (n + 1) % notes)
				__atomic_store_n(noted[n], 1, __ATOMIC_RELAXED);
		}
		usleep(30000);
		both_close(&c);
		usleep(30000);
		CHECK_SYS(kill(child, SIGKILL));
		CHECK(waitpid(child, NULL, 0) == child, "wait: %m");
	}
}

static void memory_gone(void)
{
	begin();
	writes(16);
	reads(16);
	CHECK_SYS(munmap(from, LEN));
	CHECK_SYS(mprotect(to, LEN, PROT_NONE));
	(void)!madvise(to, LEN, MADV_DONTNEED);
	CHECK_SYS(munmap(to, LEN));
	/* What is there now is none of the transfer's business. */
	from = mmap(from, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		    MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(from != MAP_FAILED, "map: %m");
	memset(from, 1, LEN);
	done(32);
	for (to = from; to < from + LEN; to++)
		CHECK(*to == 1, "memory of another mapping was written to");
}

static void file_gone(void)
{
	int fd = memfd_create("rsiw", 0);
	struct ibv_mr *mr;
	uint8_t *p;

	begin();
	CHECK(fd >= 0 && !ftruncate(fd, LEN), "memfd: %m");
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED, "map: %m");
	mr = ibv_reg_mr(b.a.pd, p, LEN, ALL_ACCESS);
	/* Long-term pins of files may be refused. */
	if (!mr)
		return;
	from = p;
	from_mr = mr;
	writes(8);
	reads(8);
	CHECK_SYS(ftruncate(fd, 0));
	close(fd);
	done(16);
}

static void forks(void)
{
	pid_t child[8];
	unsigned int i;

	begin();
	for (i = 0; i < 8; i++) {
		memset(to, 0, LEN);
		writes(4);
		child[i] = fork();
		CHECK(child[i] >= 0, "fork: %m");
		if (!child[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			/* Its own copies, and the rings of both. */
			memset(from, i, LEN);
			memset(to, i, LEN);
			each(i % 2 ? unmap : change);
			if (i % 4 == 3)
				raise(SIGKILL);
			pause();
		}
		done(4);
		arrived();
	}
	/* The rest of them outlive this process's queues. */
	CHECK_SYS(ibv_dereg_mr(from_mr));
	CHECK_SYS(ibv_dereg_mr(to_mr));
	both_destroy(&b);
	for (i = 0; i < 8; i++) {
		kill(child[i], SIGKILL);
		CHECK(waitpid(child[i], NULL, 0) == child[i], "wait: %m");
	}
}

static unsigned long pinned(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	CHECK(f, "status: %m");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %lu", &kib);
	fclose(f);
	return kib;
}

static void memlock(void)
{
	struct rlimit r = { LEN / 2, LEN / 2 };
	struct ibv_mr *mr;
	unsigned int i;

	begin();
	CHECK_SYS(ibv_dereg_mr(from_mr));
	CHECK_SYS(ibv_dereg_mr(to_mr));
	CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &r));
	CHECK_SYS(setresuid(65534, 65534, 65534));
	for (i = 0; i < 100; i++) {
		mr = ibv_reg_mr(b.a.pd, from, LEN, ALL_ACCESS);
		CHECK(!mr && errno == ENOMEM, "over the limit: %m");
		mr = ibv_reg_mr(b.a.pd, from, LEN / 2 - 4 * PAGE, ALL_ACCESS);
		CHECK(mr, "within the limit: %m");
		CHECK(!ibv_reg_mr(b.a.pd, to, LEN / 2, ALL_ACCESS), "both together");
		CHECK_SYS(ibv_dereg_mr(mr));
	}
	CHECK(!pinned(), "%lu KiB stay pinned", pinned());
}

static void address_space(void)
{
	struct ibv_qp_init_attr ia = { .qp_type = IBV_QPT_RC };
	struct rlimit r = { 1 << 20, RLIM_INFINITY };
	struct ibv_qp *qp;
	unsigned int i;

	begin();
	/* Less than there is mapped: nothing more can be. */
	CHECK_SYS(setrlimit(RLIMIT_AS, &r));
	for (i = 0; i < 50; i++) {
		CHECK(!ibv_create_cq(b.a.id->verbs, 4096, NULL, NULL, 0),
		      "a queue without room for it");
		ia.send_cq = b.a.scq;
		ia.recv_cq = b.a.rcq;
		ia.cap = (struct ibv_qp_cap){ 4096, 4096, 1, 1, 0 };
		qp = ibv_create_qp(b.a.pd, &ia);
		CHECK(!qp, "a queue pair without room for it");
	}
	writes(4);
	done(4);
	arrived();
}

static void greedy(void)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct ibv_qp_init_attr ia = { .qp_type = IBV_QPT_RC };
	unsigned int n = 0;

	start_listening();
	both_connect(&b, &listener, &where, &attr, &attr);
	ia.send_cq = b.a.scq;
	ia.recv_cq = b.a.rcq;
	ia.cap = (struct ibv_qp_cap){ 8192, 8192, 6, 6, 0 };
	do {
		printf("%u\n", n++);
		fflush(stdout);
	} while (n < 1000 && ibv_create_qp(b.a.pd, &ia));
	printf("refused: %m\n");
}

/* Another connection works, there and back. */
static void beside(void)
{
	static uint8_t value;
	unsigned int i;

	memset(from, ++value, PAGE);
	memset(to, 0, PAGE);
	CHECK(!ep_post_send(&b.a, 1, IBV_WR_RDMA_WRITE, from, PAGE,
			    from_mr->lkey, (uintptr_t)to, to_mr->rkey), "post");
	done(1);
	memset(from, 0, PAGE);
	read_(PAGE);
	done(1);
	for (i = 0; i < PAGE; i++)
		CHECK(from[i] == value && to[i] == value, "data beside it");
}

static const struct {
	const char *name;
	void (*f)(void);
} list[] = {
	{ "V-PRIV-2 offsets, lengths and kinds of mappings", offsets },
	{ "V-PRIV-3 mappings are changed while they are used", changes },
	{ "V-PRIV-3 the rings are unmapped in mid-transfer", rings_gone },
	{ "V-PRIV-3 queues are freed while a process writes them", queues_gone },
	{ "V-DEA-2 registered memory is unmapped in mid-transfer", memory_gone },
	{ "V-DEA-2 a registered file is cut off in mid-transfer", file_gone },
	{ "V-PRIV-3 forks in mid-transfer", forks },
	{ "V-IMM-1 V-MR-6 S-5042-10 the limit of locked memory", memlock },
	{ "S-5042-10 the limit of address space", address_space },
};

/* The parts run before anything of the library's is in this process. */

static void run(void)
{
	int go[COUNT(list)][2], status;
	pid_t child[COUNT(list)];
	unsigned int i;
	char c;

	if (only_greedy) {
		greedy();
		return;
	}
	for (i = 0; i < COUNT(list); i++) {
		CHECK_SYS(pipe(go[i]));
		child[i] = new_process();
		if (child[i])
			continue;
		close(go[i][1]);
		if (read(go[i][0], &c, 1) != 1)
			_exit(1);
		child_port = 1;
		list[i].f();
		_exit(0);
	}
	begin();
	for (i = 0; i < COUNT(list); i++) {
		part("%s", list[i].name);
		CHECK(write(go[i][1], "g", 1) == 1, "pipe: %m");
		while (!waitpid(child[i], &status, WNOHANG)) {
			beside();
			usleep(10000);
		}
		expect(!status, "status %#x", status);
		beside();
	}
	CHECK_SYS(ibv_dereg_mr(from_mr));
	CHECK_SYS(ibv_dereg_mr(to_mr));
	both_close(&b);
	ep_unlisten(&listener);
}

static const struct opt options[] = {
	{ "greedy", "", "only makes queues until it is refused or killed", .flag = &only_greedy },
	{ }
};

const struct prog prog = {
	.name = "mappings",
	.text = "Mappings and limits of a process with the device.\n",
	.table = options,
	.kind = PROG_HERE,
	.port = 18780,
	.limit = 120,
	.run = run,
};
