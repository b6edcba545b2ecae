// SPDX-License-Identifier: GPL-2.0

//! Completion queues of processes, which poll and arm them in shared memory.
//!
//! The index of the next entry to fill is private. Entries are read back only to move them when the
//! queue is resized. Flags that user space writes decide only whether there is room and whether
//! someone waits (T-43).
//!
//! Context: any, under the queue's lock; creation and closing sleep.
#![forbid(unsafe_code)]

use super::{
    Completion,
    Overflow, //
};
use crate::abi::{
    notify,
    opcode,
    own,
    wc_status,
    wqe,
    CqCtrl,
    Cqe,
    Rings,
    GENERAL, //
};
use crate::ffi::mm::ring::{
    Entry,
    Position,
    SharedMemory,
    SharedRing,
    SharedWord, //
};
use crate::ffi::module::Loaded;
use crate::ffi::rdma::udata::{
    MmapEntry,
    Udata, //
};
use crate::ffi::time;
use crate::proto::receiver::Extra;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};

/// The most entries that are copied with interrupts off when a queue is resized.
const AT_A_TIME: u32 = 64;

/// The flags of an entry that has no completion.
const FREE: u8 = 0;
/// The flag of an entry that has a completion.
const VALID: u8 = wqe::VALID as u8; // CAST: 1.

/// The kind of entries in a process's queue.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) rings: Rings,
    /// Whether completions have time stamps; only own rings have room for them.
    pub(crate) timestamps: bool,
}

/// The kernel's end of a process's queue.
pub(super) struct UserRing {
    ring: SharedRing,
    kind: Kind,
    /// [`CqCtrl::flags`].
    armed: SharedWord,
    /// The next entry to fill.
    put: Position,
}

impl UserRing {
    /// Makes a ring of `entries` entries, a power of two, for the calling process, and the offer to
    /// map it.
    pub(super) fn new(
        entries: u32,
        kind: Kind,
        udata: &Udata<'_>,
        loaded: Loaded,
    ) -> Result<(Self, MmapEntry)> {
        let cqe = kind.rings.layout().cqe;
        let ctrl = cqe.times(entries)?;
        let len = ctrl.checked_add(size_of::<CqCtrl>()).ok_or(EINVAL)?;
        let mem = SharedMemory::new(len, loaded)?;
        let ring = Self {
            ring: SharedRing::new(mem.clone(), entries, cqe)?,
            kind,
            armed: SharedWord::new(mem.clone(), ctrl)?,
            put: Position::FIRST,
        };
        Ok((ring, MmapEntry::insert(udata, mem)?))
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Returns the word in which the process says what it waits for, for those who read it without
    /// the queue's lock; or `ENOMEM`. Sleeps.
    pub(super) fn armed(&self) -> Result<KBox<SharedWord>> {
        Ok(KBox::new(self.armed.clone(), GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the completions that wait at this moment. The process must not poll while it resizes
    /// the queue.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            ring: self.ring.clone(),
            end: self.put,
        }
    }

    /// Returns the number of entries that have come since `waiting` was made.
    pub(super) fn since(&self, waiting: &Waiting) -> u32 {
        self.put - waiting.end
    }

    /// Moves the queue to the ring `other`, to which `waiting` was copied before: copies the
    /// completions that came since, and what the process has asked to be told of. `other` is the
    /// old ring then. Does nothing if more than [`AT_A_TIME`] completions came since. Fails as
    /// [`Waiting::copy_to`].
    pub(super) fn go_on_in(&mut self, other: &mut Self, waiting: &Waiting) -> Result<Moved> {
        let since = self.since(waiting);
        if since > AT_A_TIME {
            return Ok(Moved::NotYet(since));
        }
        other.append(&self.ring, waiting.end, since)?;
        other.armed.store(self.armed.load());
        core::mem::swap(self, other);
        Ok(Moved::Yes)
    }

    /// Empties the old ring, whose entries from number `first` on have moved.
    pub(super) fn forget_from(&self, first: Position) {
        for n in 0..(self.put - first).min(self.ring.len()) {
            self.ring.entry(first + n).set_short_flags(FREE);
        }
    }

    /// Appends `n` entries of `from`, from number `first` on; at most [`AT_A_TIME`] under the lock.
    fn append(&mut self, from: &SharedRing, first: Position, n: u32) -> Result {
        match self.put.number().checked_add(n) {
            Some(end) if end <= self.ring.len() => {}
            _ => return Err(EINVAL),
        }
        for i in 0..n {
            // A process has rings of one kind, so the entries of both are equally long.
            let entry = self.ring.entry(self.put);
            entry.carry_over(from.entry(first + i));
            entry.set_short_flags(entry.short_flags() | VALID);
            self.put.advance();
        }
        Ok(())
    }

    /// Adds a completion. Returns whether the process waits for it.
    pub(super) fn add(&mut self, completion: &Completion) -> Result<bool, Overflow> {
        let entry = self.ring.entry(self.put);
        if entry.short_flags() != FREE {
            return Err(Overflow);
        }
        self.publish(entry, completion);
        self.put.advance();
        // The consumer arms the queue, then polls; this side adds the completion, then looks
        // whether the queue is armed. One of the two sees the other.
        smp_mb(Full);
        let notify = completion.fires(self.armed.load());
        if notify {
            // The process is told once for each time that it arms the queue.
            self.armed.store(notify::NOT);
        }
        Ok(notify)
    }

    #[inline]
    fn publish(&self, entry: Entry<'_>, completion: &Completion) {
        match self.kind.rings {
            Rings::Stock => entry.publish(&completion.to_cqe(), &[]),
            Rings::Own => {
                let times = match self.kind.timestamps {
                    true => [time::now(), time::wall()],
                    false => [0; 2],
                };
                let [timestamp, wallclock] = times;
                let sender = match completion.extra {
                    Extra::FromQp(num) | Extra::FromQpWithImmediate(num, _) => num,
                    _ => 0,
                };
                let behind = [timestamp, wallclock, sender.into(), 0];
                entry.publish(&completion.to_own_cqe(), &behind);
            }
        }
    }
}

/// Whether a queue goes on in another ring.
pub(super) enum Moved {
    Yes,
    /// This many completions have to be copied first, without the lock.
    NotYet(u32),
}

/// Completions that waited in a ring at the moment this was made.
pub(super) struct Waiting {
    ring: SharedRing,
    /// The entry behind the last.
    end: Position,
}

impl Waiting {
    /// Counts the completions. If newer ones have taken the places of some that were polled
    /// meanwhile, the newer ones are counted, too. Process context, no lock.
    pub(super) fn count(&self) -> u32 {
        // The process polls them in order, and clears their flags.
        let len = self.ring.len();
        let is_free = |found: &u32| self.ring.entry(self.end - *found - 1).short_flags() == FREE;
        (0..len).find(is_free).unwrap_or(len)
    }

    /// Copies the completions to the empty ring `to`, and returns the number of the first. `found`
    /// is what [`Waiting::count`] has returned, and `since` what [`UserRing::since`] has returned
    /// after that. Process context, no lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `to` is too small (V-CQ-12); nothing has changed then.
    pub(super) fn copy_to(&self, to: &mut UserRing, found: u32, since: u32) -> Result<Position> {
        // The completions that came since have taken the places of as many of the oldest, none of
        // which waited any more.
        let held = found.min(self.ring.len().saturating_sub(since));
        let first = self.end - held;
        to.append(&self.ring, first, held)?;
        Ok(first)
    }

    /// Copies the `since` completions that came meanwhile, too. Fails as [`Waiting::copy_to`].
    /// Process context, no lock.
    pub(super) fn catch_up(&mut self, to: &mut UserRing, since: u32) -> Result {
        to.append(&self.ring, self.end, since)?;
        self.end = self.end + since;
        Ok(())
    }
}

impl Completion {
    fn to_cqe(self) -> Cqe {
        // Stock entries have no room for Immediate Data.
        let (flags, inval_stag) = match self.extra {
            Extra::Invalidated(stag) => (wqe::VALID | wqe::REM_INVAL, stag.0),
            Extra::Nothing
            | Extra::Immediate(_)
            | Extra::WithImmediate(_)
            | Extra::FromQp(_)
            | Extra::FromQpWithImmediate(..) => (wqe::VALID, 0),
        };
        Cqe {
            id: self.id,
            flags: flags as u8, // CAST: the bits used are below 8.
            opcode: opcode::of(self.operation),
            // A status that was added later counts as a general error in stock entries.
            status: wc_status(self.status).min(GENERAL),
            bytes: self.bytes,
            inval_stag: u64::from(inval_stag),
            qp_id: u64::from(self.qp.0),
        }
    }

    fn to_own_cqe(self) -> own::CqeFront {
        let (flags, data) = match self.extra {
            Extra::Nothing => (wqe::VALID, 0),
            Extra::Invalidated(stag) => (wqe::VALID | wqe::REM_INVAL, stag.0),
            Extra::WithImmediate(data) => (
                wqe::VALID | own::WITH_IMM | own::OF_SEND,
                u32::from_ne_bytes(data),
            ),
            Extra::Immediate(data) => {
                (wqe::VALID | own::WITH_IMM, u32::from_ne_bytes(data.short()))
            }
            Extra::FromQp(_) => (wqe::VALID | own::OF_DATAGRAM, 0),
            Extra::FromQpWithImmediate(_, data) => (
                wqe::VALID | own::OF_DATAGRAM | own::WITH_IMM | own::OF_SEND,
                u32::from_ne_bytes(data),
            ),
        };
        own::CqeFront {
            id: self.id,
            flags: flags as u8, // CAST: the bits used are below 8.
            opcode: opcode::of(self.operation),
            status: wc_status(self.status),
            bytes: self.bytes,
            data: u64::from(data),
            qp_id: self.qp.0,
            vendor_err: self.cause.0,
        }
    }
}
