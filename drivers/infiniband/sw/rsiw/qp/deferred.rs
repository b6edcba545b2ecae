// SPDX-License-Identifier: GPL-2.0

//! Leaving work to others: notes, work items and timers of a QP. `work` has what these do, and
//! `proto::schedule` decides who acts.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    parent::Parent,
    Qp, //
};
use crate::{
    ffi::time::{
        hrtimer::ShortTimer,
        Timer, //
    },
    proto::{
        notes::QpNote,
        schedule::{
            Actor,
            GATHER_US, //
        },
    },
};
use kernel::sync::Arc;

/// The number of the work item that acts upon notes, and sends.
pub(super) const ACTS: u64 = 0;
/// The number of the work item that only sends.
pub(super) const SENDS: u64 = 1;

impl Parent for Qp {
    #[inline]
    fn base(&self) -> &Base {
        self
    }

    fn let_act(self: Arc<Self>, actor: Actor) {
        self.queue(actor);
    }

    fn first_segment(self: Arc<Self>) {
        let manager = self.manager.lock().clone();
        if let Some(manager) = manager {
            manager.first_segment();
        }
    }
}

impl Qp {
    /// Queues the work item that `actor` is, or starts the timer that queues one. Does nothing if
    /// that is the caller.
    #[inline(always)]
    pub(super) fn queue(self: &Arc<Self>, actor: Actor) {
        match actor {
            Actor::Urgent => self.urge(),
            Actor::Patient => self.queue_patient(),
            Actor::Later => ShortTimer::start(self, GATHER_US),
            Actor::Caller => {}
        }
    }

    /// Queues the urgent work item. So goes on whoever was waited for, or has stopped although there
    /// may be more of which nobody tells: errors, the socket and timers must not wait for a program,
    /// and a consumer may poll for what is sent, flushed or completed then.
    pub(super) fn urge(self: &Arc<Self>) {
        // If that fails it is queued already, and will see whatever there is to see.
        let _ = self.dev.queues().data.enqueue::<_, ACTS>(self.clone());
    }

    fn queue_patient(self: &Arc<Self>) {
        // As above.
        let _ = self.dev.queues().patient.enqueue::<_, SENDS>(self.clone());
    }

    /// Leaves a note for the work item. What goes with it is in its slot already.
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.notes.leave(note);
        self.urge();
    }

    /// Lets the work item act upon what was noted, if anything was. Whoever sends or receives calls
    /// this at the end.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>) {
        if self.is_noted() {
            self.urge();
        }
    }

    /// Notes that the peer is out of reach for good.
    pub(crate) fn lost(self: &Arc<Self>) {
        self.note(QpNote::Lost);
    }

    /// Starts the timer anew: [`QpNote::Timeout`] is left in `ms` milliseconds, and not before.
    pub(super) fn start_timer(self: &Arc<Self>, ms: u32) {
        self.cancel_timer();
        Timer::start(self, ms);
    }

    /// Stops the timer. The timer takes no lock that is held across this.
    pub(super) fn cancel_timer(self: &Arc<Self>) {
        Timer::stop(self);
        self.notes.take(QpNote::Timeout);
    }

    /// Stops what runs until a time, once nobody posts any more. Without a connection, too: what is
    /// posted then may be gathered.
    pub(super) fn stop_timers(self: &Arc<Self>) {
        self.cancel_timer();
        ShortTimer::stop(self);
    }
}
