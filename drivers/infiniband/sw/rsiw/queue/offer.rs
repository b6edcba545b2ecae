// SPDX-License-Identifier: GPL-2.0

//! The offer to map the ring of a completion queue or a shared receive queue, and other rings that a
//! queue of a process may go on in.
//!
//! Context: process; sleeps.
#![forbid(unsafe_code)]

use crate::{
    abi::own::ResizeStep,
    ffi::rdma::mmap::MmapEntry, //
};
use core::ops::DerefMut;
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Mutex, //
    },
};

/// Rings that a process had made, to map them before its queues move there; one set at most. They
/// are charged to the process as those in use are.
pub(crate) struct Made<M>(Option<M>);

impl<M> Made<M> {
    pub(crate) const NONE: Self = Self(None);

    /// Takes a step of a resize. Returns the rings that the queues are to move to, if they are to,
    /// which are not kept any more whatever becomes of that. Fails as `make`, or with `EINVAL` if
    /// none were made.
    pub(crate) fn take_step(
        &mut self,
        step: ResizeStep,
        make: impl FnOnce() -> Result<M>,
    ) -> Result<Option<M>> {
        match step {
            ResizeStep::Whole => make().map(Some),
            ResizeStep::Make => {
                self.0 = Some(make()?);
                Ok(None)
            }
            ResizeStep::Move => self.0.take().ok_or(EINVAL).map(Some),
        }
    }

    /// Frees them, as the queues are being destroyed.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

/// By what a process maps the ring of its queue; nothing for kernel consumers.
#[pin_data]
pub(crate) struct Offer<M> {
    /// Held while the queue is resized.
    #[pin]
    offered: Mutex<Offered<M>>,
}

/// What an [`Offer`] protects.
pub(crate) struct Offered<M> {
    pub(crate) entry: Option<MmapEntry>,
    pub(crate) made: Made<M>,
}

impl<M: Unpin> Offer<M> {
    pub(crate) fn new(entry: Option<MmapEntry>) -> impl PinInit<Self> {
        let offered = Offered {
            entry,
            made: Made::NONE,
        };
        pin_init!(Self {
            offered <- new_mutex!(offered, "rsiw::Offer::offered"),
        })
    }

    /// Returns the offset by which the process maps the ring, or 0.
    pub(crate) fn key(&self) -> u64 {
        self.offered().entry.as_ref().map_or(0, MmapEntry::key)
    }

    /// Returns what is offered, and keeps others from resizing the queue meanwhile.
    pub(crate) fn offered(&self) -> impl DerefMut<Target = Offered<M>> + '_ {
        self.offered.lock()
    }

    /// Ends the offer, as the queue is being destroyed. The memory stays while it is mapped.
    pub(crate) fn close(&self) {
        let mut offered = self.offered();
        offered.made.forget();
        if let Some(entry) = &offered.entry {
            entry.remove();
        }
    }
}
