// SPDX-License-Identifier: GPL-2.0

//! Pieces of pinned memory that others may write at any time, and the copies in and out of it.
//!
//! The owner of a memory region, a peer's RDMA Writes and this host's placement all access the same
//! bytes without a lock. So there is never a Rust reference to them. Programs wait for a message by
//! looking at its last octet, so the order of the copies matters, and they are made here only
//! (`tools/lint/gates.py`).
//!
//! Consumers in the kernel name memory by its address ([`KernelPieces`]). The device has no DMA, so
//! what `ib_dma_map_*` yields is the kernel address itself. It is in the direct map, where a
//! stretch is one piece, or in memory of `vmalloc`, where each page is a piece of its own.
//!
//! Context: any.

use crate::ffi::raw::{
    b,
    h, //
};
use crate::num::Length;
use core::marker::PhantomData;
use core::num::Saturating;
use core::ptr::NonNull;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{
    atomic_load,
    cmpxchg,
    Full,
    Relaxed, //
};

/// A physically contiguous piece of memory, possibly of several pages.
///
/// # Invariants
///
/// The `len` bytes from `start` on are memory of the kernel's direct map that stays allocated
/// during `'a`, and that may be written if `writable`.
#[derive(Clone, Copy)]
pub(crate) struct PageSlice<'a> {
    start: NonNull<u8>,
    len: u32,
    writable: bool,
    _pages: PhantomData<&'a b::page>,
}

impl<'a> PageSlice<'a> {
    /// Wraps the `len` bytes that begin `offset` bytes behind `start`.
    ///
    /// # Safety
    ///
    /// `offset + len` bytes of the direct map begin at `start` and stay allocated during `'a`. This
    /// side may write those that are wrapped if `writable`.
    #[inline]
    pub(in crate::ffi) unsafe fn new(
        start: NonNull<u8>,
        offset: u32,
        len: u32,
        writable: bool,
    ) -> Self {
        // INVARIANT: the caller's promise.
        Self {
            // SAFETY: by the caller's promise the bytes that `start` begins reach that far.
            // CAST: 32 bits fit.
            start: unsafe { start.add(offset as usize) },
            len,
            writable,
            _pages: PhantomData,
        }
    }

    /// Wraps the `len` bytes from byte `offset` of `page` on; `None` if the page has no address.
    ///
    /// # Safety
    ///
    /// The bytes lie in a run of pages with adjacent descriptors that begins with `page` and stays
    /// allocated during `'a`. This side may write them if `writable`.
    pub(in crate::ffi) unsafe fn from_raw(
        page: NonNull<b::page>,
        offset: u32,
        len: u32,
        writable: bool,
    ) -> Option<Self> {
        // SAFETY: by the caller's promise the page is allocated.
        let base = unsafe { h::page_address(page.as_ptr()) }.cast::<u8>();
        // SAFETY: by the caller's promise; adjacent descriptors mean adjacent direct-map memory.
        Some(unsafe { Self::new(NonNull::new(base)?, offset, len, writable) })
    }

    pub(crate) const EMPTY: Self = Self {
        // INVARIANT: no bytes.
        start: NonNull::dangling(),
        len: 0,
        writable: false,
        _pages: PhantomData,
    };

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the kernel address of the first byte. [`PageSlice::len`] bytes can be read there
    /// during `'a`, but only by accesses that bear concurrent writes: by C code, or volatile.
    pub(in crate::ffi) fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr().cast_const()
    }

    /// As [`PageSlice::as_ptr`], for writes, or `EACCES` if the memory is read-only.
    pub(in crate::ffi) fn as_mut_ptr(&self) -> Result<*mut u8> {
        if !self.writable {
            return Err(EACCES);
        }
        Ok(self.start.as_ptr())
    }

    /// Splits off the first `len` bytes, or all if there are fewer, and returns them.
    #[inline]
    pub(crate) fn take_front(&mut self, len: u32) -> Self {
        let front = Self {
            len: len.min(self.len),
            ..*self
        };
        // INVARIANT: a part of what the invariant holds for, or nothing at its end.
        // SAFETY: at most as many bytes are there as are passed over.
        // CAST: 32 bits fit.
        self.start = unsafe { self.start.add(front.len as usize) };
        self.len -= front.len;
        front
    }

    /// Copies all of it to `out`, reading each byte once; `EINVAL` if the lengths differ.
    #[inline]
    pub(crate) fn copy_out(&self, out: &mut [u8]) -> Result {
        if out.len() != self.len as usize {
            return Err(EINVAL);
        }
        // SAFETY: by the invariants there are as many bytes as in `out`, which is the driver's own.
        unsafe { fetch(out, self.as_ptr()) };
        Ok(())
    }

    /// Writes all of `src`, which may overlap, from byte `at` on, as [`PageSlice::copy_in`] does.
    #[inline]
    pub(crate) fn copy_from(&self, at: u32, src: &PageSlice<'_>) -> Result {
        // CAST: 32 bits fit.
        let len = src.len as usize;
        let ptr = self.range(at, len)?;
        // SAFETY: `range` returned memory that holds as many bytes as `src`.
        unsafe { place(ptr, src.as_ptr(), len) };
        Ok(())
    }

    /// Writes `src` from byte `at` on, in order. Fails, and writes nothing, with `EINVAL` if it
    /// does not fit, or with `EACCES` if the memory is read-only.
    pub(crate) fn copy_in(&self, at: u32, src: &[u8]) -> Result {
        let ptr = self.range(at, src.len())?;
        // SAFETY: `range` returned memory that holds as many bytes as `src`.
        unsafe { place(ptr, src.as_ptr(), src.len()) };
        Ok(())
    }

    /// Returns the address of byte `at` for writing if there are `len` bytes from there on.
    fn range(&self, at: u32, len: usize) -> Result<*mut u8> {
        let (at, all) = (at as usize, self.len as usize);
        at.end_within(len, all).ok_or(EINVAL)?;
        Ok(self.as_mut_ptr()?.wrapping_add(at))
    }
}

/// Eight bytes that can be changed in one piece.
///
/// # Invariants
///
/// They are the whole slice, which may be written, and their address is a multiple of eight.
pub(crate) struct Word<'a>(PageSlice<'a>);

/// How often a change is tried. Each try that fails means that somebody else's change succeeded.
const MAX_TRIES: u32 = 4096;

impl<'a> Word<'a> {
    /// Makes a word of `slice`; `None` if the slice is not aligned, not eight bytes long, or
    /// read-only.
    pub(crate) fn new(slice: PageSlice<'a>) -> Option<Self> {
        let ptr = slice.as_mut_ptr().ok()?.cast::<u64>();
        // CAST: 32 bits fit.
        let is_word = slice.len as usize == size_of::<u64>() && ptr.is_aligned();
        // INVARIANT: just checked.
        is_word.then_some(Self(slice))
    }

    /// Replaces the word by what `change` makes of it, in the byte order of this host, and returns
    /// what it was. Neither another processor nor a process changes it in between. Returns `EBUSY`
    /// if others keep changing the word.
    pub(crate) fn change(&self, change: impl Fn(u64) -> u64) -> Result<u64> {
        let ptr = self.0.start.as_ptr().cast::<u64>();
        // SAFETY: by the invariants it is valid and aligned. Others may write the word at any time,
        // by any instruction; it is read by one, and any value of it will do.
        let mut seen = unsafe { atomic_load(ptr, Relaxed) };
        for _ in 0..MAX_TRIES {
            // SAFETY: as above, and it may be written; one instruction reads, compares and writes
            // the word, whatever others do.
            match unsafe { cmpxchg(ptr, seen, change(seen), Full) } {
                Ok(original) => return Ok(original),
                Err(other) => seen = other,
            }
        }
        Err(EBUSY)
    }
}

// Pages with adjacent descriptors must be adjacent in memory.
#[cfg(all(CONFIG_SPARSEMEM, not(CONFIG_SPARSEMEM_VMEMMAP)))]
compile_error!("page descriptors must be virtually contiguous (SPARSEMEM_VMEMMAP)");
#[cfg(not(CONFIG_64BIT))]
compile_error!("all memory must be in the direct map (64BIT)");

/// Copies `len` octets to a consumer's memory, in order: see `helpers/copy.c`. They may overlap.
///
/// # Safety
///
/// `from` is readable and `to` writable for `len` octets, by accesses that bear concurrent ones.
#[inline(always)]
pub(in crate::ffi) unsafe fn place(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the caller's promise; C puts up with concurrent accesses.
    unsafe { h::place(to, from, len) };
}

/// Fills `to` with octets that others may write meanwhile. Each is read once, in any order.
///
/// # Safety
///
/// `from` is readable for `to.len()` octets, by accesses that bear concurrent writes, and none of
/// them is one of `to`.
#[inline(always)]
pub(in crate::ffi) unsafe fn fetch(to: &mut [u8], from: *const u8) {
    // Bound: under a spin lock, the inline data of a request ([`KERNEL_MAX_INLINE`]).
    // SAFETY: by the caller's promise; C's `memcpy` puts up with concurrent writes.
    unsafe { b::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
}

/// A stretch of kernel memory, cut into pieces. It ends early where an address is no memory.
///
/// # Invariants
///
/// Those of the `left` bytes from `addr` on that are kernel memory stay allocated during `'a`.
pub(in crate::ffi) struct KernelPieces<'a> {
    addr: u64,
    left: Saturating<u32>,
    _memory: PhantomData<&'a [u8]>,
}

impl KernelPieces<'_> {
    /// Cuts `len` bytes from `addr` on.
    ///
    /// # Safety
    ///
    /// A consumer in the kernel has named the memory, and keeps it as long as the result and what
    /// it yields exist.
    pub(in crate::ffi) unsafe fn new(addr: u64, len: u32) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            addr,
            left: Saturating(len),
            _memory: PhantomData,
        }
    }

    /// Returns whether all of the stretch was yielded.
    pub(in crate::ffi) fn is_done(&self) -> bool {
        self.left.0 == 0
    }
}

impl<'a> Iterator for KernelPieces<'a> {
    type Item = PageSlice<'a>;

    fn next(&mut self) -> Option<PageSlice<'a>> {
        if self.left.0 == 0 {
            return None;
        }
        let mut linear = false;
        let addr = usize::try_from(self.addr).ok()?;
        let ptr = core::ptr::without_provenance(addr);
        // SAFETY: the function looks at the address only.
        let page = NonNull::new(unsafe { h::kernel_page(ptr, &mut linear) })?;
        let offset = addr % PAGE_SIZE;
        let len = if linear {
            self.left.0
        } else {
            // CAST: a page's size fits 32 bits.
            self.left.0.min((PAGE_SIZE - offset) as u32)
        };
        self.addr = self.addr.checked_add(len.into())?;
        self.left -= len;
        // SAFETY: the piece starts in `page`, and ends there or lies in the direct map, where
        // descriptors are adjacent. By the invariant it stays allocated. A consumer may let the
        // memory that it names be written. CAST: less than a page's size.
        unsafe { PageSlice::from_raw(page, offset as u32, len, true) }
    }
}
