// SPDX-License-Identifier: GPL-2.0
/*
 * What is kept apart: the objects of devices, local and remote rights, requests
 * about memory and the wire.
 */
#include <linux/delay.h>
#include <linux/netdevice.h>
#include <net/net_namespace.h>

#include "kv.h"

#define LEN 64
#define ROUNDS 100

static void put_device_of(void *obj)
{
	ib_device_put(obj);
}

/* Another device of this driver, on whatever interface. */
static struct ib_device *other_device(struct kv *k, struct ib_device *dev)
{
	struct ib_device *found = NULL;
	struct net_device *netdev;
	struct net *net;

	down_read(&net_rwsem);
	rcu_read_lock();
	for_each_net(net)
		for_each_netdev_rcu(net, netdev) {
			if (found)
				break;
			found = ib_device_get_by_netdev(netdev,
							dev->ops.driver_id);
			if (found != dev)
				continue;
			ib_device_put(found);
			found = NULL;
		}
	rcu_read_unlock();
	up_read(&net_rwsem);
	if (!kv_ok(k, found, "there is one device only") ||
	    !kv_own(k, found, put_device_of))
		return NULL;
	return found;
}

static void destroy_cq(void *obj)
{
	ib_destroy_cq(obj);
}

static void destroy_srq(void *obj)
{
	ib_destroy_srq(obj);
}

static void dereg_mr(void *obj)
{
	ib_dereg_mr(obj);
}

/* Whether a queue pair at @pd can be made of these. */
static void no_qp(struct kv *k, struct ib_pd *pd, struct ib_cq *scq,
		  struct ib_cq *rcq, struct ib_srq *srq, const char *what)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC, .send_cq = scq, .recv_cq = rcq,
		.srq = srq, .cap = { .max_send_wr = 4, .max_recv_wr = 4,
				     .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_qp *qp = ib_create_qp(pd, &attr);

	if (!kv_ok(k, IS_ERR(qp), "a queue pair with the %s of another device",
		   what))
		ib_destroy_qp(qp);
}

/* Objects of one device are of no use at another. */
static void apart_device(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct ib_device *dev = p ? other_device(k, kv_dev(p)) : NULL;
	struct ib_pd *pd = dev ? kv_pd(k, dev) : NULL;
	struct ib_srq_init_attr srq_attr = { .attr = { .max_wr = 4,
						       .max_sge = 1 } };
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_srq *srq;
	struct ib_cq *cq;
	struct ib_mr *mr;
	int rv;

	if (!pd)
		return;
	cq = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	if (!kv_ok(k, !IS_ERR(cq), "CQ: %pe", cq) || !kv_own(k, cq, destroy_cq))
		return;
	srq = ib_create_srq(pd, &srq_attr);
	if (!kv_ok(k, !IS_ERR(srq), "SRQ: %pe", srq) ||
	    !kv_own(k, srq, destroy_srq))
		return;
	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	if (!kv_ok(k, !IS_ERR(mr), "MR: %pe", mr) || !kv_own(k, mr, dereg_mr))
		return;
	no_qp(k, p->a.pd, cq, p->a.rcq, NULL, "send CQ");
	no_qp(k, p->a.pd, p->a.scq, cq, NULL, "receive CQ");
	no_qp(k, p->a.pd, p->a.scq, p->a.rcq, srq, "SRQ");
	no_qp(k, pd, p->a.scq, p->a.rcq, NULL, "CQs");
	/* At once, or as a completion. */
	rv = kv_post(&p->a, &(struct kv_wr) { .op = IB_WR_REG_MR, .id = 5,
					      .mr = mr, .key = mr->rkey,
					      .access = IB_ACCESS_LOCAL_WRITE });
	if (!rv)
		kv_want(k, p->a.scq, 5, KV_FAILS);
}

/* Local elements by local rights, the peer by remote ones, and only those. */
static void apart_rights(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_pair *q = p ? kv_connect(k, NULL) : NULL;
	struct kv_mr *local = q ? kv_region(k, &p->b, 1,
					    IB_ACCESS_LOCAL_WRITE) : NULL;
	struct kv_mr *remote = local ? kv_region(k, &q->b, 1,
						 IB_ACCESS_REMOTE_READ) : NULL;
	struct kv_mem *m = remote ? kv_mem(k, &p->a, LEN, 0x2c) : NULL;

	if (!m ||
	    !kv_ok(k, !kv_recv(&p->b, 1, local->mr->iova, LEN, local->mr->lkey),
		   "receive") ||
	    !kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 2, KV_LOCAL(&p->a, m) }, KV_OK) ||
	    !kv_want(k, p->b.rcq, 1, KV_OK) ||
	    !kv_ok(k, local->va[0] == 0x2c, "not received"))
		return;
	memset(m->va, 0x3d, LEN);
	if (!kv_ok(k, !kv_post(&p->a, &(struct kv_wr) {
			.op = IB_WR_RDMA_WRITE, .id = 3, KV_LOCAL(&p->a, m),
			.remote = local->mr->iova, .key = local->mr->rkey }),
		   "post") || !kv_is_down(k, &p->a))
		return;
	kv_ok(k, local->va[0] == 0x2c, "written by local rights");
	memset(remote->va, 0x77, LEN);
	if (!kv_read(k, &q->a, m, remote->mr->iova, remote->mr->rkey, KV_OK) ||
	    !kv_ok(k, !kv_recv(&q->b, 5, remote->mr->iova, LEN,
			       remote->mr->lkey), "receive") ||
	    !kv_ok(k, !kv_post(&q->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 6, KV_LOCAL(&q->a, m) }), "post") ||
	    !kv_want(k, q->b.rcq, 5, KV_PROT | KV_ACCESS))
		return;
	kv_ok(k, remote->va[0] == 0x77, "received by remote rights");
}

static u64 packets(struct net_device *netdev)
{
	struct rtnl_link_stats64 stats = { };

	dev_get_stats(netdev, &stats);
	return stats.tx_packets;
}

/* Registrations, binds and invalidations are nothing to the peer. */
static void apart_wire(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_region(k, &p->a, 1, IB_ACCESS_MW_BIND |
					 IB_ACCESS_LOCAL_WRITE) : NULL;
	struct ib_mw *mw = mr ? kv_mw(k, p->a.pd, IB_MW_TYPE_2) : NULL;
	struct net_device *netdev = mw ? ib_device_get_netdev(kv_dev(p), 1) :
					 NULL;
	u64 before;
	int i;

	if (!mw || !kv_ok(k, netdev, "no interface"))
		return;
	/* TCP acknowledges late what set the connection up. */
	msleep(300);
	before = packets(netdev);
	for (i = 0; i < ROUNDS; i++)
		if (!kv_do(k, &p->a, &(struct kv_wr) {
				.op = IB_WR_BIND_MW, .id = 1, .mw = mw,
				.mr = mr->mr, .key = mw->rkey,
				.access = IB_ACCESS_REMOTE_READ,
				.remote = mr->mr->iova, .length = LEN }, KV_OK) ||
		    !kv_inv(k, &p->a, mw->rkey, KV_OK) ||
		    !kv_inv(k, &p->a, mr->mr->rkey, KV_OK) ||
		    !kv_reg(k, &p->a, mr, mr->mr->rkey, IB_ACCESS_MW_BIND |
			    IB_ACCESS_LOCAL_WRITE, KV_OK))
			break;
	msleep(KV_QUIET_MS);
	/* Something else may use the interface, but not that much. */
	kv_ok(k, packets(netdev) - before < ROUNDS / 10,
	      "%llu packets for %d requests", packets(netdev) - before,
	      4 * ROUNDS);
	dev_put(netdev);
}

/* Of nothing, through a window that is not bound: nothing is looked at. */
static void apart_window(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct ib_mw *mw = p ? kv_mw(k, p->b.pd, IB_MW_TYPE_2) : NULL;
	static const enum ib_wr_opcode op[] = { IB_WR_RDMA_READ,
						IB_WR_RDMA_WRITE };
	int i;

	for (i = 0; mw && i < ARRAY_SIZE(op); i++)
		if (!kv_do(k, &p->a, &(struct kv_wr) {
				.op = op[i], .id = i, .sges = 1,
				.sge = { { 0, 0, 0 } },
				.remote = ~0ULL, .key = mw->rkey }, KV_OK))
			return;
	/* The Write arrived: a message behind it does. */
	if (mw && kv_ok(k, !kv_recv(&p->b, 1, 0, 0, 0), "receive") &&
	    kv_do(k, &p->a, &(struct kv_wr) { .op = IB_WR_SEND }, KV_OK))
		kv_want(k, p->b.rcq, 1, KV_OK);
}

/* What the kernel receives by a shared queue it may receive by the DMA key. */
static void apart_dma_key(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });
	struct kv_mem *in = p ? kv_mem(k, &p->b, LEN, 0) : NULL;
	struct kv_mem *out = in ? kv_mem(k, &p->a, LEN, 0x4e) : NULL;

	if (out && kv_ok(k, !kv_recv(&p->b, 1, in->addr, LEN,
				     p->b.pd->local_dma_lkey), "receive") &&
	    kv_do(k, &p->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = 2, KV_LOCAL(&p->a, out) }, KV_OK) &&
	    kv_want(k, p->b.rcq, 1, KV_OK))
		kv_ok(k, *(u8 *)in->va == 0x4e, "contents");
}

const struct kv_case kv_apart_cases[] = {
	{ "apart-device", "V-RNIC-1", apart_device },
	{ "apart-rights", "V-ACC-5", apart_rights },
	{ "apart-wire", "V-WR-20", apart_wire },
	{ "apart-window", "V-MW-9", apart_window },
	{ "apart-dma-key", "V-SRQ-16", apart_dma_key },
	{ }
};
