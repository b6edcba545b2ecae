// SPDX-License-Identifier: GPL-2.0

//! Received data as it lies in socket buffers. Any context with the socket lock held.
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h)

use crate::ffi::mm::page::{
    self,
    PageSlice, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use crate::num::Length;
use core::cell::Cell;
use core::marker::PhantomData;
use core::num::{
    Saturating,
    Wrapping, //
};
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;

/// How many buffers are looked at, the chunk's own and those behind it: as many as the longest FPDU
/// takes if each buffer has one Ethernet segment.
const MAX_BEHIND: usize = 64;

/// How many octets without an address are copied at a time.
const BOUNCE_LEN: usize = 128;

/// Where octets are that lie behind those of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// They are in buffers behind the chunk's own, and can be read like those of the chunk.
    Here,
    /// They have not come yet. They can still come if the octets of the chunk stay in the socket.
    Later,
    /// They cannot be read together with the chunk: they may not come at all as long as the octets
    /// of the chunk stay in the socket, or are too many buffers away.
    Apart,
}

/// A buffer that has octets of a chunk, or some that are behind them.
///
/// # Invariants
///
/// `skb` is in the receive queue of the chunk's socket, if the chunk has one. It has, from `offset`
/// on, the `len` octets of the chunk from number `from` on.
#[derive(Clone, Copy)]
struct Buffer {
    skb: NonNull<b::sk_buff>,
    from: u32,
    offset: u32,
    len: u32,
}

/// Octets of a chunk that lie in one piece.
///
/// # Invariants
///
/// The octets of the chunk from number `from` up to `to` are at `addr`, readable as long as the
/// buffer has them, by accesses that put up with concurrent writes.
#[derive(Clone, Copy)]
struct Span {
    addr: *const u8,
    from: usize,
    to: usize,
    /// Where the piece ends in the buffer.
    end: u32,
    /// Where to look for the piece behind it.
    next: u32,
}

impl Span {
    // INVARIANT: no octets.
    const NONE: Self = Self {
        addr: core::ptr::null(),
        from: 0,
        to: 0,
        end: 0,
        next: 0,
    };
}

impl Buffer {
    fn end(&self) -> u32 {
        self.offset.wrapping_add(self.len)
    }

    /// Returns the number in the chunk of the octet behind those of the buffer.
    fn to(&self) -> u32 {
        // Far below the limit: a queue has no more octets than a window.
        self.from.saturating_add(self.len)
    }

    /// Returns how far octet `at` of the chunk is behind the first octet of the buffer. The octet
    /// must not be in front of the buffer.
    fn skip(&self, at: u32) -> u32 {
        at.wrapping_sub(self.from)
    }

    /// Returns where octet `at` of the chunk, which the buffer has, is in the buffer.
    fn place(&self, at: u32) -> u32 {
        self.offset.wrapping_add(self.skip(at))
    }

    /// Looks for the piece in which octet `at` of the buffer lies; `before` is one that was found
    /// in the buffer before.
    #[inline]
    fn span(&self, at: u32, before: &Span) -> Option<Span> {
        let Self {
            skb,
            from,
            offset,
            len,
        } = *self;
        let (mut begin, mut end, mut next) = (0, before.end, before.next);
        // SAFETY: the buffer is live by the type invariants, and the rest is writable.
        let addr = unsafe { h::skb_piece(skb.as_ptr(), at, &mut begin, &mut end, &mut next) };
        if addr.is_null() {
            return None;
        }
        // The piece may begin in front of the octets, and end behind them.
        let (piece, octets) = (Saturating(begin), Saturating(offset));
        let skip = octets - piece;
        let first = piece - octets;
        let last = (Saturating(end) - octets).min(Saturating(len));
        // INVARIANT: this is where these octets are.
        // CAST: 32 bits fit.
        Some(Span {
            addr: addr.cast::<u8>().wrapping_add(skip.0 as usize),
            from: from as usize + first.0 as usize,
            to: from as usize + last.0 as usize,
            end,
            next,
        })
    }
}

/// Octets of a buffer, for C.
///
/// # Invariants
///
/// `skb` is live as long as the chunk is used. It has `len` octets, at least one, from `offset` on.
struct Raw {
    skb: *mut b::sk_buff,
    offset: c_int,
    len: c_int,
}

/// A stretch of received octets in one socket buffer with all its fragments, and the octets that
/// follow in the buffers behind, as far as [`SkbChunk::reach`] was asked for them.
///
/// It is mostly read from front to back: the next octets are looked for where the last ones were.
///
/// # Invariants
///
/// `sk` is a TCP socket whose lock is held, and whose receive queue begins with `skb`, from which
/// nothing takes octets during `'a`; or it is `None`, and `skb` belongs to whoever made the chunk.
/// `skb` holds at least `offset + len` octets, and `offset + len` fits a `c_int`. There are `reach`
/// octets from the first one of the chunk on, at least `len`, in `skb` and in buffers of the queue.
pub(crate) struct SkbChunk<'a> {
    sk: Option<NonNull<b::sock>>,
    skb: NonNull<b::sk_buff>,
    offset: u32,
    len: u32,
    reach: Cell<u32>,
    /// The buffer of `span`.
    buffer: Cell<Buffer>,
    span: Cell<Span>,
    _skb: PhantomData<&'a b::sk_buff>,
}

impl SkbChunk<'_> {
    /// # Safety
    ///
    /// The type invariants must hold for as long as the value is used.
    pub(super) unsafe fn new(
        sk: Option<NonNull<b::sock>>,
        skb: NonNull<b::sk_buff>,
        offset: u32,
        len: u32,
    ) -> Self {
        // INVARIANT: the octets of the chunk.
        let buffer = Buffer {
            skb,
            from: 0,
            offset,
            len,
        };
        // INVARIANT: the caller vouches for them.
        Self {
            sk,
            skb,
            offset,
            len,
            reach: Cell::new(len),
            buffer: Cell::new(buffer),
            span: Cell::new(buffer.span(offset, &Span::NONE).unwrap_or(Span::NONE)),
            _skb: PhantomData,
        }
    }

    /// Returns the address of octet `at`, if the `len` octets from there on lie in the known piece.
    #[inline(always)]
    fn in_span(&self, at: usize, len: usize) -> Option<*const u8> {
        let Span { addr, from, to, .. } = self.span.get();
        let skip = at.checked_sub(from)?;
        to.checked_sub(at).filter(|left| *left >= len)?;
        Some(addr.wrapping_add(skip))
    }

    /// Returns the address of octet `at`, if the `len` octets from there on lie in one piece.
    #[inline(always)]
    fn in_piece(&self, at: usize, len: usize) -> Option<*const u8> {
        self.in_span(at, len).or_else(|| self.in_another(at, len))
    }

    /// As [`SkbChunk::in_piece`], for octets that lie in another piece than the known one.
    #[inline(never)]
    fn in_another(&self, at: usize, len: usize) -> Option<*const u8> {
        if !self.has(at, len) || self.in_span(at, 1).is_some() {
            return None;
        }
        self.seek(at);
        self.in_span(at, len)
    }

    /// Returns the address of octet `at`, which the chunk has, and the number of octets from there
    /// to the end of the piece.
    fn find(&self, at: usize) -> Option<(*const u8, usize)> {
        if self.in_span(at, 1).is_none() {
            self.seek(at);
        }
        let from = self.in_span(at, 1)?;
        Some((from, self.span.get().to.wrapping_sub(at)))
    }

    fn first(&self) -> Buffer {
        // INVARIANT: by those of the type.
        Buffer {
            skb: self.skb,
            from: 0,
            offset: self.offset,
            len: self.len,
        }
    }

    /// Returns the buffer behind `buffer`, if it has come and nothing out of band is in between.
    fn behind(&self, buffer: &Buffer) -> Option<Buffer> {
        let (mut offset, mut len) = (0, 0);
        let sk = self.sk?;
        // SAFETY: by the type invariants both are live, and the buffer is in the queue of the
        // socket, which is locked; the rest is writable.
        let skb = unsafe {
            h::tcp_skb_behind(
                sk.as_ptr(),
                buffer.skb.as_ptr(),
                buffer.end(),
                &mut offset,
                &mut len,
            )
        };
        // INVARIANT: as the function promises.
        Some(Buffer {
            skb: NonNull::new(skb)?,
            from: buffer.to(),
            offset,
            len,
        })
    }

    /// Asks for `len` octets from `at` on, of which only some belong to the chunk: the chunks
    /// behind it begin with the others. After [`Reach::Here`] the others can be read, too. After
    /// [`Reach::Later`], until the next read, TCP calls back only once `len` octets can be read;
    /// the caller takes what is in front of `at`.
    #[inline(never)]
    pub(crate) fn reach(&self, at: usize, len: usize) -> Reach {
        let end = at.checked_add(len).and_then(|end| u32::try_from(end).ok());
        let Some(end) = end else {
            return Reach::Apart;
        };
        let mut buffer = self.first();
        for _ in 0..MAX_BEHIND {
            let have = buffer.to();
            if have >= end {
                // INVARIANT: the buffers up to this one have them.
                self.reach.set(have.min(end).max(self.len));
                return Reach::Here;
            }
            buffer = match self.behind(&buffer) {
                Some(behind) => behind,
                None if self.may_get(&buffer, end - have) => {
                    self.expect(len);
                    return Reach::Later;
                }
                None => break,
            };
        }
        Reach::Apart
    }

    /// Returns whether `more` octets may come behind those of `buffer` while the octets of `buffer`
    /// stay in the socket.
    fn may_get(&self, buffer: &Buffer, more: u32) -> bool {
        let (skb, end) = (buffer.skb.as_ptr(), buffer.end());
        // SAFETY: as in `behind`.
        let may_get = |sk: NonNull<b::sock>| unsafe { h::tcp_may_get(sk.as_ptr(), skb, end, more) };
        self.sk.is_some_and(may_get)
    }

    /// Makes TCP call back only once `len` octets can be read.
    fn expect(&self, len: usize) {
        let (Some(sk), Ok(len)) = (self.sk, c_int::try_from(len)) else {
            return;
        };
        // SAFETY: the socket of the chunk is live and locked.
        unsafe { h::tcp_expect(sk.as_ptr(), len) };
    }

    fn buffer(&self, at: u32) -> Option<Buffer> {
        let mut buffer = self.buffer.get();
        if at < buffer.from {
            buffer = self.first();
        }
        while buffer.skip(at) >= buffer.len {
            buffer = self.behind(&buffer)?;
        }
        Some(buffer)
    }

    /// Looks for the piece in which octet `at` lies, which the chunk has, or reaches.
    fn seek(&self, at: usize) {
        // CAST: the chunk has that octet, and 32 bits fit.
        let at = at as u32;
        let Some(buffer) = self.buffer(at) else {
            return;
        };
        let before = match self.buffer.get().from == buffer.from {
            true => self.span.get(),
            false => Span::NONE,
        };
        if let Some(span) = buffer.span(buffer.place(at), &before) {
            self.buffer.set(buffer);
            self.span.set(span);
        }
    }

    pub(crate) fn len(&self) -> usize {
        // CAST: 32 bits fit.
        self.len as usize
    }

    /// Returns whether the chunk has, or reaches, `len` octets from `at` on.
    #[inline]
    fn has(&self, at: usize, len: usize) -> bool {
        // CAST: 32 bits fit.
        let reach = self.reach.get() as usize;
        at.end_within(len, reach).is_some()
    }

    /// Copies octets from `at` on into `to`. Fails with `EINVAL` if the chunk is too short, or with
    /// `EFAULT` if its memory is not readable.
    #[inline]
    pub(crate) fn copy_to(&self, at: usize, to: &mut [u8]) -> Result {
        // SAFETY: `to` has room for as many octets.
        unsafe { self.copy(at, to.len(), to.as_mut_ptr()) }
    }

    /// Copies `len` octets from `at` on to `out`, in order, with the errors of
    /// [`SkbChunk::copy_to`].
    ///
    /// # Safety
    ///
    /// `out` is valid for raw writes of as many octets.
    #[inline(always)]
    unsafe fn copy(&self, at: usize, len: usize, out: *mut u8) -> Result {
        let Some(from) = self.in_piece(at, len) else {
            // SAFETY: as promised by the caller.
            return unsafe { self.copy_pieces(at, len, out) };
        };
        // SAFETY: by the invariant of `Span` the octets are there; the caller vouches for `out`.
        unsafe { page::place(out, from, len) };
        Ok(())
    }

    /// As [`SkbChunk::copy`], for octets that lie in several pieces, or where there is no address.
    ///
    /// # Safety
    ///
    /// As [`SkbChunk::copy`].
    #[inline(never)]
    unsafe fn copy_pieces(&self, at: usize, len: usize, out: *mut u8) -> Result {
        if !self.has(at, len) {
            return Err(EINVAL);
        }
        let (mut at, mut missing, mut out) = (Wrapping(at), Saturating(len), out);
        while missing.0 > 0 {
            let n = match self.find(at.0) {
                Some((from, left)) => {
                    let n = left.min(missing.0);
                    // SAFETY: as in `copy`.
                    unsafe { page::place(out, from, n) };
                    n
                }
                None => {
                    let mut bounce = [0; BOUNCE_LEN];
                    let Raw { skb, offset, len } = self.raw(at.0, missing.0.min(BOUNCE_LEN))?;
                    let to = bounce.as_mut_ptr();
                    // SAFETY: the range lies in the buffer, and has no more octets than `bounce`.
                    to_result(unsafe { b::skb_copy_bits(skb, offset, to.cast(), len) })?;
                    let n = usize::try_from(len)?;
                    // SAFETY: they are in `bounce` now; the caller vouches for `out`.
                    unsafe { page::place(out, to, n) };
                    n
                }
            };
            at += n;
            missing -= n;
            out = out.wrapping_add(n);
        }
        Ok(())
    }

    /// Returns the place for C of up to `most` octets from `at` on, for which there is no address:
    /// as many as are in the same buffer, or `EINVAL` if there are none.
    #[cold]
    fn raw(&self, at: usize, most: usize) -> Result<Raw> {
        let at = u32::try_from(at)?;
        let buffer = self.buffer(at).ok_or(EINVAL)?;
        let skip = at.try_sub(buffer.from)?;
        let left = buffer.len.checked_sub(skip).filter(|left| *left > 0);
        let len = left.ok_or(EINVAL)?.min(u32::try_from(most)?);
        // INVARIANT: by those of `Buffer`.
        Ok(Raw {
            skb: buffer.skb.as_ptr(),
            offset: c_int::try_from(buffer.offset.try_add(skip)?)?,
            len: c_int::try_from(len)?,
        })
    }

    /// Returns the 20 octets from `at` on, if the chunk has as many and they can be read.
    #[inline(always)]
    pub(crate) fn front(&self, at: usize) -> Option<[u8; 20]> {
        let Some(from) = self.in_piece(at, 20) else {
            return self.front_in_pieces(at);
        };
        // SAFETY: by the invariant of `Span` the octets are there, for accesses like these.
        let a = unsafe { word::<u64>(from) }.to_ne_bytes();
        // SAFETY: as above.
        let b = unsafe { word::<u64>(from.wrapping_add(8)) }.to_ne_bytes();
        // SAFETY: as above.
        let c = unsafe { word::<u32>(from.wrapping_add(16)) }.to_ne_bytes();
        let mut octets = [0; 20];
        let (to_a, rest) = octets.split_first_chunk_mut()?;
        let (to_b, to_c) = rest.split_first_chunk_mut()?;
        (*to_a, *to_b, *to_c.first_chunk_mut()?) = (a, b, c);
        Some(octets)
    }

    /// As [`SkbChunk::front`], for octets that lie in several pieces, or where there is no address.
    #[inline(never)]
    fn front_in_pieces(&self, at: usize) -> Option<[u8; 20]> {
        let mut octets = [0; 20];
        self.copy_to(at, &mut octets).ok()?;
        Some(octets)
    }

    /// As [`SkbChunk::copy_to`], or fails with `EACCES` if `to` is read-only.
    #[inline(always)]
    pub(crate) fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        let out = to.as_mut_ptr()?;
        // SAFETY: the slice's address is good for raw copies of its length.
        // CAST: 32 bits fit.
        unsafe { self.copy(at, to.len() as usize, out) }
    }

    /// Continues the CRC32C `crc` over `len` octets from `at` on, or returns `EINVAL` if the chunk
    /// is too short. As for `crc32c()`, start with `!0` and invert the result once at the end.
    #[inline]
    pub(crate) fn crc32c(&self, at: usize, len: usize, crc: u32) -> Result<u32> {
        let Some(from) = self.in_piece(at, len) else {
            return self.crc32c_pieces(at, len, crc);
        };
        // SAFETY: by the invariant of `Span` the octets are there; C puts up with writes meanwhile.
        Ok(unsafe { b::crc32c(crc, from.cast(), len) })
    }

    /// As [`SkbChunk::crc32c`], for octets that lie in several pieces, or where there is no
    /// address.
    #[inline(never)]
    fn crc32c_pieces(&self, at: usize, len: usize, mut crc: u32) -> Result<u32> {
        if !self.has(at, len) {
            return Err(EINVAL);
        }
        let (mut at, mut missing) = (Wrapping(at), Saturating(len));
        while missing.0 > 0 {
            let n = match self.find(at.0) {
                Some((from, left)) => {
                    let n = left.min(missing.0);
                    // SAFETY: as in `crc32c`.
                    crc = unsafe { b::crc32c(crc, from.cast(), n) };
                    n
                }
                None => {
                    let Raw { skb, offset, len } = self.raw(at.0, missing.0)?;
                    // SAFETY: the range lies in the buffer.
                    crc = unsafe { b::skb_crc32c(skb, offset, len, crc) };
                    usize::try_from(len)?
                }
            };
            at += n;
            missing -= n;
        }
        Ok(crc)
    }
}

/// A word at any address.
#[repr(C, packed)]
struct Unaligned<T>(T);

/// Reads a word that others may write at the same time.
///
/// # Safety
///
/// The octets from `from` on are readable by accesses that put up with concurrent writes.
#[inline(always)]
unsafe fn word<T>(from: *const u8) -> T {
    // SAFETY: by the caller's promise; a packed structure may begin anywhere.
    unsafe { from.cast::<Unaligned<T>>().read_volatile() }.0
}
