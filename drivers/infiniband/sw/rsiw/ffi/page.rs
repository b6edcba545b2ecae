// SPDX-License-Identifier: GPL-2.0

//! Pieces of pinned memory that others may write at any time.
//!
//! The owner of a memory region, a peer's RDMA Writes and this host's placement all touch the same
//! bytes without a lock. So there is never a Rust reference to them: bytes are copied in and out
//! by C's `memcpy`.
//!
//! Context: any.

use super::raw::{
    b,
    h, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// A physically contiguous piece of memory, possibly of several pages.
///
/// # Invariants
///
/// `page` is the first of a run of pages of the kernel's direct map with adjacent descriptors; the
/// `len` bytes from `offset` on lie within the run; `offset` lies within the first page. The pages
/// stay allocated during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct PageSlice<'a> {
    page: NonNull<b::page>,
    offset: u32,
    len: u32,
    _pages: PhantomData<&'a b::page>,
}

impl<'a> PageSlice<'a> {
    /// Wraps a piece of memory.
    ///
    /// # Safety
    ///
    /// The arguments must fulfil the type's invariants.
    pub(in crate::ffi) unsafe fn from_raw(page: NonNull<b::page>, offset: u32, len: u32) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            page,
            offset,
            len,
            _pages: PhantomData,
        }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The kernel address of the first byte.
    ///
    /// Valid for reads and writes of [`PageSlice::len`] bytes during `'a`, but only for accesses
    /// that put up with concurrent ones: C code, or volatile ones.
    pub(in crate::ffi) fn as_mut_ptr(&self) -> *mut u8 {
        // SAFETY: by the invariants the page is allocated and part of the direct map.
        let base = unsafe { h::page_address(self.page.as_ptr()) };
        base.cast::<u8>().wrapping_add(self.offset as usize)
    }

    /// The part of `len` bytes from byte `at` on, or `None` if it is not inside.
    pub(crate) fn sub(&self, at: u32, len: u32) -> Option<Self> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        let start = self.offset.checked_add(at)?;
        // CAST: a page's size fits 32 bits.
        let page_size = PAGE_SIZE as u32;
        let page = self
            .page
            .as_ptr()
            .wrapping_add((start / page_size) as usize);
        // INVARIANT: the descriptors of the run are adjacent, and the part lies within it.
        Some(Self {
            page: NonNull::new(page)?,
            offset: start % page_size,
            len,
            _pages: PhantomData,
        })
    }

    /// Writes `src` to the memory from byte `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not fit; nothing is written then.
    pub(crate) fn copy_in(&self, at: u32, src: &[u8]) -> Result {
        let ptr = self.range(at, src.len())?;
        // SAFETY: `range` returned memory that holds as many bytes as `src`; others may write them
        // at the same time, which C's `memcpy` puts up with.
        unsafe { b::memcpy(ptr.cast(), src.as_ptr().cast(), src.len()) };
        Ok(())
    }

    /// The address of byte `at` if `len` bytes follow.
    fn range(&self, at: u32, len: usize) -> Result<*mut u8> {
        let end = (at as usize).checked_add(len).ok_or(EINVAL)?;
        if end > self.len as usize {
            return Err(EINVAL);
        }
        Ok(self.as_mut_ptr().wrapping_add(at as usize))
    }
}

// Walking a run by its page descriptors needs them to be adjacent.
#[cfg(all(CONFIG_SPARSEMEM, not(CONFIG_SPARSEMEM_VMEMMAP)))]
compile_error!("page descriptors must be virtually contiguous (SPARSEMEM_VMEMMAP)");
#[cfg(not(CONFIG_64BIT))]
compile_error!("all memory must be in the direct map (64BIT)");
