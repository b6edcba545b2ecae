// SPDX-License-Identifier: GPL-2.0
/* Queue pairs that are connected by number, see numbers.h. */
#include "numbers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

const struct number_attr number_defaults = {
	.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .reads = 4,
};

/* A way on which packets get lost holds a connection up for seconds. */
static const struct number_attr patient = {
	.timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .reads = 4,
};

static struct rdma_cm_id *bound_id(struct rdma_event_channel *ec, const struct ep_where *w)
{
	struct sockaddr_storage ss = { 0 };
	struct rdma_cm_id *id;

	if (strchr(w->addr, ':')) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&ss;

		sin6->sin6_family = AF_INET6;
		CHECK(inet_pton(AF_INET6, w->addr, &sin6->sin6_addr) == 1, "bad %s", w->addr);
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)&ss;

		sin->sin_family = AF_INET;
		CHECK(inet_pton(AF_INET, w->addr, &sin->sin_addr) == 1, "bad %s", w->addr);
	}
	CHECK_SYS(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP));
	CHECK_SYS(rdma_bind_addr(id, (struct sockaddr *)&ss));
	CHECK(id->verbs, "%s is the address of no device", w->addr);
	return id;
}

void numbers_make(struct both *b, const struct ep_where *w, const struct ep_attr *active,
		  const struct ep_attr *passive)
{
	/* Nobody listens there: the address and the route are all that is asked for. */
	struct ep_listener nobody = { .port = 1 };

	b->by_number = true;
	b->a.ec = rdma_create_event_channel();
	b->p.ec = rdma_create_event_channel();
	CHECK(b->a.ec && b->p.ec, "event channels: %m");
	ep_setup(&b->p, bound_id(b->p.ec, w), passive);
	ep_setup(&b->a, active_id(b->a.ec, &nobody, w), active);
}

struct number number_of(const struct ep *e)
{
	return number_for(e, e->id->qp);
}

struct number number_for(const struct ep *e, const struct ibv_qp *qp)
{
	const struct sockaddr *addr = rdma_get_local_addr(e->id);
	struct number n = { .qpn = qp->qp_num, .psn = 0x123456 ^ qp->qp_num };
	union ibv_gid want = { 0 };
	int i;

	if (addr->sa_family == AF_INET6) {
		memcpy(want.raw, &((struct sockaddr_in6 *)addr)->sin6_addr, 16);
	} else {
		memset(want.raw + 10, 0xff, 2);
		memcpy(want.raw + 12, &((struct sockaddr_in *)addr)->sin_addr, 4);
	}
	for (i = 0; i < 32; i++) {
		CHECK_SYS(ibv_query_gid(e->id->verbs, 1, i, &n.gid));
		if (!memcmp(n.gid.raw, want.raw, sizeof(want))) {
			n.index = i;
			return n;
		}
	}
	DIE("the address is no GID");
}

int number_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr qa = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS,
	};

	return ibv_modify_qp(qp, &qa, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS);
}

int number_rtr(struct ibv_qp *qp, const struct number *own, const struct number *peer,
	       const struct number_attr *attr)
{
	struct ibv_qp_attr qa = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn, .rq_psn = peer->psn,
		.max_dest_rd_atomic = attr->reads, .min_rnr_timer = attr->min_rnr_timer,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = own->index, .hop_limit = 1 },
		},
	};

	return ibv_modify_qp(qp, &qa, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER);
}

int number_rts(struct ibv_qp *qp, const struct number *own, const struct number_attr *attr)
{
	struct ibv_qp_attr qa = {
		.qp_state = IBV_QPS_RTS, .sq_psn = own->psn, .timeout = attr->timeout,
		.retry_cnt = attr->retry_cnt, .rnr_retry = attr->rnr_retry,
		.max_rd_atomic = attr->reads,
	};

	return ibv_modify_qp(qp, &qa, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void numbers_meet(struct both *b)
{
	struct number a = number_of(&b->a), p = number_of(&b->p);

	CHECK(!number_rtr(b->a.id->qp, &a, &p, &patient), "RTR: %m");
	CHECK(!number_rtr(b->p.id->qp, &p, &a, &patient), "RTR: %m");
	CHECK(!number_rts(b->a.id->qp, &a, &patient), "RTS: %m");
	CHECK(!number_rts(b->p.id->qp, &p, &patient), "RTS: %m");
}
