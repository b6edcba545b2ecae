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
//! - [`Watched`] is a spin lock that tells something of its state without being taken. Whoever
//!   describes an object may be a process of least priority, and may ask as often as it likes. So
//!   it must take no lock that senders and receivers need. It reads one word, which is made anew
//!   whenever the lock is released, so code that changes the state need not think of it. That costs
//!   a store to memory that the lock's holder has in its cache.
//!
//! # Context
//!
//! Entering and leaving a gate, and looking something up, are done in any context. Closing a gate
//! sleeps, and so does inserting. A cell is used by one thread only, in any context; a watched lock
//! is taken in any.
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
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    SpinLockIrq,
    SpinLockIrqGuard, //
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

/// What a [`Watched`] lock protects.
pub(crate) trait Watch: Unpin {
    /// Returns what is told of the value, in one word. Called whenever the lock is released, so it
    /// should cost a few loads only.
    fn word(&self) -> u64;
}

/// A [`SpinLockIrq`], and a word about what it protects.
#[pin_data]
pub(crate) struct Watched<T> {
    #[pin]
    lock: SpinLockIrq<T>,
    /// What [`Watch::word`] returned when the lock was last released.
    word: Atomic<u64>,
}

impl<T: Watch> Watched<T> {
    /// Makes a watched lock of the lock that `lock` initialises.
    pub(crate) fn new(lock: impl PinInit<SpinLockIrq<T>>) -> impl PinInit<Self> {
        pin_init!(Self {
            lock <- lock,
            word: Atomic::new(0),
        })
        .pin_chain(|this| {
            // The word is made when the guard is dropped, at the end of this function.
            drop(this.lock());
            Ok(())
        })
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> WatchedGuard<'_, T> {
        WatchedGuard {
            word: &self.word,
            guard: self.lock.lock(),
        }
    }

    /// Returns the word, which may be outdated at once.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Relaxed)
    }
}

/// Who holds a [`Watched`] lock.
pub(crate) struct WatchedGuard<'a, T: Watch> {
    word: &'a Atomic<u64>,
    guard: SpinLockIrqGuard<'a, T>,
}

impl<T: Watch> Deref for WatchedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: Watch> DerefMut for WatchedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: Watch> Drop for WatchedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // The lock is released when this function has returned.
        self.word.store(self.guard.word(), Relaxed);
    }
}
