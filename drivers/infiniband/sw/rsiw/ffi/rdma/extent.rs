// SPDX-License-Identifier: GPL-2.0

//! What a fast-register region consists of: a list of extents, made from a scatterlist. Extents
//! begin at any octet, whatever the consumer's page size; adjacent pages are one extent.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: any, but for
//! allocation and release.

use crate::ffi::raw::b;
use crate::num::Length;
use core::num::{
    NonZero,
    Saturating, //
};
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::{
    new_spinlock_irq,
    SpinLockIrq, //
};

/// Kernel memory whose addresses follow each other, as a part of a region.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) addr: u64,
    /// Offset in the region.
    at: u64,
    pub(super) len: u32,
}

/// The extents of a region, in order.
pub(super) struct Layout {
    extents: KVVec<Extent>,
    /// Entries as the consumer counts them: pages, or elements of a scatterlist.
    entries: Saturating<usize>,
    len: u64,
    /// Zero if the extents may begin anywhere.
    page_size: u64,
    /// Not used for a registration yet.
    fresh: bool,
}

impl Layout {
    pub(super) const NONE: &'static [Extent] = &[];

    /// Makes an empty list with room for `max` extents.
    pub(super) fn new(max: usize) -> Result<Self> {
        Ok(Self {
            extents: KVVec::with_capacity(max, GFP_KERNEL)?,
            ..Self::empty()
        })
    }

    /// Makes a list that never holds anything.
    pub(super) const fn empty() -> Self {
        Self {
            extents: KVVec::new(),
            entries: Saturating(0),
            len: 0,
            page_size: 0,
            fresh: false,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the offset of the first octet in its page, and the mask of such offsets.
    pub(super) fn page_offset(&self) -> Option<(u64, u64)> {
        let first = self.extents.first()?;
        let mask = self.page_size.checked_sub(1)?;
        Some((first.addr & mask, mask))
    }

    /// Swaps this list with `active`, unless it was used already.
    pub(super) fn activate(&mut self, active: &mut Layout) {
        if core::mem::replace(&mut self.fresh, false) {
            core::mem::swap(self, active);
        }
    }

    /// Returns the extent with octet `at` of the region, the offset of that octet in the extent,
    /// and the extents behind it. `None` if the `len` octets are not all in the region.
    pub(super) fn find(&self, at: u64, len: u32) -> Option<(&Extent, u32, &[Extent])> {
        at.end_within(len, self.len)?;
        // Finds the first extent beyond `at`. The search of the core crate adds with a check that
        // panics.
        let (mut low, mut high) = (0, self.extents.len());
        while low < high {
            let mid = low.midpoint(high);
            match self.extents.get(mid) {
                Some(extent) if extent.at <= at => low = mid + 1,
                _ => high = mid,
            }
        }
        let (first, rest) = self.extents.get(low.checked_sub(1)?..)?.split_first()?;
        let skip = u32::try_from(at.checked_sub(first.at)?).ok()?;
        Some((first, skip, rest))
    }

    fn clear(&mut self, page_size: u64) {
        self.extents.clear();
        self.entries.0 = 0;
        self.len = 0;
        self.page_size = page_size;
        self.fresh = false;
    }

    /// Appends `len` octets at `addr`. Fails with `ENOMEM` if there is no room for another extent.
    fn push(&mut self, addr: u64, len: u32) -> Result {
        let at = self.len;
        let end = at.checked_add(len.into()).ok_or(EINVAL)?;
        let joined = self.extents.last_mut().and_then(|last| {
            let adjacent = last.addr.checked_add(last.len.into()) == Some(addr);
            last.len
                .checked_add(len)
                .filter(|_| adjacent)
                .map(|len| last.len = len)
        });
        if joined.is_none() {
            self.extents
                .push_within_capacity(Extent { addr, at, len })
                .map_err(|_| ENOMEM)?;
        }
        self.len = end;
        Ok(())
    }

    fn truncate(&mut self, len: u64) {
        // Bound: the extents that a consumer in the kernel has just mapped.
        while let Some(last) = self.extents.last_mut() {
            match len.checked_sub(last.at).filter(|rest| *rest > 0) {
                Some(rest) => {
                    last.len = last.len.min(u32::try_from(rest).unwrap_or(u32::MAX));
                    break;
                }
                None => drop(self.extents.pop()),
            }
        }
        self.len = self.len.min(len);
    }
}

/// Where a region's next list is written.
#[pin_data]
pub(super) struct Staging {
    max: usize,
    gaps: bool,
    #[pin]
    layout: SpinLockIrq<Layout>,
}

/// The front of a region as the core knows it, which `ib_sg_to_pages` hands to [`set_page`].
#[repr(C)]
pub(super) struct MrHead {
    pub(super) object: b::ib_mr,
    /// The number by which requests to register name the region's memory; `None` if they cannot.
    pub(super) memory: Option<NonZero<u64>>,
    /// Set during a call of `ib_sg_to_pages` only.
    pub(super) filler: Option<NonNull<Filler>>,
}

/// What [`set_page`] needs while it writes a list.
pub(super) struct Filler {
    layout: NonNull<Layout>,
    max: usize,
}

impl Staging {
    /// Makes the place for lists of at most `max` extents, for which `layout` has room.
    pub(super) fn new(layout: Layout, max: usize, gaps: bool) -> impl PinInit<Self> {
        pin_init!(Self {
            max,
            gaps,
            layout <- new_spinlock_irq!(layout, "rsiw::Staging::layout"),
        })
    }

    pub(super) fn lock(&self) -> impl core::ops::DerefMut<Target = Layout> + '_ {
        self.layout.lock()
    }

    /// Takes the list away, for good.
    pub(super) fn take(&self) -> Layout {
        core::mem::replace(&mut *self.layout.lock(), Layout::empty())
    }

    /// Writes the list of as many elements of `sg` as fit. Returns how many, or a negative error.
    ///
    /// # Safety
    ///
    /// `mr` must be the region of this list, whose address, length and page size nobody else uses
    /// during the call; the rest must be the arguments of `map_mr_sg`.
    pub(super) unsafe fn map(
        &self,
        mr: NonNull<MrHead>,
        sg: *mut b::scatterlist,
        count: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        let mr = mr.as_ptr();
        let mut layout = self.layout.lock();
        if self.gaps {
            // SAFETY: by the caller's promise.
            let mapped = unsafe { map_elements(&mut layout, self.max, mr, sg, count, offset) };
            return mapped.unwrap_or_else(|e| e.to_errno());
        }
        // SAFETY: by the caller's promise the region is valid.
        let page_size = u64::from(unsafe { (*mr).object.page_size });
        if !page_size.is_power_of_two() {
            return EINVAL.to_errno();
        }
        layout.clear(page_size);
        let mut filler = Filler {
            layout: NonNull::from(&mut *layout),
            max: self.max,
        };
        // SAFETY: by the caller's promise the region is valid; the lock makes this the only writer.
        unsafe { (*mr).filler = Some(NonNull::from(&mut filler)) };
        // SAFETY: the arguments are the core's own.
        let mapped = unsafe { b::ib_sg_to_pages(mr.cast(), sg, count, offset, Some(set_page)) };
        // SAFETY: as above.
        unsafe { (*mr).filler = None };
        // SAFETY: as above.
        let len = unsafe { (*mr).object.length };
        layout.truncate(len);
        layout.fresh = mapped > 0;
        mapped
    }
}

/// # Safety
///
/// Called by `ib_sg_to_pages` from [`Staging::map`].
unsafe extern "C" fn set_page(mr: *mut b::ib_mr, addr: u64) -> c_int {
    // SAFETY: `map` passed the front of a region.
    let head = unsafe { &*mr.cast::<MrHead>() };
    let Some(filler) = head.filler else {
        return EINVAL.to_errno();
    };
    // SAFETY: `map` keeps the filler during the call.
    let filler = unsafe { filler.as_ref() };
    let mut layout = filler.layout;
    // SAFETY: `map` holds the lock of the list and does not use it during the call.
    let layout = unsafe { layout.as_mut() };
    if layout.entries.0 >= filler.max {
        return ENOMEM.to_errno();
    }
    // The first page counts from the region's first octet on.
    let (start, page_size) = (addr.max(head.object.iova), layout.page_size);
    let start = if layout.entries.0 == 0 { start } else { addr };
    let skip = start & page_size.wrapping_sub(1);
    let pushed = u32::try_from(page_size.wrapping_sub(skip))
        .map_err(|_| EINVAL)
        .and_then(|len| layout.push(start, len));
    match pushed {
        Ok(()) => {
            layout.entries += 1;
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// As `ib_sg_to_pages`, for elements that begin and end anywhere.
///
/// # Safety
///
/// As [`Staging::map`].
unsafe fn map_elements(
    layout: &mut Layout,
    max: usize,
    mr: *mut MrHead,
    mut sg: *mut b::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> Result<c_int> {
    layout.clear(0);
    let mut skip = match NonNull::new(offset) {
        // SAFETY: the caller of `map_mr_sg` passes null or its offset.
        Some(offset) => unsafe { offset.read() },
        None => 0,
    };
    let mut mapped = Saturating(0);
    // Bound: the elements that a consumer in the kernel maps.
    while mapped.0 < count && layout.entries.0 < max && !sg.is_null() {
        // SAFETY: there are `count` elements, of which this is one.
        let addr = unsafe { b::sg_dma_address(sg) };
        // SAFETY: as above.
        let len = unsafe { b::sg_dma_len(sg) }
            .checked_sub(skip)
            .ok_or(EINVAL)?;
        let addr = addr.checked_add(skip.into()).ok_or(EINVAL)?;
        if mapped.0 == 0 {
            // SAFETY: by the caller's promise the region is valid.
            unsafe { (*mr).object.iova = addr };
        }
        if len > 0 {
            layout.push(addr, len)?;
        }
        skip = 0;
        layout.entries += 1;
        mapped += 1;
        // SAFETY: as above.
        sg = unsafe { b::sg_next(sg) };
    }
    if mapped.0 == 0 {
        return Err(EINVAL);
    }
    if let Some(offset) = NonNull::new(offset) {
        // SAFETY: as above.
        unsafe { offset.write(0) };
    }
    // SAFETY: by the caller's promise the region is valid.
    unsafe { (*mr).object.length = layout.len };
    layout.fresh = true;
    Ok(mapped.0)
}
