// SPDX-License-Identifier: GPL-2.0
/*
 * owner: connections and the processes they belong to: nobody connects the
 * queue pair of another process, and a process that ends while it connects to
 * a peer that does not answer is gone at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "both.h"
#include "parts.h"
#include "rsiw_opt.h"

static const char usage[] =
"usage: owner [options]\n"
"Connections and the processes they belong to.\n"
USAGE_WHERE
"  --limit SECONDS      watchdog (60)\n";

static struct ep_where w = { .addr = "127.0.0.1", .port = 18820 };

/* Starts to connect; 0 or an error number. `qp_num` 0: a QP of its own. */
static int begin(uint16_t port, uint32_t qp_num)
{
	static const struct ep_attr attr = { .send_wr = 4, .recv_wr = 4 };
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = qp_num };
	struct rdma_cm_id *id;
	struct ep e;

	CHECK(ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, w.addr, port);
	if (!qp_num)
		ep_setup(&e, id, &attr);
	return rdma_connect(id, qp_num ? &param : &e.param) ? errno : 0;
}

static void foreign(void)
{
	struct ep_listener l;
	int status, to[2];
	uint32_t num = 0;
	pid_t child;

	part("V-PRIV-2 rdma_connect with the number of another's queue pair");
	/* Before anything of verbs is there: a fork would share it. */
	CHECK_SYS(pipe(to));
	fflush(NULL);
	child = fork();
	CHECK(child >= 0, "fork: %m");
	if (!child) {
		CHECK(read(to[0], &num, sizeof(num)) == sizeof(num), "pipe");
		_exit(begin(w.port, num));
	}
	ep_listen(&l, w.addr, w.port, 4);
	struct ibv_pd *pd = ibv_alloc_pd(l.id->verbs);
	struct ibv_cq *cq = ibv_create_cq(l.id->verbs, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &ia);

	CHECK(qp, "create QP: %m");
	num = qp->qp_num;
	CHECK(write(to[1], &num, sizeof(num)) == sizeof(num), "pipe: %m");
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == EINVAL, "status %#x",
	       status);
	expect(wait_state(qp, IBV_QPS_INIT, 0) == IBV_QPS_INIT, "connected");
	part("V-PRIV-2 its owner may connect it");
	expect(!begin(w.port, num), "%s", strerror(errno));
	CHECK_SYS(ibv_destroy_qp(qp));
	CHECK_SYS(ibv_destroy_cq(cq));
	CHECK_SYS(ibv_dealloc_pd(pd));
	ep_unlisten(&l);
}

/* A process that ends by itself, or is killed, once it waits for an answer. */
static void silent(const char *name, bool killed)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(w.port + 1) };
	int s = socket(AF_INET, SOCK_STREAM, 0), c, one = 1, status;
	uint64_t start;
	pid_t child;

	part("%s", name);
	CHECK(inet_pton(AF_INET, w.addr, &sin.sin_addr) == 1, "address");
	CHECK_SYS(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK_SYS(bind(s, (struct sockaddr *)&sin, sizeof(sin)));
	CHECK_SYS(listen(s, 4));
	fflush(NULL);
	child = fork();
	CHECK(child >= 0, "fork: %m");
	if (!child) {
		if (begin(w.port + 1, 0))
			_exit(1);
		sleep(killed ? 100 : 1);
		_exit(0);
	}
	c = accept(s, NULL, NULL);
	CHECK(c >= 0, "accept: %m");
	start = ep_now_ns();
	if (killed)
		kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	expect(killed || (WIFEXITED(status) && !WEXITSTATUS(status)),
	       "status %#x", status);
	expect(ep_now_ns() - start < 4000000000ull, "takes %lu ms",
	       (ep_now_ns() - start) / 1000000);
	close(c);
	close(s);
}

int main(int argc, char **argv)
{
	unsigned int seconds = 60;
	const struct opt table[] = {
		{ "limit", .num = &seconds, .min = 1, .max = 100000 },
		{ }
	};

	opt_parse(argc, argv, usage, &w, table);
	ep_watchdog(seconds);
	ep_enter_netns(w.server_netns);
	silent("a process that ends while it connects", false);
	silent("a process that is killed while it connects", true);
	foreign();
	return parts_end();
}
