/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failures inside of the kernel, one after the other. A step is done again and
 * again: the first time the first thing in it fails that can be made to, then
 * the second, until it comes to its end before that.
 */
#ifndef RSIW_FAULTS_H
#define RSIW_FAULTS_H

#include "both.h"
#include "prog.h"

struct step {
	const char *name;
	/* What is needed first, without failures. */
	void (*prepare)(void);
	/* 0, or an error number with nothing left behind. */
	int (*run)(void);
	/* Takes back what a successful run made, without failures. */
	void (*undo)(void);
	/* It has to succeed whatever fails inside: it gives things back. */
	bool succeeds;
};

extern struct ibv_context *ctx;

/* To the address of `w`; port 0 is any. */
void bind_id(struct rdma_cm_id *id, uint16_t port);

/* Goes through the failures of the step. */
void sweep(const struct step *s);

/* What was made to fail last, for messages. */
const char *last_failure(void);

/* Verbs that make and destroy objects. */
void sweep_objects(void);
/* Connections: listening, connecting, data, ends. */
void sweep_connections(void);

#endif
