// SPDX-License-Identifier: GPL-2.0

//! Completion order of the SQ: requests complete in the order in which they were posted (T-4,
//! V-ORD-2). Any context, under the lock that the driver keeps for it: a Read completes in softirq,
//! a Send when TCP has it.
#![forbid(unsafe_code)]

use super::growing::GrowingRing;
use super::ring::Full;
use core::num::Wrapping;
use core::ops::DerefMut;

/// How a work request ended; `E` says what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status<E> {
    Success,
    Failed(E),
    /// The request was not carried out.
    Flushed,
}

/// The name of a record until it is popped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u32);

/// The record of a request that was taken from the SQ. `W` is what the driver needs to know
/// at completion.
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
    ring: GrowingRing<S>,
    /// Token of the oldest record.
    base: Wrapping<u32>,
    /// A request or a receive of the QP has failed.
    failed: bool,
}

impl<W: Copy, E: Copy, S: DerefMut<Target = [Record<W, E>]>> Order<S> {
    pub(crate) const fn new(slots: S) -> Self {
        Order {
            ring: GrowingRing::new(slots),
            base: Wrapping(0),
            failed: false,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Records a request that begins, or returns [`Full`] and changes nothing.
    pub(crate) fn push(&mut self, work: W) -> Result<Token, Full> {
        // CAST: the depth of a queue is far below 2^32.
        let token = self.base + Wrapping(self.ring.len() as u32);
        self.ring.push(Record { work, status: None })?;
        Ok(Token(token.0))
    }

    /// Takes the youngest work request out, if that is `token`: it has not begun after all. Returns
    /// whether it was.
    pub(crate) fn take_back(&mut self, token: Token) -> bool {
        // CAST: the depth of a queue is far below 2^32.
        let next = self.base + Wrapping(self.ring.len() as u32);
        let is_youngest = !self.ring.is_empty() && Wrapping(token.0) + Wrapping(1) == next;
        if is_youngest {
            self.ring.drop_youngest();
        }
        is_youngest
    }

    fn record(&mut self, token: Token) -> Option<&mut Record<W, E>> {
        let n = Wrapping(token.0) - self.base;
        // CAST: u32 fits into usize on all targets.
        self.ring.get_mut(n.0 as usize)
    }

    /// Records that a request ended well, unless it has ended already; it completes once all older
    /// ones have. Returns what the driver knows of it.
    pub(crate) fn done(&mut self, token: Token) -> Option<W> {
        let record = self.record(token)?;
        record.status.get_or_insert(Status::Success);
        Some(record.work)
    }

    /// Returns how a request or a receive ends that fails. The QP has one error completion (T-33);
    /// whatever fails after that is flushed instead.
    pub(crate) fn fails(&mut self, error: E) -> Status<E> {
        match core::mem::replace(&mut self.failed, true) {
            false => Status::Failed(error),
            true => Status::Flushed,
        }
    }

    /// Records that a request failed. Returns whether this is the QP's one error completion.
    pub(crate) fn fail(&mut self, token: Token, error: E) -> bool {
        let is_under_way = self.record(token).is_some_and(|r| r.status.is_none());
        if !is_under_way {
            return false;
        }
        let status = self.fails(error);
        if let Some(record) = self.record(token) {
            record.status = Some(status);
        }
        matches!(status, Status::Failed(_))
    }

    /// Begins to move to the records `larger`, or returns those that are not used: they are not
    /// more, or a move is under way. Tokens stay valid.
    pub(crate) fn grow(&mut self, larger: S) -> Option<S> {
        self.ring.grow(larger).err()
    }

    /// Moves `most` records at most. Returns the old ones once nothing is left there.
    pub(crate) fn move_some(&mut self, most: usize) -> Option<S> {
        self.ring.move_some(most)
    }

    /// Takes the oldest request out if it has ended.
    pub(crate) fn pop(&mut self) -> Option<(W, Status<E>)> {
        let status = self.ring.front()?.status?;
        let record = self.ring.pop()?;
        self.base += 1;
        Some((record.work, status))
    }

    /// Takes the oldest request out, as flushed if it has not ended (T-34).
    pub(crate) fn flush(&mut self) -> Option<(W, Status<E>)> {
        let record = self.ring.pop()?;
        self.base += 1;
        Some((record.work, record.status.unwrap_or(Status::Flushed)))
    }

    /// Drops all records, for another connection of the same QP (T-35).
    pub(crate) fn reset(&mut self) {
        self.ring.clear();
        self.failed = false;
    }
}
