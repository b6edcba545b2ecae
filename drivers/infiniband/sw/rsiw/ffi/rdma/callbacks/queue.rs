// SPDX-License-Identifier: GPL-2.0

//! Callbacks of completion queues.

use super::{
    CqObject,
    DeviceObject, //
};
use crate::ffi::{
    raw::{
        b,
        h, //
    },
    rdma::{
        driver::{
            CqInit,
            Driver, //
        },
        handle::Handle,
        udata::Udata,
    },
    task::process::memory_for,
};
use core::ptr::NonNull;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// # Safety
///
/// Called by the core with zeroed memory of the size in the operations table, in which it has set
/// the device; `attrs` is null for consumers in the kernel.
pub(super) unsafe extern "C" fn create_cq<D: Driver>(
    cq: *mut b::ib_cq,
    attr: *const b::ib_cq_init_attr,
    attrs: *mut b::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        let obj = NonNull::new(cq).ok_or(EINVAL)?;
        // SAFETY: the core has set the device, which is one of `D` (see `Vtable`).
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
            vector: attr.comp_vector,
        };
        // SAFETY: revoked in `pre_destroy_cq`, or below if creation fails.
        let handle = unsafe { Handle::new(obj, memory_for(udata.is_some())) }?;
        let created = D::create_cq(dev, handle.clone(), &init, udata.as_mut());
        let (inner, cqe) = created.inspect_err(|_| handle.revoke())?;
        let cqe = c_int::try_from(cqe).unwrap_or(c_int::MAX);
        // SAFETY: `cq` is the core's object of this call.
        unsafe { (*cq).cqe = cqe };
        // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet; the handle was made for it above.
        unsafe { CqObject::<D>::install_with(cq, inner, handle) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with the completion queue of a process.
pub(super) unsafe extern "C" fn resize_user_cq<D: Driver>(
    cq: *mut b::ib_cq,
    entries: c_uint,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the core passes the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let inner = unsafe { CqObject::<D>::get(cq) };
        let cqe = D::resize_cq(&inner, entries, &mut udata)?;
        let cqe = c_int::try_from(cqe).unwrap_or(c_int::MAX);
        // SAFETY: the core's object lives during the call.
        unsafe { (*cq).cqe = cqe };
        Ok(0)
    })
}

/// Ends all calls of the queue's handler; the consumer may still poll. The core then waits for the
/// handler's work, which a late call could otherwise queue once more.
///
/// # Safety
///
/// `cq` is a queue of `D` that is about to be destroyed, and this is the first of the calls that
/// destroy it.
pub(super) unsafe extern "C" fn pre_destroy_cq<D: Driver>(cq: *mut b::ib_cq) -> c_int {
    // SAFETY: the queue is one of `D` (see `Vtable`).
    let inner = unsafe { CqObject::<D>::get(cq) };
    D::destroy_cq(&inner);
    // SAFETY: the queue has a handle until it is destroyed.
    unsafe { CqObject::<D>::handle(cq) }.revoke();
    0
}

/// # Safety
///
/// Called by the core for the last time with this queue, after [`pre_destroy_cq`].
pub(super) unsafe extern "C" fn post_destroy_cq<D: Driver>(cq: *mut b::ib_cq) {
    // SAFETY: the queue is one of `D` (see `Vtable`); the core frees it next.
    drop(unsafe { CqObject::<D>::take(cq) });
    // SAFETY: as above; `pre_destroy_cq` has revoked it.
    unsafe { CqObject::<D>::drop_handle(cq) };
}

/// # Safety
///
/// `cq` is a queue of `D` that is about to be destroyed, and this is the first and the last of the
/// calls that destroy it.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut b::ib_cq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: as the caller says; the next call is the other one that destroys the queue.
    let ret = unsafe { pre_destroy_cq::<D>(cq) };
    // SAFETY: as above.
    unsafe { post_destroy_cq::<D>(cq) };
    ret
}
