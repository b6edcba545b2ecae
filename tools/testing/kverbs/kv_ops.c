// SPDX-License-Identifier: GPL-2.0
/* Posting and polling. */
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "kv.h"

#define MAX_LIST 8

union any_wr {
	struct ib_send_wr wr;
	struct ib_rdma_wr rdma;
	struct ib_reg_wr reg;
	struct rsiw_bind_mw_wr bind;
	struct ib_atomic_wr atomic;
};

static void fill(union any_wr *to, const struct kv_wr *wr)
{
	memset(to, 0, sizeof(*to));
	to->wr.wr_id = wr->id;
	to->wr.opcode = wr->op;
	to->wr.sg_list = (struct ib_sge *)wr->sge;
	to->wr.num_sge = wr->sges;
	to->wr.send_flags = wr->flags | (wr->quiet ? 0 : IB_SEND_SIGNALED);
	switch (wr->op) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		to->rdma.remote_addr = wr->remote;
		to->rdma.rkey = wr->key;
		if (wr->op == IB_WR_RDMA_READ_WITH_INV)
			to->wr.ex.invalidate_rkey = wr->sge[0].lkey;
		if (wr->op == IB_WR_RDMA_WRITE_WITH_IMM)
			to->wr.ex.imm_data = wr->imm;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		to->atomic.remote_addr = wr->remote;
		to->atomic.rkey = wr->key;
		to->atomic.compare_add = wr->compare_add;
		to->atomic.swap = wr->swap;
		to->atomic.compare_add_mask = wr->compare_add_mask;
		to->atomic.swap_mask = wr->swap_mask;
		break;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		to->wr.ex.invalidate_rkey = wr->key;
		break;
	case IB_WR_REG_MR:
		to->reg.mr = wr->mr;
		to->reg.key = wr->key;
		to->reg.access = wr->access;
		break;
	case IB_WR_BIND_MW:
		to->bind.mw = wr->mw;
		to->bind.mr = wr->mr;
		to->bind.rkey = wr->key;
		to->bind.access = wr->access;
		to->bind.addr = wr->remote;
		to->bind.length = wr->length;
		break;
	default:
		break;
	}
}

int kv_post_list(struct kv_ep *ep, const struct kv_wr *wr, int n)
{
	union any_wr any[MAX_LIST];
	int i;

	if (n > MAX_LIST)
		return -E2BIG;
	for (i = 0; i < n; i++) {
		fill(&any[i], &wr[i]);
		any[i].wr.next = i + 1 < n ? &any[i + 1].wr : NULL;
	}
	return ib_post_send(ep->qp, &any[0].wr, NULL);
}

int kv_post(struct kv_ep *ep, const struct kv_wr *wr)
{
	return kv_post_list(ep, wr, 1);
}

int kv_recv(struct kv_ep *ep, u64 id, u64 addr, u32 len, u32 key)
{
	struct ib_sge sge = { addr, len, key };
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	if (ep->srq)
		return ib_post_srq_recv(ep->srq, &wr, NULL);
	return ib_post_recv(ep->qp, &wr, NULL);
}

bool kv_wc(struct kv *k, struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);

	while (ib_poll_cq(cq, 1, wc) != 1) {
		if (time_after(jiffies, end))
			return kv_ok(k, false, "no completion");
		usleep_range(200, 1000);
	}
	return true;
}

/* What rsiw-observing.rst says of vendor_err. Other drivers have codes of their own. */
static bool kv_cause(struct kv *k, struct ib_cq *cq, const struct ib_wc *wc)
{
	u32 by = wc->vendor_err >> 16, what = wc->vendor_err & 0xffff;
	bool good;

	if (!kv_is_rsiw(cq->device))
		return true;
	switch (wc->status) {
	case IB_WC_SUCCESS:
		good = !wc->vendor_err;
		break;
	case IB_WC_WR_FLUSH_ERR:
		good = by == 1 || by == 2 || (by == 4 && what >= 1 && what <= 9);
		break;
	case IB_WC_LOC_LEN_ERR:
		good = wc->vendor_err == 0x30001;
		break;
	case IB_WC_LOC_PROT_ERR:
		good = wc->vendor_err == 0x30002;
		break;
	case IB_WC_LOC_QP_OP_ERR:
		good = wc->vendor_err == 0x30003;
		break;
	case IB_WC_MW_BIND_ERR:
		good = wc->vendor_err == 0x30004;
		break;
	case IB_WC_REM_ACCESS_ERR:
		good = by == 2 && (what >> 8 == 0x01 || what >> 8 == 0x11);
		break;
	default:
		good = by;
	}
	return kv_ok(k, good, "vendor_err %#x of %s", wc->vendor_err,
		     ib_wc_status_msg(wc->status));
}

bool kv_want(struct kv *k, struct ib_cq *cq, u64 id, u32 want)
{
	struct ib_wc wc;

	return kv_wc(k, cq, &wc) &&
	       kv_ok(k, wc.wr_id == id, "completion of %llu (%s), not %llu",
		     wc.wr_id, ib_wc_status_msg(wc.status), id) &&
	       kv_ok(k, want & BIT(wc.status), "request %llu: %s (%#x)", id,
		     ib_wc_status_msg(wc.status), wc.vendor_err) &&
	       kv_cause(k, cq, &wc);
}

bool kv_do(struct kv *k, struct kv_ep *ep, const struct kv_wr *wr, u32 want)
{
	int rv = kv_post(ep, wr);

	return kv_ok(k, !rv, "post: %d", rv) &&
	       kv_want(k, ep->scq, wr->id, want);
}

bool kv_reg(struct kv *k, struct kv_ep *ep, struct kv_mr *mr, u32 key,
	    int access, u32 want)
{
	const struct kv_wr wr = { .op = IB_WR_REG_MR, .id = 0x4e6, .mr = mr->mr,
				  .key = key, .access = access };

	return kv_do(k, ep, &wr, want);
}

bool kv_inv(struct kv *k, struct kv_ep *ep, u32 key, u32 want)
{
	const struct kv_wr wr = { .op = IB_WR_LOCAL_INV, .id = 0x1a5, .key = key };

	return kv_do(k, ep, &wr, want);
}

bool kv_read(struct kv *k, struct kv_ep *ep, struct kv_mem *m, u64 remote, u32 key,
	     u32 want)
{
	const struct kv_wr wr = { .op = IB_WR_RDMA_READ, .id = 0x5ead, KV_LOCAL(ep, m),
				  .remote = remote, .key = key };

	return kv_do(k, ep, &wr, want);
}

bool kv_send_inv(struct kv *k, struct kv_pair *p, u32 key, u32 want)
{
	return kv_ok(k, !kv_recv(&p->b, 9, 0, 0, 0), "receive") &&
	       kv_ok(k, !kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_SEND_WITH_INV, .id = 4, .key = key,
			.quiet = true }), "post") &&
	       kv_want(k, p->b.rcq, 9, want);
}

bool kv_quiet(struct kv *k, struct ib_cq *cq)
{
	struct ib_wc wc;

	msleep(KV_QUIET_MS);
	if (ib_poll_cq(cq, 1, &wc) != 1)
		return true;
	return kv_ok(k, false, "request %llu completes: %s", wc.wr_id,
		     ib_wc_status_msg(wc.status));
}

bool kv_events(struct kv *k, struct kv_ep *ep, enum ib_event_type event, int n)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);

	while (atomic_read(&ep->events[event]) < n && time_before(jiffies, end))
		msleep(20);
	msleep(KV_QUIET_MS);
	return kv_ok(k, atomic_read(&ep->events[event]) == n,
		     "%d of event %s", atomic_read(&ep->events[event]),
		     ib_event_msg(event));
}

bool kv_state(struct kv *k, struct kv_ep *ep, enum ib_qp_state want)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int rv;

	do {
		rv = ib_query_qp(ep->qp, &attr, IB_QP_STATE, &init);
		if (rv)
			return kv_ok(k, false, "query: %d", rv);
		if (attr.qp_state == want)
			return true;
		usleep_range(500, 2000);
	} while (time_before(jiffies, end));
	return kv_ok(k, false, "state %d instead of %d", attr.qp_state, want);
}

int kv_modify(struct kv_ep *ep, enum ib_qp_state to)
{
	struct ib_qp_attr attr = { .qp_state = to };

	return ib_modify_qp(ep->qp, &attr, IB_QP_STATE);
}

bool kv_counter(struct kv *k, struct ib_device *dev, const char *name,
		u64 *value)
{
	const struct ib_device_ops *ops = &dev->ops;
	struct rdma_hw_stats *stats;
	int i, rv;

	*value = KV_NO_COUNTER;
	if (!ops->alloc_hw_port_stats || !ops->get_hw_stats)
		return true;
	stats = ops->alloc_hw_port_stats(dev, 1);
	if (!kv_ok(k, stats, "no memory for counters"))
		return false;
	rv = ops->get_hw_stats(dev, stats, 1, stats->num_counters);
	for (i = 0; rv >= 0 && i < stats->num_counters; i++)
		if (!strcmp(stats->descs[i].name, name))
			*value = stats->value[i];
	rdma_free_hw_stats_struct(stats);
	return kv_ok(k, rv >= 0, "counters: %d", rv);
}

bool kv_calls(struct kv *k, struct kv_ep *ep, int want)
{
	unsigned long end = jiffies + msecs_to_jiffies(KV_WAIT_MS);
	int got;

	while (atomic_read(&ep->calls) < want && time_before(jiffies, end))
		usleep_range(500, 1000);
	msleep(KV_QUIET_MS);
	got = atomic_read(&ep->calls);
	return kv_ok(k, got == want, "called %d times, not %d", got, want);
}
