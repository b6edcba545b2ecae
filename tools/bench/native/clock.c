// SPDX-License-Identifier: GPL-2.0
/*
 * clock: preloaded into perftest in User Mode Linux, tells the time of day by the
 * processor's time stamp counter, which begins anywhere.
 *
 * RSIW_TSC_KHZ=N	what that counts in a millisecond
 *
 * perftest finds out how fast the counter is by asking for the time for a while.
 * There, each answer takes a system call of some microseconds, more if the machine
 * is busy, and it comes to a wrong rate or to none. With this it finds N, unless it
 * is interrupted just between its look at the counter and its question.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <x86intrin.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static uint64_t khz;
	uint64_t tsc, us;

	(void)tz;
	if (!khz) {
		const char *text = getenv("RSIW_TSC_KHZ");

		khz = text ? strtoull(text, NULL, 10) : 0;
		if (!khz)
			abort();
	}
	tsc = __rdtsc();
	/* The product would not fit. */
	us = tsc / khz * 1000 + tsc % khz * 1000 / khz;
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}
