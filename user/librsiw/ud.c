// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Unreliable datagrams: address handles, and requests with an address. The kernel knows no
 * handles. Each request has the whole address, which the kernel looks at when it takes the
 * request.
 */
#include <stdlib.h>
#include <string.h>

#include "rsiw.h"

/* Whether there is an address at that index: addresses of the interface come and go. */
static bool has_gid(struct ibv_context *context, int index)
{
	static const union ibv_gid no_gid;
	union ibv_gid gid;

	return !ibv_query_gid(context, 1, index, &gid) && memcmp(&gid, &no_gid, sizeof(gid));
}

struct ibv_ah *rsiw_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const struct ibv_global_route *route = &attr->grh;
	struct rsiw_ah *ah;

	if (!attr->is_global || attr->port_num != 1 || !has_gid(pd->context, route->sgid_index)) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	memcpy(ah->dgid, &route->dgid, sizeof(ah->dgid));
	ah->path = (struct rsiw_path){
		.sgid_index = route->sgid_index,
		.traffic_class = route->traffic_class,
		.hop_limit = route->hop_limit,
		.flow_label = route->flow_label,
	};
	return &ah->ah;
}

int rsiw_destroy_ah(struct ibv_ah *ibah)
{
	free(to_rsiw_ah(ibah));
	return 0;
}

/* Afterwards the handle is not needed any more, and may be destroyed. */
void rsiw_set_address(struct rsiw_sqe *sqe, struct ibv_ah *ibah, uint32_t qpn, uint32_t qkey)
{
	const struct rsiw_ah *ah = to_rsiw_ah(ibah);

	memcpy(sqe->dest.dgid, ah->dgid, sizeof(ah->dgid));
	sqe->dest.qpn = qpn;
	sqe->dest.qkey = qkey;
	sqe->path = ah->path;
}

static int set_data(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const struct ibv_send_wr *wr)
{
	if (wr->num_sge < 0)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE)
		return rsiw_add_inline_list(qp, sqe, wr);
	return rsiw_set_elements(qp, sqe, wr->sg_list, wr->num_sge);
}

/* Begins and fills a request of a UD QP, as it is posted. The queue is locked. */
int rsiw_stage_datagram(struct rsiw_qp *qp, const struct ibv_send_wr *wr)
{
	bool has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	struct rsiw_sqe *sqe;
	int ret;

	if ((!has_imm && wr->opcode != IBV_WR_SEND) || !wr->wr.ud.ah)
		return EINVAL;
	sqe = rsiw_stage(qp, wr->wr_id, has_imm ? RSIW_OP_SEND_WITH_IMM : SIW_OP_SEND,
			 wr->send_flags);
	if (!sqe)
		return ENOMEM;
	if (has_imm)
		sqe->rkey = (uint32_t)wr->imm_data;
	rsiw_set_address(sqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	ret = set_data(qp, sqe, wr);
	if (ret)
		qp->staged--;
	return ret;
}
