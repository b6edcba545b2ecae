// SPDX-License-Identifier: GPL-2.0

//! Callbacks of the connection manager (`iw_cm`).
//!
//! C header: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h).

use super::{
    DeviceObject,
    QpObject, //
};
use crate::ffi::{
    iwcm::{
        private_data,
        CmId,
        ConnParam, //
    },
    raw::b,
    rdma::driver::{
        Driver,
        HasQpHandle, //
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::ArcBorrow, //
};

/// # Safety
///
/// Called by the core with a queue pair that it got from [`iw_get_qp`] under the same spin lock, or
/// has a reference to. Any context.
pub(super) unsafe extern "C" fn iw_add_ref<D: Driver>(qp: *mut b::ib_qp) {
    // SAFETY: the queue pair is one of `D`, and is not freed as long as the caller says.
    unsafe { QpObject::<D>::get(qp) }.handle().hold();
}

/// # Safety
///
/// Called by the core with a queue pair that it has a reference to. Any context.
pub(super) unsafe extern "C" fn iw_rem_ref<D: Driver>(qp: *mut b::ib_qp) {
    // SAFETY: the queue pair is one of `D`; the reference that is given up kept it. The driver's
    // object outlives the release, which may let the core free `qp`.
    let inner: kernel::sync::Arc<D::Qp> = unsafe { QpObject::<D>::get(qp) }.into();
    inner.handle().release();
}

/// # Safety
///
/// Called by the core with a device of `D`, under a spin lock with interrupts off.
pub(super) unsafe extern "C" fn iw_get_qp<D: Driver>(
    dev: *mut b::ib_device,
    qpn: c_int,
) -> *mut b::ib_qp {
    // SAFETY: the device is one of `D`.
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    // CAST: the core carries the number through as it is.
    let Some(qp) = D::qp_by_num(&dev, qpn as u32) else {
        return core::ptr::null_mut();
    };
    let qp = qp.handle().as_ptr();
    // SAFETY: a QP that has a number has a core's object, which is not freed before the grace period
    // that follows the end of that. It is complete a little after it has the number.
    if unsafe { QpObject::<D>::is_installed(qp) } {
        qp
    } else {
        core::ptr::null_mut()
    }
}

/// Connects or accepts.
///
/// # Safety
///
/// `id` and `param` are valid during the call, and `id` names a device of `D`.
unsafe fn set_up<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
    verb: fn(ArcBorrow<'_, D::Device>, &CmId, &ConnParam<'_>) -> Result,
) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: both live during the call.
        let (id, param) = unsafe { (CmId::from_raw(id), ConnParam::from_raw(param)) };
        verb(dev, id, &param)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with valid arguments.
pub(super) unsafe extern "C" fn iw_connect<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { set_up::<D>(id, param, D::connect) }
}

/// # Safety
///
/// As [`iw_connect`].
pub(super) unsafe extern "C" fn iw_accept<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { set_up::<D>(id, param, D::accept) }
}

/// # Safety
///
/// Called by the core with a valid identifier and `len` octets at `pdata`, which may be null.
pub(super) unsafe extern "C" fn iw_reject<D: Driver>(
    id: *mut b::iw_cm_id,
    pdata: *const c_void,
    len: u8,
) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: the identifier lives during the call.
        let id = unsafe { CmId::from_raw(id) };
        // SAFETY: by the caller's promise.
        D::reject(dev, id, unsafe { private_data(pdata, len.into()) })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a valid identifier.
pub(super) unsafe extern "C" fn iw_create_listen<D: Driver>(
    id: *mut b::iw_cm_id,
    backlog: c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: the identifier lives during the call.
        let id = unsafe { CmId::from_raw(id) };
        D::create_listen(dev, id, u32::try_from(backlog).unwrap_or(0))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with an identifier that listens.
pub(super) unsafe extern "C" fn iw_destroy_listen<D: Driver>(id: *mut b::iw_cm_id) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: the identifier lives during the call.
        D::destroy_listen(dev, unsafe { CmId::from_raw(id) })?;
        Ok(0)
    })
}
