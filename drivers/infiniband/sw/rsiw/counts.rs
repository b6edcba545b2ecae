// SPDX-License-Identifier: GPL-2.0

//! Sums of the driver's counters (`proto::counters`): those of a device, and of the queue pairs
//! that the administrator has bound to a counter. The core adds the latter to what it shows of the
//! device.
//!
//! Context: any, but for making and freeing them.
#![forbid(unsafe_code)]

use crate::ffi::rdma::stats::{
    self,
    Counted,
    StatDesc, //
};
use crate::ffi::rsiw::PortCounter;
use crate::proto::counters::{
    Counter,
    Tally,
    COUNT, //
};
use crate::proto::schedule::Actor;
use core::num::Wrapping;
use kernel::prelude::*;
use kernel::sync::atomic::{
    AtomicFlag,
    Relaxed, //
};
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    SpinLockIrq, //
};

/// A sum for each [`Counter`].
pub(crate) type Counts = stats::Counts<Counter>;

impl Counted for Counter {
    const DESCS: &'static [StatDesc] = &{
        let mut descs = [const { StatDesc::new(Counter::ALL[0].name()) }; COUNT];
        let mut i = 0;
        while i < COUNT {
            descs[i] = StatDesc::new(Self::ALL[i].name());
            i += 1;
        }
        descs
    };

    #[inline(always)]
    fn index(self) -> usize {
        Counter::index(self)
    }
}

impl Counts {
    /// Adds the counts of `tally` to these sums, and clears them.
    #[inline(always)]
    pub(crate) fn take_up(&self, tally: &mut Tally) {
        if let Some((counts, marks)) = tally.take() {
            self.take(counts, marks);
        }
    }

    /// Returns what these sums add to a counter of the port. Packets are FPDUs.
    pub(crate) fn of_port(&self, which: PortCounter) -> Wrapping<u64> {
        use Counter as C;
        let counters: &[C] = match which {
            PortCounter::XmitData => &[C::TxSendBytes, C::TxWriteBytes, C::TxResponseBytes],
            PortCounter::RcvData => &[C::RxSendBytes, C::RxWriteBytes, C::RxResponseBytes],
            PortCounter::XmitPackets => &[C::TxFpdus],
            PortCounter::RcvPackets => &[C::RxFpdus],
        };
        counters
            .iter()
            .map(|counter| Wrapping(self.sum(*counter)))
            .sum()
    }
}

/// Where a queue pair counts.
#[pin_data]
pub(crate) struct CountsOf {
    device: Arc<Counts>,
    /// What all queue pairs count that are bound to a counter, but for rare events. For the port.
    all_bound: Arc<Counts>,
    /// Whether `bound` is set. What is counted during a change may go to the old counter.
    is_bound: AtomicFlag,
    #[pin]
    bound: SpinLockIrq<Option<Arc<Counts>>>,
}

impl CountsOf {
    /// Makes a value that counts for the device.
    pub(crate) fn new(device: Arc<Counts>, all_bound: Arc<Counts>) -> impl PinInit<Self> {
        pin_init!(Self {
            device,
            all_bound,
            is_bound: AtomicFlag::new(false),
            bound <- new_spinlock_irq!(None, "rsiw::CountsOf::bound"),
        })
    }

    /// Makes the queue pair count in `counts` from now on, or for the device if that is `None`.
    pub(crate) fn count_in(&self, counts: Option<Arc<Counts>>) {
        self.is_bound.store(counts.is_some(), Relaxed);
        let old = core::mem::replace(&mut *self.bound.lock(), counts);
        // Memory is freed without a lock.
        drop(old);
    }

    /// Adds the counts of `tally` to the sums, and clears them.
    #[inline(always)]
    pub(crate) fn count_up(&self, tally: &mut Tally) {
        if self.is_bound.load(Relaxed) {
            return self.count_up_bound(tally);
        }
        self.device.take_up(tally);
    }

    #[cold]
    #[inline(never)]
    fn count_up_bound(&self, tally: &mut Tally) {
        let bound = self.bound.lock().clone();
        if bound.is_some() {
            self.all_bound.take_up(&mut tally.clone());
        }
        bound.as_ref().unwrap_or(&self.device).take_up(tally);
    }

    /// Counts an event that is rare.
    #[cold]
    #[inline(never)]
    pub(crate) fn count(&self, counter: Counter) {
        let bound = self.bound.lock().clone();
        bound.as_ref().unwrap_or(&self.device).add(counter, 1);
    }

    /// Counts rare events, ignoring `None`.
    #[inline(always)]
    pub(crate) fn count_all(&self, counters: impl IntoIterator<Item = Option<Counter>>) {
        // Bound: the number of counters for one event.
        for counter in counters.into_iter().flatten() {
            self.count(counter);
        }
    }

    /// Counts what `actor` sent, and the calls of TCP (`batches`) that it took.
    #[inline]
    pub(crate) fn count_sent(&self, (tally, batches): (&mut Tally, &mut u32), actor: Actor) {
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
