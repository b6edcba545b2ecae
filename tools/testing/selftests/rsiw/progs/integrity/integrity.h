/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of integrity share: plans, rounds, notification. */
#ifndef INTEGRITY_H
#define INTEGRITY_H

#include "ep.h"

#define MAX_SGE 6
#define MAX_OPS 48
#define INLINE_MAX 80
#define REGION (4u << 20)	/* bytes of each memory region */
#define SMALL_PAGE 4096u

enum op_kind {
	OP_SEND, OP_SEND_SE, OP_SEND_INV, OP_WRITE, OP_READ, OP_READBACK,
	OP_KINDS
};

/* What a side's memory is for; one array of REGION bytes each. */
enum region {
	R_SRC,		/* source of Sends and Writes */
	R_RECV,		/* receive buffers */
	R_TARGET,	/* the peer writes here, and reads it back */
	R_READ,		/* the peer reads here */
	R_SINK,		/* sink of our own Reads */
	REGIONS
};

struct seg {
	uint32_t off, len;
	uint8_t mr;	/* which of the two registrations gives the key */
};

struct op {
	enum op_kind kind;
	bool signaled, inlined, fence;
	uint32_t len;
	/* At the requester: source, or the sink of a Read. */
	uint8_t nsge;
	struct seg sge[MAX_SGE];
	/* At the responder: receive buffer (may be longer than the message). */
	uint8_t nrsge;
	struct seg rsge[MAX_SGE];
	uint32_t roff;		/* in R_TARGET or R_READ of the responder */
	uint64_t key;		/* of the pattern that travels */
};

struct plan {
	unsigned int n, sends;
	struct op op[MAX_OPS];
	uint32_t used[2][REGIONS];	/* [0] requester, [1] responder */
};

struct options {
	uint64_t seed;
	unsigned int min_size, max_size;
	unsigned int segments;	/* at most, of a request or receive */
	unsigned int kinds;	/* bit mask of enum op_kind */
	unsigned int depth;	/* of both work queues */
	unsigned int iterations, seconds;
};

struct rng { uint64_t s; };
uint64_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);

/* The pattern byte i of a key; fill and check from byte `from` on. */
void pattern_fill(uint8_t *p, uint32_t from, uint32_t len, uint64_t key);
/* Index of the first byte that differs, or -1. */
int64_t pattern_check(const uint8_t *p, uint32_t from, uint32_t len,
		      uint64_t key);

/* What one side does in a round; the same on both sides. */
void plan_random(struct plan *p, const struct options *o, uint64_t round,
		 bool server);
/*
 * Cases of T-6 from number `first` on, one less than the queue's depth; false
 * when there are no more.
 */
bool plan_split(struct plan *p, const struct options *o, unsigned int first,
		bool server);
const char *op_name(enum op_kind k);

struct stats {
	uint64_t ops[OP_KINDS], bytes, inlined, unsignaled, rounds;
};

/* One side of the connection. */
struct side {
	struct ep ep;
	struct ep_pair *pair;
	const struct options *opt;
	uint8_t *mem[REGIONS], *shadow;
	struct ibv_mr *mr[REGIONS][2];
	struct stats st;
};

enum wait_mode { WAIT_POLL, WAIT_EVENT, WAIT_MODES };

void side_init(struct side *s);
void side_exit(struct side *s);
/* Both plans at once, contents and order verified. */
void run_round(struct side *s, const struct plan *mine,
	       const struct plan *theirs, enum wait_mode mode, uint64_t round);
/* Event notification: next, solicited, one event per arming (T-14). */
void run_notify(struct ep_pair *pair, const struct ep_where *w,
		struct ep_listener *l);

#endif
