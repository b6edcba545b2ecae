// SPDX-License-Identifier: GPL-2.0

//! Budgets of a device's data path, which the administrator may change while it runs, in
//! `rsiw/<number of the device>/` of debugfs. `proto::tuning` says what they are, and has
//! their ranges.
//!
//! The directory is named after the core's number of the device (`rdma dev show`), as its name can
//! change, and devices of several network namespaces may have the same one.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::{
    ffi::debugfs::Number,
    proto::{
        deframer::Budget,
        tuning::{
            self,
            Knob,
            SendLimits, //
        },
    },
};
use kernel::str::CStr;

pub(crate) struct Tuning {
    rx_softirq: Number,
    rx_work: Number,
    tx_batch: Number,
    tx_run: Number,
}

const fn number(knob: Knob) -> Number {
    Number::new(knob.default, knob.range)
}

impl Tuning {
    pub(crate) const fn new() -> Self {
        Self {
            rx_softirq: number(tuning::RX_SOFTIRQ),
            rx_work: number(tuning::RX_WORK),
            tx_batch: number(tuning::TX_BATCH),
            tx_run: number(tuning::TX_RUN),
        }
    }

    /// Returns the budget for receiving in softirq.
    #[inline]
    pub(crate) fn softirq_budget(&self) -> Budget {
        Budget::new(self.rx_softirq.get())
    }

    /// Returns the budget for receiving in the work item.
    pub(crate) fn work_budget(&self) -> Budget {
        Budget::new(self.rx_work.get())
    }

    #[inline]
    pub(crate) fn sending(&self) -> SendLimits {
        SendLimits {
            batch: self.tx_batch.get(),
            run: self.tx_run.get(),
        }
    }

    /// Returns all budgets, with their names.
    pub(crate) fn numbers(&self) -> [(&'static CStr, &Number); 4] {
        [
            (tuning::RX_SOFTIRQ.name, &self.rx_softirq),
            (tuning::RX_WORK.name, &self.rx_work),
            (tuning::TX_BATCH.name, &self.tx_batch),
            (tuning::TX_RUN.name, &self.tx_run),
        ]
    }
}
