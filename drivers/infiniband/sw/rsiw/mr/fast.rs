// SPDX-License-Identifier: GPL-2.0

//! Fast registration (draft-hilland-rddp-verbs section 7.3.2.5).
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    access::Access,
    range::Range,
    Grant,
    Kind,
    Mr,
    PdId, //
};
use crate::{
    ffi::{
        rdma::wr::Registration,
        sync::gate::PAUSE, //
    },
    wire::ddp::Stag, //
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed,
    time::delay::fsleep, //
};

/// Why a registration is refused (V-WC-9, V-WC-17 to 19).
#[derive(Debug)]
pub(crate) enum FastError {
    /// The STag is no fast-register region's, or names another region.
    Stag,
    /// The region belongs to another protection domain.
    Pd,
    /// The region is valid already.
    Valid,
    /// A combination of rights that a region cannot have.
    Access,
    /// More than the list holds, or nothing at all.
    Length,
    /// The address is not at the same place in a page as the first byte, or wraps.
    Address,
    /// The memory of an earlier registration is still in use, and the caller must not wait. The new
    /// registration can be made later.
    Busy(Registration),
}

impl Mr {
    /// Registers what was mapped last, on behalf of a QP in `pd`. Waits for those who still use the
    /// memory of an earlier registration, if it may.
    ///
    /// On an error the region stays as it is, but after `Length` and `Address` it has no key any
    /// more that a peer may invalidate.
    pub(crate) fn register_fast(
        &self,
        pd: PdId,
        mut wr: Registration,
        may_wait: bool,
    ) -> Result<(), FastError> {
        let Kind::Fast(memory) = &self.kind else {
            return Err(FastError::Stag);
        };
        let stag = Stag(wr.stag);
        if stag.index() != self.stag().index() || !memory.is_meant(&wr) {
            return Err(FastError::Stag);
        }
        if pd != self.pd {
            return Err(FastError::Pd);
        }
        // If a window was being bound while the peer invalidated the region, it stands for the
        // earlier registration.
        if self.valid.load(Relaxed) || self.windows.any() {
            return Err(FastError::Valid);
        }
        let access = Access::from_verbs(wr.access);
        if !access.is_legal() || !Access::are_known(wr.access) {
            return Err(FastError::Access);
        }
        let (iova, wanted) = (wr.iova, wr.len);
        let range = Range::new(iova, wanted).ok_or(FastError::Length)?;
        let grant = |len: u64, page_offset: Option<(u64, u64)>| {
            if wanted > len {
                return Err(FastError::Length);
            }
            if page_offset.is_some_and(|(offset, mask)| iova & mask != offset) {
                return Err(FastError::Address);
            }
            // Nobody is inside the gate. Whoever goes in next, perhaps to invalidate the region,
            // finds both: that it is valid, and what it grants.
            self.valid.store(true, Relaxed);
            Ok(Grant {
                stag,
                access,
                range,
            })
        };
        loop {
            wr = match memory.try_register(wr, grant) {
                Ok(result) => return result,
                Err(_) if memory.is_closed() => return Err(FastError::Stag),
                Err(later) if !may_wait => return Err(FastError::Busy(later)),
                Err(later) => later,
            };
            fsleep(PAUSE);
        }
    }
}
