// SPDX-License-Identifier: GPL-2.0

//! Callbacks of queue pairs.

use super::{
    CqObject,
    DeviceObject,
    PdObject,
    QpObject,
    SrqObject, //
};
use crate::ffi::{
    raw::b,
    rdma::{
        attr::{
            AccessFlags,
            IbQpState,
            QpCap,
            QpModify, //
        },
        driver::{
            Driver,
            QpInit, //
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

/// Returns whether all queues for a queue pair are of device `dev` (V-RNIC-1), and so have the
/// types of this driver. The core does not look at that.
///
/// # Safety
///
/// The queues in `attr` are null or live.
unsafe fn of_device(attr: &b::ib_qp_init_attr, dev: *const b::ib_device) -> bool {
    let cq = |cq: *const b::ib_cq| {
        // SAFETY: not null, so that it is live.
        cq.is_null() || core::ptr::eq(unsafe { (*cq).device }, dev)
    };
    let srq = |srq: *const b::ib_srq| {
        // SAFETY: not null, so that it is live.
        srq.is_null() || core::ptr::eq(unsafe { (*srq).device }, dev)
    };
    cq(attr.send_cq) && cq(attr.recv_cq) && srq(attr.srq)
}

/// # Safety
///
/// Called by the core with zeroed memory of the size in the operations table, in which it has set
/// the device and the protection domain.
pub(super) unsafe extern "C" fn create_qp<D: Driver>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_init_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        let obj = NonNull::new(qp).ok_or(EINVAL)?;
        // SAFETY: the core has set the device, which is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get((*qp).device) };
        // SAFETY: the core passes the attributes.
        let attr = unsafe { &mut *attr };
        if attr.qp_type != b::ib_qp_type_IB_QPT_RC {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the core has set the device.
        let device = unsafe { (*qp).device };
        // SAFETY: the consumer gives queues that it has, or none.
        if !unsafe { of_device(attr, device) } {
            return Err(EINVAL);
        }
        // SAFETY: a reliable connection always has a protection domain.
        let pd = unsafe { PdObject::<D>::get((*qp).pd) };
        // SAFETY: null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        let mut init = QpInit::<D> {
            // SAFETY: null or a queue of this device, see above.
            send_cq: unsafe { CqObject::<D>::get_opt(attr.send_cq) },
            // SAFETY: null or a queue of this device, see above.
            recv_cq: unsafe { CqObject::<D>::get_opt(attr.recv_cq) },
            // SAFETY: null or a queue of this device, see above.
            srq: unsafe { SrqObject::<D>::get_opt(attr.srq) },
            cap: QpCap::load(&attr.cap),
            sig_all: attr.sq_sig_type == b::ib_sig_type_IB_SIGNAL_ALL_WR,
            flags: attr.create_flags,
        };
        // SAFETY: revoked in `destroy_qp`, or below if creation fails.
        let handle = unsafe { Handle::new(obj, memory_for(udata.is_some())) }?;
        let created = D::create_qp(dev, pd, handle.clone(), &mut init, udata.as_mut());
        let (inner, num) = created.inspect_err(|_| handle.revoke())?;
        init.cap.store(&mut attr.cap);
        // SAFETY: `qp` is the core's object of this call.
        unsafe { (*qp).qp_num = num.0 };
        // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet; the handle was made for it above.
        unsafe { QpObject::<D>::install_with(qp, inner, handle) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a queue pair of `D`.
pub(super) unsafe extern "C" fn modify_qp<D: Driver>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_attr,
    mask: c_int,
    _udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::get(qp) };
        // SAFETY: the core passes the attributes.
        let attr = unsafe { &*attr };
        let mask = mask as u32; // CAST: flag bits in a C int.
        if mask & !b::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS != 0 {
            return Err(EOPNOTSUPP);
        }
        let has = |bit: b::ib_qp_attr_mask| mask & bit != 0;
        let mut change = QpModify::default();
        if has(b::ib_qp_attr_mask_IB_QP_STATE) {
            change.state = Some(IbQpState::from_raw(attr.qp_state)?);
        }
        if has(b::ib_qp_attr_mask_IB_QP_CUR_STATE) {
            change.cur_state = Some(IbQpState::from_raw(attr.cur_qp_state)?);
        }
        if has(b::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS) {
            change.access = Some(AccessFlags::from_raw(attr.qp_access_flags));
        }
        if has(b::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC) {
            change.max_rd_atomic = Some(attr.max_rd_atomic);
        }
        if has(b::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC) {
            change.max_dest_rd_atomic = Some(attr.max_dest_rd_atomic);
        }
        if has(b::ib_qp_attr_mask_IB_QP_CAP) {
            change.cap = Some(QpCap::load(&attr.cap));
        }
        D::modify_qp(qp, &change)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a queue pair of `D`.
pub(super) unsafe extern "C" fn query_qp<D: Driver>(
    raw: *mut b::ib_qp,
    attr: *mut b::ib_qp_attr,
    _mask: c_int,
    init: *mut b::ib_qp_init_attr,
) -> c_int {
    // SAFETY: the queue pair is one of `D` (see `Vtable`).
    let qp = unsafe { QpObject::<D>::get(raw) };
    // What is not set below goes to the process, too.
    //
    // SAFETY: the core passes memory for a structure of C, of which all zeros are a value.
    unsafe { attr.write_bytes(0, 1) };
    // SAFETY: as above.
    unsafe { init.write_bytes(0, 1) };
    // SAFETY: the structure was just written.
    let attr = unsafe { &mut *attr };
    // SAFETY: as above.
    let init = unsafe { &mut *init };
    D::query_qp(&qp).store(attr, init);
    // SAFETY: the core's object lives during the call.
    let raw = unsafe { &*raw };
    init.qp_type = raw.qp_type;
    init.send_cq = raw.send_cq;
    init.recv_cq = raw.recv_cq;
    init.srq = raw.srq;
    init.qp_context = raw.qp_context;
    init.event_handler = raw.event_handler;
    0
}

/// # Safety
///
/// Called by the core for the last time with this queue pair.
pub(super) unsafe extern "C" fn destroy_qp<D: Driver>(
    qp: *mut b::ib_qp,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the queue pair is one of `D` (see `Vtable`) and is not taken out yet.
    let inner = unsafe { QpObject::<D>::get(qp) };
    if let Err(e) = D::destroy_qp(inner) {
        return e.to_errno();
    }
    // Those who found it by its number have a reference by now, which this waits for, or get none.
    //
    // SAFETY: the queue pair has a handle until it is dropped below.
    unsafe { QpObject::<D>::handle(qp) }.revoke();
    // SAFETY: the core frees the queue pair next; nobody uses it.
    drop(unsafe { QpObject::<D>::take(qp) });
    // SAFETY: as above; it was just revoked.
    unsafe { QpObject::<D>::drop_handle(qp) };
    0
}
