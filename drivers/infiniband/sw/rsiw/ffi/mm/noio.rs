// SPDX-License-Identifier: GPL-2.0

//! Allocations that must not wait for input and output. Whoever moves data for a file system or a
//! block device must not wait for it to write pages back: the writing may wait for that data.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)
//!
//! Context: process.

use crate::ffi::raw::h;
use kernel::types::NotThreadSafe;

/// A scope in which no allocation of this thread, whatever its flags, starts input or output.
///
/// # Invariants
///
/// `before` is what the thread's flags say of this outside the scope.
pub(crate) struct NoIo {
    before: u32,
    _thread: NotThreadSafe,
}

impl NoIo {
    /// Begins the scope. Scopes of one thread nest.
    pub(crate) fn enter() -> Self {
        // INVARIANT: the call returns the flags as they were.
        Self {
            // SAFETY: changes flags of the calling thread only.
            before: unsafe { h::memalloc_noio_save() },
            _thread: NotThreadSafe,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: the same thread, and the flags as they were, by the invariant.
        unsafe { h::memalloc_noio_restore(self.before) };
    }
}
