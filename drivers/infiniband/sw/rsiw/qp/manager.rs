// SPDX-License-Identifier: GPL-2.0

//! The connection manager, as a queue pair knows it.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use crate::proto::connection::StreamEnd;
use kernel::{
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// The connection manager's part of one connection.
///
/// The methods leave a note for others to act upon. Any context, under any lock of the QP.
pub(crate) trait Manager: Send + Sync {
    /// Tells that the QP, which is set aside for the connection and was not given the stream yet,
    /// goes away or into error.
    fn abort(self: Arc<Self>);

    /// Tells that the first segment was received.
    fn first_segment(self: Arc<Self>);

    /// Tells that the peer has begun to close.
    fn peer_closing(self: Arc<Self>);

    /// Tells that the QP has left the stream for good: it is in its final state and flushed, and
    /// has nothing on the socket any more.
    fn stream_ended(self: Arc<Self>, end: StreamEnd);
}

fn is_same(one: &Arc<dyn Manager>, other: &dyn Manager) -> bool {
    // Only the addresses count: one object may have several vtables.
    core::ptr::addr_eq(Arc::as_ptr(one), other)
}

/// The manager that a queue pair is set aside for: from the request to connect or accept until the
/// connection is closed.
#[pin_data]
pub(crate) struct SetAside {
    #[pin]
    manager: SpinLockIrq<Option<Arc<dyn Manager>>>,
}

impl SetAside {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            manager <- new_spinlock_irq!(None, "rsiw::SetAside::manager"),
        })
    }

    /// Sets the QP aside for `manager`, or returns `EISCONN` if it is for another one.
    pub(super) fn set(&self, manager: Arc<dyn Manager>) -> Result {
        let mut slot = self.manager.lock();
        if slot.is_some() {
            return Err(EISCONN);
        }
        *slot = Some(manager);
        Ok(())
    }

    /// Forgets `manager`, whose connection was not established. The QP may have another one by now.
    pub(crate) fn forget(&self, manager: &dyn Manager) {
        let old = {
            let mut slot = self.manager.lock();
            slot.take_if(|attached| is_same(attached, manager))
        };
        drop(old);
    }

    /// Returns whether the QP is set aside for `manager`.
    pub(super) fn is_for(&self, manager: &dyn Manager) -> bool {
        let slot = self.manager.lock();
        slot.as_ref()
            .is_some_and(|attached| is_same(attached, manager))
    }

    /// Returns the manager, if there is one.
    pub(super) fn manager(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().clone()
    }

    /// Forgets the manager, and returns it, if there is one.
    pub(super) fn take(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().take()
    }
}
