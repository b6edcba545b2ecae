// SPDX-License-Identifier: GPL-2.0

//! Sums of the driver's counters (`proto::counters`): those of a device, and of the queue pairs
//! that the administrator has bound to a counter.
//!
//! Context: any, but for making and freeing them.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        rdma::stats::{
            self,
            Counted,
            StatDesc, //
        },
        rsiw::methods::PortCounter, //
    },
    proto::counters::{
        Counter,
        Tally,
        COUNT, //
    },
};
use core::num::Wrapping;

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
    /// Moves what `tally` has here.
    #[inline(always)]
    pub(crate) fn take_up(&self, tally: &mut Tally) {
        if let Some((counts, marks)) = tally.take() {
            self.take(counts, marks);
        }
    }

    /// Returns what this adds to a counter of the port. Packets are FPDUs.
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
