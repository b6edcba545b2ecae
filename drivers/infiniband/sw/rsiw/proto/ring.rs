// SPDX-License-Identifier: GPL-2.0

//! A fixed ring over storage that its owner provides ([`Ring`]), and one that moves to larger
//! storage in steps, between which it is used as at any other time ([`GrowingRing`]).
//!
//! The owner's lock keeps interrupts off, so only a bounded number of entries is moved while it is
//! held. While the ring moves, the oldest entries are in the old storage and all others in the new
//! one. Each step moves the youngest entry of the old storage to the front of the new one. Entries
//! are known by their place in the order, which a move does not change.
//!
//! Any context, under the owner's lock.
#![forbid(unsafe_code)]

use core::num::Saturating;
use core::ops::DerefMut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The name of an entry until it is taken out: how many entries were put in before it. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u32);

impl Token {
    /// Returns whether this entry was put in before `other`. The answer is unique, as a ring has
    /// fewer entries than half of all numbers.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead <= u32::MAX / 2
    }

    /// Returns how many entries were put in from `earlier` up to this one.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns the `n`th entry that is put in after this one.
    pub(crate) const fn behind(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    pub(crate) const fn next(self) -> Self {
        self.behind(1)
    }
}

/// First in, first out, over a `KVec`, a `Vec` or a `&mut [T]`, whose length is the capacity.
#[derive(Debug)]
pub(crate) struct Ring<S> {
    slots: S,
    /// Slot of the oldest entry, below the capacity (or 0).
    head: usize,
    /// Number of entries, at most the capacity.
    len: Saturating<usize>,
}

impl<T, S: DerefMut<Target = [T]>> Ring<S> {
    /// Returns an empty ring; what `slots` holds does not matter.
    pub(crate) const fn new(slots: S) -> Self {
        Ring {
            slots,
            head: 0,
            len: Saturating(0),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len.0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len.0 == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len.0 >= self.slots.len()
    }

    /// Returns the slot of entry `n`, counted from the oldest one. If there are `n` entries, it is
    /// the slot that the next one gets.
    pub(crate) fn slot(&self, n: usize) -> usize {
        let at = self.head.wrapping_add(n);
        match at.checked_sub(self.slots.len()) {
            Some(wrapped) => wrapped,
            None => at,
        }
    }

    /// Appends an entry, or returns [`Full`] and changes nothing.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let at = self.slot(self.len.0);
        *self.slots.get_mut(at).ok_or(Full)? = entry;
        self.len += 1;
        Ok(())
    }

    /// Returns entry `n`, counted from the oldest one.
    pub(crate) fn get(&self, n: usize) -> Option<&T> {
        if n >= self.len.0 {
            return None;
        }
        self.slots.get(self.slot(n))
    }

    pub(crate) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        if n >= self.len.0 {
            return None;
        }
        let at = self.slot(n);
        self.slots.get_mut(at)
    }

    /// Forgets the oldest entry, if there is one; the slot keeps its value.
    pub(crate) fn drop_oldest(&mut self) {
        if !self.is_empty() {
            self.len -= 1;
            self.head = self.slot(1);
        }
    }

    /// Forgets the youngest entry, if there is one; the slot keeps its value.
    pub(crate) fn drop_youngest(&mut self) {
        self.len -= 1;
    }

    pub(crate) fn clear(&mut self) {
        self.head = 0;
        self.len = Saturating(0);
    }

    /// Returns the storage.
    pub(crate) fn into_slots(self) -> S {
        self.slots
    }
}

impl<T: Copy, S: DerefMut<Target = [T]>> Ring<S> {
    pub(crate) fn pop(&mut self) -> Option<T> {
        let entry = *self.get(0)?;
        self.drop_oldest();
        Some(entry)
    }

    pub(crate) fn pop_youngest(&mut self) -> Option<T> {
        let entry = *self.get(self.len.0.checked_sub(1)?)?;
        self.drop_youngest();
        Some(entry)
    }

    /// Puts an entry in front of the oldest one, or returns [`Full`] and changes nothing.
    pub(crate) fn push_oldest(&mut self, entry: T) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let before = self.head.checked_sub(1);
        let at = before.or(self.slots.len().checked_sub(1)).ok_or(Full)?;
        *self.slots.get_mut(at).ok_or(Full)? = entry;
        self.head = at;
        self.len += 1;
        Ok(())
    }
}

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

    /// Begins to move to `larger`. Returns `larger`, and changes nothing, if it is not larger or if
    /// a move is under way.
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
