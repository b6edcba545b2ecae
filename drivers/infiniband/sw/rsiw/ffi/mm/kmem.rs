// SPDX-License-Identifier: GPL-2.0

//! Memory that consumers in the kernel name by its address.
//!
//! The device has no DMA, so what `ib_dma_map_*` yields is the kernel address itself: of the direct
//! map, where a stretch is one piece, or of `vmalloc`, where each page is a piece of its own.
//!
//! Context: any.

use super::page::PageSlice;
use crate::ffi::raw::h;
use core::{
    marker::PhantomData,
    num::Saturating,
    ptr::NonNull, //
};
use kernel::page::PAGE_SIZE;

/// A stretch of kernel memory, cut into pieces. It ends early where an address is no memory.
///
/// # Invariants
///
/// What of the `left` bytes from `addr` on is kernel memory stays allocated during `'a`.
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
        // descriptors are adjacent. By the invariant it stays allocated. A consumer may have what
        // it names written to.
        // CAST: less than a page's size.
        unsafe { PageSlice::from_raw(page, offset as u32, len, true) }
    }
}
