// SPDX-License-Identifier: GPL-2.0

//! Octets to be sent in one call, and the pages that hold them on their way through TCP, which come
//! back when TCP is done with them.
//!
//! C header: [`include/linux/gfp.h`](srctree/include/linux/gfp.h)
//!
//! Context: process.

use crate::ffi::mm::page::PageSlice;
use crate::ffi::raw::{
    b,
    h, //
};
use crate::num::{
    Broken,
    Length, //
};
use core::num::{
    Saturating,
    Wrapping, //
};
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::new_spinlock;
use kernel::num::casts::{
    FromSafeCast,
    IntoSafeCast, //
};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    SpinLock, //
};

/// Octets to be sent, in order. Each is copied once: so what TCP sends, and may have to send again,
/// is what a checksum over [`TxBatch::since`] was made of, even if the sources change meanwhile.
///
/// The octets lie in chunks of which TCP takes references instead of copies. Octets that left the
/// batch are not written again as long as TCP may read them.
pub(crate) struct TxBatch {
    pool: Arc<ChunkPool>,
    /// What is left to send, from octet `begin` of the first chunk to octet `end` of the chunk
    /// `last`, and room for more behind that.
    chunks: ChunkRing,
    begin: u32,
    last: usize,
    end: u32,
    /// Length of the chunk `last`.
    limit: u32,
    remaining: usize,
    /// Octets that left the batch, as a sequence number.
    gone: Wrapping<u64>,
    /// What is left to send, for C; rebuilt for each call.
    bvecs: KVec<b::bio_vec>,
}

// SAFETY: the pages that the list for C names may be used from any thread.
unsafe impl Send for TxBatch {}

/// A place in a batch, valid until octets behind it have left: the sequence number of its octet.
#[derive(Clone, Copy)]
pub(crate) struct Mark(Wrapping<u64>);

impl TxBatch {
    pub(crate) fn new(pool: Arc<ChunkPool>, chunks: usize) -> Result<Self> {
        Ok(Self {
            pool,
            chunks: ChunkRing::new(chunks, GFP_KERNEL_ACCOUNT)?,
            begin: 0,
            last: 0,
            end: 0,
            limit: 0,
            remaining: 0,
            gone: Wrapping(0),
            bvecs: KVec::from_elem(pin_init::zeroed(), chunks, GFP_KERNEL_ACCOUNT)?,
        })
    }

    pub(crate) fn remaining(&self) -> usize {
        self.remaining
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Returns the room in the chunk that is being filled.
    #[inline]
    fn room(&self) -> Result<u32> {
        Ok(self.limit.try_sub(self.end)?)
    }

    /// Goes on to fill chunk `i`, from octet `at` on.
    fn fill(&mut self, i: usize, at: u32) {
        self.last = i;
        self.end = at;
        self.limit = self.chunks.get(i).map_or(0, Chunk::len);
    }

    /// Makes room for `len` more octets. Fails with `ENOSPC` if that would take too many chunks, or
    /// with `ENOMEM`.
    #[inline]
    pub(crate) fn reserve(&mut self, len: u32, may_wait: bool) -> Result {
        let room = self.room()?;
        if room >= len {
            return Ok(());
        }
        self.reserve_behind(room, len, may_wait)
    }

    /// Makes room for `len` octets, of which `room` fit into the chunk that is being filled.
    fn reserve_behind(&mut self, room: u32, len: u32, may_wait: bool) -> Result {
        let mut room = Saturating(room);
        for i in (self.last..self.chunks.len()).skip(1) {
            room += self.chunks.get(i).map_or(0, Chunk::len);
        }
        while room.0 < len {
            if self.chunks.is_full() {
                return Err(ENOSPC);
            }
            let chunk = if self.chunks.len() == 0 && len <= SHORT_LEN {
                Chunk::first(may_wait)?
            } else {
                self.pool.take(may_wait)?
            };
            room += chunk.len();
            if self.chunks.push(chunk).is_some() {
                return Err(Broken.into());
            }
            // There may have been no chunk to fill.
            self.fill(self.last, self.end);
        }
        Ok(())
    }

    /// Returns where the next octet will be.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.gone + Wrapping(self.remaining.into_safe_cast()))
    }

    /// Returns the chunk, and the octet in it, where `mark` is, or `EINVAL` if the mark is neither
    /// within what is left to send nor at its end.
    fn locate(&self, mark: Mark) -> Result<(usize, u32)> {
        let mut left = Saturating((mark.0 - self.gone).0);
        if left.0 > self.remaining.into_safe_cast() {
            return Err(EINVAL);
        }
        for i in 0..=self.last {
            let begin = self.begin_of(i);
            let len = self.end_of(i)?.try_sub(begin)?;
            if left.0 <= len.into() {
                return Ok((i, begin.try_add(left.0)?));
            }
            left -= u64::from(len);
        }
        Err(Broken.into())
    }

    /// Forgets the octets from `mark` on. Returns `EINVAL`, and changes nothing, if something
    /// behind `mark` has left the batch.
    pub(crate) fn truncate(&mut self, mark: Mark) -> Result {
        let (chunk, at) = self.locate(mark)?;
        self.remaining = usize::try_from((mark.0 - self.gone).0)?;
        self.fill(chunk, at);
        Ok(())
    }

    /// Returns the octets from `mark` on, in pieces, or `EINVAL` if some of them have left.
    pub(crate) fn since(&self, mark: Mark) -> Result<impl Iterator<Item = &[u8]>> {
        let (first, at) = self.locate(mark)?;
        Ok((first..self.chunks.len()).map_while(move |i| {
            let from = if i == first { at } else { 0 };
            let to = self.end_of(i).ok()?;
            self.chunks.get(i)?.octets(from, to).ok()
        }))
    }

    fn begin_of(&self, i: usize) -> u32 {
        if i == 0 {
            self.begin
        } else {
            0
        }
    }

    fn end_of(&self, i: usize) -> Result<u32> {
        match i.cmp(&self.last) {
            core::cmp::Ordering::Less => Ok(self.chunks.get(i).map(Chunk::len).ok_or(Broken)?),
            core::cmp::Ordering::Equal => Ok(self.end),
            core::cmp::Ordering::Greater => Err(EINVAL),
        }
    }

    /// Returns room in one piece for the next `len` octets, or for up to `count` times as many, if
    /// there is such room. [`TxBatch::commit`] adds what was written there.
    #[inline(always)]
    pub(crate) fn piece(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        let room = self.limit.checked_sub(self.end)?;
        let len = match count {
            0 | 1 => len,
            _ => len.checked_mul(count.min(room.checked_div(len)?).max(1))?,
        };
        let end = self.end.end_within(len, self.limit)?;
        // Octets behind the last one left the batch long ago, or never were in it.
        self.chunks
            .get_mut(self.last)?
            .octets_mut(self.end, end)
            .ok()
    }

    /// Adds `len` octets that were written to a [`TxBatch::piece`], or fails with `ENOSPC` if it
    /// does not have that many.
    #[inline(always)]
    pub(crate) fn commit(&mut self, len: u32) -> Result {
        self.end = self.end.end_within(len, self.limit).ok_or(ENOSPC)?;
        self.remaining = self.remaining.try_add(len)?;
        Ok(())
    }

    /// Calls `write` to write as many of `len` octets as fit, at an offset of a chunk. Returns how
    /// many fit.
    #[inline]
    fn put(&mut self, len: u32, write: impl FnOnce(&mut Chunk, u32, u32) -> Result) -> Result<u32> {
        if self.room()? == 0 {
            let next = self.last.try_add(1)?;
            if next >= self.chunks.len() {
                return Err(ENOSPC);
            }
            self.fill(next, 0);
        }
        let len = len.min(self.room()?);
        let (end, remaining) = (self.end.try_add(len)?, self.remaining.try_add(len)?);
        let chunk = self.chunks.get_mut(self.last).ok_or(ENOSPC)?;
        write(chunk, self.end, len)?;
        self.end = end;
        self.remaining = remaining;
        Ok(len)
    }

    /// Adds a copy of `bytes`. Fails with `ENOSPC` if they are more than was reserved; some of them
    /// may have been added then.
    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result {
        let len = u32::try_from(bytes.len())?;
        if len == 0 || len > self.room()? {
            return self.push_apart(bytes);
        }
        self.put(len, |chunk, at, _| chunk.write(at, bytes))?;
        Ok(())
    }

    /// As [`TxBatch::push_bytes`], for octets that may need more than one chunk.
    fn push_apart(&mut self, mut bytes: &[u8]) -> Result {
        while !bytes.is_empty() {
            let n = self.put(u32::try_from(bytes.len())?, |chunk, at, n| {
                chunk.write(at, bytes.get(..n.into_safe_cast()).ok_or(Broken)?)
            })?;
            bytes = bytes.get(n.into_safe_cast()..).ok_or(Broken)?;
        }
        Ok(())
    }

    /// Adds a copy of a stretch of pages, as [`TxBatch::push_bytes`] does.
    pub(crate) fn push_pages(&mut self, pages: &PageSlice<'_>) -> Result {
        if (1..=self.room()?).contains(&pages.len()) {
            self.put(pages.len(), |chunk, at, _| chunk.write_pages(at, pages))?;
            return Ok(());
        }
        let mut rest = *pages;
        while rest.len() > 0 {
            self.put(rest.len(), |chunk, to, n| {
                chunk.write_pages(to, &rest.take_front(n))
            })?;
        }
        Ok(())
    }

    /// Returns what is left to send: stretches of pages, and the number of octets in them. Returns
    /// `EIO` if these are not what was put in.
    #[inline]
    pub(super) fn as_raw(&mut self) -> Result<(&[b::bio_vec], usize)> {
        if self.last != 0 {
            return self.all_as_raw();
        }
        // Mostly all lies in one chunk.
        let len = self.end.try_sub(self.begin)?;
        let chunk = self.chunks.get(0).filter(|chunk| self.end <= chunk.len());
        let (bvec, _) = self.bvecs.split_first_mut().ok_or(Broken)?;
        bvec.bv_page = chunk.ok_or(Broken)?.page();
        bvec.bv_len = len;
        bvec.bv_offset = self.begin;
        if usize::from_safe_cast(len) != self.remaining {
            return Err(Broken.into());
        }
        Ok((core::slice::from_ref(bvec), self.remaining))
    }

    /// As [`TxBatch::as_raw`], for any number of chunks.
    fn all_as_raw(&mut self) -> Result<(&[b::bio_vec], usize)> {
        let (mut n, mut octets) = (0, 0_usize);
        for i in 0..=self.last {
            let (begin, end) = (self.begin_of(i), self.end_of(i)?);
            let len = end.try_sub(begin)?;
            if len == 0 {
                continue;
            }
            let chunk = self.chunks.get(i).filter(|chunk| end <= chunk.len());
            // The list has room for as many entries as there are chunks.
            let bvec = self.bvecs.get_mut(n).ok_or(Broken)?;
            bvec.bv_page = chunk.ok_or(Broken)?.page();
            bvec.bv_len = len;
            bvec.bv_offset = begin;
            n = n.try_add(1)?;
            octets = octets.try_add(len)?;
        }
        if octets != self.remaining {
            return Err(Broken.into());
        }
        Ok((self.bvecs.get(..n).ok_or(Broken)?, octets))
    }

    /// Takes `n` octets, which TCP has now, from the front. Returns `EIO` if there are not that
    /// many; nothing can be sent after that.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) -> Result {
        self.remaining = self.remaining.try_sub(n)?;
        self.gone += Wrapping(n.into_safe_cast());
        let mut left = u32::try_from(n).map_err(Broken::from)?;
        loop {
            let end = self.end_of(0)?;
            let len = end.try_sub(self.begin)?;
            if self.last == 0 || left < len {
                self.begin = self.begin.end_within(left, end).ok_or(Broken)?;
                return Ok(());
            }
            left = left.try_sub(len)?;
            self.drop_first()?;
        }
    }

    /// Forgets what was not sent.
    pub(crate) fn clear(&mut self) {
        while self.drop_first().is_ok() {}
        self.begin = self.end;
        self.gone += Wrapping(self.remaining.into_safe_cast());
        self.remaining = 0;
    }

    /// Returns the first chunk to the pool. Fails with `ENOENT` if it is the last.
    fn drop_first(&mut self) -> Result {
        self.last = self.last.checked_sub(1).ok_or(ENOENT)?;
        self.begin = 0;
        self.pool.give(self.chunks.pop().ok_or(Broken)?);
        Ok(())
    }
}

impl Drop for TxBatch {
    fn drop(&mut self) {
        while let Some(chunk) = self.chunks.pop() {
            self.pool.give(chunk);
        }
    }
}

/// How many chunks a pool keeps: as many as TCP connections at full speed have under way.
const MAX_POOLED: usize = 128;

/// Length of most chunks, in octets.
const LONG_LEN: u32 = 32 * 1024;
/// Length of a connection's first chunk, and of others if long ones are not easily had: a page.
///
/// CAST: no page has more octets than `u32` counts.
pub(crate) const SHORT_LEN: u32 = PAGE_SIZE as u32;

/// How often a page is filled that was taken for want of a long chunk. Filling it again saves most
/// of the clearing, and when memory is less fragmented the pool soon has long chunks again.
const SHORT_FILLS: u32 = 16;

/// A run of pages.
///
/// # Invariants
///
/// `base` is the address of a run of pages from `tx_pages_alloc`, of `len` octets of initialised
/// memory, to which this value has a reference. Others with a reference only read, and only octets
/// that [`Chunk::page`] was used to send.
pub(crate) struct Chunk {
    base: NonNull<u8>,
    len: u32,
    /// How often the chunk may still be filled before it goes back to the allocator.
    fills: Saturating<u32>,
}

// SAFETY: pages may be used from any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Allocates a chunk of `len` octets, a power of two, or of a page if so many are not easily
    /// had. With `may_wait` this may sleep, but does not wait for block devices and file systems,
    /// as one of these may be the sender.
    pub(crate) fn new(mut len: u32, may_wait: bool) -> Result<Self> {
        // SAFETY: `len` is writable.
        let base = NonNull::new(unsafe { h::tx_pages_alloc(&mut len, may_wait) }).ok_or(ENOMEM)?;
        // INVARIANT: the run is new and zeroed, and the reference to it is ours.
        Ok(Self {
            base: base.cast(),
            len,
            // Long chunks have practically no limit.
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

    /// Returns the head of the run, for somebody who takes a reference.
    pub(super) fn page(&self) -> *mut b::page {
        // SAFETY: the pages are live by the type invariants.
        unsafe { h::tx_pages_head(self.base.as_ptr().cast()) }
    }

    /// Counts a filling. Returns whether the chunk may be filled again.
    fn was_filled(&mut self) -> bool {
        self.fills -= 1;
        self.fills.0 > 0
    }

    /// Returns whether nobody else has a reference, so that the octets may be replaced.
    fn is_unused(&self) -> bool {
        // SAFETY: the pages are live by the type invariants.
        unsafe { h::tx_pages_are_sole(self.base.as_ptr().cast()) }
    }

    /// Returns the address of octet `at`, if the chunk has `len` octets from there on.
    fn range(&self, at: u32, len: u32) -> Result<*mut u8> {
        at.end_within(len, self.len).ok_or(Broken)?;
        Ok(self.base.as_ptr().wrapping_add(at.into_safe_cast()))
    }

    pub(super) fn octets(&self, from: u32, to: u32) -> Result<&[u8]> {
        let len = to.try_sub(from)?;
        let ptr = self.range(from, len)?;
        // SAFETY: initialised; others with a reference only read, this value writes by `&mut` only.
        Ok(unsafe { core::slice::from_raw_parts(ptr, len.into_safe_cast()) })
    }

    /// As [`Chunk::octets`], to be written; nobody may be reading them.
    #[inline]
    pub(super) fn octets_mut(&mut self, from: u32, to: u32) -> Result<&mut [u8]> {
        let len = to.try_sub(from)?;
        let ptr = self.range(from, len)?;
        // SAFETY: the run is initialised, and this value is borrowed mutably. Others with a
        // reference only read what was sent, and they are done with these octets, if these were
        // sent at all.
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
        from.copy_out(self.octets_mut(at, at.try_add(from.len())?)?)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the reference is this value's, and not used any more.
        unsafe { h::tx_pages_put(self.base.as_ptr().cast()) };
    }
}

/// A ring of chunks.
///
/// # Invariants
///
/// The `len` slots from `oldest` on have chunks; the other slots have none.
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
/// saves the allocator the work of clearing them. Whoever paid for a chunk pays until it goes back
/// to the allocator, although others may fill it meanwhile.
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
        // The chunk is dropped after the lock is released.
        drop(oldest);
    }
}
