// SPDX-License-Identifier: GPL-2.0

//! Memory of a process, pinned for as long as it is registered.
//!
//! The core pins the pages, counts them against the process's limit and refuses what the process
//! may not access itself. Here they become a list that finds the page of any offset at once, and a
//! gate that guards it: pieces are handed out only to those inside, and [`Umem::release`] unpins
//! the pages when all have left.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)
//!
//! Context: pieces in any context, everything else sleeps.

use super::handle::DeviceHandle;
use crate::{
    ffi::{
        page::PageSlice,
        raw::{
            b,
            h, //
        },
    },
    sync::gate::{
        Gate,
        GateGuard,
        GatePtr, //
    },
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full, //
    },
};

/// The pages and what has them pinned.
///
/// # Invariants
///
/// `umem` came from `ib_umem_get_va` and is released when this is dropped; `pages` are its pages in
/// order.
struct Pinned {
    umem: NonNull<b::ib_umem>,
    pages: KVVec<NonNull<b::page>>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: by the invariant; this is the only release.
        unsafe { b::ib_umem_release(self.umem.as_ptr()) };
    }
}

/// Pinned memory of a process.
///
/// [`Umem::release`] must have been called before the last reference may be dropped in a context
/// that cannot sleep.
///
/// # Invariants
///
/// `pinned` changes only in [`Umem::release`], after `gate` was closed and left by all. While it is
/// set, its pages hold the `len` bytes from `offset` in the first page on.
#[pin_data]
pub(crate) struct Umem {
    #[pin]
    gate: Gate,
    released: Atomic<bool>,
    offset: u64,
    len: u64,
    pinned: UnsafeCell<Option<Pinned>>,
}

// SAFETY: pages and their pins belong to no thread; the invariants order all changes of `pinned`
// after all its uses.
unsafe impl Send for Umem {}
// SAFETY: see above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes from `start` on of the calling process, for `access` (`enum
    /// ib_access_flags`).
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty range or one that wraps, `EFAULT` for memory that the process does not
    /// have or may not write, `ENOMEM` for no memory or too much pinned already, `ENODEV`.
    pub(crate) fn pin(
        device: &DeviceHandle,
        start: u64,
        len: u64,
        access: u32,
    ) -> Result<Pin<KBox<Self>>> {
        let offset = start % PAGE_SIZE as u64; // CAST: a page's size fits.
        let start = usize::try_from(start)?;
        let size = usize::try_from(len)?;
        let umem = device
            .with(|dev| {
                // SAFETY: the handle keeps the device alive; the function checks the rest.
                // CAST: flag bits in a C int.
                from_err_ptr(unsafe { h::ib_umem_get_va(dev, start, size, access as c_int) })
            })
            .ok_or(ENODEV)??;
        // INVARIANT: `fill` lists the pages.
        let mut pinned = Pinned {
            umem: NonNull::new(umem).ok_or(ENOMEM)?,
            pages: KVVec::new(),
        };
        pinned.fill()?;
        // INVARIANT: `pinned` is set and the gate open; the core pinned all pages of the range,
        // whose first page the range starts in.
        KBox::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                released: Atomic::new(false),
                offset,
                len,
                pinned: UnsafeCell::new(Some(pinned)),
            }),
            GFP_KERNEL,
        )
    }

    /// Unpins the memory. Waits for those inside the gate and refuses all later ones; sleeps.
    pub(crate) fn release(&self) {
        self.gate.close_and_wait();
        if self.released.xchg(true, Full) {
            return;
        }
        // SAFETY: the gate is closed and empty, so that nobody reads `pinned`; `released` makes
        // this the only caller that gets here.
        // INVARIANT: as described.
        drop(unsafe { (*self.pinned.get()).take() });
    }

    /// The gate of the memory.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The pieces of `len` bytes from byte `at` on, for the holder of a guard of the gate.
    ///
    /// Returns `None` if the range is not inside or the guard is another gate's.
    pub(crate) fn slices<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        at: u64,
        len: u32,
    ) -> Option<Slices<'a>> {
        if !core::ptr::eq(guard.gate(), &self.gate) {
            return None;
        }
        if at.checked_add(u64::from(len))? > self.len {
            return None;
        }
        // SAFETY: the guard counts its holder into the gate for `'a`, so nothing changes `pinned`.
        let pinned = unsafe { &*self.pinned.get() }.as_ref()?;
        let at = self.offset.checked_add(at)?;
        let page = usize::try_from(at / PAGE_SIZE as u64).ok()?; // CAST: a page's size fits.
        Some(Slices {
            pages: pinned.pages.get(page..)?,
            // CAST: less than a page's size.
            offset: (at % PAGE_SIZE as u64) as u32,
            left: len,
        })
    }
}

impl Pinned {
    /// Lists the pages.
    fn fill(&mut self) -> Result {
        // SAFETY: by the invariant the object is valid.
        let count = unsafe { h::ib_umem_num_pages(self.umem.as_ptr()) };
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        let room: &mut [_] = pages.spare_capacity_mut();
        // SAFETY: the object is valid, and `room` has room for as many pointers as it has elements;
        // `NonNull<T>` is laid out as a pointer.
        let n = unsafe {
            h::ib_umem_pages(
                self.umem.as_ptr(),
                room.as_mut_ptr().cast(),
                count.min(room.len()), //
            )
        };
        if n != count {
            return Err(EINVAL);
        }
        // SAFETY: the helper wrote that many pointers, none of them null.
        unsafe { pages.inc_len(n) };
        self.pages = pages;
        Ok(())
    }
}

/// The pieces of a range of pinned memory, each as long as the pages are adjacent.
pub(crate) struct Slices<'a> {
    /// Pages from the one on that the next piece starts in.
    pages: &'a [NonNull<b::page>],
    /// Where in that page.
    offset: u32,
    /// Bytes that are left.
    left: u32,
}

impl<'a> Iterator for Slices<'a> {
    type Item = PageSlice<'a>;

    fn next(&mut self) -> Option<PageSlice<'a>> {
        if self.left == 0 {
            return None;
        }
        // CAST: a page's size fits 32 bits.
        let page_size = PAGE_SIZE as u32;
        let (&first, mut rest) = self.pages.split_first()?;
        let mut len = page_size.checked_sub(self.offset)?;
        let mut last = first.as_ptr();
        while len < self.left {
            match rest.split_first() {
                Some((next, tail)) if next.as_ptr() == last.wrapping_add(1) => {
                    last = next.as_ptr();
                    rest = tail;
                    len = len.saturating_add(page_size);
                }
                _ => break,
            }
        }
        let len = len.min(self.left);
        // SAFETY: `first` starts a run of pages with adjacent descriptors, all pinned as long as
        // the guard is held that `'a` borrows; `len` stays within the run.
        let slice = unsafe { PageSlice::from_raw(first, self.offset, len) };
        self.pages = rest;
        self.offset = 0;
        self.left = self.left.saturating_sub(len);
        Some(slice)
    }
}
