// SPDX-License-Identifier: GPL-2.0

//! From `struct ib_device_ops` to [`Driver`]: each callback converts its arguments, calls one
//! method of the driver and converts the result. The callbacks of `iw_cm` are in this file.
//! Context: process, unless a callback says otherwise.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h)

mod device;
mod mr;
mod queue;

use super::attr::Qpn;
use super::driver::Driver;
use super::handle::{
    Object,
    QpHandle, //
};
use super::iwcm::{
    private_data,
    AcceptRef,
    CallId,
    CmId,
    ConnParam, //
};
use super::stats::Counts;
use crate::ffi::raw::b;
use ::kernel::module::this_module;
use core::marker::PhantomData;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// The driver's part of each kind of object.
pub(in crate::ffi) type DeviceObject<D> = Object<b::ib_device, <D as Driver>::Device>;
type UcontextObject<D> = Object<b::ib_ucontext, <D as Driver>::Ucontext>;
type PdObject<D> = Object<b::ib_pd, <D as Driver>::Pd>;
type CqObject<D> = Object<b::ib_cq, <D as Driver>::Cq>;
pub(in crate::ffi) type SrqObject<D> = Object<b::ib_srq, <D as Driver>::Srq>;
type MwObject<D> = Object<b::ib_mw, <D as Driver>::Mr>;
pub(in crate::ffi) type QpObject<D> = Object<b::ib_qp, <D as Driver>::Qp>;
type UdQpObject<D> = Object<b::ib_qp, <D as Driver>::UdQp>;
type CounterObject<D> = Object<b::rdma_counter, Counts<<D as Driver>::Counter>>;

/// Expands to `Some` callback if the driver implements the method that the callback calls, else to
/// `None`.
macro_rules! optional {
    ($has:expr, $callback:expr) => {
        if $has {
            Some($callback)
        } else {
            None
        }
    };
}

/// Returns whether a queue pair is one for datagrams, whose driver's object is a [`UdQpObject`].
///
/// # Safety
///
/// The queue pair is live.
pub(in crate::ffi) unsafe fn is_ud(qp: *const b::ib_qp) -> bool {
    // SAFETY: by the caller's promise; the core sets the type before the driver sees it.
    unsafe { (*qp).qp_type == b::ib_qp_type_IB_QPT_UD }
}

/// The operations table of a driver.
///
/// All that is passed to these callbacks is of `D`: only [`add`](super::device::add) installs the
/// table, on a device that it has allocated with [`Vtable::DEVICE_SIZE`]. They are called with that
/// device and with what was allocated for it, by the sizes in the table.
pub(super) struct Vtable<D>(PhantomData<D>);

impl<D: Driver> Vtable<D> {
    pub(super) const DEVICE_SIZE: usize = DeviceObject::<D>::SIZE;

    /// What `rdma link del` calls. It has no name and is not registered as a link type; it lives as
    /// long as the code, which devices do not outlive.
    pub(super) const LINK_OPS: &'static b::rdma_link_ops = &b::rdma_link_ops {
        dellink: Some(device::dellink::<D>),
        ..pin_init::zeroed()
    };

    pub(super) const OPS: &'static b::ib_device_ops = &b::ib_device_ops {
        owner: this_module::<crate::LocalModule>().as_ptr(),
        driver_id: D::DRIVER_ID.0,
        uverbs_abi_ver: D::ABI_VERSION,

        query_device: Some(device::query_device::<D>),
        query_port: Some(device::query_port::<D>),
        get_port_immutable: Some(device::get_port_immutable::<D>),
        query_gid: Some(device::query_gid::<D>),
        query_pkey: Some(device::query_pkey),
        enable_driver: Some(device::enable_driver::<D>),
        dealloc_driver: Some(device::dealloc_driver::<D>),
        alloc_ucontext: Some(device::alloc_ucontext::<D>),
        dealloc_ucontext: Some(device::dealloc_ucontext::<D>),
        disassociate_ucontext: Some(device::disassociate_ucontext),
        mmap: Some(super::udata::mmap_callback),
        mmap_free: Some(super::udata::mmap_free_callback),
        alloc_pd: Some(device::alloc_pd::<D>),
        dealloc_pd: Some(device::dealloc_pd::<D>),

        create_cq: Some(queue::create_cq::<D>),
        resize_user_cq: optional!(D::HAS_RESIZE_CQ, queue::resize_user_cq::<D>),
        pre_destroy_cq: Some(queue::pre_destroy_cq::<D>),
        destroy_cq: Some(queue::destroy_cq::<D>),
        post_destroy_cq: Some(queue::post_destroy_cq::<D>),
        poll_cq: optional!(D::HAS_POLL_CQ, queue::poll_cq::<D>),
        req_notify_cq: optional!(D::HAS_ARM_CQ, queue::req_notify_cq::<D>),

        reg_user_mr: optional!(D::HAS_REG_USER_MR, mr::reg_user_mr::<D>),
        reg_user_mr_dmabuf: optional!(D::HAS_REG_DMABUF_MR, mr::reg_user_mr_dmabuf::<D>),
        rereg_user_mr: optional!(D::HAS_REREG_USER_MR, mr::rereg_user_mr::<D>),
        get_dma_mr: optional!(D::HAS_GET_DMA_MR, mr::get_dma_mr::<D>),
        alloc_mr: optional!(D::HAS_ALLOC_MR, mr::alloc_mr::<D>),
        map_mr_sg: optional!(D::HAS_ALLOC_MR, mr::map_mr_sg::<D>),
        dereg_mr: Some(mr::dereg_mr::<D>),
        alloc_mw: optional!(D::HAS_ALLOC_MW, mr::alloc_mw::<D>),
        dealloc_mw: optional!(D::HAS_ALLOC_MW, mr::dealloc_mw::<D>),

        create_srq: optional!(D::HAS_CREATE_SRQ, queue::create_srq::<D>),
        modify_srq: optional!(D::HAS_CREATE_SRQ, queue::modify_srq::<D>),
        query_srq: optional!(D::HAS_CREATE_SRQ, queue::query_srq::<D>),
        destroy_srq: optional!(D::HAS_CREATE_SRQ, queue::destroy_srq::<D>),
        post_srq_recv: optional!(D::HAS_CREATE_SRQ, queue::post_srq_recv::<D>),

        create_qp: optional!(D::HAS_CREATE_QP, queue::create_qp::<D>),
        modify_qp: optional!(D::HAS_CREATE_QP, queue::modify_qp::<D>),
        query_qp: optional!(D::HAS_CREATE_QP, queue::query_qp::<D>),
        destroy_qp: optional!(D::HAS_CREATE_QP, queue::destroy_qp::<D>),
        post_send: optional!(D::HAS_CREATE_QP, queue::post_send::<D>),
        post_recv: optional!(D::HAS_CREATE_QP, queue::post_recv::<D>),

        alloc_hw_port_stats: optional!(D::HAS_COUNTS, device::alloc_hw_port_stats::<D>),
        port_groups: D::IN_C.port_groups,
        get_dev_fw_str: D::IN_C.get_dev_fw_str,
        get_hw_stats: optional!(D::HAS_COUNTS, device::get_hw_stats::<D>),
        counter_init: optional!(D::HAS_COUNT_IN, device::counter_init),
        counter_alloc_stats: optional!(D::HAS_COUNT_IN, device::counter_alloc_stats::<D>),
        counter_bind_qp: optional!(D::HAS_COUNT_IN, device::counter_bind_qp::<D>),
        counter_unbind_qp: optional!(D::HAS_COUNT_IN, device::counter_unbind_qp::<D>),
        counter_update_stats: optional!(D::HAS_COUNT_IN, device::counter_update_stats::<D>),
        counter_dealloc: optional!(D::HAS_COUNT_IN, device::counter_dealloc::<D>),

        fill_res_qp_entry: optional!(D::HAS_DESCRIBE_QP, device::fill_qp::<D>),
        fill_res_cq_entry: optional!(D::HAS_DESCRIBE_CQ, device::fill_cq::<D>),
        fill_res_srq_entry: optional!(D::HAS_DESCRIBE_SRQ, device::fill_srq::<D>),
        fill_res_cm_id_entry: optional!(D::HAS_DESCRIBE_CM_ID, device::fill_cm_id::<D>),
        fill_res_mr_entry: optional!(D::HAS_DESCRIBE_MR, device::fill_mr::<D>),

        iw_add_ref: Some(iw_add_ref::<D>),
        iw_rem_ref: Some(iw_rem_ref::<D>),
        iw_get_qp: Some(iw_get_qp::<D>),
        iw_connect: Some(iw_connect::<D>),
        iw_accept: Some(iw_accept::<D>),
        iw_reject: Some(iw_reject::<D>),
        iw_create_listen: Some(iw_create_listen::<D>),
        iw_destroy_listen: Some(iw_destroy_listen::<D>),

        size_rdma_counter: CounterObject::<D>::SIZE,
        size_ib_ucontext: UcontextObject::<D>::SIZE,
        size_ib_pd: PdObject::<D>::SIZE,
        size_ib_cq: CqObject::<D>::SIZE,
        size_ib_mw: MwObject::<D>::SIZE,
        size_ib_srq: SrqObject::<D>::SIZE,
        size_ib_qp: QpObject::<D>::SIZE,
        ..pin_init::zeroed()
    };
}

/// Takes no reference: [`iw_get_qp`] has taken it already.
///
/// # Safety
///
/// Called by the core, under the same spin lock, once for each queue pair from [`iw_get_qp`].
unsafe extern "C" fn iw_add_ref<D: Driver>(_qp: *mut b::ib_qp) {}

/// # Safety
///
/// Called by the core with a queue pair that it has a reference to, which it gives up. Any context.
unsafe extern "C" fn iw_rem_ref<D: Driver>(qp: *mut b::ib_qp) {
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
/// `iw_cm` asks for the reference in a second call, [`iw_add_ref`]. If there were none until then,
/// destroying a queue pair would have to wait for a grace period. Both callers, `iw_cm_connect` and
/// `iw_cm_accept`, make the second call at once, exactly one for each queue pair they get, and one
/// of [`iw_rem_ref`] for each of those, unless they forget it ([`AcceptRef`]). So the reference can
/// be taken here.
///
/// # Safety
///
/// Called by the core with a device of `D`, under a spin lock with interrupts off. For each result
/// the core calls [`iw_add_ref`] once, and then [`iw_rem_ref`] at most once.
unsafe extern "C" fn iw_get_qp<D: Driver>(dev: *mut b::ib_device, qpn: c_int) -> *mut b::ib_qp {
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
    // A queue pair has its number a little before it is complete.
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
    verb: impl FnOnce(ArcBorrow<'_, D::Device>, CallId<'_>, &ConnParam<'_>) -> Result,
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
unsafe extern "C" fn iw_connect<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { set_up::<D>(id, param, D::connect) }
}

/// # Safety
///
/// As [`iw_connect`].
unsafe extern "C" fn iw_accept<D: Driver>(
    id: *mut b::iw_cm_id,
    param: *mut b::iw_cm_conn_param,
) -> c_int {
    let accept = |dev: ArcBorrow<'_, D::Device>, id: CallId<'_>, param: &ConnParam<'_>| {
        let qp = D::held_qp(&dev, param.qpn).ok_or(EINVAL)?;
        // SAFETY: the core has just got a reference to the queue pair of this number by
        // `iw_get_qp`. While there is one, the queue pair keeps its number.
        let reference = unsafe { AcceptRef::new(id, qp) };
        D::accept(dev, id, param, reference)
    };
    // SAFETY: as the caller says.
    unsafe { set_up::<D>(id, param, accept) }
}

/// # Safety
///
/// Called by the core with a valid identifier and `len` octets at `pdata`, which may be null.
unsafe extern "C" fn iw_reject<D: Driver>(
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
unsafe extern "C" fn iw_create_listen<D: Driver>(id: *mut b::iw_cm_id, backlog: c_int) -> c_int {
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
unsafe extern "C" fn iw_destroy_listen<D: Driver>(id: *mut b::iw_cm_id) -> c_int {
    from_result(|| {
        // SAFETY: the identifier names a device of `D`.
        let dev = unsafe { DeviceObject::<D>::get((*id).device) };
        // SAFETY: the identifier lives during the call.
        D::destroy_listen(dev, unsafe { CmId::from_raw(id) })?;
        Ok(0)
    })
}
