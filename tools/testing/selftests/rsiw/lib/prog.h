/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of the tests have in common: main(), options, the processes
 * and namespaces they run in, the parts they consist of. A program says what it
 * is by a `struct prog`, and all else in its run().
 *
 * The exit status is 0 if all is well, 1 for a failure, 2 for options that are
 * not understood, 3 when the time is over. A line for each part goes to stdout,
 * from which the driver of the tests (rsiwtest/context.py) makes subtests:
 *
 *	# part NAME
 *	ok NAME
 *	not ok NAME: what went wrong first
 *
 * kselftest_harness.h is not used: it names tests by C identifiers, which the
 * rows of the requirement matrix are not, and runs each in a process of its own,
 * where the parts here follow each other on one connection.
 */
#ifndef RSIW_PROG_H
#define RSIW_PROG_H

#include <stdbool.h>

#include "ep.h"
#include "opt.h"

/* What main() sets up before run(), and takes down afterwards. */
enum prog_kind {
	PROG_FREE,	/* nothing: it forks and enters namespaces by itself */
	PROG_HERE,	/* this process is in the server's namespace */
	PROG_LISTENS,	/* likewise, and `listener` listens on a device */
	PROG_PAIR,	/* run() runs on both sides of `pair`; the server listens */
};

struct prog {
	const char *name;
	const char *text;		/* what it does, for --help: lines */
	const struct opt *table;	/* its own options; NULL: none */
	enum prog_kind kind;
	bool cases;			/* it asks prog_chosen() */
	unsigned int port;		/* default of --port */
	unsigned int limit;		/* default of --limit, in seconds */
	unsigned int backlog;		/* of the listener (8) */
	void (*run)(void);
};

/* The program's own. */
extern const struct prog prog;

/* From the command line: where, and the watchdog's seconds. */
extern struct ep_where where;
extern unsigned int time_limit;
/* As the kind of the program says. */
extern struct ep_listener listener;
extern struct ep_pair pair;

/* Has `listener` listen at `where`. */
void start_listening(void);

/*
 * Whether the case of that name is to be run: it matches the pattern of --only,
 * and this is not --list, by which it is printed.
 */
bool prog_chosen(const char *name);

/* Ends the part before and begins another. */
void part(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The part fails if `good` is not true; returns `good`. */
bool expect(bool good, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The part fails if there is no completion, or one with another status. */
void completes(struct ibv_cq *cq, enum ibv_wc_status want);

/* As fork(), which does not fail; the child has a watchdog of its own. */
pid_t new_process(void);
/* Runs f() in a process of its own; its wait status. */
int in_child(int (*f)(void));

#endif
