// SPDX-License-Identifier: GPL-2.0

//! Memory for rings: contiguous in the kernel, mappable by user processes.
//!
//! Context: allocation and release sleep; [`SharedMemory`] may also be dropped in softirq, but not
//! with interrupts disabled or under a spinlock (`vfree`).

use super::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    page::{
        page_align,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc, //
};

/// Zeroed pages, freed when the last reference is dropped. They count for the memory cgroup of the
/// process that asked for them.
///
/// A process that maps them holds references on the pages of its own.
///
/// # Invariants
///
/// `ptr` came from `__vmalloc` and has `size` bytes, a multiple of the page size. Processes may
/// read and write them at any time.
pub(crate) struct SharedMemory {
    ptr: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread; all access goes through volatile or atomic operations.
unsafe impl Send for SharedMemory {}
// SAFETY: see above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Allocates at least `len` bytes, not zero.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes or too many to count, `ENOMEM`.
    pub(crate) fn new(len: usize) -> Result<Arc<Self>> {
        let size = page_align(len).ok_or(EINVAL)?;
        if size < PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: any size may be asked for.
        let ptr = unsafe { h::vmalloc_account(size) };
        // INVARIANT: freshly allocated with this size, which was rounded up above.
        let this = Self {
            ptr: NonNull::new(ptr.cast()).ok_or(ENOMEM)?,
            size,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Length in bytes, whole pages.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The first byte. Valid for volatile and atomic access of [`SharedMemory::size`] bytes as long
    /// as `self` lives.
    pub(in crate::ffi) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: by the invariant this is what `__vmalloc` returned, and nobody has `self`.
        unsafe { b::vfree(self.ptr.as_ptr().cast()) };
    }
}
