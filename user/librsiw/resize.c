// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Changing the depth of queues, in two steps: the kernel makes another ring, the library
 * maps it, the kernel moves the queue there. Until the last step nothing has changed, and
 * after it nothing can fail. The queue is locked meanwhile, so that other threads use it
 * before or afterwards, and the kernel makes rings for one caller at a time.
 *
 * Queues of requests are resized by methods of the driver's own. What was posted
 * keeps its number, so that posting goes on where it was.
 */
#include <infiniband/cmd_ioctl.h>

#include "rsiw.h"

/*
 * Goes on in the new ring, with the next number; `new` becomes the old one. `at` is never
 * NULL meanwhile, as others look without the lock whether there is a ring.
 */
static void swap_rings(struct rsiw_ring *ring, struct rsiw_ring *new)
{
	struct rsiw_ring old = *ring;

	new->next = old.next;
	*ring = *new;
	*new = old;
}

/* Calls a method, which has a handle, a request and a response. */
#define CALL_METHOD(context, object, method, of, req, resp) ({			\
	DECLARE_COMMAND_BUFFER(cmd, object, method, 3);				\
	fill_attr_in_obj(cmd, RSIW_ATTR_RESIZE_HANDLE, (of)->handle);		\
	fill_attr_in_ptr(cmd, UVERBS_ATTR_UHW_IN, req);				\
	fill_attr_out_ptr(cmd, UVERBS_ATTR_UHW_OUT, resp);			\
	execute_ioctl(context, cmd);						\
})

static int replace_queues(struct rsiw_qp *qp, struct rsiw_ring *sq, struct rsiw_ring *rq,
			  struct rsiw_ureq_resize_qp *req)
{
	struct ibv_context *context = qp->vqp.qp.context;
	struct rsiw_uresp_resize_qp resp = {};
	int ret;

	req->flags = RSIW_RESIZE_MAKE;
	ret = CALL_METHOD(context, UVERBS_OBJECT_QP, RSIW_METHOD_QP_RESIZE, &qp->vqp.qp, req,
			  &resp);
	if (!ret)
		ret = rsiw_map_ring(context, sq, resp.sq_key, resp.num_sqe, qp->layout->sqe_size,
				    0);
	if (!ret && qp->rq.at)
		ret = rsiw_map_ring(context, rq, resp.rq_key, resp.num_rqe, qp->layout->rqe_size,
				    qp->behind_rq);
	req->flags = RSIW_RESIZE_MOVE;
	if (!ret)
		ret = CALL_METHOD(context, UVERBS_OBJECT_QP, RSIW_METHOD_QP_RESIZE, &qp->vqp.qp,
				  req, &resp);
	if (ret)
		return ret;
	swap_rings(&qp->sq, sq);
	if (qp->rq.at)
		swap_rings(&qp->rq, rq);
	return 0;
}

/* Changes the depths of a QP's queues to those in `cap`, and sets the real ones there. */
int rsiw_resize_qp(struct rsiw_qp *qp, struct ibv_qp_cap *cap)
{
	struct rsiw_ureq_resize_qp req = {
		.num_sqe = cap->max_send_wr,
		.num_rqe = cap->max_recv_wr,
	};
	struct rsiw_ring sq = {}, rq = {};
	int ret;

	if (cap->max_send_sge > qp->max_send_sge || cap->max_recv_sge > qp->max_recv_sge ||
	    cap->max_inline_data > qp->max_inline)
		return EINVAL;
	if (!qp->rq.at && cap->max_recv_wr)
		return EINVAL;
	pthread_mutex_lock(&qp->sq_lock);
	pthread_mutex_lock(&qp->rq_lock);
	ret = replace_queues(qp, &sq, &rq, &req);
	pthread_mutex_unlock(&qp->rq_lock);
	pthread_mutex_unlock(&qp->sq_lock);
	/* The old rings, or new ones that were made in vain. */
	rsiw_unmap_ring(&sq);
	rsiw_unmap_ring(&rq);
	if (ret)
		return ret;
	*cap = (struct ibv_qp_cap){
		.max_send_wr = qp->sq.mask + 1,
		.max_recv_wr = qp->rq.at ? qp->rq.mask + 1 : 0,
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline_data = qp->max_inline,
	};
	return 0;
}

static int replace_queue(struct rsiw_srq *srq, struct rsiw_ring *ring,
			 struct rsiw_ureq_resize_srq *req)
{
	struct ibv_context *context = srq->srq.context;
	struct rsiw_uresp_resize_srq resp = {};
	uint32_t flags = req->flags;
	int ret;

	req->flags = flags | RSIW_RESIZE_MAKE;
	ret = CALL_METHOD(context, UVERBS_OBJECT_SRQ, RSIW_METHOD_SRQ_RESIZE, &srq->srq, req,
			  &resp);
	if (!ret)
		ret = rsiw_map_ring(context, ring, resp.srq_key, resp.num_rqe,
				    srq->ring.entry_size, 0);
	req->flags = flags | RSIW_RESIZE_MOVE;
	if (!ret)
		ret = CALL_METHOD(context, UVERBS_OBJECT_SRQ, RSIW_METHOD_SRQ_RESIZE, &srq->srq,
				  req, &resp);
	if (!ret)
		swap_rings(&srq->ring, ring);
	return ret;
}

/* Changes the depth of a shared receive queue and, with has_limit, its limit. */
int rsiw_resize_srq(struct rsiw_srq *srq, const struct ibv_srq_attr *attr, bool has_limit)
{
	struct rsiw_ureq_resize_srq req = {
		.num_rqe = attr->max_wr,
		.limit = has_limit ? attr->srq_limit : 0,
		.flags = has_limit ? RSIW_RESIZE_SRQ_LIMIT : 0,
	};
	struct rsiw_ring ring = {};
	int ret;

	pthread_mutex_lock(&srq->lock);
	ret = replace_queue(srq, &ring, &req);
	pthread_mutex_unlock(&srq->lock);
	rsiw_unmap_ring(&ring);
	return ret;
}
