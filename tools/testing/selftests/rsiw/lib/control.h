/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Controls of failures in the kernel: the files of its own fault injection, or
 * of rsiw_fail, which has those, too (tools/testing/kverbs/fail_main.c).
 */
#ifndef RSIW_CONTROL_H
#define RSIW_CONTROL_H

/* Where the files are; it stays so when the network namespace is another. */
void control_open(const char *dir);

void control_set(const char *name, unsigned int value);
void control_set_text(const char *name, const char *text);
unsigned int control_get(const char *name);
/* After `pass` calls the next `times` fail, or wait. */
void control_arm(unsigned int pass, unsigned int times);

#endif
