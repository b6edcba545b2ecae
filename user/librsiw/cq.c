// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues. The kernel fills entries in order and marks them valid; the
 * library clears the mark once it has read them. They share no index.
 */
#include <stdlib.h>
#include <string.h>

#include "rsiw.h"

#define TIMESTAMPS (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
		    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/* For operations of which there are no completions. */
#define UNKNOWN (-1)

static const int8_t wc_status[] = {
	[SIW_WC_SUCCESS] = IBV_WC_SUCCESS,
	[SIW_WC_LOC_LEN_ERR] = IBV_WC_LOC_LEN_ERR,
	[SIW_WC_LOC_PROT_ERR] = IBV_WC_LOC_PROT_ERR,
	[SIW_WC_LOC_QP_OP_ERR] = IBV_WC_LOC_QP_OP_ERR,
	[SIW_WC_WR_FLUSH_ERR] = IBV_WC_WR_FLUSH_ERR,
	[SIW_WC_BAD_RESP_ERR] = IBV_WC_BAD_RESP_ERR,
	[SIW_WC_LOC_ACCESS_ERR] = IBV_WC_LOC_ACCESS_ERR,
	[SIW_WC_REM_ACCESS_ERR] = IBV_WC_REM_ACCESS_ERR,
	[SIW_WC_REM_INV_REQ_ERR] = IBV_WC_REM_INV_REQ_ERR,
	[SIW_WC_GENERAL_ERR] = IBV_WC_GENERAL_ERR,
	[RSIW_WC_MW_BIND_ERR] = IBV_WC_MW_BIND_ERR,
	[RSIW_WC_RETRY_EXC_ERR] = IBV_WC_RETRY_EXC_ERR,
	[RSIW_WC_RNR_RETRY_EXC_ERR] = IBV_WC_RNR_RETRY_EXC_ERR,
	[RSIW_WC_REM_OP_ERR] = IBV_WC_REM_OP_ERR,
};

static const int16_t wc_opcode[] = {
	[SIW_OP_WRITE] = IBV_WC_RDMA_WRITE,
	[SIW_OP_READ] = IBV_WC_RDMA_READ,
	[SIW_OP_READ_LOCAL_INV] = IBV_WC_RDMA_READ,
	[SIW_OP_SEND] = IBV_WC_SEND,
	[SIW_OP_SEND_WITH_IMM] = IBV_WC_SEND,
	[SIW_OP_SEND_REMOTE_INV] = IBV_WC_SEND,
	[SIW_OP_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[SIW_OP_COMP_AND_SWAP] = IBV_WC_COMP_SWAP,
	[SIW_OP_RECEIVE] = IBV_WC_RECV,
	[SIW_OP_READ_RESPONSE] = UNKNOWN,
	[SIW_OP_INVAL_STAG] = IBV_WC_LOCAL_INV,
	[SIW_OP_REG_MR] = UNKNOWN,
	[RSIW_OP_BIND_MW] = IBV_WC_BIND_MW,
	[RSIW_OP_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
};

static bool has_opcode(const struct rsiw_cqe *cqe)
{
	return cqe->opcode < sizeof(wc_opcode) / sizeof(wc_opcode[0]) &&
	       wc_opcode[cqe->opcode] != UNKNOWN;
}

static enum ibv_wc_opcode opcode_of(const struct rsiw_cqe *cqe)
{
	if (!has_opcode(cqe))
		return IBV_WC_SEND;
	if (cqe->opcode == SIW_OP_RECEIVE && cqe->flags & RSIW_CQE_WITH_IMM &&
	    !(cqe->flags & RSIW_CQE_OF_SEND))
		return IBV_WC_RECV_RDMA_WITH_IMM;
	return wc_opcode[cqe->opcode];
}

/* A status or an operation that the library does not know counts as an error. */
static enum ibv_wc_status status_of(const struct rsiw_cqe *cqe)
{
	if (!has_opcode(cqe) || cqe->status >= sizeof(wc_status) / sizeof(wc_status[0]))
		return IBV_WC_GENERAL_ERR;
	return wc_status[cqe->status];
}

static unsigned int flags_of(const struct rsiw_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & SIW_WQE_REM_INVAL)
		flags |= IBV_WC_WITH_INV;
	if (cqe->flags & RSIW_CQE_WITH_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & RSIW_CQE_OF_DATAGRAM)
		flags |= IBV_WC_GRH;
	return flags;
}

/* Stock entries have neither the number nor the flag. */
static uint32_t src_qp_of(const struct rsiw_cqe *cqe)
{
	return cqe->flags & RSIW_CQE_OF_DATAGRAM ? cqe->src_qp : 0;
}

/* Returns the oldest completion, which stays in the queue. */
static struct rsiw_cqe *oldest(struct rsiw_cq *cq)
{
	struct rsiw_cqe *cqe = rsiw_entry(&cq->ring, cq->ring.next);

	return rsiw_flags(cqe) & SIW_WQE_VALID ? cqe : NULL;
}

static void take(struct rsiw_cq *cq, struct rsiw_cqe *cqe)
{
	rsiw_set_flags(cqe, 0);
	cq->ring.next++;
}

/*
 * Takes out the completions of a queue pair that is destroyed or reset: the program may have
 * freed what they name. The kernel adds no more of them. The kernel alone knows where it puts
 * the next completion. So the other completions move to the end of what waits, and keep their
 * order.
 */
void rsiw_forget_qp(struct ibv_cq *ibcq, uint32_t qp_num)
{
	struct rsiw_cq *cq = to_rsiw_cq(ibcq);
	struct rsiw_ring *ring = &cq->ring;
	uint32_t waiting = 0, taken = 0;
	struct rsiw_cqe *cqe;

	pthread_mutex_lock(&cq->lock);
	for (; waiting <= ring->mask; waiting++) {
		cqe = rsiw_entry(ring, ring->next + waiting);
		if (!(rsiw_flags(cqe) & SIW_WQE_VALID))
			break;
	}
	while (waiting--) {
		cqe = rsiw_entry(ring, ring->next + waiting);
		if (cqe->qp_id == qp_num)
			taken++;
		else if (taken)
			memcpy(rsiw_entry(ring, ring->next + waiting + taken), cqe,
			       ring->entry_size);
	}
	while (taken--)
		take(cq, rsiw_entry(ring, ring->next));
	pthread_mutex_unlock(&cq->lock);
}

int rsiw_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct rsiw_cq *cq = to_rsiw_cq(ibcq);
	struct rsiw_cqe *cqe;
	int n;

	pthread_mutex_lock(&cq->lock);
	for (n = 0; n < num_entries; n++, wc++) {
		cqe = oldest(cq);
		if (!cqe)
			break;
		*wc = (struct ibv_wc){
			.wr_id = cqe->id,
			.status = status_of(cqe),
			.opcode = opcode_of(cqe),
			.vendor_err = cqe->vendor_err,
			.byte_len = cqe->bytes,
			.invalidated_rkey = cqe->data,
			.qp_num = cqe->qp_id,
			.src_qp = src_qp_of(cqe),
			.wc_flags = flags_of(cqe),
		};
		take(cq, cqe);
	}
	pthread_mutex_unlock(&cq->lock);
	return n;
}

static int show(struct rsiw_cq *cq)
{
	struct rsiw_cqe *cqe = oldest(cq);

	if (!cqe)
		return ENOENT;
	cq->current = cqe;
	cq->vcq.cq_ex.status = status_of(cqe);
	cq->vcq.cq_ex.wr_id = cqe->id;
	return 0;
}

static void done(struct rsiw_cq *cq)
{
	if (cq->current)
		take(cq, cq->current);
	cq->current = NULL;
}

static int rsiw_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&cq->lock);
	ret = show(cq);
	/* Without a completion the caller does not call end_poll. */
	if (ret)
		pthread_mutex_unlock(&cq->lock);
	return ret;
}

static int rsiw_next_poll(struct ibv_cq_ex *ibcq)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(ibcq);

	done(cq);
	return show(cq);
}

static void rsiw_end_poll(struct ibv_cq_ex *ibcq)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(ibcq);

	done(cq);
	pthread_mutex_unlock(&cq->lock);
}

static enum ibv_wc_opcode rsiw_read_opcode(struct ibv_cq_ex *cq)
{
	return opcode_of(to_rsiw_cq_ex(cq)->current);
}

static uint32_t rsiw_read_vendor_err(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->vendor_err;
}

static unsigned int rsiw_read_wc_flags(struct ibv_cq_ex *cq)
{
	return flags_of(to_rsiw_cq_ex(cq)->current);
}

static uint32_t rsiw_read_byte_len(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->bytes;
}

static __be32 rsiw_read_imm_data(struct ibv_cq_ex *cq)
{
	/* Also the key that was invalidated: this function reads either. */
	return (__be32)(uint32_t)to_rsiw_cq_ex(cq)->current->data;
}

static uint32_t rsiw_read_qp_num(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->qp_id;
}

static uint32_t rsiw_read_src_qp(struct ibv_cq_ex *cq)
{
	return src_qp_of(to_rsiw_cq_ex(cq)->current);
}

/* For what only packets of InfiniBand have. */
static uint32_t rsiw_read_no_number(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint8_t rsiw_read_no_octet(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint64_t rsiw_read_timestamp(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->timestamp;
}

static uint64_t rsiw_read_wallclock(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->wallclock;
}

static void set_functions(struct rsiw_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;
	uint64_t wants = cq->wc_flags;

	ex->start_poll = rsiw_start_poll;
	ex->next_poll = rsiw_next_poll;
	ex->end_poll = rsiw_end_poll;
	ex->read_opcode = rsiw_read_opcode;
	ex->read_vendor_err = rsiw_read_vendor_err;
	ex->read_wc_flags = rsiw_read_wc_flags;
	if (wants & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = rsiw_read_byte_len;
	if (wants & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = rsiw_read_imm_data;
	if (wants & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = rsiw_read_qp_num;
	if (wants & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = rsiw_read_src_qp;
	if (wants & IBV_WC_EX_WITH_SLID)
		ex->read_slid = rsiw_read_no_number;
	if (wants & IBV_WC_EX_WITH_SL)
		ex->read_sl = rsiw_read_no_octet;
	if (wants & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = rsiw_read_no_octet;
	if (wants & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = rsiw_read_timestamp;
	if (wants & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = rsiw_read_wallclock;
}

static int map(struct rsiw_cq *cq, struct ibv_context *context,
	       const struct siw_uresp_create_cq *resp)
{
	int ret = rsiw_map_ring(context, &cq->ring, resp->cq_key, resp->num_cqe,
				to_rsiw_context(context)->layout->cqe_size,
				sizeof(struct siw_cq_ctrl));

	if (!ret)
		cq->ctrl = rsiw_behind(&cq->ring);
	return ret;
}

static struct rsiw_cq *new_cq(void)
{
	struct rsiw_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	rsiw_init_lock(&cq->lock);
	rsiw_init_lock(&cq->ctrl_lock);
	return cq;
}

static void free_cq(struct rsiw_cq *cq)
{
	rsiw_unmap_ring(&cq->ring);
	pthread_mutex_destroy(&cq->ctrl_lock);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
}

/* Gives a queue back that cannot be used, for the reason in errno. */
static void abandon(struct rsiw_cq *cq, struct ibv_context *context)
{
	int why = errno;

	verbs_init_cq(&cq->vcq.cq, context, NULL, NULL);
	ibv_cmd_destroy_cq(&cq->vcq.cq);
	errno = why;
}

struct ibv_cq *rsiw_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	struct rsiw_create_cq_resp resp = {};
	struct rsiw_create_cq cmd = {};
	struct rsiw_cq *cq = new_cq();

	if (!cq)
		return NULL;
	errno = ibv_cmd_create_cq(context, cqe, channel, comp_vector, &cq->vcq.cq, &cmd.ibv_cmd,
				  sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (errno)
		goto fail;
	errno = map(cq, context, &resp.drv_payload);
	if (!errno)
		return &cq->vcq.cq;
	abandon(cq, context);
fail:
	free_cq(cq);
	return NULL;
}

struct ibv_cq_ex *rsiw_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint64_t can = IBV_WC_STANDARD_FLAGS;
	struct rsiw_create_cq_ex_resp resp = {};
	struct rsiw_create_cq_ex cmd = {};
	struct rsiw_cq *cq;

	if (to_rsiw_context(context)->features & RSIW_FEATURE_TIMESTAMP)
		can |= TIMESTAMPS;
	if (attr->wc_flags & ~can) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = new_cq();
	if (!cq)
		return NULL;
	cq->wc_flags = attr->wc_flags;
	errno = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, &cmd.ibv_cmd, sizeof(cmd),
				     &resp.ibv_resp, sizeof(resp), 0);
	if (errno)
		goto fail;
	errno = map(cq, context, &resp.drv_payload);
	if (errno) {
		abandon(cq, context);
		goto fail;
	}
	set_functions(cq);
	return &cq->vcq.cq_ex;

fail:
	free_cq(cq);
	return NULL;
}

int rsiw_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct rsiw_context *ctx = to_rsiw_context(ibcq->context);
	struct rsiw_cq *cq = to_rsiw_cq(ibcq);
	struct rsiw_resize_cq_resp resp = {};
	struct rsiw_resize_cq cmd = {};
	struct rsiw_ring ring = {}, old;
	bool has_steps = ctx->features & RSIW_FEATURE_RESIZE_STEPS;
	int ret;

	if (cqe < 1)
		return EINVAL;
	if (has_steps)
		cmd.flags = RSIW_RESIZE_MAKE;
	pthread_mutex_lock(&cq->lock);
	pthread_mutex_lock(&cq->ctrl_lock);
	ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp));
	/* In one step, with stock rings, a failure of this loses the queue. */
	if (!ret)
		ret = rsiw_map_ring(ibcq->context, &ring, resp.cq_key, resp.num_cqe,
				    ctx->layout->cqe_size, sizeof(struct siw_cq_ctrl));
	if (!ret && has_steps) {
		cmd.flags = RSIW_RESIZE_MOVE;
		ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
					sizeof(resp));
	}
	if (!ret) {
		/* What was not polled is at the beginning of the new ring. */
		old = cq->ring;
		cq->ring = ring;
		cq->ctrl = rsiw_behind(&cq->ring);
		ring = old;
	}
	pthread_mutex_unlock(&cq->ctrl_lock);
	pthread_mutex_unlock(&cq->lock);
	rsiw_unmap_ring(&ring);
	return ret;
}

int rsiw_destroy_cq(struct ibv_cq *ibcq)
{
	int ret = ibv_cmd_destroy_cq(ibcq);

	if (!ret)
		free_cq(to_rsiw_cq(ibcq));
	return ret;
}

/*
 * The kernel adds a completion, then reads this word; the program sets this word, then
 * polls once more. Both have a full barrier in between, so that one of the two sees the
 * other. The atomic operation alone need not order what follows it.
 */
int rsiw_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct rsiw_cq *cq = to_rsiw_cq(ibcq);
	uint32_t flags = SIW_NOTIFY_SOLICITED;

	if (!solicited_only)
		flags |= SIW_NOTIFY_NEXT_COMPLETION;
	pthread_mutex_lock(&cq->ctrl_lock);
	__atomic_fetch_or(&cq->ctrl->flags, flags, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&cq->ctrl_lock);
	return 0;
}
