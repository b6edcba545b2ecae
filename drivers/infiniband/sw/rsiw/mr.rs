// SPDX-License-Identifier: GPL-2.0

//! Memory regions (draft-hilland-rddp-verbs section 7).
//!
//! A region is found by its STag in the device's [`StagTable`] and used through [`MrAccess`]: one
//! function checks STag, state, protection domain, rights and bounds, and what it returns is inside
//! the region's gate until it is dropped. Deregistration takes the STag away, closes the gate and
//! waits (T-20), so no byte is touched afterwards, whoever still has a reference to the region.
//!
//! Context: access in any context, registration and deregistration sleep.
#![forbid(unsafe_code)]

pub(crate) mod access;
mod permute;
mod range;
pub(crate) mod table;

use self::{
    access::{
        Access,
        MrError, //
    },
    range::Range,
    table::StagTable, //
};
use crate::{
    ffi::rdma::{
        driver::MrInit,
        handle::DeviceHandle,
        umem::Umem, //
    },
    sync::gate::{
        Gate,
        Gated, //
    },
    wire::ddp::Stag,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
};

/// Zero-based addressing: the first byte has tagged offset 0 (`IB_ZERO_BASED`).
const ZERO_BASED: u32 = 1 << 5;

/// Number of a protection domain, unique in its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(pub(crate) u32);

/// What a region consists of.
enum Kind {
    /// Memory of a process.
    User(Pin<KBox<Umem>>),
}

/// A memory region.
///
/// May be dropped in softirq once it was deregistered.
pub(crate) struct Mr {
    /// Set before the region gets into the table.
    stag: Atomic<u32>,
    pd: PdId,
    access: Access,
    range: Range,
    /// The peer invalidated the STag.
    invalid: AtomicFlag,
    kind: Kind,
}

impl Gated for Mr {
    fn gate(&self) -> &Gate {
        match &self.kind {
            Kind::User(umem) => umem.gate(),
        }
    }
}

impl Mr {
    /// Registers memory of the calling process and makes it known under a new STag with `key`.
    ///
    /// The table has a reference from here on: only [`Mr::deregister`] undoes this.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty region or one whose addresses wrap, `ENOMEM`, and what pinning says
    /// (see [`Umem::pin`]).
    pub(crate) fn register_user(
        device: &DeviceHandle,
        table: &StagTable,
        pd: PdId,
        init: &MrInit,
        key: u8,
    ) -> Result<Arc<Self>> {
        let base = if init.access & ZERO_BASED == 0 {
            init.iova
        } else {
            0
        };
        let range = Range::new(base, init.length).ok_or(EINVAL)?;
        let umem = Umem::pin(device, init.start, init.length, init.access)?;
        let mr = Arc::new(
            Self {
                stag: Atomic::new(0),
                pd,
                access: Access::from_verbs(init.access),
                range,
                invalid: AtomicFlag::new(false),
                kind: Kind::User(umem),
            },
            GFP_KERNEL,
        )?;
        table.insert(&mr, key)?;
        Ok(mr)
    }

    /// Ends all access: takes the STag away and waits for those who use the memory now, then gives
    /// the memory back. Sleeps.
    pub(crate) fn deregister(&self, table: &StagTable) {
        table.remove(self.stag());
        match &self.kind {
            Kind::User(umem) => umem.release(),
        }
    }

    /// The STag; local and remote key at once.
    pub(crate) fn stag(&self) -> Stag {
        Stag(self.stag.load(Relaxed))
    }

    /// Makes the STag invalid on behalf of a peer (T-21): key, domain and a remote right must be
    /// there. Accesses in progress end as they began. Any context.
    ///
    /// # Errors
    ///
    /// Which of them is not.
    fn invalidate(&self, stag: Stag, pd: PdId) -> Result<(), MrError> {
        if stag != self.stag() {
            return Err(MrError::Invalid);
        }
        if pd != self.pd {
            return Err(MrError::Pd);
        }
        let remote = [Access::REMOTE_READ, Access::REMOTE_WRITE];
        if !remote.iter().any(|right| self.access.contains(*right)) {
            return Err(MrError::Access);
        }
        self.invalid.store(true, Relaxed);
        Ok(())
    }

    /// Whether the `len` octets at `addr` may be used like this. Returns their offset.
    ///
    /// The caller is inside the gate. Lengths of zero are not for this function (T-23).
    fn check(
        &self,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<u64, MrError> {
        if stag != self.stag() || self.invalid.load(Relaxed) {
            return Err(MrError::Invalid);
        }
        if pd != self.pd {
            return Err(MrError::Pd);
        }
        if !self.access.contains(want) {
            return Err(MrError::Access);
        }
        Ok(self.range.locate(addr, len)?)
    }
}
