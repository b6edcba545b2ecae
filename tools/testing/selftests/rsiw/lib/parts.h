/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs of several parts, each named by the rows it shows. A line for each
 * part goes to stdout, from which the driver of the test makes its subtests:
 *
 *	# part NAME
 *	ok NAME
 *	not ok NAME: what went wrong first
 */
#ifndef RSIW_PARTS_H
#define RSIW_PARTS_H

#include <stdbool.h>

/* Ends the part before and begins another. */
void part(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The part fails if `good` is not true; returns `good`. */
bool expect(bool good, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Ends the last part; the exit status of the program. */
int parts_end(void);

#endif
