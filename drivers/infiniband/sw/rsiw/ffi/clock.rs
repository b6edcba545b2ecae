// SPDX-License-Identifier: GPL-2.0

//! The monotonic clock, for differences that cannot panic.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use super::raw::b;

/// A point in time, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Nanos(i64);

impl Nanos {
    /// This moment. Any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: no requirements.
        Self(unsafe { b::ktime_get() })
    }

    /// Nanoseconds since `earlier`, 0 if that is later.
    #[inline]
    pub(crate) fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}
