// SPDX-License-Identifier: GPL-2.0

//! The parts of the driver that are written in C: methods that processes call by
//! `RDMA_VERBS_IOCTL`, declared in `methods.c`, and files in sysfs, in `sysfs.c`.
//!
//! Context: process. The core keeps the object and its process context during the call, and no call
//! destroys it.

use crate::ffi::{
    raw::b,
    rdma::{
        callbacks::{
            is_ud,
            DeviceObject,
            QpObject,
            SrqObject, //
        },
        driver::{
            Driver,
            InC, //
        },
        udata::Udata,
    },
};
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr, //
};

/// The driver's version, in the form in which the stock library takes one of firmware apart.
pub(crate) const VERSION: u64 = {
    // CAST: 32 bits.
    let (major, minor) = (b::RSIW_VERSION_MAJOR as u64, b::RSIW_VERSION_MINOR as u64);
    major << 32 | minor << 16
};

/// A counter that every port of an adapter has, by its name in sysfs. Data is counted in units of
/// four octets, of payload only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortCounter {
    XmitData,
    RcvData,
    XmitPackets,
    RcvPackets,
}

/// What a device was made with, by the name of the parameter and of the file in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Tls,
    BindNetdev,
}

/// The methods that a driver implements beside [`Driver`] to have these.
pub(crate) trait Methods: Driver {
    /// Gives the queues of a process's queue pair other depths, as its part of the call says, or
    /// fails without changing any.
    fn resize_qp(qp: &Self::Qp, udata: &mut Udata<'_>) -> Result;

    /// Gives the shared receive queue of a process another depth, as its part of the call says.
    /// Otherwise as [`Methods::resize_qp`].
    fn resize_srq(srq: &Self::Srq, udata: &mut Udata<'_>) -> Result;

    /// Returns a counter of the port. Any context.
    fn port_counter(dev: &Self::Device, which: PortCounter) -> u64;

    /// Returns how a setting is, as the file has it. Any context.
    fn setting(dev: &Self::Device, which: Setting) -> &'static CStr;
}

/// Names what is in C, which calls the methods of `D`, the only driver of the module.
pub(crate) const fn in_c<D: Methods>() -> InC {
    InC {
        definitions: Some(definitions::<D>),
        port_groups: (&raw const b::rsiw_port_groups).cast_mut().cast(),
        get_dev_fw_str: Some(b::rsiw_get_dev_fw_str),
    }
}

struct MethodCallbacks<D>(PhantomData<D>);

impl<D: Methods> MethodCallbacks<D> {
    const ALL: &'static b::rsiw_methods = &b::rsiw_methods {
        resize_qp: Some(resize_qp::<D>),
        resize_srq: Some(resize_srq::<D>),
        port_counter: Some(port_counter::<D>),
        setting: Some(setting::<D>),
    };
}

fn definitions<D: Methods>() -> *const b::uapi_definition {
    // SAFETY: the callbacks are static, and those of `D`, as are all devices with the definitions.
    unsafe { b::rsiw_definitions(MethodCallbacks::<D>::ALL) }
}

/// # Safety
///
/// Called by a method with a queue pair of `D` and the udata of its call.
unsafe extern "C" fn resize_qp<D: Methods>(qp: *mut b::ib_qp, udata: *mut b::ib_udata) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the core's object lives during the call.
        if unsafe { is_ud(qp) } {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::get(qp) };
        D::resize_qp(&qp, &mut udata)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by a method with a shared receive queue of `D` and the udata of its call.
unsafe extern "C" fn resize_srq<D: Methods>(srq: *mut b::ib_srq, udata: *mut b::ib_udata) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let srq = unsafe { SrqObject::<D>::get(srq) };
        D::resize_srq(&srq, &mut udata)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called for an attribute of a device of `D`.
unsafe extern "C" fn port_counter<D: Methods>(
    dev: *mut b::ib_device,
    which: b::rsiw_port_counter,
) -> u64 {
    let which = match which {
        b::rsiw_port_counter_RSIW_PORT_XMIT_DATA => PortCounter::XmitData,
        b::rsiw_port_counter_RSIW_PORT_RCV_DATA => PortCounter::RcvData,
        b::rsiw_port_counter_RSIW_PORT_XMIT_PACKETS => PortCounter::XmitPackets,
        _ => PortCounter::RcvPackets,
    };
    // SAFETY: the device is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    D::port_counter(&dev, which)
}

/// # Safety
///
/// Called for an attribute of a device of `D`.
unsafe extern "C" fn setting<D: Methods>(
    dev: *mut b::ib_device,
    which: b::rsiw_setting,
) -> *const c_char {
    let which = match which {
        b::rsiw_setting_RSIW_SETTING_TLS => Setting::Tls,
        _ => Setting::BindNetdev,
    };
    // SAFETY: the device is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    D::setting(&dev, which).as_char_ptr()
}
