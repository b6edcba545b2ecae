// SPDX-License-Identifier: GPL-2.0
/* What is written into the queues, see ring.h. */
#include "ring.h"

#include <inttypes.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>

#include "ep.h"
#include "raw.h"

uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

size_t entry_size(enum kind kind)
{
	switch (kind) {
	case SQ:
		return form->sqe;
	case CQ:
		return form->cqe;
	default:
		return form->rqe;
	}
}

struct sge *elements(enum kind kind, void *entry)
{
	unsigned int at = kind == SQ ? form->sqe_sge : form->rqe_sge;

	return (struct sge *)((uint8_t *)entry + at);
}

unsigned int new_mappings(struct ring *found, const struct ring *known,
			  unsigned int n)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int i, count = 0;
	char line[512];

	CHECK(f, "maps: %m");
	while (fgets(line, sizeof(line), f)) {
		uintptr_t from, to;

		if (!strstr(line, "uverbs") ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2)
			continue;
		for (i = 0; i < n; i++)
			if (known[i].at == (uint8_t *)from)
				break;
		if (i < n)
			continue;
		CHECK(count < MAX_RINGS, "too many mappings");
		found[count++] = (struct ring){ .at = (uint8_t *)from,
						.len = to - from };
	}
	fclose(f);
	return count;
}

static uint32_t some_key(const struct pool *p, uint64_t *s)
{
	uint64_t r = rnd(s);

	switch (r % 16) {
	case 0:
		return 0;
	case 1:
		return r >> 32;
	case 2:
		return p->key[0] ^ (1u << (r >> 32) % 32);
	default:
		return p->key[(r >> 32) % (form->own ? 10 : 8)];
	}
}

static uint64_t some_addr(const struct pool *p, uint64_t *s)
{
	uint64_t r = rnd(s);

	return r % 16 ? p->addr[(r >> 32) % 12] + (r >> 16) % 64 : rnd(s);
}

static uint32_t some_len(uint64_t *s)
{
	static const uint32_t len[] = {
		0, 1, 8, 64, 80, 81, 256, 257, 1024, 4095, 4096, 4097, 65536, 1u << 20,
		0x7fffffff, 0x80000000, 0xfffff000, 0xffffffff,
	};
	uint64_t r = rnd(s);

	return r % 3 ? (r >> 32) % 4097 :
		       len[(r >> 32) % COUNT(len)];
}

static uint8_t some_opcode(uint64_t *s)
{
	static const uint8_t good[] = {
		WRITE_, READ_, SEND_, SEND_, SEND_INV_,
		WRITE_IMM_, FETCH_ADD_, COMP_SWAP_, BIND_, BIND_, INVALIDATE_,
	};
	uint64_t r = rnd(s);

	return r % 4 ? good[(r >> 32) % (form->own ? COUNT(good) : 5)] : r % 8 ? (r >> 32) % 14 : r >> 32;
}

static uint8_t some_count(uint64_t *s)
{
	uint64_t r = rnd(s);

	return r % 4 ? 1 : r % 8 ? (r >> 32) % (form->max_sge + 2) : r >> 32;
}

static void forge_sge(struct sge *sge, const struct pool *p, uint64_t *s)
{
	*sge = (struct sge){ some_addr(p, s), some_len(s), some_key(p, s) };
}

/* What is between the front and the elements, with its own rights and lengths. */
static void forge_operands(void *entry, const struct pool *p, uint64_t *s)
{
	uint32_t *word = (uint32_t *)((uint8_t *)entry + sizeof(struct sqe));
	unsigned int i;

	for (i = 0; i < (form->sqe_sge - sizeof(struct sqe)) / 4; i++)
		word[i] = rnd(s) % 4 ? 0 : rnd(s);
	/* As a bind has them: window, region, length, rights. */
	word[0] = some_key(p, s);
	word[1] = some_key(p, s);
	word[2] = some_len(s);
	word[4] = rnd(s) % 4 ? 6 : rnd(s);
	/* Octets inline. */
	word[6] = some_len(s);
}

void forge_sqe(void *entry, const struct pool *p, uint64_t *s)
{
	struct sge *sge = elements(SQ, entry);
	struct sqe *e = entry;
	unsigned int i;

	e->id = rnd(s);
	e->num_sge = some_count(s);
	e->opcode = some_opcode(s);
	e->rkey = some_key(p, s);
	e->raddr = some_addr(p, s);
	if (form->own)
		forge_operands(entry, p, s);
	for (i = 0; i < form->max_sge; i++)
		forge_sge(&sge[i], p, s);
	e->flags = rnd(s);
	e->flags |= VALID;
}

/* Another value for one field: the entry may be in the kernel's hands. */
static void change_field(const struct ring *r, uint8_t *at,
			 const struct pool *p, uint64_t *s)
{
	struct sge *sge = elements(r->kind, at);
	struct sqe *e = (struct sqe *)at;	/* the same up to num_sge */

	if (r->kind == CQ) {
		at[rnd(s) % form->cqe] = rnd(s);
		return;
	}
	sge += rnd(s) % form->max_sge;
	switch (rnd(s) % (form->own && r->kind == SQ ? 9 : 8)) {
	case 8:
		forge_operands(at, p, s);
		break;
	case 0:
		e->flags = rnd(s);
		break;
	case 1:
		e->flags |= VALID;
		break;
	case 2:
		e->num_sge = some_count(s);
		break;
	case 3:
		e->opcode = some_opcode(s);
		break;
	case 4:
		e->rkey = some_key(p, s);
		break;
	case 5:
		sge->laddr = some_addr(p, s);
		break;
	case 6:
		sge->length = some_len(s);
		break;
	default:
		sge->lkey = some_key(p, s);
	}
}

void swap_right(const struct ring *r, const struct pool *p, uint64_t *s)
{
	static const uint8_t op[] = { WRITE_, SEND_ };
	uint8_t *at = r->at + rnd(s) % r->entries * entry_size(r->kind);
	struct sqe *e = (struct sqe *)at;
	struct sge *sge = elements(r->kind, at);

	if (r->kind == POLLED) {
		*(uint32_t *)r->at = rnd(s) % 2;
		return;
	}
	if (r->kind == CQ) {
		/* How the next event is asked for, behind the entries. */
		*(uint32_t *)(r->at + r->entries * form->cqe) = rnd(s);
		return;
	}
	switch (rnd(s) % (r->kind == SQ ? 6 : 2)) {
	case 0:
		sge->length = r->kind == SQ ? rnd(s) % 2048 : 4096;
		break;
	case 1:
		e->id = rnd(s);
		break;
	case 2:
		e->opcode = op[rnd(s) % 2];
		break;
	case 3:
		e->num_sge = rnd(s) % 2;
		break;
	case 4:
		sge->laddr += rnd(s) % 2 ? 8 : -8;
		break;
	default:
		e->raddr = p->addr[1] + rnd(s) % 4096;
	}
}

void scribble(const struct ring *r, const struct pool *p, uint64_t *s)
{
	size_t size = entry_size(r->kind), i;
	uint8_t *a = r->at + rnd(s) % r->entries * size;
	uint8_t *b = r->at + rnd(s) % r->entries * size;
	uint8_t sqe[MAX_ENTRY];

	if (r->kind == POLLED) {
		memset(r->at, rnd(s) % 4 ? 0 : (int)rnd(s), 64);
		return;
	}
	switch (rnd(s) % 64) {
	case 0:			/* anything, also behind the last entry */
		for (i = 0; i < 64; i++)
			((uint64_t *)r->at)[rnd(s) % (r->len / 8)] = rnd(s);
		break;
	case 1:
		memset(a, (int)rnd(s), size);
		break;
	case 2:
		memset(r->at, rnd(s) & 1 ? 0xff : 0, r->len);
		break;
	case 3 ... 6:
		memmove(a, b, size);
		break;
	case 7 ... 14:
		if (r->kind == SQ) {
			forge_sqe(sqe, p, s);
			memcpy(a, sqe, size);
		}
		break;
	default:
		change_field(r, a, p, s);
	}
}

void ring_bell(struct ibv_context *ctx, uint32_t qp, const struct pool *p, uint64_t *s)
{
	/* Refused, for all we know. */
	if (rnd(s) % 8 == 0) {
		struct ib_uverbs_send_wr wr = {
			.wr_id = rnd(s), .num_sge = 1,
			.opcode = rnd(s) % 16, .send_flags = rnd(s),
			.wr.rdma = { p->addr[11], p->key[0] },
		};
		struct ib_uverbs_sge sge = { p->addr[11], 64, 0 };

		raw_post(ctx, qp, &wr, &sge);
	} else {
		raw_doorbell(ctx, qp);
	}
}
