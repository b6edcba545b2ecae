/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Verbs that the library's provider for this driver leaves out, straight from
 * uverbs. All return 0 or an error number.
 */
#ifndef RSIW_RAW_H
#define RSIW_RAW_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/rsiw-abi.h>

struct ib_uverbs_send_wr;
struct ib_uverbs_sge;

int raw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);

/*
 * Another size for `cq`, of which the library learns nothing: `key` is where
 * the ring of `entries` entries is mapped from, see rsiw-abi.h.
 */
int raw_resize_cq(struct ibv_cq *cq, uint32_t *entries, uint64_t *key);
/* As well, with a driver's part of the request. */
int raw_resize_cq_with(struct ibv_cq *cq, struct rsiw_ureq_resize_cq ours, uint32_t *entries,
		       uint64_t *key);
/* Octets of an entry of that ring, of which there are more if requests have more elements. */
size_t raw_cqe_size(struct ibv_context *ctx);

/*
 * The driver's methods that give queues other depths, of which the library learns
 * nothing either. The first one makes any call, for whatever object has that number:
 * without a request if `len` is 0, without an answer if `room` is.
 */
int raw_resize(struct ibv_context *ctx, unsigned int object, uint32_t handle,
	       const void *req, unsigned int len, void *resp, unsigned int room);
int raw_resize_qp(struct ibv_qp *qp, uint32_t sqe, uint32_t rqe,
		  struct rsiw_uresp_resize_qp *resp);
int raw_resize_srq(struct ibv_srq *srq, uint32_t rqe,
		   struct rsiw_uresp_resize_srq *resp);
/* Whether the rings of the process are our own. */
bool raw_own_rings(struct ibv_context *ctx);

/* Changes `mr` in place: its keys are those of the new region. */
int raw_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t len, uint64_t iova, int access);

/* A region of a DMA buffer; NULL with errno. */
struct ibv_mr *raw_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t len,
			      uint64_t iova, int fd, int access);
int raw_dereg_dmabuf(struct ibv_mr *mr);

/* By the number that the file knows the region by, whosever it is. */
struct raw_mr_info {
	uint32_t lkey, rkey;
	uint64_t length, iova;
};

int raw_query_mr(struct ibv_context *ctx, uint32_t handle,
		 struct raw_mr_info *info);
int raw_dereg(struct ibv_context *ctx, uint32_t handle);
/*
 * Creates a QP of one request each, whose number is in `*num`, with `ours` as the
 * driver's part of the request; that of the answer goes to `answer` at last.
 */
#define RAW_ANSWER 1024
int raw_create_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type,
		  struct rsiw_ureq_create_qp ours, void *answer, uint32_t *num);
/*
 * The core's call to post a request of one element, or none (NULL), to the QP of
 * this number.
 */
int raw_post(struct ibv_context *ctx, uint32_t handle, const struct ib_uverbs_send_wr *wr,
	     const struct ib_uverbs_sge *sge);
/* What a post of the library ends with, for the QP of this number. */
int raw_doorbell(struct ibv_context *ctx, uint32_t handle);
/*
 * Opens the file of the device anew, and a context, with that driver's part of the
 * request; that of the answer goes to `answer`, which has a multiple of 4 octets.
 */
int raw_get_context(struct ibv_context *like, const void *request, size_t len, void *answer,
		    size_t room);
/* A request that the core is to post to that QP. */
int raw_post_send(struct ibv_context *ctx, uint32_t handle, const struct ibv_send_wr *wr);
/* A command of this number without anything meaningful in it. */
int raw_command(struct ibv_context *ctx, unsigned int number);

#endif
