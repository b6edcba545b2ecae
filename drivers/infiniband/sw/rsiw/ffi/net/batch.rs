// SPDX-License-Identifier: GPL-2.0

//! A list of pieces of memory to be sent in one call. Process context.

use crate::ffi::{
    page::PageSlice,
    raw::{
        b,
        h, //
    },
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Octets to be sent, in order: copies of small pieces in an arena, and stretches of pages.
///
/// The pages of [`TxBatch::push_page`] are read when the batch is sent. What keeps them is handed
/// to [`TxBatch::keep`] before, and dropped when the batch is empty.
///
/// # Invariants
///
/// - Each element of `bvecs` is a readable stretch of the arena or of memory that an element of
///   `owners`, or the work request being sent, keeps.
/// - The arena is one allocation, physically contiguous; its first `used` octets are taken.
/// - `remaining` is the sum of the lengths from `bvecs[first]` on, less `skip`; `skip` is less
///   than the length of `bvecs[first]`, or zero.
/// - Neither vector grows beyond its capacity, so that nothing moves.
pub(crate) struct TxBatch<K> {
    bvecs: KVec<b::bio_vec>,
    arena: KVec<u8>,
    used: usize,
    arena_page: NonNull<b::page>,
    arena_offset: u32,
    first: usize,
    skip: usize,
    remaining: usize,
    owners: KVec<K>,
    /// Memory of stretches that were copied to free their owners.
    copy: KVVec<u8>,
}

// SAFETY: the pages that the list names may be read from any thread.
unsafe impl<K: Send> Send for TxBatch<K> {}

impl<K> TxBatch<K> {
    /// Creates a batch for `pieces` stretches, `copied` octets of small ones, and `owners` of what
    /// is kept.
    pub(crate) fn new(pieces: usize, copied: usize, owners: usize) -> Result<Self> {
        let arena = KVec::from_elem(0u8, copied.max(1), GFP_KERNEL)?;
        // SAFETY: the vector is `kmalloc` memory, which has page descriptors.
        let page = unsafe { h::virt_to_page(arena.as_ptr().cast()) };
        let offset = arena.as_ptr().addr() & (PAGE_SIZE - 1);
        // INVARIANT: the list is empty; an allocation of `kmalloc` is physically contiguous.
        Ok(Self {
            bvecs: KVec::with_capacity(pieces, GFP_KERNEL)?,
            arena_page: NonNull::new(page).ok_or(ENOMEM)?,
            // CAST: less than a page.
            arena_offset: offset as u32,
            arena,
            used: 0,
            first: 0,
            skip: 0,
            remaining: 0,
            owners: KVec::with_capacity(owners, GFP_KERNEL)?,
            copy: KVVec::new(),
        })
    }

    /// Octets left to send.
    pub(crate) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Whether nothing is left to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// How many stretches can still be added.
    pub(crate) fn pieces_left(&self) -> usize {
        self.bvecs.capacity().saturating_sub(self.bvecs.len())
    }

    /// How many octets can still be copied.
    pub(crate) fn copy_left(&self) -> usize {
        self.arena.len().saturating_sub(self.used)
    }

    /// How many owners can still be kept.
    pub(crate) fn owners_left(&self) -> usize {
        self.owners.capacity().saturating_sub(self.owners.len())
    }

    /// Keeps `owner` until the batch is empty.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room.
    pub(crate) fn keep(&mut self, owner: K) -> Result {
        self.owners.push_within_capacity(owner).map_err(|_| ENOSPC)
    }

    /// Adds a copy of `bytes`. Pieces that follow one another take one stretch.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room; nothing is added then.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = self.used.checked_add(bytes.len()).ok_or(ENOSPC)?;
        let place = self.arena.get_mut(self.used..end).ok_or(ENOSPC)?;
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = *from;
        }
        let start = u32::try_from(self.used)?;
        let offset = self.arena_offset.checked_add(start).ok_or(ENOSPC)?;
        self.push_bvec(self.arena_page, offset, u32::try_from(bytes.len())?)?;
        self.used = end;
        Ok(())
    }

    /// Adds a stretch of pages, which someone keeps: see [`TxBatch::keep`].
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room.
    pub(crate) fn push_page(&mut self, slice: &PageSlice<'_>) -> Result {
        if slice.len() == 0 {
            return Ok(());
        }
        self.push_bvec(slice.page(), slice.offset(), slice.len())
    }

    fn push_bvec(&mut self, page: NonNull<b::page>, offset: u32, len: u32) -> Result {
        // CAST: 32 bits fit.
        let remaining = self.remaining.checked_add(len as usize).ok_or(ENOSPC)?;
        match self.bvecs.last_mut() {
            Some(last)
                if last.bv_page == page.as_ptr()
                    && last.bv_offset.checked_add(last.bv_len) == Some(offset)
                    && last.bv_len.checked_add(len).is_some() =>
            {
                last.bv_len = last.bv_len.saturating_add(len);
            }
            _ => self
                .bvecs
                .push_within_capacity(b::bio_vec {
                    bv_page: page.as_ptr(),
                    bv_len: len,
                    bv_offset: offset,
                })
                .map_err(|_| ENOSPC)?,
        }
        // INVARIANT: the stretch is the callers', or a part of the arena they write next.
        self.remaining = remaining;
        Ok(())
    }

    /// The stretches left to send, how much of the first one is gone, and the octets left.
    pub(super) fn as_raw(&self) -> (&[b::bio_vec], usize, usize) {
        let bvecs = self.bvecs.get(self.first..).unwrap_or(&[]);
        (bvecs, self.skip, self.remaining)
    }

    /// Takes `n` octets from the front; an empty batch is cleared.
    pub(crate) fn advance(&mut self, n: usize) {
        self.remaining = self.remaining.saturating_sub(n);
        if self.remaining == 0 {
            self.clear();
            return;
        }
        // INVARIANT: walks over whole stretches, and into the one that is next.
        self.skip = self.skip.saturating_add(n);
        while let Some(bvec) = self.bvecs.get(self.first) {
            // CAST: 32 bits fit.
            let len = bvec.bv_len as usize;
            if self.skip < len {
                break;
            }
            self.skip = self.skip.saturating_sub(len);
            self.first = self.first.saturating_add(1);
        }
    }

    /// Copies what was not sent, so that nothing needs to be kept for it any more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn detach(&mut self) -> Result {
        let mut copy = KVVec::<u8>::with_capacity(self.remaining, GFP_KERNEL)?;
        let (bvecs, skip, len) = self.as_raw();
        // SAFETY: by the type invariants the pieces are readable and have `skip + len` octets;
        // the vector has room for `len`.
        let copied = unsafe {
            h::bvec_copy_out(
                copy.as_mut_ptr().cast(),
                bvecs.as_ptr(),
                bvecs.len() as c_uint, // CAST: the capacity of a batch is small.
                skip,
                len,
            )
        };
        if copied != len {
            return Err(EFAULT);
        }
        // SAFETY: that many octets were written.
        unsafe { copy.inc_len(len) };
        self.replace(copy)
    }

    /// Makes `copy` all that is left to send.
    fn replace(&mut self, copy: KVVec<u8>) -> Result {
        let len = copy.len();
        let mut at = 0;
        self.clear();
        while at < len {
            let ptr = copy.as_ptr().wrapping_add(at);
            let offset = ptr.addr() & (PAGE_SIZE - 1);
            let n = PAGE_SIZE.saturating_sub(offset).min(len.saturating_sub(at));
            // SAFETY: the octet is part of the vector, which is `kmalloc` or `vmalloc` memory.
            let page = unsafe { h::vmalloc_or_virt_to_page(ptr.cast()) };
            let page = NonNull::new(page).ok_or(EFAULT)?;
            // CAST: less than a page.
            self.push_bvec(page, offset as u32, n as u32)?;
            at = at.saturating_add(n);
        }
        // INVARIANT: the stretches are those of the copy, which is kept until the next clearing.
        self.copy = copy;
        Ok(())
    }

    /// Forgets what was not sent and drops what was kept.
    pub(crate) fn clear(&mut self) {
        self.bvecs.clear();
        self.used = 0;
        self.owners.clear();
        self.copy = KVVec::new();
        self.first = 0;
        self.skip = 0;
        self.remaining = 0;
    }
}
