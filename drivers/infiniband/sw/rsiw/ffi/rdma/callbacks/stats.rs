// SPDX-License-Identifier: GPL-2.0

//! Callbacks of counters, those of a device and those that queue pairs are bound to, and callbacks
//! that tell details of objects, which the core keeps from being destroyed meanwhile.

use super::{
    is_ud,
    mr::inner as mr_inner,
    CounterObject,
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
        driver::Driver,
        iwcm::ConsumerId,
        stats::{
            self,
            fill_details,
            Counts, //
        },
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn alloc_hw_port_stats<D: Driver>(
    _dev: *mut b::ib_device,
    _port: u32,
) -> *mut b::rdma_hw_stats {
    stats::alloc::<D::Counter>()
}

/// # Safety
///
/// Called by the core with a device of `D` and what `alloc_hw_port_stats` returned, locked.
pub(super) unsafe extern "C" fn get_hw_stats<D: Driver>(
    dev: *mut b::ib_device,
    stats: *mut b::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    from_result(|| {
        if port == 0 {
            return Err(EINVAL);
        }
        // SAFETY: the device is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get(dev) };
        // SAFETY: by the caller's promise.
        Ok(unsafe { stats::fill(stats, D::counts(&dev)) })
    })
}

/// Gives a counter the number by which the core tells those of a device apart.
///
/// # Safety
///
/// Called by the core with a counter that nothing else knows yet.
pub(super) unsafe extern "C" fn counter_init(counter: *mut b::rdma_counter) {
    static LAST: Atomic<u32> = Atomic::new(0);
    // SAFETY: by the caller's promise.
    unsafe { (*counter).id = LAST.fetch_add(1, Relaxed).wrapping_add(1) };
}

/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn counter_alloc_stats<D: Driver>(
    _counter: *mut b::rdma_counter,
) -> *mut b::rdma_hw_stats {
    stats::alloc::<D::Counter>()
}

/// # Safety
///
/// Called by the core with a counter, whose lock it holds, that began with zeros and the size in
/// the operations table, and a queue pair of `D` that is bound to none.
pub(super) unsafe extern "C" fn counter_bind_qp<D: Driver>(
    counter: *mut b::rdma_counter,
    qp: *mut b::ib_qp,
    _port: u32,
) -> c_int {
    from_result(|| {
        // SAFETY: the core's object lives during the call.
        if unsafe { is_ud(qp) } {
            return Err(EOPNOTSUPP);
        }
        // The sums are made here: the core forgets a counter silently if its first bind fails.
        //
        // SAFETY: the counter is one of this device.
        if !unsafe { CounterObject::<D>::is_installed(counter) } {
            let counts = Counts::<D::Counter>::new()?;
            // SAFETY: there are none yet, and the counter's lock is held.
            unsafe { CounterObject::<D>::install(counter, counts) };
        }
        // SAFETY: they are there, until `counter_dealloc`.
        let counts = unsafe { CounterObject::<D>::get(counter) };
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let inner = unsafe { QpObject::<D>::get(qp) };
        D::count_in(&inner, Some(counts.into()));
        // SAFETY: the core's object lives; the driver is to note what it is bound to.
        unsafe { (*qp).counter = counter };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a queue pair of `D` that is bound to a counter, whose lock it holds.
pub(super) unsafe extern "C" fn counter_unbind_qp<D: Driver>(
    qp: *mut b::ib_qp,
    _port: u32,
) -> c_int {
    // SAFETY: the queue pair is one of `D` (see `Vtable`).
    let inner = unsafe { QpObject::<D>::get(qp) };
    D::count_in(&inner, None);
    // SAFETY: the core's object lives.
    unsafe { (*qp).counter = core::ptr::null_mut() };
    0
}

/// # Safety
///
/// Called by the core with a counter of this device, for the last time.
pub(super) unsafe extern "C" fn counter_dealloc<D: Driver>(counter: *mut b::rdma_counter) -> c_int {
    // SAFETY: the core frees the counter next.
    drop(unsafe { CounterObject::<D>::take(counter) });
    0
}

/// # Safety
///
/// Called by the core with a counter of this device, whose lock it holds.
pub(super) unsafe extern "C" fn counter_update_stats<D: Driver>(
    counter: *mut b::rdma_counter,
) -> c_int {
    // SAFETY: the counter is one of this device; it is known once a queue pair was bound to it.
    let counts = unsafe { CounterObject::<D>::get(counter) };
    // SAFETY: the structure is that of `counter_alloc_stats`.
    unsafe { stats::fill((*counter).stats, &counts) };
    0
}

/// # Safety
///
/// Called by the core with a message and a queue pair of `D`.
pub(super) unsafe extern "C" fn fill_qp<D: Driver>(
    msg: *mut b::sk_buff,
    qp: *mut b::ib_qp,
) -> c_int {
    // SAFETY: the core's object lives during the call.
    if unsafe { is_ud(qp) } {
        // What there is to say of it the core has said.
        return 0;
    }
    // SAFETY: the queue pair is one of `D` (see `Vtable`).
    let qp = unsafe { QpObject::<D>::get(qp) };
    // SAFETY: by the caller's promise.
    unsafe { fill_details(msg, |to| D::describe_qp(&qp, to)) }
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
    unsafe { fill_details(msg, |to| D::describe_cq(&cq, to)) }
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
    unsafe { fill_details(msg, |to| D::describe_srq(&srq, to)) }
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
    unsafe { fill_details(msg, |to| D::describe_cm_id(&dev, id, to)) }
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
    unsafe { fill_details(msg, |to| D::describe_mr(&mr, to)) }
}
