// SPDX-License-Identifier: GPL-2.0

//! The steps of queue pairs that their consumers connect by number. `proto::by_number` says when
//! two ends meet, and `cm::by_number` makes them meet.
//!
//! For the rest of the driver such a queue pair is in Idle, in which posts wait, until it has a
//! stream, and in RTS while it has one.
//!
//! A pairing that is over may still have something to say: its queue pair may be reset and connected
//! anew by then, by another pairing. So all that a pairing says or asks counts only as long as the
//! queue pair is set aside for it.
//!
//! Locks: the QP's mutex > `told` > that of `SetAside`.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    After,
    Inner,
    Qp, //
};
use crate::ffi::rdma::attr::QpModify;
use crate::limits::MAX_READS;
use crate::proto::by_number::{
    Callee,
    Hello,
    Objection,
    Pair, //
};
use crate::proto::failure::Cause;
use crate::proto::state::{
    QpEvent,
    QpState, //
};
use crate::qp::sending::Sending;
use crate::qp::shared::{
    Manager,
    Terms,
    Told, //
};
use crate::qp::stream::Stream;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

impl Qp {
    /// Returns how the queue pair looks to a Request that names it. Waits for nobody: a process may
    /// have the mutex, and the Requests of others are behind this one.
    pub(crate) fn as_callee(&self) -> Callee {
        let told = self.shared.by_number.told.lock();
        match (self.shared.state(), told.pair) {
            (QpState::Idle, Some(pair))
                if told.hello.is_none() && self.shared.set_aside.is_set() =>
            {
                Callee::Waits(pair, told.psn())
            }
            (QpState::Idle, None) => Callee::Unready,
            _ => Callee::Taken,
        }
    }

    /// Returns whether the queue pair waits for the connection of `manager`, or has it.
    pub(crate) fn is_for(&self, manager: &dyn Manager) -> bool {
        self.shared.set_aside.is_for(manager)
    }

    /// Takes the step to RTR: sets the queue pair aside for `manager`, which makes it meet its
    /// peer. Returns `EINVAL` in other states than INIT, and `EISCONN` if it is connected
    /// otherwise.
    pub(crate) fn begin_to_meet(
        &self,
        pair: Pair,
        attr: &QpModify,
        manager: Arc<dyn Manager>,
    ) -> Result {
        let inner = self.inner.lock();
        let mut told = self.shared.by_number.told.lock();
        let is_init =
            self.shared.state() == QpState::Idle && !self.shared.flags.is_reset.load(Relaxed);
        if !is_init || inner.was_closed || told.pair.is_some() {
            return Err(EINVAL);
        }
        self.shared.set_aside.set(manager)?;
        told.extend(attr);
        told.pair = Some(pair);
        // What ended an earlier stream has nothing to do with this peer.
        self.shared.flags.ended_by.store(Cause::NONE.0, Relaxed);
        Ok(())
    }

    /// Takes the step to RTS. Returns `EINVAL` if the queue pair is in another state than RTR or
    /// RTS, or for a depth that is not possible. If the PSN is not the one that the peer expects,
    /// the stream ends.
    pub(crate) fn ready_to_send(self: &Arc<Self>, attr: &QpModify) -> Result {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if matches!(self.shared.state(), QpState::Error | QpState::Terminate)
            || attr
                .max_rd_atomic
                .is_some_and(|ord| u16::from(ord) > MAX_READS)
        {
            return Err(EINVAL);
        }
        let objection = {
            let mut told = self.shared.by_number.told.lock();
            told.extend(attr);
            told.sends = true;
            let psn = told.psn();
            let check = told.hello.map(|hello| hello.check_psn(psn));
            check.and_then(Result::err)
        };
        if let Some(ord) = attr.max_rd_atomic {
            let mut sq = self.shared.sq.lock();
            sq.ord = sq.ord.min(ord.into());
        }
        if let Some(objection) = objection {
            self.shared.id.log_peer(fmt!("{}", objection.text()));
            self.feed(&mut inner, QpEvent::PeerReset, &mut after);
        }
        drop(inner);
        after.run(self);
        Ok(())
    }

    /// Returns whether the consumer has taken the step to RTS.
    pub(crate) fn may_send_by_now(&self) -> bool {
        self.shared.by_number.told.lock().sends
    }

    /// Takes note of attributes that need no step.
    pub(crate) fn note_path(&self, attr: &QpModify) {
        self.shared.by_number.told.lock().extend(attr);
    }

    /// Takes note that the peer has said `hello`, and returns what to say to it. Fails if that is
    /// not what was expected, or if the two have met already.
    pub(crate) fn meet(&self, hello: Hello, manager: &dyn Manager) -> Result<Hello, Objection> {
        let mut told = self.shared.by_number.told.lock();
        let pair = told.pair.ok_or(Objection::NotExpected)?;
        pair.check(&hello, told.psn())?;
        if told.hello.is_some() || !self.is_for(manager) {
            return Err(Objection::Taken);
        }
        told.hello = Some(hello);
        let takes_immediate = self.shared.id.consumer.takes_send_immediate();
        Ok(pair.hello(told.path.rnr_retry, takes_immediate))
    }

    /// Takes back [`Qp::meet`], as there is no stream after all.
    pub(crate) fn part(&self, manager: &dyn Manager) {
        // The queue pair is set aside for another pairing under this lock.
        let mut told = self.shared.by_number.told.lock();
        if self.is_for(manager) {
            told.hello = None;
        }
    }

    /// Waits for the peer once more, if nothing has come of the stream that has ended
    /// ([`Qp::was_in_vain`]). Returns whether it waits.
    pub(crate) fn meets_again(&self, manager: Arc<dyn Manager>) -> bool {
        let inner = self.inner.lock();
        let waits = self.shared.state() == QpState::Idle && !inner.was_closed;
        if !waits || !self.is_by_number() || self.shared.set_aside.set(manager.clone()).is_err() {
            return false;
        }
        self.part(&*manager);
        true
    }

    /// Returns what to say to a peer that this side connects to.
    pub(crate) fn hello(&self, manager: &dyn Manager) -> Option<Hello> {
        let told = self.shared.by_number.told.lock();
        if !self.is_for(manager) {
            return None;
        }
        let takes_immediate = self.shared.id.consumer.takes_send_immediate();
        let pair = told.pair?;
        Some(pair.hello(told.path.rnr_retry, takes_immediate))
    }

    /// Returns whether the queue pair has no stream and waits for one; and if so, whether requests
    /// wait, and for how many milliseconds they may.
    pub(crate) fn waits_for_peer(&self, manager: &dyn Manager) -> Option<(bool, u32)> {
        let inner = self.inner.lock();
        if self.shared.state() != QpState::Idle || !self.is_for(manager) {
            return None;
        }
        let ms = self.shared.by_number.answer_ms();
        Some((!inner.ring.is_empty(), ms))
    }

    /// Returns whether the queue pair has a stream.
    pub(crate) fn has_stream(&self) -> bool {
        self.inner.lock().conn.is_some()
    }

    /// Returns for how many milliseconds the peer of the stream may be silent, and the time since
    /// it last acknowledged something, if it has something to acknowledge; `None` without a stream.
    pub(crate) fn peer_answers(&self, manager: &dyn Manager) -> Option<(u32, Option<u32>)> {
        let sock = {
            let inner = self.inner.lock();
            let conn = inner.conn.as_ref().filter(|_| self.is_for(manager))?;
            conn.stream.sock.clone()
        };
        let ms = self.shared.by_number.answer_ms();
        Some((ms, sock.unanswered_ms()))
    }

    /// Notes that the peer of the stream does not answer any more.
    pub(crate) fn peer_is_lost(self: &Arc<Self>, manager: &dyn Manager) {
        // A stream begins under the mutex, and drops the notes of earlier ones.
        let inner = self.inner.lock();
        if inner.conn.is_some() && self.is_for(manager) {
            self.lost();
        }
    }

    /// Fails the oldest request, as the peer did not answer in time, and flushes what is behind it.
    /// `objection` is the answer that it has given last, if it has given any.
    pub(crate) fn unreachable(
        self: &Arc<Self>,
        objection: Option<Objection>,
        manager: &dyn Manager,
    ) {
        let why = objection.map_or("it does not answer", Objection::text);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if !self.is_for(manager) {
            return;
        }
        self.give_up(&mut inner, why, &mut after);
        drop(inner);
        after.run(self);
    }

    /// Lets requests wait for a peer that is gone, for as long as the consumer has set.
    pub(in crate::qp) fn begin_to_give_up(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.gives_up {
            inner.gives_up = true;
            self.set_timer(inner, self.shared.by_number.answer_ms());
        }
    }

    /// Fails requests that have waited for too long.
    pub(in crate::qp) fn give_up(
        self: &Arc<Self>,
        inner: &mut Inner,
        why: &str,
        after: &mut After,
    ) {
        inner.gives_up = false;
        let id = &self.shared.id;
        id.log_peer(fmt!("requests cannot reach the peer: {why}"));
        self.feed(inner, QpEvent::Unreachable, after);
    }

    /// Takes the step to RESET, from any state: the stream ends, and requests and receives are
    /// dropped without completions.
    pub(crate) fn reset(self: &Arc<Self>) {
        let id = &self.shared.id;
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.take_leave(&mut inner, &mut after);
        self.shared.flags.mute.store(true, Relaxed);
        self.feed(&mut inner, QpEvent::Leave, &mut after);
        self.shared.drop_posted(&mut inner.ring);
        let to_idle = QpEvent::Modify {
            to: QpState::Idle,
            idle: false,
            flushed: true,
        };
        self.feed(&mut inner, to_idle, &mut after);
        inner.was_closed = false;
        inner.blame = None;
        inner.gives_up = false;
        *self.shared.by_number.told.lock() = Told::NOTHING;
        self.shared.flags.mute.store(false, Relaxed);
        self.shared.flags.is_reset.store(true, Relaxed);
        drop(inner);
        after.run(self);
        id.send_cq.forget(&id.handle);
        id.recv_cq.forget(&id.handle);
    }
}

/// Applies what a queue pair that is connected by number and its peer have agreed on.
pub(super) fn agree(terms: &Terms, stream: &Stream, sending: &mut Sending) {
    stream.sock.with_lock(|sk| {
        if let Some(part) = stream.receiving(sk) {
            part.receiver.set_patience(terms.receive_ms);
            if terms.takes_immediate {
                part.receiver.allow_send_immediate();
            }
        }
    });
    if terms.sends_immediate {
        sending.allow_send_immediate();
    }
}
