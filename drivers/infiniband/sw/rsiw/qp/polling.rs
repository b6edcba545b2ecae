// SPDX-License-Identifier: GPL-2.0

//! What the thread does that polls the send queue of a process: see [`Poller`].
//!
//! Context: process; that thread.
#![forbid(unsafe_code)]

use super::{
    effects::After,
    inner::Inner,
    poller::Poller,
    Qp, //
};
use crate::{
    ffi::{
        rsiw::queues::Queues,
        task::{
            context,
            serving::Serves, //
        },
        time::clock,
    },
    proto::{
        schedule::Reason,
        tuning::nanos, //
    },
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

/// What was found in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No request, or somebody else is at work on them.
    Nothing,
    /// Requests, of which some were taken out.
    Taken,
    /// Requests that have to wait: who goes on with them is notified by other means.
    Waiting,
}

impl Qp {
    /// Sends what is in the queue, or flushes it. What is polled has nobody who waits for a
    /// better time.
    fn deal_with_posted(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> Seen {
        if inner.ring.is_empty() {
            return Seen::Nothing;
        }
        let before = inner.ring.taken();
        self.send_posts(inner, after);
        if inner.ring.taken() == before {
            Seen::Waiting
        } else {
            Seen::Taken
        }
    }

    /// Polls the ring once, if nobody else is at work on it.
    fn poll_once(self: &Arc<Self>) -> Seen {
        let Some(mut inner) = self.inner.try_lock() else {
            return Seen::Nothing;
        };
        let mut after = After::default();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        seen
    }

    /// Polls the ring until something was taken out, for as long as was asked for, or until the
    /// process is to stop. Returns whether something was.
    fn poll_for_a_while(self: &Arc<Self>, us: u32) -> bool {
        let end = clock::now().saturating_add(nanos(us));
        loop {
            match self.poll_once() {
                Seen::Taken => return true,
                Seen::Waiting => return false,
                Seen::Nothing => {}
            }
            if clock::now() >= end || context::is_wanted() || current!().signal_pending() {
                return false;
            }
            cpu_relax();
        }
    }

    /// Polls no more, until the process calls. What was posted before it could see that is dealt
    /// with.
    fn stop_polling(self: &Arc<Self>, poller: &Poller<Self>) {
        if !poller.pause() {
            return;
        }
        // The process has set the flags of an entry, and then found the word set: the entry is seen
        // below. Else it finds the word cleared, and calls.
        smp_mb(Full);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if seen == Seen::Taken {
            poller.resume();
        }
    }
}

impl Serves for Qp {
    type Reaper = Queues;

    const NAME: &'static CStr = c"rsiw-poll";

    fn is_due(this: ArcBorrow<'_, Self>) -> bool {
        this.poller.as_deref().is_some_and(Poller::polls)
    }

    fn serve(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            // A thread that stops cannot be relied on: others may have the queue pair, too.
            if !qp.poll_for_a_while(poller.us()) || current!().signal_pending() {
                qp.stop_polling(poller);
            }
        }
    }

    fn is_over(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            poller.is_over_now();
            // As when it stops polling. Others may have the queue pair, too, and go on.
            smp_mb(Full);
            qp.schedule(Reason::GoOn);
        }
    }
}
