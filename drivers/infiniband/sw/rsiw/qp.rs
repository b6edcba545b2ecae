// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (draft-hilland-rddp-verbs section 6).
//!
//! A QP consists of:
//!
//! - `inner`, a mutex: state, connection, transmission. Process context. All state transitions
//!   happen under it.
//! - the [`base::Base`]: what softirq shares with it.
//! - the [`stream::Stream`]: receiving, under the socket's lock.
//!
//! Handlers of consumers and of the connection manager are called without any of these locks held.
//!
//! The queue pairs of a device, by number.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

pub(crate) mod base;
mod complete;
mod consumer;
mod control;
pub(crate) mod create;
mod describe;
pub(crate) mod direct;
mod effects;
mod inner;
mod memory;
mod place;
mod polling;
mod posting;
mod published;
mod resize;
mod rx;
mod source;
mod sq;
mod stream;
mod trace;
mod tx;
mod work;

use self::{
    base::{
        is_same,
        Base,
        Manager, //
    },
    consumer::Consumer,
    direct::LocalPeers,
    inner::Inner,
    polling::Poller,
    stream::Stream, //
};
use crate::{
    ffi::{
        module::Loaded,
        rdma::{
            attr::Qpn,
            iwcm::CallId, //
        },
        sync::rcu_table::RcuTable,
        time::{
            hrtimer::ShortTimer,
            Timer, //
        },
    },
    limits::Quota,
    proto::state::QpState, //
};
use core::ops::{
    Deref,
    RangeInclusive, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock,
        SpinLockIrq, //
    },
    workqueue::Work, //
};

/// The queue pairs of a device, by number.
pub(crate) type QpTable = Table<Qp>;

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    #[pin]
    base: Base,
    table: Arc<QpTable>,
    /// Where its connections look for their other ends.
    peers: Arc<LocalPeers>,
    sig_all: bool,
    /// Set if the send queue of a process may be polled.
    poller: Option<Pin<KBox<Poller<Qp>>>>,
    /// The connection, for [`Qp::describe`], which does not take the mutex.
    #[pin]
    shown: SpinLock<Option<Arc<Stream>>>,
    #[pin]
    inner: Mutex<Inner>,
    /// Set from the request to connect or accept until the connection is closed.
    #[pin]
    manager: SpinLockIrq<Option<Arc<dyn Manager>>>,
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

impl Deref for Qp {
    type Target = Base;

    #[inline(always)]
    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Qp {
    /// Returns whether a consumer in the kernel made the QP.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.consumer, Consumer::Kernel(_))
    }

    /// Returns whether a consumer in the kernel made the QP and it has no connection.
    pub(crate) fn is_unconnected_of_kernel(&self) -> bool {
        self.is_of_kernel() && self.state() == QpState::Idle
    }

    /// Returns whether the QP cannot be one of the caller's. Process context.
    pub(crate) fn is_of_others(&self) -> bool {
        self.consumer.is_not_the_caller()
    }

    /// Returns whether the caller may connect the QP by `id`: others must not get hold of it by its
    /// number. A QP of the kernel has no owner to compare with, but an identifier it was made for.
    pub(crate) fn is_callers(&self, id: CallId<'_>) -> bool {
        match (&self.consumer, id.made(&self.handle)) {
            (Consumer::Process(process), None) => process.owner.is_current(),
            (Consumer::Kernel(_), Some(made)) => made,
            _ => false,
        }
    }

    /// Sets the QP aside for the connection of `manager`, or returns `EISCONN` if it is set aside
    /// for another one, or is in a state that cannot be connected.
    pub(crate) fn attach(&self, manager: Arc<dyn Manager>) -> Result {
        let mut inner = self.inner.lock();
        let mut slot = self.manager.lock();
        if slot.is_some() || self.state() != QpState::Idle {
            return Err(EISCONN);
        }
        *slot = Some(manager);
        inner.was_closed = false;
        Ok(())
    }

    /// Forgets `manager`, whose connection was not established. The QP may have another one by now.
    pub(crate) fn detach(&self, manager: &dyn Manager) {
        let old = {
            let mut slot = self.manager.lock();
            slot.take_if(|attached| is_same(attached, manager))
        };
        drop(old);
    }

    fn is_attached(&self, manager: &dyn Manager) -> bool {
        let slot = self.manager.lock();
        slot.as_ref()
            .is_some_and(|attached| is_same(attached, manager))
    }

    fn take_manager(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().take()
    }

    /// Withdraws what the process was offered to map.
    fn forget_offers(&self) {
        self.consumer.forget_rings();
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
