// SPDX-License-Identifier: GPL-2.0
/* What the programs of the tests have in common, see prog.h. */
#define _GNU_SOURCE
#include "prog.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct ep_where where = { .addr = "127.0.0.1" };
struct ep_listener listener;
struct ep_pair pair;
unsigned int time_limit;

/* ---- parts ---------------------------------------------------------------- */

static char name[128], wrong[256];
static bool failed;

static void finish(void)
{
	if (name[0] && !wrong[0])
		printf("ok %s\n", name);
	else if (wrong[0])
		printf("not ok %s: %s\n", name[0] ? name : prog.name, wrong);
	fflush(stdout);
	failed |= wrong[0] != 0;
	name[0] = 0;
	wrong[0] = 0;
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

void completes(struct ibv_cq *cq, enum ibv_wc_status want)
{
	struct ibv_wc wc;

	if (expect(ep_poll(cq, &wc, EP_EVENT_MS), "no completion"))
		expect(wc.status == want, "%s instead of %s",
		       ibv_wc_status_str(wc.status), ibv_wc_status_str(want));
}

/* ---- cases ---------------------------------------------------------------- */

static const char *only;
static bool list, found;

bool prog_chosen(const char *what)
{
	if (list)
		puts(what);
	if (list || (only && fnmatch(only, what, 0)))
		return false;
	found = true;
	return true;
}

/* ---- processes ------------------------------------------------------------ */

pid_t new_process(void)
{
	pid_t pid;

	/* Or both would print what is still to be printed. */
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0, "fork: %m");
	if (!pid)
		alarm(time_limit);
	return pid;
}

int in_child(int (*f)(void))
{
	pid_t child = new_process();
	int status;

	if (!child)
		_exit(f());
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	return status;
}

static char *usage_of(const struct opt *table)
{
	char *usage;
	size_t len;
	FILE *to = open_memstream(&usage, &len);

	CHECK(to, "usage: %m");
	fprintf(to, "usage: %s [options]\n%s" USAGE_WHERE, prog.name, prog.text);
	opt_describe(to, table);
	fprintf(to, "  --limit SECONDS      watchdog (%u)\n", time_limit);
	fclose(to);
	return usage;
}

static void parse(int argc, char **argv)
{
	static const struct opt cases[] = {
		{ "only", "PATTERN", "cases with such names", .str = &only },
		{ "list", "", "names of the cases", .flag = &list },
	};
	struct opt table[16] = { };
	const struct opt *own;
	unsigned int n = 0;
	char *usage;

	time_limit = prog.limit;
	where.port = prog.port;
	for (own = prog.table; own && own->name; own++) {
		CHECK(n < COUNT(table) - COUNT(cases) - 1, "too many options");
		table[n++] = *own;
	}
	if (prog.cases)
		memcpy(table + n, cases, sizeof(cases));
	usage = usage_of(table);
	opt_parse(argc, argv, usage, &where, &time_limit, table);
	free(usage);
}

void start_listening(void)
{
	ep_listen(&listener, where.addr, where.port,
		  prog.backlog ? prog.backlog : 8);
}

int main(int argc, char **argv)
{
	int status = 0;

	parse(argc, argv);
	if (list) {
		prog.run();
		return 0;
	}
	if (prog.kind == PROG_PAIR)
		ep_fork(&pair, &where, true);
	ep_watchdog(time_limit);
	if (prog.kind == PROG_HERE || prog.kind == PROG_LISTENS)
		ep_enter_netns(where.server_netns);
	if (prog.kind == PROG_LISTENS || pair.server)
		start_listening();
	if (prog.kind == PROG_LISTENS)
		CHECK(listener.id->verbs, "%s is the address of no device",
		      where.addr);
	if (prog.kind == PROG_PAIR)
		ep_sync(&pair);
	prog.run();
	finish();
	if (prog.cases && !found) {
		fprintf(stderr, "no case '%s'\n", only);
		return 2;
	}
	if (prog.kind == PROG_LISTENS ||
	    (prog.kind == PROG_PAIR && pair.server))
		ep_unlisten(&listener);
	if (prog.kind == PROG_PAIR && pair.server)
		status = ep_join(&pair);
	return status ? status : failed;
}
