// SPDX-License-Identifier: GPL-2.0

//! Rings that a process shares: making rings of requests, offering to map a ring, and moving what
//! waits in a ring to another one.
//!
//! Entries keep their numbers when they move. The kernel may take entries meanwhile, but the
//! process must add none. If it does, or writes into entries that are there, it loses or changes
//! requests of its own, and nothing else.
//!
//! Context: process, without a spin lock, if a method does not say otherwise.
#![forbid(unsafe_code)]

use crate::abi::own::{
    ResizeStep,
    RqCtrl, //
};
use crate::abi::wqe;
use crate::ffi::mm::ring::{
    EntryLen,
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
use core::mem::size_of;
use core::ops::DerefMut;
use kernel::prelude::*;
use kernel::sync::{
    new_mutex,
    Arc,
    Mutex, //
};

/// The most entries that are forgotten at a time with interrupts off.
const AT_A_TIME: u32 = 64;

/// Makes a ring of at least `depth` entries, of `len` each, for the calling process, and the offer
/// to map it. Returns `EINVAL` for more entries than can be counted.
pub(crate) fn new_ring(
    len: EntryLen,
    depth: u32,
    udata: &Udata<'_>,
    loaded: Loaded,
) -> Result<(SharedRing, MmapEntry)> {
    let (ring, mem) = with_room_behind(len, depth, 0, loaded)?;
    Ok((ring, MmapEntry::insert(udata, mem)?))
}

/// The ring of a queue pair's own receive queue; the word of the [`RqCtrl`] behind its entries, if
/// there is one; and the offer to map both.
pub(crate) type RecvRing = (SharedRing, Option<SharedWord>, MmapEntry);

/// Like [`new_ring`], with an [`RqCtrl`] behind the entries if the process knows of it.
pub(crate) fn new_recv_ring(
    len: EntryLen,
    depth: u32,
    has_word: bool,
    udata: &Udata<'_>,
    loaded: Loaded,
) -> Result<RecvRing> {
    if !has_word {
        let (ring, offer) = new_ring(len, depth, udata, loaded)?;
        return Ok((ring, None, offer));
    }
    let (ring, mem) = with_room_behind(len, depth, size_of::<RqCtrl>(), loaded)?;
    let word = SharedWord::new(mem.clone(), len.times(ring.len())?)?;
    Ok((ring, Some(word), MmapEntry::insert(udata, mem)?))
}

fn with_room_behind(
    len: EntryLen,
    depth: u32,
    behind: usize,
    loaded: Loaded,
) -> Result<(SharedRing, Arc<SharedMemory>)> {
    // The library maps each ring, so there has to be something to map.
    let entries = depth.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
    let bytes = len.times(entries)?.checked_add(behind);
    let mem = SharedMemory::new(bytes.ok_or(EINVAL)?, loaded)?;
    Ok((SharedRing::new(mem.clone(), entries, len)?, mem))
}

/// Returns how many entries in a row are valid from number `first` on, at most `most`. Any context.
pub(crate) fn valid_from(ring: &SharedRing, first: Position, most: u32) -> u32 {
    let is_valid = |n: u32| ring.entry(first + n).flags() & wqe::VALID != 0;
    (0..most).find(|n| !is_valid(*n)).unwrap_or(most)
}

/// A ring, and a new one to which the entries that wait are copied. Entries that are taken out of
/// the old ring meanwhile are forgotten in the copy. Once few such entries are left, the new ring
/// can take the place of the old one.
pub(crate) struct Moving {
    from: SharedRing,
    to: SharedRing,
    /// Number of the first entry that is in both.
    first: Position,
    /// Number of the entry behind the last one that was copied.
    end: Position,
}

impl Moving {
    /// Begins to move to the empty ring `to`, whose entries are as long; `taken` is the number of
    /// the next entry that is taken out of `from`. Any context.
    pub(crate) fn new(from: SharedRing, to: SharedRing, taken: Position) -> Self {
        Self {
            from,
            to,
            first: taken,
            end: taken,
        }
    }

    /// Copies the entries that wait; `taken` returns the number of the next entry that is taken
    /// out. Returns `EINVAL` if the new ring has too little room, or if more was posted meanwhile,
    /// or the error of `taken`.
    pub(crate) fn copy(&mut self, mut taken: impl FnMut() -> Result<Position>) -> Result {
        let (begin, len) = (self.first, self.from.len());
        loop {
            let seen = self.end - begin;
            let unseen = len.checked_sub(seen).ok_or(EINVAL)?;
            let more = valid_from(&self.from, self.end, unseen);
            self.end = self.end + more;
            self.first = taken()?;
            let since = self.first - begin;
            if since > len {
                return Err(EINVAL);
            }
            if since <= self.end - begin {
                break;
            }
            // The search ended at an entry that had been taken, behind which there may be others.
            self.end = self.first;
        }
        let waiting = self.end - self.first;
        if waiting > self.to.len() {
            return Err(EINVAL);
        }
        for n in 0..waiting {
            let at = self.first + n;
            self.to.entry(at).carry_over(self.from.entry(at));
        }
        Ok(())
    }

    /// Returns how many copied entries were taken meanwhile; `taken` is the next one to be taken.
    fn stale(&self, taken: Position) -> u32 {
        let copied = self.end - self.first;
        (taken - self.first).min(copied)
    }

    /// Forgets the entries that were taken; `taken` is the next one to be taken. Any context.
    pub(crate) fn forget(&mut self, taken: Position) {
        // Bound: [`AT_A_TIME`] under a lock: see [`Moving::finish`].
        for _ in 0..self.stale(taken) {
            self.to.entry(self.first).set_flags(0);
            self.first.advance();
        }
    }

    /// Puts the new ring in the place of `ring`, of which `taken` is the next entry to be taken.
    /// Returns whether that was done: if not, there is more to forget first. The old ring is here
    /// afterwards, to be dropped without a lock. Any context, under the queue's lock.
    pub(crate) fn finish(&mut self, ring: &mut SharedRing, taken: Position) -> bool {
        if self.stale(taken) > AT_A_TIME {
            return false;
        }
        self.forget(taken);
        core::mem::swap(ring, &mut self.to);
        true
    }
}

/// Rings that were made for a process, which maps them before its queues move there; at most one
/// set. They are charged to the process like those in use.
pub(crate) struct Made<M>(Option<M>);

impl<M> Made<M> {
    pub(crate) const NONE: Self = Self(None);

    /// Takes a step of a resize. Returns the rings to which the queues move in this step, if the
    /// step is a move. Those rings are not kept here any more, even if the move fails. Fails as
    /// `make` does, or with `EINVAL` if no rings were made.
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

/// The offer by which a process maps the ring of its queue; empty for kernel consumers.
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
