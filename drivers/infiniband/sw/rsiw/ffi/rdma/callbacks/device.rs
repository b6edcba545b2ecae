// SPDX-License-Identifier: GPL-2.0

//! Callbacks of devices, process contexts and protection domains; of counters, those of a device
//! and those that queue pairs are bound to; and callbacks that tell details of objects, which the
//! core keeps from being destroyed meanwhile.

use super::mr::inner as mr_inner;
use super::{
    is_ud,
    CounterObject,
    CqObject,
    DeviceObject,
    PdObject,
    QpObject,
    SrqObject,
    UcontextObject, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use crate::ffi::rdma::driver::Driver;
use crate::ffi::rdma::handle::Handle;
use crate::ffi::rdma::iwcm::ConsumerId;
use crate::ffi::rdma::kmr::PdId;
use crate::ffi::rdma::stats::{
    self,
    fill_details,
    Counts, //
};
use crate::ffi::rdma::udata::Udata;
use core::ptr::NonNull;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// # Safety
///
/// Called by the core with a registered device of `D`.
pub(super) unsafe extern "C" fn query_device<D: Driver>(
    dev: *mut b::ib_device,
    attr: *mut b::ib_device_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the core passes null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        if let Some(udata) = &mut udata {
            udata.no_io()?;
        }
        // SAFETY: the device is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get(dev) };
        // SAFETY: the core passes a structure to fill.
        D::query_device(&dev, udata.is_some()).store(unsafe { &mut *attr });
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a device of `D`; takes the RTNL.
pub(super) unsafe extern "C" fn query_port<D: Driver>(
    raw: *mut b::ib_device,
    _port: u32,
    attr: *mut b::ib_port_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: the device is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get(raw) };
        let port = D::query_port(&dev);
        // SAFETY: the core passes a structure to fill.
        let attr = unsafe { &mut *attr };
        // What the core has filled in describes a port that needs an address.
        *attr = pin_init::zeroed();
        port.store(attr);
        attr.gid_tbl_len = D::GIDS.into();
        // SAFETY: the device is one of `D` (see `Vtable`), and has a handle.
        let Some(netdev) = unsafe { DeviceObject::<D>::handle(raw) }.netdev() else {
            return Ok(0);
        };
        // SAFETY: both devices live; the out pointers are valid.
        to_result(unsafe {
            h::ib_port_speed(
                raw,
                netdev.as_ptr(),
                &raw mut attr.active_speed,
                &raw mut attr.active_width,
            )
        })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core while it registers a device.
pub(super) unsafe extern "C" fn get_port_immutable<D: Driver>(
    _dev: *mut b::ib_device,
    _port: u32,
    immutable: *mut b::ib_port_immutable,
) -> c_int {
    // SAFETY: the core passes a structure to fill.
    let immutable = unsafe { &mut *immutable };
    immutable.gid_tbl_len = D::GIDS.into();
    immutable.pkey_tbl_len = 1;
    immutable.core_cap_flags = b::RDMA_CORE_CAP_PROT_IWARP | b::RDMA_CORE_CAP_IW_CM;
    0
}

/// # Safety
///
/// Called by the core with a device of `D`.
pub(super) unsafe extern "C" fn query_gid<D: Driver>(
    dev: *mut b::ib_device,
    _port: u32,
    index: c_int,
    gid: *mut b::ib_gid,
) -> c_int {
    // SAFETY: the device is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    // SAFETY: the core passes a GID to fill; every bit pattern is one.
    unsafe { gid.cast::<[u8; 16]>().write(D::query_gid(&dev, index)) };
    0
}

/// iWARP has no partition keys, but the RDMA CM wants one to bind to a loopback address.
///
/// # Safety
///
/// Called by the core with a key to fill.
pub(super) unsafe extern "C" fn query_pkey(
    _dev: *mut b::ib_device,
    _port: u32,
    _index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { pkey.write(0) };
    0
}

/// # Safety
///
/// Called by the core with a device of `D`, which stays registered during the call.
pub(super) unsafe extern "C" fn enable_driver<D: Driver>(dev: *mut b::ib_device) -> c_int {
    // SAFETY: the device is one of `D` (see `Vtable`), and has had its driver's part since before
    // it was registered.
    D::enabled(&unsafe { DeviceObject::<D>::get(dev) }.into());
    0
}

/// # Safety
///
/// Called by the core once, when it is done with the device. Consumers in the kernel may still be
/// giving up what they have of it.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(dev: *mut b::ib_device) {
    // SAFETY: the device is one of `D` (see `Vtable`).
    if unsafe { DeviceObject::<D>::is_installed(dev) } {
        // Before the driver's part is taken out: consumers in the kernel need it for what they
        // still have of the device. SAFETY: the device is one of `D` (see `Vtable`), whose part is
        // there until this function takes it out.
        D::close(&unsafe { DeviceObject::<D>::get(dev) }.into());
    }
    // SAFETY: the device is one of `D` (see `Vtable`); it is not used through the core any more.
    if let Some(_inner) = unsafe { DeviceObject::<D>::take(dev) } {
        // SAFETY: a device that has a driver's part has a handle.
        unsafe { DeviceObject::<D>::handle(dev) }.revoke();
        // SAFETY: just revoked.
        unsafe { DeviceObject::<D>::drop_handle(dev) };
    }
}

/// # Safety
///
/// Called by the core with a registered device of `D`, which the core removes afterwards.
pub(super) unsafe extern "C" fn dellink<D: Driver>(dev: *mut b::ib_device) -> c_int {
    // SAFETY: the device is one of `D` (see `Vtable`).
    D::leaving(&unsafe { DeviceObject::<D>::get(dev) }.into());
    0
}

/// # Safety
///
/// Called by the core with zeroed memory of the size in the operations table.
pub(super) unsafe extern "C" fn alloc_ucontext<D: Driver>(
    uctx: *mut b::ib_ucontext,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        let obj = NonNull::new(uctx).ok_or(EINVAL)?;
        // SAFETY: the core has set the device, which is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get((*uctx).device) };
        // SAFETY: the core passes the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: revoked in `dealloc_ucontext`; nobody else has it before it is installed.
        let handle = unsafe { Handle::new(obj, GFP_KERNEL_ACCOUNT) }?;
        let inner = D::alloc_ucontext(dev, &mut udata)?;
        // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet; the handle was made for it above.
        unsafe { UcontextObject::<D>::install_with(uctx, inner, handle) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this context.
pub(super) unsafe extern "C" fn dealloc_ucontext<D: Driver>(uctx: *mut b::ib_ucontext) {
    // SAFETY: the context has a handle until it is dropped below.
    unsafe { UcontextObject::<D>::handle(uctx) }.revoke();
    // SAFETY: the context is one of `D` (see `Vtable`); the core frees it next.
    drop(unsafe { UcontextObject::<D>::take(uctx) });
    // SAFETY: as above; it was just revoked.
    unsafe { UcontextObject::<D>::drop_handle(uctx) };
}

/// Lets the core take a device away from processes that have it open: it destroys their objects
/// through the usual callbacks. Mapped rings stay until they are unmapped: a ring's memory belongs
/// to its mapping as much as to the driver.
///
/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn disassociate_ucontext(_uctx: *mut b::ib_ucontext) {}

/// # Safety
///
/// Called by the core with zeroed memory of the size in the operations table.
pub(super) unsafe extern "C" fn alloc_pd<D: Driver>(
    pd: *mut b::ib_pd,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: the core has set the device, which is one of `D` (see `Vtable`).
        let dev = unsafe { DeviceObject::<D>::get((*pd).device) };
        // SAFETY: the core passes null or the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        // The core gives no udata for a domain of the kernel, which no process can name.
        let inner = D::alloc_pd(dev, PdId::new(udata.is_some()), udata.as_mut())?;
        // SAFETY: the core has allocated it zeroed, by the size in the table, so that it has no
        // driver's object yet.
        unsafe { PdObject::<D>::install(pd, inner) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this domain.
pub(super) unsafe extern "C" fn dealloc_pd<D: Driver>(
    pd: *mut b::ib_pd,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: the domain is one of `D` (see `Vtable`); the core frees it next.
    drop(unsafe { PdObject::<D>::take(pd) });
    0
}

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
/// Called by the core with a counter and a queue pair of `D`. The core has allocated the counter
/// zeroed, by the size in the operations table, and holds its lock. The queue pair is bound to no
/// counter.
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
        // The core has said all that there is to say of it.
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
