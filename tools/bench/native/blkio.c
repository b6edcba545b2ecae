// SPDX-License-Identifier: GPL-2.0
/*
 * blkio: reads or writes blocks of a disk or a file, at places that look random, so many
 * at a time, past the page cache. What a block costs is counted from outside (marks.h).
 *
 * It sleeps until a block is done, then asks for as many others as were. Before the
 * blocks that count come some that do not.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "marks.h"
#include "opt.h"

static const char usage[] =
"usage: blkio --file FILE [options]\n"
"Prints \"blocks N\", \"ns N\" and \"switches N\" (of tasks, by the whole machine).\n"
"  --file FILE          the disk or file\n"
"  --size BYTES         of a block, a multiple of 512 (4096)\n"
"  --depth N            blocks at a time (1)\n"
"  --count N            blocks that count (1000)\n"
"  --ms N               instead of so many: as many as so many milliseconds allow\n"
"  --write              write instead of reading\n"
"  --maps FILE          keep what this has mapped in FILE\n"
"  --limit SECONDS      watchdog (600)\n";

#define DEPTH 256

static struct {
	unsigned int size, depth;
	bool write;
	int fd;
	uint64_t blocks;		/* of the file */
	aio_context_t ctx;
	struct iocb cb[DEPTH];
	uint64_t place;
} io = { .size = 4096, .depth = 1, .place = 1 };

/* The next block: a sequence that does not repeat soon, the same each time. */
static uint64_t next_place(void)
{
	io.place = io.place * 6364136223846793005ull + 1442695040888963407ull;
	return (io.place >> 20) % io.blocks * io.size;
}

static void submit(struct iocb **list, long count)
{
	long n, i;

	for (i = 0; i < count; i++)
		list[i]->aio_offset = next_place();
	while (count) {
		n = syscall(SYS_io_submit, io.ctx, count, list);
		CHECK(n > 0, "io_submit: %m");
		list += n;
		count -= n;
	}
}

/* Moves `count` blocks, or until the clock says so; returns how many. */
static unsigned int move(unsigned int count, uint64_t until)
{
	unsigned int asked = 0, done = 0, i;
	struct io_event event[DEPTH];
	struct iocb *list[DEPTH];
	long n = io.depth;

	for (i = 0; i < io.depth; i++)
		list[i] = &io.cb[i];
	for (;;) {
		if (until && ep_now_ns() >= until)
			n = 0;
		else if (!until && n > count - asked)
			n = count - asked;
		submit(list, n);
		asked += n;
		if (done == asked)
			return done;
		n = syscall(SYS_io_getevents, io.ctx, 1l, (long)DEPTH, event, NULL);
		CHECK(n > 0, "io_getevents: %m");
		for (i = 0; i < n; i++) {
			CHECK(event[i].res == io.size, "block of %lld bytes: %s",
			      (long long)event[i].res, strerror(-event[i].res));
			list[i] = (struct iocb *)(uintptr_t)event[i].obj;
		}
		done += n;
	}
}

static unsigned long long switches(void)
{
	unsigned long long n = 0;
	char line[4096];
	FILE *f;

	f = fopen("/proc/stat", "r");
	CHECK(f, "/proc/stat: %m");
	while (fgets(line, sizeof(line), f) && sscanf(line, "ctxt %llu", &n) != 1)
		;
	fclose(f);
	return n;
}

static void keep_maps(const char *to)
{
	char line[512];
	FILE *in = fopen("/proc/self/maps", "r"), *out = fopen(to, "w");

	CHECK(in && out, "%s: %m", to);
	while (fgets(line, sizeof(line), in))
		fputs(line, out);
	fclose(in);
	CHECK(!fclose(out), "%s: %m", to);
}

static void set_up(const char *file)
{
	unsigned int i;
	off_t size;
	char *mem;

	io.fd = open(file, (io.write ? O_RDWR : O_RDONLY) | O_DIRECT);
	CHECK(io.fd >= 0, "%s: %m", file);
	size = lseek(io.fd, 0, SEEK_END);
	CHECK(size >= io.size, "%s is smaller than a block", file);
	io.blocks = size / io.size;
	CHECK_SYS(syscall(SYS_io_setup, io.depth, &io.ctx));
	mem = ep_pages((size_t)io.size * io.depth);
	memset(mem, 0x5a, (size_t)io.size * io.depth);
	for (i = 0; i < io.depth; i++)
		io.cb[i] = (struct iocb){
			.aio_fildes = io.fd,
			.aio_lio_opcode = io.write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			.aio_buf = (uintptr_t)mem + (size_t)i * io.size,
			.aio_nbytes = io.size,
		};
}

int main(int argc, char **argv)
{
	unsigned int count = 1000, ms = 0, limit = 600, done;
	const char *file = NULL, *maps = NULL;
	unsigned long long before;
	struct ep_where unused = { };
	uint64_t begin;
	const struct opt table[] = {
		{ "file", .str = &file },
		{ "size", .num = &io.size, .min = 512, .max = 1 << 24 },
		{ "depth", .num = &io.depth, .min = 1, .max = DEPTH },
		{ "count", .num = &count, .min = 1, .max = 100000000 },
		{ "ms", .num = &ms, .max = 600000 },
		{ "write", .flag = &io.write },
		{ "maps", .str = &maps },
		{ }
	};

	opt_parse(argc, argv, usage, &unused, &limit, table);
	if (!file || io.size % 512) {
		fprintf(stderr, "%s\n%s", file ? "--size is no multiple of 512" :
			"--file is missing", usage);
		return 2;
	}
	ep_watchdog(limit);
	set_up(file);
	move(ms ? io.depth * 4 : count / 4 + io.depth, 0);
	before = switches();
	begin = ep_now_ns();
	set_mark(MARK_START);
	done = move(count, ms ? begin + ms * 1000000ull : 0);
	set_mark(MARK_STOP);
	printf("blocks %u\nns %llu\n", done, (unsigned long long)(ep_now_ns() - begin));
	printf("switches %llu\n", switches() - before);
	if (maps)
		keep_maps(maps);
	return 0;
}
