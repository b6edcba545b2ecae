// SPDX-License-Identifier: GPL-2.0

//! Carrying out state transitions.
//!
//! Context: process. What calls out of the driver is collected in [`After`] and done once the QP's
//! mutex is released.
#![forbid(unsafe_code)]

use super::{
    inner::{
        Conn,
        Inner, //
    },
    manager::Manager,
    tx::CLOSE_TIMEOUT_MS,
    Qp, //
};
use crate::{
    ffi::{
        rdma::attr::AsyncEvent,
        time::hrtimer::ShortTimer, //
    },
    proto::{
        connection::StreamEnd,
        counters::Counter,
        drain::Relook,
        failure::{
            Cause,
            Failure, //
        },
        notes::QpNote,
        receiver::Recv,
        schedule::Actor,
        state::{
            self,
            Async,
            Effects,
            Post,
            QpEvent,
            QpState,
            Tcp, //
        },
    },
};
use kernel::{
    pr_warn_once,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// What others are to be told once the QP's mutex is released.
#[derive(Default)]
pub(super) struct After {
    pub(super) actor: Actor,
    event: Option<Async>,
    last_wqe: bool,
    disconnect: Option<Arc<dyn Manager>>,
    close: Option<(StreamEnd, Arc<dyn Manager>)>,
    abort_setup: Option<Arc<dyn Manager>>,
    notify: Notify,
}

/// Completion queues whose handlers are to be called.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Notify {
    pub(super) send: bool,
    pub(super) recv: bool,
}

impl Notify {
    pub(super) fn run(self, qp: &Qp) {
        let id = &qp.shared.id;
        if self.send {
            id.send_cq.notify();
        }
        if self.recv {
            id.recv_cq.notify();
        }
    }
}

impl After {
    pub(super) fn of(actor: Actor) -> Self {
        Self {
            actor,
            ..Self::default()
        }
    }

    /// Turns the event, if there is one, into one about missing rights.
    pub(super) fn become_access_error(&mut self) {
        if self.event.is_some() {
            self.event = Some(Async::Access);
        }
    }

    /// Tells others what there is to tell, which mostly is nothing. Also lets the work item act
    /// upon what was noted meanwhile.
    #[inline(always)]
    pub(super) fn run(self, qp: &Arc<Qp>) {
        qp.ring_if_noted();
        let is_nothing = self.event.is_none()
            && !self.last_wqe
            && self.disconnect.is_none()
            && self.close.is_none()
            && self.abort_setup.is_none()
            && self.notify == Notify::default();
        if !is_nothing {
            self.deliver(qp);
        }
    }

    #[inline(never)]
    fn deliver(self, qp: &Arc<Qp>) {
        self.notify.run(qp);
        if let Some(event) = self.event {
            qp.shared.id.handle.event(match event {
                Async::Fatal => AsyncEvent::Fatal,
                Async::Request => AsyncEvent::RequestError,
                Async::Access => AsyncEvent::AccessError,
            });
        }
        if self.last_wqe {
            qp.shared.id.handle.event(AsyncEvent::LastWqeReached);
        }
        if let Some(manager) = self.disconnect {
            manager.peer_closing();
        }
        if let Some((end, manager)) = self.close {
            manager.stream_ended(end);
        }
        if let Some(manager) = self.abort_setup {
            manager.abort();
        }
    }
}

impl Qp {
    /// Changes the state as `event` demands; `failure` is what a Terminate is to say. Returns
    /// `EINVAL` if the event does not fit the state; then nothing has changed.
    pub(super) fn apply(
        self: &Arc<Self>,
        inner: &mut Inner,
        event: QpEvent,
        failure: Option<Failure>,
        after: &mut After,
    ) -> Result {
        let before = self.shared.state();
        let (state, effects) = state::next(before, event).map_err(|_| EINVAL)?;
        if let Some(cause) = Cause::of_event(&event).filter(|_| state != before) {
            self.shared.flags.ends_of(cause);
        }
        self.shared.id.trace_state(&event, before, state);
        if matches!(event, QpEvent::Lost | QpEvent::PeerReset) && inner.conn.is_some() {
            self.shared.counts.count(Counter::ConnLost);
        }
        if state == QpState::Error && before == QpState::Idle {
            after.abort_setup = self.shared.set_aside.take();
        }
        // If the consumer disconnects after the close, that does not mean that the QP is to be used
        // again.
        let disconnects = matches!(
            event,
            QpEvent::Modify {
                to: QpState::Closing,
                ..
            }
        );
        inner.was_closed = effects.close || (inner.was_closed && disconnects);
        if before.post_recv() == Post::Flush && state.post_recv() != Post::Flush {
            // What was posted until now must not be left to the next connection (V-ST-37).
            self.shared.flush_rq(&mut after.notify.recv);
        }
        if before == QpState::Error && state != before {
            self.stop_looking(inner);
        }
        self.shared.set_state(state);
        self.perform(inner, &effects, failure, after);
        Ok(())
    }

    /// Ends the stream because of an error of this side.
    pub(super) fn local_error(
        self: &Arc<Self>,
        inner: &mut Inner,
        failure: Failure,
        after: &mut After,
    ) {
        let can_send = inner
            .conn
            .as_ref()
            .is_some_and(|c| c.tx.may_send(&self.shared.flags));
        let event = QpEvent::LocalError {
            error: failure.error,
            in_completion: failure.in_completion,
            can_send,
        };
        let shared = &self.shared;
        tell_defect(&failure);
        shared.flags.ends_of(Cause::here(failure.error));
        shared.counts.count_all([Counter::of_failure(&failure)]);
        if shared.state().sends() {
            shared.id.log_failure(&failure);
        }
        let _ = self.apply(inner, event, Some(failure), after);
        if failure.denied {
            after.become_access_error();
        }
    }

    fn perform(
        self: &Arc<Self>,
        inner: &mut Inner,
        effects: &Effects,
        failure: Option<Failure>,
        after: &mut After,
    ) {
        let end = match (effects.tcp, &inner.conn) {
            (Tcp::Reset, _) => StreamEnd::Reset,
            (Tcp::ResetIfDelivered, Some(conn)) if conn.is_delivered() => StreamEnd::Reset,
            // A FIN without a Terminate would say that all is well.
            (Tcp::Keep, Some(conn)) if effects.close && conn.tx.owes_terminate() => {
                StreamEnd::Reset
            }
            _ => StreamEnd::Graceful,
        };
        if let Some(conn) = &mut inner.conn {
            // A responder that has received nothing sends nothing, no Terminate either (T-24).
            if let Some(error) = effects
                .terminate
                .filter(|_| conn.tx.may_send(&self.shared.flags))
            {
                conn.tx
                    .set_terminate(&failure.unwrap_or_else(|| error.into()));
            }
            if effects.tcp == Tcp::Fin {
                conn.tx.fin.want();
            }
            if end == StreamEnd::Reset {
                conn.stream.sock.abort();
            }
        }
        if effects.start_timer {
            self.start_timer(CLOSE_TIMEOUT_MS);
            inner.left.remove(QpNote::Timeout);
        }
        let mut recv = None;
        if effects.close {
            if let Some(conn) = inner.conn.take() {
                self.cancel_timer();
                inner.left.remove(QpNote::Timeout);
                recv = self.release(conn);
            }
        } else if effects.flush_rq {
            // The receive in progress comes before those in the queue. What still arrives of its
            // message finds the new state.
            let conn = inner.conn.as_ref();
            recv = conn.and_then(|conn| {
                let stream = &conn.stream;
                stream
                    .sock
                    .with_lock(|sk| stream.receiving(sk)?.receiver.take_recv())
            });
        }
        if effects.flush_sq {
            after.notify.send |= self.shared.flush_sq(&mut inner.ring);
        }
        after.notify.recv |= recv.is_some_and(|recv| self.shared.flush_recv(recv.id));
        if effects.flush_rq {
            self.shared.flush_rq(&mut after.notify.recv);
            self.look_again(inner, Relook::FIRST);
            after.last_wqe |= inner.tell_last_wqe(&self.shared);
        }
        if effects.renew {
            self.shared.sq.lock().renew();
        }
        if effects.event.is_some() {
            after.event = effects.event;
        }
        if effects.disconnect {
            after.disconnect = self.shared.set_aside.manager();
        }
        if effects.close {
            // The manager is taken out in the same hold of the mutex in which the state changes.
            // Otherwise whoever changes the state next could find a manager that is yet to be told
            // of this end, and tell it of another one.
            after.close = self.shared.set_aside.take().map(|manager| (end, manager));
        }
    }

    /// Takes the connection apart. Returns the receive of a message that was not complete.
    fn release(self: &Arc<Self>, conn: Conn) -> Option<Recv> {
        // This comes first, so that nobody finds what is taken apart.
        self.show(None);
        let rx = conn.dismantle();
        ShortTimer::stop(self);
        rx?.receiver.take_recv()
    }

    /// Completes what was posted in a state in which nothing is sent or received (T-34).
    pub(super) fn flush_posted(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        match self.shared.state().post_send(inner.was_closed) {
            Post::Queue => {}
            Post::Flush => after.notify.send |= self.shared.flush_sq(&mut inner.ring),
            Post::TooLate if inner.ring.is_empty() => {}
            Post::TooLate => {
                let _ = self.apply(inner, QpEvent::PostedTooLate, None, after);
            }
        }
        if self.shared.state().post_recv() == Post::Flush
            && self.shared.flush_rq(&mut after.notify.recv)
        {
            self.look_again(inner, Relook::FIRST);
        }
    }

    /// Has the receives of a QP in Error be looked at later, if the process does not tell of those
    /// that it posts until then. In Closing this is not needed: it ends soon, with a flush.
    pub(super) fn look_again(self: &Arc<Self>, inner: &mut Inner, when: Relook) {
        let is_over =
            self.shared.state() != QpState::Error || self.shared.flags.destroyed.load(Relaxed);
        if is_over || !self.shared.posts_recvs_silently() {
            return;
        }
        inner.relook = when;
        self.start_timer(when.ms());
        inner.left.remove(QpNote::Timeout);
    }

    /// Undoes [`Qp::look_again`].
    fn stop_looking(self: &Arc<Self>, inner: &mut Inner) {
        self.cancel_timer();
        inner.left.remove(QpNote::Timeout);
    }
}

/// Logs a failure that only a defect of this driver can cause.
fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.detail.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
    }
}
