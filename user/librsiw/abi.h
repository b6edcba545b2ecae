/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the library shares with the kernel: the commands of libibverbs with the
 * driver's parts, and where things are in the entries of either kind of ring.
 */
#ifndef LIBRSIW_ABI_H
#define LIBRSIW_ABI_H

#include <stddef.h>

#include <infiniband/kern-abi.h>
#include <rdma/siw-abi.h>
#include <kernel-abi/siw-abi.h>
#include <rdma/rsiw-abi.h>
#include <kernel-abi/rsiw-abi.h>

DECLARE_DRV_CMD(rsiw_get_context, IB_USER_VERBS_CMD_GET_CONTEXT, rsiw_ureq_alloc_ctx,
		rsiw_uresp_alloc_ctx);
DECLARE_DRV_CMD(rsiw_create_cq, IB_USER_VERBS_CMD_CREATE_CQ, empty, siw_uresp_create_cq);
DECLARE_DRV_CMD(rsiw_create_cq_ex, IB_USER_VERBS_EX_CMD_CREATE_CQ, empty, siw_uresp_create_cq);
DECLARE_DRV_CMD(rsiw_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ, rsiw_ureq_resize_cq,
		rsiw_uresp_resize_cq);
DECLARE_DRV_CMD(rsiw_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ, empty, siw_uresp_create_srq);
DECLARE_DRV_CMD(rsiw_create_qp, IB_USER_VERBS_CMD_CREATE_QP, rsiw_ureq_create_qp,
		rsiw_uresp_create_qp);
DECLARE_DRV_CMD(rsiw_reg_mr, IB_USER_VERBS_CMD_REG_MR, siw_ureq_reg_mr, siw_uresp_reg_mr);

/*
 * The two kinds of ring differ in these numbers only: the front of the entries is the
 * same. What own entries have beyond that is read and written only if they are own ones.
 */
struct rsiw_layout {
	uint16_t sqe_size;
	uint16_t sqe_sge;		/* where the elements begin */
	uint16_t sqe_data;		/* where inline data begins */
	uint16_t sqe_inline_length;	/* where its length is, 32 bits */
	uint16_t rqe_size;
	uint16_t cqe_size;
	uint16_t max_sge;
	uint16_t max_inline;
};

extern const struct rsiw_layout rsiw_stock_rings;
extern const struct rsiw_layout rsiw_own_rings;

#define SAME_PLACE(ours, theirs, member)				\
	static_assert(offsetof(struct ours, member) ==			\
		      offsetof(struct theirs, member) &&		\
		      sizeof(((struct ours *)0)->member) ==		\
		      sizeof(((struct theirs *)0)->member), #ours " differs")

SAME_PLACE(rsiw_sqe, siw_sqe, id);
SAME_PLACE(rsiw_sqe, siw_sqe, flags);
SAME_PLACE(rsiw_sqe, siw_sqe, num_sge);
SAME_PLACE(rsiw_sqe, siw_sqe, opcode);
SAME_PLACE(rsiw_sqe, siw_sqe, rkey);
SAME_PLACE(rsiw_sqe, siw_sqe, raddr);
SAME_PLACE(rsiw_rqe, siw_rqe, id);
SAME_PLACE(rsiw_rqe, siw_rqe, flags);
SAME_PLACE(rsiw_rqe, siw_rqe, num_sge);
SAME_PLACE(rsiw_cqe, siw_cqe, id);
SAME_PLACE(rsiw_cqe, siw_cqe, flags);
SAME_PLACE(rsiw_cqe, siw_cqe, opcode);
SAME_PLACE(rsiw_cqe, siw_cqe, status);
SAME_PLACE(rsiw_cqe, siw_cqe, bytes);
SAME_PLACE(rsiw_sge, siw_sge, laddr);
SAME_PLACE(rsiw_sge, siw_sge, length);
SAME_PLACE(rsiw_sge, siw_sge, lkey);
/* A stock completion has 64 bits for the number of the QP, so vendor_err reads as 0. */
static_assert(offsetof(struct rsiw_cqe, qp_id) == offsetof(struct siw_cqe, qp_id), "qp_id");
static_assert(offsetof(struct rsiw_cqe, data) == offsetof(struct siw_cqe, imm_data), "data");

/* The driver has the same numbers, in abi.rs. */
static_assert(sizeof(struct rsiw_ureq_alloc_ctx) == 16, "rsiw_ureq_alloc_ctx");
static_assert(sizeof(struct rsiw_uresp_alloc_ctx) == 56, "rsiw_uresp_alloc_ctx");
static_assert(offsetof(struct rsiw_uresp_alloc_ctx, features) == 16, "features");
static_assert(offsetof(struct rsiw_uresp_alloc_ctx, clock_khz) == 36, "clock_khz");
static_assert(sizeof(struct rsiw_rq_ctrl) == 8, "rsiw_rq_ctrl");
static_assert(sizeof(struct rsiw_ureq_resize_cq) == 8, "rsiw_ureq_resize_cq");
static_assert(sizeof(struct rsiw_uresp_resize_cq) == 16, "rsiw_uresp_resize_cq");
static_assert(sizeof(struct rsiw_ureq_resize_qp) == 16, "rsiw_ureq_resize_qp");
static_assert(sizeof(struct rsiw_uresp_resize_qp) == 24, "rsiw_uresp_resize_qp");
static_assert(sizeof(struct rsiw_ureq_resize_srq) == 16, "rsiw_ureq_resize_srq");
static_assert(sizeof(struct rsiw_uresp_resize_srq) == 16, "rsiw_uresp_resize_srq");
static_assert(sizeof(struct siw_sqe) == 120, "siw_sqe");
static_assert(sizeof(struct siw_rqe) == 112, "siw_rqe");
static_assert(sizeof(struct siw_cqe) == 32, "siw_cqe");
static_assert(sizeof(struct siw_cq_ctrl) == 8, "siw_cq_ctrl");
static_assert(sizeof(struct rsiw_sqe) == 320, "rsiw_sqe");
static_assert(offsetof(struct rsiw_sqe, path) == 16, "path");
static_assert(offsetof(struct rsiw_sqe, imm.data) == 24, "imm");
static_assert(offsetof(struct rsiw_sqe, atomic.compare_add) == 24, "compare_add");
static_assert(offsetof(struct rsiw_sqe, atomic.swap) == 32, "swap");
static_assert(offsetof(struct rsiw_sqe, bind.window) == 24, "window");
static_assert(offsetof(struct rsiw_sqe, bind.region) == 28, "region");
static_assert(offsetof(struct rsiw_sqe, bind.length) == 32, "length");
static_assert(offsetof(struct rsiw_sqe, bind.access) == 40, "access");
static_assert(offsetof(struct rsiw_sqe, dest.dgid) == 24, "dgid");
static_assert(offsetof(struct rsiw_sqe, dest.qpn) == 40, "qpn");
static_assert(offsetof(struct rsiw_sqe, dest.qkey) == 44, "qkey");
static_assert(offsetof(struct rsiw_sqe, inline_length) == 48, "inline_length");
static_assert(offsetof(struct rsiw_sqe, sge) == 64, "sge");
static_assert(sizeof(struct rsiw_dest) == 24, "rsiw_dest");
static_assert(sizeof(struct rsiw_path) == 8, "rsiw_path");
static_assert(offsetof(struct rsiw_path, sgid_index) == 0, "sgid_index");
static_assert(offsetof(struct rsiw_path, traffic_class) == 1, "traffic_class");
static_assert(offsetof(struct rsiw_path, hop_limit) == 2, "hop_limit");
static_assert(offsetof(struct rsiw_path, flow_label) == 4, "flow_label");
static_assert(sizeof(struct rsiw_rqe) == 272, "rsiw_rqe");
static_assert(offsetof(struct rsiw_rqe, sge) == 16, "sge");
static_assert(sizeof(struct rsiw_cqe) == 64, "rsiw_cqe");
static_assert(offsetof(struct rsiw_cqe, data) == 16, "data");
static_assert(offsetof(struct rsiw_cqe, vendor_err) == 28, "vendor_err");
static_assert(offsetof(struct rsiw_cqe, timestamp) == 32, "timestamp");
static_assert(offsetof(struct rsiw_cqe, wallclock) == 40, "wallclock");
static_assert(offsetof(struct rsiw_cqe, src_qp) == 48, "src_qp");

#endif
