// SPDX-License-Identifier: GPL-2.0

//! Synchronisation that the kernel crate does not offer.
//!
//! - [`gate::Gate`] counts its users, in any context, and can be closed for good, which sleeps
//!   until all have left. Users of [`kernel::revocable::Revocable`] are in RCU read-side sections,
//!   where they cannot sleep, and which a peer's transfers would make long.
//! - [`rcu_table::RcuTable`] finds reference-counted objects by their number without a lock, and
//!   hands out references. [`kernel::xarray::XArray`] takes its lock to look something up.
//! - [`ExclusiveCell`] lends its value to one function at a time, without the count of borrows of
//!   `core::cell::RefCell`, whose overflow would panic.
//!
//! # Context
//!
//! Entering and leaving a gate, and looking something up, are done in any context. Closing a gate
//! sleeps, and so does inserting. A cell is used by one thread only, in any context.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::sync::gate::Gate;
//! use kernel::prelude::*;
//!
//! #[pin_data]
//! struct Shared {
//!     #[pin]
//!     gate: Gate,
//! }
//!
//! impl Shared {
//!     fn use_it(&self) -> Result {
//!         let _inside = self.gate.enter().ok_or(ENODEV)?;
//!         // It is not taken apart before `_inside` is dropped.
//!         Ok(())
//!     }
//!
//!     fn take_apart(&self) {
//!         self.gate.close_and_wait();
//!         // Nobody is inside any more, and nobody gets in.
//!     }
//! }
//! ```

pub(crate) mod gate;
pub(crate) mod rcu_table;

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
