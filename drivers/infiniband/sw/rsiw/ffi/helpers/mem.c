// SPDX-License-Identifier: GPL-2.0

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

unsigned int rsiw_helper_memalloc_save(bool reclaims)
{
	return memalloc_flags_save(PF_MEMALLOC_NOIO | (reclaims ? PF_MEMALLOC : 0));
}

void rsiw_helper_memalloc_restore(unsigned int flags)
{
	memalloc_flags_restore(flags);
}

/*
 * Takes a reference to the group that pays for what the caller allocates: that of its process, or
 * the root group, which pays for nothing, in a thread of the kernel. NULL without such groups.
 */
struct mem_cgroup *rsiw_helper_memcg_of_caller(void)
{
	return get_mem_cgroup_from_mm(NULL);
}

struct mem_cgroup *rsiw_helper_memcg_of_nobody(void)
{
#ifdef CONFIG_MEMCG
	if (!mem_cgroup_disabled())
		return root_mem_cgroup;
#endif
	return NULL;
}

void rsiw_helper_memcg_get(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg)
		css_get(&memcg->css);
#endif
}

void rsiw_helper_memcg_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

/* Makes @memcg pay for what this thread allocates. Returns who paid before. */
struct mem_cgroup *rsiw_helper_memcg_pays(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void *rsiw_helper_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * Returns the page that a kernel address lies in, or NULL. Sets @linear to whether the pages that
 * follow it in memory follow it in the page map, too.
 */
struct page *rsiw_helper_kernel_page(const void *addr, bool *linear)
{
	*linear = !is_vmalloc_or_module_addr(addr);
	if (!*linear)
		return vmalloc_to_page(addr);
	return virt_addr_valid(addr) ? virt_to_page(addr) : NULL;
}

struct ib_umem *rsiw_helper_ib_umem_get_va(struct ib_device *dev,
					   unsigned long addr, size_t size,
					   int access)
{
	/* Threads of the kernel have no memory. */
	if (!current->mm)
		return ERR_PTR(-EINVAL);
	return ib_umem_get_va(dev, addr, size, access);
}

size_t rsiw_helper_ib_umem_num_pages(struct ib_umem *umem)
{
	return ib_umem_num_pages(umem);
}

/* Returns whether @umem was pinned by a caller with the memory map of this one. */
bool rsiw_helper_ib_umem_is_callers(const struct ib_umem *umem)
{
	return umem->owning_mm == current->mm;
}

/* Lists the addresses of the pages of @umem, at most @max. Returns how many. */
size_t rsiw_helper_ib_umem_pages(struct ib_umem *umem, void **pages, size_t max)
{
	struct sg_page_iter iter;
	size_t n = 0;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (n == max)
			break;
		pages[n++] = page_address(sg_page_iter_page(&iter));
		if (!(n % (1 << 20)))
			cond_resched();
	}
	return n;
}

/*
 * Memory that processes map. When vfree() is called in softirq it makes a list node of the memory
 * itself, which a process may still have mapped, and write. So there is another node for that case.
 */
struct rsiw_shared {
	struct llist_node node;
	void *mem;
};

static LLIST_HEAD(rsiw_shared_late);

static void rsiw_shared_free_now(struct rsiw_shared *shared)
{
	vfree(shared->mem);
	kfree(shared);
}

static void rsiw_shared_free_late(struct work_struct *work)
{
	struct rsiw_shared *shared, *next;

	llist_for_each_entry_safe(shared, next,
				  llist_del_all(&rsiw_shared_late), node)
		rsiw_shared_free_now(shared);
}

static DECLARE_WORK(rsiw_shared_work, rsiw_shared_free_late);

/*
 * Allocates zeroed pages that count for the memory cgroup of the caller, and sets @mem to their
 * address. Returns what to free them by, or NULL.
 */
void *rsiw_helper_shared_alloc(unsigned long size, void **mem)
{
	struct rsiw_shared *shared;

	shared = kmalloc_obj(*shared, GFP_KERNEL_ACCOUNT);
	if (!shared)
		return NULL;
	/* Processes choose the size and have a limit, so a failure is nothing for the log. */
	shared->mem = __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO |
				      __GFP_NOWARN);
	if (!shared->mem) {
		kfree(shared);
		return NULL;
	}
	*mem = shared->mem;
	return shared;
}

/* Process context or softirq. */
void rsiw_helper_shared_free(void *data)
{
	struct rsiw_shared *shared = data;

	if (!in_interrupt())
		rsiw_shared_free_now(shared);
	else if (llist_add(&shared->node, &rsiw_shared_late))
		schedule_work(&rsiw_shared_work);
}

/* Waits until what was freed in softirq is gone. */
void rsiw_helper_shared_flush(void)
{
	flush_work(&rsiw_shared_work);
}

/* Maps the @size bytes of __vmalloc() at @from as the whole of a new @vma. */
int rsiw_helper_vma_map_vmalloc(struct vm_area_struct *vma, void *from,
				unsigned long size)
{
	unsigned long at;
	int ret;

	if (vma->vm_end - vma->vm_start != size)
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = 0; at < size; at += PAGE_SIZE) {
		ret = vm_insert_page(vma, vma->vm_start + at,
				     vmalloc_to_page(from + at));
		if (ret)
			return ret;
	}
	return 0;
}

void rsiw_helper_call_rcu_hurry(struct rcu_head *head, rcu_callback_t func)
{
	call_rcu_hurry(head, func);
}

void rsiw_helper_xa_init_alloc_irq_account(struct xarray *xa)
{
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
}

/* Puts @entry at @index. If that succeeds, also puts it in @place, unless @place is NULL. */
int rsiw_helper_xa_insert_irq(struct xarray *xa, unsigned long index,
			      void *entry, void **place, gfp_t gfp)
{
	int err;

	might_alloc(gfp);
	xa_lock_irq(xa);
	/* This may drop the lock, but not after it has stored the entry. */
	err = __xa_insert(xa, index, entry, gfp);
	if (!err && place) {
		/* For the Acquire of RcuTable::lookup(): what @entry points to is complete. */
		smp_store_release(place, entry);
	}
	xa_unlock_irq(xa);
	return err;
}

int rsiw_helper_xa_alloc_cyclic_irq(struct xarray *xa, u32 *id, void *entry,
				    u32 min, u32 max, u32 *next, gfp_t gfp)
{
	return xa_alloc_cyclic_irq(xa, id, entry, XA_LIMIT(min, max), next,
				   gfp);
}

/* Empties @index, and @place, if there is one and it has the same entry. */
void *rsiw_helper_xa_erase_irqsave(struct xarray *xa, unsigned long index,
				   void **place)
{
	unsigned long flags;
	void *entry;

	xa_lock_irqsave(xa, flags);
	entry = __xa_erase(xa, index);
	/* The place changes under the lock only. */
	if (place && *place == entry)
		WRITE_ONCE(*place, NULL);
	xa_unlock_irqrestore(xa, flags);
	return entry;
}

u64 rsiw_helper_rdma_user_mmap_get_offset(const struct rdma_user_mmap_entry *e)
{
	return rdma_user_mmap_get_offset(e);
}
