// SPDX-License-Identifier: GPL-2.0

//! Spin locks of which others may know something without taking them.
//!
//! Whoever describes an object may be a process of least priority, and may ask as often as it
//! likes. So it takes no lock that those need who send and receive. What it is told is one word,
//! which is made anew whenever such a lock is released: nobody who changes something has to think of
//! it. That costs a store to memory that the lock's holder has in its cache.
//!
//! Context: any.
#![forbid(unsafe_code)]

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLockIrq,
        SpinLockIrqGuard, //
    },
};

/// What a [`Watched`] lock protects.
pub(crate) trait Watch: Unpin {
    /// Returns what is told of the value, in one word. Called whenever the lock is released, so it
    /// costs a few loads only.
    fn word(&self) -> u64;
}

/// A [`SpinLockIrq`], and a word about what it protects.
#[pin_data]
pub(crate) struct Watched<T> {
    #[pin]
    lock: SpinLockIrq<T>,
    /// What [`Watch::word`] returned when the lock was released last.
    word: Atomic<u64>,
}

impl<T: Watch> Watched<T> {
    /// Makes a watched lock of one that is initialised by `lock`.
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

    /// Returns the word, which may have changed by now.
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
