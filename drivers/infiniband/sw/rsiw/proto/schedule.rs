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

/// For how long requests are given time to gather, in microseconds.
pub(crate) const GATHER_US: u32 = 10;
/// So many together are worth that time. So many doorbells without an answer are a row.
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
    /// The urgent work item, after [`GATHER_US`].
    Later,
    /// Nobody: there is nothing to do, or who does it is on his way.
    Nobody,
}

/// What is known of a process by its doorbells. Under the mutex of its queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Those since the peer had answered all that was sent.
    row: u32,
    /// Requests that were taken out of the send queue before the last doorbell; wraps.
    taken: u32,
    /// Those of the last doorbell were given time to gather.
    gathered: bool,
    /// Doorbells for which it holds that it was in vain to give them time.
    in_vain: u32,
    /// Completion events before the last doorbell; wraps.
    events: u32,
    /// Doorbells since an event came.
    since_event: u32,
}

impl Doorbells {
    /// None has rung.
    pub(crate) const fn new() -> Self {
        Self {
            row: 0,
            taken: 0,
            gathered: false,
            in_vain: 0,
            events: 0,
            since_event: HOLDS,
        }
    }

    /// Takes note of a doorbell, before which so many requests were `taken` and `events` came;
    /// `answered`: the peer had answered all that was sent.
    #[inline]
    pub(crate) fn ring(&mut self, taken: u32, events: u32, answered: bool) {
        if answered {
            self.row = 0;
        }
        self.row = self.row.saturating_add(1);
        let count = taken.wrapping_sub(core::mem::replace(&mut self.taken, taken));
        self.in_vain = self.in_vain.saturating_sub(1);
        // If none was taken, they are still on their way.
        if core::mem::take(&mut self.gathered) && (1..WORTH).contains(&count) {
            self.in_vain = HOLDS;
        }
        self.since_event = self.since_event.saturating_add(1);
        if core::mem::replace(&mut self.events, events) != events {
            self.since_event = 0;
        }
    }

    /// Returns whether doorbells have rung in a row: the process has many requests on its way.
    #[inline]
    pub(crate) const fn is_row(&self) -> bool {
        self.row >= WORTH
    }

    /// Returns whether the process has slept of late until an event came. While it is at work it
    /// does not ask for the next one: it does so when it has found nothing more to do.
    #[inline]
    pub(crate) const fn has_slept(&self) -> bool {
        self.since_event < HOLDS
    }

    /// Returns whether it is worth it to give requests time. It was not of late if too few came.
    #[inline]
    pub(crate) const fn is_worth_it(&self) -> bool {
        self.in_vain == 0
    }

    /// Takes note that the requests of the last doorbell are given time.
    #[inline]
    pub(crate) fn gather(&mut self) {
        self.gathered = true;
    }
}

/// Reads of the peer that wait to be answered: whether they gather. Under their lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRow {
    /// The most that waited at a time since none did.
    most: u32,
    /// As many as are worth it did before that.
    gathers: bool,
}

impl ReadRow {
    /// None has come.
    pub(crate) const fn new() -> Self {
        let (most, gathers) = (0, false);
        Self { most, gathers }
    }

    /// Takes note of one of so many that are `waiting`. Returns why it is to be answered.
    pub(crate) fn arrive(&mut self, waiting: u32) -> Reason {
        if waiting <= 1 {
            self.gathers = core::mem::take(&mut self.most) >= WORTH;
        }
        self.most = self.most.max(waiting);
        Reason::PeerRead {
            gathers: self.gathers,
        }
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
    /// A consumer in the kernel posted send requests, in any context; `may_sleep` is whether its
    /// thread may sleep there, and keep others waiting.
    KernelPost { may_sleep: bool },
    /// Its thread may sleep, but somebody else has the mutex, or more is to be done than to send.
    KernelBusy,
    /// A consumer in the kernel posted receives; `flushes` is whether they are flushed.
    KernelRecv { flushes: bool },
    /// There is room in the socket, or the peer has acknowledged all.
    Room,
    /// A Read of the peer is to be answered; `gathers`: see [`ReadRow`].
    PeerRead { gathers: bool },
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
        // Many go to TCP in one call: the library does not ring while a request waits, and the
        // consumer posts more before it sleeps.
        Doorbell { .. } if sleeps() => Patient,
        // One that polls would keep a patient one away, and be interrupted by an urgent one before
        // it has posted more.
        Doorbell { gathers: true, .. } => Later,
        Doorbell { .. } => Caller,

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
        PeerRead { gathers: false } => Urgent,
        PeerRead { gathers: true } => Later,

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
