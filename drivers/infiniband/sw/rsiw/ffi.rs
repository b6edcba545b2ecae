// SPDX-License-Identifier: GPL-2.0

//! The boundary to C: all `unsafe` code of the driver and all names of C items.
//!
//! Each folder wraps one area in safe types, in the shape in which the kernel crate could offer it,
//! and has a page about it: [`rdma`], [`net`], [`sync`], [`time`], [`mm`], [`task`]. No other
//! driver has a use for [`rsiw`]. Nothing here uses other modules of the driver but `num`, and
//! nothing else here uses [`rsiw`] (`tools/lint/layers.py`), so another driver can have the rest:
//! `samples/kernel/rdma_null.rs` does.
//!
//! Code outside this folder uses only these types, by the "Rules for ffi" of `rsiw-ffi.rst`.

pub(crate) mod debugfs;
pub(crate) mod hash;
pub(crate) mod mm;
pub(crate) mod module;
pub(crate) mod net;
mod raw;
pub(crate) mod rdma;
pub(crate) mod rsiw;
pub(crate) mod sync;
pub(crate) mod task;
pub(crate) mod time;
pub(crate) mod workqueue;
