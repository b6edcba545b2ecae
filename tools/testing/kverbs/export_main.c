// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_export: DMA buffers that an importer without DMA has to refuse.
 *
 * ioctl(EXPORT, kind) of /dev/rsiw_export returns the descriptor of a new one, of
 * two pages.
 */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#define EXPORT _IO('x', 0x71)
#define SIZE (2 * PAGE_SIZE)

static struct sg_table *no_dma(struct dma_buf_attachment *attach,
			       enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void no_undo(struct dma_buf_attachment *attach, struct sg_table *sgt,
		    enum dma_data_direction dir)
{
}

static void release(struct dma_buf *buf)
{
	kvfree(buf->priv);
}

static int fails(struct dma_buf *buf, struct iosys_map *map)
{
	return -ENOSPC;
}

static int odd(struct dma_buf *buf, struct iosys_map *map)
{
	iosys_map_set_vaddr(map, buf->priv + 64);
	return 0;
}

static int of_device(struct dma_buf *buf, struct iosys_map *map)
{
	/* Nobody is to look there. */
	iosys_map_set_vaddr_iomem(map, (void __iomem *)buf->priv);
	return 0;
}

#define OPS(how) {				\
	.map_dma_buf = no_dma,			\
	.unmap_dma_buf = no_undo,		\
	.release = release,			\
	.vmap = (how),				\
}

/* In the order of the kinds. */
static const struct dma_buf_ops kinds[] = {
	OPS(NULL), OPS(fails), OPS(odd), OPS(of_device),
};

static long make(struct file *file, unsigned int cmd, unsigned long kind)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	int fd;

	if (cmd != EXPORT)
		return -ENOTTY;
	if (kind >= ARRAY_SIZE(kinds))
		return -EINVAL;
	info.ops = &kinds[kind];
	info.size = SIZE;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = kvzalloc(SIZE, GFP_KERNEL);
	if (!info.priv)
		return -ENOMEM;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		kvfree(info.priv);
		return PTR_ERR(buf);
	}
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = make,
};

static struct miscdevice dev = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = KBUILD_MODNAME,
	.fops = &fops,
	.mode = 0666,
};
module_misc_device(dev);

MODULE_IMPORT_NS("DMA_BUF");
MODULE_DESCRIPTION("Makes odd DMA buffers, for tests");
MODULE_LICENSE("GPL");
