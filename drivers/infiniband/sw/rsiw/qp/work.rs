// SPDX-License-Identifier: GPL-2.0

//! The QP's work items and timer: acting upon what callbacks found out, and sending what the posting
//! thread could not.
//!
//! Context: leaving notes in any context, the work itself in process context.
#![forbid(unsafe_code)]

use super::{
    control::Inner,
    effects::After,
    fin::SendFin,
    stream::{
        Seen,
        Stream, //
    },
    Pending,
    Qp,
    RemoteEnd, //
};
use crate::{
    ffi::{
        log::pr_ratelimited,
        noio::NoIo,
        timer::{
            Expires,
            Timer, //
        },
    },
    proto::{
        failure::{
            Failure,
            Fault, //
        },
        schedule::Reason,
        state::{
            remote_class,
            Async,
            Event,
            State, //
        },
    },
};
use kernel::{
    impl_has_work,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    workqueue::WorkItem, //
};

impl_has_work! {
    impl HasWork<Self, ACTS> for Qp { self.work }
    impl HasWork<Self, SENDS> for Qp { self.posts }
}

/// Of the work item that acts upon notes, and sends.
pub(super) const ACTS: u64 = 0;
/// Of the work item that only sends.
pub(super) const SENDS: u64 = 1;

impl WorkItem<ACTS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter();
        this.act();
    }
}

impl WorkItem<SENDS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter();
        let mut after = After::default();
        let mut inner = this.inner.lock();
        this.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(&this);
    }
}

impl Expires for Qp {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.pending.lock().timeout = true;
        this.schedule(Reason::Note);
    }
}

impl Qp {
    /// Lets the work item look at the socket.
    pub(super) fn look_at_socket(self: &Arc<Self>) {
        self.pending.lock().rx = true;
        self.schedule(Reason::Note);
    }

    /// The stream must end. The first cause counts.
    pub(super) fn fail(self: &Arc<Self>, failure: Failure) {
        self.note_failure(failure);
        self.schedule(Reason::Note);
    }

    /// As [`Qp::fail`] for callers that let the work item run themselves.
    pub(super) fn note_failure(&self, failure: Failure) {
        self.pending.lock().failure.get_or_insert(failure);
        self.failed.store(true, Relaxed);
    }

    /// The peer ended the stream.
    pub(super) fn terminate_received(self: &Arc<Self>, end: RemoteEnd) {
        self.pending.lock().terminate.get_or_insert(end);
        self.schedule(Reason::Note);
    }

    /// The peer sent data although this side is closing.
    pub(super) fn data_in_closing(self: &Arc<Self>) {
        self.pending.lock().data_in_closing = true;
        self.schedule(Reason::Note);
    }

    /// Forgets what was noted about an earlier connection, of which nothing more comes. Under `inner`.
    pub(super) fn forget_pending(&self) {
        *self.pending.lock() = Pending::default();
        self.failed.store(false, Relaxed);
    }

    /// The peer is out of reach for good. Any context.
    pub(crate) fn lost(self: &Arc<Self>) {
        self.pending.lock().lost = true;
        self.schedule(Reason::Note);
    }

    /// Lets [`Event::Timeout`] happen in `ms` milliseconds and not before, or a FIN that waits go out
    /// then.
    pub(super) fn start_timer(self: &Arc<Self>, ms: u32) {
        self.cancel_timer();
        Timer::start(self, ms);
    }

    /// Stops the timer. The timer takes no lock that is held across this.
    pub(super) fn cancel_timer(self: &Arc<Self>) {
        Timer::stop(self);
        self.pending.lock().timeout = false;
    }

    fn act(self: &Arc<Self>) {
        let looked = self.look();
        let mut after = After::default();
        let mut inner = self.inner.lock();
        // The QP may have another connection by now: what is noted is of that one, what was seen may
        // be of the one before.
        let seen = looked.and_then(|(stream, seen)| inner.is_on(&stream).then_some(seen));
        self.failed.store(false, Relaxed);
        let pending = core::mem::take(&mut *self.pending.lock());
        self.complete_due();
        self.handle(&mut inner, &pending, seen.as_ref(), &mut after);
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if pending.failure.is_some() {
            self.send_cq.report();
            self.recv_cq.report();
        }
        if pending.rx || seen.is_some_and(|seen| seen.more) {
            self.look_at_socket();
        }
    }

    /// Sends what was posted, or flushes it.
    fn send_posts(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.progress(inner, after);
        self.flush_posted(inner, after);
    }

    /// Takes in what waits in the socket, if there is any sign of something. Returns which connection
    /// that was, too.
    fn look(self: &Arc<Self>) -> Option<(Arc<Stream>, Seen)> {
        if !core::mem::take(&mut self.pending.lock().rx) {
            return None;
        }
        let (sock, stream) = {
            let inner = self.inner.lock();
            let conn = inner.conn.as_ref()?;
            (conn.sock.clone(), conn.stream.clone())
        };
        let seen = stream.drain(&sock);
        Some((stream, seen))
    }

    /// Feeds what happened to the state machine, in the order in which it happened.
    fn handle(
        self: &Arc<Self>,
        inner: &mut Inner,
        pending: &Pending,
        seen: Option<&Seen>,
        after: &mut After,
    ) {
        if let Some(failure) = pending.failure {
            self.local_error(inner, failure, after);
        }
        let conn = inner.conn.as_mut();
        let is_timeout =
            pending.timeout && !conn.is_some_and(|c| c.tx.fin.waits_no_more(self, &c.sock));
        if is_timeout && inner.state == State::Draining {
            let (dev, num) = (self.dev.handle(), self.num());
            pr_ratelimited!("{dev}: QP {num}: disconnects with requests not done in time\n");
        }
        // Without a connection the requests are flushed, or nobody's any more.
        let connected = inner.conn.is_some();
        let mut feed = |event| {
            let idle = self.is_idle(inner);
            let event = match event {
                Event::PeerFin { idle: whole } => Event::PeerFin {
                    idle: whole && idle,
                },
                event => event,
            };
            // What does not fit the state any more does not matter any more.
            let _ = self.apply(inner, event, None, after);
        };
        if let Some(end) = pending.terminate {
            self.log_terminate(end.code);
            let told = connected && self.fail_refused(&end);
            feed(Event::TerminateReceived {
                event: (!told).then_some(remote_class(end.code)),
            });
        }
        if pending.data_in_closing {
            feed(Event::DataInClosing);
        }
        if let Some(seen) = seen {
            if seen.fin {
                feed(Event::PeerFin { idle: !seen.cut });
            }
            match seen.closed {
                None => {}
                Some(None) => feed(Event::Closed),
                Some(Some(e)) if e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH => {
                    feed(Event::Lost);
                }
                Some(Some(_)) => feed(Event::PeerReset),
            }
        }
        if is_timeout {
            feed(Event::Timeout);
        }
        if pending.lost {
            feed(Event::Lost);
        }
    }

    /// Completes the Read that the peer refuses in error (V-WC-5). Returns whether it tells of that.
    fn fail_refused(self: &Arc<Self>, end: &RemoteEnd) -> bool {
        let read = end.read.and_then(|msn| {
            let sq = self.sq.lock();
            sq.orq.find(msn)?.purpose.token()
        });
        let fault = match remote_class(end.code) {
            Async::Access => Fault::RemoteAccess,
            Async::Request => Fault::RemoteInvalid,
            Async::Fatal => Fault::General,
        };
        read.is_some_and(|token| self.fail_send(token, fault))
    }

    /// One line for an error of this side.
    pub(super) fn log_failure(&self, failure: &Failure) {
        pr_ratelimited!(
            "{}: QP {}: ends the stream: {}{}{:?} (Terminate {:#06x})\n",
            self.dev.handle(),
            self.num(),
            failure.cause.unwrap_or(""),
            failure.cause.map_or("", |_| ": "),
            failure.error,
            failure.error.code(),
        );
    }

    fn log_terminate(&self, code: u16) {
        pr_ratelimited!(
            "{}: QP {}: the peer ends the stream (Terminate {:#06x})\n",
            self.dev.handle(),
            self.num(),
            code,
        );
    }
}
