/* SPDX-License-Identifier: GPL-2.0 */
/* Long options from a table, for small programs. */
#ifndef RSIW_OPT_H
#define RSIW_OPT_H

#include <stdint.h>
#include <stdio.h>

#include "ep.h"

struct opt {
	const char *name;
	const char *takes;	/* what follows it, "" if nothing does, */
	const char *help;	/* and what it is; for opt_describe() */
	const char **str;	/* takes a string, */
	unsigned int *num;	/* a number within [min, max], */
	uint64_t *num64;	/* any number, */
	bool *flag;		/* or nothing */
	unsigned int min, max;
};

/* What to say about the options of an ep_where. */
#define USAGE_WHERE \
"  --addr ADDR          numeric address of the server side (127.0.0.1)\n" \
"  --port PORT          RDMA port\n" \
"  --server-netns NAME  network namespace of the server side\n" \
"  --client-netns NAME  network namespace of the client side\n"

/* Prints what the options of the table are, which ends with an empty entry. */
void opt_describe(FILE *to, const struct opt *table);

/*
 * Reads the command line: the options of `w`, --limit, and those of the table,
 * which ends with an empty entry. Prints `usage` for --help (status 0) and for
 * what it does not understand (status 2).
 */
void opt_parse(int argc, char **argv, const char *usage, struct ep_where *w,
	       unsigned int *limit, const struct opt *table);

#endif
