// SPDX-License-Identifier: GPL-2.0

//! Who sends now: the thread at hand, the urgent work item of the queue pair, or its patient one.
//!
//! The thread at hand is that of a process or of a consumer in the kernel, which may not sleep
//! everywhere. It brings one message to the peer soonest. A work item sends all that is there when
//! it runs, in few calls of TCP; each run costs a change of task. An urgent one runs before what
//! else the processor has to do, so that a program that polls does not keep it from bringing what
//! is polled for. A patient one runs in its turn, while more to send gathers.
//!
//! [`who`] is the whole table. Not in it is who has the queue pair's mutex anyway: threads that
//! change the state, by a verb or for the connection manager, send what the new state lets out
//! before they return, and a thread that rings the doorbell too late flushes what it posted.
//!
//! Pure: any context.
#![forbid(unsafe_code)]

use core::num::{
    Saturating,
    Wrapping, //
};

/// For how long requests are given time to gather, in microseconds.
pub(crate) const GATHER_US: u32 = 10;
/// The number that counts as many: of doorbells without an answer, which make a row then; of requests,
/// which are worth [`GATHER_US`] then; and of times in succession in which fewer came.
pub(crate) const WORTH: u32 = 4;
/// For so many doorbells holds what the last ones have shown.
const HOLDS: u32 = 256;

/// Who is to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The thread that asks.
    #[default]
    Caller,
    /// The urgent work item, which acts upon what was noted, then sends or flushes.
    Urgent,
    /// The patient work item, which sends or flushes.
    Patient,
    /// A work item, after [`GATHER_US`].
    Later,
    /// Nobody: there is nothing to do, or who does it is on his way.
    Nobody,
}

/// What is known of a process by its doorbells. Under the mutex of its queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Doorbells since the process last got an answer that it can have waited for.
    row: Saturating<u32>,
    /// Requests that were taken out of the send queue before the last doorbell; wraps.
    taken: Wrapping<u32>,
    /// Whether the requests of the last doorbell are given time to gather.
    gathers: bool,
    /// How often in succession too few came in that time.
    in_vain: Saturating<u32>,
    /// For how many doorbells more requests are given no time, because of that.
    pause: Saturating<u32>,
    /// Completion events before the last doorbell; wraps.
    events: u32,
    /// Doorbells since an event came.
    since_event: Saturating<u32>,
}

impl Doorbells {
    /// None has rung.
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

    /// Takes note of a doorbell, before which so many requests were `taken` and `events` came;
    /// `answered`: the process may have waited for an answer of the peer, and has got it.
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

    /// Returns whether doorbells have rung in a row: the process has many requests on its way.
    #[inline]
    pub(crate) const fn is_row(&self) -> bool {
        self.row.0 >= WORTH
    }

    /// Returns whether the process has slept of late until an event came. While it is at work it
    /// does not ask for the next one: it does so when it has found nothing more to do.
    #[inline]
    pub(crate) const fn has_slept(&self) -> bool {
        self.since_event.0 < HOLDS
    }

    /// Takes note that so many requests came together. If none did, they are still on their way.
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

    /// Returns whether it is worth it to give requests time.
    #[inline]
    pub(crate) const fn is_worth_it(&self) -> bool {
        self.pause.0 == 0
    }

    /// Takes note that the requests of the last doorbell are given time.
    #[inline]
    pub(crate) fn gather(&mut self) {
        self.gathers = true;
    }
}

/// Why somebody may have to act, and what is known then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A process rang the doorbell while somebody else had the mutex; `sends` is whether requests
    /// are sent in this state.
    Busy { sends: bool },
    /// A process rang the doorbell, its thread has the mutex, and requests wait to be sent.
    /// `row`: see [`Doorbells::is_row`]. `gathers`: few wait, and it is worth it to give them time.
    Doorbell { row: bool, gathers: bool },
    /// [`GATHER_US`] have passed in which requests could gather.
    Gathered,
    /// A consumer in the kernel posted send requests, in any context; `may_sleep` is whether its
    /// thread may sleep there, and keep others waiting.
    KernelPost { may_sleep: bool },
    /// Its thread may sleep, but somebody else has the mutex, or more is to be done than to send.
    KernelBusy,
    /// A consumer in the kernel posted receives; `flushes` is whether they are flushed.
    KernelRecv { flushes: bool },
    /// There is room in the socket, or the peer has acknowledged all.
    Room,
    /// A Read of the peer is to be answered.
    PeerRead,
    /// The response to a Read is placed. `draining`: the FIN waits for the last one. `stalled`: a
    /// request waits for there being less of them.
    ReadDone { draining: bool, stalled: bool },
    /// The first segment of the peer, before which a responder may not send.
    PeerHeard,
    /// Somebody has stopped although there may be more to send, to flush or to complete, of which
    /// nobody tells: see [`Drained`](super::drain::Drained).
    GoOn,
    /// Something was noted that only the work item may act upon.
    Note,
}

/// Returns who acts because of `reason`; `sleeps` says whether the consumer of send completions, a
/// process, sleeps until a completion event comes instead of polling. It is asked only where that
/// counts.
///
/// Inlined: most reasons are constants, of which nothing but the answer is left.
#[inline(always)]
pub(crate) fn who(reason: Reason, sleeps: impl Fn() -> bool) -> Actor {
    use Actor::{Caller, Later, Nobody, Patient, Urgent};
    use Reason::*;

    match reason {
        // Whoever has the mutex may have looked at the ring already, so somebody looks again. A
        // consumer that waits posts more before that; one that polls would keep a patient one away.
        Busy { sends: true } if sleeps() => Patient,
        Busy { sends: true } => Urgent,
        // Only under the mutex is known what becomes of the request: the thread waits for it.
        Busy { sends: false } => Caller,

        // A consumer that waits for an answer has little else on the way, and gets it soonest so.
        Doorbell { row: false, .. } => Caller,
        // Many go to TCP in one call: the library does not ring while a request waits. A work item
        // may run before the consumer has posted more, so that it comes later.
        Doorbell { gathers: true, .. } => Later,
        // The consumer may post more before it sleeps.
        Doorbell { .. } if sleeps() => Patient,
        Doorbell { .. } => Caller,
        // One that polls would keep a patient one away.
        Gathered if sleeps() => Patient,
        Gathered => Urgent,

        // Who sends may sleep. The thread sends if it has the mutex at once: for how long others
        // have it is nothing that a post may depend on.
        KernelPost { may_sleep: true } => Caller,
        // The consumer may have disabled interrupts.
        KernelPost { may_sleep: false } => Urgent,
        // Somebody looks again, as for a process; what else there is to do, no thread of a consumer
        // does that may have its locks.
        KernelBusy => Urgent,
        // Behind what was posted before.
        KernelRecv { flushes: true } => Urgent,
        // The stream takes it.
        KernelRecv { flushes: false } => Nobody,

        // TCP is about to run dry, or the FIN may go.
        Room => Urgent,

        // Those that come before it runs are answered with it.
        PeerRead => Urgent,

        // The FIN may be due. A process that disconnects does not poll.
        ReadDone { draining: true, .. } => Urgent,
        // As for a request that is posted now.
        ReadDone { stalled: true, .. } if sleeps() => Patient,
        ReadDone { stalled: true, .. } => Urgent,
        ReadDone { .. } => Nobody,

        // Requests may have waited for this from the start.
        PeerHeard => Urgent,
        // The consumer may poll for the last of them.
        GoOn => Urgent,
        // Errors, the socket, timers: not to be kept waiting by a program.
        Note => Urgent,
    }
}
