// SPDX-License-Identifier: GPL-2.0
/*
 * The plan of a round: which operations one side posts, from and to where.
 * Both sides compute the plans of both from the seed, so each knows every
 * byte it must find in its memory at the end of the round.
 */
#include "integrity.h"

#include <string.h>

uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return n ? (rng_next(r) >> 32) * n >> 32 : 0;
}

static uint64_t pattern_word(uint64_t key, uint32_t word)
{
	struct rng r = { key + word * 0xd1342543de82ef95ull };

	return rng_next(&r);
}

void pattern_fill(uint8_t *p, uint32_t from, uint32_t len, uint64_t key)
{
	uint32_t i = 0;

	while (i < len) {
		uint64_t w = pattern_word(key, (from + i) / 8);
		uint32_t at = (from + i) % 8, n = 8 - at;

		if (n > len - i)
			n = len - i;
		memcpy(p + i, (uint8_t *)&w + at, n);
		i += n;
	}
}

int64_t pattern_check(const uint8_t *p, uint32_t from, uint32_t len,
		      uint64_t key)
{
	uint32_t i = 0, k;

	while (i < len) {
		uint64_t w = pattern_word(key, (from + i) / 8);
		uint32_t at = (from + i) % 8, n = 8 - at;

		if (n > len - i)
			n = len - i;
		if (memcmp(p + i, (uint8_t *)&w + at, n)) {
			for (k = 0; p[i + k] == ((uint8_t *)&w)[at + k];)
				k++;
			return i + k;
		}
		i += n;
	}
	return -1;
}

const char *op_name(enum op_kind k)
{
	static const char *const names[OP_KINDS] = {
		"send", "send-se", "send-inv", "write", "read", "readback",
	};

	return names[k];
}

/* Room in a region: `len` bytes behind what is in use, 0 when full. */
static bool take(uint32_t *used, uint32_t len, uint32_t skip, uint32_t *off)
{
	if (*used + skip + len + 64 > REGION)
		return false;
	*off = *used + skip;
	*used = *off + len + 1;
	return true;
}

/* Mostly odd places, often just before the end of a page. */
static uint32_t skip_random(struct rng *r, uint32_t used, uint32_t len)
{
	uint32_t to_end = SMALL_PAGE - used % SMALL_PAGE;

	switch (rng_below(r, 4)) {
	case 0:
		return (64 - used % 64) % 64;
	case 1:
		return to_end - 1 - rng_below(r, len < 64 ? len + 1 : 64) %
		       (to_end);
	default:
		return rng_below(r, 80);
	}
}

static uint32_t size_random(struct rng *r, uint32_t min, uint32_t max)
{
	static const uint32_t edge[] = {
		80, 128, 1024, 1408, 1428, 1448, 1460, 2048, 2896, 4096, 8192,
		16384, 32768, 64768, 65536,
	};
	uint32_t n;

	switch (rng_below(r, 20)) {
	case 0:
		n = 0;
		break;
	case 1 ... 5:
		n = rng_below(r, 81);
		break;
	case 6 ... 9:
		n = rng_below(r, 2048);
		break;
	case 10 ... 13:
		n = edge[rng_below(r, sizeof(edge) / sizeof(edge[0]))] - 24 +
		    rng_below(r, 32);
		break;
	case 14 ... 17:
		n = rng_below(r, 32768);
		break;
	case 18:
		n = rng_below(r, 262144);
		break;
	default:
		n = rng_below(r, max + 1);
	}
	n = n < max ? n : max;
	return n > min ? n : min;
}

/* Cuts `len` bytes into 1..MAX_SGE segments at random places. Each has none now and then. */
static bool segments(struct rng *r, uint32_t *used, uint32_t len,
		     unsigned int max, uint8_t *n, struct seg *seg)
{
	unsigned int i, want = 1 + rng_below(r, max);
	uint32_t left = len, part;

	if (!len && want > 1 && rng_below(r, 2))
		want = 1;
	for (i = 0; i < want; i++) {
		part = rng_below(r, 8) ? rng_below(r, left + 1) : 0;
		if (i == want - 1)
			part = left;
		if (!take(used, part, skip_random(r, *used, part), &seg[i].off))
			return false;
		seg[i].len = part;
		seg[i].mr = rng_below(r, 2);
		left -= part;
	}
	*n = want;
	return true;
}

static bool op_random(struct plan *p, struct op *op, struct rng *r,
		      const struct options *o)
{
	uint32_t (*used)[REGIONS] = p->used;
	uint32_t room;
	unsigned int back;

	memset(op, 0, sizeof(*op));
	do {
		op->kind = rng_below(r, OP_KINDS);
	} while (!(o->kinds & 1u << op->kind));
	op->key = rng_next(r);
	op->fence = !rng_below(r, 8);
	op->signaled = rng_below(r, 3);
	op->len = size_random(r, o->min_size, o->max_size);
	if (op->kind == OP_READBACK) {
		/* The last Write of the round so far, and all of it. */
		for (back = p->n; back && p->op[back - 1].kind != OP_WRITE;)
			back--;
		if (!back) {
			op->kind = OP_READ;
		} else {
			op->len = p->op[back - 1].len;
			op->roff = p->op[back - 1].roff;
			op->key = p->op[back - 1].key;
		}
	}
	switch (op->kind) {
	case OP_READ:
		if (!take(&used[1][R_READ], op->len,
			  skip_random(r, used[1][R_READ], op->len), &op->roff))
			return false;
		/* fall through */
	case OP_READBACK:
		/* An RDMA Read has one sink (RFC 5040 section 4.4). */
		return segments(r, &used[0][R_SINK], op->len, 1, &op->nsge,
				op->sge);
	case OP_WRITE:
		if (!take(&used[1][R_TARGET], op->len,
			  skip_random(r, used[1][R_TARGET], op->len),
			  &op->roff))
			return false;
		break;
	default:
		room = rng_below(r, 3) ? 0 : rng_below(r, 3000);
		if (!segments(r, &used[1][R_RECV], op->len + room, o->segments,
			      &op->nrsge, op->rsge))
			return false;
		p->sends++;
	}
	op->inlined = op->len <= INLINE_MAX && rng_below(r, 2);
	return segments(r, &used[0][R_SRC], op->len, o->segments, &op->nsge,
			op->sge);
}

/*
 * A Write is placed for certain once something behind it was delivered: a
 * plan that ends in Writes gets an empty Send.
 */
static void plan_close(struct plan *p)
{
	struct op *op = &p->op[p->n];

	if (p->n && op[-1].kind == OP_WRITE) {
		*op = (struct op){ .kind = OP_SEND, .nsge = 1, .nrsge = 1 };
		p->sends++;
		p->n++;
	}
	if (p->n)
		p->op[p->n - 1].signaled = true;
}

void plan_random(struct plan *p, const struct options *o, uint64_t round,
		 bool server)
{
	struct rng r = { o->seed ^ (round * 2 + server) * 0x2545f4914f6cdd1dull };
	/* A round may be longer than the send queue, so the ring wraps. */
	unsigned int i, want = 1 + rng_below(&r, MAX_OPS - 1);

	memset(p, 0, sizeof(*p));
	for (i = 0; i < want; i++) {
		struct plan before = { .sends = p->sends };

		memcpy(before.used, p->used, sizeof(p->used));
		if (p->sends + 1 >= o->depth ||
		    !op_random(p, &p->op[p->n], &r, o)) {
			/* Full: what was begun does not count. */
			memcpy(p->used, before.used, sizeof(p->used));
			p->sends = before.sends;
			continue;
		}
		p->n++;
	}
	plan_close(p);
}

/*
 * T-6: each length 1..64 and each place of the page border in it, for Send,
 * Write and Read; the border lies elsewhere at the other end.
 */
bool plan_split(struct plan *p, const struct options *o, unsigned int first,
		bool server)
{
	const unsigned int per_kind = 64 * 67 / 2;	/* sum of len + 1 */
	unsigned int c, i, len, split, other;

	memset(p, 0, sizeof(*p));
	for (c = first; c < first + o->depth - 1 && c < 3 * per_kind; c++) {
		struct op *op = &p->op[p->n++];

		for (i = c % per_kind, len = 1; i > len; len++)
			i -= len + 1;
		split = i;
		other = (split * 7 + c) % (len + 1);
		op->kind = c / per_kind == 0 ? OP_SEND :
			   c / per_kind == 1 ? OP_WRITE : OP_READ;
		op->len = len;
		op->key = o->seed + c * 2 + server;
		op->signaled = true;
		op->nsge = op->nrsge = 1;
		/* Two pages for each case. */
		i = (p->n * 2 - 1) * SMALL_PAGE;
		op->sge[0] = (struct seg){ i - split, len, 0 };
		op->rsge[0] = (struct seg){ i - other, len, 1 };
		op->roff = i - other;
		if (op->kind == OP_SEND)
			p->sends++;
		if (op->kind == OP_READ) {
			op->sge[0].off = i - other;
			op->roff = i - split;
		}
	}
	for (i = 0; i < REGIONS; i++)
		p->used[0][i] = p->used[1][i] = p->n * 2 * SMALL_PAGE;
	plan_close(p);
	return p->n;
}
