// SPDX-License-Identifier: GPL-2.0
/*
 * giveup: clients that give up while their connection is set up, in every way and
 * at every moment, or come too early, and what the server is told of it: the return
 * value of rdma_accept or rdma_reject, and the events behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"
#include "wire.h"

/* Milliseconds for a client's end to arrive at the server. */
#define ARRIVE_MS 700
#define RECVS 4

/* How a client ends. */
enum how { CLOSE, RESET, HALF, KILLED, QP_FIRST };

/* What kind of client it is. */
enum what {
	PLAIN,		/* TCP by hand, revision 1 */
	ENHANCED,	/* TCP by hand, revision 2, peer-to-peer */
	VERBS,
};

/* When it ends: before the server ... */
enum when { FETCHES, CREATES_QP, ANSWERS, HAS_ANSWERED };

static const char *const whats[] = { "revision 1", "peer-to-peer", "verbs" };
static const char *const hows[] = {
	"closes", "resets", "closes half", "is killed", "destroys all"
};
static const char *const whens[] = {
	"before the request is fetched", "before there is a queue pair",
	"before the answer", "behind the answer",
};

static const struct ep_attr attr = { .send_wr = RECVS, .recv_wr = RECVS };

/* What the server was told, in words. */
#define TOLD 256
static char *told;

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *fmt, ...)
{
	size_t len = strlen(told);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(told + len, TOLD - len, fmt, ap);
	va_end(ap);
}

/* ---- clients -------------------------------------------------------------- */

static void end_tcp(int fd, enum how how)
{
	struct linger linger = { .l_onoff = 1 };

	if (how == HALF) {
		CHECK_SYS(shutdown(fd, SHUT_WR));
		return;
	}
	if (how == RESET)
		CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	close(fd);
}

/* Connects when the server listens, and ends when the other side says so. */
static void client(enum what what, enum how how)
{
	struct ep e = { 0 };
	struct rdma_cm_id *id;
	int fd = -1;

	ep_sync(&pair);
	switch (what) {
	case PLAIN:
		fd = wire_connect(where.addr, where.port);
		break;
	case ENHANCED:
		fd = wire_connect_enhanced(where.addr, where.port);
		break;
	case VERBS:
		e.ec = rdma_create_event_channel();
		CHECK_SYS(rdma_create_id(e.ec, &id, NULL, RDMA_PS_TCP));
		ep_resolve(e.ec, id, where.addr, where.port);
		ep_setup(&e, id, &attr);
		CHECK_SYS(rdma_connect(id, &e.param));
		break;
	}
	ep_sync(&pair);
	switch (how) {
	case KILLED:
		raise(SIGKILL);
		break;
	case QP_FIRST:
		ep_destroy(&e);
		break;
	default:
		end_tcp(fd, how);
	}
	/* Until the other side closes. */
	recv(pair.ctl, &fd, 1, MSG_WAITALL);
	_exit(0);
}

/* ---- the server ----------------------------------------------------------- */

/* Has the client end. What the server does next comes behind that, most of the time. */
static void end_it(void)
{
	ep_sync(&pair);
	usleep(ARRIVE_MS * 1000);
}

static const char *error_name(int err)
{
	return err ? strerrorname_np(err) : "0";
}

/* `due` events, and what comes up to a silence. */
static void follow(struct rdma_cm_id *id, unsigned int due)
{
	struct rdma_cm_event *ev;
	unsigned int n;

	for (n = 0; n < due + 8; n++) {
		ev = ep_event(listener.ec, n < due ? EP_EVENT_MS : ARRIVE_MS);
		if (!ev)
			break;
		tell(", %s", rdma_event_str(ev->event) + strlen("RDMA_CM_EVENT_"));
		if (ev->status)
			tell(" with %s", error_name(-ev->status));
		if (ev->id != id || !ev->id->verbs || !ev->id->qp)
			tell(" of something else");
		rdma_ack_cm_event(ev);
	}
}

/* Answers a request, as late as `when` says; `told` is what came of it. */
static void serve(enum when when, bool accepts)
{
	struct pollfd p = { .fd = listener.ec->fd, .events = POLLIN };
	char *buf = ep_pages(4096);
	struct rdma_cm_event *ev;
	struct ep e = { 0 };
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	unsigned int i;
	int failed;

	CHECK(poll(&p, 1, EP_EVENT_MS) == 1, "no request");
	if (when == FETCHES)
		end_it();
	ev = ep_event(listener.ec, 0);
	if (!ev) {
		tell("no request");
		return;
	}
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST, "%s",
	      rdma_event_str(ev->event));
	CHECK(!ev->status && ev->listen_id == listener.id && ev->id->verbs,
	      "an odd request");
	id = ev->id;
	rdma_ack_cm_event(ev);
	if (when == CREATES_QP)
		end_it();
	ep_setup(&e, id, &attr);
	mr = ep_reg(&e, buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < RECVS; i++)
		CHECK_SYS(ep_post_recv(&e, i, buf, 64, mr->lkey));
	if (when == ANSWERS)
		end_it();
	if (accepts) {
		failed = rdma_accept(id, &e.param);
		tell("accept %s", error_name(failed ? errno : 0));
	} else {
		failed = rdma_reject(id, NULL, 0);
		tell("reject %s", error_name(failed ? errno : 0));
	}
	if (when == HAS_ANSWERED)
		end_it();
	follow(id, accepts && !failed ? 2 : 0);
	for (i = 0; i < RECVS && ep_poll(e.rcq, &wc, 0); i++)
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR, "a receive: %s",
		      ibv_wc_status_str(wc.status));
	if (i > 0 && i < RECVS)
		tell(", %u flushed", i);
	else
		tell(", %s flushed", i ? "all" : "none");
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

/* ---- cases ---------------------------------------------------------------- */

static const struct {
	enum what what;
	enum how how;
} clients[] = {
	{ PLAIN, CLOSE }, { PLAIN, RESET }, { PLAIN, HALF },
	{ ENHANCED, CLOSE }, { ENHANCED, RESET }, { ENHANCED, HALF },
	{ VERBS, KILLED }, { VERBS, QP_FIRST },
};

/* A client and its server, in processes of their own; `told` is in `result`. */
static pid_t begin(unsigned int client_no, enum when when, bool accepts, char *result)
{
	pid_t pid = new_process();

	if (pid)
		return pid;
	told = result;
	ep_fork(&pair, &where, true);
	ep_watchdog(time_limit);
	if (!pair.child)
		client(clients[client_no].what, clients[client_no].how);
	start_listening();
	ep_sync(&pair);
	serve(when, accepts);
	ep_unlisten(&listener);
	kill(pair.child, SIGKILL);
	ep_join(&pair);
	_exit(0);
}

/*
 * Whatever a client does, and whenever: an accept succeeds, the connection comes up
 * and ends, and all that was posted is flushed; a reject succeeds, and nothing follows.
 */
static void all_clients(enum when when, bool accepts)
{
	const char *want = accepts ? "accept 0, ESTABLISHED, DISCONNECTED, all flushed" :
				     "reject 0, none flushed";
	char (*results)[TOLD] = mmap(NULL, COUNT(clients) * TOLD, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const unsigned int port = where.port;
	pid_t pids[COUNT(clients)];
	unsigned int i;
	int status;

	CHECK(results != MAP_FAILED, "memory: %m");
	for (i = 0; i < COUNT(clients); i++) {
		where.port = port + i;
		pids[i] = begin(i, when, accepts, results[i]);
	}
	where.port = port;
	for (i = 0; i < COUNT(clients); i++) {
		part("L-CORE-4 %s %s %s, %s", whats[clients[i].what], hows[clients[i].how],
		     whens[when], accepts ? "accepted" : "rejected");
		CHECK(waitpid(pids[i], &status, 0) == pids[i], "wait: %m");
		if (expect(!status, "status %#x", status))
			expect(!strcmp(results[i], want), "%s", results[i]);
	}
	munmap(results, COUNT(clients) * TOLD);
}

/* Of 30 listeners that go with a request. */
#define MOST_FORGOTTEN 5

/*
 * Asks again until there is a connection. Each failure says that nobody listens, or nothing:
 * iw_cm forgets requests that are in its queue when their listener goes, and nobody is told.
 * That takes a request that comes in the moment before, so it is not the rule.
 */
static void ask_until_up(void)
{
	struct rdma_cm_event *ev = NULL;
	unsigned int refused = 0, forgotten = 0;
	struct rdma_cm_id *id;
	bool is_up = false;
	struct ep e;

	while (!is_up) {
		e = (struct ep){ .ec = rdma_create_event_channel() };
		CHECK_SYS(rdma_create_id(e.ec, &id, NULL, RDMA_PS_TCP));
		ep_resolve(e.ec, id, where.addr, where.port);
		ep_setup(&e, id, &attr);
		CHECK_SYS(rdma_connect(id, &e.param));
		ev = ep_event(e.ec, EP_EVENT_MS / 4);
		if (!ev) {
			CHECK(++forgotten <= MOST_FORGOTTEN, "no answer, again");
			ep_destroy(&e);
			continue;
		}
		is_up = ev->event == RDMA_CM_EVENT_ESTABLISHED;
		CHECK(is_up || (ev->event == RDMA_CM_EVENT_REJECTED &&
				(ev->status == -ECONNREFUSED || ev->status == -ECONNRESET)),
		      "%s, status %d", rdma_event_str(ev->event), ev->status);
		rdma_ack_cm_event(ev);
		if (is_up)
			ep_close(&e);
		else
			ep_destroy(&e);
		/* The other side goes on when it has been too early. */
		if (!refused++ && !is_up)
			ep_sync(&pair);
	}
	_exit(refused > 1 ? 0 : 4);
}

/* A client that comes before anybody listens, and meets listeners that go again. */
static void too_early(void)
{
	struct ep e;
	unsigned int i;

	ep_fork(&pair, &where, true);
	ep_watchdog(time_limit);
	if (!pair.child)
		ask_until_up();
	ep_sync(&pair);
	part("L-CORE-4 listeners that go with a request untold, waiting, or fetched");
	for (i = 0; i < 30; i++) {
		start_listening();
		usleep(i * 1000);
		if (i % 3 == 2)
			CHECK_SYS(rdma_destroy_id(ep_expect(listener.ec,
							    RDMA_CM_EVENT_CONNECT_REQUEST)));
		ep_unlisten(&listener);
	}
	part("L-CORE-4 a client that asks until somebody listens");
	start_listening();
	ep_accept(&e, &listener, &attr);
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	ep_destroy(&e);
	ep_unlisten(&listener);
	expect(!ep_join(&pair), "the client fails");
}

static void run(void)
{
	enum when when;

	alarm(0);
	for (when = FETCHES; when <= HAS_ANSWERED; when++) {
		if (!prog_chosen(whens[when]))
			continue;
		all_clients(when, true);
		all_clients(when, false);
	}
	if (prog_chosen("too early"))
		too_early();
}

const struct prog prog = {
	.name = "giveup",
	.text = "Clients that give up, and what their server is told.\n",
	.kind = PROG_FREE,
	.cases = true,
	.port = 18900,
	.limit = 60,
	.run = run,
};
