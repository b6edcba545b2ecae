// SPDX-License-Identifier: GPL-2.0

//! Budgets of the driver, as it has them unless told otherwise.

use crate::proto::deframer::Budget;
use crate::proto::tuning::{SendLimits, RX_SOFTIRQ, RX_WORK, TX_BATCH, TX_RUN};

/// For receiving in softirq.
pub(crate) const SOFTIRQ: Budget = Budget::new(RX_SOFTIRQ.default);
/// For receiving in the work item.
pub(crate) const WORK: Budget = Budget::new(RX_WORK.default);
/// For sending.
pub(crate) const SENDING: SendLimits = SendLimits {
    batch: TX_BATCH.default,
    run: TX_RUN.default,
};

/// Budgets of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    pub(crate) rx: u32,
    pub(crate) tx: SendLimits,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            rx: RX_SOFTIRQ.default,
            tx: SENDING,
        }
    }
}
