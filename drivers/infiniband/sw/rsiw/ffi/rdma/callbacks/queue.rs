// SPDX-License-Identifier: GPL-2.0

//! Callbacks of completion queues and memory regions.

use super::{
    CqObject,
    DeviceObject,
    PdObject, //
};
use crate::ffi::{
    raw::{
        b,
        h, //
    },
    rdma::{
        driver::{
            CqInit,
            Driver,
            HasCqHandle,
            MrInit, //
        },
        handle::Handle,
        udata::Udata, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// # Safety
///
/// Called by the core with zeroed memory of the size in the operations table; `attrs` is null for
/// kernel consumers.
pub(super) unsafe extern "C" fn create_cq<D: Driver>(
    cq: *mut b::ib_cq,
    attr: *const b::ib_cq_init_attr,
    attrs: *mut b::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        let obj = NonNull::new(cq).ok_or(EINVAL)?;
        // SAFETY: the core has set the device, which is one of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*cq).device) };
        // SAFETY: null or the bundle of this call.
        let udata = unsafe { h::uverbs_attr_bundle_udata(attrs) };
        // SAFETY: null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        // SAFETY: the core passes the attributes.
        let attr = unsafe { &*attr };
        let init = CqInit {
            cqe: attr.cqe,
            flags: attr.flags,
        };
        // SAFETY: revoked in `destroy_cq`, or never used if creation fails.
        let handle = unsafe { Handle::new(obj) }?;
        let (inner, cqe) = D::create_cq(dev, handle, &init, udata.as_mut())?;
        // CAST: at most the maximum reported.
        let cqe = cqe as c_int;
        // SAFETY: `cq` is the core's object of this call.
        unsafe { (*cq).cqe = cqe };
        // SAFETY: the memory is fresh.
        unsafe { CqObject::<D>::install(cq, inner) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this queue.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut b::ib_cq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the queue is one of `D`; the core frees it next.
    if let Some(inner) = unsafe { CqObject::<D>::take(cq) } {
        D::destroy_cq(&inner);
        inner.handle().revoke();
    }
    0
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
    let reg = || -> Result<*mut b::ib_mr> {
        if !dmah.is_null() {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the domain is one of `D`.
        let pd = unsafe { PdObject::<D>::get(pd) };
        // SAFETY: the core passes the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        let mut mr = KBox::new(
            MrMemory {
                // SAFETY: integers and pointers may be zero; the core fills in the rest.
                object: unsafe { core::mem::zeroed::<b::ib_mr>() },
                inner: None::<kernel::sync::Arc<D::Mr>>,
            },
            GFP_KERNEL,
        )?;
        let init = MrInit {
            start,
            length,
            iova,
            access: access as u32, // CAST: flag bits in a C int.
        };
        let (inner, stag) = D::reg_user_mr(pd, &init, &mut udata)?;
        mr.object.lkey = stag;
        mr.object.rkey = stag;
        mr.inner = Some(inner);
        Ok(KBox::into_raw(mr).cast())
    };
    match reg() {
        Ok(mr) => mr,
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// Called by the core for the last time with this region.
pub(super) unsafe extern "C" fn dereg_mr<D: Driver>(
    mr: *mut b::ib_mr,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the region is one of a device of `D`.
    let dev = unsafe { DeviceObject::<D>::get((*mr).device) };
    // SAFETY: `reg_user_mr` made the region in this way.
    let mr = unsafe { KBox::from_raw(mr.cast::<MrMemory<D::Mr>>()) };
    if let Some(inner) = &mr.inner {
        D::dereg_mr(&dev, inner);
    }
    0
}

/// Regions are the one object whose memory the driver allocates.
#[repr(C)]
struct MrMemory<T> {
    object: b::ib_mr,
    inner: Option<kernel::sync::Arc<T>>,
}
