// SPDX-License-Identifier: GPL-2.0

//! The monotonic clock, and that of the day.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use crate::ffi::raw::b;

/// Returns the nanoseconds since some point in the past. Any context.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: no requirements.
    let nanoseconds = unsafe { b::ktime_get() };
    // They do not wrap in the lifetime of a machine, so they are never negative.
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// Returns the nanoseconds since 1970. Any context.
pub(crate) fn wall() -> u64 {
    // SAFETY: no requirements.
    let nanoseconds = unsafe { b::ktime_get_with_offset(b::tk_offsets_TK_OFFS_REAL) };
    // The administrator may set it to a time before.
    u64::try_from(nanoseconds).unwrap_or(0)
}
