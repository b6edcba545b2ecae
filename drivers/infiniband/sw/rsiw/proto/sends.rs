// SPDX-License-Identifier: GPL-2.0

//! Send requests under way, which the sender begins and the receiver may end ([`Sends`]), and the
//! [`Order`] in which they complete: the order in which they were posted (T-4, V-ORD-2). Any
//! context, under a lock of the driver: a Read completes in softirq, a Send when TCP has it.
//!
//! Transmission may have to wait until fewer requests are under way. *What a waker needs is set and
//! taken in one hold*: a sender that has to wait leaves a mark in the same hold of the lock in
//! which it has seen that. Each hold in which requests leave takes that mark ([`Sends::complete`]).
//! So a sender that waits is told, whichever hold is the last one.
#![forbid(unsafe_code)]

use super::drain::{
    drain,
    Drained,
    Marked,
    Waker, //
};
use super::failure::Fault;
use super::placement::Placed;
use super::reads::{
    OutboundRead,
    OutboundReads, //
};
pub(crate) use super::ring::Token;
use super::ring::{
    Full,
    GrowingRing, //
};
use core::ops::DerefMut;

/// How many requests may leave in one hold of the lock, which keeps interrupts off. Many requests
/// may wait for the oldest one.
pub(crate) const AT_A_TIME: usize = 64;
/// Whoever ends the oldest request, perhaps in softirq, lets those leave that have waited for it.
/// This is how often it takes the lock for that, at most.
pub(crate) const TIMES: u32 = 4;

/// `S` and `O` are the storage of [`Order`] and [`OutboundReads`].
#[derive(Debug)]
pub(crate) struct Sends<S, O> {
    /// Private, so that requests leave by the methods of this type only.
    order: Order<S>,
    /// Our RDMA Reads and Atomic Operations.
    pub(crate) outbound: OutboundReads<O>,
    /// ORD: the most Reads that may be outstanding.
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
    /// Transmission has waited until fewer requests are under way. Nobody else is told of that: the
    /// caller makes transmission go on.
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

    /// Returns whether transmission waits until fewer requests are under way.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Marks that transmission waits for what the caller has seen in this hold of the lock.
    pub(crate) fn stall(&mut self) -> Marked {
        Waker::Read.mark(|| self.stalled = true)
    }

    /// Fails if no further request may be under way, and marks that transmission waits.
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

    /// Records a request that begins, and that the peer has to place: see [`Order::push_message`].
    pub(crate) fn push_message(&mut self, work: W) -> Result<Token, Full> {
        self.order.push_message(work)
    }

    /// Sets whether requests that begin from now on complete only once the peer has placed them.
    /// Called for a new connection, when no request is under way.
    pub(crate) fn await_placement(&mut self, is_awaited: bool) {
        self.order.await_placement(is_awaited);
    }

    /// Takes note that the peer has placed all requests up to this one.
    pub(crate) fn placed(&mut self, token: Token) {
        self.order.placed.extend(token);
    }

    /// Lets all requests complete that TCP has: the peer has closed, and tells nothing more.
    pub(crate) fn placed_all(&mut self) {
        self.order.await_placement(self.order.placed.is_awaited);
    }

    /// Records a Read of the sender's own, whose response tells that the peer has placed all up to
    /// `token`. Returns whether the Read is to be sent: not if the peer is known to have placed all
    /// that, or if a Read under way will tell. Fails with [`Full`] as long as no such Read may
    /// begin.
    pub(crate) fn ask(&mut self, token: Token, read: OutboundRead) -> Result<bool, Full> {
        let youngest = self.outbound.outstanding().checked_sub(1);
        let youngest = youngest.and_then(|n| self.outbound.get(n)?.places);
        let is_told = youngest.is_some_and(|youngest| !youngest.is_before(token));
        if self.order.placed.has(token) || is_told {
            return Ok(false);
        }
        // At least one Read may be outstanding, even if the consumer has set its ORD to zero since.
        let has_room = self.outbound.outstanding() < self.ord.max(1);
        if self.order.placed.is_asked || !has_room {
            return Err(Full);
        }
        let places = Some(token);
        self.outbound.push(OutboundRead { places, ..read })?;
        self.order.placed.is_asked = true;
        Ok(true)
    }

    /// Ends the oldest Read, as its response is placed. Returns what the driver knows of the
    /// request that has asked for the Read, if one has.
    pub(crate) fn answered(&mut self) -> Option<W> {
        let OutboundRead { token, places, .. } = self.outbound.pop()?;
        if let Some(youngest) = places {
            self.order.placed.extend(youngest);
            self.order.placed.is_asked &= token.is_some();
        }
        self.done(token?)
    }

    /// Takes the youngest request out again: see [`Order::take_back`].
    pub(crate) fn take_back(&mut self, token: Token) -> bool {
        self.order.take_back(token)
    }

    /// Records that a request ended well: see [`Order::done`].
    pub(crate) fn done(&mut self, token: Token) -> Option<W> {
        self.order.done(token)
    }

    /// Returns the status of a request or a receive that fails: see [`Order::fails`].
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
    pub(crate) fn flush(&mut self, blame: &mut Option<Fault>) -> Option<(W, Status<Fault>)> {
        self.order.flush(blame)
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

/// How a work request ended; `E` says what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status<E> {
    Success,
    Failed(E),
    /// The request was not carried out.
    Flushed,
}

/// The record of a request that was taken from the SQ. `W` is what the driver needs to know
/// at completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<W, E> {
    work: W,
    status: Option<Status<E>>,
    /// The request ends well only once the peer has placed it.
    is_placed: bool,
}

impl<W: Default, E> Default for Record<W, E> {
    fn default() -> Self {
        Record {
            work: W::default(),
            status: None,
            is_placed: false,
        }
    }
}

/// Work requests under way, in post order.
#[derive(Debug)]
pub(crate) struct Order<S> {
    ring: GrowingRing<S>,
    /// Token of the oldest record.
    base: Token,
    /// A request or a receive of the QP has failed.
    failed: bool,
    placed: Placed,
}

impl<W: Copy, E: Copy, S: DerefMut<Target = [Record<W, E>]>> Order<S> {
    pub(crate) const fn new(slots: S) -> Self {
        Order {
            ring: GrowingRing::new(slots),
            base: Token(0),
            failed: false,
            placed: Placed::new(false, Token(0)),
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
        self.add(work, false)
    }

    /// Like [`Order::push`], for a request that the peer has to place. If placement is awaited, the
    /// request does not complete before.
    pub(crate) fn push_message(&mut self, work: W) -> Result<Token, Full> {
        self.add(work, self.placed.is_awaited)
    }

    fn add(&mut self, work: W, is_placed: bool) -> Result<Token, Full> {
        let token = self.next();
        self.ring.push(Record {
            work,
            status: None,
            is_placed,
        })?;
        Ok(token)
    }

    /// Returns the token of the next request that begins.
    fn next(&self) -> Token {
        // CAST: the depth of a queue is far below 2^32.
        self.base.behind(self.ring.len() as u32)
    }

    fn await_placement(&mut self, is_awaited: bool) {
        self.placed = Placed::new(is_awaited, self.next());
    }

    /// Returns how the oldest request, to which `record` belongs, has ended, if it has.
    fn ended(&self, record: &Record<W, E>) -> Option<Status<E>> {
        match record.status? {
            Status::Success if record.is_placed && !self.placed.has(self.base) => None,
            status => Some(status),
        }
    }

    /// Takes the youngest work request out, if its token is `token`: it has not begun after all.
    /// Returns whether it is taken out.
    pub(crate) fn take_back(&mut self, token: Token) -> bool {
        let is_youngest = !self.ring.is_empty() && token.next() == self.next();
        if is_youngest {
            self.ring.drop_youngest();
        }
        is_youngest
    }

    fn record(&mut self, token: Token) -> Option<&mut Record<W, E>> {
        // CAST: u32 fits into usize on all targets.
        self.ring.get_mut(token.since(self.base) as usize)
    }

    /// Records that a request ended well, unless it has ended already; it completes once all older
    /// ones have. Returns what the driver knows of it.
    pub(crate) fn done(&mut self, token: Token) -> Option<W> {
        let record = self.record(token)?;
        record.status.get_or_insert(Status::Success);
        Some(record.work)
    }

    /// Returns the status of a request or a receive that fails. The QP has one error completion
    /// (T-33); whatever fails after that is flushed instead.
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

    /// Begins to move to the records `larger`. Returns `larger` if it is not used: it is not
    /// larger, or a move is under way. Tokens stay valid.
    pub(crate) fn grow(&mut self, larger: S) -> Option<S> {
        self.ring.grow(larger).err()
    }

    /// Moves `most` records at most. Returns the old ones once nothing is left there.
    pub(crate) fn move_some(&mut self, most: usize) -> Option<S> {
        self.ring.move_some(most)
    }

    /// Takes the oldest request out if it has ended.
    pub(crate) fn pop(&mut self) -> Option<(W, Status<E>)> {
        let status = self.ended(self.ring.front()?)?;
        let record = self.ring.pop()?;
        self.base = self.base.next();
        Some((record.work, status))
    }

    /// Takes the oldest request out, as flushed if it has not ended (T-34). If there is a `blame`,
    /// the first request that has not ended fails with it.
    pub(crate) fn flush(&mut self, blame: &mut Option<E>) -> Option<(W, Status<E>)> {
        let record = self.ring.pop()?;
        let status = self.ended(&record).unwrap_or_else(|| {
            let fault = blame.take();
            fault.map_or(Status::Flushed, |fault| self.fails(fault))
        });
        self.base = self.base.next();
        Some((record.work, status))
    }

    /// Drops all records, for another connection of the same QP (T-35).
    pub(crate) fn reset(&mut self) {
        self.ring.clear();
        self.failed = false;
        self.await_placement(false);
    }
}
