// SPDX-License-Identifier: GPL-2.0
/*
 * peer_ep: the verbs side of the raw peer's scenarios (tools/testing/peer).
 *
 * Does what the lines on standard input say, one after the other, and answers
 * each with one line, "ok ..." or "err ...". Connections have numbers ("slots")
 * that the lines name; each has an arena of memory, regions and queues.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rsiw_opt.h"

static const char usage[] =
"usage: peer_ep [options]\n"
"Reads commands from standard input, see the source; the raw peer starts it.\n"
USAGE_WHERE
"  --limit SECONDS      watchdog (600)\n";

#define SLOTS 8
#define REGIONS 8
#define QUEUED 16
#define ARENA (1u << 20)
/* Region 0, and where the buffers of receives begin. */
#define BUFFER 4096u
#define BUFFER_LEN 65536u
#define RECEIVES (ARENA / 2)
/* Whatever the raw peer can put into a line. */
#define LINE 8192

struct cm_ev {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_conn_param conn;
	uint8_t data[256];
};

struct slot {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	bool own_pd, connecting;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr[REGIONS], *arena_mr;
	uint8_t *arena;
	struct cm_ev ev[QUEUED];
	unsigned int evs;
	int async[QUEUED];
	unsigned int asyncs;
};

static struct slot slots[SLOTS];
static struct rdma_event_channel *ec;
static struct rdma_cm_id *listener;
static struct ibv_context *verbs;
static struct ep_where where = { .addr = "127.0.0.1", .port = 18700 };
/* Requests that no slot has taken yet. */
static struct rdma_cm_id *waiting[QUEUED];
static struct cm_ev waiting_ev[QUEUED];
static unsigned int waitings;

static char *words[32];
static unsigned int word_count;

static const char *word(unsigned int i)
{
	return i < word_count ? words[i] : "";
}

static uint64_t num(unsigned int i)
{
	return strtoull(word(i), NULL, 0);
}

/* The value of KEY=VALUE among the words. */
static const char *value(const char *key)
{
	size_t n = strlen(key);
	unsigned int i;

	for (i = 2; i < word_count; i++)
		if (!strncmp(words[i], key, n) && words[i][n] == '=')
			return words[i] + n + 1;
	return NULL;
}

static uint64_t option(const char *key, uint64_t other)
{
	const char *v = value(key);

	return v ? strtoull(v, NULL, 0) : other;
}

static bool error(const char *what)
{
	printf("err %s: %s\n", what, strerror(errno));
	return false;
}

static void put_hex(const uint8_t *p, size_t n)
{
	if (!n)
		putchar('-');
	while (n--)
		printf("%02x", *p++);
}

static size_t get_hex(const char *s, uint8_t *out, size_t max)
{
	size_t n = 0;
	unsigned int b;

	while (s && n < max && sscanf(s, "%2x", &b) == 1) {
		out[n++] = b;
		s += 2;
	}
	return n;
}

static uint64_t now_ms(void)
{
	return ep_now_ns() / 1000000;
}

/* ---- events ------------------------------------------------------------ */

/* Takes in one event of the connection manager, if there is one in time. */
static void take_event(int ms)
{
	struct pollfd p = { .fd = ec->fd, .events = POLLIN };
	struct rdma_cm_event *e;
	struct cm_ev v = { 0 };
	unsigned int i;

	if (poll(&p, 1, ms) <= 0 || rdma_get_cm_event(ec, &e))
		return;
	v.type = e->event;
	v.status = e->status;
	v.conn = e->param.conn;
	if (v.conn.private_data)
		memcpy(v.data, v.conn.private_data, v.conn.private_data_len);
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (waitings < QUEUED) {
			waiting[waitings] = e->id;
			waiting_ev[waitings++] = v;
		}
	} else {
		for (i = 0; i < SLOTS; i++)
			if (slots[i].id == e->id && slots[i].evs < QUEUED)
				slots[i].ev[slots[i].evs++] = v;
	}
	rdma_ack_cm_event(e);
}

static void print_event(const struct cm_ev *v)
{
	printf("ok %s %d %u %u ", rdma_event_str(v->type) + 14, v->status,
	       v->conn.responder_resources, v->conn.initiator_depth);
	put_hex(v->data, v->conn.private_data_len);
	putchar('\n');
}

static void take_async(int ms)
{
	struct pollfd p = { .fd = verbs->async_fd, .events = POLLIN };
	struct ibv_async_event e;
	unsigned int i;

	if (poll(&p, 1, ms) <= 0 || ibv_get_async_event(verbs, &e))
		return;
	for (i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		if (s->id && s->id->qp && s->asyncs < QUEUED &&
		    (e.element.qp == s->id->qp || e.element.cq == s->scq ||
		     e.element.cq == s->rcq))
			s->async[s->asyncs++] = e.event_type;
	}
	ibv_ack_async_event(&e);
}

/* ---- connections ------------------------------------------------------- */

/* Waits for the request of the peer's TCP port; forgets those of others. */
static bool take_request(struct slot *s, int ms, uint16_t port)
{
	uint64_t end = now_ms() + ms;
	unsigned int i;

	for (;;) {
		for (i = 0; i < waitings; i++) {
			struct rdma_cm_id *id = waiting[i];

			if (ntohs(rdma_get_dst_port(id)) != port)
				continue;
			s->id = id;
			s->ev[0] = waiting_ev[i];
			waitings--;
			memmove(&waiting[i], &waiting[i + 1],
				(waitings - i) * sizeof(waiting[0]));
			memmove(&waiting_ev[i], &waiting_ev[i + 1],
				(waitings - i) * sizeof(waiting_ev[0]));
			return true;
		}
		if (now_ms() >= end)
			return false;
		take_event(end - now_ms());
	}
}

static struct ibv_mr *reg(struct slot *s, uint64_t at, uint64_t len, int access,
			  uint64_t iova)
{
	return ibv_reg_mr_iova(s->pd, s->arena + at, len, iova, access);
}

static bool post_recv(struct slot *s, uint64_t id, uint64_t at, uint32_t len,
		      uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)(s->arena + at), len, lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge,
					.num_sge = 1 };
	int rv = ibv_post_recv(s->id->qp, &wr, &bad);

	errno = rv;
	return !rv;
}

/* PD, CQs, QP, region 0 and the first receives. */
static bool create(struct slot *s)
{
	uint64_t i, recvs = option("recv", 4), size = option("rsize", 4096);
	struct ibv_qp_init_attr qa = {
		.cap = { .max_send_wr = option("swr", 16),
			 .max_recv_wr = option("rwr", 16), .max_send_sge = 2,
			 .max_recv_sge = 2, .max_inline_data = 64 },
		.qp_type = IBV_QPT_RC,
	};
	const char *pd = value("pd_of");

	if (!s->arena)
		s->arena = ep_pages(ARENA);
	memset(s->arena, option("fill", 0xee), BUFFER + BUFFER_LEN);
	s->own_pd = !pd;
	s->pd = pd ? slots[atoi(pd) % SLOTS].pd : ibv_alloc_pd(s->id->verbs);
	if (!s->pd)
		return error("pd");
	s->scq = ibv_create_cq(s->id->verbs, option("scq", 32), NULL, NULL, 0);
	s->rcq = ibv_create_cq(s->id->verbs, option("rcq", 32), NULL, NULL, 0);
	if (!s->scq || !s->rcq)
		return error("cq");
	qa.send_cq = s->scq;
	qa.recv_cq = s->rcq;
	if (rdma_create_qp(s->id, s->pd, &qa))
		return error("qp");
	s->arena_mr = ibv_reg_mr(s->pd, s->arena, ARENA,
				 IBV_ACCESS_LOCAL_WRITE);
	s->mr[0] = reg(s, BUFFER, BUFFER_LEN, option("rights", 7),
		       option("iova", (uintptr_t)(s->arena + BUFFER)));
	if (!s->arena_mr || !s->mr[0])
		return error("region");
	for (i = 0; i < recvs; i++)
		if (!post_recv(s, i, RECEIVES + i * size, size,
			       s->arena_mr->lkey))
			return error("receive");
	return true;
}

static void conn_param(struct rdma_conn_param *p, uint8_t *data)
{
	size_t n = get_hex(value("pd"), data, 255);

	*p = (struct rdma_conn_param){
		.private_data = data, .private_data_len = n,
		.responder_resources = option("ird", 8),
		.initiator_depth = option("ord", 8),
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

static void print_created(const struct slot *s)
{
	printf("ok %u %u %" PRIu64 " %" PRIu64 "\n", s->id->qp->qp_num,
	       s->mr[0]->rkey, option("iova", (uintptr_t)(s->arena + BUFFER)),
	       (uint64_t)(uintptr_t)s->arena);
}

static void destroy(struct slot *s)
{
	unsigned int i;

	if (!s->id)
		return;
	if (s->id->qp)
		rdma_destroy_qp(s->id);
	for (i = 0; i < REGIONS; i++)
		if (s->mr[i])
			ibv_dereg_mr(s->mr[i]);
	if (s->arena_mr)
		ibv_dereg_mr(s->arena_mr);
	if (s->scq)
		ibv_destroy_cq(s->scq);
	if (s->rcq)
		ibv_destroy_cq(s->rcq);
	if (s->pd && s->own_pd)
		ibv_dealloc_pd(s->pd);
	rdma_destroy_id(s->id);
	*s = (struct slot){ .arena = s->arena };
}

static void destroy_all(void)
{
	int i;

	/* A PD that several use belongs to the first of them. */
	for (i = SLOTS - 1; i >= 0; i--)
		destroy(&slots[i]);
	take_event(0);
	while (waitings)
		rdma_destroy_id(waiting[--waitings]);
}

/* Waits for an event of the connection; the oldest one stays queued. */
static bool wait_event(struct slot *s, int ms)
{
	uint64_t end = now_ms() + ms;

	while (!s->evs && now_ms() < end)
		take_event(end - now_ms());
	return s->evs;
}

static void drop_event(struct slot *s)
{
	memmove(s->ev, s->ev + 1, --s->evs * sizeof(s->ev[0]));
}

/* The next event has to be this one. */
static bool expect(struct slot *s, enum rdma_cm_event_type type)
{
	if (!wait_event(s, EP_EVENT_MS) || s->ev[0].type != type) {
		printf("err no %s\n", rdma_event_str(type));
		return false;
	}
	drop_event(s);
	return true;
}

static void resolve(struct slot *s, const char *addr, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(port) };

	inet_pton(AF_INET, addr, &sin.sin_addr);
	if (rdma_create_id(ec, &s->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&sin, 5000)) {
		error("resolve");
		return;
	}
	if (!expect(s, RDMA_CM_EVENT_ADDR_RESOLVED))
		return;
	if (rdma_resolve_route(s->id, 5000))
		error("route");
	else if (expect(s, RDMA_CM_EVENT_ROUTE_RESOLVED))
		puts("ok");
}

/* ---- data -------------------------------------------------------------- */

static void poll_wc(struct ibv_cq *cq, uint64_t ms)
{
	uint64_t end = now_ms() + ms;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)) && now_ms() < end)
		usleep(200);
	if (n <= 0) {
		puts(n ? "err poll" : "ok none");
		return;
	}
	printf("ok %" PRIu64 " %d %d %u %u %u\n", wc.wr_id, wc.status, wc.opcode,
	       wc.status ? 0 : wc.byte_len, wc.wc_flags,
	       wc.status ? 0 : wc.invalidated_rkey);
}

/* send SLOT ID OPCODE OFFSET LENGTH [raddr= rkey= flags= lkey=] */
static void post_send(struct slot *s)
{
	struct ibv_sge sge = { (uintptr_t)(s->arena + num(4)), num(5),
			       option("lkey", s->arena_mr->lkey) };
	struct ibv_send_wr *bad, wr = {
		.wr_id = num(2), .sg_list = &sge, .num_sge = 1,
		.opcode = num(3),
		.send_flags = option("flags", IBV_SEND_SIGNALED),
		.wr.rdma = { option("raddr", 0), option("rkey", 0) },
	};

	if (wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = option("rkey", 0);
	errno = ibv_post_send(s->id->qp, &wr, &bad);
	if (errno)
		error("send");
	else
		puts("ok");
}

static void modify(struct slot *s)
{
	struct ibv_qp_attr a = { 0 };
	int mask = 0;

	if (value("state")) {
		a.qp_state = option("state", 0);
		mask |= IBV_QP_STATE;
	}
	if (value("access")) {
		a.qp_access_flags = option("access", 0);
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	errno = ibv_modify_qp(s->id->qp, &a, mask);
	if (errno)
		error("modify");
	else
		puts("ok");
}

static void query(struct slot *s)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	errno = ibv_query_qp(s->id->qp, &a, IBV_QP_STATE, &ia);
	if (errno)
		error("query");
	else
		printf("ok %d %u %u\n", a.qp_state, a.max_rd_atomic,
		       a.max_dest_rd_atomic);
}

/* A range of the arena, or false. */
static bool range(uint64_t at, uint64_t len)
{
	if (at <= ARENA && len <= ARENA - at)
		return true;
	puts("err range");
	return false;
}

/* Commands that need no connection; false if it is none of them. */
static bool free_command(const char *cmd, struct slot *s)
{
	uint8_t data[256];
	struct rdma_conn_param p;

	if (!strcmp(cmd, "reset")) {
		destroy_all();
		puts("ok");
	} else if (!strcmp(cmd, "resolve")) {
		destroy(s);
		resolve(s, word(2), num(3));
	} else if (!strcmp(cmd, "request")) {
		destroy(s);
		if (!take_request(s, num(2), num(3)))
			puts("ok none");
		else
			print_event(&s->ev[0]);
	} else if (!strcmp(cmd, "serve")) {
		/* request, create and accept in one. */
		destroy(s);
		if (!take_request(s, num(2), num(3))) {
			puts("err no request");
			return true;
		}
		if (!create(s))
			return true;
		conn_param(&p, data);
		if (rdma_accept(s->id, &p))
			error("accept");
		else
			print_created(s);
	} else {
		return false;
	}
	return true;
}

static void command(const char *cmd, struct slot *s)
{
	struct rdma_conn_param p;
	uint8_t data[256];
	uint64_t end, r;

	if (!strcmp(cmd, "create")) {
		if (create(s))
			print_created(s);
	} else if (!strcmp(cmd, "accept") || !strcmp(cmd, "connect")) {
		conn_param(&p, data);
		if (*cmd == 'a' ? rdma_accept(s->id, &p) :
				  rdma_connect(s->id, &p))
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "reject")) {
		conn_param(&p, data);
		if (rdma_reject(s->id, data, p.private_data_len))
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "event")) {
		if (!wait_event(s, num(2))) {
			puts("ok none");
			return;
		}
		print_event(&s->ev[0]);
		drop_event(s);
	} else if (!strcmp(cmd, "disconnect")) {
		if (rdma_disconnect(s->id))
			error(cmd);
		else
			puts("ok");
	} else if (!s->id->qp) {
		puts("err no queue pair");
	} else if (!strcmp(cmd, "wc")) {
		poll_wc(*word(2) == 's' ? s->scq : s->rcq, num(3));
	} else if (!strcmp(cmd, "async")) {
		verbs = s->id->verbs;
		end = now_ms() + num(2);
		do
			take_async(end > now_ms() ? end - now_ms() : 0);
		while (!s->asyncs && now_ms() < end);
		printf("ok %d\n", s->asyncs ? s->async[0] : -1);
		if (s->asyncs)
			memmove(s->async, s->async + 1,
				--s->asyncs * sizeof(s->async[0]));
	} else if (!strcmp(cmd, "state")) {
		query(s);
	} else if (!strcmp(cmd, "modify")) {
		modify(s);
	} else if (!strcmp(cmd, "send")) {
		post_send(s);
	} else if (!strcmp(cmd, "recv")) {
		r = value("lkey") ? option("lkey", 0) : s->arena_mr->lkey;
		if (post_recv(s, num(2), num(3), num(4), r))
			puts("ok");
		else
			error(cmd);
	} else if (!strcmp(cmd, "reg")) {
		r = num(2) % REGIONS;
		if (!range(num(3), num(4)))
			return;
		s->mr[r] = reg(s, num(3), num(4), num(5),
			       option("iova", (uintptr_t)(s->arena + num(3))));
		if (s->mr[r])
			printf("ok %u %" PRIu64 "\n", s->mr[r]->rkey,
			       option("iova", (uintptr_t)(s->arena + num(3))));
		else
			error(cmd);
	} else if (!strcmp(cmd, "dereg")) {
		r = num(2) % REGIONS;
		errno = s->mr[r] ? ibv_dereg_mr(s->mr[r]) : EINVAL;
		s->mr[r] = NULL;
		if (errno)
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "peek")) {
		if (!range(num(2), num(3)))
			return;
		fputs("ok ", stdout);
		put_hex(s->arena + num(2), num(3));
		putchar('\n');
	} else if (!strcmp(cmd, "fill")) {
		if (range(num(2), num(3))) {
			memset(s->arena + num(2), num(4), num(3));
			puts("ok");
		}
	} else {
		puts("err unknown command");
	}
}

int main(int argc, char **argv)
{
	static char line[LINE];
	struct ep_listener l;
	unsigned int limit = 600;
	const struct opt table[] = {
		{ "limit", .num = &limit, .min = 1, .max = 100000 },
		{ }
	};
	struct slot *s;
	char *w;

	opt_parse(argc, argv, usage, &where, table);
	ep_watchdog(limit);
	ep_enter_netns(where.server_netns);
	ep_listen(&l, where.addr, where.port, 64);
	ec = l.ec;
	listener = l.id;
	verbs = listener->verbs;
	printf("ok %u\n", l.port);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (word_count = 0, w = strtok(line, " \n");
		     w && word_count < 32; w = strtok(NULL, " \n"))
			words[word_count++] = w;
		s = &slots[num(1) % SLOTS];
		if (!free_command(word(0), s)) {
			if (s->id)
				command(word(0), s);
			else
				puts("err no connection");
		}
		fflush(stdout);
	}
	destroy_all();
	ep_unlisten(&l);
	return 0;
}
