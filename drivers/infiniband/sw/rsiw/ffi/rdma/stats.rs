// SPDX-License-Identifier: GPL-2.0

//! Counters as the core shows them (`struct rdma_hw_stats`).
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h).
//!
//! Context: process.

use crate::{
    ffi::{
        counts::Counts,
        raw::b, //
    },
    proto::counters::{
        Counter,
        COUNT, //
    },
};
use kernel::prelude::*;

/// Milliseconds for which sysfs shows what it has read: those of the core.
const LIFESPAN: usize = b::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize; // CAST: a small number.

/// The names, in the order of the counters.
const DESCS: &[b::rdma_stat_desc; COUNT] = &{
    let mut descs = [const { desc(Counter::ALL[0]) }; COUNT];
    let mut i = 0;
    while i < COUNT {
        descs[i] = desc(Counter::ALL[i]);
        i += 1;
    }
    descs
};

const fn desc(counter: Counter) -> b::rdma_stat_desc {
    b::rdma_stat_desc {
        name: counter.name().to_bytes_with_nul().as_ptr().cast(),
        flags: 0,
        priv_: core::ptr::null(),
    }
}

/// Makes the structure in which the core asks for all counters. The core frees it.
pub(super) fn alloc() -> *mut b::rdma_hw_stats {
    // CAST: less than 64.
    let len = COUNT as c_int;
    // SAFETY: the descriptions are static, and there are so many.
    unsafe { b::rdma_alloc_hw_stats_struct(DESCS.as_ptr(), len, LIFESPAN) }
}

/// Fills in the sums. Returns how many there are.
///
/// # Safety
///
/// `stats` came from [`alloc`], and the core has locked it.
pub(super) unsafe fn fill(stats: *mut b::rdma_hw_stats, counts: &Counts) -> c_int {
    // SAFETY: by the caller's promise; this is the address of one of its fields.
    let values = unsafe { &raw mut (*stats).value }.cast::<u64>();
    for (i, counter) in Counter::ALL.iter().enumerate() {
        let sum = counts.sum(*counter);
        // SAFETY: `alloc` has asked for `COUNT` values, which is the length of this list.
        unsafe { values.add(i).write(sum) };
    }
    // CAST: less than 64.
    COUNT as c_int
}
