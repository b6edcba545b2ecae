// SPDX-License-Identifier: GPL-2.0

//! Pages that hold octets on their way through TCP, and come back when TCP is done with them.
//!
//! C header: [`include/linux/gfp.h`](srctree/include/linux/gfp.h)
//!
//! Context: process.

use crate::ffi::{
    mm::page::PageSlice,
    raw::{
        b,
        h, //
    },
};
use core::{
    num::Saturating,
    ptr::NonNull, //
};
use kernel::{
    alloc::Flags,
    new_spinlock,
    num::casts::IntoSafeCast,
    page::PAGE_SIZE,
    prelude::*,
    sync::SpinLock, //
};

/// How many chunks a pool keeps: what TCP connections at full speed have under way.
const MAX_POOLED: usize = 128;

/// Length of most chunks, in octets.
const LONG_LEN: u32 = 32 * 1024;
/// Length of a connection's first chunk, and of others where long ones are not easily had: a page.
///
/// CAST: no page has more octets than `u32` counts.
pub(crate) const SHORT_LEN: u32 = PAGE_SIZE as u32;

/// How often a page is filled that was taken for want of a long chunk. That saves most of the
/// clearing, and when memory is less fragmented the pool soon has long chunks again.
const SHORT_FILLS: u32 = 16;

/// A run of pages.
///
/// # Invariants
///
/// `page` is the head of a run of `len` octets of initialised memory from `base` on, to which this
/// value has a reference. Others with a reference only read, and only octets that
/// [`Chunk::page`] was used to send.
pub(crate) struct Chunk {
    page: NonNull<b::page>,
    base: NonNull<u8>,
    len: u32,
    /// How often the chunk may still be filled before it goes back to the allocator.
    fills: Saturating<u32>,
}

// SAFETY: pages may be used from any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Allocates a chunk of `len` octets, a power of two, or of a page if so many are not easily
    /// had. With `may_wait` it may sleep, but does not wait for block devices and file systems:
    /// they may be who sends.
    pub(crate) fn new(mut len: u32, may_wait: bool) -> Result<Self> {
        // SAFETY: `len` is writable.
        let page = NonNull::new(unsafe { h::tx_pages_alloc(&mut len, may_wait) }).ok_or(ENOMEM)?;
        // SAFETY: the page is new, and not in high memory: it has an address.
        let base = unsafe { NonNull::new_unchecked(h::page_address(page.as_ptr())) }.cast();
        // INVARIANT: the run is new and zeroed, and the reference to it is ours.
        Ok(Self {
            page,
            base,
            len,
            // For long ones practically without limit.
            fills: Saturating(match len < LONG_LEN {
                true => SHORT_FILLS,
                false => u32::MAX,
            }),
        })
    }

    /// Allocates the first chunk of a connection: a page, which no pool keeps, as most connections
    /// send a little at first, and many never more. May sleep as [`Chunk::new`] does.
    pub(super) fn first(may_wait: bool) -> Result<Self> {
        let mut chunk = Self::new(SHORT_LEN, may_wait)?;
        chunk.fills.0 = 1;
        Ok(chunk)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the head of the run, for one who takes a reference of its own.
    pub(super) fn page(&self) -> *mut b::page {
        self.page.as_ptr()
    }

    /// Counts a filling. Returns whether there may be another one.
    fn was_filled(&mut self) -> bool {
        self.fills -= 1;
        self.fills.0 > 0
    }

    /// Returns whether nobody else has a reference, so that the octets may be replaced.
    fn is_unused(&self) -> bool {
        // SAFETY: the page is live by the type invariants.
        unsafe { h::page_is_sole(self.page.as_ptr()) }
    }

    /// Returns the address of octet `at`, if the chunk has `len` octets from there on.
    fn range(&self, at: u32, len: u32) -> Result<*mut u8> {
        if at.checked_add(len).ok_or(EINVAL)? > self.len {
            return Err(EINVAL);
        }
        Ok(self.base.as_ptr().wrapping_add(at.into_safe_cast()))
    }

    pub(super) fn octets(&self, from: u32, to: u32) -> Result<&[u8]> {
        let len = to.checked_sub(from).ok_or(EINVAL)?;
        let ptr = self.range(from, len)?;
        // SAFETY: initialised; others with a reference only read, this value writes by `&mut` only.
        Ok(unsafe { core::slice::from_raw_parts(ptr, len.into_safe_cast()) })
    }

    /// As [`Chunk::octets`], to be written; nobody may be reading them.
    #[inline]
    pub(super) fn octets_mut(&mut self, from: u32, to: u32) -> Result<&mut [u8]> {
        let len = to.checked_sub(from).ok_or(EINVAL)?;
        let ptr = self.range(from, len)?;
        // SAFETY: the run is initialised, and this value is borrowed mutably. Others with a
        // reference only read what was sent, which these octets were not, or not any more.
        Ok(unsafe { core::slice::from_raw_parts_mut(ptr, len.into_safe_cast()) })
    }

    /// Writes `bytes` from octet `at` on, which nobody may be reading. Returns `EINVAL`, and writes
    /// nothing, if they do not fit.
    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Result {
        let ptr = self.range(at, u32::try_from(bytes.len())?)?;
        // SAFETY: the chunk has the octets; `bytes` is elsewhere, as `self` is borrowed mutably.
        unsafe { ptr.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// As [`Chunk::write`], from memory that others may write meanwhile: each octet is read once.
    pub(super) fn write_pages(&mut self, at: u32, from: &PageSlice<'_>) -> Result {
        let end = at.checked_add(from.len()).ok_or(EINVAL)?;
        from.copy_out(self.octets_mut(at, end)?)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the reference is this value's, and not used any more.
        unsafe { h::put_page(self.page.as_ptr()) };
    }
}

/// A ring of chunks.
///
/// # Invariants
///
/// The `len` slots from `oldest` on have chunks, and no others.
pub(super) struct ChunkRing {
    slots: KVec<Option<Chunk>>,
    oldest: usize,
    len: Saturating<usize>,
}

impl ChunkRing {
    pub(super) fn new(max: usize, flags: Flags) -> Result<Self> {
        let mut slots = KVec::with_capacity(max, flags)?;
        for _ in 0..max {
            slots.push_within_capacity(None).map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            slots,
            oldest: 0,
            len: Saturating(0),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len.0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len.0 >= self.slots.len()
    }

    /// Returns the slot of chunk `i`, counted from the oldest.
    fn slot(&self, i: usize) -> usize {
        let slot = self.oldest.wrapping_add(i);
        slot.checked_sub(self.slots.len()).unwrap_or(slot)
    }

    pub(super) fn get(&self, i: usize) -> Option<&Chunk> {
        self.slots.get(self.slot(i))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, i: usize) -> Option<&mut Chunk> {
        let slot = self.slot(i);
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Puts a chunk in. Returns the oldest if there was no room.
    pub(super) fn push(&mut self, chunk: Chunk) -> Option<Chunk> {
        let slot = self.slot(self.len.0);
        let left = self.slots.get_mut(slot)?.replace(chunk);
        if left.is_some() {
            self.oldest = self.slot(1);
        } else {
            // INVARIANT: the slot had none; there are at most as many as slots.
            self.len += 1;
        }
        left
    }

    pub(super) fn pop_if(&mut self, may: impl FnOnce(&Chunk) -> bool) -> Option<Chunk> {
        let chunk = self
            .slots
            .get_mut(self.oldest)?
            .take_if(|chunk| may(chunk))?;
        // INVARIANT: the oldest is gone, and was counted.
        self.oldest = self.slot(1);
        self.len -= 1;
        Some(chunk)
    }

    pub(super) fn pop(&mut self) -> Option<Chunk> {
        self.pop_if(|_| true)
    }
}

/// Chunks that were sent, oldest first. Once TCP has let go of them they are filled again, which
/// saves the allocator the work of clearing them. Whoever paid for a chunk pays until it goes back to
/// the allocator, although others may fill it meanwhile.
#[pin_data]
pub(crate) struct ChunkPool {
    #[pin]
    sent: SpinLock<ChunkRing>,
}

impl ChunkPool {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            sent <- new_spinlock!(ChunkRing::new(MAX_POOLED, GFP_KERNEL)?, "rsiw::ChunkPool::sent"),
        })
    }

    /// Takes the oldest chunk out, if it is unused, or allocates one.
    pub(crate) fn take(&self, may_wait: bool) -> Result<Chunk> {
        let unused = self.sent.lock().pop_if(Chunk::is_unused);
        unused.map_or_else(|| Chunk::new(LONG_LEN, may_wait), Ok)
    }

    /// Takes back a chunk, to which TCP may still have references.
    pub(crate) fn give(&self, mut chunk: Chunk) {
        if !chunk.was_filled() {
            return;
        }
        let oldest = self.sent.lock().push(chunk);
        // Not under the lock.
        drop(oldest);
    }
}
