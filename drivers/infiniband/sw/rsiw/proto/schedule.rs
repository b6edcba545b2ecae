// SPDX-License-Identifier: GPL-2.0

//! Who sends now: the thread at hand, the urgent work item of the queue pair, or its patient one.
//!
//! The thread at hand brings one message to the peer soonest, but not every thread may sleep. A
//! work item sends all that is there in few calls of TCP, but costs a task switch. The urgent item
//! runs before other work of the processor, so a program that polls does not hold up what it polls
//! for. The patient item runs in its turn, while more requests gather.
//!
//! [`who`] answers the three questions of [`Reason`]. All else that others have to do is urgent:
//! notes, requests that may be sent now, and what somebody has left. A thread that has the queue
//! pair's mutex anyway does not ask: if it changes the state it sends what the new state allows,
//! and if its doorbell comes too late it flushes what it posted. Pure: any context.
#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::num::{
    Saturating,
    Wrapping, //
};

/// How long requests are given to gather, in microseconds.
pub(crate) const GATHER_US: u32 = 10;
/// Three thresholds of the same size. This many doorbells without an answer make a row. This many
/// requests are worth being left to a work item. What was in vain this often in succession is given
/// up for a while.
pub(crate) const WORTH: u32 = 4;
/// For how many doorbells a finding about a process holds: that it has slept, or that leaving
/// requests to a work item was in vain.
const HOLDS: u32 = 256;

/// Who is to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    #[default]
    Caller,
    /// The urgent work item, which acts upon notes, then sends or flushes.
    Urgent,
    /// The patient work item, which sends or flushes.
    Patient,
    /// A work item, [`GATHER_US`] later.
    Later,
}

impl Actor {
    /// Returns the name, which is also a part of the names of counters.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Caller => c"thread",
            Self::Urgent => c"urgent",
            Self::Patient => c"patient",
            Self::Later => c"later",
        }
    }
}

/// What is tried with the requests of a row, so that many of them go to TCP together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tries {
    /// They are given [`GATHER_US`].
    Time,
    /// They are left to the patient work item, if the process sleeps.
    Turn,
    /// Both were in vain: the process has one request on its way where it seemed to have many. It
    /// may use many queue pairs in turns.
    Nothing,
}

/// What a doorbell says about the requests of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// It is not in a row.
    None,
    /// Few requests wait, and it is worth giving them [`GATHER_US`].
    Gathers,
    /// Requests are worth being left to a work item.
    Leaves,
    /// Requests come one by one.
    OneByOne,
}

/// What is known of a process by its doorbells. Under the mutex of its queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Doorbells since the process last got an answer that it may have waited for.
    row: Saturating<u32>,
    /// Requests taken out of the send queue before the last doorbell; wraps.
    taken: Wrapping<u32>,
    tries: Tries,
    /// For how many more doorbells something else than [`Tries::Time`] is tried, as that was in
    /// vain too often.
    pause: Saturating<u32>,
    /// The requests of the last doorbell were left to a work item.
    left: bool,
    /// How often in succession a work item has found too few requests.
    in_vain: Saturating<u32>,
    /// Completion events before the last doorbell; wraps.
    events: u32,
    since_event: Saturating<u32>,
}

impl Doorbells {
    pub(crate) const fn new() -> Self {
        Self {
            row: Saturating(0),
            taken: Wrapping(0),
            tries: Tries::Time,
            pause: Saturating(0),
            left: false,
            in_vain: Saturating(0),
            events: 0,
            since_event: Saturating(HOLDS),
        }
    }

    /// Takes note of a doorbell. `taken` is the number of requests that were taken out before it,
    /// and `events` the number of completion events before it. `answered` says that the process may
    /// have waited for an answer of the peer, and has got it.
    #[inline]
    pub(crate) fn ring(&mut self, taken: u32, events: u32, answered: bool) {
        if answered {
            self.row = Saturating(0);
        }
        self.row += 1;
        let taken = Wrapping(taken);
        let count = taken - core::mem::replace(&mut self.taken, taken);
        self.came(count.0);
        self.since_event += 1;
        if core::mem::replace(&mut self.events, events) != events {
            self.since_event = Saturating(0);
        }
    }

    /// Returns what the doorbell says that rang last. `few` says that few requests wait.
    #[inline]
    pub(crate) const fn row(&self, few: bool) -> Row {
        match self.tries {
            _ if self.row.0 < WORTH => Row::None,
            Tries::Time if few => Row::Gathers,
            Tries::Time | Tries::Turn => Row::Leaves,
            Tries::Nothing => Row::OneByOne,
        }
    }

    /// Returns whether the process has recently slept until an event came. A process asks for the
    /// next event only when it has found nothing more to do.
    #[inline]
    pub(crate) const fn has_slept(&self) -> bool {
        self.since_event.0 < HOLDS
    }

    /// Takes note that `count` requests were found together; 0 if none was taken out since the last
    /// doorbell.
    #[inline]
    fn came(&mut self, count: u32) {
        self.pause -= 1;
        if self.pause.0 == 0 && self.tries != Tries::Time {
            (self.tries, self.left, self.in_vain) = (Tries::Time, false, Saturating(0));
        }
        if count == 0 || !core::mem::take(&mut self.left) {
            return;
        }
        self.in_vain += 1;
        if count >= WORTH {
            self.in_vain.0 = 0;
        }
        if self.in_vain.0 >= WORTH {
            self.in_vain.0 = 0;
            self.pause.0 = HOLDS;
            self.tries = match self.tries {
                Tries::Time => Tries::Turn,
                Tries::Turn | Tries::Nothing => Tries::Nothing,
            };
        }
    }

    /// Takes note that the requests of the last doorbell are left to a work item.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }
}

/// A question about who sends, with what is known when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A process rang the doorbell, its thread has the mutex, and requests wait to be sent.
    Doorbell(Row),
    /// Requests were left to a work item: their [`GATHER_US`] are over, or somebody else had the
    /// mutex when the doorbell rang, or they have waited until fewer requests are under way.
    Left,
    /// A consumer in the kernel posted, its thread may send, has the mutex, and nothing else is
    /// due. `one_of_many`: the thread may not sleep, and the consumer waits for more requests than
    /// those that it posts now.
    KernelPost { one_of_many: bool },
}

/// Returns who sends. `sleeps` returns whether the process that consumes send completions sleeps
/// until an event instead of polling; it is called only where that counts.
#[inline(always)]
pub(crate) fn who(reason: Reason, sleeps: impl Fn() -> bool) -> Actor {
    use Actor::{Caller, Later, Patient, Urgent};
    use Reason::*;

    match reason {
        // A consumer that waits for an answer has little else on the way, and gets the answer
        // soonest if its thread sends.
        Doorbell(Row::None) => Caller,
        // Many requests go to TCP in one call, as the library does not ring while a request waits.
        // The work item runs later: at once, it might find only this request.
        Doorbell(Row::Gathers) => Later,
        Doorbell(Row::Leaves) if sleeps() => Patient,
        Doorbell(Row::Leaves | Row::OneByOne) => Caller,

        // A consumer that sleeps posts more before it sleeps. A consumer that polls would keep the
        // patient item off the processor.
        Left if sleeps() => Patient,
        Left => Urgent,

        // A block device with more under way posts the next request while others are sent, on
        // another processor if one is free. If none is free, requests gather until the thread
        // sleeps.
        KernelPost { one_of_many: true } => Patient,
        // A thread that may sleep is a worker of the consumer's, which would only wait for another
        // one.
        KernelPost { .. } => Caller,
    }
}
