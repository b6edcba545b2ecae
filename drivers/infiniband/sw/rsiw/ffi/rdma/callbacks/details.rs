// SPDX-License-Identifier: GPL-2.0

//! Callbacks that tell details of objects, which the core keeps from being destroyed meanwhile.

use super::{
    mr::inner as mr_inner,
    CqObject,
    DeviceObject,
    QpObject,
    SrqObject, //
};
use crate::ffi::{
    raw::{
        b,
        h, //
    },
    rdma::{
        details::fill,
        driver::Driver,
        iwcm::ConsumerId, //
    },
};
use kernel::prelude::*;

/// # Safety
///
/// Called by the core with a message and a queue pair of `D`.
pub(super) unsafe extern "C" fn fill_qp<D: Driver>(
    msg: *mut b::sk_buff,
    qp: *mut b::ib_qp,
) -> c_int {
    // SAFETY: the queue pair is one of `D` (see `Vtable`).
    let qp = unsafe { QpObject::<D>::get(qp) };
    // SAFETY: by the caller's promise.
    unsafe { fill(msg, |to| D::describe_qp(&qp, to)) }
}

/// # Safety
///
/// Called by the core with a message and a completion queue of `D`.
pub(super) unsafe extern "C" fn fill_cq<D: Driver>(
    msg: *mut b::sk_buff,
    cq: *mut b::ib_cq,
) -> c_int {
    // SAFETY: the queue is one of `D` (see `Vtable`).
    let cq = unsafe { CqObject::<D>::get(cq) };
    // SAFETY: by the caller's promise.
    unsafe { fill(msg, |to| D::describe_cq(&cq, to)) }
}

/// # Safety
///
/// Called by the core with a message and a shared receive queue of `D`.
pub(super) unsafe extern "C" fn fill_srq<D: Driver>(
    msg: *mut b::sk_buff,
    srq: *mut b::ib_srq,
) -> c_int {
    // SAFETY: the queue is one of `D` (see `Vtable`).
    let srq = unsafe { SrqObject::<D>::get(srq) };
    // SAFETY: by the caller's promise.
    unsafe { fill(msg, |to| D::describe_srq(&srq, to)) }
}

/// # Safety
///
/// Called by the core with a message and a consumer's identifier that is bound to a device of `D`.
pub(super) unsafe extern "C" fn fill_cm_id<D: Driver>(
    msg: *mut b::sk_buff,
    id: *mut b::rdma_cm_id,
) -> c_int {
    // SAFETY: by the caller's promise the identifier is live.
    let dev = unsafe { h::rdma_cm_id_device(id) };
    if dev.is_null() {
        return 0;
    }
    // SAFETY: the device is one of `D` (see `Vtable`), and stays while identifiers are bound to it.
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    let id = ConsumerId::new(id);
    // SAFETY: by the caller's promise.
    unsafe { fill(msg, |to| D::describe_cm_id(&dev, id, to)) }
}

/// # Safety
///
/// Called by the core with a message and a region of `D`.
pub(super) unsafe extern "C" fn fill_mr<D: Driver>(
    msg: *mut b::sk_buff,
    mr: *mut b::ib_mr,
) -> c_int {
    // SAFETY: the region is one of `D` (see `Vtable`).
    let Some(mr) = (unsafe { mr_inner::<D>(mr) }) else {
        return 0;
    };
    // SAFETY: by the caller's promise.
    unsafe { fill(msg, |to| D::describe_mr(&mr, to)) }
}
