// SPDX-License-Identifier: GPL-2.0
/*
 * regions: memory regions whose addresses are chosen, that are registered
 * again, that are DMA buffers, and that are larger than 32 bits can tell.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "both.h"
#include "raw.h"
#include "prog.h"

static unsigned int big;
static bool exporters;

#define LEN 16384
#define PIECE (64 << 20)		/* of huge memory, which repeats it */
#define ZERO_BASED 32			/* IBV_ACCESS_ZERO_BASED */
#define TRANS 1
#define PD 2
#define ACCESS 4
#define EXPORT _IO('x', 0x71)		/* of rsiw_export */

static char *here, *there;		/* memory of the two sides */
static struct both b;
static struct ibv_pd *keep;		/* of the passive side */
static struct ibv_mr *local;

static void connected(void)
{
	static const struct ep_attr active = { .send_wr = 8, .recv_wr = 8 };
	const struct ep_attr passive = { .send_wr = 8, .recv_wr = 8,
					 .pd = keep };

	both_connect(&b, &listener, &where, &active, &passive);
	local = ep_reg(&b.a, here, LEN, ALL_ACCESS);
}

static void disconnected(void)
{
	CHECK_SYS(ibv_dereg_mr(local));
	both_destroy(&b);
}

/* The status of a request of `len` bytes at `to`. */
static enum ibv_wc_status request(enum ibv_wr_opcode op, uint32_t len,
				  uint64_t to, uint32_t rkey)
{
	struct ibv_wc wc;

	CHECK_SYS(ep_post_send(&b.a, 1, op, here, len, local->lkey, to, rkey));
	CHECK(ep_poll(b.a.scq, &wc, EP_EVENT_MS), "no completion");
	return wc.status;
}

/* Writes and reads all of a region of LEN bytes at `mem` through `to`. */
static void works(const char *what, char *mem, uint64_t to, uint32_t rkey)
{
	static char mark;
	int i;

	memset(here, ++mark, LEN);
	expect(!request(IBV_WR_RDMA_WRITE, LEN, to, rkey), "%s: Write", what);
	/* A Read behind it: all is placed (V-ORD-10). */
	memset(here, 0, LEN);
	expect(!request(IBV_WR_RDMA_READ, LEN, to, rkey), "%s: Read", what);
	for (i = 0; i < LEN; i++)
		if (!expect(here[i] == mark && mem[i] == mark,
			    "%s: byte %d", what, i))
			return;
}

/* A Read of a byte there is refused; ends the connection. */
static void dead(const char *what, uint64_t to, uint32_t rkey)
{
	enum ibv_wc_status s = request(IBV_WR_RDMA_READ, 1, to, rkey);

	expect(s == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(s));
	disconnected();
}

static void addresses(void)
{
	static const uint64_t iova[] = { 0, 65536, 0x8000000000000000,
					 UINT64_MAX - LEN + 1 };
	struct ibv_mr *mr;
	unsigned int i;

	connected();
	part("V-MR-4 V-MR-24 V-RNIC-26 addresses that the consumer chooses");
	for (i = 0; i < COUNT(iova); i++) {
		mr = ibv_reg_mr_iova(b.p.pd, there, LEN, iova[i], ALL_ACCESS);
		CHECK(mr, "register at %#lx: %m", iova[i]);
		works("iova", there, iova[i], mr->rkey);
		CHECK_SYS(ibv_dereg_mr(mr));
	}
	part("V-MR-23 V-MR-4 zero-based");
	mr = ibv_reg_mr(b.p.pd, there, LEN, ALL_ACCESS | ZERO_BASED);
	CHECK(mr, "register: %m");
	works("zero-based", there, 0, mr->rkey);
	part("V-MR-23 a zero-based region has no other addresses");
	dead("address", (uintptr_t)there, mr->rkey);
	CHECK_SYS(ibv_dereg_mr(mr));
	part("V-MR-5 any start and length");
	connected();
	for (i = 1; i < 5000; i += 977) {
		uint64_t at = (uintptr_t)there + i;

		mr = ep_reg(&b.p, there + i, i, ALL_ACCESS);
		expect(!request(IBV_WR_RDMA_WRITE, i, at, mr->rkey), "%u", i);
		expect(!request(IBV_WR_RDMA_READ, 1, at + i - 1, mr->rkey),
		       "last of %u", i);
		CHECK_SYS(ibv_dereg_mr(mr));
	}
	part("V-MR-7 V-DEA-6 the same memory many times");
	struct ibv_mr *one = ep_reg(&b.p, there, LEN, ALL_ACCESS);
	struct ibv_mr *two = ep_reg(&b.p, there, LEN, ALL_ACCESS);

	CHECK_SYS(ibv_dereg_mr(one));
	works("the other", there, (uintptr_t)there, two->rkey);
	CHECK_SYS(ibv_dereg_mr(two));
	part("V-DEA-1 V-DEA-2 V-ACC-18 a deregistered STag is dead");
	mr = ep_reg(&b.p, there, LEN, ALL_ACCESS);
	works("before", there, (uintptr_t)there, mr->rkey);
	i = mr->rkey;
	CHECK_SYS(ibv_dereg_mr(mr));
	dead("after", (uintptr_t)there, i);
}

static void again(void)
{
	char *other = ep_pages(LEN), *moved;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint32_t old;
	int i;

	part("V-MR-8 V-MR-11 other memory, any number of times");
	connected();
	mr = ep_reg(&b.p, there, LEN, ALL_ACCESS);
	for (i = 0; i < 20; i++) {
		char *at = i & 1 ? there : other;

		CHECK_SYS(raw_rereg_mr(mr, TRANS, NULL, at, LEN,
				       (uintptr_t)at, 0));
		works("reregistered", at, (uintptr_t)at, mr->rkey);
	}
	part("V-MR-8 other rights");
	CHECK_SYS(raw_rereg_mr(mr, ACCESS, NULL, NULL, 0, 0,
			       IBV_ACCESS_REMOTE_READ));
	expect(!request(IBV_WR_RDMA_READ, 1, (uintptr_t)there, mr->rkey), "Read");
	memset(there, 3, LEN);
	request(IBV_WR_RDMA_WRITE, 1, (uintptr_t)there, mr->rkey);
	expect(wait_state(b.a.id->qp, IBV_QPS_ERR, EP_EVENT_MS) == IBV_QPS_ERR &&
	       there[0] == 3, "a Write is not refused");
	part("V-MR-8 V-MR-21 more rights");
	CHECK_SYS(raw_rereg_mr(mr, ACCESS, NULL, NULL, 0, 0, ALL_ACCESS));
	pd = ibv_alloc_pd(b.p.id->verbs);
	CHECK(pd, "alloc PD: %m");
	part("V-MR-8 other rights keep memory that left its addresses");
	disconnected();
	connected();
	memset(there, 5, LEN);
	moved = mremap(there, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED,
		       ep_pages(LEN));
	CHECK(moved != MAP_FAILED, "mremap: %m");
	CHECK(mmap(there, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		   MAP_ANONYMOUS | MAP_FIXED, -1, 0) == there, "mmap: %m");
	memset(there, 6, LEN);
	CHECK_SYS(raw_rereg_mr(mr, ACCESS, NULL, NULL, 0, 0,
			       IBV_ACCESS_REMOTE_READ));
	expect(!request(IBV_WR_RDMA_READ, LEN, (uintptr_t)there, mr->rkey) &&
	       here[0] == 5 && here[LEN - 1] == 5, "%d was read", here[0]);
	CHECK_SYS(raw_rereg_mr(mr, ACCESS, NULL, NULL, 0, 0, ALL_ACCESS));
	works("moved", moved, (uintptr_t)there, mr->rkey);
	munmap(moved, LEN);
	CHECK_SYS(raw_rereg_mr(mr, TRANS, NULL, there, LEN, (uintptr_t)there,
			       0));
	part("V-MR-8 another PD");
	CHECK_SYS(raw_rereg_mr(mr, PD, pd, NULL, 0, 0, 0));
	disconnected();
	connected();
	dead("the old PD", (uintptr_t)there, mr->rkey);
	expect(ibv_dealloc_pd(pd) == EBUSY, "the PD is not in use");
	part("V-MR-12 the old STag is dead");
	connected();
	CHECK_SYS(raw_rereg_mr(mr, PD | TRANS, b.p.pd, there, LEN,
			       (uintptr_t)there, 0));
	expect(!ibv_dealloc_pd(pd), "the PD is still in use");
	works("back", there, (uintptr_t)there, mr->rkey);
	old = mr->rkey;
	CHECK_SYS(raw_rereg_mr(mr, TRANS, NULL, other, LEN, (uintptr_t)other, 0));
	expect(mr->rkey != old, "the same STag");
	dead("old", (uintptr_t)there, old);
	part("V-MR-10 a bad address deallocates");
	connected();
	CHECK_SYS(ibv_dereg_mr(mr));
	mr = ep_reg(&b.p, there, LEN, ALL_ACCESS);
	works("before", there, (uintptr_t)there, mr->rkey);
	expect(raw_rereg_mr(mr, TRANS, NULL, (void *)4096, LEN, 4096, 0) ==
	       EFAULT, "not refused");
	dead("STag", (uintptr_t)there, mr->rkey);
	expect(raw_rereg_mr(mr, ACCESS, NULL, NULL, 0, 0, ALL_ACCESS) == EINVAL,
	       "rights of no memory");
	part("V-MR-8 what was deallocated is registered again");
	connected();
	CHECK_SYS(ibv_dereg_mr(mr));
	mr = ep_reg(&b.p, there, LEN, ALL_ACCESS);
	raw_rereg_mr(mr, TRANS, NULL, (void *)4096, LEN, 4096, 0);
	CHECK_SYS(raw_rereg_mr(mr, TRANS, NULL, there, LEN, (uintptr_t)there,
			       0));
	works("again", there, (uintptr_t)there, mr->rkey);
	CHECK_SYS(ibv_dereg_mr(mr));
	disconnected();
	munmap(other, LEN);
}

static void dma_buffers(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = 4 * LEN };
	int dev = open("/dev/udmabuf", O_RDWR), fd;
	struct ibv_mr *mr;
	char *mem;

	part("V-MR-3 C-004-8 a DMA buffer as a region");
	if (!expect(dev >= 0, "/dev/udmabuf: %m"))
		return;
	create.memfd = memfd_create("buffer", MFD_ALLOW_SEALING);
	CHECK_SYS(ftruncate(create.memfd, 4 * LEN));
	CHECK_SYS(fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	CHECK(fd >= 0, "udmabuf: %m");
	mem = mmap(NULL, 4 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED,
		   create.memfd, 0);
	CHECK(mem != MAP_FAILED, "map: %m");
	connected();
	mr = raw_reg_dmabuf(b.p.pd, LEN, LEN, 0, fd, ALL_ACCESS);
	if (expect(mr, "register: %s", strerror(errno))) {
		works("buffer", mem + LEN, 0, mr->rkey);
		part("V-IMM-9 beyond a DMA buffer");
		expect(!raw_reg_dmabuf(b.p.pd, LEN, 4 * LEN, 0, fd, ALL_ACCESS) &&
		       errno == EINVAL, "beyond: %s", strerror(errno));
		expect(!raw_reg_dmabuf(b.p.pd, 0, LEN, 0, 0, ALL_ACCESS),
		       "no DMA buffer");
		part("V-MR-26 a DMA buffer outlives its descriptors");
		close(fd);
		close(create.memfd);
		fd = create.memfd = -1;
		works("closed", mem + LEN, 0, mr->rkey);
		part("V-MR-8 a DMA buffer becomes other memory");
		CHECK_SYS(raw_rereg_mr(mr, TRANS, NULL, there, LEN,
				       (uintptr_t)there, 0));
		works("memory", there, (uintptr_t)there, mr->rkey);
		CHECK_SYS(raw_dereg_dmabuf(mr));
	}
	disconnected();
	close(fd);
	close(create.memfd);
	close(dev);
	munmap(mem, 4 * LEN);
}

/* What rsiw_export makes: what cannot be mapped, or not as memory in whole pages. */
static void exporters_refused(void)
{
	static const struct {
		const char *name;
		int error;
	} kinds[] = {
		{ "no vmap", EOPNOTSUPP },
		{ "a vmap that fails", ENOSPC },
		{ "not from the start of a page", EOPNOTSUPP },
		{ "memory of a device", EOPNOTSUPP },
	};
	int dev = open("/dev/rsiw_export", O_RDWR);
	struct ibv_pd *pd = ibv_alloc_pd(listener.id->verbs);
	size_t i;

	CHECK(dev >= 0, "/dev/rsiw_export: %m");
	CHECK(pd, "alloc PD: %m");
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		int fd = ioctl(dev, EXPORT, i);
		struct ibv_mr *mr;

		CHECK(fd >= 0, "buffer %zu: %m", i);
		part("V-IMM-9 a DMA buffer: %s", kinds[i].name);
		mr = raw_reg_dmabuf(pd, 0, 4096, 0, fd, ALL_ACCESS);
		expect(!mr && errno == kinds[i].error, "%s",
		       mr ? "not refused" : strerror(errno));
		if (mr)
			CHECK_SYS(raw_dereg_dmabuf(mr));
		close(fd);
	}
	CHECK_SYS(ibv_dealloc_pd(pd));
	close(dev);
}

/* `len` bytes of address space over one piece of 64 MiB. */
static char *huge(size_t len)
{
	const size_t piece = PIECE;
	int fd = memfd_create("huge", 0);
	char *mem = mmap(NULL, len, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t at;

	CHECK(fd >= 0 && mem != MAP_FAILED, "%zu bytes: %m", len);
	CHECK_SYS(ftruncate(fd, piece));
	for (at = 0; at < len; at += piece)
		CHECK(mmap(mem + at, piece, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) !=
		      MAP_FAILED, "map: %m");
	close(fd);
	return mem;
}

/* A list of elements that is longer than a message can be. */
static void sized(char *mem, size_t size)
{
	static const struct ep_attr attr = { .send_wr = 8, .recv_wr = 8,
					     .send_sge = 2 };
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = {
		.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_mr *mr;

	part("V-WC-21 V-WR-16 more than 2^32-1 bytes");
	both_connect(&b, &listener, &where, &attr, &attr);
	mr = ep_reg(&b.a, mem, size, ALL_ACCESS);
	sge[0] = (struct ibv_sge){ (uintptr_t)mem, UINT32_MAX, mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)mem, 1, mr->lkey };
	CHECK_SYS(ibv_post_send(b.a.id->qp, &wr, &bad));
	completes(b.a.scq, IBV_WC_LOC_LEN_ERR);
	CHECK_SYS(ibv_dereg_mr(mr));
	both_destroy(&b);
}

/*
 * `len` bytes by each operation, from memory that repeats itself to memory that
 * does not: every byte has to come from the right place to the right one.
 */
static void big_message(char *from, struct ibv_mr *from_mr[2], char *to,
			struct ibv_mr *to_mr[2], uint32_t len)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND
	};
	static unsigned int round;
	struct ibv_wc wc;
	size_t i;
	int o;

	for (o = 0; o < 3; o++) {
		bool read = ops[o] == IBV_WR_RDMA_READ;
		struct ibv_mr *mr = read ? to_mr[0] : from_mr[0];

		/* Nothing of the round before is taken for this one's. */
		round++;
		for (i = 0; i < PIECE / sizeof(uint32_t); i++)
			((uint32_t *)from)[i] = i * 2654435761u + round;
		to[len] = 77;
		if (ops[o] == IBV_WR_SEND)
			CHECK_SYS(ep_post_recv(&b.p, 1, to, len, to_mr[1]->lkey));
		CHECK_SYS(ep_post_send(&b.a, 2, ops[o], read ? to : from, len,
				       mr->lkey, (uintptr_t)(read ? from : to),
				       read ? from_mr[1]->rkey : to_mr[1]->rkey));
		expect(ep_poll(b.a.scq, &wc, 300000) && !wc.status, "%d: %s",
		       ops[o], ibv_wc_status_str(wc.status));
		/* A Send behind a Write arrives when all of it has. */
		if (ops[o] == IBV_WR_RDMA_WRITE) {
			CHECK_SYS(ep_post_recv(&b.p, 1, NULL, 0, 0));
			CHECK_SYS(ep_post_send(&b.a, 3, IBV_WR_SEND, NULL, 0, 0,
					       0, 0));
			expect(ep_poll(b.a.scq, &wc, 300000) && !wc.status,
			       "Send");
		}
		if (!read)
			expect(ep_poll(b.p.rcq, &wc, 300000) && !wc.status,
			       "receive: %s", ibv_wc_status_str(wc.status));
		if (ops[o] == IBV_WR_SEND)
			expect(wc.byte_len == len, "%u received", wc.byte_len);
		expect(!memcmp(from, to, len), "%d: bytes", ops[o]);
		expect(to[len] == 77, "%d: beyond the end", ops[o]);
	}
}

static void big_messages(uint32_t len)
{
	const size_t size = 5ull << 30, real = (4ull << 30) + 4096;
	uint64_t from = (4ull << 30) - 8192;
	struct ibv_mr *mem_mr[2], *to_mr[2];
	char *mem, *to;

	part("V-MR-5 V-MR-24 a region of 5 GiB, used across 4 GiB");
	mem = huge(size);
	connected();
	mem_mr[0] = ep_reg(&b.a, mem, size, ALL_ACCESS);
	mem_mr[1] = ep_reg(&b.p, mem, size, ALL_ACCESS);
	memset(here, 9, LEN);
	expect(!request(IBV_WR_RDMA_WRITE, LEN, (uintptr_t)mem + from,
			mem_mr[1]->rkey), "Write");
	expect(!request(IBV_WR_RDMA_READ, LEN, (uintptr_t)mem + from,
			mem_mr[1]->rkey), "Read");
	expect(mem[from] == 9 && mem[from + LEN - 1] == 9, "bytes");
	if (len) {
		part("V-WR-16 V-ORD-8 messages of %u and 2^32-1 bytes", len);
		to = mmap(NULL, real, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(to != MAP_FAILED, "%zu bytes: %m", real);
		to_mr[0] = ep_reg(&b.a, to, real, ALL_ACCESS);
		to_mr[1] = ep_reg(&b.p, to, real, ALL_ACCESS);
		big_message(mem, mem_mr, to, to_mr, len);
		big_message(mem, mem_mr, to, to_mr, UINT32_MAX);
		CHECK_SYS(ibv_dereg_mr(to_mr[0]));
		CHECK_SYS(ibv_dereg_mr(to_mr[1]));
		CHECK_SYS(munmap(to, real));
	}
	CHECK_SYS(ibv_dereg_mr(mem_mr[0]));
	CHECK_SYS(ibv_dereg_mr(mem_mr[1]));
	disconnected();
	sized(mem, size);
	CHECK_SYS(munmap(mem, size));
}

static void run(void)
{
	if (exporters) {
		exporters_refused();
		return;
	}
	keep = ibv_alloc_pd(listener.id->verbs);
	CHECK(keep, "alloc PD: %m");
	here = ep_pages(LEN);
	there = ep_pages(LEN);
	addresses();
	again();
	dma_buffers();
	big_messages(big << 20);
	CHECK_SYS(ibv_dealloc_pd(keep));
}

static const struct opt options[] = {
	{ "big", "MIB",
	  "also messages of this size and 4 GiB - 1 (0), which takes 5 GiB of memory",
	  .num = &big, .max = 4095 },
	{ "exporters", "", "only DMA buffers of the module rsiw_export",
	  .flag = &exporters },
	{ }
};

const struct prog prog = {
	.name = "regions",
	.text = "Kinds of memory regions; both ends are in this process.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18780,
	.limit = 120,
	.run = run,
};
