// SPDX-License-Identifier: GPL-2.0

//! Budgets and thresholds of a device's data path, which the administrator may turn while it runs,
//! in `rsiw/<number of the device>/` of debugfs. What they are, and their ranges, is in
//! `proto::tuning`.
//!
//! The directory has the core's number of the device (`rdma dev show`) and not its name, which can
//! change, and which devices of several network namespaces may have in common.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::{
    ffi::debugfs::Number,
    proto::{
        budget::Budget,
        tuning::{
            self,
            Knob,
            RowLimits,
            SendLimits, //
        },
    },
};
use kernel::str::CStr;

/// The values of a device.
pub(crate) struct Tuning {
    rx_softirq: Number,
    rx_work: Number,
    tx_batch: Number,
    tx_run: Number,
    row: Number,
    row_pause: Number,
    row_look: Number,
    waited: Number,
    read_row: Number,
    read_pause: Number,
}

const fn number(knob: Knob) -> Number {
    Number::new(knob.default, knob.range)
}

impl Tuning {
    /// The defaults.
    pub(crate) const fn new() -> Self {
        Self {
            rx_softirq: number(tuning::RX_SOFTIRQ),
            rx_work: number(tuning::RX_WORK),
            tx_batch: number(tuning::TX_BATCH),
            tx_run: number(tuning::TX_RUN),
            row: number(tuning::ROW),
            row_pause: number(tuning::ROW_PAUSE),
            row_look: number(tuning::ROW_LOOK),
            waited: number(tuning::WAITED),
            read_row: number(tuning::READ_ROW),
            read_pause: number(tuning::READ_PAUSE),
        }
    }

    /// For receiving in softirq.
    #[inline]
    pub(crate) fn softirq_budget(&self) -> Budget {
        Budget::new(self.rx_softirq.get())
    }

    /// For receiving in the work item.
    pub(crate) fn work_budget(&self) -> Budget {
        Budget::new(self.rx_work.get())
    }

    /// For sending.
    #[inline]
    pub(crate) fn sending(&self) -> SendLimits {
        SendLimits {
            batch: self.tx_batch.get(),
            run: self.tx_run.get(),
        }
    }

    /// For doorbells.
    #[inline]
    pub(crate) fn row(&self) -> RowLimits {
        RowLimits {
            doorbells: self.row.get(),
            pause: self.row_pause.get(),
        }
    }

    /// See [`tuning::ROW_LOOK`]; microseconds.
    pub(crate) fn row_look(&self) -> u32 {
        self.row_look.get()
    }

    /// See [`tuning::WAITED`]; microseconds.
    pub(crate) fn waited(&self) -> u32 {
        self.waited.get()
    }

    /// See [`tuning::READ_ROW`].
    #[inline]
    pub(crate) fn read_row(&self) -> usize {
        // CAST: 32 bits fit.
        self.read_row.get() as usize
    }

    /// See [`tuning::READ_PAUSE`]; microseconds.
    #[inline]
    pub(crate) fn read_pause(&self) -> u32 {
        self.read_pause.get()
    }

    /// All of them, by their names.
    pub(crate) fn numbers(&self) -> [(&'static CStr, &Number); 10] {
        [
            (tuning::RX_SOFTIRQ.name, &self.rx_softirq),
            (tuning::RX_WORK.name, &self.rx_work),
            (tuning::TX_BATCH.name, &self.tx_batch),
            (tuning::TX_RUN.name, &self.tx_run),
            (tuning::ROW.name, &self.row),
            (tuning::ROW_PAUSE.name, &self.row_pause),
            (tuning::ROW_LOOK.name, &self.row_look),
            (tuning::WAITED.name, &self.waited),
            (tuning::READ_ROW.name, &self.read_row),
            (tuning::READ_PAUSE.name, &self.read_pause),
        ]
    }
}
