// SPDX-License-Identifier: GPL-2.0

//! Callbacks of shared receive queues.

use super::{
    PdObject,
    SrqObject, //
};
use crate::ffi::{
    raw::b,
    rdma::{
        driver::{
            Driver,
            SrqChange,
            SrqInit, //
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
/// the device and the protection domain.
pub(super) unsafe extern "C" fn create_srq<D: Driver>(
    srq: *mut b::ib_srq,
    attr: *mut b::ib_srq_init_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        let obj = NonNull::new(srq).ok_or(EINVAL)?;
        // SAFETY: the core passes the attributes.
        let attr = unsafe { &mut *attr };
        if attr.srq_type != b::ib_srq_type_IB_SRQT_BASIC {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the core has set the domain, which is one of `D` (see `Vtable`).
        let pd = unsafe { PdObject::<D>::get((*srq).pd) };
        // SAFETY: null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        let mut init = SrqInit {
            max_wr: attr.attr.max_wr,
            max_sge: attr.attr.max_sge,
            limit: attr.attr.srq_limit,
        };
        // SAFETY: revoked in `destroy_srq`, or below if creation fails.
        let handle = unsafe { Handle::new(obj, memory_for(udata.is_some())) }?;
        let created = D::create_srq(pd, handle.clone(), &mut init, udata.as_mut());
        let inner = created.inspect_err(|_| handle.revoke())?;
        attr.attr.max_wr = init.max_wr;
        attr.attr.max_sge = init.max_sge;
        // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet; the handle was made for it above.
        unsafe { SrqObject::<D>::install_with(srq, inner, handle) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a shared receive queue of `D`.
pub(super) unsafe extern "C" fn modify_srq<D: Driver>(
    srq: *mut b::ib_srq,
    attr: *mut b::ib_srq_attr,
    mask: b::ib_srq_attr_mask,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: null or the udata of this call.
        if let Some(mut udata) = unsafe { Udata::from_raw(udata) } {
            udata.no_io()?;
        }
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let srq = unsafe { SrqObject::<D>::get(srq) };
        // SAFETY: the core passes the attributes.
        let attr = unsafe { &*attr };
        let known = b::ib_srq_attr_mask_IB_SRQ_MAX_WR | b::ib_srq_attr_mask_IB_SRQ_LIMIT;
        if mask & !known != 0 {
            return Err(EINVAL);
        }
        let has = |bit: b::ib_srq_attr_mask| mask & bit != 0;
        let change = SrqChange {
            max_wr: has(b::ib_srq_attr_mask_IB_SRQ_MAX_WR).then_some(attr.max_wr),
            limit: has(b::ib_srq_attr_mask_IB_SRQ_LIMIT).then_some(attr.srq_limit),
        };
        D::modify_srq(&srq, &change)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a shared receive queue of `D`.
pub(super) unsafe extern "C" fn query_srq<D: Driver>(
    srq: *mut b::ib_srq,
    attr: *mut b::ib_srq_attr,
) -> c_int {
    // SAFETY: the queue is one of `D` (see `Vtable`).
    let srq = unsafe { SrqObject::<D>::get(srq) };
    // SAFETY: the core passes a structure to fill.
    D::query_srq(&srq).store(unsafe { &mut *attr });
    0
}

/// # Safety
///
/// Called by the core for the last time with this queue.
pub(super) unsafe extern "C" fn destroy_srq<D: Driver>(
    srq: *mut b::ib_srq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the queue is one of `D` (see `Vtable`) and is not taken out yet.
    let inner = unsafe { SrqObject::<D>::get(srq) };
    D::destroy_srq(&inner);
    // SAFETY: the queue has a handle until it is taken below.
    unsafe { SrqObject::<D>::handle(srq) }.revoke();
    // SAFETY: the core frees the queue next; nobody uses it.
    drop(unsafe { SrqObject::<D>::take(srq) });
    // SAFETY: as above; it was just revoked.
    unsafe { SrqObject::<D>::drop_handle(srq) };
    0
}
