// SPDX-License-Identifier: GPL-2.0

//! Counting on behalf of a queue pair: for its device, or in the counter that the administrator has
//! bound it to. The core adds the latter to what it shows of the device.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::base::Base;
use crate::{
    counts::Counts,
    proto::{
        counters::{
            Counter,
            Tally, //
        },
        schedule::Actor, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// Where a queue pair counts.
#[pin_data]
pub(super) struct CountsOf {
    /// Whether `bound` is set. What is counted during a change may go to the old counter.
    is_bound: AtomicFlag,
    #[pin]
    bound: SpinLockIrq<Option<Arc<Counts>>>,
}

impl CountsOf {
    pub(super) fn device() -> impl PinInit<Self> {
        pin_init!(Self {
            is_bound: AtomicFlag::new(false),
            bound <- new_spinlock_irq!(None, "rsiw::qp::CountsOf::bound"),
        })
    }
}

impl Base {
    /// Makes the queue pair count in `counts` from now on, or for the device if that is `None`.
    pub(crate) fn count_in(&self, counts: Option<Arc<Counts>>) {
        let of = &self.counts_of;
        of.is_bound.store(counts.is_some(), Relaxed);
        let old = core::mem::replace(&mut *of.bound.lock(), counts);
        // Memory is freed without a lock.
        drop(old);
    }

    /// Adds `tally` to the counters, and clears it.
    #[inline(always)]
    fn count_up(&self, tally: &mut Tally) {
        if self.counts_of.is_bound.load(Relaxed) {
            return self.count_up_bound(tally);
        }
        self.dev.counts.take_up(tally);
    }

    #[cold]
    #[inline(never)]
    fn count_up_bound(&self, tally: &mut Tally) {
        let bound = self.counts_of.bound.lock().clone();
        if bound.is_some() {
            self.dev.bound_counts.take_up(&mut tally.clone());
        }
        bound.as_ref().unwrap_or(&self.dev.counts).take_up(tally);
    }

    /// Counts an event that is rare.
    #[cold]
    #[inline(never)]
    pub(super) fn count(&self, counter: Counter) {
        let bound = self.counts_of.bound.lock().clone();
        bound.as_ref().unwrap_or(&self.dev.counts).add(counter, 1);
    }

    /// Counts rare events, ignoring `None`.
    #[inline(always)]
    pub(super) fn count_all(&self, counters: impl IntoIterator<Item = Option<Counter>>) {
        // Bound: the counters that one event has.
        for counter in counters.into_iter().flatten() {
            self.count(counter);
        }
    }

    #[inline]
    pub(super) fn count_received(&self, tally: &mut Tally) {
        self.count_up(tally);
    }

    /// Counts what `actor` sent, and the calls of TCP (`batches`) that it took.
    #[inline]
    pub(super) fn count_sent(&self, (tally, batches): (&mut Tally, &mut u32), actor: Actor) {
        if *batches > 0 {
            let counter = match actor {
                Actor::Urgent | Actor::Later => Counter::TxByUrgent,
                Actor::Patient => Counter::TxByPatient,
                Actor::Caller => Counter::TxByThread,
            };
            tally.add(counter, core::mem::take(batches).into());
        }
        self.count_up(tally);
    }
}
