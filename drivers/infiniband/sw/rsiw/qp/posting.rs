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
        mm::noio::NoIo,
        rdma::wr::{
            RecvChain,
            SendChain, //
        },
        task::context,
        time::{
            clock,
            hrtimer::ShortTimer, //
        },
    },
    proto::{
        schedule::{
            self,
            Actor,
            Pace,
            Reason,
            Ringing, //
        },
        state::Post,
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
    /// Lets requests gather, of which the first was just posted. Under the mutex.
    fn begin_row(self: &Arc<Self>, inner: &mut Inner) {
        let patience = inner.doorbells.takes_time();
        let wait = self.dev.tuning.row_look();
        let first = inner.ring.taken();
        if self.post_row.lock().begin(first, wait, patience) {
            ShortTimer::start(self, wait);
        }
    }

    /// Looks whether more requests have gathered. Softirq.
    fn look_at_row(self: &Arc<Self>) {
        let mut row = self.post_row.lock();
        let Some((number, most)) = row.unseen() else {
            return;
        };
        let wait = row.look(self.consumer.posted_from(number, most));
        drop(row);
        match wait {
            Some(us) => ShortTimer::start(self, us),
            None => self.queue_urgent(),
        }
    }

    /// Looks at requests, and Reads of the peer, that gather: they are dealt with unless more have
    /// come since this was called last. Softirq.
    pub(super) fn gathered(self: &Arc<Self>) {
        self.look_at_row();
        let pace = self.inbound.lock().pause();
        if let Some(pace) = pace {
            self.schedule(Reason::PeerRead(pace));
        }
    }

    /// As [`Qp::queue`] for who mostly acts himself, and shall not carry this along.
    #[inline(never)]
    fn hand_over(self: &Arc<Self>, actor: Actor) {
        self.queue(actor);
    }

    /// What the doorbell that rings now is to its row.
    #[inline(always)]
    fn pace(&self, inner: &mut Inner) -> Pace {
        let ringing = Ringing {
            answered: self.answered.load(Relaxed),
            taken: inner.ring.taken(),
            notified: self.send_cq.notified(),
            limits: self.dev.tuning.row(),
        };
        self.answered.store(false, Relaxed);
        inner.doorbells.ring(&ringing, clock::now)
    }

    /// A process rang the doorbell: sends on its behalf, or lets a work item do so.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the QP of a consumer in the kernel.
    pub(crate) fn doorbell(self: &Arc<Self>) -> Result {
        if self.is_of_kernel() {
            return Err(EINVAL);
        }
        let mut inner = match self.inner.try_lock() {
            Some(inner) => inner,
            None => {
                let sends = self.state().sends();
                match self.who(Reason::Busy { sends }) {
                    Actor::Caller => self.inner.lock(),
                    other => {
                        self.trace_doorbell(other);
                        self.hand_over(other);
                        if let Some(look) = &self.look {
                            look.begin();
                        }
                        return Ok(());
                    }
                }
            }
        };
        let mut after = After::default();
        if inner.post_send() == Post::Queue {
            let pace = match self.looked_at() {
                // Those that follow are seen by who looks.
                Some(_) => Pace::Slow,
                None => self.pace(&mut inner),
            };
            let actor = schedule::who(Reason::Doorbell(pace), || {
                let doorbells = &inner.doorbells;
                doorbells.leaves_to_turn()
                    && (doorbells.has_waited(self.dev.tuning.waited()) || self.send_cq.is_awaited())
            });
            self.trace_doorbell(actor);
            if actor != Actor::Caller {
                if actor == Actor::Later {
                    self.begin_row(&mut inner);
                }
                drop(inner);
                self.hand_over(actor);
                return Ok(());
            }
        }
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if let Some(look) = &self.look {
            look.begin();
        }
        Ok(())
    }

    /// Posts the requests of a kernel consumer, up to the first bad one. Its thread sends them if
    /// it may sleep where it is and has the mutex at once, otherwise the work item does, which also
    /// flushes them. Any context.
    ///
    /// # Errors
    ///
    /// See [`KernelSq::post`](super::sq::kernel::KernelSq::post).
    pub(crate) fn post_send(self: &Arc<Self>, chain: &mut SendChain<'_>) -> Result {
        let Some(kernel) = self.consumer.kernel() else {
            let _ = chain.next();
            return Err(EINVAL);
        };
        let result = kernel.posted.post(chain);
        let may_sleep = context::may_sleep() && !context::is_low_priority();
        match self.who(Reason::KernelPost { may_sleep }) {
            Actor::Caller => self.queue(self.send_posted()),
            other => self.queue(other),
        }
        result
    }

    /// Sends what a kernel consumer has posted, on its thread, which may have locks of the
    /// consumer's and may be one that memory or a file system waits for: nobody is waited for who
    /// might wait for these, and nothing but sending is done. Returns who is to act otherwise.
    /// Process context.
    fn send_posted(self: &Arc<Self>) -> Actor {
        let _scope = NoIo::enter();
        let Some(mut inner) = self.inner.try_lock() else {
            return self.who(Reason::KernelBusy);
        };
        if inner.post_send() != Post::Queue || inner.failed.is_some() {
            return self.who(Reason::KernelBusy);
        }
        let pace = self.pace(&mut inner);
        let actor = self.who(Reason::KernelDoorbell(pace));
        if actor == Actor::Caller {
            self.send_only(&mut inner);
            inner.doorbells.sent(clock::now);
            return Actor::Nobody;
        }
        actor
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Any context.
    ///
    /// # Errors
    ///
    /// See [`Rq::post`](super::rq::Rq::post).
    pub(crate) fn post_recv(self: &Arc<Self>, chain: &mut RecvChain<'_>) -> Result {
        let result = match &mut *self.rq.lock() {
            Some(rq) => rq.post(chain),
            // Receives go to the shared queue (V-SRQ-8).
            None => {
                let _ = chain.next();
                Err(EINVAL)
            }
        };
        // Whoever flushes the queue changed the state before: he sees what is in the queue, or his
        // state is seen here.
        let flushes = self.state().post_recv() == Post::Flush;
        self.schedule(Reason::KernelRecv { flushes });
        result
    }
}
