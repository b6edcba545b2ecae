// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (draft-hilland-rddp-verbs section 6).
//!
//! What a QP consists of, and how its parts may be used:
//!
//! - `inner`, a mutex: state, connection, transmission. Process context. All state transitions
//!   happen under it.
//! - the [`base::Base`]: what softirq shares with it.
//! - the [`stream::Stream`]: receiving, under the socket's lock.
//!
//! Handlers of consumers and of the connection manager are called without any of these held.
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
mod direct;
mod effects;
mod failure;
mod fin;
mod inner;
pub(crate) mod local_peers;
pub(crate) mod manager;
mod memory;
mod parent;
mod place;
mod poller;
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
    poller::Poller,
    stream::Stream,
};
use crate::{
    ffi::{
        rdma::iwcm::CallId,
        time::{
            hrtimer::ShortTimer,
            timer::Timer, //
        },
    },
    limits::Quota,
    proto::state::QpState,
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
    workqueue::Work,
};

/// The queue pairs of a device, by number.
pub(crate) type QpTable = table::Table<Qp>;

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    #[pin]
    base: Base,
    /// Where it is found by its number.
    table: Arc<QpTable>,
    sig_all: bool,
    /// What a process has whose send queue is looked at.
    poller: Option<Pin<KBox<Poller<Qp>>>>,
    /// The connection, for who describes the QP.
    #[pin]
    shown: SpinLock<Option<Arc<Stream>>>,
    #[pin]
    inner: Mutex<Inner>,
    /// Who manages the connection, from the request to connect or accept on until it is closed.
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
    /// Whether a consumer in the kernel made it.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.consumer, Consumer::Kernel(_))
    }

    /// Whether a consumer in the kernel made it, and has no connection with it.
    pub(crate) fn is_unconnected_of_kernel(&self) -> bool {
        self.is_of_kernel() && self.state() == QpState::Idle
    }

    /// Whether the caller may connect the QP by `id`: others must not get hold of it by its number.
    /// A QP of the kernel has no owner to compare with, but an identifier that it was made for.
    pub(crate) fn is_callers(&self, id: CallId<'_>) -> bool {
        match (&self.consumer, id.made(&self.handle)) {
            (Consumer::Process(process), None) => process.owner.is_current(),
            (Consumer::Kernel(_), Some(made)) => made,
            _ => false,
        }
    }

    /// Sets the QP aside for the connection of `manager`.
    ///
    /// # Errors
    ///
    /// `EISCONN` if it is for another, or the QP is in a state that cannot be connected.
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

    /// Forgets `manager`, whose connection did not come about. The QP may have another one since.
    pub(crate) fn detach(&self, manager: &dyn Manager) {
        let old = {
            let mut slot = self.manager.lock();
            slot.take_if(|attached| is_same(attached, manager))
        };
        drop(old);
    }

    /// Whether the QP is set aside for the connection of `manager`.
    fn is_attached(&self, manager: &dyn Manager) -> bool {
        let slot = self.manager.lock();
        slot.as_ref()
            .is_some_and(|attached| is_same(attached, manager))
    }

    /// Takes the manager out of its slot.
    fn take_manager(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().take()
    }

    /// Ends the offers to map what the process maps.
    fn forget_offers(&self) {
        self.consumer.forget_rings();
        if let Some(poller) = &self.poller {
            poller.forget();
        }
    }

    /// Returns what a process has whose send queue may be looked at.
    #[inline]
    fn active_poller(&self) -> Option<&Poller<Self>> {
        self.poller.as_deref().filter(|poller| !poller.is_over())
    }
}
