// SPDX-License-Identifier: GPL-2.0

//! Callbacks of memory regions. Mapping happens in any context, the rest in process context.

use super::{
    DeviceObject,
    MwObject,
    PdObject, //
};
use crate::ffi::raw::b;
use crate::ffi::rdma::attr::AccessFlags;
use crate::ffi::rdma::driver::{
    Driver,
    MrChange,
    MrInit,
    MwType, //
};
use crate::ffi::rdma::extent::MrHead;
use crate::ffi::rdma::kmr::{
    DmaMemory,
    FastMemory, //
};
use crate::ffi::rdma::udata::Udata;
use crate::ffi::task::memory_for;
use core::num::NonZero;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::num::casts::FromSafeCast;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Kernel memory that a region was given, for as long as the core knows the region.
enum KernelMemory<R> {
    Dma(Arc<DmaMemory>),
    Fast(Arc<FastMemory<R>>),
}

impl<R: Send + Sync> KernelMemory<R> {
    /// Returns the number by which requests to register name the memory; `None` if they cannot.
    fn id(&self) -> Option<NonZero<u64>> {
        match self {
            Self::Dma(_) => None,
            Self::Fast(memory) => Some(memory.id()),
        }
    }

    /// Ends all use of the region, even if the driver still has references to it.
    fn release(&self) {
        match self {
            Self::Dma(memory) => memory.release(),
            Self::Fast(memory) => memory.release(),
        }
    }
}

/// The core's and the driver's part of a region: the one object whose memory the driver allocates.
#[repr(C)]
struct MrMemory<D: Driver> {
    head: MrHead,
    inner: Option<Arc<D::Mr>>,
    memory: Option<KernelMemory<D::Grant>>,
}

/// Makes the core's region around the driver's, which `make` returns with its STag.
fn new_mr<D: Driver>(
    memory: Option<KernelMemory<D::Grant>>,
    make: impl FnOnce() -> Result<(Arc<D::Mr>, u32)>,
) -> Result<*mut b::ib_mr> {
    // A region without memory of the kernel is one of a process.
    let flags = memory_for(memory.is_none());
    let mut mr = KBox::new(
        MrMemory::<D> {
            head: MrHead {
                // SAFETY: integers and pointers may be zero; the core fills in the rest.
                object: unsafe { core::mem::zeroed::<b::ib_mr>() },
                memory: memory.as_ref().and_then(KernelMemory::id),
                filler: None,
            },
            inner: None,
            memory,
        },
        flags,
    )?;
    let (inner, stag) = make()?;
    mr.head.object.lkey = stag;
    mr.head.object.rkey = stag;
    mr.inner = Some(inner);
    Ok(KBox::into_raw(mr).cast())
}

/// # Safety
///
/// `mr` is a region of `D` that is not freed during the call.
pub(super) unsafe fn inner<D: Driver>(mr: *mut b::ib_mr) -> Option<Arc<D::Mr>> {
    // SAFETY: `new_mr` made the region, and nothing of it changes.
    unsafe { &(*mr.cast::<MrMemory<D>>()).inner }.clone()
}

fn to_ptr(result: Result<*mut b::ib_mr>) -> *mut b::ib_mr {
    result.unwrap_or_else(|e| e.to_ptr())
}

/// # Safety
///
/// Called by the core with a protection domain of `D`.
pub(super) unsafe extern "C" fn reg_user_mr<D: Driver>(
    pd: *mut b::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut b::ib_dmah,
    udata: *mut b::ib_udata,
) -> *mut b::ib_mr {
    to_ptr(new_mr::<D>(None, || {
        if !dmah.is_null() {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the domain is one of `D` (see `Vtable`).
        let pd = unsafe { PdObject::<D>::get(pd) };
        // SAFETY: the core passes the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        let init = MrInit {
            fd: None,
            start,
            length,
            iova,
            access: AccessFlags::from_raw(access),
        };
        D::reg_user_mr(pd, &init, &mut udata)
    }))
}

/// # Safety
///
/// Called by the core with a protection domain of `D`.
pub(super) unsafe extern "C" fn reg_user_mr_dmabuf<D: Driver>(
    pd: *mut b::ib_pd,
    offset: u64,
    length: u64,
    iova: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut b::ib_dmah,
    _attrs: *mut b::uverbs_attr_bundle,
) -> *mut b::ib_mr {
    to_ptr(new_mr::<D>(None, || {
        if !dmah.is_null() {
            return Err(EOPNOTSUPP);
        }
        let init = MrInit {
            fd: Some(fd),
            start: offset,
            length,
            iova,
            access: AccessFlags::from_raw(access),
        };
        // SAFETY: the domain is one of `D` (see `Vtable`).
        D::reg_dmabuf_mr(unsafe { PdObject::<D>::get(pd) }, &init)
    }))
}

/// # Safety
///
/// Called by the core with a process's region and a domain of `D`; if it succeeds, only `dereg_mr`
/// follows for the region.
pub(super) unsafe extern "C" fn rereg_user_mr<D: Driver>(
    mr: *mut b::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    pd: *mut b::ib_pd,
    udata: *mut b::ib_udata,
) -> *mut b::ib_mr {
    let mut made = None;
    let new = to_ptr(new_mr::<D>(None, || {
        // SAFETY: `new_mr` made the region.
        let old = unsafe { &(*mr.cast::<MrMemory<D>>()).inner };
        let old = old.as_ref().ok_or(EINVAL)?;
        // SAFETY: the domain is one of `D` (see `Vtable`).
        let pd = unsafe { PdObject::<D>::get(pd) };
        // SAFETY: the core passes the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        let flags = flags as u32; // CAST: flag bits in a C int.
        let has = |bit: b::ib_mr_rereg_flags| flags & bit != 0;
        let change = MrChange {
            memory: has(b::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some((start, length, iova)),
            access: has(b::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
                .then_some(AccessFlags::from_raw(access)),
        };
        let (inner, stag, init) = D::rereg_user_mr(pd, old, &change, &mut udata)?;
        made = Some(init);
        Ok((inner, stag))
    }));
    if let Some(init) = made {
        // SAFETY: the region was made, and the core does not know it yet.
        let object = unsafe { &mut *new };
        object.iova = init.iova;
        object.length = init.length;
    }
    new
}

/// # Safety
///
/// Called by the core with a protection domain of `D`, for a consumer in the kernel.
pub(super) unsafe extern "C" fn get_dma_mr<D: Driver>(
    pd: *mut b::ib_pd,
    access: c_int,
) -> *mut b::ib_mr {
    let new = || {
        if !AccessFlags::from_raw(access).is_within(AccessFlags::LOCAL_WRITE) {
            // A key to all memory of the kernel is not for peers.
            return Err(EOPNOTSUPP);
        }
        let memory = DmaMemory::new()?;
        new_mr::<D>(Some(KernelMemory::Dma(memory.clone())), || {
            // SAFETY: the domain is one of `D` (see `Vtable`).
            D::get_dma_mr(unsafe { PdObject::<D>::get(pd) }, memory)
        })
    };
    to_ptr(new())
}

/// # Safety
///
/// Called by the core with a protection domain of `D`.
pub(super) unsafe extern "C" fn alloc_mr<D: Driver>(
    pd: *mut b::ib_pd,
    kind: b::ib_mr_type,
    max: u32,
) -> *mut b::ib_mr {
    let new = || {
        let gaps = match kind {
            b::ib_mr_type_IB_MR_TYPE_MEM_REG => false,
            b::ib_mr_type_IB_MR_TYPE_SG_GAPS => true,
            _ => return Err(EOPNOTSUPP),
        };
        if !(1..=D::MAX_FAST_REG).contains(&max) {
            return Err(EINVAL);
        }
        let memory = FastMemory::new(usize::from_safe_cast(max), gaps)?;
        new_mr::<D>(Some(KernelMemory::Fast(memory.clone())), || {
            // SAFETY: the domain is one of `D` (see `Vtable`).
            D::alloc_mr(unsafe { PdObject::<D>::get(pd) }, memory)
        })
    };
    to_ptr(new())
}

/// # Safety
///
/// Called by the core, in any context, with a region of `D` and a mapped list of `count` elements.
pub(super) unsafe extern "C" fn map_mr_sg<D: Driver>(
    mr: *mut b::ib_mr,
    sg: *mut b::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> c_int {
    let Some(raw) = NonNull::new(mr.cast::<MrMemory<D>>()) else {
        return EINVAL.to_errno();
    };
    // SAFETY: `new_mr` made the region, whose `memory` does not change.
    let memory = unsafe { &(*raw.as_ptr()).memory };
    let Some(KernelMemory::Fast(memory)) = memory else {
        return EINVAL.to_errno();
    };
    // SAFETY: the list is this region's, which the consumer alone uses now; the rest is the core's.
    unsafe { memory.staging().map(raw.cast(), sg, count, offset) }
}

/// # Safety
///
/// Called by the core for the last time with this region.
pub(super) unsafe extern "C" fn dereg_mr<D: Driver>(
    mr: *mut b::ib_mr,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the region is one of a device of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get((*mr).device) };
    let raw = mr.cast::<MrMemory<D>>();
    // SAFETY: `new_mr` made the region in this way.
    let inner = unsafe { &(*raw).inner };
    if let Some(Err(e)) = inner.as_ref().map(|inner| D::dereg_mr(&dev, inner)) {
        return e.to_errno();
    }
    // SAFETY: as above; the core knows the region no more.
    let mr = unsafe { KBox::from_raw(raw) };
    // Once this has returned, the consumer may use its memory for anything.
    if let Some(memory) = &mr.memory {
        memory.release();
    }
    0
}

/// # Safety
///
/// Called, by the core or by a consumer in the kernel, with zeroed memory of the size in the
/// operations table, in which device and protection domain are set.
pub(super) unsafe extern "C" fn alloc_mw<D: Driver>(
    mw: *mut b::ib_mw,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the caller has filled it in.
        let raw = unsafe { &mut *mw };
        // SAFETY: null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        let kind = match raw.type_ {
            b::ib_mw_type_IB_MW_TYPE_1 => MwType::One,
            b::ib_mw_type_IB_MW_TYPE_2 => MwType::Two,
            _ => return Err(EINVAL),
        };
        // SAFETY: the domain is one of `D` (see `Vtable`).
        let pd = unsafe { PdObject::<D>::get(raw.pd) };
        let (inner, stag) = D::alloc_mw(pd, kind, udata.as_mut())?;
        raw.rkey = stag;
        // SAFETY: the caller has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet.
        unsafe { MwObject::<D>::install(mw, inner) };
        Ok(0)
    })
}

/// # Safety
///
/// Called, by the core or by a consumer in the kernel, for the last time with this window of `D`.
pub(super) unsafe extern "C" fn dealloc_mw<D: Driver>(mw: *mut b::ib_mw) -> c_int {
    // SAFETY: the window is one of a device of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get((*mw).device) };
    // SAFETY: the window is one of `D` (see `Vtable`), and is freed next.
    if let Some(inner) = unsafe { MwObject::<D>::take(mw) } {
        // A window has no windows, which alone would keep it.
        let _ = D::dereg_mr(&dev, &inner);
    }
    0
}
