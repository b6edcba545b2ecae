// SPDX-License-Identifier: GPL-2.0

//! The loop of the thread that polls the send queue of a process: see [`Poller`].
//!
//! Context: process, in that thread.
#![forbid(unsafe_code)]

mod poller;

use super::{
    effects::After,
    inner::Inner,
    Qp, //
};
use crate::ffi::{
    rsiw::queues::Queues,
    task::{
        self,
        Serves, //
    },
    time, //
};
use kernel::{
    prelude::*,
    processor::cpu_relax,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
        Arc,
        ArcBorrow, //
    },
};

pub(super) use self::poller::Poller;

/// What one look at the ring has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// No request, or another thread has the mutex.
    Nothing,
    /// Requests, of which some were taken out.
    Taken,
    /// Requests that have to wait. Whoever goes on with them is notified by other means.
    Waiting,
}

impl Qp {
    /// Sends or flushes what is in the queue, without giving requests time to gather.
    fn deal_with_posted(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> Look {
        if inner.ring.is_empty() {
            return Look::Nothing;
        }
        let before = inner.ring.taken();
        self.send_posts(inner, after);
        if inner.ring.taken() == before {
            Look::Waiting
        } else {
            Look::Taken
        }
    }

    fn poll_once(self: &Arc<Self>) -> Look {
        let Some(mut inner) = self.inner.try_lock() else {
            return Look::Nothing;
        };
        let mut after = After::default();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        seen
    }

    /// Polls the ring for `us` microseconds at most, and ends early if the processor is wanted or a
    /// signal is pending. Returns whether a request was taken out.
    fn poll_for_a_while(self: &Arc<Self>, us: u32) -> bool {
        let end = time::now().saturating_add(u64::from(us).saturating_mul(1000));
        loop {
            match self.poll_once() {
                Look::Taken => return true,
                Look::Waiting => return false,
                Look::Nothing => {}
            }
            if time::now() >= end || task::is_wanted() || current!().signal_pending() {
                return false;
            }
            cpu_relax();
        }
    }

    /// Stops polling until the next doorbell, and handles what was posted before the process could
    /// see that.
    fn stop_polling(self: &Arc<Self>, poller: &Poller<Self>) {
        if !poller.pause() {
            return;
        }
        // The process sets the flags of an entry, then looks at the word. If it found the word
        // still set, the entry is seen below; if it found it cleared, it calls.
        smp_mb(Full);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if seen == Look::Taken {
            match current!().signal_pending() {
                // The thread may be stopped next, so the work item goes on.
                true => self.urge(),
                false => poller.resume(),
            }
        }
    }
}

impl Serves for Qp {
    type Reaper = Queues;

    const NAME: &'static CStr = c"rsiw-poll";

    fn is_due(this: ArcBorrow<'_, Self>) -> bool {
        this.poller.as_deref().is_some_and(Poller::is_due)
    }

    fn serve(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            poller.answer();
            // A signal stops the thread after this function has returned. Other processes may have
            // the queue pair, too, and must not rely on a thread that is stopped: so this does not
            // return while it polls.
            while poller.polls() {
                if !qp.poll_for_a_while(poller.us()) || current!().signal_pending() {
                    qp.stop_polling(poller);
                }
            }
        }
    }

    fn go_on_without(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            poller.set_over();
            // The barrier is that of `stop_polling`. Other processes may have the queue pair, too,
            // and go on.
            smp_mb(Full);
            qp.urge();
        }
    }
}
