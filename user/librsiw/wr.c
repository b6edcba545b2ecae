// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The functions of struct ibv_qp_ex (ibv_wr_send and so on). Between wr_start and
 * wr_complete the send queue is locked. The first error is returned, and drops all
 * requests. Of several functions that set the data of a request, the last one counts.
 */
#include "rsiw.h"

/* Operations that need no feature of the kernel, and Atomic Operations, which need one. */
#define ALWAYS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | \
		IBV_QP_EX_WITH_SEND_WITH_INV)
#define ATOMICS (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static void fail(struct rsiw_qp *qp, int error)
{
	if (error && !qp->error)
		qp->error = error;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	pthread_mutex_lock(&qp->sq_lock);
	qp->current = NULL;
	qp->error = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);
	int ret = qp->error;
	bool call;

	if (!ret && rsiw_is_reset(qp))
		ret = EINVAL;
	if (ret)
		qp->staged = 0;
	qp->current = NULL;
	call = rsiw_publish(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	return call ? rsiw_ring_doorbell(qp) : ret;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	qp->current = NULL;
	qp->staged = 0;
	pthread_mutex_unlock(&qp->sq_lock);
}

static struct rsiw_sqe *begin(struct ibv_qp_ex *ex, uint8_t opcode)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	qp->current = rsiw_stage(qp, ex->wr_id, opcode, ex->wr_flags);
	if (!qp->current)
		fail(qp, ENOMEM);
	return qp->current;
}

static struct rsiw_sqe *begin_remote(struct ibv_qp_ex *ex, uint8_t opcode, uint32_t rkey,
				     uint64_t remote_addr)
{
	struct rsiw_sqe *sqe = begin(ex, opcode);

	if (sqe) {
		sqe->rkey = rkey;
		sqe->raddr = remote_addr;
	}
	return sqe;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, SIW_OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);
	struct rsiw_sqe *sqe = begin(ex, RSIW_OP_SEND_WITH_IMM);

	if (sqe)
		sqe->imm.data = (uint32_t)imm_data;
	if (!qp->by_number)
		fail(qp, EOPNOTSUPP);
}

/* A datagram that was begun before has to have an address by now. */
static void check_address(struct rsiw_qp *qp)
{
	if (qp->current && qp->lacks_address)
		fail(qp, EINVAL);
}

static struct rsiw_sqe *begin_datagram(struct ibv_qp_ex *ex, uint8_t opcode)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	check_address(qp);
	qp->lacks_address = true;
	return begin(ex, opcode);
}

static void wr_send_datagram(struct ibv_qp_ex *ex)
{
	begin_datagram(ex, SIW_OP_SEND);
}

static void wr_send_datagram_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct rsiw_sqe *sqe = begin_datagram(ex, RSIW_OP_SEND_WITH_IMM);

	if (sqe)
		sqe->rkey = (uint32_t)imm_data;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	if (!qp->current || !ah) {
		fail(qp, EINVAL);
		return;
	}
	rsiw_set_address(qp->current, ah, remote_qpn, remote_qkey);
	qp->lacks_address = false;
}

static int wr_complete_datagrams(struct ibv_qp_ex *ex)
{
	check_address(to_rsiw_qp_ex(ex));
	return wr_complete(ex);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin_remote(ex, SIW_OP_SEND_REMOTE_INV, invalidate_rkey, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, SIW_OP_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct rsiw_sqe *sqe = begin_remote(ex, RSIW_OP_WRITE_WITH_IMM, rkey, remote_addr);

	if (sqe)
		sqe->imm.data = (uint32_t)imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, SIW_OP_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct rsiw_sqe *sqe = begin_remote(ex, SIW_OP_COMP_AND_SWAP, rkey, remote_addr);

	if (sqe) {
		sqe->atomic.compare_add = compare;
		sqe->atomic.swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct rsiw_sqe *sqe = begin_remote(ex, SIW_OP_FETCH_AND_ADD, rkey, remote_addr);

	if (sqe) {
		sqe->atomic.compare_add = add;
		sqe->atomic.swap = 0;
	}
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin_remote(ex, SIW_OP_INVAL_STAG, invalidate_rkey, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct rsiw_sqe *sqe = begin(ex, RSIW_OP_BIND_MW);

	if (sqe)
		fail(to_rsiw_qp_ex(ex), mw->type == IBV_MW_TYPE_2 ?
		     rsiw_set_bind(sqe, mw, rkey, info) : EINVAL);
}

/* Returns whether the request that was begun may have these elements. */
static bool takes_elements(const struct rsiw_sqe *sqe, const struct ibv_sge *sge, size_t count)
{
	switch (sqe->opcode) {
	case SIW_OP_READ:
		return count <= 1;
	case SIW_OP_COMP_AND_SWAP:
	case SIW_OP_FETCH_AND_ADD:
		return count == 1 && sge->length == sizeof(uint64_t);
	case SIW_OP_INVAL_STAG:
	case RSIW_OP_BIND_MW:
		return false;
	default:
		return true;
	}
}

/* Returns whether the request may have inline octets in the place of elements. */
static bool takes_octets(const struct rsiw_sqe *sqe)
{
	switch (sqe->opcode) {
	case SIW_OP_SEND:
	case RSIW_OP_SEND_WITH_IMM:
	case SIW_OP_SEND_REMOTE_INV:
	case SIW_OP_WRITE:
	case RSIW_OP_WRITE_WITH_IMM:
		return true;
	default:
		return false;
	}
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);

	if (qp->current && takes_elements(qp->current, sg_list, num_sge))
		fail(qp, rsiw_set_elements(qp, qp->current, sg_list, num_sge));
	else
		fail(qp, EINVAL);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(ex);
	size_t i;

	if (!qp->current || !takes_octets(qp->current)) {
		fail(qp, EINVAL);
		return;
	}
	rsiw_begin_inline(qp, qp->current);
	for (i = 0; i < num_buf; i++)
		fail(qp, rsiw_add_inline(qp, qp->current, buf_list[i].addr, buf_list[i].length));
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void set_common_functions(struct ibv_qp_ex *ex)
{
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

static int set_datagram_functions(struct ibv_qp_ex *ex, uint64_t ops)
{
	if (ops & ~(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM))
		return EOPNOTSUPP;

	set_common_functions(ex);
	ex->wr_complete = wr_complete_datagrams;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send_datagram;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_datagram_imm;
	return 0;
}

/* Offers the operations that the program wants. */
int rsiw_set_wr_functions(struct rsiw_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
	uint64_t can = ALWAYS;

	if (qp->is_ud)
		return set_datagram_functions(ex, ops);
	if (qp->features & RSIW_FEATURE_IMM)
		can |= IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (qp->features & RSIW_FEATURE_SEND_IMM)
		can |= IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (qp->features & RSIW_FEATURE_ATOMIC)
		can |= ATOMICS;
	if (qp->features & RSIW_FEATURE_WINDOWS)
		can |= IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
	if (ops & ~can)
		return EOPNOTSUPP;

	set_common_functions(ex);
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
	return 0;
}
