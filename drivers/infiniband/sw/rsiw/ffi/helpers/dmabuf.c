// SPDX-License-Identifier: GPL-2.0

#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

MODULE_IMPORT_NS("DMA_BUF");

/*
 * Maps the buffer behind @fd, which must have @end bytes, for the kernel; it
 * stays where it is as long as it is mapped. Sets @vaddr to its first byte.
 */
void *rsiw_helper_dma_buf_map(int fd, u64 end, bool writable, void **vaddr)
{
	struct iosys_map map;
	struct dma_buf *buf;
	int ret;

	buf = dma_buf_get(fd);
	if (IS_ERR(buf))
		return buf;
	ret = -EACCES;
	if (writable && !(buf->file->f_mode & FMODE_WRITE))
		goto put;
	ret = -EINVAL;
	if (end > buf->size)
		goto put;
	ret = dma_buf_begin_cpu_access(buf, DMA_BIDIRECTIONAL);
	if (ret)
		goto put;
	ret = dma_buf_vmap_unlocked(buf, &map);
	if (ret)
		goto end_access;
	ret = -EOPNOTSUPP;
	if (map.is_iomem)
		goto vunmap;
	*vaddr = map.vaddr;
	return buf;

vunmap:
	dma_buf_vunmap_unlocked(buf, &map);
end_access:
	dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
put:
	dma_buf_put(buf);
	return ERR_PTR(ret);
}

void rsiw_helper_dma_buf_unmap(void *buf, void *vaddr)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(vaddr);

	dma_buf_vunmap_unlocked(buf, &map);
	dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
	dma_buf_put(buf);
}

/*
 * Lists @count pages of mapped kernel memory from @vaddr on; returns how many
 * were written, less if some of it has no pages.
 */
size_t rsiw_helper_kernel_pages(void *vaddr, struct page **pages, size_t count)
{
	size_t n;

	for (n = 0; n < count; n++, vaddr += PAGE_SIZE) {
		struct page *page = is_vmalloc_addr(vaddr) ?
				    vmalloc_to_page(vaddr) :
				    virt_to_page(vaddr);

		if (!page || !pfn_valid(page_to_pfn(page)))
			break;
		pages[n] = page;
	}
	return n;
}
