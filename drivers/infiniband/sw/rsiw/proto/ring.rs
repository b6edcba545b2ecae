// SPDX-License-Identifier: GPL-2.0

//! A fixed ring over storage that its owner provides. Any context, under the owner's lock.
#![forbid(unsafe_code)]

use core::ops::DerefMut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// First in, first out, over a `KVec`, a `Vec` or a `&mut [T]`, whose length is the capacity.
#[derive(Debug)]
pub(crate) struct Ring<S> {
    slots: S,
    /// Slot of the oldest entry, below the capacity (or 0).
    head: usize,
    /// Number of entries, at most the capacity.
    len: usize,
}

impl<T, S: DerefMut<Target = [T]>> Ring<S> {
    /// Returns an empty ring; what `slots` holds does not matter.
    pub(crate) const fn new(slots: S) -> Self {
        Ring {
            slots,
            head: 0,
            len: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.slots.len()
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
        let at = self.slot(self.len);
        let len = self.len.checked_add(1).ok_or(Full)?;
        *self.slots.get_mut(at).ok_or(Full)? = entry;
        self.len = len;
        Ok(())
    }

    /// Returns entry `n`, counted from the oldest one.
    pub(crate) fn get(&self, n: usize) -> Option<&T> {
        if n >= self.len {
            return None;
        }
        self.slots.get(self.slot(n))
    }

    pub(crate) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        if n >= self.len {
            return None;
        }
        let at = self.slot(n);
        self.slots.get_mut(at)
    }

    /// Forgets the oldest entry, if there is one; its slot keeps it.
    pub(crate) fn drop_oldest(&mut self) {
        if let Some(len) = self.len.checked_sub(1) {
            self.len = len;
            self.head = self.slot(1);
        }
    }

    /// Forgets the youngest entry, if there is one; its slot keeps it.
    pub(crate) fn drop_youngest(&mut self) {
        if let Some(len) = self.len.checked_sub(1) {
            self.len = len;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
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
        let entry = *self.get(self.len.checked_sub(1)?)?;
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
        let len = self.len.checked_add(1).ok_or(Full)?;
        *self.slots.get_mut(at).ok_or(Full)? = entry;
        self.head = at;
        self.len = len;
        Ok(())
    }
}
