// SPDX-License-Identifier: GPL-2.0

//! Callbacks of completion queues, shared receive queues and queue pairs: making, changing and
//! destroying them, posting, polling and arming.
//!
//! To post, a process has its rings and needs the doorbell only. Requests that the core is to post
//! for a process are refused here: they name addresses of the process, but the driver would take
//! these for addresses of the kernel.
//!
//! Context: posting, polling and arming in any context, interrupts off included.

use super::{
    is_ud,
    CqObject,
    DeviceObject,
    PdObject,
    QpObject,
    SrqObject,
    UdQpObject, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use crate::ffi::rdma::attr::{
    AccessFlags,
    IbQpState,
    QpCap,
    QpModify,
    QpPath,
    Qpn, //
};
use crate::ffi::rdma::driver::{
    CqInit,
    Driver,
    QpInit,
    SrqChange,
    SrqInit, //
};
use crate::ffi::rdma::handle::{
    Handle,
    Object,
    QpHandle, //
};
use crate::ffi::rdma::udata::Udata;
use crate::ffi::rdma::wr::{
    Chain,
    WcRoom, //
};
use crate::ffi::task::memory_for;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
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
/// `cq` is a queue of `D` that is about to be destroyed, and no other call destroys it.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut b::ib_cq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: as the caller says; `post_destroy_cq` follows.
    let ret = unsafe { pre_destroy_cq::<D>(cq) };
    // SAFETY: as above.
    unsafe { post_destroy_cq::<D>(cq) };
    ret
}

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
        // SAFETY: the core passes the attributes.
        let kind = unsafe { (*attr).qp_type };
        match kind {
            b::ib_qp_type_IB_QPT_RC => {
                // SAFETY: by the caller's promise.
                unsafe { make_qp::<D, D::Qp>(qp, attr, udata, D::create_qp) }?;
            }
            b::ib_qp_type_IB_QPT_UD if D::HAS_CREATE_UD_QP => {
                // SAFETY: as above.
                unsafe { make_qp::<D, D::UdQp>(qp, attr, udata, D::create_ud_qp) }?;
            }
            _ => return Err(EOPNOTSUPP),
        }
        Ok(0)
    })
}

/// A method of the driver that makes a queue pair that is a `Q`.
type CreateQp<D, Q> = fn(
    ArcBorrow<'_, <D as Driver>::Device>,
    ArcBorrow<'_, <D as Driver>::Pd>,
    Arc<QpHandle>,
    &mut QpInit<D>,
    Option<&mut Udata<'_>>,
) -> Result<(Arc<Q>, Qpn)>;

/// Makes a queue pair that is a `Q`, by `create`.
///
/// # Safety
///
/// As for [`create_qp`]; a queue pair of that type is a `Q`.
unsafe fn make_qp<D: Driver, Q>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_init_attr,
    udata: *mut b::ib_udata,
    create: CreateQp<D, Q>,
) -> Result {
    let obj = NonNull::new(qp).ok_or(EINVAL)?;
    // SAFETY: the core has set the device, which is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get((*qp).device) };
    // SAFETY: the core passes the attributes.
    let attr = unsafe { &mut *attr };
    // SAFETY: the core has set the device.
    let device = unsafe { (*qp).device };
    // SAFETY: the consumer gives queues that it has, or none.
    if !unsafe { of_device(attr, device) } {
        return Err(EINVAL);
    }
    // SAFETY: a queue pair of these types always has a protection domain.
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
    let created = create(dev, pd, handle.clone(), &mut init, udata.as_mut());
    let (inner, num) = created.inspect_err(|_| handle.revoke())?;
    init.cap.store(&mut attr.cap);
    // SAFETY: `qp` is the core's object of this call.
    unsafe { (*qp).qp_num = num.0 };
    // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
    // driver's object yet; the handle was made for it above.
    unsafe { Object::<b::ib_qp, Q>::install_with(qp, inner, handle) };
    Ok(())
}

/// # Safety
///
/// Called by the core with a queue pair of `D`.
pub(super) unsafe extern "C" fn modify_qp<D: Driver>(
    raw: *mut b::ib_qp,
    attr: *mut b::ib_qp_attr,
    mask: c_int,
    _udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
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
        // SAFETY: the core has a reference to the GID until the call returns.
        change.path = unsafe { QpPath::load(attr, has) };
        // SAFETY: the core's object lives during the call.
        if D::HAS_CREATE_UD_QP && unsafe { is_ud(raw) } {
            // SAFETY: the queue pair is one of `D` for datagrams (see `Vtable`).
            D::modify_ud_qp(unsafe { UdQpObject::<D>::get(raw) }, &change)?;
            return Ok(0);
        }
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::get(raw) };
        // SAFETY: the core's object has the device set, which is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get((*raw).device) };
        D::modify_qp(dev, qp, &change)?;
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
    // SAFETY: the core's object lives during the call.
    let query = if D::HAS_CREATE_UD_QP && unsafe { is_ud(raw) } {
        // SAFETY: the queue pair is one of `D` for datagrams (see `Vtable`).
        let qp = unsafe { UdQpObject::<D>::get(raw) };
        D::query_ud_qp(&qp)
    } else {
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::get(raw) };
        D::query_qp(&qp)
    };
    // The process also gets the fields that are not set below.
    //
    // SAFETY: the core passes memory for a structure of C, of which all zeros are a value.
    unsafe { attr.write_bytes(0, 1) };
    // SAFETY: as above.
    unsafe { init.write_bytes(0, 1) };
    // SAFETY: the structure was just written.
    let attr = unsafe { &mut *attr };
    // SAFETY: as above.
    let init = unsafe { &mut *init };
    query.store(attr, init);
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
    // SAFETY: the core's object lives during the call.
    if D::HAS_CREATE_UD_QP && unsafe { is_ud(qp) } {
        // SAFETY: the queue pair is one of `D` for datagrams and is not taken out yet.
        D::destroy_ud_qp(unsafe { UdQpObject::<D>::get(qp) });
        // SAFETY: by the caller's promise; the driver is done with the queue pair.
        unsafe { unmake_qp::<D::UdQp>(qp, |_| ()) };
        return 0;
    }
    // SAFETY: the queue pair is one of `D` (see `Vtable`) and is not taken out yet.
    let inner = unsafe { QpObject::<D>::get(qp) };
    if let Err(e) = D::destroy_qp(inner) {
        return e.to_errno();
    }
    // SAFETY: by the caller's promise; the driver is done with the queue pair.
    unsafe { unmake_qp::<D::Qp>(qp, D::free_number) };
    0
}

/// Takes the driver's object out of a queue pair that is a `Q`, and calls `free_number` with it once
/// nobody has a reference to the queue pair.
///
/// # Safety
///
/// The core frees the queue pair next; nobody uses it any more.
unsafe fn unmake_qp<Q>(qp: *mut b::ib_qp, free_number: impl FnOnce(&Q)) {
    // Those who found the queue pair by its number have a reference by now, for which this waits,
    // or get none.
    //
    // SAFETY: the queue pair has a handle until it is dropped below.
    unsafe { Object::<b::ib_qp, Q>::handle(qp) }.revoke();
    // SAFETY: by the caller's promise.
    if let Some(inner) = unsafe { Object::<b::ib_qp, Q>::take(qp) } {
        free_number(&inner);
    }
    // SAFETY: as above; it was just revoked.
    unsafe { Object::<b::ib_qp, Q>::drop_handle(qp) };
}

/// # Safety
///
/// Called by the core with a queue pair of `D`, and a list of requests, or null for the doorbell of
/// a process, which comes in process context.
pub(super) unsafe extern "C" fn post_send<D: Driver>(
    raw: *mut b::ib_qp,
    wr: *const b::ib_send_wr,
    bad_wr: *mut *const b::ib_send_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: the core's object lives during the call.
        if D::HAS_CREATE_UD_QP && unsafe { is_ud(raw) } {
            // SAFETY: as above; only processes have such queue pairs.
            unsafe { ring_ud::<D>(raw, wr, bad_wr) }?;
            return Ok(0);
        }
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::lend(raw) };
        if wr.is_null() {
            D::doorbell(&qp)?;
            return Ok(0);
        }
        // SAFETY: as above; the core sets it before the driver sees the queue pair.
        if !unsafe { (*raw).uobject }.is_null() {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = wr };
            return Err(EINVAL);
        }
        // SAFETY: a consumer in the kernel passes a list of requests.
        let mut chain = unsafe { Chain::from_raw(wr) };
        D::post_send(&qp, &mut chain).inspect_err(|_| {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = chain.current() };
        })?;
        Ok(0)
    })
}

/// Rings the doorbell of a queue pair for datagrams, of a process.
///
/// # Safety
///
/// As for [`post_send`], with such a queue pair.
unsafe fn ring_ud<D: Driver>(
    raw: *mut b::ib_qp,
    wr: *const b::ib_send_wr,
    bad_wr: *mut *const b::ib_send_wr,
) -> Result {
    if !wr.is_null() {
        // SAFETY: the core passes a place for the request that failed.
        unsafe { *bad_wr = wr };
        return Err(EINVAL);
    }
    // SAFETY: by the caller's promise.
    D::ud_doorbell(unsafe { UdQpObject::<D>::get(raw) });
    Ok(())
}

/// # Safety
///
/// Called by the core with a queue pair of `D` and a list of requests.
pub(super) unsafe extern "C" fn post_recv<D: Driver>(
    raw: *mut b::ib_qp,
    wr: *const b::ib_recv_wr,
    bad_wr: *mut *const b::ib_recv_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: the core sets it before the driver sees the queue pair.
        if !unsafe { (*raw).uobject }.is_null() {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = wr };
            return Err(EINVAL);
        }
        // SAFETY: the queue pair is one of `D` (see `Vtable`), and of a consumer in the kernel,
        // which has none for datagrams.
        let qp = unsafe { QpObject::<D>::lend(raw) };
        // SAFETY: a consumer in the kernel passes a list of requests.
        let mut chain = unsafe { Chain::from_raw(wr) };
        D::post_recv(&qp, &mut chain).inspect_err(|_| {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = chain.current() };
        })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a shared receive queue of `D` and a list of requests.
pub(super) unsafe extern "C" fn post_srq_recv<D: Driver>(
    raw: *mut b::ib_srq,
    wr: *const b::ib_recv_wr,
    bad_wr: *mut *const b::ib_recv_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let srq = unsafe { SrqObject::<D>::get(raw) };
        // SAFETY: as above; the core sets it before the driver sees the queue.
        if !unsafe { (*raw).uobject }.is_null() {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = wr };
            return Err(EINVAL);
        }
        // SAFETY: a consumer in the kernel passes a list of requests.
        let mut chain = unsafe { Chain::from_raw(wr) };
        D::post_srq_recv(&srq, &mut chain).inspect_err(|_| {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = chain.current() };
        })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a completion queue of `D` and room for `count` completions.
pub(super) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut b::ib_cq,
    count: c_int,
    wc: *mut b::ib_wc,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let cq = unsafe { CqObject::<D>::get(cq) };
        // SAFETY: by the caller's promise.
        let mut room = unsafe { WcRoom::from_raw(wc, count) };
        D::poll_cq(&cq, &mut room)?;
        Ok(room.used())
    })
}

/// # Safety
///
/// Called by the core with a completion queue of `D`.
pub(super) unsafe extern "C" fn req_notify_cq<D: Driver>(
    cq: *mut b::ib_cq,
    flags: b::ib_cq_notify_flags,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let cq = unsafe { CqObject::<D>::get(cq) };
        let solicited = flags & b::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK
            == b::ib_cq_notify_flags_IB_CQ_SOLICITED;
        let waiting = D::arm_cq(&cq, solicited)?;
        let report = flags & b::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        Ok(c_int::from(report && waiting))
    })
}
