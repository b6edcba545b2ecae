// SPDX-License-Identifier: GPL-2.0

//! The boundary to C: all `unsafe` code of the driver and all names of C items.
//!
//! Each file wraps one area in safe types, in the shape in which a `kernel::rdma` or `kernel::net`
//! could offer it. Code outside this folder uses these types only, by the "Rules for ffi" of
//! `rsiw-design.rst`.

pub(crate) mod cell;
pub(crate) mod clock;
pub(crate) mod context;
mod copy;
pub(crate) mod crc;
pub(crate) mod debugfs;
pub(crate) mod hrtimer;
pub(crate) mod iwcm;
mod kmem;
pub(crate) mod log;
pub(crate) mod module;
pub(crate) mod net;
pub(crate) mod noio;
mod opaque;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod process;
pub(crate) mod random;
mod raw;
pub(crate) mod rdma;
pub(crate) mod ring;
pub(crate) mod serving;
pub(crate) mod shmem;
pub(crate) mod sync;
pub(crate) mod timer;
pub(crate) mod trace;
pub(crate) mod uapi;
pub(crate) mod workqueue;
