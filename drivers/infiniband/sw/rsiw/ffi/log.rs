// SPDX-License-Identifier: GPL-2.0

//! Messages that a peer or a process can provoke (T-44). Any context.

use super::raw::h;

/// Returns whether such a message may be printed now.
pub(crate) fn allowed() -> bool {
    // SAFETY: callable from any context.
    unsafe { h::log_allowed() }
}

/// Prints a line unless too many were printed lately.
macro_rules! pr_ratelimited {
    ($($arg:tt)*) => {
        if $crate::ffi::log::allowed() {
            ::kernel::pr_info!($($arg)*);
        }
    };
}
pub(crate) use pr_ratelimited;
