// SPDX-License-Identifier: GPL-2.0

//! Counting the slots of a queue that are taken.
//!
//! Context: any; creation sleeps.
#![forbid(unsafe_code)]

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Slots of a queue that are taken. A request has one until the consumer has polled its completion,
/// or until it succeeded if it makes none (V-WR-6 to 8, V-SRQ-10).
pub(crate) struct Slots(Atomic<u32>);

impl Slots {
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), GFP_KERNEL)?)
    }

    pub(super) fn taken(&self) -> usize {
        u32_as_usize(self.0.load(Relaxed))
    }

    pub(super) fn take(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Frees a slot.
    pub(crate) fn free(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
