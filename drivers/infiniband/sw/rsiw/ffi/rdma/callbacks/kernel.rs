// SPDX-License-Identifier: GPL-2.0

//! Callbacks for posting, polling and arming. A process has its rings and needs the doorbell only.
//! Requests that the core is to post for a process are refused here: they name its addresses, but
//! the driver would copy from and to those of the kernel. Context: any, interrupts off included.

use super::{
    CqObject,
    QpObject,
    SrqObject, //
};
use crate::ffi::{
    raw::b,
    rdma::{
        driver::Driver,
        wc::WcRoom,
        wr::Chain, //
    },
};
use kernel::{
    error::from_result,
    prelude::*, //
};

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

/// # Safety
///
/// Called by the core with a queue pair of `D` and a list of requests.
pub(super) unsafe extern "C" fn post_recv<D: Driver>(
    raw: *mut b::ib_qp,
    wr: *const b::ib_recv_wr,
    bad_wr: *mut *const b::ib_recv_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::lend(raw) };
        // SAFETY: as above; the core sets it before the driver sees the queue pair.
        if !unsafe { (*raw).uobject }.is_null() {
            // SAFETY: the core passes a place for the request that failed.
            unsafe { *bad_wr = wr };
            return Err(EINVAL);
        }
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
