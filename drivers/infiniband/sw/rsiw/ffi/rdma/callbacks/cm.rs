// SPDX-License-Identifier: GPL-2.0

//! Callbacks of `iw_cm`. C header: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h).

use super::{
    DeviceObject,
    QpObject, //
};
use crate::ffi::{
    raw::b,
    rdma::{
        attr::Qpn,
        driver::Driver,
        handle::QpHandle,
        iwcm::{
            private_data,
            CallId,
            CmId,
            ConnParam, //
        },
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// Takes no reference: [`iw_get_qp`] has taken it already.
///
/// # Safety
///
/// Called by the core, under the same spin lock, once for each queue pair from [`iw_get_qp`].
pub(super) unsafe extern "C" fn iw_add_ref<D: Driver>(_qp: *mut b::ib_qp) {}

/// # Safety
///
/// Called by the core with a queue pair that it has a reference to, which it gives up. Any context.
pub(super) unsafe extern "C" fn iw_rem_ref<D: Driver>(qp: *mut b::ib_qp) {
    // SAFETY: the queue pair is one of `D` (see `Vtable`); the reference that is given up keeps it
    // and its handle.
    let handle = unsafe { QpObject::<D>::handle(qp) };
    // The release may let the core free `qp` and its reference to the handle.
    let handle: Arc<QpHandle> = handle.into();
    // SAFETY: the reference was taken in `iw_get_qp`.
    unsafe { handle.release() };
}

/// Finds a queue pair and takes a reference to it.
///
/// `iw_cm` asks for the reference in a second call, [`iw_add_ref`]. Without one until then,
/// destroying a queue pair would have to wait for a grace period. Both callers, `iw_cm_connect` and
/// `iw_cm_accept`, make the second call at once, exactly one for each queue pair they get, and one
/// of [`iw_rem_ref`] for each of those. So the reference can be taken here.
///
/// # Safety
///
/// Called by the core with a device of `D`, under a spin lock with interrupts off. For each result
/// the core calls [`iw_add_ref`] once, and then [`iw_rem_ref`] once.
pub(super) unsafe extern "C" fn iw_get_qp<D: Driver>(
    dev: *mut b::ib_device,
    qpn: c_int,
) -> *mut b::ib_qp {
    // SAFETY: the device is one of `D` (see `Vtable`).
    let inner = unsafe { DeviceObject::<D>::get(dev) };
    // CAST: the core carries the number through as it is.
    let Some(handle) = D::qp_by_num(&inner, Qpn(qpn as u32)) else {
        return core::ptr::null_mut();
    };
    let Some(qp) = handle.hold() else {
        return core::ptr::null_mut();
    };
    // SAFETY: the reference keeps the queue pair.
    let is_ours = core::ptr::eq(unsafe { (*qp.as_ptr()).device }, dev);
    // A queue pair is complete a little after it has its number.
    //
    // SAFETY: as above; one of this device is one of `D` (see `Vtable`).
    if is_ours && unsafe { QpObject::<D>::is_installed(qp.as_ptr()) } {
        qp.as_ptr()
    } else {
        // SAFETY: the reference was just taken, and is not passed on.
        unsafe { handle.release() };
        core::ptr::null_mut()
    }
}

/// Calls `verb`, which connects or accepts.
///
/// # Safety
///
/// `id` and `param` are valid during the call, and `id` names a device of `D`.
unsafe fn set_up<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
    verb: fn(ArcBorrow<'_, D::Device>, CallId<'_>, &ConnParam<'_>) -> Result,
) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: both, and the RDMA CM's identifier, live during the call.
        let (id, param) = unsafe { (CallId::from_raw(id), ConnParam::from_raw(param)) };
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
        // SAFETY: the identifier, and the RDMA CM's, live during the call.
        let id = unsafe { CallId::from_raw(id) };
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
