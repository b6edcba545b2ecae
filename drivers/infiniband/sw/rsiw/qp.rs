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
#![forbid(unsafe_code)]

mod atomic;
mod base;
mod cached;
mod complete;
mod consumer;
mod control;
mod count;
pub(crate) mod create;
mod deferred;
mod describe;
pub(crate) mod direct;
mod effects;
mod failure;
mod fin;
mod inner;
pub(crate) mod manager;
mod memory;
mod parent;
mod place;
mod polling;
mod posting;
mod published;
mod resize;
mod rx;
mod sight;
mod source;
mod sq;
mod stream;
mod table;
mod trace;
mod transport;
mod tx;
mod work;

use self::{
    base::Base,
    consumer::Consumer,
    inner::Inner,
    manager::{
        is_same,
        Manager, //
    },
    polling::Poller,
    stream::Stream, //
};
use crate::{
    ffi::{
        rdma::iwcm::CallId,
        time::{
            hrtimer::ShortTimer,
            Timer, //
        },
    },
    limits::Quota,
    proto::state::QpState, //
};
use core::ops::Deref;
use kernel::{
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
pub(crate) type QpTable = table::Table<Qp>;

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    #[pin]
    base: Base,
    table: Arc<QpTable>,
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
    work: Work<Qp, { deferred::ACTS }>,
    #[pin]
    posts: Work<Qp, { deferred::SENDS }>,
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
