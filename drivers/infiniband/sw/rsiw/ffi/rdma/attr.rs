// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices, ports and queues, as plain values.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use crate::ffi::raw::b;
use crate::ffi::rdma::umem;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::AtomicType;

/// Number of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Qpn(pub(crate) u32);

// SAFETY: a transparent integer, of which any value is one of the type.
unsafe impl AtomicType for Qpn {
    type Repr = i32;
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The rights asked for a region, a window or a queue pair: a set of `enum ib_access_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct AccessFlags(u32);

// SAFETY: a transparent integer, of which any value is one of the type.
unsafe impl AtomicType for AccessFlags {
    type Repr = i32;
}

impl AccessFlags {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const LOCAL_WRITE: Self = Self(b::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    pub(crate) const REMOTE_WRITE: Self = Self(b::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    pub(crate) const REMOTE_READ: Self = Self(b::ib_access_flags_IB_ACCESS_REMOTE_READ);
    pub(crate) const REMOTE_ATOMIC: Self = Self(b::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    /// Windows may be bound to the region.
    pub(crate) const MW_BIND: Self = Self(b::ib_access_flags_IB_ACCESS_MW_BIND);
    /// The first octet has tagged offset 0.
    pub(crate) const ZERO_BASED: Self = Self(b::ib_access_flags_IB_ZERO_BASED);
    /// All flags that a device may ignore.
    pub(crate) const OPTIONAL: Self = Self(b::ib_access_flags_IB_ACCESS_OPTIONAL);

    pub(in crate::ffi) fn from_raw(flags: c_int) -> Self {
        Self(flags as u32) // CAST: the same bits.
    }

    /// Makes a set of the flags of a process's request. Whoever uses the set checks which flags are
    /// allowed.
    pub(crate) const fn from_process(flags: u32) -> Self {
        Self(flags)
    }

    pub(in crate::ffi) fn to_raw(self) -> c_int {
        self.0 as c_int // CAST: the same bits.
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.common(other) == other
    }

    /// Returns whether memory with these rights may be written, by the core's rule for pinning
    /// memory.
    pub(super) fn writes(self) -> bool {
        let writing = Self::LOCAL_WRITE
            .union(Self::REMOTE_WRITE)
            .union(Self::REMOTE_ATOMIC)
            .union(Self::MW_BIND);
        self.common(writing) != Self::NONE
    }

    pub(crate) fn is_within(self, other: Self) -> bool {
        other.contains(self)
    }
}

/// Asynchronous events of a queue pair (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsyncEvent {
    /// The queue pair failed for a reason that no work completion tells.
    Fatal,
    /// The peer sent a request that cannot be served.
    RequestError,
    /// The peer violated the rights of a region.
    AccessError,
    /// The queue pair is in error, and takes no more receives from its shared queue.
    LastWqeReached,
}

impl AsyncEvent {
    pub(super) fn to_raw(self) -> b::ib_event_type {
        match self {
            Self::Fatal => b::ib_event_type_IB_EVENT_QP_FATAL,
            Self::RequestError => b::ib_event_type_IB_EVENT_QP_REQ_ERR,
            Self::AccessError => b::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            Self::LastWqeReached => b::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        }
    }
}

/// What a device can do (`struct ib_device_attr`); counts are maxima.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeviceAttr {
    /// Version of the firmware, in the form that the driver's library expects.
    pub(crate) fw_ver: u64,
    /// EUI-64 in network byte order.
    pub(crate) sys_image_guid: u64,
    pub(crate) vendor_id: u32,
    pub(crate) max_qp: u32,
    pub(crate) max_qp_wr: u32,
    /// Scatter/gather entries of a Send or a Write.
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    /// Scatter/gather entries of an RDMA Read.
    pub(crate) max_sge_rd: u32,
    pub(crate) max_cq: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_mr: u32,
    pub(crate) max_pd: u32,
    /// Extents of a fast-register region, before adjacent ones are joined.
    pub(crate) max_fast_reg: u32,
    pub(crate) max_srq: u32,
    pub(crate) max_srq_wr: u32,
    /// Inbound RDMA Reads of a QP (IRD).
    pub(crate) max_ird: u32,
    /// Outbound RDMA Reads of a QP (ORD).
    pub(crate) max_ord: u32,
}

impl DeviceAttr {
    pub(super) fn store(&self, attr: &mut b::ib_device_attr) {
        attr.fw_ver = self.fw_ver;
        attr.sys_image_guid = self.sys_image_guid;
        attr.max_mr_size = umem::MAX_LEN;
        attr.page_size_cap = kernel::page::PAGE_SIZE as u64; // CAST: a page size fits.
        attr.vendor_id = self.vendor_id;
        attr.max_qp = self.max_qp;
        attr.max_qp_wr = self.max_qp_wr;
        attr.kernel_cap_flags = b::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG.into();
        if self.max_fast_reg > 0 {
            attr.kernel_cap_flags |= u64::from(b::ib_kernel_cap_flags_IBK_SG_GAPS_REG);
            // CAST: 64 bits.
            attr.device_cap_flags = b::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        }
        attr.max_fast_reg_page_list_len = self.max_fast_reg;
        attr.max_send_sge = self.max_send_sge;
        attr.max_recv_sge = self.max_recv_sge;
        attr.max_sge_rd = self.max_sge_rd;
        attr.max_cq = self.max_cq;
        attr.max_cqe = self.max_cqe;
        attr.max_mr = self.max_mr;
        attr.max_pd = self.max_pd;
        // Processes read this, too, and the stock library cannot bind a window. Consumers in the
        // kernel look whether there is an `alloc_mw`.
        attr.max_mw = 0;
        attr.max_srq = self.max_srq;
        attr.max_srq_wr = self.max_srq_wr;
        attr.max_srq_sge = self.max_recv_sge;
        attr.max_qp_rd_atom = self.max_ird;
        attr.max_res_rd_atom = self.max_ird.saturating_mul(self.max_qp);
        attr.max_qp_init_rd_atom = self.max_ord;
        attr.atomic_cap = b::ib_atomic_cap_IB_ATOMIC_NONE;
    }
}

/// `IB_PORT_CM_SUP` (`enum ib_port_capability_mask_bits`).
const PORT_CM_SUP: u32 = 1 << 16;
const PORT_DEVICE_MGMT_SUP: u32 = 1 << 19;

/// The state of the port. MTUs are those of the interface, in octets.
#[derive(Clone, Copy)]
pub(crate) struct PortAttr {
    /// Link up and carrier present.
    pub(crate) active: bool,
    pub(crate) max_mtu: u32,
    pub(crate) mtu: u32,
}

/// Octets of the headers of a datagram, from that of IP on, with the pad and the CRC.
pub(crate) const MOST_HEADERS: u32 = 80;

/// Returns the enumerated MTU for `octets`, rounded down to what a datagram has room for.
fn mtu_enum(octets: u32) -> b::ib_mtu {
    match octets.saturating_sub(MOST_HEADERS) {
        4096.. => b::ib_mtu_IB_MTU_4096,
        2048.. => b::ib_mtu_IB_MTU_2048,
        1024.. => b::ib_mtu_IB_MTU_1024,
        512.. => b::ib_mtu_IB_MTU_512,
        _ => b::ib_mtu_IB_MTU_256,
    }
}

impl PortAttr {
    /// Writes all but speed, width and the number of GIDs.
    pub(super) fn store(&self, attr: &mut b::ib_port_attr) {
        attr.pkey_tbl_len = 1;
        attr.max_msg_sz = u32::MAX;
        attr.max_mtu = mtu_enum(self.max_mtu);
        attr.active_mtu = mtu_enum(self.mtu);
        attr.phys_mtu = self.mtu;
        attr.port_cap_flags = PORT_CM_SUP | PORT_DEVICE_MGMT_SUP;
        let (state, phys) = if self.active {
            (
                b::ib_port_state_IB_PORT_ACTIVE,
                b::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
            )
        } else {
            (
                b::ib_port_state_IB_PORT_DOWN,
                b::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
            )
        };
        attr.state = state;
        attr.phys_state = phys as u8; // CAST: the states are 1 to 7.
    }
}

/// Depths and widths of the queues of a QP (`struct ib_qp_cap`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    /// Octets that a send request can carry inline.
    pub(crate) max_inline_data: u32,
}

impl QpCap {
    pub(super) fn load(cap: &b::ib_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }

    /// Writes the fields; the C structure has others, which stay.
    pub(super) fn store(&self, cap: &mut b::ib_qp_cap) {
        cap.max_send_wr = self.max_send_wr;
        cap.max_recv_wr = self.max_recv_wr;
        cap.max_send_sge = self.max_send_sge;
        cap.max_recv_sge = self.max_recv_sge;
        cap.max_inline_data = self.max_inline_data;
    }
}

/// Sizes of a shared receive queue (`struct ib_srq_attr`).
#[derive(Clone, Copy)]
pub(crate) struct SrqAttr {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// The limit, if it is armed.
    pub(crate) limit: u32,
}

impl SrqAttr {
    pub(super) fn store(&self, attr: &mut b::ib_srq_attr) {
        attr.max_wr = self.max_wr;
        attr.max_sge = self.max_sge;
        attr.srq_limit = self.limit;
    }
}

/// States of a QP in verbs terms (`enum ib_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IbQpState {
    /// No stream; RDMAC Idle.
    Reset,
    /// No stream, receives may be posted; RDMAC Idle.
    Init,
    /// A step of InfiniBand connections that iWARP does not have.
    Rtr,
    /// Connected.
    Rts,
    /// RDMAC Closing.
    Sqd,
    /// RDMAC Terminate.
    Sqe,
    /// RDMAC Error.
    Err,
}

impl IbQpState {
    pub(super) fn from_raw(raw: b::ib_qp_state) -> Result<Self> {
        Ok(match raw {
            b::ib_qp_state_IB_QPS_RESET => Self::Reset,
            b::ib_qp_state_IB_QPS_INIT => Self::Init,
            b::ib_qp_state_IB_QPS_RTR => Self::Rtr,
            b::ib_qp_state_IB_QPS_RTS => Self::Rts,
            b::ib_qp_state_IB_QPS_SQD => Self::Sqd,
            b::ib_qp_state_IB_QPS_SQE => Self::Sqe,
            b::ib_qp_state_IB_QPS_ERR => Self::Err,
            _ => return Err(EINVAL),
        })
    }

    pub(super) fn to_raw(self) -> b::ib_qp_state {
        match self {
            Self::Reset => b::ib_qp_state_IB_QPS_RESET,
            Self::Init => b::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => b::ib_qp_state_IB_QPS_RTR,
            Self::Rts => b::ib_qp_state_IB_QPS_RTS,
            Self::Sqd => b::ib_qp_state_IB_QPS_SQD,
            Self::Sqe => b::ib_qp_state_IB_QPS_SQE,
            Self::Err => b::ib_qp_state_IB_QPS_ERR,
        }
    }
}

/// What a consumer asks to change in a QP; `None` leaves it as it is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QpModify {
    pub(crate) state: Option<IbQpState>,
    /// The state that the consumer believes the QP to be in.
    pub(crate) cur_state: Option<IbQpState>,
    /// Rights of the peer's operations.
    pub(crate) access: Option<AccessFlags>,
    /// ORD: Reads that this side may have outstanding.
    pub(crate) max_rd_atomic: Option<u8>,
    /// IRD: Reads that the peer may have outstanding here.
    pub(crate) max_dest_rd_atomic: Option<u8>,
    pub(crate) cap: Option<QpCap>,
    /// What a consumer tells only if it connects the QP by itself.
    pub(crate) path: QpPath,
}

impl QpModify {
    /// Returns whether nothing but queue sizes is to change.
    pub(crate) fn is_of_sizes(&self) -> bool {
        let sizes = Self {
            cap: self.cap,
            ..Self::default()
        };
        *self == sizes
    }
}

/// What a consumer tells of the peer, and of how long it may take to answer, when it connects the
/// QP by itself. `None` is what it has not told. Most of it is kept only to be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QpPath {
    pub(crate) address: Option<AddressVector>,
    pub(crate) mtu: Option<PathMtu>,
    pub(crate) dest_qpn: Option<Qpn>,
    /// The PSN that the peer begins with.
    pub(crate) rq_psn: Option<u32>,
    /// The PSN that this side begins with.
    pub(crate) sq_psn: Option<u32>,
    /// Encoded as in InfiniBand.
    pub(crate) min_rnr_timer: Option<u8>,
    /// Encoded as in InfiniBand.
    pub(crate) timeout: Option<u8>,
    pub(crate) retry_cnt: Option<u8>,
    pub(crate) rnr_retry: Option<u8>,
    /// For datagrams.
    pub(crate) qkey: Option<u32>,
}

/// An enumerated MTU, which has no effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathMtu(b::ib_mtu);

/// Where the peer is, and how to get there: a `struct rdma_ah_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressVector {
    /// The GIDs of this side and of the peer, if the consumer has named them.
    pub(crate) gids: Option<([u8; 16], [u8; 16])>,
    sgid_index: u8,
    flow_label: u32,
    hop_limit: u8,
    /// What TCP has as the type of service.
    pub(crate) traffic_class: u8,
    sl: u8,
}

impl AddressVector {
    /// # Safety
    ///
    /// The GID of this side that `attr` points to lives, if there is one.
    unsafe fn load(attr: &b::rdma_ah_attr) -> Self {
        let grh = &attr.grh;
        let is_global = u32::from(attr.ah_flags) & b::ib_ah_flags_IB_AH_GRH != 0;
        let sgid = NonNull::new(grh.sgid_attr.cast_mut()).filter(|_| is_global);
        let gids = sgid.map(|sgid| {
            // SAFETY: not null, so that it lives.
            let sgid = unsafe { &(*sgid.as_ptr()).gid };
            // SAFETY: all members of the union are octets of the same number.
            unsafe { (*sgid.raw, *grh.dgid.raw) }
        });
        Self {
            gids,
            sgid_index: grh.sgid_index,
            flow_label: grh.flow_label,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
            sl: attr.sl,
        }
    }

    fn store(&self, attr: &mut b::rdma_ah_attr) {
        attr.port_num = 1;
        attr.sl = self.sl;
        if let Some((_, dgid)) = self.gids {
            attr.ah_flags = b::ib_ah_flags_IB_AH_GRH as u8; // CAST: a flag of 8 bits.
            attr.grh.dgid.raw = ManuallyDrop::new(dgid);
            attr.grh.sgid_index = self.sgid_index;
            attr.grh.flow_label = self.flow_label;
            attr.grh.hop_limit = self.hop_limit;
            attr.grh.traffic_class = self.traffic_class;
        }
    }
}

impl QpPath {
    pub(crate) const NOTHING: Self = Self {
        address: None,
        mtu: None,
        dest_qpn: None,
        rq_psn: None,
        sq_psn: None,
        min_rnr_timer: None,
        timeout: None,
        retry_cnt: None,
        rnr_retry: None,
        qkey: None,
    };

    /// Loads the attributes that the consumer tells, as `has` says.
    ///
    /// # Safety
    ///
    /// If an address is told, the GID of this side that it points to lives.
    pub(super) unsafe fn load(
        attr: &b::ib_qp_attr,
        has: impl Fn(b::ib_qp_attr_mask) -> bool,
    ) -> Self {
        // SAFETY: by the caller's promise.
        let address = || unsafe { AddressVector::load(&attr.ah_attr) };
        Self {
            address: has(b::ib_qp_attr_mask_IB_QP_AV).then(address),
            mtu: has(b::ib_qp_attr_mask_IB_QP_PATH_MTU).then_some(PathMtu(attr.path_mtu)),
            dest_qpn: has(b::ib_qp_attr_mask_IB_QP_DEST_QPN).then_some(Qpn(attr.dest_qp_num)),
            rq_psn: has(b::ib_qp_attr_mask_IB_QP_RQ_PSN).then_some(attr.rq_psn),
            sq_psn: has(b::ib_qp_attr_mask_IB_QP_SQ_PSN).then_some(attr.sq_psn),
            min_rnr_timer: has(b::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER)
                .then_some(attr.min_rnr_timer),
            timeout: has(b::ib_qp_attr_mask_IB_QP_TIMEOUT).then_some(attr.timeout),
            retry_cnt: has(b::ib_qp_attr_mask_IB_QP_RETRY_CNT).then_some(attr.retry_cnt),
            rnr_retry: has(b::ib_qp_attr_mask_IB_QP_RNR_RETRY).then_some(attr.rnr_retry),
            qkey: has(b::ib_qp_attr_mask_IB_QP_QKEY).then_some(attr.qkey),
        }
    }

    /// Adds what `more` tells. Where both tell something, `more` counts.
    pub(crate) fn extend(&mut self, more: &Self) {
        *self = Self {
            address: more.address.or(self.address),
            mtu: more.mtu.or(self.mtu),
            dest_qpn: more.dest_qpn.or(self.dest_qpn),
            rq_psn: more.rq_psn.or(self.rq_psn),
            sq_psn: more.sq_psn.or(self.sq_psn),
            min_rnr_timer: more.min_rnr_timer.or(self.min_rnr_timer),
            timeout: more.timeout.or(self.timeout),
            retry_cnt: more.retry_cnt.or(self.retry_cnt),
            rnr_retry: more.rnr_retry.or(self.rnr_retry),
            qkey: more.qkey.or(self.qkey),
        };
    }

    fn store(&self, attr: &mut b::ib_qp_attr) {
        if let Some(address) = &self.address {
            address.store(&mut attr.ah_attr);
        }
        if let Some(PathMtu(mtu)) = self.mtu {
            attr.path_mtu = mtu;
        }
        attr.dest_qp_num = self.dest_qpn.map_or(0, |qpn| qpn.0);
        attr.rq_psn = self.rq_psn.unwrap_or(0);
        attr.sq_psn = self.sq_psn.unwrap_or(0);
        attr.min_rnr_timer = self.min_rnr_timer.unwrap_or(0);
        attr.timeout = self.timeout.unwrap_or(0);
        attr.retry_cnt = self.retry_cnt.unwrap_or(0);
        attr.rnr_retry = self.rnr_retry.unwrap_or(0);
        attr.qkey = self.qkey.unwrap_or(0);
    }
}

/// The state of a QP at the moment; fields as in [`QpModify`].
#[derive(Clone, Copy)]
pub(crate) struct QpQuery {
    pub(crate) state: IbQpState,
    pub(crate) cap: QpCap,
    pub(crate) access: AccessFlags,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    /// Whether each send request makes a completion.
    pub(crate) sig_all: bool,
    /// MTU of the interface in octets.
    pub(crate) mtu: u32,
    pub(crate) path: QpPath,
}

impl QpQuery {
    pub(super) fn store(&self, attr: &mut b::ib_qp_attr, init: &mut b::ib_qp_init_attr) {
        attr.qp_state = self.state.to_raw();
        attr.cur_qp_state = self.state.to_raw();
        attr.path_mtu = mtu_enum(self.mtu);
        attr.qp_access_flags = self.access.to_raw();
        attr.max_rd_atomic = self.max_rd_atomic;
        attr.max_dest_rd_atomic = self.max_dest_rd_atomic;
        attr.port_num = 1;
        self.path.store(attr);
        self.cap.store(&mut attr.cap);
        self.cap.store(&mut init.cap);
        init.sq_sig_type = if self.sig_all {
            b::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            b::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }
}
