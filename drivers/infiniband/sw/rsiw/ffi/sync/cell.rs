// SPDX-License-Identifier: GPL-2.0

//! A value that is changed behind a shared reference, by one function at a time.
//!
//! Unlike `core::cell::RefCell` it has no count of borrows, whose overflow would panic.
//!
//! Context: any. A cell is used by one thread only.

use core::cell::{
    Cell,
    UnsafeCell, //
};

/// A value that one function at a time may change.
///
/// # Invariants
///
/// A reference to `value` exists only while `is_taken` is set, and only one.
pub(crate) struct ExclusiveCell<T> {
    is_taken: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> ExclusiveCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        // INVARIANT: there is no reference yet.
        Self {
            is_taken: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `f` with the value. Returns `None` without calling it if such a call is under way.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_taken.replace(true) {
            return None;
        }
        // SAFETY: by the invariant there is no other reference, and none is made before the flag is
        // taken back. Other threads have no access: an `UnsafeCell` is not `Sync`.
        let result = f(unsafe { &mut *self.value.get() });
        // INVARIANT: the reference has ended with the call.
        self.is_taken.set(false);
        Some(result)
    }
}
