// SPDX-License-Identifier: GPL-2.0

//! Callbacks of the driver's own methods, which are declared in `ffi/rsiw/methods.c`.
//!
//! The core keeps the object and its process context during the call, and no call destroys it.

use super::{
    QpObject,
    SrqObject, //
};
use crate::ffi::{
    raw::b,
    rdma::{
        driver::Driver,
        udata::Udata, //
    },
};
use kernel::{
    error::from_result,
    prelude::*, //
};

/// # Safety
///
/// Called by a method with a queue pair of `D` and the udata of its call.
pub(super) unsafe extern "C" fn resize_qp<D: Driver>(
    qp: *mut b::ib_qp,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the queue pair is one of `D`.
        let qp = unsafe { QpObject::<D>::get(qp) };
        D::resize_qp(&qp, &mut udata)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by a method with a shared receive queue of `D` and the udata of its call.
pub(super) unsafe extern "C" fn resize_srq<D: Driver>(
    srq: *mut b::ib_srq,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the queue is one of `D`.
        let srq = unsafe { SrqObject::<D>::get(srq) };
        D::resize_srq(&srq, &mut udata)?;
        Ok(0)
    })
}
