/* SPDX-License-Identifier: GPL-2.0 */
/* The mapped queues of this process, and what to write into them. */
#ifndef RSIW_SCRIBBLE_RING_H
#define RSIW_SCRIBBLE_RING_H

#include <stddef.h>
#include <stdint.h>

/* Layouts of include/uapi/rdma/siw-abi.h, as the driver has to take them. */
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
	struct sge sge[6];
};

struct rqe {
	uint64_t id;
	uint16_t flags;
	uint8_t num_sge, opcode;
	uint32_t unused;
	struct sge sge[6];
};

struct cqe {
	uint64_t id;
	uint8_t flags, opcode;
	uint16_t status;
	uint32_t bytes;
	uint64_t inval_stag, qp_id;
};

enum { VALID = 1, INLINE = 2, SIGNALLED = 4, SOLICITED = 8, FENCE = 16 };
enum { WRITE_ = 0, READ_ = 1, SEND_ = 3, SEND_INV_ = 5 };

enum kind { SQ, RQ, CQ, SRQ };

struct ring {
	enum kind kind;
	uint8_t *at;
	size_t len;			/* bytes, whole pages */
	uint32_t entries;
};

/* What forged entries name: of everything something right, the rest wrong. */
struct pool {
	uint32_t key[8];
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
/* One act of vandalism. */
void scribble(const struct ring *r, const struct pool *p, uint64_t *state);
/*
 * Another value for a field of an entry, which may be right as well: what counts
 * is that it changes while the kernel looks.
 */
void swap_right(const struct ring *r, const struct pool *p, uint64_t *state);
/* A whole entry of the send queue, nearly right or not at all. */
void forge_sqe(struct sqe *e, const struct pool *p, uint64_t *state);
/*
 * A doorbell of a QP, given by its handle: without requests, or with one that the
 * kernel has to ignore.
 */
void ring_bell(int fd, uint32_t qp, const struct pool *p, uint64_t *state);

#endif
