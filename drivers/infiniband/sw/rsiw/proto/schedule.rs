// SPDX-License-Identifier: GPL-2.0

//! Who sends now: the thread at hand, the urgent work item of the queue pair, or its patient one.
//!
//! The thread at hand brings one message to the peer soonest, but may not sleep everywhere. A work
//! item sends all that is there in few calls of TCP, but costs a change of task. The urgent one
//! runs before other work of the processor, so a program that polls does not keep it from bringing
//! what is polled for. The patient one runs in its turn, while more to send gathers.
//!
//! [`who`] answers the questions that are decisions. All else that others have to do is urgent:
//! what was noted, what may be sent now, and what somebody has left. Threads that have the queue
//! pair's mutex anyway do not ask: a thread that changes the state sends what may be sent in the
//! new state, and one that rings the doorbell too late flushes what it posted. Pure: any context.
#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::num::{
    Saturating,
    Wrapping, //
};

/// How long requests are given to gather, in microseconds.
pub(crate) const GATHER_US: u32 = 10;
/// Three thresholds of the same size: this many doorbells without an answer make a row; this many
/// requests are worth [`GATHER_US`]; and after gathering in vain this often in succession, it is
/// given up for a while.
pub(crate) const WORTH: u32 = 4;
/// For how many doorbells it holds what was found out about a process: that it has slept, or that
/// gathering was in vain.
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
    /// Returns the name, as it is in those of counters.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Caller => c"thread",
            Self::Urgent => c"urgent",
            Self::Patient => c"patient",
            Self::Later => c"later",
        }
    }
}

/// What is known of a process by its doorbells. Under the mutex of its queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Doorbells since the process last got an answer that it can have waited for.
    row: Saturating<u32>,
    /// Requests taken out of the send queue before the last doorbell; wraps.
    taken: Wrapping<u32>,
    /// The requests of the last doorbell are given time to gather.
    gathers: bool,
    /// How often in succession too few requests came in that time.
    in_vain: Saturating<u32>,
    /// For this many more doorbells no request is given time to gather: it was in vain too often.
    pause: Saturating<u32>,
    /// Completion events before the last doorbell; wraps.
    events: u32,
    since_event: Saturating<u32>,
}

impl Doorbells {
    pub(crate) const fn new() -> Self {
        Self {
            row: Saturating(0),
            taken: Wrapping(0),
            gathers: false,
            in_vain: Saturating(0),
            pause: Saturating(0),
            events: 0,
            since_event: Saturating(HOLDS),
        }
    }

    /// Takes note of a doorbell. `taken` is the number of requests that were taken out before it,
    /// and `events` that of the completion events. `answered`: the process may have waited for an
    /// answer of the peer, and has got it.
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

    /// Returns whether doorbells ring in a row: the process has many requests on its way.
    #[inline]
    pub(crate) const fn is_row(&self) -> bool {
        self.row.0 >= WORTH
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
        if count == 0 || !core::mem::take(&mut self.gathers) {
            return;
        }
        self.in_vain += 1;
        if count >= WORTH {
            self.in_vain.0 = 0;
        }
        if self.in_vain.0 >= WORTH {
            self.in_vain.0 = 0;
            self.pause.0 = HOLDS;
        }
    }

    #[inline]
    pub(crate) const fn is_worth_it(&self) -> bool {
        self.pause.0 == 0
    }

    #[inline]
    pub(crate) fn gather(&mut self) {
        self.gathers = true;
    }
}

/// A question about who sends, and what is known then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A process rang the doorbell, its thread has the mutex, and requests wait to be sent. `row`:
    /// see [`Doorbells::is_row`]. `gathers`: few wait, and giving them time is worth it.
    Doorbell { row: bool, gathers: bool },
    /// Requests were left to a work item: they had [`GATHER_US`], or somebody else had the mutex
    /// when the doorbell rang, or they waited until fewer are under way.
    Left,
    /// A consumer in the kernel posted, its thread may send, has the mutex, and nothing else is
    /// due. `one_of_many`: the thread may not sleep, and the consumer waits for more than what it
    /// posts now.
    KernelPost { one_of_many: bool },
}

/// Returns who sends. `sleeps` returns whether the process that consumes send completions sleeps
/// until an event instead of polling; it is called only where that counts.
#[inline(always)]
pub(crate) fn who(reason: Reason, sleeps: impl Fn() -> bool) -> Actor {
    use Actor::{Caller, Later, Patient, Urgent};
    use Reason::*;

    match reason {
        // A consumer that waits for an answer has little else on the way, and gets it soonest so.
        Doorbell { row: false, .. } => Caller,
        // Many go to TCP in one call, as the library does not ring while a request waits. A work
        // item comes later, as it might run before the consumer has posted more.
        Doorbell { gathers: true, .. } => Later,
        Doorbell { .. } if sleeps() => Patient,
        Doorbell { .. } => Caller,

        // A consumer that sleeps posts more before it does. One that polls would keep the patient
        // item off the processor.
        Left if sleeps() => Patient,
        Left => Urgent,

        // A block device with more under way posts the next one while others are sent, on another
        // processor if one is free. Where none is, they gather until the thread sleeps.
        KernelPost { one_of_many: true } => Patient,
        // A worker that may sleep answers for many; a second one for it would be in its way.
        KernelPost { .. } => Caller,
    }
}
