/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the program have in common: two ends, and what they say to each other. */
#ifndef RSIW_BY_NUMBER_H
#define RSIW_BY_NUMBER_H

#include "numbers.h"
#include "prog.h"

/* Longer than a step takes, shorter than anything that is waited for. */
#define A_WHILE_MS 300

/* How often; whether the library is the stock one. */
extern unsigned int rounds, stock;

/* Both ends and their numbers, and a buffer and a region of each. */
extern struct both b;
extern struct number a, p;
extern struct ibv_mr *amr, *pmr;
extern char *abuf, *pbuf;

/* Makes both ends, in INIT, and ends them. */
void make(void);
void unmake(void);
/* Both take their steps. */
void meet(const struct number_attr *how);
/* One message each way, and a Write and a Read. */
void talk(void);
/* Takes the steps to RESET and INIT. */
void reset(struct ep *e);

/* A request and a receive, of 64 octets at offsets 0 and 2048. */
void post(struct ep *e, enum ibv_wr_opcode op);
void receive(struct ep *e);
/* No completion comes for so long. */
bool nothing(struct ibv_cq *cq, int ms);

/* What cannot be. */
void refused(void);
/* A queue pair that has no peer yet is flushed, and reset. */
void flushed_early(void);
/* The same numbers meet again and again; what was posted is gone. */
void resets(void);

#endif
