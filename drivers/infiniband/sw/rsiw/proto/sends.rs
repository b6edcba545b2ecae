// SPDX-License-Identifier: GPL-2.0

//! Send requests under way, which the sender begins and the receiver may end. Any context, under
//! the lock that the driver keeps for it.
//!
//! Transmission may have to wait until fewer are under way. *What a waker needs is set and taken in
//! one hold*: the sender notes that it waits in the hold in which it sees what it waits for, and
//! each hold in which requests leave takes that note ([`Sends::complete`]). So whichever hold is the
//! last one, what waits for it is told.
#![forbid(unsafe_code)]

use super::drain::{
    drain,
    Drained,
    Marked,
    Waker, //
};
use super::failure::Fault;
use super::order::{
    Order,
    Record,
    Status,
    Token, //
};
use super::reads::{
    OutboundRead,
    OutboundReads, //
};
use super::ring::Full;
use core::ops::DerefMut;

/// How many requests may leave in one hold of the lock, which keeps interrupts off. Many may wait
/// for the oldest one.
pub(crate) const AT_A_TIME: usize = 64;
/// In how many holds of the lock, at most, the others leave that have waited for the oldest
/// request. Whoever ends that request, perhaps in softirq, has them leave.
pub(crate) const TIMES: u32 = 4;

/// `S` and `O` are the storage of [`Order`] and [`OutboundReads`].
#[derive(Debug)]
pub(crate) struct Sends<S, O> {
    /// Private, so that requests leave by the methods of this type only.
    order: Order<S>,
    /// Our RDMA Reads and Atomic Operations.
    pub(crate) outbound: OutboundReads<O>,
    /// ORD: the most of these that may be outstanding.
    pub(crate) ord: usize,
    /// Transmission waits until fewer requests or Reads are under way.
    stalled: bool,
    /// A Read was answered whose consumer gets no completion of it.
    pub(crate) silent: bool,
}

/// What came of completing requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "more may be due, and transmission may wait for what has left"]
pub(crate) struct Completed {
    pub(crate) drained: Drained,
    /// Transmission waited until fewer are under way. Nobody else is told: the caller has it go on.
    pub(crate) resumes: bool,
}

impl Completed {
    /// Completes more requests, up to [`TIMES`] holds in all. `hold` takes the lock and calls
    /// [`Sends::complete`]. If more is due then, the result says so.
    #[inline]
    pub(crate) fn and_the_rest(self, mut hold: impl FnMut() -> Self) -> Self {
        let mut all = self;
        for _ in 1..TIMES {
            if all.drained == Drained::Empty {
                break;
            }
            let next = hold();
            all.drained = next.drained;
            all.resumes |= next.resumes;
        }
        all
    }
}

impl<W, S, O> Sends<S, O>
where
    W: Copy,
    S: DerefMut<Target = [Record<W, Fault>]>,
    O: DerefMut<Target = [OutboundRead]>,
{
    /// Returns a value with nothing under way, and with room for no Read until there is a
    /// connection.
    pub(crate) const fn new(records: S, reads: O) -> Self {
        Self {
            order: Order::new(records),
            outbound: OutboundReads::new(reads),
            ord: 0,
            stalled: false,
            silent: false,
        }
    }

    /// Returns how many requests are under way.
    pub(crate) const fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns whether transmission waits until fewer are under way.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Notes that transmission waits for something that the caller has just seen.
    pub(crate) fn stall(&mut self) -> Marked {
        Waker::Read.mark(|| self.stalled = true)
    }

    /// Has transmission wait unless one more request may be under way.
    pub(crate) fn room(&mut self) -> Result<(), Marked> {
        match self.order.is_full() {
            true => Err(self.stall()),
            false => Ok(()),
        }
    }

    /// Records a request that begins: see [`Order::push`].
    pub(crate) fn push(&mut self, work: W) -> Result<Token, Full> {
        self.order.push(work)
    }

    /// Takes the youngest request out again: see [`Order::take_back`].
    pub(crate) fn take_back(&mut self, token: Token) -> bool {
        self.order.take_back(token)
    }

    /// Records that a request ended well: see [`Order::done`].
    pub(crate) fn done(&mut self, token: Token) -> Option<W> {
        self.order.done(token)
    }

    /// Returns how a request or a receive ends that fails: see [`Order::fails`].
    pub(crate) fn fails(&mut self, fault: Fault) -> Status<Fault> {
        self.order.fails(fault)
    }

    /// Records that a request failed: see [`Order::fail`].
    pub(crate) fn fail(&mut self, token: Token, fault: Fault) -> bool {
        self.order.fail(token, fault)
    }

    /// Calls `each` with the oldest requests that have ended, [`AT_A_TIME`] at most, and takes them
    /// out. Call it in each hold of the lock in which a request or a Read may have ended.
    pub(crate) fn complete(&mut self, mut each: impl FnMut(W, Status<Fault>)) -> Completed {
        let order = &mut self.order;
        let drained = drain(
            AT_A_TIME,
            || order.pop(),
            |(work, status)| each(work, status),
        );
        Completed {
            drained,
            resumes: core::mem::take(&mut self.stalled),
        }
    }

    /// Takes the oldest request out, as nothing is transmitted any more: see [`Order::flush`].
    pub(crate) fn flush(&mut self) -> Option<(W, Status<Fault>)> {
        self.order.flush()
    }

    /// Drops all requests under way, for another connection of the same QP (T-35).
    pub(crate) fn renew(&mut self) {
        self.order.reset();
        self.stalled = false;
    }

    /// Begins to move to larger storage: see [`Order::grow`]. If transmission waits for room, it
    /// goes on when the next request ends, and not before.
    pub(crate) fn grow(&mut self, larger: S) -> Option<S> {
        self.order.grow(larger)
    }

    /// Moves some of the records to the larger storage: see [`Order::move_some`].
    pub(crate) fn move_some(&mut self, most: usize) -> Option<S> {
        self.order.move_some(most)
    }
}
