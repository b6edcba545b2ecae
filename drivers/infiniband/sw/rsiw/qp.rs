// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (draft-hilland-rddp-verbs section 6).
//!
//! A QP consists of:
//!
//! - the [`shared::Shared`]: which QP it is ([`identity::QpIdentity`]), and what softirq shares with
//!   those who send.
//! - `inner`, a mutex: state, connection, transmission. Process context. All state transitions
//!   happen under it.
//! - the [`stream::Stream`]: receiving, under the socket's lock.
//! - work items and timers, which act for others.
//!
//! Handlers of consumers and of the connection manager are called without any of these locks held.
//!
//! The queue pairs of a device, by number.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

mod complete;
mod consumer;
mod control;
pub(crate) mod create;
mod describe;
pub(crate) mod direct;
mod effects;
pub(crate) mod identity;
mod inner;
pub(crate) mod manager;
mod memory;
mod place;
mod polling;
mod posting;
mod published;
mod resize;
mod rx;
pub(crate) mod shared;
mod source;
mod sq;
mod stream;
mod trace;
mod tx;
mod work;

use self::{
    direct::LocalPeers,
    inner::Inner,
    polling::Poller,
    shared::Shared,
    stream::Stream, //
};
use crate::{
    ffi::{
        module::Loaded,
        rdma::attr::Qpn,
        sync::rcu_table::RcuTable,
        time::{
            hrtimer::ShortTimer,
            Timer, //
        },
    },
    limits::Quota, //
};
use core::ops::RangeInclusive;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock, //
    },
    workqueue::Work, //
};

/// The queue pairs of a device, by number.
pub(crate) type QpTable = Table<Qp>;

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    #[pin]
    pub(crate) shared: Shared,
    table: Arc<QpTable>,
    /// Where its connections look for their other ends.
    peers: Arc<LocalPeers>,
    /// Set if the send queue of a process may be polled.
    poller: Option<Pin<KBox<Poller<Qp>>>>,
    /// The connection, for [`Qp::describe`], which does not take the mutex.
    #[pin]
    shown: SpinLock<Option<Arc<Stream>>>,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    work: Work<Qp, { work::ACTS }>,
    #[pin]
    posts: Work<Qp, { work::SENDS }>,
    #[pin]
    timer: Timer<Qp>,
    /// Runs while requests gather.
    #[pin]
    gathers: ShortTimer<Qp>,
    _quota: Quota,
}

impl Qp {
    /// Withdraws what the process was offered to map.
    fn forget_offers(&self) {
        self.shared.id.consumer.forget_rings();
        if let Some(poller) = &self.poller {
            poller.forget();
        }
    }

    /// Returns the poller, unless polling has ended for good.
    #[inline]
    fn active_poller(&self) -> Option<&Poller<Self>> {
        self.poller.as_deref().filter(|poller| !poller.is_over())
    }
}

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
    fn insert(&self, qp: Arc<Q>, flags: Flags) -> Result<Qpn> {
        self.qps.insert_free(NUMBERS, qp, flags).map(Qpn)
    }

    fn remove(&self, num: Qpn) {
        self.qps.remove(num.0);
    }
}
