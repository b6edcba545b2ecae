// SPDX-License-Identifier: GPL-2.0
/* Connected endpoints for small verbs programs, see ep.h. */
#define _GNU_SOURCE
#include "ep.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char phase[128] = "start";
static const char *role = "";

void ep_die(const char *file, int line, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "FAIL %s%s:%d (%s): ", role, file, line, phase);
	errno = err;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	/* No exit handlers: the rings may be in any state. */
	_exit(1);
}

void ep_phase(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(phase, sizeof(phase), fmt, ap);
	va_end(ap);
}

static void on_alarm(int sig)
{
	static const char msg[] = "FAIL time limit in phase: ";

	(void)sig;
	if (write(2, role, strlen(role)) < 0 ||
	    write(2, msg, sizeof(msg) - 1) < 0 ||
	    write(2, phase, strnlen(phase, sizeof(phase))) < 0 ||
	    write(2, "\n", 1) < 0)
		_exit(3);
	_exit(3);
}

void ep_watchdog(unsigned int seconds)
{
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	alarm(seconds);
}

uint64_t ep_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

struct rdma_cm_event *ep_event(struct rdma_event_channel *ec, int ms)
{
	struct pollfd p = { .fd = ec->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) <= 0)
		return NULL;
	CHECK_SYS(rdma_get_cm_event(ec, &ev));
	return ev;
}

struct rdma_cm_id *ep_expect(struct rdma_event_channel *ec,
			     enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = ep_event(ec, EP_EVENT_MS);
	struct rdma_cm_id *id;

	CHECK(ev, "no event in %d ms, waited for %s", EP_EVENT_MS,
	      rdma_event_str(type));
	CHECK(ev->event == type, "event %s status %d instead of %s",
	      rdma_event_str(ev->event), ev->status, rdma_event_str(type));
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

static void to_sockaddr(const char *addr, uint16_t port,
			struct sockaddr_storage *ss)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *ai;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	CHECK(!getaddrinfo(addr, service, &hints, &ai), "bad address %s", addr);
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
}

void ep_listen(struct ep_listener *l, const char *addr, uint16_t port,
	       int backlog)
{
	struct sockaddr_storage ss = { 0 };

	to_sockaddr(addr, port, &ss);
	l->ec = rdma_create_event_channel();
	CHECK(l->ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(l->ec, &l->id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(l->id, (struct sockaddr *)&ss),
	      "bind to %s port %u: %m", addr, port);
	CHECK(!rdma_listen(l->id, backlog), "listen on %s port %u: %m", addr,
	      port);
	l->port = ntohs(rdma_get_src_port(l->id));
}

void ep_unlisten(struct ep_listener *l)
{
	CHECK_SYS(rdma_destroy_id(l->id));
	rdma_destroy_event_channel(l->ec);
}

void ep_resolve(struct rdma_event_channel *ec, struct rdma_cm_id *id,
		const char *addr, uint16_t port)
{
	struct sockaddr_storage ss = { 0 };

	to_sockaddr(addr, port, &ss);
	/* Also how long the core sleeps when it misses a neighbour's answer. */
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&ss, 5000),
	      "resolve %s: %m", addr);
	ep_expect(ec, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_SYS(rdma_resolve_route(id, 5000));
	ep_expect(ec, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void free_queues(struct ep *e)
{
	CHECK_SYS(ibv_destroy_cq(e->scq));
	CHECK_SYS(ibv_destroy_cq(e->rcq));
	if (e->cc)
		CHECK_SYS(ibv_destroy_comp_channel(e->cc));
	if (e->own_pd)
		CHECK_SYS(ibv_dealloc_pd(e->pd));
}

static struct ibv_cq *new_cq(struct ep *e, struct rdma_cm_id *id, const struct ep_attr *a,
			     uint32_t requests)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = a->cqe ? a->cqe : requests + 1,
		.channel = e->cc,
		.wc_flags = a->wc_flags,
	};
	struct ibv_cq_ex *cq;

	if (!a->wc_flags)
		return ibv_create_cq(id->verbs, ca.cqe, NULL, e->cc, 0);
	cq = ibv_create_cq_ex(id->verbs, &ca);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

bool ep_try_setup(struct ep *e, struct rdma_cm_id *id, const struct ep_attr *a)
{
	struct ibv_qp_init_attr_ex qa = {
		.cap = { .max_send_wr = a->send_wr, .max_recv_wr = a->recv_wr,
			 .max_send_sge = a->send_sge ? a->send_sge : 1,
			 .max_recv_sge = a->recv_sge ? a->recv_sge : 1,
			 .max_inline_data = a->inline_data },
		.qp_type = IBV_QPT_RC,
		.srq = a->srq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	e->id = id;
	e->own_pd = !a->pd;
	e->pd = a->pd ? a->pd : ibv_alloc_pd(id->verbs);
	CHECK(e->pd, "alloc PD: %m");
	e->cc = NULL;
	if (a->channel) {
		e->cc = ibv_create_comp_channel(id->verbs);
		CHECK(e->cc, "completion channel: %m");
	}
	e->scq = new_cq(e, id, a, a->send_wr);
	CHECK(e->scq, "create send CQ: %m");
	e->rcq = new_cq(e, id, a, a->recv_wr);
	CHECK(e->rcq, "create receive CQ: %m");
	qa.pd = e->pd;
	qa.send_cq = e->scq;
	qa.recv_cq = e->rcq;
	if (a->send_ops) {
		qa.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		qa.send_ops_flags = a->send_ops;
	}
	if (rdma_create_qp_ex(id, &qa)) {
		int err = errno;

		free_queues(e);
		errno = err;
		return false;
	}
	e->cap = qa.cap;
	e->param = (struct rdma_conn_param){
		.responder_resources = a->ird ? a->ird : 8,
		.initiator_depth = a->ord ? a->ord : 8,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	return true;
}

void ep_setup(struct ep *e, struct rdma_cm_id *id, const struct ep_attr *a)
{
	CHECK(ep_try_setup(e, id, a), "create QP: %m");
}

void ep_connect(struct ep *e, const char *addr, uint16_t port,
		const struct ep_attr *a)
{
	struct rdma_cm_id *id;

	e->ec = rdma_create_event_channel();
	CHECK(e->ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(e->ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(e->ec, id, addr, port);
	ep_setup(e, id, a);
	CHECK_SYS(rdma_connect(id, &e->param));
	ep_expect(e->ec, RDMA_CM_EVENT_ESTABLISHED);
}

void ep_accept(struct ep *e, struct ep_listener *l, const struct ep_attr *a)
{
	struct rdma_cm_id *id;

	id = ep_expect(l->ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	e->ec = rdma_create_event_channel();
	CHECK(e->ec, "event channel: %m");
	CHECK_SYS(rdma_migrate_id(id, e->ec));
	ep_setup(e, id, a);
	CHECK_SYS(rdma_accept(id, &e->param));
	ep_expect(e->ec, RDMA_CM_EVENT_ESTABLISHED);
}

void ep_open(struct ep *e, const struct ep_pair *p, struct ep_listener *l,
	     const struct ep_where *w, const struct ep_attr *a)
{
	if (p->server)
		ep_accept(e, l, a);
	else
		ep_connect(e, w->addr, w->port, a);
}

void ep_destroy(struct ep *e)
{
	if (e->id->qp)
		rdma_destroy_qp(e->id);
	free_queues(e);
	CHECK_SYS(rdma_destroy_id(e->id));
	if (e->ec)
		rdma_destroy_event_channel(e->ec);
}

void ep_close(struct ep *e)
{
	/* Fails when the peer was first; the event comes either way. */
	rdma_disconnect(e->id);
	ep_expect(e->ec, RDMA_CM_EVENT_DISCONNECTED);
	ep_destroy(e);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *scq, struct ibv_cq *rcq,
			      uint32_t sends, uint32_t receives)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
		.cap = { sends, receives, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp, "create QP: %m");
	return qp;
}

struct ibv_qp *ep_qp(struct ibv_pd *pd, struct ibv_cq *scq, struct ibv_cq *rcq,
		     uint32_t depth)
{
	return make_qp(pd, scq, rcq, depth, depth);
}

struct ibv_qp *ep_own_qp(struct ibv_context *ctx, uint32_t depth, int cqe)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, cqe, NULL, NULL, 0);

	CHECK(pd && cq, "PD, CQ: %m");
	return make_qp(pd, cq, cq, depth, 4);
}

void ep_destroy_own_qp(struct ibv_qp *qp)
{
	struct ibv_cq *cq = qp->send_cq;
	struct ibv_pd *pd = qp->pd;

	CHECK_SYS(ibv_destroy_qp(qp));
	CHECK_SYS(ibv_destroy_cq(cq));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

struct ibv_mr *ep_reg(struct ep *e, void *buf, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, buf, len, access);

	CHECK(mr, "register %zu bytes, access %#x: %m", len, access);
	return mr;
}

void *ep_pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	CHECK(p != MAP_FAILED, "map %zu bytes: %m", len);
	return p;
}

bool ep_poll(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
	uint64_t end = ep_now_ns() + ms * 1000000ull;
	int n;

	for (;;) {
		n = ibv_poll_cq(cq, 1, wc);
		CHECK(n >= 0, "poll CQ: %d", n);
		if (n)
			return true;
		if (ep_now_ns() > end)
			return false;
		sched_yield();
	}
}

struct ibv_wc ep_done(struct ibv_cq *cq, enum ibv_wc_status want)
{
	struct ibv_wc wc;

	CHECK(ep_poll(cq, &wc, EP_EVENT_MS), "no completion");
	CHECK(wc.status == want, "request %lu: %s instead of %s", wc.wr_id,
	      ibv_wc_status_str(wc.status), ibv_wc_status_str(want));
	return wc;
}

int ep_post_recv(struct ep *e, uint64_t id, void *buf, uint32_t len,
		 uint32_t lkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = len,
			       .lkey = lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(e->id->qp, &wr, &bad);
}

int ep_post_send(struct ep *e, uint64_t id, enum ibv_wr_opcode op, void *buf,
		 uint32_t len, uint32_t lkey, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = len,
			       .lkey = lkey };
	struct ibv_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(e->id->qp, &wr, &bad);
}

/* ---- two processes ---------------------------------------------------- */

void ep_enter_netns(const char *name)
{
	char path[256];
	int fd;

	if (!name)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "network namespace %s: %m", name);
	CHECK_SYS(setns(fd, CLONE_NEWNET));
	close(fd);
}

void ep_fork(struct ep_pair *p, const struct ep_where *w, bool parent_serves)
{
	int sv[2];

	CHECK_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	fflush(NULL);
	p->child = fork();
	CHECK(p->child >= 0, "fork: %m");
	p->server = parent_serves == (p->child > 0);
	p->ctl = sv[p->child ? 0 : 1];
	close(sv[p->child ? 1 : 0]);
	role = p->server ? "server " : "client ";
	ep_enter_netns(p->server ? w->server_netns : w->client_netns);
}

int ep_join(struct ep_pair *p)
{
	int status;

	CHECK(waitpid(p->child, &status, 0) == p->child, "wait: %m");
	close(p->ctl);
	return WIFEXITED(status) ? WEXITSTATUS(status) :
				   128 + WTERMSIG(status);
}

void ep_ctl_tcp(struct ep_pair *p, const struct ep_where *w, bool server)
{
	struct sockaddr_storage ss = { 0 };
	int s, one = 1, tries;

	p->server = server;
	p->child = 0;
	role = server ? "server " : "client ";
	to_sockaddr(w->addr, w->port + 1, &ss);
	s = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(s >= 0, "socket: %m");
	if (server) {
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		CHECK_SYS(bind(s, (struct sockaddr *)&ss, sizeof(ss)));
		CHECK_SYS(listen(s, 1));
		p->ctl = accept(s, NULL, NULL);
		CHECK(p->ctl >= 0, "accept: %m");
		close(s);
		return;
	}
	/* The other host's program may start a little later. */
	for (tries = 0; connect(s, (struct sockaddr *)&ss, sizeof(ss)); tries++) {
		CHECK(tries < 600, "control connection to %s: %m", w->addr);
		usleep(100000);
	}
	p->ctl = s;
}

void ep_exchange(struct ep_pair *p, const void *out, void *in, size_t len)
{
	size_t sent = 0, got = 0;
	ssize_t n;

	while (sent < len || got < len) {
		struct pollfd f = { .fd = p->ctl, .events = POLLIN };

		if (sent < len)
			f.events |= POLLOUT;
		/* It may be busy for as long as the watchdog lets it. */
		CHECK_SYS(poll(&f, 1, -1) < 0);
		if (f.revents & POLLOUT && sent < len) {
			n = send(p->ctl, (const char *)out + sent, len - sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
			CHECK(n > 0 || errno == EAGAIN, "control: %m");
			sent += n > 0 ? n : 0;
		}
		if (f.revents & (POLLIN | POLLHUP) && got < len) {
			n = recv(p->ctl, (char *)in + got, len - got,
				 MSG_DONTWAIT);
			CHECK(n, "the other side is gone");
			CHECK(n > 0 || errno == EAGAIN, "control: %m");
			got += n > 0 ? n : 0;
		}
	}
}

void ep_sync(struct ep_pair *p)
{
	char c = 's', d;

	ep_exchange(p, &c, &d, 1);
}
