// SPDX-License-Identifier: GPL-2.0

//! Posting, and sending what was posted: doorbells of processes, requests and receives of consumers
//! in the kernel, and requests that are left to gather. Transmission is [`Inner::send`]; here is who
//! calls it, and what is done when it stops.
//!
//! Context: any, but for doorbells, which are rung in process context.
#![forbid(unsafe_code)]

use super::{
    effects::After,
    inner::Inner,
    Qp, //
};
use crate::{
    ffi::{
        mm::NoIo,
        rdma::wr::{
            RecvChain,
            SendChain, //
        },
        task, //
    },
    proto::{
        counters::Counter,
        drain::Stop,
        notes::QpNote,
        schedule::{
            Actor,
            Reason,
            WORTH, //
        },
        state::{
            Post,
            QpEvent,
            QpState, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl Qp {
    /// Has `actor` act ([`Qp::queue`]). It is not inlined, as its callers mostly act by themselves.
    #[inline(never)]
    fn hand_over(self: &Arc<Self>, actor: Actor) {
        self.queue(actor);
    }

    /// Returns who sends what a process has just posted.
    #[inline(always)]
    fn who_sends(&self, inner: &mut Inner) -> Actor {
        // Where the queue is polled, the thread that polls sees what is posted next.
        let answered = self.shared.take_answered() || self.active_poller().is_some();
        let doorbells = &mut inner.doorbells;
        doorbells.ring(
            inner.ring.taken(),
            self.shared.id.send_cq.notified(),
            answered,
        );
        let reason = Reason::Doorbell {
            row: doorbells.is_row(),
            gathers: doorbells.is_worth_it() && !inner.ring.has_behind(WORTH.wrapping_sub(1)),
        };
        let flags = &self.shared.flags;
        flags.has_slept.store(doorbells.has_slept(), Relaxed);
        let actor = self.shared.who(reason);
        if actor == Actor::Later {
            doorbells.gather();
        }
        actor
    }

    /// Sends on behalf of a process that rang the doorbell, or lets a work item do so. Returns
    /// `EINVAL` for the QP of a consumer in the kernel.
    pub(crate) fn doorbell(self: &Arc<Self>) -> Result {
        if self.shared.id.is_of_kernel() {
            return Err(EINVAL);
        }
        let mut inner = match self.inner.try_lock() {
            Some(inner) => inner,
            // What becomes of the request is known only under the mutex.
            None if !self.shared.state().sends() => self.inner.lock(),
            // Whoever has the mutex may have looked at the ring already, so somebody looks again.
            None => {
                let actor = self.shared.who(Reason::Left);
                self.shared.id.trace_doorbell(actor);
                self.hand_over(actor);
                if let Some(poller) = &self.poller {
                    poller.begin();
                }
                return Ok(());
            }
        };
        let mut after = After::default();
        if self.shared.state().post_send(inner.was_closed) == Post::Queue {
            let actor = self.who_sends(&mut inner);
            self.shared.id.trace_doorbell(actor);
            if actor != Actor::Caller {
                drop(inner);
                self.hand_over(actor);
                return Ok(());
            }
        }
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if let Some(poller) = &self.poller {
            poller.begin();
        }
        Ok(())
    }

    /// Sends what was posted, or flushes it.
    pub(super) fn send_posts(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.progress(inner, after);
        self.flush_posted(inner, after);
    }

    /// Transmits what can be transmitted; failures of requests and responses change the state.
    pub(super) fn progress(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.settle(inner, after);
        while let Some(stop) = inner.send(&self.shared, after.actor, true) {
            self.restart_timer(inner);
            match stop {
                Stop::Empty
                    if self.shared.state() == QpState::Draining
                        && inner.complete_before_fin(&self.shared) =>
                {
                    let _ = self.apply(inner, QpEvent::Drained, None, after);
                }
                Stop::Empty | Stop::For(_) => return,
                Stop::Again => {
                    self.shared.counts.count(Counter::TxBudget);
                    return self.urge();
                }
                Stop::Failed(failure) => self.local_error(inner, failure, after),
            }
        }
    }

    /// Sets the timer for the FIN, if the FIN has asked for that.
    #[inline]
    pub(super) fn restart_timer(self: &Arc<Self>, inner: &mut Inner) {
        let conn = inner.conn.as_mut();
        if let Some(ms) = conn.and_then(|conn| conn.tx.fin.take_timer()) {
            self.start_timer(ms);
        }
    }

    /// Acts upon a failure that is known already, of [`Qp::send_only`] or of the receiver, before
    /// anything else is done. Returns whether there was one.
    pub(super) fn settle(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> bool {
        inner.spent_peer = None;
        let failure = inner.failed.take().or_else(|| self.shared.noted_failure());
        let is_failure = failure.is_some();
        if let Some(failure) = failure {
            self.local_error(inner, failure, after);
        }
        is_failure
    }

    /// Posts the requests of a kernel consumer, up to the first bad one; for errors see
    /// [`KernelSq::post`](super::sq::kernel::KernelSq::post). The calling thread sends them if it
    /// holds no spin lock and gets the mutex at once. Otherwise the work item sends or flushes them.
    pub(crate) fn post_send(self: &Arc<Self>, chain: &mut SendChain<'_>) -> Result {
        let Some(kernel) = self.shared.id.consumer.kernel() else {
            let _ = chain.next();
            return Err(EINVAL);
        };
        let result = kernel.posted.post(chain);
        let may_wait = task::may_sleep();
        let may_send = (may_wait || task::is_preemptible()) && !task::is_low_priority();
        match may_send {
            true => self.queue(self.shared.id.payer.pays(|| self.send_posted(may_wait))),
            // The consumer may have disabled interrupts, or have locks that its handlers take.
            false => self.urge(),
        }
        result
    }

    /// Sends what a kernel consumer has posted, on its thread. The thread may have locks of the
    /// consumer's, and memory or a file system may wait for it. So this waits for no other thread
    /// that might wait for these, and does nothing but send. Returns who is to act otherwise.
    /// Process context.
    fn send_posted(self: &Arc<Self>, may_wait: bool) -> Actor {
        let _scope = NoIo::enter();
        let Some(mut inner) = self.inner.try_lock() else {
            // Whoever has the mutex may have looked already, so somebody looks again.
            return Actor::Urgent;
        };
        let state = self.shared.state();
        let is_sent = state.sends() && state.post_send(inner.was_closed) == Post::Queue;
        // A Terminate and the FIN are the work item's.
        if !is_sent || inner.failed.is_some() {
            return Actor::Urgent;
        }
        let actor = self.shared.who(Reason::KernelPost {
            // If there was an answer, and this side is not behind, the peer has answered, and
            // acknowledged, all that was posted before.
            one_of_many: !may_wait && (!self.shared.take_answered() || inner.is_behind()),
        });
        if actor == Actor::Caller {
            self.send_only(&mut inner, may_wait);
        }
        actor
    }

    /// Transmits and does nothing else, on the thread of a kernel consumer, which may have locks of
    /// its own. What changes the state, or calls the consumer, is left to the work item.
    /// Without `may_wait` nothing is waited for, and what would have to is left to it, too.
    fn send_only(self: &Arc<Self>, inner: &mut Inner, may_wait: bool) {
        let stop = inner.send(&self.shared, Actor::Caller, may_wait);
        self.restart_timer(inner);
        match stop {
            // The FIN may be due.
            Some(Stop::Empty) if self.shared.state() == QpState::Draining => {
                self.shared.notes.leave(QpNote::Again);
            }
            None | Some(Stop::Empty | Stop::For(_)) => {}
            Some(Stop::Again) => {
                if may_wait {
                    self.shared.counts.count(Counter::TxBudget);
                }
                self.shared.notes.leave(QpNote::Again);
            }
            Some(Stop::Failed(failure)) => {
                inner.failed = Some(failure);
                self.shared.notes.leave(QpNote::Again);
            }
        }
        self.ring_if_noted();
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Fails as
    /// [`Rq::post`](crate::queue::rq::Rq::post).
    pub(crate) fn post_recv(self: &Arc<Self>, chain: &mut RecvChain<'_>) -> Result {
        let result = match &mut *self.shared.rq.lock() {
            Some(rq) => rq.post(chain),
            // Receives go to the shared queue (V-SRQ-8).
            None => {
                let _ = chain.next();
                Err(EINVAL)
            }
        };
        // Whoever flushes the queue changed the state before: either that flush sees these
        // receives, or the new state is seen here.
        if self.shared.state().post_recv() == Post::Flush {
            // The work item flushes them, behind what was posted before.
            self.urge();
        }
        result
    }
}
