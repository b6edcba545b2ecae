// SPDX-License-Identifier: GPL-2.0
/* Programs of several parts, see parts.h. */
#include "parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "ep.h"

static char name[128], wrong[256];
static int failed;

static void finish(void)
{
	if (!name[0])
		return;
	if (wrong[0])
		printf("not ok %s: %s\n", name, wrong);
	else
		printf("ok %s\n", name);
	fflush(stdout);
	failed |= wrong[0] != 0;
	name[0] = wrong[0] = 0;
}

void part(const char *fmt, ...)
{
	va_list ap;

	finish();
	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	ep_phase("%s", name);
	printf("# part %s\n", name);
	fflush(stdout);
}

bool expect(bool good, const char *fmt, ...)
{
	va_list ap;

	if (good || wrong[0])
		return good;
	va_start(ap, fmt);
	vsnprintf(wrong, sizeof(wrong), fmt, ap);
	va_end(ap);
	return good;
}

int parts_end(void)
{
	finish();
	return failed;
}
