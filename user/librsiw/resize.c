// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Changing the depth of queues. The kernel replaces the ring of a queue by another
 * one. A mapping of the same length is made before the call, as nothing may fail once
 * the kernel has replaced it. The queue is locked meanwhile, so that other threads use
 * it before or afterwards.
 *
 * Queues of requests are resized by methods of the driver's own. What was posted
 * keeps its number, so that posting goes on where it was.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/cmd_ioctl.h>

#include "rsiw.h"

/* More entries than any queue has. */
#define TOO_MANY (1u << 30)

/*
 * Makes a mapping that counts for the limits of the process as that of a ring of at least
 * `entries` will, with `behind` octets behind them. It is shared as then it is not merged
 * with others, which would have to be split again.
 */
int rsiw_reserve_ring(struct rsiw_ring *ring, uint32_t entries, uint32_t entry_size,
		      size_t behind)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint32_t count = 1;
	size_t len;
	void *at;

	if (entries > TOO_MANY)
		return EINVAL;
	while (count < entries)
		count *= 2;
	len = (size_t)count * entry_size + behind;
	len = (len + page - 1) / page * page;
	at = mmap(NULL, len, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return errno;
	*ring = (struct rsiw_ring){ .at = at, .len = len, .entry_size = entry_size };
	return 0;
}

/*
 * Maps the ring that the kernel has made in the place of what was reserved. That is given
 * back first: with MAP_FIXED the limits of locked memory and of the number of mappings
 * would count both. Only another thread that takes it at once makes this fail.
 */
int rsiw_map_reserved(struct ibv_context *context, struct rsiw_ring *ring, uint64_t key,
		      uint32_t entries, size_t behind)
{
	rsiw_unmap_ring(ring);
	return rsiw_map_ring(context, ring, key, entries, ring->entry_size, behind);
}

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
			  const struct rsiw_ureq_resize_qp *req)
{
	struct ibv_context *context = qp->vqp.qp.context;
	struct rsiw_uresp_resize_qp resp = {};
	int ret = CALL_METHOD(context, UVERBS_OBJECT_QP, RSIW_METHOD_QP_RESIZE, &qp->vqp.qp, req,
			      &resp);

	if (!ret)
		ret = rsiw_map_reserved(context, sq, resp.sq_key, resp.num_sqe, 0);
	if (!ret && rq->at)
		ret = rsiw_map_reserved(context, rq, resp.rq_key, resp.num_rqe,
					qp->behind_rq);
	if (ret)
		return ret;
	swap_rings(&qp->sq, sq);
	if (rq->at)
		swap_rings(&qp->rq, rq);
	return 0;
}

/* Changes the depths of a QP's queues to those in `cap`, and sets the real ones there. */
int rsiw_resize_qp(struct rsiw_qp *qp, struct ibv_qp_cap *cap)
{
	struct rsiw_ureq_resize_qp req = { cap->max_send_wr, cap->max_recv_wr };
	struct rsiw_ring sq = {}, rq = {};
	int ret;

	if (cap->max_send_sge > qp->max_send_sge || cap->max_recv_sge > qp->max_recv_sge ||
	    cap->max_inline_data > qp->max_inline)
		return EINVAL;
	if (!qp->rq.at && cap->max_recv_wr)
		return EINVAL;
	ret = rsiw_reserve_ring(&sq, cap->max_send_wr, qp->layout->sqe_size, 0);
	if (!ret && qp->rq.at)
		ret = rsiw_reserve_ring(&rq, cap->max_recv_wr, qp->layout->rqe_size,
					qp->behind_rq);
	if (!ret) {
		pthread_mutex_lock(&qp->sq_lock);
		pthread_mutex_lock(&qp->rq_lock);
		ret = replace_queues(qp, &sq, &rq, &req);
		pthread_mutex_unlock(&qp->rq_lock);
		pthread_mutex_unlock(&qp->sq_lock);
	}
	/* The old rings, or what was reserved in vain. */
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
			 const struct rsiw_ureq_resize_srq *req)
{
	struct ibv_context *context = srq->srq.context;
	struct rsiw_uresp_resize_srq resp = {};
	int ret = CALL_METHOD(context, UVERBS_OBJECT_SRQ, RSIW_METHOD_SRQ_RESIZE, &srq->srq, req,
			      &resp);

	if (!ret)
		ret = rsiw_map_reserved(context, ring, resp.srq_key, resp.num_rqe, 0);
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
	struct rsiw_ring ring;
	int ret = rsiw_reserve_ring(&ring, attr->max_wr, srq->ring.entry_size, 0);

	if (ret)
		return ret;
	pthread_mutex_lock(&srq->lock);
	ret = replace_queue(srq, &ring, &req);
	pthread_mutex_unlock(&srq->lock);
	rsiw_unmap_ring(&ring);
	return ret;
}
