// SPDX-License-Identifier: GPL-2.0

//! Staying on a processor.
//!
//! C header: [`include/linux/preempt.h`](srctree/include/linux/preempt.h)
//!
//! Context: any.

use super::raw::h;
use kernel::types::NotThreadSafe;

/// As long as it lives, this task stays on its processor, although it may be preempted there.
///
/// # Invariants
///
/// Migration was disabled once for this object.
pub(crate) struct NoMigration(NotThreadSafe);

impl NoMigration {
    /// Begins the section. Sections of one task nest.
    pub(crate) fn enter() -> Self {
        // SAFETY: may be called anywhere; `drop` ends it.
        unsafe { h::migrate_disable() };
        // INVARIANT: just done.
        Self(NotThreadSafe)
    }
}

impl Drop for NoMigration {
    fn drop(&mut self) {
        // SAFETY: the same task, which has disabled it once by the invariant.
        unsafe { h::migrate_enable() };
    }
}
