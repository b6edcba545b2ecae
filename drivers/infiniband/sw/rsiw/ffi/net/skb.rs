// SPDX-License-Identifier: GPL-2.0

//! Received data as it lies in socket buffers. Any context with the socket lock held.

use crate::ffi::{
    page::PageSlice,
    raw::{
        b,
        h, //
    },
};
use core::{
    cell::Cell,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Octets of a buffer that lie in one piece.
///
/// # Invariants
///
/// The octets of the buffer from number `from` up to `to` are at `addr`, readable as long as the
/// buffer has them, for accesses that put up with concurrent writes.
#[derive(Clone, Copy)]
struct Span {
    addr: *const u8,
    from: u32,
    to: u32,
    /// Where to look for what is behind that.
    next: u32,
}

/// A stretch of received octets, in one socket buffer with all its fragments.
///
/// It is mostly read from front to back: where the last octets were found is where the next ones
/// are looked for.
///
/// # Invariants
///
/// `skb` holds at least `offset + len` octets, `offset + len` fits a `c_int`, and nothing takes
/// octets from the buffer during `'a`.
pub(crate) struct SkbChunk<'a> {
    skb: NonNull<b::sk_buff>,
    offset: u32,
    len: u32,
    /// Of `skb`.
    span: Cell<Span>,
    _skb: PhantomData<&'a b::sk_buff>,
}

impl SkbChunk<'_> {
    /// # Safety
    ///
    /// The type invariants must hold for as long as the value is used.
    pub(super) unsafe fn new(skb: NonNull<b::sk_buff>, offset: u32, len: u32) -> Self {
        // INVARIANT: the caller vouches for them.
        Self {
            skb,
            offset,
            len,
            // INVARIANT: no octets.
            span: Cell::new(Span {
                addr: core::ptr::null(),
                from: 0,
                to: 0,
                next: 0,
            }),
            _skb: PhantomData,
        }
    }

    /// The address of octet `at` of the buffer, and how many follow in one piece, that one included.
    #[inline]
    fn find(&self, at: u32) -> Option<(*const u8, u32)> {
        self.in_span(at).or_else(|| {
            self.look(at);
            self.in_span(at)
        })
    }

    /// As [`SkbChunk::find`], in the piece that is known.
    #[inline]
    fn in_span(&self, at: u32) -> Option<(*const u8, u32)> {
        let Span { addr, from, to, .. } = self.span.get();
        let skip = at.checked_sub(from)?;
        let left = to.checked_sub(at).filter(|left| *left > 0)?;
        // CAST: 32 bits fit.
        Some((addr.wrapping_add(skip as usize), left))
    }

    /// Looks for the piece in which octet `at` of the buffer lies.
    fn look(&self, at: u32) {
        let mut span = self.span.get();
        let Span { from, to, next, .. } = &mut span;
        // SAFETY: the buffer is live by the type invariants, and the rest is writable.
        let addr = unsafe { h::skb_piece(self.skb.as_ptr(), at, from, to, next) };
        if !addr.is_null() {
            span.addr = addr.cast();
            // INVARIANT: this is where these octets are.
            self.span.set(span);
        }
    }

    /// Number of octets.
    pub(crate) fn len(&self) -> usize {
        // CAST: 32 bits fit.
        self.len as usize
    }

    /// The place in the buffer of `len` octets from `at` on, and how many they are.
    #[inline]
    fn range(&self, at: usize, len: usize) -> Result<(u32, u32)> {
        let at = u32::try_from(at)?;
        let len = u32::try_from(len)?;
        if at.checked_add(len).ok_or(EINVAL)? > self.len {
            return Err(EINVAL);
        }
        Ok((self.offset.checked_add(at).ok_or(EINVAL)?, len))
    }

    /// Copies octets from `at` on into `to`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short, `EFAULT` if its memory is not readable.
    #[inline]
    pub(crate) fn copy_to(&self, at: usize, to: &mut [u8]) -> Result {
        let (offset, len) = self.range(at, to.len())?;
        let out = to.as_mut_ptr();
        // SAFETY: the range is the chunk's; `to` has room for it.
        unsafe { self.copy(offset, len, out) }
    }

    /// Copies `len` octets from number `offset` of the buffer on to `out`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they cannot be read.
    ///
    /// # Safety
    ///
    /// The octets are the chunk's, and `out` is valid for raw writes of as many.
    #[inline]
    unsafe fn copy(&self, offset: u32, len: u32, out: *mut u8) -> Result {
        let mut done = 0u32;
        while let Some(missing) = len.checked_sub(done).filter(|missing| *missing > 0) {
            let Some((from, left)) = self.find(offset.wrapping_add(done)) else {
                break;
            };
            let n = left.min(missing);
            // CAST: 32 bits fit.
            let to = out.wrapping_add(done as usize);
            // SAFETY: by the invariant of `Span` the octets are there, and the caller vouches for
            // those from `out` on; others may write the former at the same time, which C's `memcpy`
            // puts up with.
            // CAST: 32 bits fit.
            unsafe { b::memcpy(to.cast(), from.cast(), n as usize) };
            done = done.wrapping_add(n);
        }
        if done == len {
            return Ok(());
        }
        // Some are where there is no address for them.
        let (offset, len) = (c_int::try_from(offset)?, c_int::try_from(len)?);
        // SAFETY: by the type invariants the range lies in the buffer; the caller vouches for `out`.
        to_result(unsafe { b::skb_copy_bits(self.skb.as_ptr(), offset, out.cast(), len) })
    }

    /// The 20 octets from `at` on, if the chunk has as many and they can be read.
    #[inline]
    pub(crate) fn front(&self, at: usize) -> Option<[u8; 20]> {
        let mut octets = [0; 20];
        let (offset, len) = self.range(at, octets.len()).ok()?;
        let Some((from, _)) = self.find(offset).filter(|(_, left)| *left >= len) else {
            self.copy_to(at, &mut octets).ok()?;
            return Some(octets);
        };
        let (a, rest) = octets.split_first_chunk_mut()?;
        let (b, rest) = rest.split_first_chunk_mut()?;
        // SAFETY: by the invariant of `Span` the octets are there, for accesses like these.
        *a = unsafe { word::<u64>(from) }.to_ne_bytes();
        // SAFETY: as above.
        *b = unsafe { word::<u64>(from.wrapping_add(8)) }.to_ne_bytes();
        // SAFETY: as above.
        *rest.first_chunk_mut()? = unsafe { word::<u32>(from.wrapping_add(16)) }.to_ne_bytes();
        Some(octets)
    }

    /// Fills `to` with octets from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short, `EFAULT` if its memory is not readable, `EACCES` if `to`
    /// is not to be written.
    #[inline]
    pub(crate) fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        // CAST: 32 bits fit.
        let (offset, len) = self.range(at, to.len() as usize)?;
        let out = to.as_mut_ptr()?;
        // SAFETY: the range is the chunk's; the slice's address is good for raw copies of its
        // length.
        unsafe { self.copy(offset, len, out) }
    }

    /// Continues the CRC32C `crc` over `len` octets from `at` on.
    ///
    /// The register is as `crc32c()` takes it: `!0` to start, inverted once at the end.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short.
    #[inline]
    pub(crate) fn crc32c(&self, at: usize, len: usize, crc: u32) -> Result<u32> {
        let (offset, len) = self.range(at, len)?;
        let (mut crc, mut done) = (crc, 0u32);
        while let Some(missing) = len.checked_sub(done).filter(|missing| *missing > 0) {
            let at = offset.wrapping_add(done);
            let Some((from, left)) = self.find(at) else {
                // The rest is where there is no address for it.
                let (at, missing) = (c_int::try_from(at)?, c_int::try_from(missing)?);
                // SAFETY: by the type invariants the range lies in the buffer.
                return Ok(unsafe { b::skb_crc32c(self.skb.as_ptr(), at, missing, crc) });
            };
            let n = left.min(missing);
            // SAFETY: by the invariant of `Span` the octets are there; others may write them at the
            // same time, which C puts up with.
            // CAST: 32 bits fit.
            crc = unsafe { b::crc32c(crc, from.cast(), n as usize) };
            done = done.wrapping_add(n);
        }
        Ok(crc)
    }
}

/// A word anywhere in memory.
#[repr(C, packed)]
struct Unaligned<T>(T);

/// Reads a word that others may write at the same time.
///
/// # Safety
///
/// The octets from `from` on are readable for accesses that put up with concurrent writes.
#[inline(always)]
unsafe fn word<T>(from: *const u8) -> T {
    // SAFETY: by the caller's promise; a packed structure may begin anywhere.
    unsafe { from.cast::<Unaligned<T>>().read_volatile() }.0
}
