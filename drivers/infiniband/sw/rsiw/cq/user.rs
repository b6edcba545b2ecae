// SPDX-License-Identifier: GPL-2.0

//! Completion queues of processes, which poll and arm them in shared memory.
//!
//! The index of the next entry to fill is private, entries are never read back, and the flags of
//! user space decide nothing but whether there is room and whether someone waits (T-43).
//!
//! Context: any, under the queue's lock; creation and closing sleep.
#![forbid(unsafe_code)]

use super::{
    Completion,
    Overflow, //
};
use crate::{
    abi::{
        notify,
        opcode,
        wc_status,
        wqe,
        CqCtrl,
        Cqe, //
    },
    ffi::{
        module::Loaded,
        rdma::{
            mmap::MmapEntry,
            udata::Udata, //
        },
        ring::{
            SharedRing,
            SharedWord, //
        },
        shmem::SharedMemory,
    },
    proto::receiver::Extra,
};
use core::mem::size_of;
use kernel::{
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full, //
    },
};

/// The kernel's end of a process's queue.
pub(super) struct UserRing {
    ring: SharedRing<Cqe>,
    /// [`CqCtrl::flags`].
    armed: SharedWord,
    /// Number of the next entry; wraps.
    put: u32,
}

impl UserRing {
    /// Makes a ring of `entries` entries, a power of two, for the process that makes the call, and
    /// the offer to map it.
    pub(super) fn new(
        entries: u32,
        udata: &Udata<'_>,
        loaded: Loaded,
    ) -> Result<(Self, MmapEntry)> {
        let ctrl = SharedRing::<Cqe>::bytes(entries)?;
        let len = ctrl.checked_add(size_of::<CqCtrl>()).ok_or(EINVAL)?;
        let mem = SharedMemory::new(len, loaded)?;
        let ring = Self {
            ring: SharedRing::new(mem.clone(), entries)?,
            armed: SharedWord::new(mem.clone(), ctrl)?,
            put: 0,
        };
        Ok((ring, MmapEntry::insert(udata, mem)?))
    }

    /// The word in which the process says what it waits for, by flags of [`notify`], for those who
    /// read it without the queue's lock. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn armed(&self) -> Result<KBox<SharedWord>> {
        Ok(KBox::new(self.armed.clone(), GFP_KERNEL_ACCOUNT)?)
    }

    /// What the process waits for: flags of [`notify`](crate::abi::notify).
    pub(super) fn armed_for(&self) -> u32 {
        self.armed.load()
    }

    /// What waits for the process at this moment. The process does not poll while it resizes the
    /// queue.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            ring: self.ring.clone(),
            end: self.put,
        }
    }

    /// Number of entries that have come since `waiting` was made.
    pub(super) fn since(&self, waiting: &Waiting) -> u32 {
        self.put.wrapping_sub(waiting.end)
    }

    /// Goes on in `other`, to which `waiting` was copied, with what came since and with the arming;
    /// `other` becomes the old ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is too small (V-CQ-12); nothing has changed then.
    pub(super) fn go_on_in(&mut self, other: &mut Self, waiting: &Waiting) -> Result {
        let since = self.since(waiting);
        other.append(&self.ring, waiting.end, since)?;
        other.armed.store(self.armed.load());
        core::mem::swap(self, other);
        Ok(())
    }

    /// Makes an old ring empty: its entries from number `first` on live on elsewhere.
    pub(super) fn forget_from(&self, first: u32) {
        for n in 0..self.put.wrapping_sub(first).min(self.ring.len()) {
            self.ring.set_flags(first.wrapping_add(n), 0);
        }
    }

    /// Appends `n` entries of `from`, from number `first` on.
    fn append(&mut self, from: &SharedRing<Cqe>, first: u32, n: u32) -> Result {
        match self.put.checked_add(n) {
            Some(end) if end <= self.ring.len() => {}
            _ => return Err(EINVAL),
        }
        for i in 0..n {
            let mut cqe = from.read(first.wrapping_add(i));
            cqe.flags |= wqe::VALID as u8; // CAST: 1.
            self.ring.publish(self.put, &cqe);
            self.put = self.put.wrapping_add(1);
        }
        Ok(())
    }

    /// Adds a completion. Returns whether the process waits for one like this.
    pub(super) fn add(&mut self, completion: &Completion) -> Result<bool, Overflow> {
        let index = self.put;
        if self.ring.flags(index) != 0 {
            return Err(Overflow);
        }
        self.ring.publish(index, &completion.to_cqe());
        self.put = index.wrapping_add(1);
        // The consumer arms, then polls; we publish, then look whether it armed. One of the two
        // sees the other.
        smp_mb(Full);
        let notify = completion.fires(self.armed.load());
        if notify {
            // One call per arming.
            self.armed.store(notify::NOT);
        }
        Ok(notify)
    }
}

/// Completions that wait in a ring, up to the moment in which this was made.
pub(super) struct Waiting {
    ring: SharedRing<Cqe>,
    /// Number of the entry behind the last.
    end: u32,
}

impl Waiting {
    /// Counts them. Where the ring has filled meanwhile, those that came since are counted too:
    /// they are where older ones had been polled. Process context, no lock.
    pub(super) fn count(&self) -> u32 {
        // The process polls them in order, and clears their flags.
        let mut found: u32 = 0;
        while found < self.ring.len() {
            let last = self.end.wrapping_sub(found).wrapping_sub(1);
            if self.ring.flags(last) == 0 {
                break;
            }
            found = found.saturating_add(1);
        }
        found
    }

    /// Copies them to the empty ring `to`. `found` is what [`Waiting::count`] has returned, and
    /// `since` what [`UserRing::since`] has afterwards. Returns the number of the first. Process
    /// context, no lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is too small (V-CQ-12); nothing has changed then.
    pub(super) fn copy_to(&self, to: &mut UserRing, found: u32, since: u32) -> Result<u32> {
        // What came since took the places of as many of the oldest, none of which waited.
        let held = found.min(self.ring.len().saturating_sub(since));
        let first = self.end.wrapping_sub(held);
        to.append(&self.ring, first, held)?;
        Ok(first)
    }
}

impl Completion {
    /// The entry that reports this.
    fn to_cqe(self) -> Cqe {
        // Immediate Data is for consumers in the kernel only.
        let (flags, inval_stag) = match self.extra {
            Extra::Invalidated(stag) => (wqe::VALID | wqe::REM_INVAL, stag.0),
            Extra::Nothing | Extra::Immediate(_) => (wqe::VALID, 0),
        };
        Cqe {
            id: self.id,
            flags: flags as u8, // CAST: the bits used are below 8.
            opcode: opcode::of(self.operation),
            status: wc_status(self.status),
            bytes: self.bytes,
            inval_stag: u64::from(inval_stag),
            qp_id: u64::from(self.qp.0),
        }
    }
}
