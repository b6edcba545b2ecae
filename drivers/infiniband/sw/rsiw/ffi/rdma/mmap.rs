// SPDX-License-Identifier: GPL-2.0

//! Mapping rings into user processes.
//!
//! An entry at the core stands for a piece of [`SharedMemory`] under an offset of the device file.
//! It holds a reference to the memory until nobody can map it any more, so an `mmap` that runs
//! beside the object's destruction finds it. Established mappings hold the pages themselves
//! (`vm_insert_page`) and outlive the entry, the object and the device. When the core disassociates
//! a process it need not take them away: there is no device memory behind them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: process.

use super::{
    handle::{
        Object,
        UcontextHandle, //
    },
    udata::Udata, //
};
use crate::ffi::{
    mm::ring::SharedMemory,
    raw::{
        b,
        h, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc, //
    },
    types::Opaque, //
};

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

/// Memory that processes can map until this is removed. That must be before its verbs object is
/// destroyed, while the process's context exists: the entry cannot be freed afterwards.
///
/// # Invariants
///
/// `entry` is null, or an [`CoreEntry`] inserted at the core, in `context`, with a reference of ours.
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
