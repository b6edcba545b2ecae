/* SPDX-License-Identifier: GPL-2.0 */
/* The mapped queues of this process, and what to write into them. */
#ifndef RSIW_SCRIBBLE_RING_H
#define RSIW_SCRIBBLE_RING_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of siw-abi.h and rsiw-abi.h: what entries of both kinds of ring begin with. */
struct sge {
	uint64_t laddr;
	uint32_t length, lkey;
};

struct sqe {
	uint64_t id;
	uint16_t flags;
	uint8_t num_sge, opcode;
	uint32_t rkey;
	uint64_t raddr;
};

struct rqe {
	uint64_t id;
	uint16_t flags;
	uint8_t num_sge, opcode;
	uint32_t unused;
};

struct cqe {
	uint64_t id;
	uint8_t flags, opcode;
	uint16_t status;
	uint32_t bytes;
	uint64_t inval_stag, qp_id;
};

/* The rest, and how many entries there are, which gives each kind its number of pages. */
struct form {
	bool own;
	unsigned int sqe, rqe, cqe;		/* octets of an entry */
	unsigned int sqe_sge, rqe_sge;		/* where its elements are */
	unsigned int max_sge;
	unsigned int sq_depth, rq_depth, cq_depth, srq_depth;
	unsigned int sq_pages, rq_pages, cq_pages, srq_pages;
};

extern const struct form *form;

#define MAX_ENTRY 320

enum { VALID = 1, INLINE = 2, SIGNALLED = 4, SOLICITED = 8, FENCE = 16 };
enum {
	WRITE_ = 0, READ_ = 1, SEND_ = 3, SEND_INV_ = 5,
	/* Of own rings. */
	FETCH_ADD_ = 6, COMP_SWAP_ = 7, INVALIDATE_ = 10, BIND_ = 12, WRITE_IMM_ = 13,
};

/* The last one is a page that says whether the kernel looks at a queue. */
enum kind { SQ, RQ, CQ, SRQ, POLLED };

struct ring {
	enum kind kind;
	uint8_t *at;
	size_t len;			/* bytes, whole pages */
	uint32_t entries;
};

/* What forged entries name: of everything something right, the rest wrong. */
struct pool {
	uint32_t key[10];		/* the last two are windows', if there are any */
	uint64_t addr[12];
};

#define MAX_RINGS 16

/* Of a thread's own. */
uint64_t rnd(uint64_t *state);

/* Mappings of the device in this process that are not in `known` yet. */
unsigned int new_mappings(struct ring *found, const struct ring *known,
			  unsigned int n);
/* The bytes of an entry. */
size_t entry_size(enum kind kind);
struct sge *elements(enum kind kind, void *entry);
/* One act of vandalism. */
void scribble(const struct ring *r, const struct pool *p, uint64_t *state);
/*
 * Another value for a field of an entry, which may be right as well: what counts
 * is that it changes while the kernel looks.
 */
void swap_right(const struct ring *r, const struct pool *p, uint64_t *state);
/* A whole entry of the send queue, nearly right or not at all. */
void forge_sqe(void *entry, const struct pool *p, uint64_t *state);
/*
 * A doorbell of a QP, given by its handle: without requests, or with one that the
 * kernel has to ignore.
 */
void ring_bell(struct ibv_context *ctx, uint32_t qp, const struct pool *p, uint64_t *state);

#endif
