/* SPDX-License-Identifier: GPL-2.0 */
/* Queue pairs that are connected by number, without the connection manager. */
#ifndef RSIW_NUMBERS_H
#define RSIW_NUMBERS_H

#include "both.h"

/* How a queue pair is called towards others. */
struct number {
	union ibv_gid gid;
	uint8_t index;			/* of the GID */
	uint32_t qpn, psn;
};

/* What the steps to RTR and RTS say beside that. */
struct number_attr {
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, reads;
};

extern const struct number_attr number_defaults;

/* Both ends, in INIT; `w` says where. */
void numbers_make(struct both *b, const struct ep_where *w, const struct ep_attr *active,
		  const struct ep_attr *passive);
/* The number of an end, with the GID that is its address. */
struct number number_of(const struct ep *e);
/* The same for another queue pair of its device. */
struct number number_for(const struct ep *e, const struct ibv_qp *qp);
/* 0 or an error number. */
int number_init(struct ibv_qp *qp);
int number_rtr(struct ibv_qp *qp, const struct number *own, const struct number *peer,
	       const struct number_attr *attr);
int number_rts(struct ibv_qp *qp, const struct number *own, const struct number_attr *attr);
/* Has both ends, which are in INIT, meet. */
void numbers_meet(struct both *b);

#endif
