// SPDX-License-Identifier: GPL-2.0
/* Verbs straight from uverbs, see raw.h. */
#include "raw.h"
#include "ep.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rsiw-abi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define HEADER(cmd, resp, number) {			\
	.command = IB_USER_VERBS_CMD_ ## number,	\
	.in_words = sizeof(cmd) / 4,			\
	.out_words = sizeof(resp) / 4,			\
}

/* The command channel is that of the library: locks are the kernel's. */
static int command(struct ibv_context *ctx, const void *cmd, size_t len)
{
	return write(ctx->cmd_fd, cmd, len) == (ssize_t)len ? 0 : errno;
}

int raw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ib_uverbs_query_srq_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_query_srq body;
	} cmd = {
		.hdr = HEADER(cmd, resp, QUERY_SRQ),
		.body = { .response = (uintptr_t)&resp,
			  .srq_handle = srq->handle },
	};
	int err = command(srq->context, &cmd, sizeof(cmd));

	attr->max_wr = resp.max_wr;
	attr->max_sge = resp.max_sge;
	attr->srq_limit = resp.srq_limit;
	return err;
}

static int resize_cq(struct ibv_cq *cq, const struct rsiw_ureq_resize_cq *ours,
		     uint32_t *entries, uint64_t *key)
{
	struct {
		/* Its flexible end is the driver's part. */
		__u32 cqe, reserved;
		struct rsiw_uresp_resize_cq drv;
	} resp = { 0 };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_resize_cq body;
		struct rsiw_ureq_resize_cq ours;
	} cmd = {
		.hdr = HEADER(cmd, resp, RESIZE_CQ),
		.body = { .response = (uintptr_t)&resp,
			  .cq_handle = cq->handle, .cqe = *entries },
	};
	size_t len = sizeof(cmd);
	int err;

	if (ours) {
		cmd.ours = *ours;
	} else {
		len = offsetof(typeof(cmd), ours);
		cmd.hdr.in_words = len / 4;
	}
	err = command(cq->context, &cmd, len);
	if (!err) {
		*entries = resp.drv.num_cqe;
		*key = resp.drv.cq_key;
	}
	return err;
}

int raw_resize_cq(struct ibv_cq *cq, uint32_t *entries, uint64_t *key)
{
	return resize_cq(cq, NULL, entries, key);
}

int raw_resize_cq_with(struct ibv_cq *cq, struct rsiw_ureq_resize_cq ours, uint32_t *entries,
		       uint64_t *key)
{
	return resize_cq(cq, &ours, entries, key);
}

int raw_create_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type,
		  struct rsiw_ureq_create_qp ours, void *answer, uint32_t *num)
{
	struct ib_uverbs_create_qp_resp *resp = answer;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_qp body;
		struct rsiw_ureq_create_qp ours;
	} cmd = {
		.ours = ours,
		.hdr = { .command = IB_USER_VERBS_CMD_CREATE_QP,
			 .in_words = sizeof(cmd) / 4,
			 .out_words = RAW_ANSWER / 4 },
		.body = { .response = (uintptr_t)answer,
			  .pd_handle = pd->handle, .send_cq_handle = cq->handle,
			  .recv_cq_handle = cq->handle, .max_send_wr = 1,
			  .max_recv_wr = 1, .max_send_sge = 1,
			  .max_recv_sge = 1, .qp_type = type },
	};
	int err = command(pd->context, &cmd, sizeof(cmd));

	if (!err)
		*num = resp->qpn;
	return err;
}

int raw_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t len, uint64_t iova, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr body;
	} cmd = {
		.hdr = HEADER(cmd, resp, REREG_MR),
		.body = { .response = (uintptr_t)&resp,
			  .mr_handle = mr->handle, .flags = flags,
			  .start = (uintptr_t)addr, .length = len,
			  .hca_va = iova, .access_flags = access,
			  .pd_handle = pd ? pd->handle : 0 },
	};
	int err = command(mr->context, &cmd, sizeof(cmd));

	if (!err) {
		mr->lkey = resp.lkey;
		mr->rkey = resp.rkey;
	}
	return err;
}

static struct ib_uverbs_attr attr(unsigned int id, const void *data,
				  unsigned int len)
{
	struct ib_uverbs_attr a = {
		.attr_id = id, .len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
	};

	/* Small values go into the attribute itself. */
	if (len <= sizeof(a.data))
		memcpy(&a.data, data, len);
	else
		a.data = (uintptr_t)data;
	return a;
}

static struct ib_uverbs_attr out(unsigned int id, void *data, unsigned int len)
{
	struct ib_uverbs_attr a = attr(id, &data, sizeof(data));

	a.len = len;
	return a;
}

static int call(struct ibv_context *ctx, unsigned int object,
		unsigned int method, struct ib_uverbs_attr *attrs,
		unsigned int n, uint32_t *handle)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[16];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd.hdr) + n * sizeof(*attrs),
			.object_id = object, .method_id = method,
			.num_attrs = n, .driver_id = RDMA_DRIVER_SIW,
		},
	};

	memcpy(cmd.attrs, attrs, n * sizeof(*attrs));
	if (ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return errno;
	/* The first attribute is the object, whose number comes back there. */
	*handle = cmd.attrs[0].data;
	return 0;
}

int raw_query_mr(struct ibv_context *ctx, uint32_t handle,
		 struct raw_mr_info *info)
{
	struct ib_uverbs_attr attrs[] = {
		{ .attr_id = UVERBS_ATTR_QUERY_MR_HANDLE,
		  .flags = UVERBS_ATTR_F_MANDATORY, .data = handle },
		out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &info->lkey, 4),
		out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &info->rkey, 4),
		out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &info->length, 8),
		out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, &info->iova, 8),
	};

	return call(ctx, UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, attrs,
		    COUNT(attrs), &handle);
}

struct ibv_mr *raw_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t len,
			      uint64_t iova, int fd, int access)
{
	uint64_t length = len;
	uint32_t handle = 0, flags = access;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	struct ib_uverbs_attr attrs[] = {
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
		  .flags = UVERBS_ATTR_F_MANDATORY },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE,
		  .flags = UVERBS_ATTR_F_MANDATORY, .data = pd->handle },
		attr(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &offset, 8),
		attr(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &length, 8),
		attr(UVERBS_ATTR_REG_DMABUF_MR_IOVA, &iova, 8),
		attr(UVERBS_ATTR_REG_DMABUF_MR_FD, &fd, 4),
		attr(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &flags, 4),
		out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->lkey, 4),
		out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->rkey, 4),
	};
	int err = call(pd->context, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR,
		       attrs, COUNT(attrs), &handle);

	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	mr->context = pd->context;
	mr->pd = pd;
	mr->length = len;
	mr->handle = handle;
	return mr;
}

int raw_dereg(struct ibv_context *ctx, uint32_t handle)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_dereg_mr body;
	} cmd = {
		.hdr = { .command = IB_USER_VERBS_CMD_DEREG_MR,
			 .in_words = sizeof(cmd) / 4 },
		.body = { .mr_handle = handle },
	};

	return command(ctx, &cmd, sizeof(cmd));
}

int raw_dereg_dmabuf(struct ibv_mr *mr)
{
	int err = raw_dereg(mr->context, mr->handle);

	if (!err)
		free(mr);
	return err;
}

int raw_post(struct ibv_context *ctx, uint32_t handle, const struct ib_uverbs_send_wr *wr,
	     const struct ib_uverbs_sge *sge)
{
	struct ib_uverbs_post_send_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send body;
		struct ib_uverbs_send_wr wr;
		struct ib_uverbs_sge sge;
	} cmd = {
		.hdr = HEADER(cmd, resp, POST_SEND),
		.body = { .response = (uintptr_t)&resp, .qp_handle = handle,
			  .wqe_size = sizeof(cmd.wr) },
	};
	size_t len = sizeof(cmd);

	if (wr) {
		cmd.body.wr_count = cmd.body.sge_count = 1;
		cmd.wr = *wr;
		cmd.sge = *sge;
	} else {
		len = offsetof(typeof(cmd), wr);
		cmd.hdr.in_words = len / 4;
	}
	return command(ctx, &cmd, len);
}

int raw_doorbell(struct ibv_context *ctx, uint32_t handle)
{
	return raw_post(ctx, handle, NULL, NULL);
}

bool raw_own_rings(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;

	CHECK_SYS(ibv_query_device(ctx, &attr));
	return attr.max_sge == RSIW_MAX_SGE;
}

size_t raw_cqe_size(struct ibv_context *ctx)
{
	return raw_own_rings(ctx) ? sizeof(struct rsiw_cqe) : 32;
}

int raw_resize(struct ibv_context *ctx, unsigned int object, uint32_t handle,
	       const void *req, unsigned int len, void *resp, unsigned int room)
{
	unsigned int method = object == UVERBS_OBJECT_QP ? RSIW_METHOD_QP_RESIZE :
							   RSIW_METHOD_SRQ_RESIZE;
	struct ib_uverbs_attr attrs[3] = {
		{ .attr_id = RSIW_ATTR_RESIZE_HANDLE,
		  .flags = UVERBS_ATTR_F_MANDATORY, .data = handle },
	};
	unsigned int n = 1;

	if (len)
		attrs[n++] = attr(UVERBS_ATTR_UHW_IN, req, len);
	if (room)
		attrs[n++] = out(UVERBS_ATTR_UHW_OUT, resp, room);
	return call(ctx, object, method, attrs, n, &handle);
}

int raw_resize_qp(struct ibv_qp *qp, uint32_t sqe, uint32_t rqe,
		  struct rsiw_uresp_resize_qp *resp)
{
	struct rsiw_ureq_resize_qp req = { .num_sqe = sqe, .num_rqe = rqe };

	return raw_resize(qp->context, UVERBS_OBJECT_QP, qp->handle, &req,
			  sizeof(req), resp, sizeof(*resp));
}

int raw_resize_srq(struct ibv_srq *srq, uint32_t rqe,
		   struct rsiw_uresp_resize_srq *resp)
{
	struct rsiw_ureq_resize_srq req = { .num_rqe = rqe };

	return raw_resize(srq->context, UVERBS_OBJECT_SRQ, srq->handle, &req,
			  sizeof(req), resp, sizeof(*resp));
}

int raw_get_context(struct ibv_context *like, const void *request, size_t len, void *answer,
		    size_t room)
{
	union {
		struct {
			struct ib_uverbs_cmd_hdr hdr;
			struct ib_uverbs_get_context body;
			uint8_t own[];
		};
		uint64_t room[64];
	} cmd = {};
	union {
		struct ib_uverbs_get_context_resp body;
		uint64_t room[64];
	} resp;
	size_t size = sizeof(cmd.hdr) + sizeof(cmd.body) + len;
	char path[128];
	int fd, err;

	if (size > sizeof(cmd) || sizeof(resp.body) + room > sizeof(resp))
		return E2BIG;
	memset(&resp, 0xee, sizeof(resp));
	cmd.hdr.command = IB_USER_VERBS_CMD_GET_CONTEXT;
	cmd.hdr.in_words = size / 4;
	cmd.hdr.out_words = (sizeof(resp.body) + room) / 4;
	cmd.body.response = (uintptr_t)&resp;
	memcpy(cmd.own, request, len);
	snprintf(path, sizeof(path), "/dev/infiniband/%s", like->device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = write(fd, &cmd, size) == (ssize_t)size ? 0 : errno;
	if (!err)
		close(resp.body.async_fd);
	close(fd);
	memcpy(answer, &resp.body + 1, room);
	return err;
}

int raw_post_send(struct ibv_context *ctx, uint32_t handle, const struct ibv_send_wr *wr)
{
	struct ib_uverbs_sge sge = { wr->sg_list->addr, wr->sg_list->length,
				     wr->sg_list->lkey };
	struct ib_uverbs_send_wr raw = {
		.wr_id = wr->wr_id, .num_sge = 1, .opcode = wr->opcode,
		.send_flags = wr->send_flags, .ex.imm_data = wr->imm_data,
		.wr.atomic = { .remote_addr = wr->wr.atomic.remote_addr,
			       .compare_add = wr->wr.atomic.compare_add,
			       .swap = wr->wr.atomic.swap,
			       .rkey = wr->wr.atomic.rkey },
	};

	if (wr->opcode <= IBV_WR_RDMA_READ) {
		raw.wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
		raw.wr.rdma.rkey = wr->wr.rdma.rkey;
	}
	return raw_post(ctx, handle, &raw, &sge);
}

int raw_command(struct ibv_context *ctx, unsigned int number)
{
	/* As long as any of them; what it answers goes nowhere. */
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint64_t body[16];
	} cmd = {
		.hdr = { .command = number, .in_words = sizeof(cmd) / 4,
			 .out_words = 16 },
	};

	return command(ctx, &cmd, sizeof(cmd));
}
