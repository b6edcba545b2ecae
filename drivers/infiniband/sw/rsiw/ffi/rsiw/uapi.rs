// SPDX-License-Identifier: GPL-2.0

//! The C header of the driver's own ABI, with which `abi::own` compares what the driver uses.
//!
//! C header: [`include/uapi/rdma/rsiw-abi.h`](srctree/include/uapi/rdma/rsiw-abi.h)

#![allow(
    dead_code,
    reason = "all of it is looked at when this is compiled, only; not all compilers take that for a use"
)]

use crate::ffi::raw::b;

pub(crate) use b::{
    rsiw_bind as Bind,
    rsiw_cqe as Cqe,
    rsiw_rq_ctrl as RqCtrl,
    rsiw_rqe as Rqe,
    rsiw_sge as Sge,
    rsiw_sqe as Sqe,
    rsiw_ureq_alloc_ctx as AllocContextReq,
    rsiw_ureq_create_qp as CreateQpReq,
    rsiw_ureq_resize_cq as ResizeCqReq,
    rsiw_ureq_resize_qp as ResizeQpReq,
    rsiw_ureq_resize_srq as ResizeSrqReq,
    rsiw_uresp_alloc_ctx as AllocContextResp,
    rsiw_uresp_create_qp as CreateQpResp,
    rsiw_uresp_resize_cq as ResizeCqResp,
    rsiw_uresp_resize_qp as ResizeQpResp,
    rsiw_uresp_resize_srq as ResizeSrqResp, //
};

pub(crate) const MAGIC: u32 = b::RSIW_ABI_MAGIC;
pub(crate) const VERSION: u32 = b::RSIW_ABI_VERSION;

// CAST: C has one type for all of these numbers, which fit.
pub(crate) const MAX_SGE: usize = b::RSIW_MAX_SGE as usize;
pub(crate) const MAX_INLINE: usize = b::RSIW_MAX_INLINE as usize;
pub(crate) const FEATURE_RINGS: u64 = b::rsiw_feature_RSIW_FEATURE_RINGS as u64;
pub(crate) const FEATURE_IMM: u64 = b::rsiw_feature_RSIW_FEATURE_IMM as u64;
pub(crate) const FEATURE_ATOMIC: u64 = b::rsiw_feature_RSIW_FEATURE_ATOMIC as u64;
pub(crate) const FEATURE_WINDOWS: u64 = b::rsiw_feature_RSIW_FEATURE_WINDOWS as u64;
pub(crate) const FEATURE_TIMESTAMP: u64 = b::rsiw_feature_RSIW_FEATURE_TIMESTAMP as u64;
pub(crate) const FEATURE_RESIZE: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE as u64;
pub(crate) const FEATURE_RESIZE_STEPS: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE_STEPS as u64;
pub(crate) const RESIZE_MAKE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MAKE;
pub(crate) const RESIZE_MOVE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MOVE;
pub(crate) const RESIZE_SRQ_LIMIT: u32 = b::rsiw_resize_srq_flags_RSIW_RESIZE_SRQ_LIMIT;
pub(crate) const FEATURE_POLL: u64 = b::rsiw_feature_RSIW_FEATURE_POLL as u64;
pub(crate) const FEATURE_FLUSH: u64 = b::rsiw_feature_RSIW_FEATURE_FLUSH as u64;
pub(crate) const MAX_POLL_US: u32 = b::RSIW_MAX_POLL_US;
pub(crate) const OP_BIND_MW: u8 = b::rsiw_opcode_RSIW_OP_BIND_MW as u8;
pub(crate) const OP_WRITE_WITH_IMM: u8 = b::rsiw_opcode_RSIW_OP_WRITE_WITH_IMM as u8;
pub(crate) const CQE_WITH_IMM: u16 = b::RSIW_CQE_WITH_IMM as u16;
