// SPDX-License-Identifier: GPL-2.0

//! The monotonic clock.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use super::raw::b;

/// This moment, in nanoseconds since some point in the past. Any context.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: no requirements.
    let nanoseconds = unsafe { b::ktime_get() };
    // They do not wrap in the lifetime of a machine, so that they are never negative.
    u64::try_from(nanoseconds).unwrap_or(0)
}
