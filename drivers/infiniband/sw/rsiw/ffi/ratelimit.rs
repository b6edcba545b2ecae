// SPDX-License-Identifier: GPL-2.0

//! How often something may be done that others can cause.
//!
//! What shares a limit can hide each other: who uses it up leaves nothing for the rest.
//!
//! C header: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h)
//!
//! Context: any.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::ratelimit::RateLimit;
//! use kernel::prelude::*;
//!
//! fn complain(limit: &RateLimit) {
//!     if limit.allow() {
//!         let left_out = limit.take_missed();
//!         pr_info!("a bad packet, and {left_out} before that were not told of\n");
//!     }
//! }
//! ```

use super::raw::{
    b,
    h, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A `struct ratelimit_state`: ten times in five seconds, the kernel's default.
///
/// What was refused is counted, and told by who asks with [`RateLimit::take_missed`]: the kernel
/// itself writes no line about it.
///
/// # Invariants
///
/// `state` is initialised.
#[pin_data]
pub(crate) struct RateLimit {
    #[pin]
    state: Opaque<b::ratelimit_state>,
}

// SAFETY: C's states may be used from any thread.
unsafe impl Send for RateLimit {}
// SAFETY: as above; what changes in them is atomic or under their own lock.
unsafe impl Sync for RateLimit {}

impl RateLimit {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: the helper initialises it.
        pin_init!(Self {
            state <- Opaque::ffi_init(|state| {
                // SAFETY: `state` is a place for one, which does not move once initialised.
                unsafe { h::ratelimit_init(state) };
            }),
        })
    }

    /// Returns whether it may be done once more now, and counts that.
    pub(crate) fn allow(&self) -> bool {
        // SAFETY: by the type invariants. The name would be for a line that is not written.
        unsafe { b::___ratelimit(self.state.get(), c"".as_char_ptr()) != 0 }
    }

    /// Returns how often [`RateLimit::allow`] has refused since the last call.
    pub(crate) fn take_missed(&self) -> u32 {
        // SAFETY: by the type invariants.
        unsafe { h::ratelimit_state_reset_miss(self.state.get()) }
    }
}
