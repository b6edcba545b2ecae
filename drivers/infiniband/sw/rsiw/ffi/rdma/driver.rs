// SPDX-License-Identifier: GPL-2.0

//! What a driver implements to offer RDMA devices.
//!
//! [`Driver`] is the safe counterpart of `struct ib_device_ops`: `callbacks` converts between the
//! two. All methods run in process context and may sleep unless they say otherwise.

use super::{
    attr::{
        AccessFlags,
        DeviceAttr,
        PortAttr,
        QpCap,
        QpModify,
        QpQuery,
        Qpn,
        SrqAttr, //
    },
    counts::{
        Counted,
        Counts, //
    },
    details::Details,
    handle::{
        CqHandle,
        QpHandle,
        SrqHandle, //
    },
    iwcm::{
        CallId,
        CmId,
        ConnParam,
        ConsumerId, //
    },
    kmr::{
        DmaMemory,
        FastMemory,
        PdId, //
    },
    udata::Udata,
    wc::WcRoom,
    wr::{
        RecvChain,
        SendChain, //
    },
};
use crate::ffi::raw::b;
use kernel::{
    build_error,
    error::VTABLE_DEFAULT_ERROR,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
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
    /// Completions of the send queue.
    pub(crate) send_cq: Option<Arc<D::Cq>>,
    /// Completions of the receive queue.
    pub(crate) recv_cq: Option<Arc<D::Cq>>,
    /// The shared receive queue, if one was named.
    pub(crate) srq: Option<Arc<D::Srq>>,
    /// Sizes asked; replaced by what is given.
    pub(crate) cap: QpCap,
    /// Each send request makes a completion.
    pub(crate) sig_all: bool,
    /// `enum ib_qp_create_flags`.
    pub(crate) flags: u32,
}

/// What is asked of a new shared receive queue; sizes are replaced by what is given.
pub(crate) struct SrqInit {
    /// Work requests.
    pub(crate) max_wr: u32,
    /// Scatter/gather entries of a work request.
    pub(crate) max_sge: u32,
    /// Fewer receives than this raise an event; 0 for none.
    pub(crate) limit: u32,
}

/// What a consumer asks to change in a shared receive queue; `None` leaves it as it is.
#[derive(Default)]
pub(crate) struct SrqChange {
    /// Work requests.
    pub(crate) max_wr: Option<u32>,
    /// As in [`SrqInit`].
    pub(crate) limit: Option<u32>,
}

/// What is asked of a new user memory region.
#[derive(Clone, Copy)]
pub(crate) struct MrInit {
    /// The DMA buffer, by the process's file descriptor; none for its own memory.
    pub(crate) fd: Option<i32>,
    /// First byte in the process, or in the buffer.
    pub(crate) start: u64,
    /// Length in octets.
    pub(crate) length: u64,
    /// The address by which requests name the first byte.
    pub(crate) iova: u64,
    /// What is to be allowed.
    pub(crate) access: AccessFlags,
}

/// Kind of a memory window (`enum ib_mw_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwType {
    /// For all queue pairs of a protection domain; a bind replaces the one before.
    One,
    /// For the queue pair that binds it; it is invalidated before it is bound again.
    Two,
}

/// What a process asks to change in a region; `None` leaves it as it is.
pub(crate) struct MrChange {
    /// The memory: address, length, and the address by which requests name it.
    pub(crate) memory: Option<(u64, u64, u64)>,
    /// What is to be allowed.
    pub(crate) access: Option<AccessFlags>,
}

/// Identifies the user-space provider of a device (`enum rdma_driver_id`).
#[derive(Clone, Copy)]
pub(crate) struct DriverId(pub(super) b::rdma_driver_id);

impl DriverId {
    /// None: no provider knows the device. Of drivers without a number there can be one at a time.
    #[allow(dead_code, reason = "for drivers that begin")]
    pub(crate) const UNKNOWN: Self = Self(b::rdma_driver_id_RDMA_DRIVER_UNKNOWN);
    /// Software iWARP.
    pub(crate) const SIW: Self = Self(b::rdma_driver_id_RDMA_DRIVER_SIW);
}

/// What of a driver is written in C: what the core's macros declare.
pub(crate) struct InC {
    /// Methods that processes call by `RDMA_VERBS_IOCTL` (`struct ib_device::driver_def`).
    pub(in crate::ffi) definitions: Option<fn() -> *const b::uapi_definition>,
    /// Files of a port in sysfs.
    pub(in crate::ffi) port_groups: *mut *const b::attribute_group,
    /// Writes the version of the firmware.
    pub(in crate::ffi) get_dev_fw_str: Option<unsafe extern "C" fn(*mut b::ib_device, *mut c_char)>,
}

impl InC {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self {
        definitions: None,
        port_groups: core::ptr::null_mut(),
        get_dev_fw_str: None,
    };
}

/// A software RDMA driver.
///
/// What a driver does not implement is left out of the operations table, or refused with
/// `EOPNOTSUPP` where the core calls it without looking: connections. Methods of one kind of object
/// go together: whoever creates one implements the others, too.
#[vtable]
pub(crate) trait Driver: Sized + 'static {
    /// Identifies the user-space provider (`enum rdma_driver_id`).
    const DRIVER_ID: DriverId;
    /// Version of the ABI between driver and provider.
    const ABI_VERSION: u32 = 1;
    /// Octets of the description that a device shows.
    const NODE_DESC: &'static [u8] = b"";
    /// Most pages, or stretches, of a fast-register region.
    const MAX_FAST_REG: u32 = 0;
    /// What of the driver is written in C.
    const IN_C: InC = InC::NOTHING;

    /// One device.
    type Device: Send + Sync;
    /// One process that has a device open.
    type Ucontext: Send + Sync;
    /// Protection domain.
    type Pd: Send + Sync;
    /// Completion queue.
    type Cq: Send + Sync;
    /// Queue pair.
    type Qp: Send + Sync;
    /// Shared receive queue.
    type Srq: Send + Sync;
    /// Memory region.
    type Mr: Send + Sync;
    /// What a fast registration grants.
    type Grant: Send + Sync;
    /// What is counted.
    type Counter: Counted;

    /// The administrator removes the device: before the core asks consumers to let go of it.
    fn leaving(_dev: &Arc<Self::Device>) {}

    /// The core is done with the device: ends what the driver does on its own.
    fn close(_dev: &Arc<Self::Device>) {}

    /// Limits and abilities of the device, for a process or for the kernel.
    fn query_device(dev: &Self::Device, for_process: bool) -> DeviceAttr;

    /// State of the port.
    fn query_port(dev: &Self::Device) -> PortAttr;

    /// The only GID of the port.
    fn query_gid(dev: &Self::Device) -> [u8; 16];

    /// What is counted for queue pairs that are bound to no counter, and for connections.
    fn counts(_dev: &Self::Device) -> &Counts<Self::Counter> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// A process opens the device.
    fn alloc_ucontext(
        dev: ArcBorrow<'_, Self::Device>,
        udata: &mut Udata<'_>,
    ) -> Result<Arc<Self::Ucontext>>;

    /// Creates a protection domain, which `id` is for.
    fn alloc_pd(
        dev: ArcBorrow<'_, Self::Device>,
        id: PdId,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Self::Pd>>;

    /// Creates a completion queue; also returns how many entries it has.
    fn create_cq(
        dev: ArcBorrow<'_, Self::Device>,
        handle: Arc<CqHandle>,
        init: &CqInit,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::Cq>, u32)>;

    /// Gives the completion queue of a process another size; returns how many entries it has.
    fn resize_cq(_cq: &Self::Cq, _entries: u32, _udata: &mut Udata<'_>) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// No completion may be added after this returns.
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

    /// Creates a shared receive queue.
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

    /// Tells what a shared receive queue is at the moment.
    fn query_srq(_srq: &Self::Srq) -> SrqAttr {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Any context.
    fn post_srq_recv(_srq: &Self::Srq, _chain: &mut RecvChain<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Nobody uses the shared receive queue any more.
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
    fn modify_qp(_qp: ArcBorrow<'_, Self::Qp>, _attr: &QpModify) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells what a queue pair is at the moment.
    fn query_qp(_qp: &Self::Qp) -> QpQuery {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Ends the connection, makes the number unknown and stops all use of the consumer's queues,
    /// memory and handlers before it returns. Fails, and changes nothing, while windows are bound
    /// through it.
    fn destroy_qp(_qp: ArcBorrow<'_, Self::Qp>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// A process rang the doorbell of its send queue.
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

    /// What the queue pair of that number got from [`Driver::create_qp`]. Any context.
    fn qp_by_num(_dev: &Self::Device, _num: Qpn) -> Option<Arc<QpHandle>> {
        None
    }

    /// From now on the queue pair counts in `counts`, or, if there are none, for the device.
    fn count_in(_qp: &Self::Qp, _counts: Option<Arc<Counts<Self::Counter>>>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells how a queue pair is.
    fn describe_qp(_qp: &Self::Qp, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells how a completion queue is.
    fn describe_cq(_cq: &Self::Cq, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells how a shared receive queue is.
    fn describe_srq(_srq: &Self::Srq, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells how the connection or the listener of a consumer's identifier is, if there is one.
    fn describe_cm_id(_dev: &Self::Device, _id: ConsumerId, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Tells how a region is.
    fn describe_mr(_mr: &Self::Mr, _to: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Registers a DMA buffer of the calling process; also returns the STag.
    fn reg_dmabuf_mr(_pd: ArcBorrow<'_, Self::Pd>, _init: &MrInit) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a new region of an old one, which is still to be deregistered; also returns the new
    /// STag and what was registered. The old STag is dead then, also on most errors.
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
        _memory: Arc<DmaMemory>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a fast-register region; also returns the STag.
    fn alloc_mr(
        _pd: ArcBorrow<'_, Self::Pd>,
        _memory: Arc<FastMemory<Self::Grant>>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Takes the STag away. What memory of the kernel the region was given is released afterwards.
    /// Fails, and changes nothing, while windows are bound to the region.
    fn dereg_mr(dev: &Self::Device, mr: &Self::Mr) -> Result;

    /// Makes a memory window; also returns the STag.
    fn alloc_mw(
        _pd: ArcBorrow<'_, Self::Pd>,
        _kind: MwType,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self::Mr>, u32)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Begins to set up a connection. If this succeeds, an event tells how it ends.
    fn connect(
        _dev: ArcBorrow<'_, Self::Device>,
        _id: CallId<'_>,
        _param: &ConnParam<'_>,
    ) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Accepts a connection. Events follow only if this succeeds.
    fn accept(
        _dev: ArcBorrow<'_, Self::Device>,
        _id: CallId<'_>,
        _param: &ConnParam<'_>,
    ) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Refuses a connection.
    fn reject(_dev: ArcBorrow<'_, Self::Device>, _id: &CmId, _private_data: &[u8]) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Listens for connections.
    fn create_listen(_dev: ArcBorrow<'_, Self::Device>, _id: CallId<'_>, _backlog: u32) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Ends listening.
    fn destroy_listen(_dev: ArcBorrow<'_, Self::Device>, _id: &CmId) -> Result {
        Err(EOPNOTSUPP)
    }
}
