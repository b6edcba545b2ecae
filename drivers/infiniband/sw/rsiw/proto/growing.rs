// SPDX-License-Identifier: GPL-2.0

//! A ring that moves to larger storage in steps, between which it is used as at any other time.
//!
//! The ring's owner has a lock that keeps interrupts off, so what is moved with the lock held at
//! once has a bound. While the ring moves, the oldest entries are in the old storage and all others
//! in the new one. Each step moves the youngest entry of the old storage to the front of the new
//! one. Entries are known by their place in the order, which a move does not change.
//!
//! Any context, under the owner's lock.
#![forbid(unsafe_code)]

use super::ring::{
    Full,
    Ring, //
};
use core::ops::DerefMut;

/// A [`Ring`] over storage that can be replaced by a larger one.
#[derive(Debug)]
pub(crate) struct GrowingRing<S> {
    ring: Ring<S>,
    /// The oldest entries, while they move.
    old: Option<Ring<S>>,
}

impl<T: Copy, S: DerefMut<Target = [T]>> GrowingRing<S> {
    /// Returns an empty ring; what `slots` holds does not matter.
    pub(crate) const fn new(slots: S) -> Self {
        Self {
            ring: Ring::new(slots),
            old: None,
        }
    }

    /// Returns how many entries are in the old storage.
    const fn len_old(&self) -> usize {
        match &self.old {
            Some(old) => old.len(),
            None => 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        // The new storage is larger than the old one and has room for both, so this is exact.
        self.ring.len().saturating_add(self.len_old())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.ring.capacity()
    }

    /// Appends an entry, or returns [`Full`] and changes nothing.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        self.ring.push(entry)
    }

    /// Returns entry `n`, counted from the oldest one.
    pub(crate) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        match n.checked_sub(self.len_old()) {
            Some(n) => self.ring.get_mut(n),
            None => self.old.as_mut()?.get_mut(n),
        }
    }

    /// Returns the oldest entry.
    pub(crate) fn front(&self) -> Option<&T> {
        let old = self.old.as_ref().and_then(|old| old.get(0));
        old.or_else(|| self.ring.get(0))
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let old = self.old.as_mut().and_then(Ring::pop);
        old.or_else(|| self.ring.pop())
    }

    /// Forgets the youngest entry, if there is one.
    pub(crate) fn drop_youngest(&mut self) {
        match &mut self.old {
            Some(old) if self.ring.is_empty() => old.drop_youngest(),
            _ => self.ring.drop_youngest(),
        }
    }

    /// Forgets all entries. A move that is under way goes on.
    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        if let Some(old) = &mut self.old {
            old.clear();
        }
    }

    /// Begins to move to `larger`. Returns it, and changes nothing, if it is not larger or if a move
    /// is under way.
    pub(crate) fn grow(&mut self, larger: S) -> Result<(), S> {
        if larger.len() <= self.ring.capacity() || self.old.is_some() {
            return Err(larger);
        }
        self.old = Some(core::mem::replace(&mut self.ring, Ring::new(larger)));
        Ok(())
    }

    /// Moves `most` entries at most. Returns the old storage once nothing is left there.
    pub(crate) fn move_some(&mut self, most: usize) -> Option<S> {
        let old = self.old.as_mut()?;
        // Bound: `most`, a constant of the caller's.
        for _ in 0..most {
            let Some(entry) = old.pop_youngest() else {
                break;
            };
            // There is room: see `push`.
            let _ = self.ring.push_oldest(entry);
        }
        self.old.take_if(|old| old.is_empty()).map(Ring::into_slots)
    }
}
