// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The send queue: requests are written into their entries one by one, and marked valid
 * together. Then the kernel is called. No call is needed while the kernel still has to take
 * the entry in front of them, or polls the queue by itself: in both cases it looks at the
 * next entry before it stops.
 *
 * The entry in front may be that of another thread, which has not called yet, and may not
 * call for a long time, as it may be kept from running. Then the kernel is called all the
 * same. No thread is cancelled between its post and its call.
 */
#include <errno.h>
#include <unistd.h>

#include "rsiw.h"

/* What data a request has. */
enum form {
	NO_FORM,		/* not a request */
	LOCAL,			/* no elements */
	SOURCE,			/* elements, or inline octets */
	SINK,			/* one element */
	WORD,			/* one element of eight octets */
};

static const struct {
	uint8_t form;
	uint8_t opcode;
	uint16_t feature;	/* that it needs, if any */
} operations[] = {
	[IBV_WR_RDMA_WRITE] = { SOURCE, SIW_OP_WRITE },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { SOURCE, RSIW_OP_WRITE_WITH_IMM, RSIW_FEATURE_IMM },
	[IBV_WR_SEND] = { SOURCE, SIW_OP_SEND },
	[IBV_WR_SEND_WITH_IMM] = { SOURCE, RSIW_OP_SEND_WITH_IMM, RSIW_FEATURE_SEND_IMM },
	[IBV_WR_RDMA_READ] = { SINK, SIW_OP_READ },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { WORD, SIW_OP_COMP_AND_SWAP, RSIW_FEATURE_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { WORD, SIW_OP_FETCH_AND_ADD, RSIW_FEATURE_ATOMIC },
	[IBV_WR_LOCAL_INV] = { LOCAL, SIW_OP_INVAL_STAG, RSIW_FEATURE_WINDOWS },
	[IBV_WR_BIND_MW] = { LOCAL, RSIW_OP_BIND_MW, RSIW_FEATURE_WINDOWS },
	[IBV_WR_SEND_WITH_INV] = { SOURCE, SIW_OP_SEND_REMOTE_INV },
};

#define ATOMIC_LEN 8

static struct rsiw_sge *elements_of(struct rsiw_qp *qp, struct rsiw_sqe *sqe)
{
	return (void *)((uint8_t *)sqe + qp->layout->sqe_sge);
}

static uint32_t *inline_length_of(struct rsiw_qp *qp, struct rsiw_sqe *sqe)
{
	return (void *)((uint8_t *)sqe + qp->layout->sqe_inline_length);
}

/* Begins a request in the next entry. Returns NULL if the queue is full. */
struct rsiw_sqe *rsiw_stage(struct rsiw_qp *qp, uint64_t wr_id, uint8_t opcode,
			    unsigned int send_flags)
{
	struct rsiw_sqe *sqe = rsiw_entry(&qp->sq, qp->sq.next + qp->staged);
	uint16_t flags = 0;

	if (qp->staged > qp->sq.mask || rsiw_flags(sqe) & SIW_WQE_VALID)
		return NULL;
	if (qp->sig_all || send_flags & IBV_SEND_SIGNALED)
		flags |= SIW_WQE_SIGNALLED;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= SIW_WQE_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= SIW_WQE_READ_FENCE;
	sqe->id = wr_id;
	sqe->opcode = opcode;
	sqe->num_sge = 0;
	sqe->rkey = 0;
	sqe->raddr = 0;
	/* The kernel heeds the flags only once they say that the entry is valid. */
	sqe->flags = flags;
	*inline_length_of(qp, sqe) = 0;
	qp->staged++;
	return sqe;
}

int rsiw_set_elements(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const struct ibv_sge *sge,
		      size_t count)
{
	struct rsiw_sge *to = elements_of(qp, sqe);
	size_t i;

	if (count > qp->max_send_sge)
		return EINVAL;
	for (i = 0; i < count; i++)
		to[i] = (struct rsiw_sge){ sge[i].addr, sge[i].length, sge[i].lkey };
	sqe->num_sge = count;
	sqe->flags &= ~SIW_WQE_INLINE;
	return 0;
}

/* Gives the request inline octets instead of elements; there are none so far. */
void rsiw_begin_inline(struct rsiw_qp *qp, struct rsiw_sqe *sqe)
{
	sqe->num_sge = 1;
	sqe->flags |= SIW_WQE_INLINE;
	*inline_length_of(qp, sqe) = 0;
	qp->inline_len = 0;
}

/*
 * Appends inline octets. They are counted outside of the entry, too: in a stock entry
 * the count is in the place of an element.
 */
int rsiw_add_inline(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const void *data, size_t len)
{
	if (len > qp->max_inline - qp->inline_len)
		return EINVAL;
	memcpy((uint8_t *)sqe + qp->layout->sqe_data + qp->inline_len, data, len);
	qp->inline_len += len;
	*inline_length_of(qp, sqe) = qp->inline_len;
	return 0;
}

int rsiw_set_bind(struct rsiw_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info)
{
	/* A window of type 1 may be left bound to nothing. */
	if (!info->mr && info->length)
		return EINVAL;
	sqe->rkey = rkey;
	sqe->raddr = info->addr;
	sqe->bind.window = mw->rkey;
	sqe->bind.region = info->mr ? info->mr->lkey : 0;
	sqe->bind.length = info->length;
	sqe->bind.access = info->mw_access_flags;
	return 0;
}

/* Whether the kernel polls the queue by itself. */
static bool is_polled(const struct rsiw_qp *qp)
{
	return qp->polled && __atomic_load_n(qp->polled, __ATOMIC_RELAXED);
}

/*
 * Whether the kernel knows of the last request for which it has to be called: that call has
 * returned, or the kernel has taken the request. From then on, the kernel looks behind each
 * entry that it takes at the next one, before it stops.
 */
static bool is_called(const struct rsiw_qp *qp)
{
	const struct rsiw_sqe *sqe = rsiw_entry(&qp->sq, qp->owed_at);

	if (__atomic_load_n(&qp->called, __ATOMIC_RELAXED) == qp->owed)
		return true;
	return !(rsiw_flags(sqe) & SIW_WQE_VALID);
}

/* Lets the kernel see what was staged. Returns whether it is to be called. */
bool rsiw_publish(struct rsiw_qp *qp)
{
	uint32_t first = qp->sq.next, count = qp->staged, i;
	struct rsiw_sqe *sqe;

	if (!count)
		return false;
	for (i = 0; i < count; i++) {
		sqe = rsiw_entry(&qp->sq, first + i);
		rsiw_set_flags(sqe, sqe->flags | SIW_WQE_VALID);
	}
	qp->sq.next += count;
	qp->staged = 0;
	/*
	 * The kernel clears an entry, then looks at the next; we fill an entry, then
	 * look at the one in front. One of the two sees the other. If all entries are
	 * new, the one in front is one of them and says nothing.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	sqe = rsiw_entry(&qp->sq, first - 1);
	if (count <= qp->sq.mask && rsiw_flags(sqe) & SIW_WQE_VALID && is_called(qp))
		return false;
	/* Likewise, the kernel clears this word, then looks at the queue once more. */
	if (is_polled(qp))
		return false;
	qp->owed_at = first;
	/*
	 * Behind the barrier above: if somebody sees this and calls, the kernel sees the entries.
	 */
	__atomic_store_n(&qp->owed, qp->owed + 1, __ATOMIC_RELAXED);
	return true;
}

/*
 * Calls the kernel. It may have taken the requests already, so a post that has got
 * here is refused only if the queue pair is gone with its device.
 *
 * write() is the fastest way, but fails in threads whose credentials are not those with
 * which the device was opened. libibverbs knows another way. In both ways a thread could be
 * cancelled before the kernel knows of what the thread has posted.
 */
static int call_kernel(struct rsiw_qp *qp)
{
	struct ibv_send_wr *bad_wr;
	int ret = 0, cancels;
	ssize_t n;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	n = write(qp->vqp.qp.context->cmd_fd, &qp->doorbell, sizeof(qp->doorbell));
	if (n != sizeof(qp->doorbell)) {
		do
			ret = ibv_cmd_post_send(&qp->vqp.qp, NULL, &bad_wr);
		while (ret == EINTR || ret == ENOMEM);
	}
	pthread_setcancelstate(cancels, NULL);
	return ret;
}

/* Rings for all that was posted before, by whatever thread. */
int rsiw_ring_doorbell(struct rsiw_qp *qp)
{
	uint32_t owed = __atomic_load_n(&qp->owed, __ATOMIC_ACQUIRE);
	int ret = call_kernel(qp);

	if (!ret)
		__atomic_store_n(&qp->called, owed, __ATOMIC_RELAXED);
	return ret;
}

static int set_data(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const struct ibv_send_wr *wr,
		    enum form form)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (form == LOCAL)
		return 0;
	if (wr->num_sge < 0)
		return EINVAL;
	switch (form) {
	case SOURCE:
		if (is_inline)
			return rsiw_add_inline_list(qp, sqe, wr);
		break;
	case SINK:
		/* A modifier that does not apply is ignored. */
		if (wr->num_sge > 1)
			return EINVAL;
		break;
	default:
		if (wr->num_sge != 1 || wr->sg_list->length != ATOMIC_LEN)
			return EINVAL;
	}
	return rsiw_set_elements(qp, sqe, wr->sg_list, wr->num_sge);
}

static int set_operands(struct rsiw_qp *qp, struct rsiw_sqe *sqe,
			const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		if (!qp->by_number)
			return EOPNOTSUPP;
		sqe->imm.data = (uint32_t)wr->imm_data;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		sqe->imm.data = (uint32_t)wr->imm_data;
		/* fall through */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		sqe->rkey = wr->wr.rdma.rkey;
		sqe->raddr = wr->wr.rdma.remote_addr;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		sqe->rkey = wr->wr.atomic.rkey;
		sqe->raddr = wr->wr.atomic.remote_addr;
		sqe->atomic.compare_add = wr->wr.atomic.compare_add;
		sqe->atomic.swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_SEND_WITH_INV:
		/* siw's own library looks at wr.rdma.rkey, and programs rely on that. */
		sqe->rkey = wr->invalidate_rkey ? wr->invalidate_rkey : wr->wr.rdma.rkey;
		break;
	case IBV_WR_LOCAL_INV:
		sqe->rkey = wr->invalidate_rkey;
		break;
	case IBV_WR_BIND_MW:
		if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		return rsiw_set_bind(sqe, wr->bind_mw.mw, wr->bind_mw.rkey,
				     &wr->bind_mw.bind_info);
	default:
		break;
	}
	return 0;
}

static int stage_wr(struct rsiw_qp *qp, const struct ibv_send_wr *wr)
{
	unsigned int opcode = wr->opcode;
	struct rsiw_sqe *sqe;
	enum form form;
	int ret;

	if (opcode >= sizeof(operations) / sizeof(operations[0]))
		return EINVAL;
	form = operations[opcode].form;
	if (form == NO_FORM || operations[opcode].feature & ~qp->features)
		return EINVAL;
	sqe = rsiw_stage(qp, wr->wr_id, operations[opcode].opcode, wr->send_flags);
	if (!sqe)
		return ENOMEM;
	ret = set_operands(qp, sqe, wr);
	if (!ret)
		ret = set_data(qp, sqe, wr, form);
	if (ret)
		qp->staged--;
	return ret;
}

int rsiw_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct rsiw_qp *qp = to_rsiw_qp(ibqp);
	struct ibv_send_wr *first = wr;
	int ret = 0, rung = 0;
	bool call;

	if (rsiw_is_reset(qp)) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_mutex_lock(&qp->sq_lock);
	for (; wr; wr = wr->next) {
		ret = qp->is_ud ? rsiw_stage_datagram(qp, wr) : stage_wr(qp, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	call = rsiw_publish(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	if (call)
		rung = rsiw_ring_doorbell(qp);
	if (rung && !ret) {
		*bad_wr = first;
		ret = rung;
	}
	return ret;
}

int rsiw_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct rsiw_qp *qp = to_rsiw_qp(ibqp);
	struct rsiw_sqe *sqe;
	bool call = false;
	int ret = ENOMEM;

	if (qp->is_ud || rsiw_is_reset(qp))
		return EINVAL;
	pthread_mutex_lock(&qp->sq_lock);
	sqe = rsiw_stage(qp, bind->wr_id, RSIW_OP_BIND_MW, bind->send_flags);
	if (sqe) {
		ret = rsiw_set_bind(sqe, mw, rkey, &bind->bind_info);
		if (ret)
			qp->staged--;
		call = rsiw_publish(qp);
	}
	pthread_mutex_unlock(&qp->sq_lock);
	if (call)
		ret = rsiw_ring_doorbell(qp);
	if (!ret)
		mw->rkey = rkey;
	return ret;
}
