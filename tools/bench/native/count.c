// SPDX-License-Identifier: GPL-2.0
/*
 * count: a plugin of QEMU that counts the instructions of a guest, for each block
 * of code between two marks which a program of the guest sets.
 *
 *   -plugin count.so,out=FILE
 *
 * For a guest with one processor (-icount). A mark is a long NOP whose
 * displacement says which one it is (marks.h): it costs the guest nothing, needs
 * no privilege and does the same without the plugin: nothing.
 *
 * FILE has a part for each pair of a start and a stop, in their order:
 *
 *   span N
 *   ADDRESS INSTRUCTIONS COUNT POLLED	hexadecimal, then decimal
 *   ...
 *   end
 *
 * A block of INSTRUCTIONS at ADDRESS ran COUNT times, of these POLLED as a part of
 * polling. That is what a program runs, without the kernel in between,
 *
 * - from one call that asked a completion queue and found it empty to the next one
 *   that does. The first that finds nothing is not polling: a program that waits
 *   for events makes that call as well;
 * - in a loop of at most PERIOD blocks that goes on and on, which is a program that
 *   watches memory. (iperf3 does while a thread of it waits for another.)
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "plugin.h"

EXPORT int qemu_plugin_version = 4;

/* A power of two, several times as many as there are blocks. */
#define SLOTS (1u << 21)
/* Blocks of a program that are yet to be called work or polling. */
#define PENDING 4096
/* As many of these have to be a loop of so few blocks to be called polling. */
#define SPUN 2048
#define PERIOD 32

struct block {
	uint64_t addr, insns;
	bool repeats;			/* itself, as a string instruction does */
	uint64_t count, polled;		/* of programs; the kernel's are below */
};

static struct block *blocks;		/* a hash table */
static uint64_t used;
/* Counts of the kernel's blocks, by their place in the table; first, of all. */
static struct qemu_plugin_scoreboard *kernel;
static struct block *before;		/* what was counted when a span began */
static struct block *pending[PENDING];
static unsigned int n_pending;
static bool was_empty;			/* the last poll found nothing */
static bool spinning;			/* what was settled last was a loop */
static uint64_t kernel_ran;		/* so often, when a program last did */
static bool counting;
static unsigned int spans;
static FILE *out;

static uint64_t *kernel_counts(void)
{
	return qemu_plugin_scoreboard_find(kernel, 0);
}

static struct block *block_of(uint64_t addr, uint64_t insns)
{
	uint64_t h = (addr * 0x9e3779b97f4a7c15ull +
		      insns * 0xc2b2ae3d27d4eb4full) >> 43;

	for (;; h++) {
		struct block *b = &blocks[h % SLOTS];

		if (!b->insns) {
			if (++used > SLOTS - SLOTS / 8) {
				fprintf(stderr, "count: too many blocks\n");
				abort();
			}
			b->addr = addr;
			b->insns = insns;
			return b;
		}
		if (b->addr == addr && b->insns == insns)
			return b;
	}
}

/* Calls all that is pending work, but for the last `polled` blocks. */
static void settle(unsigned int polled)
{
	unsigned int i;

	for (i = 0; i < n_pending; i++) {
		pending[i]->count++;
		pending[i]->polled += i >= n_pending - polled;
	}
	n_pending = 0;
}

/* How many of the last pending blocks are a loop of `period` blocks. */
static unsigned int looped(unsigned int period)
{
	unsigned int i = n_pending;

	while (i-- > period)
		if (pending[i] != pending[i - period] || pending[i]->repeats)
			return n_pending - 1 - i;
	return n_pending;
}

/* Settles blocks between which there was no mark. */
static void settle_unmarked(void)
{
	unsigned int period, n, spun = 0;

	for (period = 1; period <= PERIOD && !spun; period++) {
		n = looped(period);
		/* The rest of a loop that was seen before may be short. */
		if (n >= SPUN || (spinning && n == n_pending))
			spun = n;
	}
	spinning = spun > 0;
	settle(spun);
	was_empty = false;
}

static void program_ran(unsigned int vcpu, void *block)
{
	uint64_t now = *kernel_counts();

	(void)vcpu;
	if (now != kernel_ran) {
		settle_unmarked();
		spinning = false;
		kernel_ran = now;
	} else if (n_pending == PENDING) {
		settle_unmarked();
	}
	pending[n_pending++] = block;
}

/* The kernel's counts into the blocks that they are of. */
static void gather(void)
{
	const uint64_t *counts = kernel_counts();
	uint64_t i;

	for (i = 0; i < SLOTS; i++)
		if (blocks[i].addr >> 63)
			blocks[i].count = counts[i + 1];
}

static void start(void)
{
	settle(0);
	was_empty = false;
	gather();
	memcpy(before, blocks, SLOTS * sizeof(*blocks));
	counting = true;
}

static void stop(void)
{
	uint64_t i;

	settle(0);
	was_empty = false;
	if (!counting)
		return;
	counting = false;
	gather();
	fprintf(out, "span %u\n", spans++);
	for (i = 0; i < SLOTS; i++) {
		const struct block *b = &blocks[i], *a = &before[i];

		if (b->count != a->count)
			fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64
				" %" PRIu64 "\n", b->addr, b->insns,
				b->count - a->count, b->polled - a->polled);
	}
	fprintf(out, "end\n");
	fflush(out);
}

static void marked(unsigned int vcpu, void *mark)
{
	(void)vcpu;
	switch ((uintptr_t)mark) {
	case MARK_START:
		start();
		break;
	case MARK_STOP:
		stop();
		break;
	case MARK_EMPTY:
		settle(was_empty ? n_pending : 0);
		was_empty = true;
		break;
	case MARK_FOUND:
		settle(0);
		was_empty = false;
		break;
	}
	spinning = false;
}

/* Which mark an instruction is, 0 if none. */
static uintptr_t mark_of(const struct qemu_plugin_insn *insn)
{
	uint8_t code[16];
	uint32_t disp;

	if (qemu_plugin_insn_data(insn, code, sizeof(code)) != 7 ||
	    code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return 0;
	memcpy(&disp, code + 3, sizeof(disp));
	return (disp & ~0xffu) == MARK_BASE ? disp & 0xff : 0;
}

/* A prefix of repetition before an instruction on strings. */
static bool is_string(const struct qemu_plugin_insn *insn)
{
	uint8_t code[16];
	size_t n = qemu_plugin_insn_data(insn, code, sizeof(code));
	uint8_t op = code[n - 1];

	return n >= 2 && (code[0] == 0xf3 || code[0] == 0xf2) && n <= 4 &&
	       ((op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf));
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	uint64_t addr = qemu_plugin_tb_vaddr(tb);
	struct block *b = block_of(addr, n);
	qemu_plugin_u64 all = { kernel, 0 };
	qemu_plugin_u64 its = { kernel, (b - blocks + 1) * sizeof(uint64_t) };

	(void)id;
	if (addr >> 63) {
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
			tb, QEMU_PLUGIN_INLINE_ADD_U64, all, 1);
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
			tb, QEMU_PLUGIN_INLINE_ADD_U64, its, 1);
		return;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, program_ran,
					     QEMU_PLUGIN_CB_NO_REGS, b);
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t mark = mark_of(insn);

		b->repeats |= is_string(insn);
		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, marked, QEMU_PLUGIN_CB_NO_REGS,
				(void *)mark);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
			       int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
	if (!out) {
		fprintf(stderr, "count: cannot write; needs out=FILE\n");
		return 1;
	}
	if (strcmp(info->target_name, "x86_64") || !info->system_emulation ||
	    info->system.max_vcpus != 1) {
		fprintf(stderr, "count: needs a machine with one x86-64 processor\n");
		return 1;
	}
	blocks = calloc(SLOTS, sizeof(*blocks));
	before = calloc(SLOTS, sizeof(*before));
	kernel = qemu_plugin_scoreboard_new((SLOTS + 1) * sizeof(uint64_t));
	if (!blocks || !before || !kernel) {
		fprintf(stderr, "count: no memory\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
