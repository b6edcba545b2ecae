// SPDX-License-Identifier: GPL-2.0

//! State of a QP and its connection: what may change it, the verbs that ask for a change, and the
//! transitions, which are carried out here. `proto::state` says which state follows.
//!
//! Context: process. Calls out of the driver are collected in [`After`], and made once the QP's
//! mutex is released.
#![forbid(unsafe_code)]

mod by_number;

use self::by_number::agree;
use super::direct::Prepared;
use super::sending::{
    Sending,
    CLOSE_TIMEOUT_MS, //
};
use super::shared::{
    Manager,
    ReadQueues,
    RemoteEnd,
    Shared, //
};
use super::stream::Stream;
use super::{
    Conn,
    Inner,
    Qp, //
};
use crate::ffi::net::{
    Callbacks,
    TcpSocket, //
};
use crate::ffi::rdma::attr::{
    AccessFlags,
    AsyncEvent,
    IbQpState,
    QpModify, //
};
use crate::ffi::rsiw::params;
use crate::ffi::task::Process;
use crate::ffi::time::hrtimer::ShortTimer;
use crate::limits::MAX_READS;
use crate::proto::connection::StreamEnd;
use crate::proto::counters::Counter;
use crate::proto::drain::Relook;
use crate::proto::failure::{
    Cause,
    Failure,
    Fault, //
};
use crate::proto::notes::QpNote;
use crate::proto::receiver::Recv;
use crate::proto::schedule::Actor;
use crate::proto::setup::Params;
use crate::proto::state::{
    self,
    remote_class,
    Async,
    Effects,
    Post,
    QpEvent,
    QpState,
    Tcp, //
};
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Rights of the peer unless the consumer sets others.
const DEFAULT_RIGHTS: AccessFlags = AccessFlags::REMOTE_WRITE.union(AccessFlags::REMOTE_READ);

impl Qp {
    /// Sets the QP aside for the connection of `manager`, or returns `EISCONN` if it is set aside
    /// for another one, or is in a state that cannot be connected.
    pub(crate) fn attach(&self, manager: Arc<dyn Manager>) -> Result {
        let mut inner = self.inner.lock();
        if self.shared.state() != QpState::Idle || self.is_by_number() {
            return Err(EISCONN);
        }
        self.shared.set_aside.set(manager)?;
        inner.was_closed = false;
        Ok(())
    }

    /// Takes over an established TCP connection after MPA set-up. Data that waits in the socket is
    /// received after this has returned (T-25).
    ///
    /// # Errors
    ///
    /// `EISCONN` if the QP is connected or in error, `ECONNRESET` if it does not wait for `manager`
    /// any more, `ENOMEM`; the socket is untouched then.
    pub(crate) fn start(
        self: &Arc<Self>,
        sock: &Arc<TcpSocket>,
        params: &Params,
        manager: &dyn Manager,
    ) -> Result {
        let payer = &self.shared.id.payer;
        payer.pays(|| self.take_stream(sock, params, manager))
    }

    /// Does the work of [`Qp::start`].
    fn take_stream(
        self: &Arc<Self>,
        sock: &Arc<TcpSocket>,
        params: &Params,
        manager: &dyn Manager,
    ) -> Result {
        let reads = ReadQueues::new(params)?;
        let shared = &self.shared;
        let terms = shared.by_number.terms(&shared.id.consumer);
        let awaits_placement = params::wait_placed() || terms.is_some();
        if awaits_placement && params.ord == 0 {
            shared.id.log_peer(fmt!(
                "the peer takes no Reads, which tell what it has placed"
            ));
            return Err(EOPNOTSUPP);
        }
        let mut sending = Sending::new(&shared.id, params, sock.mss(), awaits_placement)?;
        let stream = Stream::new(self.clone(), sock, params)?;
        if let Some(terms) = &terms {
            agree(terms, &stream, &mut sending);
        }
        let prepared = Prepared::new(&self.peers, &stream);
        // A client in the kernel may write pages to its server in order to free memory. A server
        // does not need its clients for that.
        let reclaims = shared.id.is_of_kernel() && !params.wait_for_fpdu;
        if reclaims {
            sock.set_reclaims();
        }

        let mut inner = self.inner.lock();
        let (state, _) = state::next(shared.state(), QpEvent::Connected).map_err(|_| EISCONN)?;
        if !shared.set_aside.is_for(manager) {
            return Err(ECONNRESET);
        }
        if !shared.by_number.fits() {
            return Err(EPROTO);
        }
        let ord = params.ord.min(shared.by_number.max_ord());
        let old_reads = shared.exchange_reads(reads, ord, awaits_placement);
        shared.forget_connection();
        shared.flags.reclaims.store(reclaims, Relaxed);
        inner.failed = None;
        inner.blame = None;
        // Nothing was sent yet, so no answer is outstanding.
        shared.flags.answered.store(true, Relaxed);
        // The connection manager sets no rights on the connecting side before there is a
        // connection. The regions decide what the peer may do then.
        let _ = shared
            .flags
            .access
            .cmpxchg(AccessFlags::NONE, DEFAULT_RIGHTS, Relaxed);
        inner.conn = Some(Conn {
            callbacks: Callbacks::install(sock.claim()?, stream.clone())?,
            stream,
            sending,
            entry: None,
        });
        shared
            .id
            .trace_state(&QpEvent::Connected, shared.state(), state);
        shared.flags.ended_by.store(Cause::NONE.0, Relaxed);
        shared.published.set_ird(params.ird);
        inner.last_wqe_told = false;
        shared.set_state(state);
        if let Some(conn) = &mut inner.conn {
            conn.entry = prepared.map(Prepared::enter);
            self.show(Some(conn.stream.clone()));
        }
        drop(inner);
        drop(old_reads);
        self.note(QpNote::Socket);
        Ok(())
    }

    /// Ends the connection that `manager` runs, or its set-up, abruptly. Does nothing if the QP is set
    /// aside for another one by now.
    pub(crate) fn abort(self: &Arc<Self>, manager: &dyn Manager) {
        self.transition(|_| {
            let event = QpEvent::Modify {
                to: QpState::Error,
                idle: false,
                flushed: false,
            };
            self.shared.set_aside.is_run_by(manager).then_some(event)
        });
    }

    /// Applies an event, if there is one, and does what follows from it.
    fn transition(self: &Arc<Self>, event: impl FnOnce(&Inner) -> Option<QpEvent>) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.settle_now(&mut inner, &mut after);
        if let Some(event) = event(&inner) {
            self.feed(&mut inner, event, &mut after);
        }
        self.progress(&mut inner, &mut after);
        drop(inner);
        after.run(self);
    }

    /// Acts upon a failure that is known already ([`Qp::settle`]), and tells the peer at once: the
    /// caller may end the connection next.
    fn settle_now(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        if self.settle(inner, after) {
            self.progress(inner, after);
        }
    }

    /// Changes attributes other than queue sizes as a consumer asks, all or nothing. Returns
    /// `EINVAL` for a transition that is not allowed, and a value that is not possible.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpModify) -> Result {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let result = self.modify_under(&mut inner, attr, &mut after);
        drop(inner);
        after.run(self);
        result
    }

    /// Does the part of [`Qp::modify`] that needs the mutex.
    fn modify_under(
        self: &Arc<Self>,
        inner: &mut Inner,
        attr: &QpModify,
        after: &mut After,
    ) -> Result {
        let ord = attr.max_rd_atomic.map(u16::from);
        let ird = attr.max_dest_rd_atomic.map(u16::from);
        self.shared.check_depths(ord, ird)?;
        if let Some(state) = attr.cur_state {
            if rdmac_state(state) != self.shared.state().in_verbs() {
                return Err(EINVAL);
            }
        }
        if let Some(target) = attr.state {
            let to = rdmac_state(target);
            // iWARP has no step to RTR, which lies between INIT and RTS.
            let is_step = target == IbQpState::Rtr
                && matches!(self.shared.state(), QpState::Idle | QpState::Rts);
            if !is_step {
                if self.shared.state() == QpState::Error {
                    // What was posted in Error is flushed here: it must not be left to the next
                    // connection.
                    self.flush_posted(inner, after);
                }
                self.settle_now(inner, after);
                let event = QpEvent::Modify {
                    to,
                    idle: inner.complete_before_fin(&self.shared),
                    flushed: inner.ring.is_empty(),
                };
                self.apply(inner, event, None, after)?;
                self.progress(inner, after);
            }
            if target == IbQpState::Reset {
                self.shared.drop_unmet(&mut inner.ring);
            }
            if matches!(target, IbQpState::Reset | IbQpState::Init) {
                let is_reset = target == IbQpState::Reset;
                self.shared.flags.is_reset.store(is_reset, Relaxed);
            }
        }
        if let Some(ord) = ord {
            self.shared.sq.lock().ord = ord.into();
        }
        if let Some(ird) = ird {
            self.shared.published.set_ird(ird);
        }
        if let Some(access) = attr.access {
            self.shared.flags.access.store(access, Relaxed);
        }
        Ok(())
    }

    /// Ends the connection and whatever the QP does, for good. What has completed is still sent,
    /// unless the process has died: the peer must not take its death for a graceful end. Returns
    /// `EBUSY`, and changes nothing, while windows are bound through the QP (V-QP-24).
    pub(crate) fn destroy(self: &Arc<Self>) -> Result {
        let id = &self.shared.id;
        id.binder.end()?;
        if let Some(poller) = &self.poller {
            poller.end();
        }
        self.shared.flags.ending.store(true, Relaxed);
        self.shared.flags.mute.store(true, Relaxed);
        if self.is_by_number() {
            self.leave();
        }
        self.transition(|inner| {
            let idle = inner.complete_before_close(&self.shared) && !Process::current().is_ending();
            Some(QpEvent::Destroy { idle })
        });
        self.stop_timers();
        id.send_cq.forget(&id.handle);
        id.recv_cq.forget(&id.handle);
        self.forget_offers();
        id.pd.leave();
        Ok(())
    }

    /// Gives the number back, when nobody has a reference to the consumer's object any more.
    pub(crate) fn free_number(&self) {
        self.table.remove(self.shared.id.num());
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.shared.flags.ending.load(Relaxed)
    }
}

impl Shared {
    /// Checks whether ORD and IRD may be set to these values now.
    fn check_depths(&self, ord: Option<u16>, ird: Option<u16>) -> Result {
        let connected = self.state() != QpState::Idle && self.state() != QpState::Error;
        let (max_ord, max_ird) = if connected {
            (self.sq.lock().ord, self.published.ird())
        } else {
            (MAX_READS.into(), MAX_READS)
        };
        if ord.is_some_and(|ord| usize::from(ord) > max_ord) || ird.is_some_and(|ird| ird > max_ird)
        {
            return Err(EINVAL);
        }
        // The peer was told the IRD, so it does not change now.
        if connected && ird.is_some_and(|ird| ird != self.published.ird()) {
            return Err(EINVAL);
        }
        Ok(())
    }
}

impl Inner {
    /// Ends the connection, if there is one, as `effects` say. Returns how its stream ends.
    fn end_stream(
        &mut self,
        shared: &Shared,
        effects: &Effects,
        failure: Option<Failure>,
    ) -> StreamEnd {
        let end = match (effects.tcp, &self.conn) {
            (Tcp::Reset, _) => StreamEnd::Reset,
            (Tcp::ResetIfDelivered, Some(conn)) if conn.is_delivered() => StreamEnd::Reset,
            // A FIN without a Terminate would say that all is well.
            (Tcp::Keep, Some(conn)) if effects.close && conn.sending.owes_terminate() => {
                StreamEnd::Reset
            }
            _ => StreamEnd::Graceful,
        };
        if let Some(Conn {
            sending, stream, ..
        }) = &mut self.conn
        {
            // A responder that has received nothing sends nothing, no Terminate either (T-24).
            if let Some(error) = effects
                .terminate
                .filter(|_| sending.may_send(&shared.flags))
            {
                sending.set_terminate(&failure.unwrap_or_else(|| error.into()));
            }
            if effects.tcp == Tcp::Fin {
                sending.fin.want();
            }
            if end == StreamEnd::Reset {
                stream.sock.abort();
            }
            if effects.start_timer {
                sending.begin_end(stream);
            }
        }
        end
    }
}

/// Returns the state that a verbs state stands for.
fn rdmac_state(state: IbQpState) -> QpState {
    match state {
        IbQpState::Reset | IbQpState::Init => QpState::Idle,
        IbQpState::Rtr | IbQpState::Rts => QpState::Rts,
        IbQpState::Sqd => QpState::Closing,
        IbQpState::Sqe => QpState::Terminate,
        IbQpState::Err => QpState::Error,
    }
}

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
            self.unset_timer(inner);
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
            .is_some_and(|c| c.sending.may_send(&self.shared.flags));
        let event = QpEvent::LocalError {
            error: failure.error,
            in_completion: failure.in_completion,
            can_send,
        };
        let shared = &self.shared;
        tell_defect(&failure);
        shared.flags.ends_of(Cause::here(failure.error));
        shared.counts.count_all([Counter::of_failure(&failure)]);
        if shared.state().sends() || shared.state() == QpState::Closing {
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
        let end = inner.end_stream(&self.shared, effects, failure);
        if effects.start_timer {
            self.set_timer(inner, CLOSE_TIMEOUT_MS);
        }
        if effects.close {
            if let Some(conn) = inner.conn.take() {
                self.unset_timer(inner);
                inner.begun = self.release(conn);
            }
        } else if let Some(conn) = inner.conn.as_ref().filter(|_| effects.flush_rq) {
            // What still arrives of the message finds the new state.
            let stream = &conn.stream;
            inner.begun = stream
                .sock
                .with_lock(|sk| stream.receiving(sk)?.receiver.take_recv());
        }
        if effects.flush_sq {
            let blame = inner.blame.take();
            after.notify.send |= self.shared.flush_sq(&mut inner.ring, blame);
        }
        // The receive in progress comes before those in the queue.
        let stays = || !effects.flush_rq && self.is_by_number();
        if let Some(recv) = inner.begun.take_if(|_| !stays()) {
            after.notify.recv |= self.shared.flush_recv(recv.id);
        }
        if effects.flush_rq {
            self.shared.flush_rq(&mut after.notify.recv);
            self.look_again(inner, Relook::FIRST);
        }
        after.last_wqe |= effects.last_wqe && inner.tell_last_wqe(&self.shared);
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
            Post::Flush => after.notify.send |= self.shared.flush_sq(&mut inner.ring, None),
            Post::TooLate if inner.ring.is_empty() => {}
            Post::TooLate if self.is_by_number() => self.begin_to_give_up(inner),
            Post::TooLate => self.feed(inner, QpEvent::PostedTooLate, after),
        }
        if self.shared.state().post_recv() == Post::Flush
            && self.shared.flush_rq(&mut after.notify.recv)
        {
            self.look_again(inner, Relook::FIRST);
        }
    }

    /// Arranges another look at the receives of a QP in Error, if the process does not tell of
    /// those that it posts. Closing needs no such look: it ends soon, with a flush.
    pub(super) fn look_again(self: &Arc<Self>, inner: &mut Inner, when: Relook) {
        let is_over = self.shared.state() != QpState::Error || self.shared.flags.mute.load(Relaxed);
        if is_over || !self.shared.posts_recvs_silently() {
            return;
        }
        inner.relook = when;
        self.set_timer(inner, when.ms());
    }

    /// Starts the timer anew, and forgets that it has run out.
    fn set_timer(self: &Arc<Self>, inner: &mut Inner, ms: u32) {
        self.start_timer(ms);
        inner.left.remove(QpNote::Timeout);
    }

    /// Stops the timer, and forgets that it has run out.
    fn unset_timer(self: &Arc<Self>, inner: &mut Inner) {
        self.cancel_timer();
        inner.left.remove(QpNote::Timeout);
    }
}

/// How the stream of a queue pair that is connected by number ends. Its consumer sees RTR or RTS,
/// whatever the stream does: in InfiniBand a queue pair does not notice that its peer is gone. When
/// the stream has ended, the queue pair is in Idle once more, where receives stay, and requests
/// fail when they have waited for as long as the consumer has set. Often the last request of a
/// program is for a peer that ends first: the program has ended, too, before that request fails.
impl Qp {
    /// Returns whether the consumer connects the queue pair by number.
    pub(crate) fn is_by_number(&self) -> bool {
        self.shared.by_number.is_told()
    }

    /// Returns what an event means for the queue pair. Under the mutex.
    ///
    /// If it is connected by number, neither its receives nor its consumer hear that a stream has
    /// ended. The oldest request gets the blame.
    pub(super) fn translate(&self, inner: &mut Inner, event: QpEvent) -> QpEvent {
        let shared = &self.shared;
        if !shared.by_number.is_told() {
            return event;
        }
        match event {
            QpEvent::Unreachable => {
                inner.blame = Some(Fault::RetryExceeded);
                event
            }
            QpEvent::PeerFin { .. }
            | QpEvent::PeerReset
            | QpEvent::Lost
            | QpEvent::Closed
            | QpEvent::Modify {
                to: QpState::Error, ..
            } if shared.state() == QpState::Rts => {
                if let Some(cause) = Cause::of_event(&event) {
                    shared.flags.ends_of(cause);
                }
                if matches!(event, QpEvent::PeerReset | QpEvent::Lost) {
                    shared.counts.count(Counter::ConnLost);
                }
                let busy =
                    !self.was_in_vain() && (!inner.ring.is_empty() || !shared.sq.lock().is_empty());
                // Requests do not wait any longer: a peer that does not answer has used up its
                // time, and a device that goes away gives none.
                let is_given_up = matches!(event, QpEvent::Lost | QpEvent::Modify { .. });
                match busy && is_given_up {
                    true => self.translate(inner, QpEvent::Unreachable),
                    false => QpEvent::PeerGone { busy },
                }
            }
            QpEvent::TerminateReceived { .. } => QpEvent::TerminateReceived { event: None },
            event => event,
        }
    }

    /// Returns whether nothing has come of the stream: no FPDU came in, or none but a Terminate, and
    /// no request is under way. The peer may have given up before this side has accepted, or upon
    /// the Reply, and calls again then.
    pub(super) fn was_in_vain(&self) -> bool {
        self.shared.flags.heard_of_peer().is_err() && self.shared.sq.lock().is_empty()
    }

    /// Blames the oldest request for what the peer's Terminate says.
    pub(super) fn blame(&self, inner: &mut Inner, end: &RemoteEnd) {
        if self.shared.by_number.is_told() {
            let fault = match remote_class(end.code) {
                _ if end.code == TermError::UntaggedNoBuffer.code() => Fault::RnrRetryExceeded,
                _ if end.code == TermError::LocalCatastrophic.code() => Fault::RemoteOperation,
                Async::Access => Fault::RemoteAccess,
                Async::Request => Fault::RemoteInvalid,
                Async::Fatal => Fault::General,
            };
            inner.blame.get_or_insert(fault);
        }
    }

    /// Tells the peer how many of its messages are placed, as the stream is about to end.
    fn take_leave(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.progress(inner, after);
        if self.shared.state() != QpState::Rts {
            return;
        }
        let Some(conn) = inner.conn.as_mut() else {
            return;
        };
        let stream = &conn.stream;
        let placed = stream.sock.with_lock(|sk| {
            let part = stream.receiving(sk);
            part.map(|part| part.receiver.placed())
        });
        if conn.sending.may_send(&self.shared.flags) {
            conn.sending.set_terminate(&Failure {
                quote: placed.map(Quote::placed),
                ..TermError::Leaving.into()
            });
            // What TCP does not take now is not sent any more: the peer is told nothing then.
            let _ = inner.send(&self.shared, QpState::Terminate, after.actor, true);
        }
    }

    /// Acts upon a Terminate by which the peer's consumer has ended the stream: requests that the
    /// peer has placed complete. Returns whether it was such a Terminate.
    pub(super) fn peer_left(
        self: &Arc<Self>,
        inner: &mut Inner,
        end: &RemoteEnd,
        after: &mut After,
    ) -> bool {
        // A queue pair that is its own peer was reset, and has sent the Terminate to itself.
        if end.placed.is_some() && inner.conn.is_none() {
            return true;
        }
        // The peer may have given the stream up before it began.
        let is_end = end.placed.is_some() || end.code == TermError::MpaLocalCatastrophic.code();
        if !is_end || !self.is_by_number() {
            return false;
        }
        let sending = inner.conn.as_ref().map(|conn| &conn.sending);
        let token = end.placed.and_then(|messages| sending?.placed(messages));
        if let Some(token) = token {
            self.shared.sq.lock().placed(token);
            let _ = self.shared.complete_due();
        }
        if end.placed.is_some_and(|messages| messages > 0) {
            self.shared.flags.set_heard();
        }
        self.feed(inner, QpEvent::PeerFin { idle: false }, after);
        true
    }

    /// Ends the stream, and takes the step to Error.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.take_leave(&mut inner, &mut after);
        self.feed(&mut inner, QpEvent::Leave, &mut after);
        drop(inner);
        after.run(self);
    }
}

/// Logs a failure that only a defect of this driver can cause.
fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.detail.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
    }
}
