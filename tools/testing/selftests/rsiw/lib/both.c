// SPDX-License-Identifier: GPL-2.0
/* Both ends of connections in one process, see both.h. */
#include "both.h"
#include "numbers.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

struct rdma_cm_id *active_id(struct rdma_event_channel *ec,
			     struct ep_listener *l, const struct ep_where *w)
{
	struct rdma_cm_id *id;

	ep_enter_netns(w->client_netns);
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(ec, id, w->addr, l->port);
	ep_enter_netns(w->server_netns);
	return id;
}

void both_connect(struct both *b, struct ep_listener *l,
		  const struct ep_where *w, const struct ep_attr *active,
		  const struct ep_attr *passive)
{
	struct rdma_cm_id *id;

	if (w->by_number) {
		numbers_make(b, w, active, passive);
		numbers_meet(b);
		return;
	}
	b->by_number = false;
	b->a.ec = rdma_create_event_channel();
	CHECK(b->a.ec, "event channel: %m");
	id = active_id(b->a.ec, l, w);
	ep_setup(&b->a, id, active);
	CHECK_SYS(rdma_connect(id, &b->a.param));
	ep_accept(&b->p, l, passive);
	ep_expect(b->a.ec, RDMA_CM_EVENT_ESTABLISHED);
}

void both_close(struct both *b)
{
	if (b->by_number) {
		both_destroy(b);
		return;
	}
	rdma_disconnect(b->a.id);
	ep_expect(b->p.ec, RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(b->p.id);
	ep_expect(b->a.ec, RDMA_CM_EVENT_DISCONNECTED);
	both_destroy(b);
}

void both_destroy(struct both *b)
{
	ep_destroy(&b->a);
	ep_destroy(&b->p);
}

bool async_event(struct ibv_context *ctx, struct ibv_async_event *ev, int ms)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	if (poll(&p, 1, ms) <= 0)
		return false;
	CHECK_SYS(ibv_get_async_event(ctx, ev));
	ibv_ack_async_event(ev);
	return true;
}

void async_drain(struct ibv_context *ctx)
{
	struct ibv_async_event ev;

	while (async_event(ctx, &ev, 0))
		;
}

bool async_fatal(struct ibv_context *ctx, int ms)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool fatal;

	while (poll(&p, 1, ms) == 1) {
		if (ibv_get_async_event(ctx, &ev))
			return errno == EIO || errno == ENODEV;
		fatal = ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
		if (fatal)
			return true;
	}
	return false;
}

enum ibv_qp_state wait_state(struct ibv_qp *qp, enum ibv_qp_state want, int ms)
{
	uint64_t end = ep_now_ns() + ms * 1000000ull;
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr qa;

	for (;;) {
		CHECK_SYS(ibv_query_qp(qp, &qa, IBV_QP_STATE, &ia));
		if (qa.qp_state == want || ep_now_ns() > end)
			return qa.qp_state;
		usleep(1000);
	}
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr qa = { .qp_state = state };

	return ibv_modify_qp(qp, &qa, IBV_QP_STATE);
}
