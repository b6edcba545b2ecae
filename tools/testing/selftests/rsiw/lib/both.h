/* SPDX-License-Identifier: GPL-2.0 */
/* Both ends of connections in one process, over one device. */
#ifndef RSIW_BOTH_H
#define RSIW_BOTH_H

#include "ep.h"

/* A connection: `a` connected, `p` accepted. */
struct both {
	struct ep a, p;
	bool by_number;		/* not by the connection manager */
};

/*
 * Establishes a connection through the listener, which is bound to `w->addr`;
 * both ends in the network namespaces that `w` says. Or without one, by number.
 */
void both_connect(struct both *b, struct ep_listener *l,
		  const struct ep_where *w, const struct ep_attr *active,
		  const struct ep_attr *passive);
/* Disconnects, waits for both events and destroys. */
void both_close(struct both *b);
/* Destroys both ends, whatever state they are in. */
void both_destroy(struct both *b);

/*
 * An id of the connecting side for a QP that is not the id's own: the route is
 * resolved, the rest is the caller's.
 */
struct rdma_cm_id *active_id(struct rdma_event_channel *ec,
			     struct ep_listener *l, const struct ep_where *w);

/* The next asynchronous event, acknowledged; false after `ms` milliseconds. */
bool async_event(struct ibv_context *ctx, struct ibv_async_event *ev, int ms);
/*
 * Whether the device is gone, as its event says within `ms` milliseconds, or the
 * way by which that would come.
 */
bool async_fatal(struct ibv_context *ctx, int ms);
/* Drops the events that are there. */
void async_drain(struct ibv_context *ctx);

/* Waits up to `ms` milliseconds for the state; returns the last one seen. */
enum ibv_qp_state wait_state(struct ibv_qp *qp, enum ibv_qp_state want, int ms);
/* modify_qp with nothing but a state; 0 or an error number. */
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);

#endif
