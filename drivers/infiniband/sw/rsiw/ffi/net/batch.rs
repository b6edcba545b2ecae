// SPDX-License-Identifier: GPL-2.0

//! Octets to be sent in one call. Process context.

use super::chunk::{
    Chunk,
    ChunkPool,
    ChunkRing, //
};
use crate::ffi::{
    page::PageSlice,
    raw::b, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets to be sent, in order, each copied once: what TCP sends, and may have to send again, is
/// what a checksum over [`TxBatch::since`] was made of, whoever changes the sources meanwhile.
///
/// The octets lie in chunks of which TCP takes a reference instead of a copy.
pub(crate) struct TxBatch {
    pool: Arc<ChunkPool>,
    /// In order: what is left to send, from octet `begin` of the first chunk to octet `end` of the
    /// chunk `last`, and room for more behind that.
    chunks: ChunkRing,
    begin: u32,
    last: usize,
    end: u32,
    /// Octets left to send.
    remaining: usize,
    /// The same for C; rebuilt for each call.
    bvecs: KVec<b::bio_vec>,
}

// SAFETY: the pages that the list for C names may be used from any thread.
unsafe impl Send for TxBatch {}

/// A place in a batch, until something of it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    chunk: usize,
    at: u32,
}

impl TxBatch {
    /// An empty batch with room for `chunks` chunks, which come from `pool`.
    pub(crate) fn new(pool: Arc<ChunkPool>, chunks: usize) -> Result<Self> {
        Ok(Self {
            pool,
            chunks: ChunkRing::new(chunks)?,
            begin: 0,
            last: 0,
            end: 0,
            remaining: 0,
            bvecs: KVec::from_elem(pin_init::zeroed(), chunks, GFP_KERNEL)?,
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

    /// Room in the chunk that is being filled.
    fn room(&self) -> u32 {
        let len = self.chunks.get(self.last).map_or(0, Chunk::len);
        len.saturating_sub(self.end)
    }

    /// Makes room for `len` more octets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC` if it would take too many chunks.
    pub(crate) fn reserve(&mut self, len: u32) -> Result {
        let mut room = self.room();
        for i in self.last.saturating_add(1)..self.chunks.len() {
            room = room.saturating_add(self.chunks.get(i).map_or(0, Chunk::len));
        }
        while room < len {
            if self.chunks.is_full() {
                return Err(ENOSPC);
            }
            let chunk = self.pool.take()?;
            room = room.saturating_add(chunk.len());
            self.chunks.push(chunk);
        }
        Ok(())
    }

    /// Where the next octet will be.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            chunk: self.last,
            at: self.end,
        }
    }

    /// Forgets the octets from `mark` on, of which nothing was sent.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        let forgotten: usize = self
            .since(mark)
            .map(<[u8]>::len)
            .fold(0, usize::saturating_add);
        self.remaining = self.remaining.saturating_sub(forgotten);
        self.last = mark.chunk;
        self.end = mark.at;
    }

    /// The octets from `mark` on, in pieces.
    pub(crate) fn since(&self, mark: Mark) -> impl Iterator<Item = &[u8]> {
        (mark.chunk..self.chunks.len()).map_while(move |i| {
            let from = if i == mark.chunk { mark.at } else { 0 };
            let to = self.end_of(i)?;
            self.chunks.get(i)?.octets(from, to).ok()
        })
    }

    /// Where the octets of chunk `i` end.
    fn end_of(&self, i: usize) -> Option<u32> {
        match i.cmp(&self.last) {
            core::cmp::Ordering::Less => self.chunks.get(i).map(Chunk::len),
            core::cmp::Ordering::Equal => Some(self.end),
            core::cmp::Ordering::Greater => None,
        }
    }

    /// Has `write` write up to `len` octets at an offset of a chunk. Gives how many those are.
    fn put(&mut self, len: u32, write: impl FnOnce(&mut Chunk, u32, u32) -> Result) -> Result<u32> {
        if self.room() == 0 {
            let next = self.last.saturating_add(1);
            if next >= self.chunks.len() {
                return Err(ENOSPC);
            }
            self.last = next;
            self.end = 0;
        }
        let len = len.min(self.room());
        let chunk = self.chunks.get_mut(self.last).ok_or(ENOSPC)?;
        write(chunk, self.end, len)?;
        self.end = self.end.saturating_add(len);
        // CAST: 32 bits fit.
        self.remaining = self.remaining.saturating_add(len as usize);
        Ok(len)
    }

    /// Adds a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if they are more than was reserved; not all were added then.
    pub(crate) fn push_bytes(&mut self, mut bytes: &[u8]) -> Result {
        while !bytes.is_empty() {
            let n = self.put(u32::try_from(bytes.len())?, |chunk, at, n| {
                // CAST: 32 bits fit.
                chunk.write(at, bytes.get(..n as usize).ok_or(EINVAL)?)
            })?;
            bytes = bytes.get(n as usize..).ok_or(EINVAL)?; // CAST: 32 bits fit.
        }
        Ok(())
    }

    /// Adds a copy of a stretch of pages.
    ///
    /// # Errors
    ///
    /// As [`TxBatch::push_bytes`].
    pub(crate) fn push_pages(&mut self, pages: &PageSlice<'_>) -> Result {
        let mut at = 0;
        while at < pages.len() {
            let left = pages.len().saturating_sub(at);
            let n = self.put(left, |chunk, to, n| {
                chunk.write_pages(to, &pages.sub(at, n).ok_or(EINVAL)?)
            })?;
            at = at.saturating_add(n);
        }
        Ok(())
    }

    /// What is left to send: stretches of pages, and the octets in them.
    pub(super) fn as_raw(&mut self) -> (&[b::bio_vec], usize) {
        let (mut n, mut octets) = (0, 0_usize);
        for i in 0..self.chunks.len() {
            let (Some(chunk), Some(end)) = (self.chunks.get(i), self.end_of(i)) else {
                break;
            };
            let begin = if i == 0 { self.begin } else { 0 };
            let len = end.min(chunk.len()).saturating_sub(begin);
            // The list has as much room as that of the chunks.
            if let Some(bvec) = self.bvecs.get_mut(n).filter(|_| len > 0) {
                bvec.bv_page = chunk.page();
                bvec.bv_len = len;
                bvec.bv_offset = begin;
                n = n.saturating_add(1);
                octets = octets.saturating_add(len as usize); // CAST: 32 bits fit.
            }
        }
        (
            self.bvecs.get(..n).unwrap_or(&[]),
            octets.min(self.remaining),
        )
    }

    /// Takes `n` octets from the front.
    pub(super) fn advance(&mut self, n: usize) {
        let n = n.min(self.remaining);
        self.remaining = self.remaining.saturating_sub(n);
        let mut left = u32::try_from(n).unwrap_or(u32::MAX);
        loop {
            let len = self.end_of(0).unwrap_or(0).saturating_sub(self.begin);
            if self.last == 0 || left < len {
                self.begin = self.begin.saturating_add(left.min(len));
                return;
            }
            left = left.saturating_sub(len);
            self.drop_first();
        }
    }

    /// Forgets what was not sent.
    pub(crate) fn clear(&mut self) {
        while self.last > 0 {
            self.drop_first();
        }
        self.begin = self.end;
        self.remaining = 0;
    }

    /// Gives the first chunk away, which is not the last.
    fn drop_first(&mut self) {
        self.last = self.last.saturating_sub(1);
        self.begin = 0;
        if let Some(chunk) = self.chunks.pop_if(|_| true) {
            self.pool.give(chunk);
        }
    }
}
