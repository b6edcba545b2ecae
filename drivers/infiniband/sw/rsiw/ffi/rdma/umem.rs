// SPDX-License-Identifier: GPL-2.0

//! Memory of a process, or of a DMA buffer, pinned for as long as it is registered.
//!
//! The core pins the pages of a process, counts them against its limit and refuses what the process
//! may not access itself. DMA buffers are mapped for the CPU instead: there is no DMA, and
//! importers must not look into the lists of pages that exporters make for it. Here both become a
//! list that finds the page of any offset at once, guarded by a gate: only those inside get pieces,
//! and [`Umem::release`] unpins the pages when all have left.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h). Context: pieces in any context,
//! everything else sleeps.

use super::attr::AccessFlags;
use super::handle::DeviceHandle;
use crate::ffi::mm::page::PageSlice;
use crate::ffi::raw::{
    b,
    h, //
};
use crate::ffi::sync::gate::{
    Gate,
    GateGuard,
    GatePtr, //
};
use crate::num::Length;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::num::Saturating;
use core::ptr::NonNull;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::error::from_err_ptr;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::sync::Arc;

/// How many pages a region may have: their list is one allocation, of up to 2 GiB.
const MAX_PAGES: usize = i32::MAX as usize / size_of::<NonNull<u8>>();

/// How many octets a region may have, wherever in a page it begins.
pub(crate) const MAX_LEN: u64 = (MAX_PAGES as u64 - 1) * PAGE_SIZE as u64; // CAST: they fit.

/// Keeps the pages pinned; dropping it unpins them.
///
/// # Invariants
///
/// A `Umem` came from `ib_umem_get_va`. A `DmaBuf` is an attachment with its address, both from
/// `dma_buf_map`. Only the drop releases them.
enum Holder {
    Umem(NonNull<b::ib_umem>),
    DmaBuf(NonNull<c_void>, *mut c_void),
}

impl Drop for Holder {
    fn drop(&mut self) {
        match self {
            // SAFETY: by the invariant; this is the only release.
            Self::Umem(umem) => unsafe { b::ib_umem_release(umem.as_ptr()) },
            // SAFETY: by the invariant; this is the only release.
            Self::DmaBuf(buf, addr) => unsafe { h::dma_buf_unmap(buf.as_ptr(), *addr) },
        }
    }
}

/// The pages and what keeps them pinned, in the order in which they are dropped.
///
/// # Invariants
///
/// `pages` are the addresses of pages that `holder` keeps, in the direct map, in order.
struct Pinned {
    pages: KVVec<NonNull<u8>>,
    holder: Holder,
    /// Unpinning uses the device.
    _device: GateGuard<Arc<DeviceHandle>>,
}

/// Pinned memory of a process or of a DMA buffer.
///
/// [`Umem::release`] must be called before the last reference may be dropped in atomic context.
///
/// # Invariants
///
/// `pinned` changes only in [`Umem::take`], after `gate` was closed and left by all. While it is
/// set, its pages hold the `len` octets from `offset` in the first page on.
#[pin_data]
pub(crate) struct Umem {
    #[pin]
    gate: Gate,
    released: Atomic<bool>,
    offset: u64,
    len: u64,
    /// Whether the memory was pinned for writing.
    writable: bool,
    pinned: UnsafeCell<Option<Pinned>>,
}

// SAFETY: pages belong to no thread; the invariants order all changes of `pinned` after all uses.
unsafe impl Send for Umem {}
// SAFETY: see above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` octets from `start` on of the calling process, for `access`. Fails with `EINVAL`
    /// for a range that is empty or wraps, `EFAULT` for memory that the process does not have or
    /// may not write, `ENOMEM` also for too much pinned already or more than [`MAX_LEN`], `ENODEV`.
    pub(crate) fn pin(
        device: &Arc<DeviceHandle>,
        start: u64,
        len: u64,
        access: AccessFlags,
    ) -> Result<Pin<KBox<Self>>> {
        if len > MAX_LEN && start.checked_add(len).is_some() {
            return Err(ENOMEM);
        }
        let offset = start % PAGE_SIZE as u64; // CAST: a page's size fits.
        let start = usize::try_from(start)?;
        let size = usize::try_from(len)?;
        let device = GateGuard::new(device.clone()).ok_or(ENODEV)?;
        // SAFETY: the guard keeps the device alive; the function checks the rest.
        let umem = unsafe { h::ib_umem_get_va(device.as_ptr(), start, size, access.to_raw()) };
        let umem = NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?;
        // INVARIANT: just got from `ib_umem_get_va`.
        let pin = Holder::Umem(umem);
        // SAFETY: the object is valid.
        let count = unsafe { h::ib_umem_num_pages(umem.as_ptr()) };
        let pinned = Pinned::new(device, pin, count, |room| {
            // SAFETY: the object is valid, and `room` takes as many pointers as it has elements;
            // `NonNull<T>` is laid out as a pointer.
            unsafe { h::ib_umem_pages(umem.as_ptr(), room.as_mut_ptr().cast(), room.len()) }
        })?;
        Self::new(pinned, offset, len, access.writes())
    }

    /// Takes `len` octets from `offset` on of the DMA buffer behind the calling process's `fd`.
    /// Fails with `EINVAL` for an empty range or one that is not in the buffer, `EBADF`, `EACCES`
    /// for writing to a read-only buffer, `EOPNOTSUPP` for a buffer that is not memory of this
    /// machine in whole pages, is moved while it is in use or cannot be mapped for the kernel,
    /// `ENOMEM`, `ENODEV`, and the exporter's own errors.
    pub(crate) fn map_dmabuf(
        device: &Arc<DeviceHandle>,
        fd: i32,
        offset: u64,
        len: u64,
        writable: bool,
    ) -> Result<Pin<KBox<Self>>> {
        let end = offset.checked_add(len).filter(|_| len > 0).ok_or(EINVAL)?;
        if len > MAX_LEN {
            return Err(ENOMEM);
        }
        let mut addr = core::ptr::null_mut();
        let device = GateGuard::new(device.clone()).ok_or(ENODEV)?;
        // SAFETY: any descriptor may be asked for; the guard keeps the device alive, for the
        // attachment too; the out pointer is valid.
        let buf = unsafe { h::dma_buf_map(device.as_ptr(), fd, end, writable, &raw mut addr) };
        let buf = NonNull::new(from_err_ptr(buf)?).ok_or(EINVAL)?;
        // INVARIANT: both just got from `dma_buf_map`.
        let pin = Holder::DmaBuf(buf, addr);
        let page = PAGE_SIZE as u64; // CAST: a page's size fits.
        let first = offset.try_sub(offset % page)?;
        let count = usize::try_from(end.try_sub(first)?.div_ceil(page))?;
        let start = addr.wrapping_byte_add(usize::try_from(first)?);
        let pinned = Pinned::new(device, pin, count, |room| {
            // SAFETY: the buffer is mapped, of a size in whole pages, and `room` takes as many
            // pointers as it has elements; `NonNull<T>` is laid out as a pointer.
            unsafe { h::kernel_pages(start, room.as_mut_ptr().cast(), room.len()) }
        })?;
        Self::new(pinned, offset % page, len, writable)
    }

    /// Makes memory of `len` octets, of which the first is at `offset` in the first page.
    fn new(pinned: Pinned, offset: u64, len: u64, writable: bool) -> Result<Pin<KBox<Self>>> {
        // INVARIANT: `pinned` is set and the gate open; all pages of the range are pinned, and it
        // starts in the first.
        KBox::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                released: Atomic::new(false),
                offset,
                len,
                writable,
                pinned: UnsafeCell::new(Some(pinned)),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Unpins the memory: refuses later users of the gate and waits for those inside. Sleeps.
    pub(crate) fn release(&self) {
        drop(self.take());
    }

    /// Ends the use of the memory as [`Umem::release`] does, but keeps it pinned, under a gate of
    /// its own. Fails with `EINVAL` if it was released before, and with `ENOMEM`, which releases
    /// it.
    pub(crate) fn renew(&self) -> Result<Pin<KBox<Self>>> {
        let pinned = self.take().ok_or(EINVAL)?;
        Self::new(pinned, self.offset, self.len, self.writable)
    }

    /// Returns whether the calling process is the one whose memory was pinned. It may have mapped
    /// other memory at these addresses since.
    pub(crate) fn is_callers(&self) -> bool {
        let Some(_inside) = self.gate.enter() else {
            return false;
        };
        // SAFETY: the guard counts its holder into the gate, so nothing changes `pinned`.
        match unsafe { &*self.pinned.get() } {
            Some(Pinned {
                holder: Holder::Umem(umem),
                ..
            }) => {
                // SAFETY: by the invariant of `Holder` the object is valid.
                unsafe { h::ib_umem_is_callers(umem.as_ptr()) }
            }
            _ => false,
        }
    }

    /// Closes the gate, waits for those inside, and returns what is pinned, the first time.
    fn take(&self) -> Option<Pinned> {
        self.gate.close_and_wait();
        if self.released.xchg(true, Full) {
            return None;
        }
        // SAFETY: the closed, empty gate leaves no reader, and `released` lets in only one caller.
        // INVARIANT: the gate is closed and empty.
        unsafe { (*self.pinned.get()).take() }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the pages of `len` octets from octet `at` on, and the offset in the first of them.
    /// `None` if the range is not inside or the guard is another gate's.
    #[inline(always)]
    fn pages_at<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        at: u64,
        len: u32,
    ) -> Option<(&'a [NonNull<u8>], u32)> {
        if !core::ptr::eq(guard.gate(), &self.gate) {
            return None;
        }
        at.end_within(len, self.len)?;
        // SAFETY: the guard counts its holder into the gate for `'a`, so nothing changes `pinned`.
        let pinned = unsafe { &*self.pinned.get() }.as_ref()?;
        let at = self.offset.checked_add(at)?;
        // CAST: a page's size fits; what is left of it fits 32 bits.
        let page = usize::try_from(at / PAGE_SIZE as u64).ok()?;
        Some((pinned.pages.get(page..)?, (at % PAGE_SIZE as u64) as u32))
    }

    /// Returns the pieces of `len` octets from octet `at` on; `None` as for [`Umem::pages_at`].
    pub(crate) fn slices<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        at: u64,
        len: u32,
    ) -> Option<Slices<'a>> {
        let (pages, offset) = self.pages_at(guard, at, len)?;
        Some(Slices {
            pages,
            offset,
            left: Saturating(len),
            writable: self.writable,
        })
    }

    /// Returns the only piece of [`Umem::slices`], if the range lies in one page.
    #[inline(always)]
    pub(crate) fn in_one_page<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        at: u64,
        len: u32,
    ) -> Option<PageSlice<'a>> {
        let (pages, offset) = self.pages_at(guard, at, len)?;
        let start = *pages.first()?;
        // CAST: a page's size fits 32 bits.
        offset.end_within(len, PAGE_SIZE as u32)?;
        // SAFETY: a page begins at `start`, by the invariant of `Pinned`, which the guard keeps for
        // `'a`. Memory that is writable was pinned for writing.
        Some(unsafe { PageSlice::new(start, offset, len, self.writable) })
    }
}

impl Pinned {
    /// Lists the `count` pages of `holder`; `fill` writes their addresses and returns how many it
    /// wrote. Fails with `EOPNOTSUPP` if not all of the memory has pages, and with `ENOMEM`; then
    /// `holder` lets go of them before `device` is left, since parameters are dropped last to
    /// first.
    fn new(
        device: GateGuard<Arc<DeviceHandle>>,
        holder: Holder,
        count: usize,
        fill: impl FnOnce(&mut [MaybeUninit<NonNull<u8>>]) -> usize,
    ) -> Result<Self> {
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
        let room = pages.spare_capacity_mut().get_mut(..count).ok_or(ENOMEM)?;
        if fill(room) != count {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: that many pointers were written, none of them null.
        unsafe { pages.inc_len(count) };
        // INVARIANT: `fill` listed the pages that `holder` keeps.
        Ok(Self {
            pages,
            holder,
            _device: device,
        })
    }
}

/// The pieces of a range of pinned memory, each as long as the pages are adjacent.
pub(crate) struct Slices<'a> {
    /// The pages from which pieces are still to be made; the next piece starts in the first of
    /// them.
    pages: &'a [NonNull<u8>],
    /// Where in that page it starts.
    offset: u32,
    left: Saturating<u32>,
    writable: bool,
}

impl<'a> Iterator for Slices<'a> {
    type Item = PageSlice<'a>;

    #[inline]
    fn next(&mut self) -> Option<PageSlice<'a>> {
        if self.left.0 == 0 {
            return None;
        }
        // CAST: a page's size fits 32 bits.
        let page_size = PAGE_SIZE as u32;
        let (&first, mut rest) = self.pages.split_first()?;
        let mut len = Saturating(page_size.checked_sub(self.offset)?);
        let mut last = first.as_ptr();
        while len < self.left {
            match rest.split_first() {
                Some((next, tail)) if next.as_ptr() == last.wrapping_add(PAGE_SIZE) => {
                    last = next.as_ptr();
                    rest = tail;
                    len += page_size;
                }
                _ => break,
            }
        }
        let Saturating(len) = len.min(self.left);
        // SAFETY: a run of adjacent pages begins at `first` and `len` stays within it. All are
        // pinned as long as the guard is held that `'a` borrows, for writing if `writable`.
        let slice = unsafe { PageSlice::new(first, self.offset, len, self.writable) };
        self.pages = rest;
        self.offset = 0;
        self.left -= len;
        Some(slice)
    }
}
