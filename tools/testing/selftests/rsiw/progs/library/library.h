/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the program have in common. */
#ifndef RSIW_LIBRARY_H
#define RSIW_LIBRARY_H

#include "both.h"
#include "prog.h"

#define LEN 65536

/* A connection, and memory of which each end has a region. */
extern struct both b;
extern char *mem;
extern struct ibv_mr *here, *there;

#define STANDARD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | \
		      IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV)

/* Connects, with the default sizes or others; the peer's region has these rights. */
void begin_ends(const struct ep_attr *active, const struct ep_attr *passive, int rights);
void begin_with(const struct ep_attr *attr, int rights);
void begin(int rights);
void end(void);

/* The next completion is a success. */
struct ibv_wc good(struct ibv_cq *cq, enum ibv_wc_opcode opcode);
/* A request, which is refused or not. */
int post(struct ibv_send_wr *wr);

/* Ends what begin() began; the regions go first: they belong to the ends' domains. */
void forget(void);

/* Other depths, with rings of their own and without. */
void own_depths(void);
void stock_depths(void);
/* Other depths with little memory and few mappings left, in a process without CAP_IPC_LOCK. */
void scarce_depths(void);
/* Only with rings of their own. */
void own_rings(void);
/* Ends this process with windows that are bound. */
void abandon(void);
/* Only without. */
void stock_rings(void);

#endif
