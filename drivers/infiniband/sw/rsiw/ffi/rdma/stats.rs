// SPDX-License-Identifier: GPL-2.0

//! Counters as the core shows them (`struct rdma_hw_stats`).
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h). Context: process.

use super::counts::{
    Counted,
    Counts, //
};
use crate::ffi::raw::b;
use kernel::{
    prelude::*,
    str::CStr, //
};

/// Milliseconds for which sysfs shows what it has read: the core's default.
const LIFESPAN: usize = b::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize; // CAST: a small number.

/// Describes a counter to the core.
#[repr(transparent)]
pub(crate) struct StatDesc(b::rdma_stat_desc);

impl StatDesc {
    /// Describes a counter that the administrator knows by `name`.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(b::rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr().cast(),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }
}

/// Makes the structure in which the core asks for all counters. The core frees it.
pub(super) fn alloc<C: Counted>() -> *mut b::rdma_hw_stats {
    // CAST: at most 64.
    let len = C::DESCS.len() as c_int;
    // SAFETY: the descriptions are static and transparent, and there are `len` of them.
    unsafe { b::rdma_alloc_hw_stats_struct(C::DESCS.as_ptr().cast(), len, LIFESPAN) }
}

/// Fills in the sums. Returns how many there are.
///
/// # Safety
///
/// `stats` came from [`alloc`] of the same counters, and the core has locked it.
pub(super) unsafe fn fill<C: Counted>(stats: *mut b::rdma_hw_stats, counts: &Counts<C>) -> c_int {
    // SAFETY: by the caller's promise; this is the address of one of its fields.
    let values = unsafe { &raw mut (*stats).value }.cast::<u64>();
    for i in 0..C::DESCS.len() {
        // SAFETY: `alloc` has asked for as many values as there are descriptions.
        unsafe { values.add(i).write(counts.sum_at(i)) };
    }
    // CAST: at most 64.
    C::DESCS.len() as c_int
}
