// SPDX-License-Identifier: GPL-2.0
/* Long options from a table, see opt.h. */
#include "opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bad(const char *usage, const char *what, const char *arg)
{
	fprintf(stderr, "%s: %s\n%s", what, arg, usage);
	exit(2);
}

static const struct opt *find(const struct opt *t, const char *name)
{
	for (; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

void opt_describe(FILE *to, const struct opt *table)
{
	const struct opt *t;
	char head[64];

	for (t = table; t->name; t++) {
		snprintf(head, sizeof(head), "%s %s", t->name, t->takes);
		fprintf(to, "  --%-18s %s\n", head, t->help);
	}
}

void opt_parse(int argc, char **argv, const char *usage, struct ep_where *w,
	       unsigned int *limit, const struct opt *table)
{
	const struct opt all[] = {
		{ "addr", .str = &w->addr },
		{ "port", .num = &w->port, .min = 1, .max = 65534 },
		{ "server-netns", .str = &w->server_netns },
		{ "client-netns", .str = &w->client_netns },
		{ "limit", .num = limit, .min = 1, .max = 1 << 20 },
		{ }
	};
	const struct opt *t;
	unsigned long long v;
	char *end;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			exit(0);
		}
		t = NULL;
		if (!strncmp(argv[i], "--", 2)) {
			t = find(all, argv[i] + 2);
			t = t ? t : find(table, argv[i] + 2);
		}
		if (!t)
			bad(usage, "unknown argument", argv[i]);
		if (t->flag) {
			*t->flag = true;
			continue;
		}
		if (++i == argc)
			bad(usage, "value missing", argv[i - 1]);
		if (t->str) {
			*t->str = argv[i];
			continue;
		}
		v = strtoull(argv[i], &end, 0);
		if (end == argv[i] || *end ||
		    (t->num && (v < t->min || v > t->max)))
			bad(usage, "bad number", argv[i]);
		if (t->num)
			*t->num = v;
		else
			*t->num64 = v;
	}
}
