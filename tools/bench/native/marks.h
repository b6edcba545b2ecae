/* SPDX-License-Identifier: GPL-2.0 */
/* What programs of a guest tell the plugin that counts its instructions. */
#ifndef RSIW_MARKS_H
#define RSIW_MARKS_H

#define MARK_BASE 0x72737700		/* "rsw" */
#define MARK_START 1			/* a span begins */
#define MARK_STOP 2			/* and ends */
#define MARK_EMPTY 3			/* a poll found no completion */
#define MARK_FOUND 4			/* a poll found some */

/* nopl BASE + which(%rax): does nothing, wherever it runs. A constant, please. */
static inline __attribute__((always_inline)) void set_mark(const unsigned int which)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0"
			 : : "i" (MARK_BASE | which) : "memory");
}

#endif
