// SPDX-License-Identifier: GPL-2.0

//! Memory for rings: contiguous in the kernel, mappable by user processes.
//!
//! Context: allocation and release sleep; [`SharedMemory`] may also be dropped in softirq, but not
//! with interrupts disabled or under a spinlock (`vfree`).

use crate::ffi::{
    module::Loaded,
    raw::h, //
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

/// Zeroed pages, freed with the last reference, that count for the memory cgroup of the process
/// that asked for them. A process that maps them holds references of its own to the pages.
///
/// # Invariants
///
/// `ptr` came from `__vmalloc` and has `size` bytes, a multiple of the page size. Processes may
/// read and write them at any time, also after they were freed. `owner` frees them.
pub(crate) struct SharedMemory {
    owner: NonNull<c_void>,
    ptr: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread; all access goes through volatile or atomic operations.
unsafe impl Send for SharedMemory {}
// SAFETY: see above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Allocates at least `len` bytes. Returns `EINVAL` if that is zero or overflows, or `ENOMEM`.
    pub(crate) fn new(len: usize, _loaded: Loaded) -> Result<Arc<Self>> {
        let size = page_align(len).ok_or(EINVAL)?;
        if size < PAGE_SIZE {
            return Err(EINVAL);
        }
        let mut ptr = core::ptr::null_mut();
        // SAFETY: any size may be asked for; `ptr` is writable.
        let owner = unsafe { h::shared_alloc(size, &mut ptr) };
        // INVARIANT: freshly allocated with this size, which was rounded up above.
        let this = Self {
            owner: NonNull::new(owner).ok_or(ENOMEM)?,
            ptr: NonNull::new(ptr.cast()).ok_or(ENOMEM)?,
            size,
        };
        Ok(Arc::new(this, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the length in bytes, of whole pages.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the address of the first byte. It is valid for volatile and atomic access of
    /// [`SharedMemory::size`] bytes as long as `self` lives.
    pub(in crate::ffi) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: by the invariant it frees the memory, which nobody in the kernel uses any more.
        unsafe { h::shared_free(self.owner.as_ptr()) };
    }
}
