// SPDX-License-Identifier: GPL-2.0
/* The device, queues and regions as objects: limits, queries, changes. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/iopoll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "kv.h"

#define MANY 200

static void device_limits(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.unconnected = true });
	const struct ib_device_attr *a;

	if (!p)
		return;
	a = &kv_dev(p)->attrs;
	kv_ok(k, a->max_send_sge >= 4 && a->max_recv_sge >= 4, "elements");
	kv_ok(k, a->max_sge_rd == 1, "elements of a Read: %d", a->max_sge_rd);
	kv_ok(k, a->max_mr > 0 && a->max_fast_reg_page_list_len >= 1024,
	      "regions, page list");
	kv_ok(k, a->max_pd > 0, "PDs");
	kv_ok(k, a->max_qp_rd_atom > 0 && a->max_qp_init_rd_atom > 0,
	      "IRD, ORD");
	kv_ok(k, a->max_res_rd_atom >= a->max_qp_rd_atom, "pool of IRD");
	kv_ok(k, a->page_size_cap & PAGE_SIZE, "page sizes");
	kv_ok(k, a->vendor_id, "vendor");
}

/* Each vector that the device has, and not one more. */
static void device_vectors(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.unconnected = true });
	struct ib_cq_init_attr attr = { .cqe = 4 };
	struct ib_cq *cq;
	int i, n;

	if (!p)
		return;
	n = kv_dev(p)->num_comp_vectors;
	kv_ok(k, n >= 1, "%d vectors", n);
	for (i = 0; i <= n; i++) {
		attr.comp_vector = i;
		cq = ib_create_cq(kv_dev(p), NULL, NULL, NULL, &attr);
		kv_ok(k, IS_ERR(cq) == (i == n), "vector %d: %pe", i, cq);
		if (!IS_ERR(cq))
			ib_destroy_cq(cq);
	}
}

static void on_call(struct kv_ep *ep, struct ib_cq *cq)
{
	WRITE_ONCE(ep->cpu, raw_smp_processor_id());
}

/* Whether a handler may be called there: on that processor, or one of its package. */
static bool is_near(unsigned int cpu, unsigned int vector)
{
	return cpumask_test_cpu(cpu, topology_core_cpumask(vector));
}

/* Posts a Send from a processor; on which one the handler was called, or < 0. */
static int called_on(struct kv *k, struct kv_pair *p, unsigned int from, u64 id)
{
	struct kv_ep *a = &p->a;
	int rv;

	a->on_call = on_call;
	set_cpus_allowed_ptr(current, cpumask_of(from));
	a->cpu = -1;
	rv = kv_recv(&p->b, id, 0, 0, 0);
	rv = rv ?: ib_req_notify_cq(a->scq, IB_CQ_NEXT_COMP);
	rv = rv ?: kv_post(a, &(struct kv_wr) { .op = IB_WR_SEND, .id = id });
	/* Afterwards from anywhere. */
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	if (!kv_ok(k, !rv, "post: %d", rv) || !kv_want(k, a->scq, id, KV_OK) ||
	    !kv_want(k, p->b.rcq, id, KV_OK))
		return -1;
	read_poll_timeout(READ_ONCE, rv, rv != -1, 1000, KV_WAIT_MS * 1000,
			  false, a->cpu);
	kv_ok(k, rv >= 0, "the handler was not called");
	return rv;
}

/* Handlers are called at the processor of the vector, whoever posts where. */
static void device_vector_cpu(struct kv *k)
{
	unsigned int vector;
	struct kv_pair *p;
	int i, rv;

	for_each_online_cpu(vector) {
		p = kv_connect(k, &(struct kv_opts) { .vector = vector });
		if (!p)
			return;
		for (i = 0; i < 20; i++) {
			/* From each processor in turn. */
			rv = called_on(k, p, i % num_online_cpus(), i);
			if (rv < 0 || !kv_ok(k, is_near(rv, vector),
					     "%d instead of %u", rv, vector))
				return;
		}
	}
}

/* The processor of the vector is taken away, and comes back. */
static void device_vector_offline(struct kv *k)
{
	unsigned int vector = cpumask_last(cpu_online_mask);
	struct kv_pair *p;
	int i, rv;

	/* A machine with one processor keeps it. */
	if (num_online_cpus() < 2)
		return;
	p = kv_connect(k, &(struct kv_opts) { .vector = vector });
	if (!p || !kv_ok(k, !remove_cpu(vector), "%u stays online", vector))
		return;
	for (i = 0; i < 20; i++) {
		rv = called_on(k, p, cpumask_first(cpu_online_mask), i);
		if (rv < 0 || !kv_ok(k, rv != vector, "%d is offline", rv))
			break;
	}
	if (!kv_ok(k, !add_cpu(vector), "%u stays offline", vector) || rv < 0)
		return;
	rv = called_on(k, p, cpumask_first(cpu_online_mask), i);
	kv_ok(k, rv >= 0 && is_near(rv, vector), "%d instead of %u", rv, vector);
}

/* Many queues report to one CQ, which is smaller than all of them. */
static void cq_shared(struct kv *k)
{
	struct kv_pair *first = kv_connect(k, NULL), *p[3];
	struct ib_wc wc;
	int i, n = 0, rv;

	for (i = 0; first && i < ARRAY_SIZE(p); i++) {
		p[i] = kv_connect(k, &(struct kv_opts) {
			.cq = first->a.scq, .depth = 256 });
		if (!p[i])
			return;
		rv = kv_recv(&p[i]->b, 100 + i, 0, 0, 0);
		rv = rv ?: kv_post(&p[i]->a, &(struct kv_wr) {
			.op = IB_WR_SEND, .id = i });
		if (!kv_ok(k, !rv, "post: %d", rv))
			return;
	}
	/* Each twice: the Send and the receive, with the QP it is of. */
	while (first && n++ < 2 * ARRAY_SIZE(p)) {
		if (!kv_wc(k, first->a.scq, &wc) ||
		    !kv_ok(k, wc.status == IB_WC_SUCCESS, "status"))
			return;
		i = wc.wr_id % 100;
		if (!kv_ok(k, wc.qp == (wc.wr_id < 100 ? p[i]->a.qp :
							p[i]->b.qp), "QP"))
			return;
	}
}

/* A full CQ ends the queue pairs that report to it, and no others. */
static void cq_overflow(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .cqe = 4 });
	struct kv_pair *q = p ? kv_connect(k, NULL) : NULL;
	int i;

	/* Twice as many as were asked for, which is more than it can take. */
	for (i = 0; q && i < 32; i++)
		if (kv_post(&p->a, &(struct kv_wr) { .op = IB_WR_RDMA_WRITE }))
			break;
	if (q && kv_is_down(k, &p->b) &&
	    kv_events(k, &p->a, IB_EVENT_CQ_ERR, 1) &&
	    kv_events(k, &p->a, IB_EVENT_QP_FATAL, 1) &&
	    kv_ok(k, !kv_recv(&q->b, 1, 0, 0, 0), "receive") &&
	    kv_do(k, &q->a, &(struct kv_wr) { .op = IB_WR_SEND }, KV_OK))
		kv_want(k, q->b.rcq, 1, KV_OK);
}

/* Indices: never zero, none twice, none soon again, in no order. */
static void stag_indices(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) {
		.unconnected = true });
	u32 *seen = kcalloc(MANY, sizeof(*seen), GFP_KERNEL);
	int i, j, neighbours = 0;
	struct ib_mr *mr;

	for (i = 0; p && seen && i < MANY && !k->failed; i++) {
		mr = ib_alloc_mr(p->a.pd, IB_MR_TYPE_MEM_REG, 1);
		if (!kv_ok(k, !IS_ERR(mr), "allocate: %pe", mr))
			break;
		seen[i] = mr->rkey >> 8;
		kv_ok(k, seen[i], "index 0");
		for (j = 0; j < i; j++)
			kv_ok(k, seen[i] != seen[j], "index %#x again", seen[i]);
		neighbours += i && abs((int)(seen[i] - seen[i - 1])) < 16;
		ib_dereg_mr(mr);
	}
	kv_ok(k, neighbours < MANY / 20, "%d neighbours", neighbours);
	kfree(seen);
}

/* One memory, two regions: what happens to one does not touch the other. */
static void mr_twice(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *one = p ? kv_region(k, &p->b, 1, KV_REMOTE) : NULL;
	struct kv_mr *two = one ? kv_alloc_mr(k, &p->b, 1, IB_MR_TYPE_MEM_REG) :
				  NULL;
	struct kv_mem *m = two ? kv_mem(k, &p->a, 64, 0) : NULL;

	if (!m || !kv_ok(k, ib_map_mr_sg(two->mr, one->sg, 1, NULL,
					 PAGE_SIZE) == 1, "map") ||
	    !kv_reg(k, &p->b, two, two->mr->rkey, KV_REMOTE, KV_OK) ||
	    !kv_inv(k, &p->b, one->mr->rkey, KV_OK))
		return;
	ib_dereg_mr(one->mr);
	one->mr = NULL;
	memset(one->va, 0x5f, PAGE_SIZE);
	if (kv_read(k, &p->a, m, two->mr->iova + PAGE_SIZE - 64, two->mr->rkey, KV_OK))
		kv_ok(k, *(u8 *)m->va == 0x5f, "contents");
}

/* Offsets of the consumer's choice: zero-based, or at the address. */
static void mr_zero_based(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->b, 2, IB_MR_TYPE_MEM_REG) :
			       NULL;
	struct kv_mem *m = mr ? kv_mem(k, &p->a, 64, 0) : NULL;

	if (!m || !kv_ok(k, mr->mr->iova >> 63, "address %llx", mr->mr->iova) ||
	    !kv_ok(k, ib_map_mr_sg_zbva(mr->mr, mr->sg, 2, NULL,
					PAGE_SIZE) == 2, "map") ||
	    !kv_ok(k, !mr->mr->iova, "iova %llx", mr->mr->iova) ||
	    !kv_reg(k, &p->b, mr, mr->mr->rkey, KV_REMOTE, KV_OK))
		return;
	memset(mr->va, 0x4d, 2 * PAGE_SIZE);
	if (kv_read(k, &p->a, m, 0, mr->mr->rkey, KV_OK) &&
	    kv_ok(k, *(u8 *)m->va == 0x4d, "contents"))
		kv_read(k, &p->a, m, 2 * PAGE_SIZE - 63, mr->mr->rkey, KV_FAILS);
}

/* Several domains, each of several queue pairs and regions. */
static void pd_many(struct kv *k)
{
	struct kv_pair *first = kv_connect(k, NULL), *p[4];
	struct ib_pd *pd[2];
	struct kv_mr *mr;
	int i;

	for (i = 0; first && i < 2; i++) {
		pd[i] = kv_pd(k, kv_dev(first));
		if (!pd[i])
			return;
	}
	if (!first || !kv_ok(k, pd[0]->local_dma_lkey != pd[1]->local_dma_lkey,
			     "one key for two domains"))
		return;
	for (i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = kv_connect(k, &(struct kv_opts) {
			.pd = pd[i % 2], .srq = i > 1 });
		mr = p[i] ? kv_region(k, &p[i]->b, 1, KV_REMOTE) : NULL;
		if (!mr || !kv_do(k, &p[i]->a, &(struct kv_wr) {
				.op = IB_WR_RDMA_WRITE, .id = i, .sges = 1,
				.sge = { { mr->mr->iova, 64, mr->mr->lkey } },
				.remote = mr->mr->iova + 64,
				.key = mr->mr->rkey }, KV_OK))
			return;
	}
}

/* What is fixed at a shared receive queue and its queue pair. */
static void srq_fixed(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, &(struct kv_opts) { .srq = true });
	struct ib_srq_attr limit = { .srq_limit = 1000 };
	struct ib_qp_attr attr = { .cap = { .max_recv_wr = 32 } };
	int rv;

	if (!p)
		return;
	rv = ib_modify_qp(p->b.qp, &attr, IB_QP_CAP);
	kv_ok(k, rv == -EINVAL, "size of a receive queue: %d", rv);
	rv = ib_modify_srq(p->b.srq, &limit, IB_SRQ_LIMIT);
	kv_ok(k, rv == -EINVAL, "limit above the depth: %d", rv);
}

const struct kv_case kv_object_cases[] = {
	{ "pd-many", "V-PD-1 V-PD-2 V-SRQ-2", pd_many },
	{ "srq-fixed", "V-QP-22 V-IMM-7", srq_fixed },
	{ "device-limits", "V-RNIC-6 V-RNIC-11 V-RNIC-15 to 18 V-RNIC-22",
	  device_limits },
	{ "device-vectors", "V-RNIC-14", device_vectors },
	{ "device-vector-cpu", "V-RNIC-14 V-RNIC-26", device_vector_cpu },
	{ "device-vector-offline", "V-RNIC-14", device_vector_offline },
	{ "cq-shared", "V-CQ-3 V-CQ-4 V-QP-5", cq_shared },
	{ "cq-overflow", "V-CQ-5 V-CQ-6 V-AE-26 V-AE-29", cq_overflow },
	{ "stag-indices", "V-STAG-2 V-STAG-7", stag_indices },
	{ "mr-twice", "V-MR-7 V-DEA-6 V-MR-20", mr_twice },
	{ "mr-zero-based", "V-MR-4 V-MR-23 V-MR-24", mr_zero_based },
	{ }
};
