// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a device, by number.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use super::Qp;
use crate::ffi::{
    module::Loaded,
    rdma::attr::Qpn,
    sync::rcu_table::RcuTable, //
};
use core::ops::RangeInclusive;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// Numbers that a QP may have: as many as 24 bits hold, without 0 and 1, which are special
/// elsewhere.
const NUMBERS: RangeInclusive<u32> = 2..=0xff_ffff;

/// Queue pairs by number.
#[pin_data]
pub(crate) struct QpTable {
    #[pin]
    qps: RcuTable<Qp>,
}

impl QpTable {
    /// An empty table. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(loaded: Loaded) -> Result<Arc<Self>> {
        Arc::pin_init(pin_init!(Self { qps <- RcuTable::new(loaded) }), GFP_KERNEL)
    }

    /// The QP of that number.
    pub(crate) fn lookup(&self, num: Qpn) -> Option<Arc<Qp>> {
        self.qps.lookup(num.0)
    }

    /// Calls `f` for all queue pairs; see [`RcuTable::for_each`]. Process context, if `f` is.
    pub(crate) fn for_each(&self, f: impl FnMut(Arc<Qp>)) {
        self.qps.for_each(f);
    }

    /// Puts `qp` in, in memory of `flags`, and returns the number that it got. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if no number is free, `ENOMEM`.
    pub(super) fn insert(&self, qp: Arc<Qp>, flags: Flags) -> Result<Qpn> {
        self.qps.insert_free(NUMBERS, qp, flags).map(Qpn)
    }

    /// Takes the QP of that number out.
    pub(super) fn remove(&self, num: Qpn) {
        self.qps.remove(num.0);
    }
}
