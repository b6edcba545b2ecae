// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs and shared receive queues, and receives. Receives take no system call, except
 * where the kernel says that it flushes them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rsiw.h"

/* Writes a receive. The queue is locked. */
int rsiw_put_recv(struct rsiw_ring *ring, uint32_t max_sge, const struct ibv_recv_wr *wr)
{
	struct rsiw_rqe *rqe = rsiw_entry(ring, ring->next);
	int i;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	if (rsiw_flags(rqe) & SIW_WQE_VALID)
		return ENOMEM;
	rqe->id = wr->wr_id;
	rqe->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++)
		rqe->sge[i] = (struct rsiw_sge){
			.laddr = wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	rsiw_set_flags(rqe, SIW_WQE_VALID);
	ring->next++;
	return 0;
}

static int put_recvs(struct rsiw_ring *ring, uint32_t max_sge, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad_wr)
{
	int ret = 0;

	for (; wr && !ret; wr = wr->next) {
		ret = rsiw_put_recv(ring, max_sge, wr);
		if (ret)
			*bad_wr = wr;
	}
	return ret;
}

/* Whether the kernel flushes what is posted, and has to be called. The queue is locked. */
static bool is_flushed(const struct rsiw_qp *qp)
{
	const struct rsiw_rq_ctrl *ctrl = rsiw_behind(&qp->rq);

	if (!qp->behind_rq)
		return false;
	/*
	 * The kernel sets the word, then looks at the queue; we fill an entry, then look
	 * at the word. One of the two sees the other.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ctrl->flushes, __ATOMIC_RELAXED);
}

/*
 * Whether the queue pair is in RESET, in which nothing may be posted (InfiniBand,
 * C10-97.2.1). libibverbs knows what steps the program has taken; the RDMA CM may have
 * connected a queue pair without such a step. So the kernel is asked, and libibverbs
 * remembers its answer.
 */
bool rsiw_is_reset(struct rsiw_qp *qp)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibqp->state == IBV_QPS_RESET && !ibv_query_qp(ibqp, &attr, IBV_QP_STATE, &init) &&
	       attr.qp_state == IBV_QPS_RESET;
}

int rsiw_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct rsiw_qp *qp = to_rsiw_qp(ibqp);
	struct ibv_recv_wr *first = wr;
	int ret, rung = 0;
	bool call;

	if (!qp->rq.at || rsiw_is_reset(qp)) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_mutex_lock(&qp->rq_lock);
	ret = put_recvs(&qp->rq, qp->max_recv_sge, wr, bad_wr);
	call = is_flushed(qp);
	pthread_mutex_unlock(&qp->rq_lock);
	if (call)
		rung = rsiw_ring_doorbell(qp);
	if (rung && !ret) {
		*bad_wr = first;
		ret = rung;
	}
	return ret;
}

int rsiw_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct rsiw_srq *srq = to_rsiw_srq(ibsrq);
	int ret;

	pthread_mutex_lock(&srq->lock);
	ret = put_recvs(&srq->ring, srq->max_sge, wr, bad_wr);
	pthread_mutex_unlock(&srq->lock);
	return ret;
}

static void free_srq(struct rsiw_srq *srq)
{
	rsiw_unmap_ring(&srq->ring);
	pthread_mutex_destroy(&srq->lock);
	free(srq);
}

struct ibv_srq *rsiw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	const struct rsiw_layout *layout = to_rsiw_context(pd->context)->layout;
	struct rsiw_create_srq_resp resp = {};
	struct rsiw_create_srq cmd = {};
	struct rsiw_srq *srq = calloc(1, sizeof(*srq));
	int ret;

	if (!srq)
		return NULL;
	rsiw_init_lock(&srq->lock);
	ret = ibv_cmd_create_srq(pd, &srq->srq, attr, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				 sizeof(resp));
	if (ret)
		goto fail;
	ret = rsiw_map_ring(pd->context, &srq->ring, resp.srq_key, resp.num_rqe,
			    layout->rqe_size, 0);
	if (ret) {
		/* The caller initializes these later, but the destruction uses them. */
		srq->srq.context = pd->context;
		pthread_mutex_init(&srq->srq.mutex, NULL);
		pthread_cond_init(&srq->srq.cond, NULL);
		ibv_cmd_destroy_srq(&srq->srq);
		goto fail;
	}
	srq->max_sge = rsiw_smaller(attr->attr.max_sge, layout->max_sge);
	return &srq->srq;

fail:
	free_srq(srq);
	errno = ret;
	return NULL;
}

int rsiw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct rsiw_context *ctx = to_rsiw_context(srq->context);
	struct ibv_modify_srq cmd = {};

	if (attr_mask & IBV_SRQ_MAX_WR && ctx->features & RSIW_FEATURE_RESIZE) {
		if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
			return EINVAL;
		return rsiw_resize_srq(to_rsiw_srq(srq), attr, attr_mask & IBV_SRQ_LIMIT);
	}
	return ibv_cmd_modify_srq(srq, attr, attr_mask, &cmd, sizeof(cmd));
}

int rsiw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int rsiw_destroy_srq(struct ibv_srq *srq)
{
	int ret = ibv_cmd_destroy_srq(srq);

	if (!ret)
		free_srq(to_rsiw_srq(srq));
	return ret;
}

static void free_qp(struct rsiw_qp *qp)
{
	rsiw_unmap_ring(&qp->sq);
	rsiw_unmap_ring(&qp->rq);
	if (qp->polled)
		munmap(qp->polled, sysconf(_SC_PAGESIZE));
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->rq_lock);
	free(qp);
}

static void set_doorbell(struct rsiw_qp *qp)
{
	qp->doorbell = (struct rsiw_doorbell){
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_SEND,
			.in_words = sizeof(qp->doorbell) / 4,
			.out_words = sizeof(qp->doorbell_resp) / 4,
		},
		.post = {
			.response = (uintptr_t)&qp->doorbell_resp,
			.qp_handle = qp->vqp.qp.handle,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
	};
}

/*
 * Returns for how many microseconds after each request the kernel is to poll for the
 * next one, so that it need not be called. Read for each queue pair, so that a program
 * can choose it for some of them only.
 */
static uint32_t poll_us(const struct rsiw_context *ctx)
{
	const char *asked = secure_getenv("RSIW_POLL_US");
	uint32_t us = 0;

	if (!asked || !(ctx->features & RSIW_FEATURE_POLL))
		return 0;
	/* Not by strtoul(), for which the loader would want glibc 2.38. */
	for (; *asked >= '0' && *asked <= '9' && us < RSIW_MAX_POLL_US; asked++)
		us = us * 10 + (*asked - '0');
	return us < RSIW_MAX_POLL_US ? us : RSIW_MAX_POLL_US;
}

static int map_polled(struct rsiw_qp *qp, struct ibv_context *context,
		      const struct rsiw_uresp_create_qp *resp)
{
	void *at;

	if (!(qp->features & RSIW_FEATURE_POLL) || !resp->poll_us)
		return 0;
	at = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, context->cmd_fd,
		  resp->poll_key);
	if (at == MAP_FAILED)
		return errno;
	qp->polled = at;
	return 0;
}

static int map_queues(struct rsiw_qp *qp, struct ibv_context *context,
		      const struct rsiw_uresp_create_qp *resp, bool has_srq)
{
	int ret;

	ret = rsiw_map_ring(context, &qp->sq, resp->sq_key, resp->num_sqe, qp->layout->sqe_size,
			    0);
	if (!ret)
		ret = map_polled(qp, context, resp);
	if (ret || has_srq)
		return ret;
	return rsiw_map_ring(context, &qp->rq, resp->rq_key, resp->num_rqe,
			     qp->layout->rqe_size, qp->behind_rq);
}

static bool can_create(const struct rsiw_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return false;
	return attr->qp_type == IBV_QPT_RC ||
	       (attr->qp_type == IBV_QPT_UD && ctx->features & RSIW_FEATURE_UD);
}

/*
 * Has ibv_qp_to_qp_ex() return the queue pair. That looks at the mask behind struct ibv_qp_ex, which
 * has no wr_flush in rdma-core 44. So the libibverbs of that version looks where this pointer is,
 * which nobody uses: no queue pair can flush.
 */
static void set_extended(struct verbs_qp *vqp)
{
	uint32_t mask = VERBS_QP_EX;

	vqp->comp_mask |= mask;
	memcpy(&vqp->qp_ex.wr_flush, &mask, sizeof(mask));
}

struct ibv_qp *rsiw_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct rsiw_context *ctx = to_rsiw_context(context);
	struct rsiw_create_qp_resp resp = {};
	bool is_ud = attr->qp_type == IBV_QPT_UD;
	/* The kernel does not poll for datagrams. */
	struct rsiw_create_qp cmd = { .poll_us = is_ud ? 0 : poll_us(ctx) };
	/* Without the feature the driver has no part in the request. */
	size_t cmd_size = ctx->features & RSIW_FEATURE_POLL ? sizeof(cmd) : sizeof(cmd.ibv_cmd);
	struct rsiw_qp *qp;
	int ret;

	if (!can_create(ctx, attr)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	rsiw_init_lock(&qp->sq_lock);
	rsiw_init_lock(&qp->rq_lock);
	qp->layout = ctx->layout;
	qp->features = ctx->features;
	qp->is_ud = is_ud;
	if (ctx->features & RSIW_FEATURE_FLUSH)
		qp->behind_rq = sizeof(struct rsiw_rq_ctrl);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		ret = rsiw_set_wr_functions(qp, attr->send_ops_flags);
		if (ret)
			goto fail;
	}
	ret = ibv_cmd_create_qp_ex(context, &qp->vqp, attr, &cmd.ibv_cmd, cmd_size,
				   &resp.ibv_resp, sizeof(resp));
	if (ret)
		goto fail;
	ret = map_queues(qp, context, &resp.drv_payload, attr->srq);
	if (ret) {
		/* The caller initializes these later, but the destruction uses them. */
		pthread_mutex_init(&qp->vqp.qp.mutex, NULL);
		pthread_cond_init(&qp->vqp.qp.cond, NULL);
		ibv_cmd_destroy_qp(&qp->vqp.qp);
		goto fail;
	}
	/* Not earlier, as the call above sets the mask. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		set_extended(&qp->vqp);
	qp->sig_all = attr->sq_sig_all;
	/* Whatever the kernel says, nothing may be written beyond an entry. */
	qp->max_send_sge = rsiw_smaller(attr->cap.max_send_sge, qp->layout->max_sge);
	qp->max_recv_sge = rsiw_smaller(attr->cap.max_recv_sge, qp->layout->max_sge);
	qp->max_inline = rsiw_smaller(attr->cap.max_inline_data, qp->layout->max_inline);
	set_doorbell(qp);
	return &qp->vqp.qp;

fail:
	free_qp(qp);
	errno = ret;
	return NULL;
}

struct ibv_qp *rsiw_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = rsiw_create_qp_ex(pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/* Takes out the completions: the program may have freed what they name. */
static void forget_completions(struct rsiw_qp *qp, struct ibv_qp *ibqp)
{
	/* Other drivers may have given the number to a new queue pair by now. */
	if (!(qp->features & RSIW_FEATURE_RINGS))
		return;
	rsiw_forget_qp(ibqp->send_cq, ibqp->qp_num);
	if (ibqp->recv_cq != ibqp->send_cq)
		rsiw_forget_qp(ibqp->recv_cq, ibqp->qp_num);
}

int rsiw_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct rsiw_qp *qp = to_rsiw_qp(ibqp);
	struct ibv_modify_qp cmd = {};
	int ret;

	if (attr_mask & IBV_QP_CAP && qp->features & RSIW_FEATURE_RESIZE) {
		/* As for consumers in the kernel, nothing else may change in the same call. */
		if (attr_mask != IBV_QP_CAP)
			return EINVAL;
		return rsiw_resize_qp(qp, &attr->cap);
	}
	/* Only librdmacm asks this of a QP for datagrams; the RDMA CM has none over iWARP. */
	if (qp->is_ud && attr_mask & IBV_QP_ACCESS_FLAGS)
		return EOPNOTSUPP;
	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (ret || !(attr_mask & IBV_QP_STATE))
		return ret;
	if (attr->qp_state == IBV_QPS_RTR && attr_mask & IBV_QP_AV) {
		qp->by_number = true;
	} else if (attr->qp_state == IBV_QPS_RESET) {
		/*
		 * As libraries of adapters do, whoever has connected it. The kernel has flushed
		 * or dropped all by now. Only the program takes this step: librdmacm does not.
		 */
		forget_completions(qp, ibqp);
		qp->by_number = false;
	}
	return 0;
}

int rsiw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd = {};

	return ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
}

int rsiw_destroy_qp(struct ibv_qp *ibqp)
{
	struct rsiw_qp *qp = to_rsiw_qp(ibqp);
	int ret = ibv_cmd_destroy_qp(ibqp);

	if (ret)
		return ret;
	forget_completions(qp, ibqp);
	free_qp(qp);
	return 0;
}
