// SPDX-License-Identifier: GPL-2.0

//! The offer to map the ring of a completion queue or a shared receive queue.
//!
//! Context: process; sleeps.
#![forbid(unsafe_code)]

use crate::ffi::rdma::mmap::MmapEntry;
use core::ops::DerefMut;
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Mutex, //
    },
};

/// By what a process maps the ring of its queue; nothing for kernel consumers.
#[pin_data]
pub(crate) struct Offer {
    /// Held while the queue is resized.
    #[pin]
    entry: Mutex<Option<MmapEntry>>,
}

impl Offer {
    pub(crate) fn new(entry: Option<MmapEntry>) -> impl PinInit<Self> {
        pin_init!(Self {
            entry <- new_mutex!(entry, "rsiw::Offer::entry"),
        })
    }

    /// Returns the offset by which the process maps the ring, or 0.
    pub(crate) fn key(&self) -> u64 {
        self.entry().as_ref().map_or(0, MmapEntry::key)
    }

    /// Returns the entry, and keeps others from resizing the queue meanwhile.
    pub(crate) fn entry(&self) -> impl DerefMut<Target = Option<MmapEntry>> + '_ {
        self.entry.lock()
    }

    /// Ends the offer, as the queue is being destroyed. The memory stays while it is mapped.
    pub(crate) fn close(&self) {
        if let Some(entry) = &*self.entry() {
            entry.remove();
        }
    }
}
