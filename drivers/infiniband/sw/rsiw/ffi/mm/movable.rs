// SPDX-License-Identifier: GPL-2.0

//! A word of shared memory that can be replaced by another one while it is read. A completion queue
//! has one, in which its process says what it waits for; the word is replaced together with the
//! queue's ring.
//!
//! Context: any; dropping what was replaced sleeps.

use super::ring::SharedWord;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::rcu;

/// A [`SharedWord`] that is read without a lock, and can be replaced meanwhile.
///
/// # Invariants
///
/// `word` is from [`KBox::into_raw`] and owned by this. One that was replaced is dropped a grace
/// period later.
pub(crate) struct MovableWord {
    word: Atomic<*mut SharedWord>,
}

impl MovableWord {
    pub(crate) fn new(word: KBox<SharedWord>) -> Self {
        // INVARIANT: from a box that nobody else has.
        Self {
            word: Atomic::new(KBox::into_raw(word)),
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u32 {
        let _rcu = rcu::read_lock();
        // SAFETY: by the invariant what is found within a read-side section is not dropped before
        // its end; it does not change.
        unsafe { &*self.word.load(Acquire) }.load()
    }

    /// Replaces the word. The old one is kept until nobody reads it.
    pub(crate) fn replace(&self, word: KBox<SharedWord>) -> Replaced {
        let old = self.word.xchg(KBox::into_raw(word), Full);
        // INVARIANT: the old word belongs to `Replaced` now, which waits before it drops it.
        // SAFETY: from `into_raw`, by the invariant; the exchange passed its ownership to us.
        Replaced(unsafe { KBox::from_raw(old) })
    }
}

impl Drop for MovableWord {
    fn drop(&mut self) {
        // SAFETY: by the invariant; nobody reads any more.
        drop(unsafe { KBox::from_raw(self.word.load(Relaxed)) });
    }
}

/// A word that was replaced in a [`MovableWord`]. Dropping it sleeps until nobody reads it.
pub(crate) struct Replaced(
    #[allow(dead_code, reason = "it is there to be dropped")] KBox<SharedWord>,
);

impl Drop for Replaced {
    fn drop(&mut self) {
        // The field is dropped afterwards.
        rcu::synchronize_rcu();
    }
}
