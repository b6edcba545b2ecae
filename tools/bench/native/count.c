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
 * polling: between two calls that asked a completion queue and found it empty
 * and between which the kernel did not run. The first that finds nothing is not
 * polling: a program that waits for events makes that call as well.
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
/* Blocks of programs on their way from one empty queue to the next. */
#define PENDING 4096

struct block {
	uint64_t addr, insns;
	uint64_t count, polled;		/* of programs; the kernel's are below */
};

static struct block *blocks;		/* a hash table */
static uint64_t used;
/* Counts of the kernel's blocks, by their place in the table; first, of all. */
static struct qemu_plugin_scoreboard *kernel;
static struct block *before;		/* what was counted when a span began */
static struct block *pending[PENDING];
static unsigned int n_pending;
static bool was_empty;			/* the last poll found nothing, */
static uint64_t then;			/* when the kernel had run so often */
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

static void settle(bool polled)
{
	unsigned int i;

	for (i = 0; i < n_pending; i++) {
		pending[i]->count++;
		pending[i]->polled += polled;
	}
	n_pending = 0;
}

static void program_ran(unsigned int vcpu, void *block)
{
	(void)vcpu;
	if (n_pending == PENDING) {
		settle(false);
		was_empty = false;
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
	settle(false);
	was_empty = false;
	gather();
	memcpy(before, blocks, SLOTS * sizeof(*blocks));
	counting = true;
}

static void stop(void)
{
	uint64_t i;

	settle(false);
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
	uint64_t now;

	(void)vcpu;
	switch ((uintptr_t)mark) {
	case MARK_START:
		start();
		break;
	case MARK_STOP:
		stop();
		break;
	case MARK_EMPTY:
		now = *kernel_counts();
		settle(was_empty && now == then);
		was_empty = true;
		then = now;
		break;
	case MARK_FOUND:
		settle(false);
		was_empty = false;
		break;
	}
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
