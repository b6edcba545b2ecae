// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Provider of rdma-core for rsiw, and for siw: contexts, and the handshake with the
 * kernel when one is opened. Unless the kernel offers more, the library uses the rings
 * that both drivers have.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rsiw.h"

const struct rsiw_layout rsiw_stock_rings = {
	.sqe_size = sizeof(struct siw_sqe),
	.sqe_sge = offsetof(struct siw_sqe, sge[0]),
	.sqe_data = offsetof(struct siw_sqe, sge[1]),
	.sqe_inline_length = offsetof(struct siw_sqe, sge[0].length),
	.rqe_size = sizeof(struct siw_rqe),
	.cqe_size = sizeof(struct siw_cqe),
	.max_sge = SIW_MAX_SGE,
	.max_inline = SIW_MAX_INLINE,
};

const struct rsiw_layout rsiw_own_rings = {
	.sqe_size = sizeof(struct rsiw_sqe),
	.sqe_sge = offsetof(struct rsiw_sqe, sge),
	.sqe_data = offsetof(struct rsiw_sqe, data),
	.sqe_inline_length = offsetof(struct rsiw_sqe, inline_length),
	.rqe_size = sizeof(struct rsiw_rqe),
	.cqe_size = sizeof(struct rsiw_cqe),
	.max_sge = RSIW_MAX_SGE,
	.max_inline = RSIW_MAX_INLINE,
};

#define WANTED (RSIW_FEATURE_RINGS | RSIW_FEATURE_IMM | RSIW_FEATURE_ATOMIC | \
		RSIW_FEATURE_WINDOWS | RSIW_FEATURE_TIMESTAMP | RSIW_FEATURE_RESIZE | \
		RSIW_FEATURE_POLL | RSIW_FEATURE_FLUSH | RSIW_FEATURE_RESIZE_STEPS | \
		RSIW_FEATURE_SEND_IMM | RSIW_FEATURE_UD)

/* Whether the user has set a variable of the environment to something other than 0. */
static bool is_set(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value && strcmp(value, "0");
}

/* Maps a ring, with `behind` octets behind its entries. */
int rsiw_map_ring(struct ibv_context *context, struct rsiw_ring *ring, uint64_t key,
		  uint32_t entries, uint32_t entry_size, size_t behind)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = (size_t)entries * entry_size + behind;
	void *at;

	if (!entries || entries & (entries - 1))
		return EINVAL;
	len = (len + page - 1) / page * page;
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, key);
	if (at == MAP_FAILED)
		return errno;
	*ring = (struct rsiw_ring){
		.at = at,
		.len = len,
		.mask = entries - 1,
		.entry_size = entry_size,
	};
	return 0;
}

void rsiw_unmap_ring(struct rsiw_ring *ring)
{
	if (ring->at)
		munmap(ring->at, ring->len);
	ring->at = NULL;
}

int rsiw_query_device_ex(struct ibv_context *context,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct rsiw_context *ctx = to_rsiw_context(context);
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	struct ibv_device_attr *base = &attr->orig_attr;
	int ret;

	ret = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp, &resp_size);
	if (ret)
		return ret;
	/* The kernel has one number, people read three. */
	snprintf(base->fw_ver, sizeof(base->fw_ver), "%u.%u.%u",
		 (unsigned int)(resp.base.fw_ver >> 32) & 0xffff,
		 (unsigned int)(resp.base.fw_ver >> 16) & 0xffff,
		 (unsigned int)resp.base.fw_ver & 0xffff);
	/* The kernel tells every process the limits of stock rings. */
	if (!(ctx->features & RSIW_FEATURE_RINGS))
		return 0;
	base->max_sge = ctx->max_sge;
	base->max_srq_sge = ctx->max_sge;
	if (ctx->features & RSIW_FEATURE_ATOMIC)
		base->atomic_cap = IBV_ATOMIC_GLOB;
	if (ctx->features & RSIW_FEATURE_WINDOWS) {
		base->max_mw = ctx->max_windows;
		base->device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	}
	/* Address handles are the library's own, without a limit. */
	if (ctx->features & RSIW_FEATURE_UD)
		base->max_ah = INT_MAX;
	if (ctx->features & RSIW_FEATURE_RESIZE)
		base->device_cap_flags |= IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_SRQ_RESIZE;
	/* The same flags once more, with others behind them. */
	if (attr_size >= offsetof(struct ibv_device_attr_ex, device_cap_flags_ex) +
			 sizeof(attr->device_cap_flags_ex))
		attr->device_cap_flags_ex |= base->device_cap_flags;
	if (ctx->features & RSIW_FEATURE_TIMESTAMP) {
		if (attr_size >= offsetof(struct ibv_device_attr_ex, completion_timestamp_mask) +
				 sizeof(attr->completion_timestamp_mask))
			attr->completion_timestamp_mask = UINT64_MAX;
		if (attr_size >= offsetof(struct ibv_device_attr_ex, hca_core_clock) +
				 sizeof(attr->hca_core_clock))
			attr->hca_core_clock = ctx->clock_khz;
	}
	return 0;
}

static int rsiw_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

/*
 * Reads the clock of the time stamps in completions. Like these it is one number. Programs
 * look for it in the nanoseconds alone, as adapters have no seconds.
 */
static int rsiw_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;
	struct timespec now;

	values->comp_mask = 0;
	if (!(asked & IBV_VALUES_MASK_RAW_CLOCK))
		return asked ? EINVAL : 0;
	if (clock_gettime(CLOCK_MONOTONIC, &now))
		return errno;
	values->raw_clock = (struct timespec){
		.tv_nsec = now.tv_sec * 1000000000 + now.tv_nsec,
	};
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

static void rsiw_free_context(struct ibv_context *context)
{
	struct rsiw_context *ctx = to_rsiw_context(context);

	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops rsiw_context_ops = {
	.alloc_pd = rsiw_alloc_pd,
	.create_cq = rsiw_create_cq,
	.create_cq_ex = rsiw_create_cq_ex,
	.create_qp = rsiw_create_qp,
	.create_qp_ex = rsiw_create_qp_ex,
	.create_srq = rsiw_create_srq,
	.dealloc_pd = rsiw_dealloc_pd,
	.dereg_mr = rsiw_dereg_mr,
	.destroy_cq = rsiw_destroy_cq,
	.destroy_qp = rsiw_destroy_qp,
	.destroy_srq = rsiw_destroy_srq,
	.free_context = rsiw_free_context,
	.modify_qp = rsiw_modify_qp,
	.modify_srq = rsiw_modify_srq,
	.poll_cq = rsiw_poll_cq,
	.post_recv = rsiw_post_recv,
	.post_send = rsiw_post_send,
	.post_srq_recv = rsiw_post_srq_recv,
	.query_device_ex = rsiw_query_device_ex,
	.query_port = rsiw_query_port,
	.query_qp = rsiw_query_qp,
	.query_srq = rsiw_query_srq,
	.reg_dmabuf_mr = rsiw_reg_dmabuf_mr,
	.reg_mr = rsiw_reg_mr,
	.req_notify_cq = rsiw_req_notify_cq,
	.rereg_mr = rsiw_rereg_mr,
	.resize_cq = rsiw_resize_cq,
};

static const struct verbs_context_ops rsiw_window_ops = {
	.alloc_mw = rsiw_alloc_mw,
	.bind_mw = rsiw_bind_mw,
	.dealloc_mw = rsiw_dealloc_mw,
};

static const struct verbs_context_ops rsiw_timestamp_ops = {
	.query_rt_values = rsiw_query_rt_values,
};

static const struct verbs_context_ops rsiw_ud_ops = {
	.create_ah = rsiw_create_ah,
	.destroy_ah = rsiw_destroy_ah,
};

/* Takes the kernel's answer, which may lack everything that is rsiw's own. */
static void agree(struct rsiw_context *ctx, const struct rsiw_uresp_alloc_ctx *answer)
{
	ctx->layout = &rsiw_stock_rings;
	ctx->max_sge = SIW_MAX_SGE;
	ctx->max_inline = SIW_MAX_INLINE;
	/* The version is the older one of both sides; the first version is 1. */
	if (answer->magic != RSIW_ABI_MAGIC || answer->version < 1 ||
	    answer->version > RSIW_ABI_VERSION || !(answer->features & RSIW_FEATURE_RINGS))
		return;
	ctx->layout = &rsiw_own_rings;
	ctx->features = answer->features & WANTED;
	/* An older driver resizes in one step, which may lose queues. */
	if (!(ctx->features & RSIW_FEATURE_RESIZE_STEPS))
		ctx->features &= ~RSIW_FEATURE_RESIZE;
	ctx->max_sge = rsiw_smaller(answer->max_sge, RSIW_MAX_SGE);
	ctx->max_inline = rsiw_smaller(answer->max_inline, RSIW_MAX_INLINE);
	ctx->max_windows = answer->max_windows;
	ctx->clock_khz = answer->clock_khz;
}

/* Does the handshake. */
static int get_context(struct rsiw_context *ctx)
{
	struct rsiw_get_context cmd = {
		.magic = RSIW_ABI_MAGIC,
		.version = RSIW_ABI_VERSION,
		.features = WANTED,
	};
	struct rsiw_get_context_resp resp = {};
	size_t stock_resp = sizeof(resp.ibv_resp) + sizeof(struct siw_uresp_alloc_ctx);
	int ret = EINVAL;

	if (!is_set("RSIW_STOCK_RINGS"))
		ret = ibv_cmd_get_context(&ctx->vctx, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
					  sizeof(resp));
	/* A driver may refuse what it does not know. */
	if (ret == EINVAL || ret == EOPNOTSUPP) {
		memset(&resp, 0, sizeof(resp));
		ret = ibv_cmd_get_context(&ctx->vctx, &cmd.ibv_cmd, sizeof(cmd.ibv_cmd),
					  &resp.ibv_resp, stock_resp);
	}
	if (!ret)
		agree(ctx, &resp.drv_payload);
	return ret;
}

static struct verbs_context *rsiw_alloc_context(struct ibv_device *device, int cmd_fd,
						void *private_data)
{
	struct rsiw_context *ctx;

	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx, RDMA_DRIVER_SIW);
	if (!ctx)
		return NULL;
	errno = get_context(ctx);
	if (errno) {
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		return NULL;
	}
	verbs_set_ops(&ctx->vctx, &rsiw_context_ops);
	if (ctx->features & RSIW_FEATURE_WINDOWS)
		verbs_set_ops(&ctx->vctx, &rsiw_window_ops);
	if (ctx->features & RSIW_FEATURE_TIMESTAMP)
		verbs_set_ops(&ctx->vctx, &rsiw_timestamp_ops);
	if (ctx->features & RSIW_FEATURE_UD)
		verbs_set_ops(&ctx->vctx, &rsiw_ud_ops);
	return &ctx->vctx;
}

static struct verbs_device *rsiw_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct rsiw_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	/*
	 * For programs that use devices of InfiniBand only, as UCX does: libibverbs derives the
	 * transport from this type. Never by default: librdmacm ends connections of InfiniBand
	 * without waiting for what was posted.
	 */
	if (is_set("RSIW_AS_INFINIBAND"))
		sysfs_dev->node_type = IBV_NODE_CA;
	return &dev->vdev;
}

static void rsiw_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct rsiw_device, vdev));
}

static const struct verbs_match_ent rsiw_match[] = {
	VERBS_DRIVER_ID(RDMA_DRIVER_SIW),
	{},
};

static const struct verbs_device_ops rsiw_device_ops = {
	.name = "rsiw",
	.match_min_abi_version = SIW_ABI_VERSION,
	.match_max_abi_version = SIW_ABI_VERSION,
	.match_table = rsiw_match,
	.alloc_context = rsiw_alloc_context,
	.alloc_device = rsiw_alloc_device,
	.uninit_device = rsiw_uninit_device,
};

PROVIDER_DRIVER(rsiw, rsiw_device_ops);
