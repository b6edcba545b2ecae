// SPDX-License-Identifier: GPL-2.0
/* The connections of peer_ep: what they consist of, and their events. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"

struct slot slots[SLOTS];
struct rdma_event_channel *ec;
struct ibv_context *verbs;
/* Requests that no slot has taken yet. */
static struct rdma_cm_id *waiting[QUEUED];
static struct cm_ev waiting_ev[QUEUED];
static unsigned int waitings;

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

void print_event(const struct cm_ev *v)
{
	printf("ok %s %d %u %u ", rdma_event_str(v->type) + 14, v->status,
	       v->conn.responder_resources, v->conn.initiator_depth);
	put_hex(v->data, v->conn.private_data_len);
	putchar('\n');
}

void take_async(int ms)
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
bool take_request(struct slot *s, int ms, uint16_t port)
{
	uint64_t end = now_ms() + ms;
	unsigned int i;
	int left;

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
		left = ms_left(end);
		if (!left)
			return false;
		take_event(left);
	}
}

struct ibv_mr *reg(struct slot *s, uint64_t at, uint64_t len, int access,
		   uint64_t iova)
{
	return ibv_reg_mr_iova(s->pd, s->arena + at, len, iova, access);
}

bool post_recv(struct slot *s, uint64_t id, uint64_t at, uint32_t len,
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
bool create(struct slot *s)
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

void conn_param(struct rdma_conn_param *p, uint8_t *data)
{
	size_t n = get_hex(value("pd"), data, 255);

	*p = (struct rdma_conn_param){
		.private_data = data, .private_data_len = n,
		.responder_resources = option("ird", 8),
		.initiator_depth = option("ord", 8),
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

void print_created(const struct slot *s)
{
	printf("ok %u %u %" PRIu64 " %" PRIu64 "\n", s->id->qp->qp_num,
	       s->mr[0]->rkey, option("iova", (uintptr_t)(s->arena + BUFFER)),
	       (uint64_t)(uintptr_t)s->arena);
}

void destroy(struct slot *s)
{
	struct ibv_qp *qp;
	unsigned int i;

	if (!s->id)
		return;
	qp = s->id->qp;
	if (s->rejected) {
		/* iw_cm keeps the queue pair of an accept before that. */
		rdma_destroy_id(s->id);
		if (qp)
			ibv_destroy_qp(qp);
	} else if (qp) {
		rdma_destroy_qp(s->id);
	}
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
	if (!s->rejected)
		rdma_destroy_id(s->id);
	*s = (struct slot){ .arena = s->arena };
}

void destroy_all(void)
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
bool wait_event(struct slot *s, int ms)
{
	uint64_t end = now_ms() + ms;
	int left;

	while (!s->evs && (left = ms_left(end)))
		take_event(left);
	return s->evs;
}

void drop_event(struct slot *s)
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

void resolve(struct slot *s, const char *addr, uint16_t port)
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
