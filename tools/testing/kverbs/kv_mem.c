// SPDX-License-Identifier: GPL-2.0
/*
 * Memory and regions. A kernel consumer maps its memory for the device and
 * gives the addresses it gets, with the DMA key of its PD or with the key of a
 * region into which the addresses have been mapped and registered.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "kv.h"

static void mem_release(void *obj)
{
	struct kv_mem *m = obj;

	if (m->addr)
		ib_dma_unmap_single(m->dev, m->addr, m->len, DMA_BIDIRECTIONAL);
	kfree(m->va);
	kfree(m);
}

struct kv_mem *kv_mem(struct kv *k, struct kv_ep *ep, u32 len, u8 fill)
{
	struct kv_mem *m = kzalloc_obj(*m, GFP_KERNEL);

	if (!kv_ok(k, m, "out of memory") || !kv_own(k, m, mem_release))
		return NULL;
	m->dev = ep->id->device;
	m->va = kmalloc(len, GFP_KERNEL);
	if (!kv_ok(k, m->va, "out of memory"))
		return NULL;
	memset(m->va, fill, len);
	m->len = len;
	m->addr = ib_dma_map_single(m->dev, m->va, len, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(m->dev, m->addr)) {
		m->addr = 0;
		kv_ok(k, false, "DMA mapping");
		return NULL;
	}
	return m;
}

static void pd_release(void *obj)
{
	ib_dealloc_pd(obj);
}

struct ib_pd *kv_pd(struct kv *k, struct ib_device *dev)
{
	struct ib_pd *pd = ib_alloc_pd(dev, 0);

	if (!kv_ok(k, !IS_ERR(pd), "allocate PD: %pe", pd) ||
	    !kv_own(k, pd, pd_release))
		return NULL;
	return pd;
}

static void mr_release(void *obj)
{
	struct kv_mr *m = obj;
	unsigned int i;

	if (!IS_ERR_OR_NULL(m->mr))
		ib_dereg_mr(m->mr);
	vunmap(m->va);
	for (i = 0; m->page && i < m->pages; i++)
		if (m->page[i])
			__free_page(m->page[i]);
	kvfree(m->page);
	kvfree(m->sg);
	kfree(m);
}

static bool fill_pages(struct kv_mr *m)
{
	unsigned int i;

	m->page = kvcalloc(m->pages, sizeof(*m->page), GFP_KERNEL);
	m->sg = kvcalloc(m->pages, sizeof(*m->sg), GFP_KERNEL);
	if (!m->page || !m->sg)
		return false;
	sg_init_table(m->sg, m->pages);
	for (i = 0; i < m->pages; i++) {
		m->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!m->page[i])
			return false;
		sg_set_page(&m->sg[i], m->page[i], PAGE_SIZE, 0);
	}
	m->va = vmap(m->page, m->pages, VM_MAP, PAGE_KERNEL);
	return m->va;
}

struct kv_mr *kv_alloc_mr(struct kv *k, struct kv_ep *ep, unsigned int pages,
			  enum ib_mr_type type)
{
	struct kv_mr *m = kzalloc_obj(*m, GFP_KERNEL);
	int n;

	if (!kv_ok(k, m, "out of memory") || !kv_own(k, m, mr_release))
		return NULL;
	m->dev = ep->id->device;
	m->pages = pages;
	m->mr = ib_alloc_mr(ep->pd, type, pages);
	if (!kv_ok(k, !IS_ERR(m->mr), "allocate region: %pe", m->mr) ||
	    !kv_ok(k, fill_pages(m), "out of memory"))
		return NULL;
	n = ib_dma_map_sg(m->dev, m->sg, pages, DMA_BIDIRECTIONAL);
	if (!kv_ok(k, n == pages, "DMA mapping: %d of %u", n, pages))
		return NULL;
	n = ib_map_mr_sg(m->mr, m->sg, pages, NULL, PAGE_SIZE);
	if (!kv_ok(k, n == pages, "map_mr_sg: %d of %u", n, pages))
		return NULL;
	return m;
}

struct kv_mr *kv_region(struct kv *k, struct kv_ep *ep, unsigned int pages,
			int access)
{
	struct kv_mr *m = kv_alloc_mr(k, ep, pages, IB_MR_TYPE_MEM_REG);

	if (!m || !kv_reg(k, ep, m, m->mr->rkey, access, KV_OK))
		return NULL;
	return m;
}

static void mw_release(void *obj)
{
	struct ib_mw *mw = obj;

	mw->device->ops.dealloc_mw(mw);
	atomic_dec(&mw->pd->usecnt);
	kfree(mw);
}

struct ib_mw *kv_mw(struct kv *k, struct ib_pd *pd, enum ib_mw_type type)
{
	struct ib_device *dev = pd->device;
	struct ib_mw *mw;
	int rv;

	if (!kv_ok(k, dev->ops.alloc_mw, "the device has no windows"))
		return NULL;
	mw = rdma_zalloc_drv_obj(dev, ib_mw);
	if (!kv_ok(k, mw, "out of memory"))
		return NULL;
	mw->device = dev;
	mw->pd = pd;
	mw->type = type;
	rv = dev->ops.alloc_mw(mw, NULL);
	if (!kv_ok(k, !rv, "allocate window: %d", rv)) {
		kfree(mw);
		return NULL;
	}
	atomic_inc(&pd->usecnt);
	return kv_own(k, mw, mw_release) ? mw : NULL;
}
