// SPDX-License-Identifier: GPL-2.0

//! Completions: sends in post order (T-4), receives as they come.
//!
//! The send queue's lock is held from taking a record until its completion is added, so that nobody
//! gets in between. A flush releases the lock in between, as nobody else completes anything then.
//! Handlers are called without the lock. Two things are noted for the work item: that a completion
//! queue is full, and that more is due than was completed.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::shared::{
    RemoteEnd,
    Shared, //
};
use super::sq::{
    Sq,
    SqRing,
    Work, //
};
use crate::cq::{
    Completion,
    Overflow, //
};
use crate::proto::counters::Counter;
use crate::proto::drain::{
    drain,
    Drained, //
};
use crate::proto::failure::{
    Cause,
    Failure,
    Fault, //
};
use crate::proto::notes::QpNote;
use crate::proto::receiver::{
    Extra,
    Received,
    Recv, //
};
use crate::proto::request::OperationType;
use crate::proto::sends::{
    Completed,
    Status,
    Token, //
};
use crate::proto::state::{
    remote_class,
    Async,
    QpState, //
};
use crate::queue::rq::{
    BadRecv,
    Rq, //
};
use crate::queue::SgList;
use crate::wire::terminate::TermError;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

impl Shared {
    /// Adds the completion of a send request, if it has one. Returns whether a handler is to be
    /// called. Notes an overflow for the work item.
    pub(super) fn complete_work(&self, work: &Work, status: Status<Fault>) -> bool {
        if self.flags.mute.load(Relaxed) {
            return false;
        }
        if status == Status::Success && !work.signalled {
            if let Some(slots) = self.id.consumer.send_slots() {
                slots.free();
            }
            return false;
        }
        self.counts.count_all(Counter::of_send(status));
        let completion = Completion {
            id: work.id,
            operation: work.operation,
            status,
            bytes: work.bytes,
            cause: self.flags.cause(status),
            extra: Extra::Nothing,
            qp: self.id.num(),
            solicited: false,
        };
        let slots = self.id.consumer.send_slots();
        match self.id.send_cq.add(&completion, &self.id.handle, slots) {
            Ok(notify) => notify,
            Err(Overflow) => {
                self.counts.count(Counter::CqOverflows);
                self.fail(TermError::CatastrophicStream.into());
                false
            }
        }
    }

    /// Changes the records under way and completes those that are due; if they are many the work
    /// item completes the rest. Also returns whether transmission waited for requests that have
    /// left.
    fn with_sends<R>(&self, change: impl FnOnce(&mut Sq) -> R) -> (R, bool) {
        let mut notify = false;
        let mut complete = |sq: &mut Sq| self.complete_some(sq, &mut notify);
        let mut sq = self.sq.lock();
        let result = change(&mut sq);
        let first = complete(&mut sq);
        drop(sq);
        let all = first.and_the_rest(|| complete(&mut self.sq.lock()));
        if notify {
            self.id.send_cq.notify();
        }
        let Completed { drained, resumes } = all;
        drained.or_leave_to(|| self.notes.leave(QpNote::Again));
        (result, resumes)
    }

    /// Completes all that is due. That is at most a full queue, as records are added only under
    /// `inner`. Returns whether transmission waited for this. Process context, under `inner`.
    #[must_use = "transmission may wait for what has left"]
    pub(super) fn complete_due(&self) -> bool {
        let (mut notify, mut resumed) = (false, false);
        loop {
            let Completed { drained, resumes } =
                self.complete_some(&mut self.sq.lock(), &mut notify);
            resumed |= resumes;
            if drained == Drained::Empty {
                break;
            }
        }
        if notify {
            self.id.send_cq.notify();
        }
        resumed
    }

    /// Completes the oldest requests that are due, some at a time. Sets `notify` if a handler is to
    /// be called.
    fn complete_some(&self, sq: &mut Sq, notify: &mut bool) -> Completed {
        sq.complete(|work, status| *notify |= self.complete_work(&work, status))
    }

    /// Records that TCP has these requests. Whoever waited for them to complete is the sender,
    /// which looks at its queue next.
    pub(super) fn sends_done(&self, tokens: &[Token]) {
        let ((), _) = self.with_sends(|sq| {
            // Bound: as many as end in one batch.
            for token in tokens {
                sq.done(*token);
            }
        });
    }

    /// Records that the response of the oldest Read is placed. Returns whether transmission waited
    /// for this.
    pub(super) fn read_done(&self) -> bool {
        let ((), resumes) = self.with_sends(|sq| {
            let work = sq.answered();
            sq.silent |= work.is_some_and(|work| !work.signalled);
        });
        resumes
    }

    /// Fails a request under way, which ends the stream. Returns whether its completion reports
    /// that (T-33).
    pub(super) fn fail_send(&self, token: Token, fault: Fault) -> bool {
        let (told, _) = self.with_sends(|sq| sq.fail(token, fault));
        told
    }

    /// Completes in error the Read that the peer refuses (V-WC-5). Returns whether its completion
    /// reports that. Between queue pairs that are connected by number the Read is not completed
    /// here. But what stands in front of it is known to be placed, and the oldest request that has
    /// not ended gets the blame ([`Qp::blame`](super::Qp::blame)).
    pub(super) fn fail_refused(&self, end: &RemoteEnd) -> bool {
        let read = end.read.and_then(|msn| {
            let sq = self.sq.lock();
            sq.outbound.find(msn)?.token
        });
        if self.by_number.is_told() {
            // The peer carries out requests in order, so what stands in front of the Read is
            // placed.
            if let Some(token) = read {
                self.sq.lock().placed(token);
            }
            return false;
        }
        let fault = match remote_class(end.code) {
            Async::Access => Fault::RemoteAccess,
            Async::Request => Fault::RemoteInvalid,
            Async::Fatal => Fault::General,
        };
        read.is_some_and(|token| self.fail_send(token, fault))
    }

    /// Takes a receive for a message that begins.
    #[inline(always)]
    pub(super) fn take_recv(&self, sgl: &mut SgList) -> Result<Option<Recv>, Failure> {
        let taken = match &self.id.srq {
            Some(srq) => srq.take(sgl),
            None => (*self.rq.lock()).as_mut().and_then(|rq| rq.take(sgl)),
        };
        match taken {
            Some(Ok(recv)) => Ok(Some(recv)),
            Some(Err(BadRecv { id })) => {
                let told = self.fail_recv(id, Fault::LocalOperation);
                Err(Failure::of_request(told))
            }
            None => Ok(None),
        }
    }

    /// Adds the completion of a receive and returns whether a handler is to be called. Fails if the
    /// queue is full, which ends the stream (V-CQ-7).
    #[inline]
    fn add_recv(&self, completion: &Completion) -> Result<bool, Failure> {
        let slots = self.id.consumer.recv_slots();
        let added = self.id.recv_cq.add(completion, &self.id.handle, slots);
        added.map_err(|Overflow| {
            self.counts.count(Counter::CqOverflows);
            TermError::CatastrophicStream.into()
        })
    }

    /// Completes a receive with a message. Fails as [`Shared::add_recv`] does.
    #[inline(always)]
    pub(super) fn complete_received(&self, received: &Received) -> Result<(), Failure> {
        self.complete_recv(&Completion {
            id: received.id,
            operation: OperationType::Receive,
            status: Status::Success,
            bytes: received.len,
            cause: Cause::NONE,
            extra: received.extra,
            qp: self.id.num(),
            solicited: received.solicited,
        })
    }

    /// Adds the completion of a receive, and calls the handler. Fails as [`Shared::add_recv`].
    #[inline]
    fn complete_recv(&self, completion: &Completion) -> Result<(), Failure> {
        if self.add_recv(completion)? {
            self.id.recv_cq.notify();
        }
        Ok(())
    }

    /// Counts and returns the completion of a receive into which no message came.
    fn no_message(&self, id: u64, status: Status<Fault>) -> Completion {
        self.counts.count_all(Counter::of_recv(status));
        Completion {
            id,
            operation: OperationType::Receive,
            status,
            bytes: 0,
            cause: self.flags.cause(status),
            extra: Extra::Nothing,
            qp: self.id.num(),
            solicited: false,
        }
    }

    /// Completes a receive in error, or as flushed if something has failed before. Returns whether
    /// the completion reports that (T-33).
    pub(super) fn fail_recv(&self, id: u64, fault: Fault) -> bool {
        let status = self.sq.lock().fails(fault);
        let is_added = self.complete_recv(&self.no_message(id, status)).is_ok();
        is_added && matches!(status, Status::Failed(_))
    }

    /// Completes all send requests as flushed, in post order. Takes at most as many out of the ring
    /// as that has slots; the work item flushes the rest. If there is a `blame`, the oldest request
    /// that has not ended fails with it instead. Returns whether to call a handler.
    pub(super) fn flush_sq(&self, ring: &mut SqRing, mut blame: Option<Fault>) -> bool {
        if self.flags.mute.load(Relaxed) {
            return false;
        }
        let mut notify = false;
        // This loop ends, as nobody adds records meanwhile. The lock is taken for each one: held
        // for all, it would keep interrupts off for long.
        loop {
            let flushed = self.sq.lock().flush(&mut blame);
            let Some((work, status)) = flushed else {
                break;
            };
            notify |= self.complete_work(&work, status);
        }
        {
            let mut sq = self.sq.lock();
            // Bound: ORD, at most [`MAX_READS`](crate::limits::MAX_READS).
            while sq.outbound.pop().is_some() {}
        }
        let flush = |work| {
            let fault = blame.take();
            let status = fault.map_or(Status::Flushed, |fault| self.sq.lock().fails(fault));
            notify |= self.complete_work(&work, status);
        };
        drain(ring.len(), || ring.discard(), flush).or_leave_to(|| self.notes.leave(QpNote::Again));
        self.published.set_taken(ring.taken());
        notify
    }

    /// Drops what is in the queues, at most as many as they have slots, for a process that resets
    /// the QP. What it posts meanwhile may stay.
    pub(super) fn drop_posted(&self, ring: &mut SqRing) {
        let _ = drain(ring.len(), || ring.discard(), drop);
        self.published.set_taken(ring.taken());
        let most = self.rq.lock().as_ref().map_or(0, Rq::len);
        let discard = || (*self.rq.lock()).as_mut().and_then(|rq| rq.discard());
        let _ = drain(most, discard, drop);
        let mut sq = self.sq.lock();
        // Bound: ORD, at most [`MAX_READS`](crate::limits::MAX_READS).
        while sq.outbound.pop().is_some() {}
    }

    /// Drops what was posted to the QP of a process, which has reset it, unless there is a
    /// connection or one is being set up: the next connection must not find it.
    pub(super) fn drop_unmet(&self, ring: &mut SqRing) {
        let is_unmet = self.state() == QpState::Idle && !self.set_aside.is_set();
        if is_unmet && self.id.consumer.rings().is_some() {
            self.drop_posted(ring);
        }
    }

    /// Completes receives of the QP's own queue as flushed, in post order: at most as many as the
    /// queue has slots; the work item flushes the rest. Receives of a shared queue stay for others
    /// (V-SRQ-17). Sets `notify` if a handler is to be called. Returns whether there were any.
    pub(super) fn flush_rq(&self, notify: &mut bool) -> bool {
        let mut any = false;
        if self.flags.mute.load(Relaxed) {
            return false;
        }
        let Some(most) = self.rq.lock().as_ref().map(Rq::len) else {
            return false;
        };
        let discard = || (*self.rq.lock()).as_mut().and_then(|rq| rq.discard());
        let flush = |id| {
            any = true;
            *notify |= self.flush_recv(id);
        };
        drain(most, discard, flush).or_leave_to(|| self.notes.leave(QpNote::Again));
        any
    }

    /// Completes a receive as flushed. Returns whether a handler is to be called.
    pub(super) fn flush_recv(&self, id: u64) -> bool {
        let slots = self.id.consumer.recv_slots();
        if self.flags.mute.load(Relaxed) {
            // The slot may belong to a shared queue, which lives on.
            if let Some(slots) = slots {
                slots.free();
            }
            return false;
        }
        let added = self.add_recv(&self.no_message(id, Status::Flushed));
        added.unwrap_or_else(|failure| {
            self.fail(failure);
            false
        })
    }
}
