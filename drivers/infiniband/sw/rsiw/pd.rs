// SPDX-License-Identifier: GPL-2.0

//! Protection domains and process contexts.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::{
    abi::own::Features,
    device::Device,
    limits::Quota,
    mr::PdId, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A process that has the device open.
pub(crate) struct Ucontext {
    pub(crate) features: Features,
}

/// A protection domain: regions and queue pairs of the same domain may be used together.
pub(crate) struct Pd {
    dev: Arc<Device>,
    id: PdId,
    /// Queue pairs of the domain. A region that more than one stream can reach must not be
    /// invalidated by a peer (RFC 5040 section 8.1.1).
    qps: Atomic<u32>,
    _quota: Quota,
}

impl Pd {
    /// Makes the domain that `id` is for. Returns `ENOMEM`, also if the device has all the domains
    /// it may have.
    pub(crate) fn new(dev: Arc<Device>, id: PdId) -> Result<Arc<Self>> {
        let quota = Quota::take(dev.limits(), |limits| &limits.pds)?;
        Ok(Arc::new(
            Self {
                dev,
                id,
                qps: Atomic::new(0),
                _quota: quota,
            },
            id.memory(),
        )?)
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.dev
    }

    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// Counts a queue pair that joins the domain.
    pub(crate) fn join(&self) {
        self.qps.fetch_add(1, Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.qps.fetch_sub(1, Relaxed);
    }

    /// Returns whether only one stream can reach the domain's regions.
    pub(crate) fn is_single_stream(&self) -> bool {
        self.qps.load(Relaxed) <= 1
    }
}
