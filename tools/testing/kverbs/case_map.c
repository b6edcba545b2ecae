// SPDX-License-Identifier: GPL-2.0
/*
 * map_mr_sg: how much of a list it takes, what it makes of offsets, gaps and
 * page sizes, and that the peer then finds every byte where it should be.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "kv.h"

/* The list is given piece by piece: page of @mr, offset, length. */
struct piece {
	unsigned int page, offset, len;
};

static void set_pieces(struct kv_mr *mr, const struct piece *piece, int n)
{
	int i;

	sg_init_table(mr->sg, n);
	for (i = 0; i < n; i++)
		sg_set_page(&mr->sg[i], mr->page[piece[i].page], piece[i].len,
			    piece[i].offset);
	ib_dma_map_sg(mr->dev, mr->sg, n, DMA_BIDIRECTIONAL);
}

/* The whole region, as the other end reads it. */
static bool read_back(struct kv *k, struct kv_pair *p, struct kv_mr *mr,
		      const struct piece *piece, int n)
{
	struct kv_mem *m;
	unsigned int i, at = 0;
	u32 len = mr->mr->length;

	for (i = 0; i < mr->pages * PAGE_SIZE; i++)
		mr->va[i] = i * 7 + i / 251;
	m = kv_mem(k, &p->a, len, 0);
	if (!m || !kv_reg(k, &p->b, mr, mr->mr->rkey, KV_REMOTE, KV_OK) ||
	    !kv_read(k, &p->a, m, mr->mr->iova, mr->mr->rkey, KV_OK))
		return false;
	for (i = 0; i < n; i++) {
		u32 part = min(piece[i].len, len - at);

		if (!kv_ok(k, !memcmp(m->va + at, mr->va + piece[i].page *
				      PAGE_SIZE + piece[i].offset, part),
			   "piece %u differs", i))
			return false;
		at += part;
	}
	return kv_ok(k, at == len, "%u bytes of %u", at, len);
}

static void maps(struct kv *k, enum ib_mr_type type, const struct piece *piece,
		 int n, int want, u32 len)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->b, 4, type) : NULL;
	int got;

	if (!mr)
		return;
	set_pieces(mr, piece, n);
	got = ib_map_mr_sg(mr->mr, mr->sg, n, NULL, PAGE_SIZE);
	if (!kv_ok(k, got == want, "%d entries of %d", got, want) ||
	    !kv_ok(k, mr->mr->length == len, "length %llu", mr->mr->length) ||
	    !kv_ok(k, mr->mr->iova == sg_dma_address(mr->sg) &&
		   mr->mr->page_size == PAGE_SIZE, "iova or page size"))
		return;
	read_back(k, p, mr, piece, got);
}

/* The first may begin and the last may end anywhere. */
static void map_odd_ends(struct kv *k)
{
	static const struct piece list[] = {
		{ 2, 100, PAGE_SIZE - 100 }, { 0, 0, PAGE_SIZE }, { 3, 0, 77 },
	};

	maps(k, IB_MR_TYPE_MEM_REG, list, 3, 3, 2 * PAGE_SIZE - 23);
}

/* Without SG_GAPS a gap ends what is mapped. */
static void map_gap(struct kv *k)
{
	static const struct piece list[] = {
		{ 1, 0, PAGE_SIZE }, { 2, 0, 100 }, { 3, 0, PAGE_SIZE },
	};

	maps(k, IB_MR_TYPE_MEM_REG, list, 3, 2, PAGE_SIZE + 100);
}

static void map_gap_in_front(struct kv *k)
{
	static const struct piece list[] = {
		{ 1, 0, PAGE_SIZE }, { 2, 64, 100 }, { 3, 0, PAGE_SIZE },
	};

	maps(k, IB_MR_TYPE_MEM_REG, list, 3, 1, PAGE_SIZE);
}

static void map_sg_gaps(struct kv *k)
{
	static const struct piece list[] = {
		{ 1, 5, 300 }, { 2, 64, 1 }, { 0, 1000, 17 }, { 3, 9, 999 },
	};
	struct kv_pair *p = kv_connect(k, NULL);

	if (p && kv_ok(k, kv_dev(p)->attrs.kernel_cap_flags & IBK_SG_GAPS_REG,
		       "the device does not offer SG_GAPS"))
		maps(k, IB_MR_TYPE_SG_GAPS, list, 4, 4, 1317);
}

/* The offset skips the beginning, and comes back as where it stopped. */
static void map_offset(struct kv *k)
{
	static const struct piece list[] = {
		{ 0, 300, PAGE_SIZE - 300 }, { 1, 0, PAGE_SIZE },
		{ 2, 0, PAGE_SIZE }, { 3, 0, PAGE_SIZE },
	};
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->b, 4, IB_MR_TYPE_MEM_REG) :
			       NULL;
	unsigned int offset = 300;
	int got;

	if (!mr)
		return;
	set_pieces(mr, (struct piece[]) { { 0, 0, PAGE_SIZE }, list[1],
					  list[2], list[3] }, 4);
	got = ib_map_mr_sg(mr->mr, mr->sg, 4, &offset, PAGE_SIZE);
	if (kv_ok(k, got == 4 && !offset, "%d entries, offset %u", got, offset) &&
	    kv_ok(k, mr->mr->iova == sg_dma_address(mr->sg) + 300 &&
		  mr->mr->length == 4 * PAGE_SIZE - 300, "iova or length"))
		read_back(k, p, mr, list, 4);
}

/* More than the region has room for: as much as fits. */
static void map_too_many(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *big = p ? kv_alloc_mr(k, &p->b, 64, IB_MR_TYPE_MEM_REG) :
				NULL;
	struct kv_mr *mr = big ? kv_alloc_mr(k, &p->b, 4, IB_MR_TYPE_MEM_REG) :
				 NULL;
	int got;

	if (!mr)
		return;
	got = ib_map_mr_sg(mr->mr, big->sg, 64, NULL, PAGE_SIZE);
	/* A region may have more room than was asked for. */
	kv_ok(k, got >= 4 && mr->mr->length == got * PAGE_SIZE,
	      "%d entries, %llu bytes", got, mr->mr->length);
}

/* Pages of 64 KiB, out of physically contiguous memory. */
static void map_64k(struct kv *k)
{
	struct kv_pair *p = kv_connect(k, NULL);
	struct kv_mr *mr = p ? kv_alloc_mr(k, &p->b, 4, IB_MR_TYPE_MEM_REG) :
			       NULL;
	struct kv_mem *m = mr ? kv_mem(k, &p->b, 65536, 0x61) : NULL;
	struct kv_mem *in = mr ? kv_mem(k, &p->a, 65536, 0) : NULL;
	struct scatterlist sg;
	int got;

	if (!m || !in)
		return;
	if (!kv_ok(k, IS_ALIGNED(m->addr, 65536), "memory is not aligned"))
		return;
	sg_init_one(&sg, m->va, m->len);
	ib_dma_map_sg(mr->dev, &sg, 1, DMA_BIDIRECTIONAL);
	got = ib_map_mr_sg(mr->mr, &sg, 1, NULL, 65536);
	if (kv_ok(k, got == 1 && mr->mr->page_size == 65536 &&
		  mr->mr->length == 65536, "%d entries", got) &&
	    kv_reg(k, &p->b, mr, mr->mr->rkey, KV_REMOTE, KV_OK) &&
	    kv_read(k, &p->a, in, mr->mr->iova, mr->mr->rkey, KV_OK))
		kv_ok(k, !memcmp(in->va, m->va, 65536), "contents");
}

const struct kv_case kv_map_cases[] = {
	{ "map-odd-ends", "V-MR-22 L-CORE-11", map_odd_ends },
	{ "map-gap", "V-MR-22 L-CORE-11", map_gap },
	{ "map-gap-in-front", "V-MR-22 L-CORE-11", map_gap_in_front },
	{ "map-sg-gaps", "L-CORE-11", map_sg_gaps },
	{ "map-offset", "L-CORE-11 T-17", map_offset },
	{ "map-too-many", "L-CORE-11", map_too_many },
	{ "map-64k", "V-MR-22 T-17", map_64k },
	{ }
};
