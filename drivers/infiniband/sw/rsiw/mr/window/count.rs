// SPDX-License-Identifier: GPL-2.0

//! How many windows are bound to a region, or by a queue pair.
//!
//! Context: any; no lock.
#![forbid(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// A count of windows that are bound. While there are any, what they are bound to stays: a region
/// can neither be invalidated nor deregistered.
pub(in crate::mr) struct Windows(Atomic<u32>);

/// The region or the queue pair goes away: there will be no more windows.
const GOING: u32 = 1 << 31;

impl Windows {
    pub(in crate::mr) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Returns how many windows are bound. Whatever was done through windows that are unbound by
    /// now comes before this.
    pub(in crate::mr) fn count(&self) -> u32 {
        self.0.load(Acquire) & !GOING
    }

    pub(in crate::mr) fn any(&self) -> bool {
        self.count() != 0
    }

    /// Allows no more windows, or returns `EBUSY` if there are some (V-DEA-4).
    pub(in crate::mr) fn end(&self) -> Result {
        // ORDERING: with `unbind`: what windows did comes before what is done to the region now.
        match self.0.cmpxchg(0, GOING, Acquire) {
            Err(state) if state & GOING == 0 => Err(EBUSY),
            // Also if [`GOING`] was set before: a bind that came too late may be counted for a
            // moment.
            _ => Ok(()),
        }
    }

    /// Counts a window, unless the region goes away. The caller enters the region's gate next, so
    /// that whoever makes the region invalid sees the count.
    pub(super) fn bind(&self) -> bool {
        if self.0.fetch_add(1, Relaxed) & GOING == 0 {
            return true;
        }
        self.unbind();
        false
    }

    pub(super) fn unbind(&self) {
        self.0.fetch_sub(1, Release);
    }
}
