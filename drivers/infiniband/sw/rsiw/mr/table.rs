// SPDX-License-Identifier: GPL-2.0

//! The STags of a device (draft-hilland-rddp-verbs section 7.2).
//!
//! An STag is 24 bits of index, ours, and 8 bits of key, the consumer's. Index 0 is never used, so
//! that STag 0 stays free. Lookup takes no lock.
//!
//! Context: lookup in any context, the rest sleeps.
#![forbid(unsafe_code)]

use super::access::{
    Access,
    MrAccess,
    MrError, //
};
use super::permute::{
    permute,
    INDEX_BITS, //
};
use super::{
    Mr,
    PdId, //
};
use crate::ffi::hash::SipKey;
use crate::ffi::module::Loaded;
use crate::ffi::sync::rcu_table::RcuTable;
use crate::wire::ddp::Stag;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;

/// Regions that a device may have at a time: one index in sixteen, so that a guess rarely hits.
pub(crate) const MAX_MR: u32 = 1 << (INDEX_BITS - 4);

/// How many indices are tried for a region. At most one in sixteen is taken, in no order.
const ATTEMPTS: usize = 64;

/// The regions of a device by STag.
#[pin_data]
pub(crate) struct StagTable {
    #[pin]
    regions: RcuTable<Mr>,
    key: SipKey,
    /// Counts the indices given out.
    next: Atomic<u32>,
    count: Atomic<u32>,
}

impl StagTable {
    pub(crate) fn new(loaded: Loaded) -> Result<impl PinInit<Self>> {
        let regions = RcuTable::with_places(loaded)?;
        Ok(pin_init!(Self {
            regions <- regions,
            key: SipKey::random(),
            next: Atomic::new(0),
            count: Atomic::new(0),
        }))
    }

    /// Gives `mr` an STag with `key` and enters it, with memory allocated by `flags`. Returns
    /// `ENOMEM`, also if there are [`MAX_MR`] regions.
    pub(super) fn insert(&self, mr: &Arc<Mr>, key: u8, flags: Flags) -> Result {
        if self.count.fetch_add(1, Relaxed) >= MAX_MR {
            self.count.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        let ret = self.try_insert(mr, key, flags);
        if ret.is_err() {
            self.count.fetch_sub(1, Relaxed);
        }
        ret
    }

    fn try_insert(&self, mr: &Arc<Mr>, key: u8, flags: Flags) -> Result {
        for _ in 0..ATTEMPTS {
            let index = permute(self.next.fetch_add(1, Relaxed), |v| self.key.hash(v));
            if index == 0 {
                continue;
            }
            mr.stag.store(Stag::new(index, key).0, Relaxed);
            match self.regions.insert(index, mr.clone(), flags) {
                Err(e) if e == EBUSY => {}
                done => return done,
            }
        }
        Err(ENOMEM)
    }

    pub(super) fn remove(&self, stag: Stag) {
        if self.regions.remove(stag.index()).is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the region with the index of `stag`, whatever its key and state.
    #[inline(always)]
    pub(crate) fn lookup(&self, stag: Stag) -> Option<Arc<Mr>> {
        self.regions.lookup(stag.index())
    }

    /// Finds a region and checks an access to it; see [`MrAccess::new`].
    pub(crate) fn access(
        &self,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let mr = self.lookup(stag).ok_or(MrError::Invalid)?;
        MrAccess::new(mr, stag, pd, want, addr, len)
    }
}
