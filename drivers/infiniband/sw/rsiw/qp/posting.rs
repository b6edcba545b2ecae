// SPDX-License-Identifier: GPL-2.0

//! Posting: doorbells of processes, requests and receives of consumers in the kernel, and requests
//! that are left to gather.
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
        mm::scope::NoIo,
        rdma::wr::{
            RecvChain,
            SendChain, //
        },
        task, //
    },
    proto::{
        schedule::{
            Actor,
            Reason,
            WORTH, //
        },
        state::Post, //
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
    /// As [`Qp::queue`], but not inlined: for callers that mostly act by themselves.
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
        self.shared
            .flags
            .has_slept
            .store(doorbells.has_slept(), Relaxed);
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
            // Somebody looks again, as for a process.
            return Actor::Urgent;
        };
        let state = self.shared.state();
        let is_sent = state.sends() && state.post_send(inner.was_closed) == Post::Queue;
        // A Terminate and the FIN are the work item's.
        if !is_sent || inner.failed.is_some() {
            return Actor::Urgent;
        }
        let actor = self.shared.who(Reason::KernelPost {
            // Otherwise the peer has answered, and acknowledged, all that was posted before.
            one_of_many: !may_wait && (!self.shared.take_answered() || inner.is_behind()),
        });
        if actor == Actor::Caller {
            self.send_only(&mut inner, may_wait);
        }
        actor
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
            // They are flushed behind what was posted before.
            self.urge();
        }
        result
    }
}
