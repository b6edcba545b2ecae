// SPDX-License-Identifier: GPL-2.0

//! What the QP's work items and timers do: they act upon what callbacks found out, and send what
//! the posting thread could not. `deferred` queues and starts them.
//!
//! Context: process; timers run in softirq.
#![forbid(unsafe_code)]

use super::{
    base::RemoteEnd,
    deferred::{
        ACTS,
        SENDS, //
    },
    effects::After,
    inner::Inner,
    stream::{
        Seen,
        Stream, //
    },
    Qp, //
};
use crate::{
    ffi::{
        mm::scope::NoIo,
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
        failure::{
            Cause,
            Fault, //
        },
        notes::{
            self,
            QpNote, //
        },
        schedule::{
            Actor,
            Reason, //
        },
        state::{
            remote_class,
            Async,
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
        this.payer.pays(|| this.act_upon_notes());
    }
}

impl WorkItem<SENDS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter();
        this.payer.pays(|| {
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
        this.queue(this.who(Reason::Left));
    }
}

impl Qp {
    fn act_upon_notes(self: &Arc<Self>) {
        let looked = self.poll_socket();
        let mut after = After::of(Actor::Urgent);
        let mut inner = self.inner.lock();
        // The QP may have another connection by now. The notes are about that one; what was seen at
        // the socket may be about the one before.
        let seen = looked.and_then(|(stream, seen)| inner.is_on(&stream).then_some(seen));
        // Whoever has left a new note about the socket has queued this work again.
        let mut taken = self.notes.take_all_but(QpNote::Socket);
        if seen.is_some() {
            taken.insert(QpNote::Socket);
        }
        // What waited for these is sent below.
        let _ = self.complete_due();
        if self.settle(&mut inner, &mut after) && self.state() != QpState::Error {
            // It was the end of what has ended now.
            taken.remove(QpNote::Timeout);
        }
        notes::act_upon_each(&mut *inner, taken, |inner, note| {
            self.act_upon(inner, note, seen.as_ref(), &mut after);
        });
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if taken.contains(QpNote::Failure) {
            self.send_cq.report();
            self.recv_cq.report();
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
        if !self.notes.take(QpNote::Socket) {
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
                if let Some(failure) = self.failure.take() {
                    self.local_error(inner, failure, after);
                }
            }
            QpNote::Terminate => {
                if let Some(end) = self.remote_end.take() {
                    self.log_terminate(end.code);
                    self.ends_of(Cause::peer(end.code));
                    // Without a connection the requests have been flushed, or are nobody's. In
                    // Terminate something else has failed first (T-33).
                    let may_fail = inner.conn.is_some() && self.state() != QpState::Terminate;
                    let told = may_fail && self.fail_refused(&end);
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
            // The caller looks at the queues behind all notes.
            QpNote::Timeout if self.state() == QpState::Error => {
                let later = inner.relook.later();
                self.look_again(inner, later);
            }
            QpNote::Timeout => {
                if let Some(conn) = &mut inner.conn {
                    if conn.tx.fin.expired(&conn.stream.sock) {
                        return self.restart_timer(&mut conn.tx.fin);
                    }
                }
                if self.state() == QpState::Draining {
                    self.log_peer(fmt!("disconnects with requests not done in time"));
                }
                self.feed(inner, QpEvent::Timeout, after);
            }
            QpNote::Lost => self.feed(inner, QpEvent::Lost, after),
            // The caller goes on after all notes.
            QpNote::Again => {}
        }
    }

    fn act_upon_socket(self: &Arc<Self>, inner: &mut Inner, seen: &Seen, after: &mut After) {
        if seen.fin {
            let idle = !seen.cut && self.is_idle(inner);
            self.feed(inner, QpEvent::PeerFin { idle }, after);
        }
        match (seen.breach, seen.closed) {
            (Some(breach), _) => {
                self.log_peer(fmt!("TLS ends the connection: {breach}"));
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

    /// Completes in error the Read that the peer refuses (V-WC-5). Returns whether its completion
    /// reports that.
    fn fail_refused(self: &Arc<Self>, end: &RemoteEnd) -> bool {
        let read = end.read.and_then(|msn| {
            let sq = self.sq.lock();
            sq.outbound.find(msn)?.token
        });
        let fault = match remote_class(end.code) {
            Async::Access => Fault::RemoteAccess,
            Async::Request => Fault::RemoteInvalid,
            Async::Fatal => Fault::General,
        };
        read.is_some_and(|token| self.fail_send(token, fault))
    }
}
