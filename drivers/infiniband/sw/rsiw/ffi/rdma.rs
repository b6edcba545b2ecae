// SPDX-License-Identifier: GPL-2.0

//! The RDMA core: devices, verbs objects and their callbacks.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h).

pub(crate) mod attr;
mod callbacks;
pub(crate) mod counts;
pub(crate) mod details;
pub(crate) mod device;
pub(crate) mod driver;
mod extent;
pub(crate) mod handle;
pub(crate) mod iwcm;
pub(crate) mod kmr;
pub(crate) mod link;
pub(crate) mod mmap;
mod object;
pub(crate) mod stats;
pub(crate) mod udata;
pub(crate) mod umem;
pub(crate) mod wc;
pub(crate) mod wr;
