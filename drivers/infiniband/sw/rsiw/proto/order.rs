// SPDX-License-Identifier: GPL-2.0

//! Completion order of the SQ: completions appear in post order (T-4, V-ORD-2).
//!
//! A record per work request that was taken from the SQ. Any context, under the lock that the
//! driver keeps for it; a Read completes in softirq, a Send when TCP has it.
#![forbid(unsafe_code)]

use super::ring::{
    Full,
    Ring, //
};
use core::num::Wrapping;
use core::ops::DerefMut;

/// How a work request ended; `E` says what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status<E> {
    /// As asked for.
    Success,
    /// In error.
    Failed(E),
    /// Not carried out.
    Flushed,
}

/// Names a record until it is popped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u32);

/// A slot of the ring. `W` is what the driver wants to know at completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<W, E> {
    work: W,
    status: Option<Status<E>>,
}

impl<W: Default, E> Default for Record<W, E> {
    fn default() -> Self {
        Record {
            work: W::default(),
            status: None,
        }
    }
}

/// Work requests under way, in post order.
#[derive(Debug)]
pub(crate) struct Order<S> {
    ring: Ring<S>,
    /// Token of the oldest record.
    base: Wrapping<u32>,
    failed: bool,
}

impl<W: Copy, E: Copy, S: DerefMut<Target = [Record<W, E>]>> Order<S> {
    /// An empty ring of `slots.len()` records, which may be the depth of the SQ.
    pub(crate) const fn new(slots: S) -> Self {
        Order {
            ring: Ring::new(slots),
            base: Wrapping(0),
            failed: false,
        }
    }

    /// How many are under way.
    pub(crate) const fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether nothing is under way.
    pub(crate) const fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether no further work request can be noted.
    pub(crate) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Notes a work request that begins.
    ///
    /// # Errors
    ///
    /// [`Full`]; nothing has changed.
    pub(crate) fn push(&mut self, work: W) -> Result<Token, Full> {
        // CAST: the depth of a queue is far below 2^32.
        let token = self.base + Wrapping(self.ring.len() as u32);
        self.ring.push(Record { work, status: None })?;
        Ok(Token(token.0))
    }

    fn record(&mut self, token: Token) -> Option<&mut Record<W, E>> {
        let n = Wrapping(token.0) - self.base;
        // CAST: u32 fits into usize on all targets.
        self.ring.get_mut(n.0 as usize)
    }

    /// Notes that a work request ended well; it completes once all older ones have.
    ///
    /// Nothing happens if it has an end already. Returns what the driver knows of it.
    pub(crate) fn done(&mut self, token: Token) -> Option<W> {
        let record = self.record(token)?;
        record.status.get_or_insert(Status::Success);
        Some(record.work)
    }

    /// Notes that a work request failed. Returns whether this is the QP's one error completion;
    /// if another came first, the work request is flushed instead (T-33).
    pub(crate) fn fail(&mut self, token: Token, error: E) -> bool {
        let status = if self.failed {
            Status::Flushed
        } else {
            Status::Failed(error)
        };
        match self.record(token) {
            Some(record) if record.status.is_none() => record.status = Some(status),
            _ => return false,
        }
        let first = !self.failed;
        self.failed = true;
        first
    }

    /// Goes on in the storage of `other`, in which nothing is noted, if that is larger. Tokens stay
    /// good. `other` gets the old storage.
    ///
    /// # Errors
    ///
    /// [`Full`] if something is noted in `other`, for which there is no room; nothing has changed.
    pub(crate) fn swap_if_larger(&mut self, other: &mut Self) -> Result<(), Full> {
        if other.ring.capacity() > self.ring.capacity() {
            self.ring.swap_slots(&mut other.ring)?;
        }
        Ok(())
    }

    /// Takes the oldest work request out, if it has ended.
    pub(crate) fn pop(&mut self) -> Option<(W, Status<E>)> {
        let status = self.ring.get(0)?.status?;
        let record = self.ring.pop()?;
        self.base += 1;
        Some((record.work, status))
    }

    /// Takes the oldest work request out, flushing it if it has not ended (T-34).
    pub(crate) fn flush(&mut self) -> Option<(W, Status<E>)> {
        let record = self.ring.pop()?;
        self.base += 1;
        Some((record.work, record.status.unwrap_or(Status::Flushed)))
    }

    /// As new: for another connection on the same QP (T-35). The ring must be empty, what is
    /// left in it is lost.
    pub(crate) fn reset(&mut self) {
        self.ring.clear();
        self.failed = false;
    }
}
