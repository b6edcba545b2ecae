// SPDX-License-Identifier: GPL-2.0

//! A work item: what queues it, and what runs it. The kernel has a bit for "is queued", which is
//! set and cleared with full barriers.

use crate::sync::atomic::{any_order, fully_ordered};
use loom::sync::atomic::{AtomicBool, Ordering};

pub struct Work(AtomicBool);

impl Work {
    #[expect(clippy::new_without_default, reason = "as the rest of this crate")]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Queues it, unless it is queued already.
    pub fn queue(&self) {
        any_order();
        fully_ordered(|| self.0.swap(true, Ordering::AcqRel));
    }

    /// Begins to run it, if it is queued. It may be queued again from now on. Returns whether it
    /// was.
    pub fn begin(&self) -> bool {
        any_order();
        fully_ordered(|| self.0.swap(false, Ordering::AcqRel))
    }
}
