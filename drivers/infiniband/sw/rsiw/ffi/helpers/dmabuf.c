// SPDX-License-Identifier: GPL-2.0

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <rdma/ib_verbs.h>

MODULE_IMPORT_NS("DMA_BUF");

/*
 * dma_buf_vmap() warns if the exporter maps the buffer for it and cannot. A process may choose such
 * a buffer, so the exporter is asked before.
 */
static int buf_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	int ret = 0;

	dma_resv_lock(buf->resv, NULL);
	if (!buf->vmapping_counter) {
		iosys_map_clear(map);
		ret = buf->ops->vmap(buf, map);
		if (!ret && buf->ops->vunmap)
			buf->ops->vunmap(buf, map);
	}
	if (!ret)
		ret = dma_buf_vmap(buf, map);
	dma_resv_unlock(buf->resv);
	return ret;
}

/*
 * Maps the buffer behind @fd, which must have @end bytes or more, for the kernel, on behalf of
 * @dev, and sets @vaddr to its first byte. Returns what to unmap it by, or an error pointer. Many
 * exporters keep a buffer where it is only while somebody is attached to it; exporters that move
 * buffers even then are left out.
 */
void *rsiw_helper_dma_buf_map(struct ib_device *dev, int fd, u64 end,
			      bool writable, void **vaddr)
{
	struct dma_buf_attachment *attach;
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
	ret = -EOPNOTSUPP;
	if (buf->ops->pin || !buf->ops->vmap)
		goto put;
	attach = dma_buf_attach(buf, &dev->dev);
	if (IS_ERR(attach)) {
		ret = PTR_ERR(attach);
		goto put;
	}
	ret = dma_buf_begin_cpu_access(buf, DMA_BIDIRECTIONAL);
	if (ret)
		goto detach;
	ret = buf_vmap(buf, &map);
	if (ret)
		goto end_access;
	ret = -EOPNOTSUPP;
	if (map.is_iomem || !PAGE_ALIGNED(map.vaddr))
		goto vunmap;
	*vaddr = map.vaddr;
	return attach;

vunmap:
	dma_buf_vunmap_unlocked(buf, &map);
end_access:
	dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
detach:
	dma_buf_detach(buf, attach);
put:
	dma_buf_put(buf);
	return ERR_PTR(ret);
}

void rsiw_helper_dma_buf_unmap(void *mapped, void *vaddr)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(vaddr);
	struct dma_buf_attachment *attach = mapped;
	struct dma_buf *buf = attach->dmabuf;

	dma_buf_vunmap_unlocked(buf, &map);
	dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
	dma_buf_detach(buf, attach);
	dma_buf_put(buf);
}

/*
 * Lists the kernel's own addresses of @count pages of mapped memory from @vaddr on. Returns how
 * many were written: fewer if some of the memory has no pages that the kernel can reach by such
 * addresses.
 */
size_t rsiw_helper_kernel_pages(void *vaddr, void **pages, size_t count)
{
	size_t n;

	for (n = 0; n < count; n++, vaddr += PAGE_SIZE) {
		struct page *page = is_vmalloc_addr(vaddr) ?
				    vmalloc_to_page(vaddr) :
				    virt_to_page(vaddr);

		if (!page || !pfn_valid(page_to_pfn(page)) ||
		    PageReserved(page) || is_zone_device_page(page) ||
		    !virt_addr_valid(page_address(page)))
			break;
		pages[n] = page_address(page);
	}
	return n;
}
