// SPDX-License-Identifier: GPL-2.0

//! What a driver implements to offer RDMA devices. Methods of [`Driver`] run in process context and
//! may sleep unless they say otherwise.

use super::attr::{
    AccessFlags,
    DeviceAttr,
    PortAttr,
    QpCap,
    QpModify,
    QpQuery,
    Qpn,
    SrqAttr, //
};
use super::handle::{
    CqHandle,
    QpHandle,
    SrqHandle, //
};
use super::iwcm::{
    AcceptRef,
    CallId,
    CmId,
    ConnParam,
    ConsumerId, //
};
use super::kmr;
use super::stats::{
    Counted,
    Counts,
    Details, //
};
use super::udata::Udata;
use super::wr::{
    RecvChain,
    SendChain,
    WcRoom, //
};
use crate::ffi::raw::b;
use kernel::build_error;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// What is asked of a new completion queue.
pub(crate) struct CqInit {
    /// Least number of entries.
    pub(crate) cqe: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub(crate) flags: u32,
    /// Completion vector: the processor where the handler is called.
    pub(crate) vector: u32,
}

/// What is asked of a new queue pair.
pub(crate) struct QpInit<D: Driver> {
    pub(crate) send_cq: Option<Arc<D::Cq>>,
    pub(crate) recv_cq: Option<Arc<D::Cq>>,
    pub(crate) srq: Option<Arc<D::Srq>>,
    /// The sizes that are asked for; replaced by those that are given.
    pub(crate) cap: QpCap,
    /// Whether each send request makes a completion.
    pub(crate) sig_all: bool,
    /// `enum ib_qp_create_flags`.
    pub(crate) flags: u32,
}

/// What is asked of a new shared receive queue. Sizes are replaced by what is given.
pub(crate) struct SrqInit {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// Raise an event when there are fewer receives than this; 0 for none.
    pub(crate) limit: u32,
}

/// What a consumer asks to change in a shared receive queue; `None` leaves it as it is.
#[derive(Default)]
pub(crate) struct SrqChange {
    pub(crate) max_wr: Option<u32>,
    pub(crate) limit: Option<u32>,
}

/// What is asked of a new memory region of a process.
#[derive(Clone, Copy)]
pub(crate) struct MrInit {
    /// The DMA buffer, by the process's file descriptor; `None` for the process's own memory.
    pub(crate) fd: Option<i32>,
    /// The first octet: an address in the process, or an offset in the buffer.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The address by which requests name the first octet.
    pub(crate) iova: u64,
    pub(crate) access: AccessFlags,
}

/// Kind of a memory window (`enum ib_mw_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwType {
    /// For all queue pairs of a protection domain. A bind replaces what the window was bound to
    /// before.
    One,
    /// For the queue pair that binds it; it is invalidated before it is bound again.
    Two,
}

/// What a process asks to change in a region; `None` leaves it as it is.
pub(crate) struct MrChange {
    /// The memory: address, length in octets, and the address by which requests name it.
    pub(crate) memory: Option<(u64, u64, u64)>,
    pub(crate) access: Option<AccessFlags>,
}

/// Identifies the user-space provider of a device (`enum rdma_driver_id`).
#[derive(Clone, Copy)]
pub(crate) struct DriverId(pub(super) b::rdma_driver_id);

impl DriverId {
    /// No provider knows the device. There can be one driver without a number at a time.
    #[allow(dead_code, reason = "for drivers that begin")]
    pub(crate) const UNKNOWN: Self = Self(b::rdma_driver_id_RDMA_DRIVER_UNKNOWN);
    pub(crate) const SIW: Self = Self(b::rdma_driver_id_RDMA_DRIVER_SIW);
    /// The number of rsiw if the kernel has one, else that of [`Self::SIW`].
    pub(crate) const RSIW: Self = Self(b::rdma_driver_id_RDMA_DRIVER_RSIW);

    /// Returns whether the two name one provider.
    pub(crate) const fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

/// What of a driver is written in C, because the core's macros declare it.
pub(crate) struct InC {
    /// Methods that processes call by `RDMA_VERBS_IOCTL` (`struct ib_device::driver_def`).
    pub(in crate::ffi) definitions: Option<fn() -> *const b::uapi_definition>,
    /// Files of a port in sysfs.
    pub(in crate::ffi) port_groups: *mut *const b::attribute_group,
    pub(in crate::ffi) get_dev_fw_str: Option<unsafe extern "C" fn(*mut b::ib_device, *mut c_char)>,
}

impl InC {
    pub(crate) const NOTHING: Self = Self {
        definitions: None,
        port_groups: core::ptr::null_mut(),
        get_dev_fw_str: None,
    };
}

/// A software RDMA driver.
///
/// A method that a driver does not implement is left out of the operations table. The core calls
/// the methods for connections without looking whether they are there: those that are not
/// implemented fail with `EOPNOTSUPP`. A driver that creates one kind of object implements the
/// other methods for that kind, too.
#[vtable]
pub(crate) trait Driver: Sized + 'static {
    const DRIVER_ID: DriverId;
    /// Version of the ABI between driver and provider.
    const ABI_VERSION: u32 = 1;
    /// The description that a device shows.
    const NODE_DESC: &'static [u8] = b"";
    /// How many GIDs the port can have, at least one.
    const GIDS: u16 = 1;
    /// How many extents a fast-register region may have, before adjacent ones are joined.
    const MAX_FAST_REG: u32 = 0;
    const IN_C: InC = InC::NOTHING;

    type Device: Send + Sync;
    /// A process that has a device open.
    type Ucontext: Send + Sync;
    type Pd: Send + Sync;
    type Cq: Send + Sync;
    type Qp: Send + Sync;
    /// A queue pair for datagrams.
    type UdQp: Send + Sync;
    type Srq: Send + Sync;
    type Mr: Send + Sync;
    /// What a registration of a fast-register region grants.
    type Grant: Send + Sync;
    type Counter: Counted;

    /// Called when the device is registered, and when it has moved to another namespace. Until then
    /// the core does nothing for the driver, such as removing the device. Must not wait; the core
    /// has locks of its own.
    fn enabled(_dev: &Arc<Self::Device>) {}

    /// Called when the administrator removes the device, before consumers have to let go of it.
    fn leaving(_dev: &Arc<Self::Device>) {}

    /// Ends what the driver does on its own. The core is done with the device.
    fn close(_dev: &Arc<Self::Device>) {}

    /// Returns limits and abilities of the device, for a process or for the kernel.
    fn query_device(dev: &Self::Device, for_process: bool) -> DeviceAttr;

    fn query_port(dev: &Self::Device) -> PortAttr;

    /// Returns the GID of the port that has this index, or zeros if none has. The core asks for
    /// all when the device is registered, and when `DeviceHandle::gids_changed` says so.
    fn query_gid(dev: &Self::Device, index: usize) -> [u8; 16];

    /// Returns the counters for queue pairs that are not bound to a counter, and for connections.
    fn counts(_dev: &Self::Device) -> &Counts<Self::Counter> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn alloc_ucontext(
        dev: ArcBorrow<'_, Self::Device>,
        udata: &mut Udata<'_>,
    ) -> Result<Arc<Self::Ucontext>>;

    /// Creates the protection domain that `id` names.
    fn alloc_pd(
        dev: ArcBorrow<'_, Self::Device>,
        id: kmr::PdId,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Self::Pd>>;

    /// Creates a completion queue; also returns how many entries it has.
    fn create_cq(
        dev: ArcBorrow<'_, Self::Device>,
        handle: Arc<CqHandle>,
        init: &CqInit,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::Cq>, u32)>;

    /// Resizes the completion queue of a process; returns how many entries it has.
    fn resize_cq(_cq: &Self::Cq, _entries: u32, _udata: &mut Udata<'_>) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Ends a completion queue: no completion is added after this returns.
    fn destroy_cq(_cq: &Self::Cq) {}

    /// Takes completions out of the queue of a kernel consumer. Any context.
    fn poll_cq(_cq: &Self::Cq, _room: &mut WcRoom<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Asks for a call of the handler at the next completion, or the next solicited one. Returns
    /// whether completions wait already. Any context.
    fn arm_cq(_cq: &Self::Cq, _solicited: bool) -> Result<bool> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn create_srq(
        _pd: ArcBorrow<'_, Self::Pd>,
        _handle: Arc<SrqHandle>,
        _init: &mut SrqInit,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Self::Srq>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes a shared receive queue, all or nothing.
    fn modify_srq(_srq: &Self::Srq, _change: &SrqChange) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn query_srq(_srq: &Self::Srq) -> SrqAttr {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Any context.
    fn post_srq_recv(_srq: &Self::Srq, _chain: &mut RecvChain<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Ends a shared receive queue, which nobody uses any more.
    fn destroy_srq(_srq: &Self::Srq) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Creates a queue pair; also returns its number.
    fn create_qp(
        _dev: ArcBorrow<'_, Self::Device>,
        _pd: ArcBorrow<'_, Self::Pd>,
        _handle: Arc<QpHandle>,
        _init: &mut QpInit<Self>,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::Qp>, Qpn)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes a queue pair, all or nothing.
    fn modify_qp(
        _dev: ArcBorrow<'_, Self::Device>,
        _qp: ArcBorrow<'_, Self::Qp>,
        _attr: &QpModify,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn query_qp(_qp: &Self::Qp) -> QpQuery {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Ends the connection and all use of the consumer's queues, memory and handlers before it
    /// returns. [`Driver::qp_by_num`] does not find the queue pair any more. Fails, changing
    /// nothing, while windows are bound through it.
    fn destroy_qp(_qp: ArcBorrow<'_, Self::Qp>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after [`Driver::destroy_qp`], when nobody has a reference to the core's object any
    /// more: another queue pair may get the number.
    fn free_number(_qp: &Self::Qp) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called when a process rings the doorbell of its send queue.
    fn doorbell(_qp: &Arc<Self::Qp>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts the requests of a kernel consumer, up to the first bad one. Any context.
    fn post_send(_qp: &Arc<Self::Qp>, _chain: &mut SendChain<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Any context.
    fn post_recv(_qp: &Arc<Self::Qp>, _chain: &mut RecvChain<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Creates a queue pair for datagrams; also returns its number, which no other queue pair of
    /// the device has.
    fn create_ud_qp(
        _dev: ArcBorrow<'_, Self::Device>,
        _pd: ArcBorrow<'_, Self::Pd>,
        _handle: Arc<QpHandle>,
        _init: &mut QpInit<Self>,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::UdQp>, Qpn)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes a queue pair for datagrams, all or nothing.
    fn modify_ud_qp(_qp: ArcBorrow<'_, Self::UdQp>, _attr: &QpModify) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn query_ud_qp(_qp: &Self::UdQp) -> QpQuery {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Forgets the number and ends all use of the consumer's queues, memory and handlers before it
    /// returns.
    fn destroy_ud_qp(_qp: ArcBorrow<'_, Self::UdQp>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called when a process rings the doorbell of its send queue.
    fn ud_doorbell(_qp: ArcBorrow<'_, Self::UdQp>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the handle that [`Driver::create_qp`] got for the queue pair `num`. Any context.
    fn qp_by_num(_dev: &Self::Device, _num: Qpn) -> Option<Arc<QpHandle>> {
        None
    }

    /// Returns the handle of a queue pair that iw_cm has a reference to from
    /// [`Driver::qp_by_num`], also while the queue pair is being destroyed. Any context.
    fn held_qp(_dev: &Self::Device, _num: Qpn) -> Option<Arc<QpHandle>> {
        None
    }

    /// Makes the queue pair count in `counts` from now on, or for the device if that is `None`.
    fn count_in(_qp: &Self::Qp, _counts: Option<Arc<Counts<Self::Counter>>>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells details of a queue pair. Everybody may see these, and what the methods below tell.
    fn describe_qp(_qp: &Self::Qp, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn describe_cq(_cq: &Self::Cq, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn describe_srq(_srq: &Self::Srq, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells details of the connection or listener of a consumer's identifier, if there is one.
    fn describe_cm_id(_dev: &Self::Device, _id: ConsumerId, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    fn describe_mr(_mr: &Self::Mr, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Registers a DMA buffer of the calling process; also returns the STag.
    fn reg_dmabuf_mr(_pd: ArcBorrow<'_, Self::Pd>, _init: &MrInit) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a new region of an old one, which is deregistered afterwards. Also returns the new
    /// STag and what was registered. The old STag is invalid then, also after most errors.
    fn rereg_user_mr(
        _pd: ArcBorrow<'_, Self::Pd>,
        _mr: &Self::Mr,
        _change: &MrChange,
        _udata: &mut Udata<'_>,
    ) -> Result<(Arc<Self::Mr>, u32, MrInit)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Registers memory of the calling process; also returns the STag.
    fn reg_user_mr(
        _pd: ArcBorrow<'_, Self::Pd>,
        _init: &MrInit,
        _udata: &mut Udata<'_>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a region of all memory of the kernel; also returns the STag.
    fn get_dma_mr(
        _pd: ArcBorrow<'_, Self::Pd>,
        _memory: Arc<kmr::DmaMemory>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a fast-register region; also returns the STag.
    fn alloc_mr(
        _pd: ArcBorrow<'_, Self::Pd>,
        _memory: Arc<kmr::FastMemory<Self::Grant>>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Invalidates the STag; kernel memory of the region is released afterwards. Fails, and changes
    /// nothing, while windows are bound to the region.
    fn dereg_mr(dev: &Self::Device, mr: &Self::Mr) -> Result;

    /// Makes a memory window; also returns the STag.
    fn alloc_mw(
        _pd: ArcBorrow<'_, Self::Pd>,
        _kind: MwType,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Begins to set up a connection. After success an event tells how it ends.
    fn connect(
        _dev: ArcBorrow<'_, Self::Device>,
        _id: CallId<'_>,
        _param: &ConnParam<'_>,
    ) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Accepts a connection. Events follow only after success. `_reference` is that of iw_cm to the
    /// queue pair.
    fn accept(
        _dev: ArcBorrow<'_, Self::Device>,
        _id: CallId<'_>,
        _param: &ConnParam<'_>,
        _reference: AcceptRef,
    ) -> Result {
        Err(EOPNOTSUPP)
    }

    fn reject(_dev: ArcBorrow<'_, Self::Device>, _id: &CmId, _private_data: &[u8]) -> Result {
        Err(EOPNOTSUPP)
    }

    fn create_listen(_dev: ArcBorrow<'_, Self::Device>, _id: CallId<'_>, _backlog: u32) -> Result {
        Err(EOPNOTSUPP)
    }

    fn destroy_listen(_dev: ArcBorrow<'_, Self::Device>, _id: &CmId) -> Result {
        Err(EOPNOTSUPP)
    }
}
