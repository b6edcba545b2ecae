/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connected endpoints for small verbs programs: the RDMA connection manager
 * with a time limit on every wait, one queue pair with its completion queues,
 * a forked pair of processes with a control channel between them.
 *
 * Everything that fails in a way no test expects ends the process with a
 * message and status 1; a watchdog ends it with status 3.
 */
#ifndef RSIW_EP_H
#define RSIW_EP_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Milliseconds that one event of the connection manager may take. */
#define EP_EVENT_MS 20000

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* All that a peer may do with a region. */
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		    IBV_ACCESS_REMOTE_READ)

struct ep_attr {
	uint32_t send_wr, recv_wr;	/* queue depths asked for */
	uint32_t send_sge, recv_sge;
	uint32_t inline_data;		/* bytes */
	uint32_t cqe;			/* depth of each CQ, 0: enough */
	uint8_t ird, ord;
	bool channel;			/* completion channel on both CQs */
	struct ibv_srq *srq;		/* shared receive queue, or NULL */
	struct ibv_pd *pd;		/* the caller's PD; NULL: a new one */
	/* For the extended verbs, which not every library has. */
	uint64_t send_ops;		/* enum ibv_qp_create_send_ops_flags */
	uint64_t wc_flags;		/* enum ibv_create_cq_wc_flags, of both CQs */
};

struct ep {
	struct rdma_event_channel *ec;	/* NULL while shared with others */
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	bool own_pd;
	struct ibv_comp_channel *cc;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp_cap cap;		/* what creation returned */
	struct rdma_conn_param param;
};

/* A passive endpoint: a listening id and its channel. */
struct ep_listener {
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id;
	uint16_t port;			/* host order, also when asked for 0 */
};

/* Two processes: which one we are and the socket to the other. */
struct ep_pair {
	bool server;
	int ctl;
	pid_t child;			/* in the parent only */
};

struct ep_where {
	const char *addr;		/* numeric address of the server */
	unsigned int port;
	const char *server_netns;	/* name under /run/netns or NULL */
	const char *client_netns;
	bool by_number;			/* both ends without the connection manager */
};

#define DIE(...) ep_die(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond, ...) do { if (!(cond)) DIE(__VA_ARGS__); } while (0)
#define CHECK_SYS(expr) ((expr) ? DIE("%s: %m", #expr) : (void)0)

void ep_die(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

/* Ends the process with status 3 after this many seconds. */
void ep_watchdog(unsigned int seconds);
/* What the watchdog prints as the thing that took too long. */
void ep_phase(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t ep_now_ns(void);

void ep_enter_netns(const char *name);
/* The parent is the server, or the child. */
void ep_fork(struct ep_pair *p, const struct ep_where *w, bool parent_serves);
/* In the parent: waits for the child; its exit status, or 128 + signal. */
int ep_join(struct ep_pair *p);
/* Both sides meet; ends the process when the other one is gone. */
void ep_sync(struct ep_pair *p);
void ep_exchange(struct ep_pair *p, const void *out, void *in, size_t len);
/* Control without a fork, for two hosts: TCP on port + 1. */
void ep_ctl_tcp(struct ep_pair *p, const struct ep_where *w, bool server);

/* NULL after `ms` milliseconds without an event. */
struct rdma_cm_event *ep_event(struct rdma_event_channel *ec, int ms);
/* Waits for exactly this event; returns its id. */
struct rdma_cm_id *ep_expect(struct rdma_event_channel *ec,
			     enum rdma_cm_event_type type);

void ep_listen(struct ep_listener *l, const char *addr, uint16_t port,
	       int backlog);
void ep_unlisten(struct ep_listener *l);
/* Address and route of `id` resolved; dies when that fails. */
void ep_resolve(struct rdma_event_channel *ec, struct rdma_cm_id *id,
		const char *addr, uint16_t port);
/* PD, CQs and QP for an id that is bound to a device. */
void ep_setup(struct ep *e, struct rdma_cm_id *id, const struct ep_attr *a);
/* The same where the connection may be gone already: false, nothing is left. */
bool ep_try_setup(struct ep *e, struct rdma_cm_id *id,
		  const struct ep_attr *a);
void ep_connect(struct ep *e, const char *addr, uint16_t port,
		const struct ep_attr *a);
void ep_accept(struct ep *e, struct ep_listener *l, const struct ep_attr *a);
/* The server accepts, the client connects. */
void ep_open(struct ep *e, const struct ep_pair *p, struct ep_listener *l,
	     const struct ep_where *w, const struct ep_attr *a);
/* QP, CQs, channel, PD and id, in this order; no disconnect. */
void ep_destroy(struct ep *e);
/* Disconnects, waits for the event and destroys. */
void ep_close(struct ep *e);

/* A queue pair without a connection, which no id knows. */
struct ibv_qp *ep_qp(struct ibv_pd *pd, struct ibv_cq *scq, struct ibv_cq *rcq,
		     uint32_t depth);
/* The same with a PD and a CQ of its own, and with few receives. */
struct ibv_qp *ep_own_qp(struct ibv_context *ctx, uint32_t depth, int cqe);
void ep_destroy_own_qp(struct ibv_qp *qp);
struct ibv_mr *ep_reg(struct ep *e, void *buf, size_t len, int access);
/* Page-aligned, touched. */
void *ep_pages(size_t len);
/* One completion, or false after `ms` milliseconds. */
bool ep_poll(struct ibv_cq *cq, struct ibv_wc *wc, int ms);
/* One completion, which has this status, or the process ends. */
struct ibv_wc ep_done(struct ibv_cq *cq, enum ibv_wc_status want);
int ep_post_recv(struct ep *e, uint64_t id, void *buf, uint32_t len,
		 uint32_t lkey);
/* One SGE, signalled. */
int ep_post_send(struct ep *e, uint64_t id, enum ibv_wr_opcode op, void *buf,
		 uint32_t len, uint32_t lkey, uint64_t raddr, uint32_t rkey);

#endif
