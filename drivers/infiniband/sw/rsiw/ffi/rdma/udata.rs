// SPDX-License-Identifier: GPL-2.0

//! The driver-private part of a verbs call by a user process ([`Udata`]), and the rings that the
//! answer offers the process to map ([`MmapEntry`]).
//!
//! An entry at the core stands for a piece of [`SharedMemory`] under an offset of the device file.
//! It holds a reference to the memory until nobody can map it any more, so an `mmap` that runs
//! beside the object's destruction finds the memory. Established mappings hold the pages themselves
//! (`vm_insert_page`) and outlive the entry, the object and the device. When the core takes a
//! device away from a process, it need not take these mappings away: there is no device memory
//! behind them.
//!
//! C headers: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: process.

use super::driver::Driver;
use super::handle::{
    claim_module,
    Object,
    UcontextHandle, //
};
use crate::ffi::mm::ring::SharedMemory;
use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::types::Opaque;
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// The call's private input and output buffers, and the process context it belongs to.
///
/// # Invariants
///
/// The pointer is valid for `'a`, which lies within the call.
pub(crate) struct Udata<'a> {
    raw: NonNull<b::ib_udata>,
    _call: PhantomData<&'a mut b::ib_udata>,
}

impl Udata<'_> {
    /// Wraps what the core passes to a callback; `None` for consumers in the kernel.
    ///
    /// # Safety
    ///
    /// `raw` must be null or valid for the lifetime of the result.
    pub(in crate::ffi) unsafe fn from_raw(raw: *mut b::ib_udata) -> Option<Self> {
        // INVARIANT: by the caller's promise.
        NonNull::new(raw).map(|raw| Self {
            raw,
            _call: PhantomData,
        })
    }

    /// Refuses private input and clears private output, for calls that have neither.
    pub(crate) fn no_io(&mut self) -> Result {
        // SAFETY: the invariant makes the pointer valid.
        to_result(unsafe { h::ib_no_udata_io(self.raw.as_ptr()) })
    }

    /// Returns whether there is no private input.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: the invariant makes the pointer valid.
        unsafe { (*self.raw.as_ptr()).inlen == 0 }
    }

    /// Reads the call's private input. Fails with `EINVAL` if it is shorter than `T`, `EOPNOTSUPP`
    /// if it is longer with something set beyond, and `EFAULT` if it cannot be read.
    pub(crate) fn read<T: FromBytes + IntoBytes + Immutable>(&mut self) -> Result<T> {
        self.read_from(size_of::<T>())
    }

    /// As [`Udata::read`], but only input of less than `least` octets is too short. What is missing
    /// of `T` is 0.
    pub(crate) fn read_from<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        least: usize,
    ) -> Result<T> {
        let mut req = T::new_zeroed();
        // SAFETY: the invariant makes the pointer valid; `req` has room for the size given.
        to_result(unsafe {
            b::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                (&raw mut req).cast(),
                size_of::<T>(),
                least,
            )
        })?;
        Ok(req)
    }

    /// As [`Udata::read`], but returns `None` if the input is shorter than `T`, or missing.
    pub(crate) fn read_if_there<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
    ) -> Result<Option<T>> {
        // SAFETY: the invariant makes the pointer valid.
        if unsafe { (*self.raw.as_ptr()).inlen } < size_of::<T>() {
            return Ok(None);
        }
        self.read().map(Some)
    }

    /// Returns whether the process gave room for a whole `T`.
    pub(crate) fn has_room_for<T>(&self) -> bool {
        // SAFETY: the invariant makes the pointer valid.
        unsafe { (*self.raw.as_ptr()).outlen >= size_of::<T>() }
    }

    /// Writes the call's private output. Fails with `EINVAL` if the process gave too little room,
    /// and with `EFAULT` if the buffer cannot be written.
    pub(crate) fn respond<T: IntoBytes + Immutable>(&mut self, resp: &T) -> Result {
        if !self.has_room_for::<T>() {
            return Err(EINVAL);
        }
        let bytes = resp.as_bytes();
        // SAFETY: the invariant makes the pointer valid; `bytes` is readable for its length.
        to_result(unsafe {
            b::_ib_respond_udata(self.raw.as_ptr(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Returns the driver's part of the process context that makes the call.
    pub(crate) fn context<D: Driver>(&self) -> Option<ArcBorrow<'_, D::Ucontext>> {
        let context = self.ucontext()?.as_ptr();
        // If `D` is not the driver of this module, the driver's part of the context has another
        // type.
        if !claim_module::<D>() {
            return None;
        }
        // SAFETY: the core calls this module with contexts of its devices only, whose driver is
        // `D`, and keeps the context during the call.
        let is_complete = unsafe { Object::<_, D::Ucontext>::is_installed(context) };
        // SAFETY: as above; there is a driver's part, which is taken out after all calls.
        is_complete.then(|| unsafe { Object::get(context) })
    }

    pub(super) fn ucontext(&self) -> Option<NonNull<b::ib_ucontext>> {
        // SAFETY: an udata of a driver callback is always the `driver_udata` of a bundle.
        NonNull::new(unsafe { h::udata_ucontext(self.raw.as_ptr()) })
    }
}

/// First page offset for entries. The library takes page 0x90 for "nothing to map".
const FIRST_PAGE: u32 = 0x91;

/// An entry at the core, with our memory.
///
/// # Invariants
///
/// Made by [`MmapEntry::insert`]; freed by [`mmap_free_callback`] once the core has no reference.
#[repr(C)]
struct CoreEntry {
    base: Opaque<b::rdma_user_mmap_entry>,
    mem: Arc<SharedMemory>,
}

/// Memory that processes can map until [`MmapEntry::remove`]. Call that before the verbs object is
/// destroyed, while the process's context exists: the entry cannot be freed afterwards.
///
/// # Invariants
///
/// `entry` is null, or an [`CoreEntry`] inserted at the core, in `context`, with a reference of
/// ours.
pub(crate) struct MmapEntry {
    entry: Atomic<*mut CoreEntry>,
    context: Arc<UcontextHandle>,
    key: u64,
}

impl MmapEntry {
    /// Offers `mem` to the calling process. Fails with `EINVAL` if it has no context, or `ENOMEM`.
    pub(crate) fn insert(udata: &Udata<'_>, mem: Arc<SharedMemory>) -> Result<Self> {
        let context = udata.ucontext().ok_or(EINVAL)?;
        // SAFETY: the context is that of the running call, one of this driver, and stays meanwhile.
        let handle = unsafe { Object::<_, ()>::handle_of_any(context.as_ptr()) }.ok_or(EINVAL)?;
        let len = mem.size();
        let entry = KBox::new(
            CoreEntry {
                base: Opaque::zeroed(),
                mem,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let entry = KBox::into_raw(entry);
        // SAFETY: the context is this call's; the fresh entry stays until `mmap_free_callback`.
        let ret = unsafe {
            b::rdma_user_mmap_entry_insert_range(
                context.as_ptr(),
                entry.cast(),
                len,
                FIRST_PAGE,
                u32::MAX,
            )
        };
        if let Err(e) = to_result(ret) {
            // SAFETY: the core did not take the entry, which came from `into_raw` above.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: the entry was inserted and has our reference.
        let key = unsafe { h::rdma_user_mmap_get_offset(entry.cast()) };
        // INVARIANT: inserted, and the first reference is ours.
        Ok(Self {
            entry: Atomic::new(entry),
            context: handle,
            key,
        })
    }

    /// Returns the offset by which a process maps the memory.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Ends the offer; mappings stay. Later calls do nothing.
    pub(crate) fn remove(&self) {
        // INVARIANT: null from here on; the reference goes to the core.
        let entry = self.entry.xchg(core::ptr::null_mut(), Full);
        if entry.is_null() {
            return;
        }
        let removed = self.context.with(|_| {
            // SAFETY: an entry with our reference, whose context exists.
            unsafe { b::rdma_user_mmap_entry_remove(entry.cast()) };
        });
        if removed.is_none() {
            kernel::pr_err_once!("BUG: an offer to map memory has outlived its process\n");
        }
    }
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        self.remove();
    }
}

/// `ib_device_ops.mmap`: maps the memory of an entry.
///
/// # Safety
///
/// For the core only, with a valid context and a new mapping of its device file.
pub(super) unsafe extern "C" fn mmap_callback(
    context: *mut b::ib_ucontext,
    vma: *mut b::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: by the caller's promise. Checks that the mapping is shared, and its length.
        let entry = unsafe { b::rdma_user_mmap_entry_get(context, vma) };
        let entry = NonNull::new(entry).ok_or(EINVAL)?;
        // SAFETY: all entries of the device are ours, and we have a reference.
        let mem = unsafe { &(*entry.cast::<CoreEntry>().as_ptr()).mem };
        // SAFETY: the mapping is new, the memory came from `__vmalloc` with this size and lives as
        // long as the entry, which we have a reference to.
        let ret = unsafe { h::vma_map_vmalloc(vma, mem.as_ptr().cast(), mem.size()) };
        let ret = to_result(ret);
        // SAFETY: gives back the reference from above.
        unsafe { b::rdma_user_mmap_entry_put(entry.as_ptr()) };
        ret.map(|()| 0)
    })
}

/// `ib_device_ops.mmap_free`: frees an entry that nobody can map any more.
///
/// # Safety
///
/// For the core only, with an entry of this device that has no reference left.
pub(super) unsafe extern "C" fn mmap_free_callback(entry: *mut b::rdma_user_mmap_entry) {
    // SAFETY: entries are from `into_raw` in `MmapEntry::insert`; only this frees inserted ones.
    drop(unsafe { KBox::from_raw(entry.cast::<CoreEntry>()) });
}
