// SPDX-License-Identifier: GPL-2.0

//! Leaving work to others: notes, work items and timers of a QP, and what these do. They act upon
//! what callbacks found out, and send what the posting thread could not. `proto::schedule` decides
//! who acts.
//!
//! Context: work items are processes; timers run in softirq. Work is left in any context.
#![forbid(unsafe_code)]

use super::{
    effects::After,
    inner::Inner,
    shared::{
        Shared,
        Wakes, //
    },
    stream::{
        Seen,
        Stream, //
    },
    Qp, //
};
use crate::{
    ffi::{
        mm::NoIo,
        time::{
            hrtimer::{
                ExpiresSoon,
                ShortTimer, //
            },
            Expires,
            Timer, //
        },
    },
    proto::{
        failure::Cause,
        notes::{
            self,
            QpNote, //
        },
        schedule::{
            Actor,
            Reason,
            GATHER_US, //
        },
        state::{
            remote_class,
            QpEvent,
            QpState, //
        },
    },
};
use kernel::{
    impl_has_work,
    prelude::*,
    sync::Arc,
    workqueue::WorkItem, //
};

impl_has_work! {
    impl HasWork<Self, ACTS> for Qp { self.work }
    impl HasWork<Self, SENDS> for Qp { self.posts }
}

impl WorkItem<ACTS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter();
        this.shared.id.payer.pays(|| this.act_upon_notes());
    }
}

impl WorkItem<SENDS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter();
        this.shared.id.payer.pays(|| {
            let mut after = After::of(Actor::Patient);
            let mut inner = this.inner.lock();
            this.send_posts(&mut inner, &mut after);
            drop(inner);
            after.run(&this);
        });
    }
}

impl Expires for Qp {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.note(QpNote::Timeout);
    }
}

impl ExpiresSoon for Qp {
    fn short_timer(&self) -> &ShortTimer<Self> {
        &self.gathers
    }

    fn soon_expired(this: Arc<Self>) {
        this.queue(this.shared.who(Reason::Left));
    }
}

impl Qp {
    fn act_upon_notes(self: &Arc<Self>) {
        let looked = self.poll_socket();
        let mut after = After::of(Actor::Urgent);
        let mut inner = self.inner.lock();
        // The QP may have got another connection since `poll_socket`. The notes that are taken here
        // are about the connection that it has now. What was seen at the socket of an earlier
        // connection is forgotten.
        let seen = looked.and_then(|(stream, seen)| inner.is_on(&stream).then_some(seen));
        // Whoever has left a new note about the socket has queued this work again.
        let mut taken = self.shared.notes.take_all_but(QpNote::Socket);
        if seen.is_some() {
            taken.insert(QpNote::Socket);
        }
        // Requests that waited for what completes here are sent below.
        let _ = self.shared.complete_due();
        if self.settle(&mut inner, &mut after) && self.shared.state() != QpState::Error {
            // The timer that ran out belonged to what has ended now.
            taken.remove(QpNote::Timeout);
        }
        notes::act_upon_each(&mut *inner, taken, |inner, note| {
            self.act_upon(inner, note, seen.as_ref(), &mut after);
        });
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if taken.contains(QpNote::Failure) {
            self.shared.id.send_cq.report();
            self.shared.id.recv_cq.report();
        }
        if seen.is_some_and(|seen| seen.more) {
            self.note(QpNote::Socket);
        }
    }

    /// Receives what waits in the socket if a note says so. Returns which connection that was, and
    /// what was seen.
    ///
    /// What the receiver notes meanwhile is acted upon before what is seen here: a Terminate before
    /// the FIN behind it.
    fn poll_socket(self: &Arc<Self>) -> Option<(Arc<Stream>, Seen)> {
        if !self.shared.notes.take(QpNote::Socket) {
            return None;
        }
        let stream = self.inner.lock().conn.as_ref()?.stream.clone();
        let seen = stream.drain();
        Some((stream, seen))
    }

    /// Feeds what happened to the state machine; `seen` is what [`QpNote::Socket`] is about.
    fn act_upon(
        self: &Arc<Self>,
        inner: &mut Inner,
        note: QpNote,
        seen: Option<&Seen>,
        after: &mut After,
    ) {
        match note {
            QpNote::Failure => {
                if let Some(failure) = self.shared.failure.take() {
                    self.local_error(inner, failure, after);
                }
            }
            QpNote::Terminate => {
                if let Some(end) = self.shared.remote_end.take() {
                    self.shared.id.log_terminate(end.code);
                    self.shared.flags.ends_of(Cause::peer(end.code));
                    // Without a connection the requests have been flushed, or are nobody's. In
                    // Terminate something else has failed first (T-33).
                    let may_fail =
                        inner.conn.is_some() && self.shared.state() != QpState::Terminate;
                    let told = may_fail && self.shared.fail_refused(&end);
                    let event = (!told).then_some(remote_class(end.code));
                    self.feed(inner, QpEvent::TerminateReceived { event }, after);
                }
            }
            QpNote::DataInClosing => self.feed(inner, QpEvent::DataInClosing, after),
            QpNote::Socket => {
                if let Some(seen) = seen {
                    self.act_upon_socket(inner, seen, after);
                }
            }
            // The caller looks at the queues once all notes are acted upon.
            QpNote::Timeout if self.shared.state() == QpState::Error => {
                let later = inner.relook.later();
                self.look_again(inner, later);
            }
            QpNote::Timeout => {
                if let Some(conn) = &mut inner.conn {
                    if conn.tx.fin.expired(&conn.stream.sock) {
                        return self.restart_timer(inner);
                    }
                }
                if self.shared.state() == QpState::Draining {
                    let id = &self.shared.id;
                    id.log_peer(fmt!("disconnects with requests not done in time"));
                }
                self.feed(inner, QpEvent::Timeout, after);
            }
            QpNote::Lost => self.feed(inner, QpEvent::Lost, after),
            // The caller goes on once all notes are acted upon.
            QpNote::Again => {}
        }
    }

    fn act_upon_socket(self: &Arc<Self>, inner: &mut Inner, seen: &Seen, after: &mut After) {
        if seen.fin {
            let idle = !seen.cut && inner.complete_before_close(&self.shared);
            self.feed(inner, QpEvent::PeerFin { idle }, after);
        }
        match (seen.breach, seen.closed) {
            (Some(breach), _) => {
                let id = &self.shared.id;
                id.log_peer(fmt!("TLS ends the connection: {breach}"));
                if let Some(conn) = &inner.conn {
                    conn.stream.sock.abort();
                }
                self.feed(inner, QpEvent::PeerReset, after);
            }
            (None, None) => {}
            (None, Some(None)) => self.feed(inner, QpEvent::Closed, after),
            (None, Some(Some(e))) if e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH => {
                self.feed(inner, QpEvent::Lost, after);
            }
            (None, Some(Some(_))) => self.feed(inner, QpEvent::PeerReset, after),
        }
    }

    /// Feeds an event to the state machine, and ignores it if it does not fit the state any more.
    fn feed(self: &Arc<Self>, inner: &mut Inner, event: QpEvent, after: &mut After) {
        let _ = self.apply(inner, event, None, after);
    }
}

/// The number of the work item that acts upon notes, and sends.
pub(super) const ACTS: u64 = 0;
/// The number of the work item that only sends.
pub(super) const SENDS: u64 = 1;

impl Wakes for Qp {
    #[inline]
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn wake(self: Arc<Self>, actor: Actor) {
        self.queue(actor);
    }
}

impl Qp {
    /// Queues the work item that `actor` is, or starts the timer that queues one. Does nothing if
    /// that is the caller.
    #[inline(always)]
    pub(super) fn queue(self: &Arc<Self>, actor: Actor) {
        match actor {
            Actor::Urgent => self.urge(),
            Actor::Patient => {
                let patient = &self.shared.id.dev.queues().patient;
                // If that fails, it is queued already, and will see whatever there is to see.
                let _ = patient.enqueue::<_, SENDS>(self.clone());
            }
            Actor::Later => ShortTimer::start(self, GATHER_US),
            Actor::Caller => {}
        }
    }

    /// Queues the urgent work item. It goes on for whoever waited for something that has come
    /// about, and for whoever has stopped although there may be more that nobody will tell of.
    /// Errors, the socket and timers must not wait for a program, and a consumer may poll for what
    /// is sent, flushed or completed then.
    pub(super) fn urge(self: &Arc<Self>) {
        // If that fails it is queued already, and will see whatever there is to see.
        let urgent = &self.shared.id.dev.queues().data;
        let _ = urgent.enqueue::<_, ACTS>(self.clone());
    }

    /// Leaves a note for the work item. What goes with it is in its slot already.
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.shared.notes.leave(note);
        self.urge();
    }

    /// Lets the work item act upon what was noted, if anything was. Whoever sends or receives calls
    /// this at the end.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>) {
        if self.shared.is_noted() {
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
        self.shared.notes.take(QpNote::Timeout);
    }

    /// Stops the timers, once nobody posts any more. Also without a connection, as what is posted
    /// then may be gathered.
    pub(super) fn stop_timers(self: &Arc<Self>) {
        self.cancel_timer();
        ShortTimer::stop(self);
    }
}
