// SPDX-License-Identifier: GPL-2.0

//! Callbacks of devices, process contexts and protection domains.

use super::{
    DeviceObject,
    PdObject,
    UcontextObject, //
};
use crate::ffi::{
    raw::{
        b,
        h, //
    },
    rdma::{
        driver::Driver,
        handle::Handle,
        kmr::PdId,
        udata::Udata, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
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
/// Called by the core once, when it is done with the device. Consumers in the kernel may still be
/// giving up what they have of it.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(dev: *mut b::ib_device) {
    // SAFETY: the device is one of `D` (see `Vtable`).
    if unsafe { DeviceObject::<D>::is_installed(dev) } {
        // Before it is taken out: kernel consumers need it for what they still have of the device.
        // SAFETY: the device is one of `D` (see `Vtable`), whose part is there until this function
        // takes it out.
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
/// Called by the core with a registered device of `D`, which it removes then.
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
