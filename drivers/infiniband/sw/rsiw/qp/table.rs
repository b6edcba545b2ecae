// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a device, by number.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

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

/// Numbers that a QP may have: what 24 bits hold, without 0 and 1, which are special elsewhere.
const NUMBERS: RangeInclusive<u32> = 2..=0xff_ffff;

/// Queue pairs `Q` by number.
#[pin_data]
pub(crate) struct Table<Q: Send + Sync + 'static> {
    #[pin]
    qps: RcuTable<Q>,
}

impl<Q: Send + Sync + 'static> Table<Q> {
    /// Makes an empty table. Sleeps.
    pub(crate) fn new(loaded: Loaded) -> Result<Arc<Self>> {
        Arc::pin_init(pin_init!(Self { qps <- RcuTable::new(loaded) }), GFP_KERNEL)
    }

    pub(crate) fn lookup(&self, num: Qpn) -> Option<Arc<Q>> {
        self.qps.lookup(num.0)
    }

    /// Calls `f` for all queue pairs; see [`RcuTable::for_each`]. Process context if `f` needs it.
    pub(crate) fn for_each(&self, f: impl FnMut(Arc<Q>)) {
        self.qps.for_each(f);
    }

    /// Enters `qp`, in memory allocated with `flags`, and returns the number that it got, or
    /// `EBUSY` if none is free. Sleeps.
    pub(super) fn insert(&self, qp: Arc<Q>, flags: Flags) -> Result<Qpn> {
        self.qps.insert_free(NUMBERS, qp, flags).map(Qpn)
    }

    pub(super) fn remove(&self, num: Qpn) {
        self.qps.remove(num.0);
    }
}
