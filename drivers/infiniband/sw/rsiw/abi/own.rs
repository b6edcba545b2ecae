// SPDX-License-Identifier: GPL-2.0

//! Rings of our own, the handshake by which a process asks for them, and requests of our own
//! methods. The layouts are those of `include/uapi/rdma/rsiw-abi.h`, with which they are compared
//! when this is compiled. The front of each entry is that of the stock one.
#![forbid(unsafe_code)]

use super::{
    opcode,
    Layout,
    Operands,
    Rings,
    RqeFront,
    Sge, //
};
use crate::ffi::mm::ring::{
    EntryLen,
    Place,
    FLAGS, //
};
use crate::ffi::rdma::attr::AccessFlags;
use crate::ffi::rdma::wr::Binding;
use crate::ffi::rsiw::uapi;
use crate::proto::request::{
    Local,
    Operation,
    OperationType, //
};
use crate::wire::atomic::AtomicOperation;
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ImmediateData;
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use zerocopy_derive::{
    Immutable,
    KnownLayout, //
};

/// Scatter/gather elements that an entry has room for.
const MAX_SGE: usize = 16;

/// Octets of inline data: the room of all elements.
const MAX_INLINE: usize = size_of::<Sge>() * MAX_SGE;

const MAX_POLL_US: u32 = 1_000;

/// Marks both parts of the handshake.
const MAGIC: u32 = u32::from_le_bytes(*b"rsiw");

const OLDEST: u32 = 1;
/// The newest version that this driver speaks.
const VERSION: u32 = 1;

/// Returns the newest version that both sides speak, if there is one: one speaks all up to
/// `theirs`, the other all up to `ours`.
const fn spoken(theirs: u32, ours: u32) -> Option<u32> {
    let version = if theirs < ours { theirs } else { ours };
    if version < OLDEST {
        return None;
    }
    Some(version)
}

const _: () = {
    assert!(spoken(0, 2).is_none());
    assert!(matches!(spoken(1, 2), Some(1)));
    assert!(matches!(spoken(3, 2), Some(2)));
};

/// The time stamps are nanoseconds.
const CLOCK_KHZ: u32 = 1_000_000;

/// A process's part of the handshake.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct AllocContextReq {
    magic: u32,
    version: u32,
    features: u64,
}

/// The driver's answer. It begins like [`super::AllocContextResp`].
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct AllocContextResp {
    dev_id: u32,
    pad: u32,
    magic: u32,
    version: u32,
    features: u64,
    max_sge: u32,
    max_inline: u32,
    max_windows: u32,
    clock_khz: u32,
    reserved: [u64; 2],
}

/// What a request to resize queues asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResizeStep {
    /// To make new rings and move to them at once.
    Whole,
    /// Only to make new rings.
    Make,
    /// To move to the rings that were made before.
    Move,
}

const RESIZE_MAKE: u32 = 1 << 1;
const RESIZE_MOVE: u32 = 1 << 2;

impl ResizeStep {
    /// Returns the step that the flags and the pad of a request ask for, or `EINVAL` if these have
    /// no meaning.
    fn of(flags: u32, pad: u32) -> Result<Self> {
        match (flags, pad) {
            (0, 0) => Ok(Self::Whole),
            (RESIZE_MAKE, 0) => Ok(Self::Make),
            (RESIZE_MOVE, 0) => Ok(Self::Move),
            _ => Err(EINVAL),
        }
    }
}

/// Request to resize a completion queue, with rings of either kind. It may be left out.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeCqReq {
    flags: u32,
    pad: u32,
}

impl ResizeCqReq {
    /// Returns the step that is asked for, or `EINVAL`.
    pub(crate) fn step(&self) -> Result<ResizeStep> {
        ResizeStep::of(self.flags, self.pad)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeQpReq {
    pub(crate) num_sqe: u32,
    pub(crate) num_rqe: u32,
    flags: u32,
    pad: u32,
}

impl ResizeQpReq {
    /// Octets of the shortest request, which has no flags.
    pub(crate) const SHORTEST: usize = offset_of!(Self, flags);

    /// Returns the step that is asked for, or `EINVAL`.
    pub(crate) fn step(&self) -> Result<ResizeStep> {
        ResizeStep::of(self.flags, self.pad)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeQpResp {
    pub(crate) num_sqe: u32,
    pub(crate) num_rqe: u32,
    pub(crate) sq_key: u64,
    pub(crate) rq_key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeSrqReq {
    pub(crate) num_rqe: u32,
    limit: u32,
    flags: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeSrqResp {
    pub(crate) num_rqe: u32,
    pub(crate) pad: u32,
    pub(crate) srq_key: u64,
}

/// Flag of a [`ResizeSrqReq`]: the limit is to change, too.
const RESIZE_SRQ_LIMIT: u32 = 1 << 0;

impl ResizeSrqReq {
    /// Returns the step that is asked for, or `EINVAL`.
    pub(crate) fn step(&self) -> Result<ResizeStep> {
        ResizeStep::of(self.flags & !RESIZE_SRQ_LIMIT, self.pad)
    }

    /// Returns the new limit, if there is to be one.
    pub(crate) fn limit(&self) -> Option<u32> {
        (self.flags & RESIZE_SRQ_LIMIT != 0).then_some(self.limit)
    }
}

/// What was agreed on with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// The stock rings.
    pub(crate) const NONE: Self = Self(0);
    /// The rings of this file, which all other features need.
    const RINGS: Self = Self(1 << 0);
    /// RDMA Write with immediate data.
    const IMMEDIATE: Self = Self(1 << 1);
    const ATOMIC: Self = Self(1 << 2);
    /// Memory windows and local invalidation.
    const WINDOWS: Self = Self(1 << 3);
    const TIMESTAMP: Self = Self(1 << 4);
    /// Resizing of the queues of QPs, and of shared receive queues.
    const RESIZE: Self = Self(1 << 5);
    /// Polling the send queue instead of being called.
    const POLL: Self = Self(1 << 6);
    /// A [`RqCtrl`] behind the entries of receive queues.
    const FLUSH: Self = Self(1 << 7);
    /// Resizing by one [`ResizeStep`] at a time. Every process may do so, so this is not checked.
    const RESIZE_STEPS: Self = Self(1 << 8);
    /// Send with immediate data, between queue pairs that are connected by number.
    const SEND_IMMEDIATE: Self = Self(1 << 9);
    /// Queue pairs for datagrams. Needs [`Self::FLUSH`].
    const DATAGRAMS: Self = Self(1 << 10);

    /// All features that there are.
    const ALL: u64 = Self::RINGS.0
        | Self::IMMEDIATE.0
        | Self::ATOMIC.0
        | Self::TIMESTAMP.0
        | Self::FLUSH.0
        | Self::RESIZE_STEPS.0
        | Self::WINDOWS.0
        | Self::RESIZE.0
        | Self::SEND_IMMEDIATE.0
        | Self::DATAGRAMS.0
        | Self::POLL.0;

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Takes out features that need one that is missing.
    fn without_those_that_lack_others(self) -> Self {
        if !self.contains(Self::RINGS) {
            return Self::NONE;
        }
        // Nobody looks again for receives of such queue pairs that are to be flushed.
        match self.contains(Self::FLUSH) {
            true => self,
            false => Self(self.0 & !Self::DATAGRAMS.0),
        }
    }

    pub(crate) fn rings(self) -> Rings {
        if self.contains(Self::RINGS) {
            Rings::Own
        } else {
            Rings::Stock
        }
    }

    /// Returns whether the process can be told of immediate data.
    pub(crate) fn has_immediate(self) -> bool {
        self.contains(Self::IMMEDIATE)
    }

    /// Returns whether the process can be told of immediate data that came with a Send.
    pub(crate) fn has_send_immediate(self) -> bool {
        self.contains(Self::SEND_IMMEDIATE)
    }

    pub(crate) fn has_datagrams(self) -> bool {
        self.contains(Self::DATAGRAMS)
    }

    pub(crate) fn has_windows(self) -> bool {
        self.contains(Self::WINDOWS)
    }

    pub(crate) fn may_ask_to_poll(self) -> bool {
        self.contains(Self::POLL)
    }

    /// Returns whether the process tells the driver of receives that it posts while they are
    /// flushed.
    pub(crate) fn tells_of_flushes(self) -> bool {
        self.contains(Self::FLUSH)
    }

    pub(crate) fn has_timestamps(self) -> bool {
        self.contains(Self::TIMESTAMP)
    }

    /// Returns whether the process may resize its queues of requests.
    pub(crate) fn has_resize(self) -> bool {
        self.contains(Self::RESIZE)
    }
}

impl AllocContextReq {
    /// Returns which of the wanted features the process gets, and the version that is spoken;
    /// `None` if the process takes no part in the handshake.
    pub(crate) fn agree(&self) -> Option<(Features, u32)> {
        if self.magic != MAGIC {
            return None;
        }
        let version = spoken(self.version, VERSION)?;
        let features = Features(self.features & Features::ALL);
        Some((features.without_those_that_lack_others(), version))
    }
}

impl AllocContextResp {
    pub(crate) fn new(features: Features, version: u32, max_windows: u32) -> Self {
        Self {
            magic: MAGIC,
            version,
            features: features.0,
            max_sge: MAX_SGE as u32,       // CAST: 16.
            max_inline: MAX_INLINE as u32, // CAST: 256.
            max_windows,
            clock_khz: CLOCK_KHZ,
            ..Self::default()
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CreateQpReq {
    poll_us: u32,
    pad: u32,
}

impl CreateQpReq {
    /// Returns for how many microseconds after each request the send queue is to be polled, 0 for
    /// not at all; or `EINVAL` if that is too long, or the pad is not zero.
    pub(crate) fn poll_us(&self) -> Result<u32> {
        match self {
            Self {
                poll_us: us @ ..=MAX_POLL_US,
                pad: 0,
            } => Ok(*us),
            _ => Err(EINVAL),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CreateQpResp {
    pub(crate) base: super::CreateQpResp,
    pub(crate) poll_us: u32,
    pub(crate) pad: u32,
    pub(crate) poll_key: u64,
}

/// What follows the entries of a receive queue: whether they are flushed, in the first word.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct RqCtrl {
    pub(crate) flushes: u32,
    pub(crate) pad: u32,
}

/// What a send entry has between its front, which is as in stock rings, and the elements.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct SqeRest {
    /// Immediate data, operands of an Atomic Operation, a [`Bind`], or a [`Dest`].
    operands: [u64; 3],
    pub(super) inline_length: u32,
    pad: [u32; 3],
}

/// Operands of a bind beside the new key and the address.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Bind {
    pub(crate) window: u32,
    pub(crate) region: u32,
    pub(crate) length: u64,
    pub(crate) access: u32,
    pub(crate) pad: u32,
}

/// Where a datagram goes.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Dest {
    pub(crate) dgid: [u8; 16],
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
}

/// How a datagram gets to its destination. It lies where other requests have the peer's address.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Path {
    pub(crate) sgid_index: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pad: u8,
    flow_label: u32,
}

/// What the request of a queue pair for datagrams asks for, beside its elements.
pub(crate) struct DatagramRequest {
    pub(crate) dest: Dest,
    pub(crate) path: Path,
    /// Immediate data, as on the wire.
    pub(crate) immediate: Option<[u8; 4]>,
}

/// With [`super::wqe::INLINE`] the data is in the place of the elements.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Sqe {
    front: super::SqeFront,
    rest: SqeRest,
    sge: [Sge; MAX_SGE],
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Rqe {
    front: RqeFront,
    sge: [Sge; MAX_SGE],
}

/// What a completion begins with.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CqeFront {
    pub(crate) id: u64,
    pub(crate) flags: u8,
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) bytes: u32,
    /// With [`super::wqe::REM_INVAL`] the STag that the peer invalidated, with [`WITH_IMM`] the
    /// immediate data, as it lies in memory.
    pub(crate) data: u64,
    pub(crate) qp_id: u32,
    pub(crate) vendor_err: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Cqe {
    front: CqeFront,
    timestamp: u64,
    wallclock: u64,
    src_qp: u64,
    reserved: u64,
}

/// Flag of a completion: it has immediate data.
pub(crate) const WITH_IMM: u16 = 1 << 7;
/// Flag of a completion with immediate data: the data came with a Send.
pub(crate) const OF_SEND: u16 = 1 << 3;
/// Flag of a completion: it is that of a datagram, and names the sender.
pub(crate) const OF_DATAGRAM: u16 = 1 << 4;

pub(super) static LAYOUT: Layout = Layout {
    sqe: EntryLen::of::<Sqe>(),
    rqe: EntryLen::of::<Rqe>(),
    cqe: EntryLen::of::<Cqe>(),
    rest: Some(Place::at::<{ offset_of!(Sqe, rest) }>()),
    elements: Place::at::<{ offset_of!(Sqe, sge) }>(),
    octets: Place::at::<{ offset_of!(Sqe, sge) }>(),
    max_sge: MAX_SGE as u32,       // CAST: 16.
    max_inline: MAX_INLINE as u32, // CAST: 256.
};

impl SqeRest {
    fn bind(&self) -> Bind {
        zerocopy::transmute!(self.operands)
    }

    #[inline]
    pub(super) fn operation(&self, base: &super::SqeFront) -> Option<Operation> {
        if self.pad != [0; 3] {
            return None;
        }
        let stag = Stag(base.rkey);
        let to = TaggedOffset(base.raddr);
        let [first, ..] = self.operands;
        let atomic = |kind| Operation::Atomic { stag, to, kind };
        Some(match base.opcode {
            opcode::WRITE_WITH_IMM => Operation::Write {
                stag,
                to,
                // CAST: the lower half, as it lies in the process's memory.
                immediate: Some(ImmediateData::from_short((first as u32).to_ne_bytes())),
            },
            opcode::SEND_WITH_IMM => Operation::SendImmediate {
                // CAST: as above.
                data: (first as u32).to_ne_bytes(),
            },
            opcode::FETCH_AND_ADD => atomic(OperationType::FetchAdd),
            opcode::COMP_AND_SWAP => atomic(OperationType::CompareSwap),
            opcode::INVAL_STAG => Operation::Local(Local::Invalidate { stag }),
            opcode::BIND_MW if self.bind().pad == 0 => Operation::Local(Local::Bind),
            _ => return base.operation(),
        })
    }

    /// Returns what a request of a queue pair for datagrams asks for, or `None` if such a queue
    /// pair cannot do it.
    pub(super) fn datagram(&self, base: &super::SqeFront) -> Option<DatagramRequest> {
        let path: Path = zerocopy::transmute!(base.raddr);
        if self.pad != [0; 3] || path.pad != 0 {
            return None;
        }
        let immediate = match base.opcode {
            opcode::SEND => None,
            opcode::SEND_WITH_IMM => Some(base.rkey.to_ne_bytes()),
            _ => return None,
        };
        Some(DatagramRequest {
            dest: zerocopy::transmute!(self.operands),
            path,
            immediate,
        })
    }

    pub(super) fn operands(&self, base: &super::SqeFront) -> Option<Operands> {
        let [first, second, _] = self.operands;
        match base.opcode {
            opcode::FETCH_AND_ADD => Some(Operands::Atomic(AtomicOperation::FetchAdd {
                add: first,
                mask: 0,
            })),
            opcode::COMP_AND_SWAP => Some(Operands::Atomic(AtomicOperation::CmpSwap {
                swap: second,
                swap_mask: u64::MAX,
                compare: first,
                compare_mask: u64::MAX,
            })),
            opcode::BIND_MW => {
                let bind = self.bind();
                Some(Operands::Bind(Binding {
                    window: bind.window,
                    stag: base.rkey,
                    region: bind.region,
                    access: AccessFlags::from_process(bind.access),
                    addr: base.raddr,
                    len: bind.length,
                }))
            }
            _ => None,
        }
    }
}

// The library is built with the C header, so this file has to agree with it.
const _: () = {
    assert!(MAGIC == uapi::MAGIC && VERSION == uapi::VERSION);
    assert!(MAX_SGE == uapi::MAX_SGE && MAX_INLINE == uapi::MAX_INLINE);
    assert!(Features::RINGS.0 == uapi::FEATURE_RINGS);
    assert!(Features::IMMEDIATE.0 == uapi::FEATURE_IMM);
    assert!(Features::SEND_IMMEDIATE.0 == uapi::FEATURE_SEND_IMM);
    assert!(Features::DATAGRAMS.0 == uapi::FEATURE_UD);
    assert!(Features::ATOMIC.0 == uapi::FEATURE_ATOMIC);
    assert!(Features::WINDOWS.0 == uapi::FEATURE_WINDOWS);
    assert!(Features::TIMESTAMP.0 == uapi::FEATURE_TIMESTAMP);
    assert!(Features::RESIZE.0 == uapi::FEATURE_RESIZE);
    assert!(Features::RESIZE_STEPS.0 == uapi::FEATURE_RESIZE_STEPS);
    assert!(RESIZE_MAKE == uapi::RESIZE_MAKE && RESIZE_MOVE == uapi::RESIZE_MOVE);
    assert!(RESIZE_SRQ_LIMIT == uapi::RESIZE_SRQ_LIMIT);
    assert!(Features::POLL.0 == uapi::FEATURE_POLL);
    assert!(Features::FLUSH.0 == uapi::FEATURE_FLUSH);
    assert!(MAX_POLL_US == uapi::MAX_POLL_US);
    assert!(super::opcode::BIND_MW == uapi::OP_BIND_MW);
    assert!(super::opcode::WRITE_WITH_IMM == uapi::OP_WRITE_WITH_IMM);
    assert!(WITH_IMM == uapi::CQE_WITH_IMM);
    assert!(OF_SEND == uapi::CQE_OF_SEND);
    assert!(OF_DATAGRAM == uapi::CQE_OF_DATAGRAM);
    assert!(super::opcode::SEND_WITH_IMM == uapi::OP_SEND_WITH_IMM);

    assert!(size_of::<AllocContextReq>() == size_of::<uapi::AllocContextReq>());
    assert!(size_of::<AllocContextResp>() == size_of::<uapi::AllocContextResp>());
    assert!(size_of::<CreateQpReq>() == size_of::<uapi::CreateQpReq>());
    assert!(size_of::<CreateQpResp>() == size_of::<uapi::CreateQpResp>());
    assert!(size_of::<RqCtrl>() == size_of::<uapi::RqCtrl>());
    assert!(size_of::<ResizeCqReq>() == size_of::<uapi::ResizeCqReq>());
    assert!(size_of::<super::ResizeCqResp>() == size_of::<uapi::ResizeCqResp>());
    assert!(size_of::<ResizeQpReq>() == size_of::<uapi::ResizeQpReq>());
    assert!(size_of::<ResizeQpResp>() == size_of::<uapi::ResizeQpResp>());
    assert!(size_of::<ResizeSrqReq>() == size_of::<uapi::ResizeSrqReq>());
    assert!(size_of::<ResizeSrqResp>() == size_of::<uapi::ResizeSrqResp>());
    assert!(size_of::<Sge>() == size_of::<uapi::Sge>());
    assert!(size_of::<Sqe>() == size_of::<uapi::Sqe>());
    assert!(size_of::<Rqe>() == size_of::<uapi::Rqe>());
    assert!(size_of::<Cqe>() == size_of::<uapi::Cqe>());

    assert!(offset_of!(Sqe, front.flags) == FLAGS && offset_of!(Rqe, front.flags) == FLAGS);
    assert!(offset_of!(CqeFront, flags) == FLAGS && offset_of!(Cqe, front) == 0);
    assert!(offset_of!(Rqe, sge) == offset_of!(super::Rqe, sge));
};

/// Asserts that members of two structures lie at the same place.
macro_rules! same_places {
    ($ours:ty, $theirs:ty; $($our:ident $(. $inner:ident)? = $their:ident),* $(,)?) => {
        const _: () = {
            $(assert!(offset_of!($ours, $our $(. $inner)?) == offset_of!($theirs, $their));)*
        };
    };
}

same_places!(AllocContextReq, uapi::AllocContextReq;
    magic = magic, version = version, features = features);
same_places!(AllocContextResp, uapi::AllocContextResp;
    dev_id = dev_id, magic = magic, version = version, features = features, max_sge = max_sge,
    max_inline = max_inline, max_windows = max_windows, clock_khz = clock_khz);
same_places!(CreateQpReq, uapi::CreateQpReq; poll_us = poll_us);
same_places!(CreateQpResp, uapi::CreateQpResp;
    base.qp_id = qp_id, base.num_sqe = num_sqe, base.num_rqe = num_rqe, base.sq_key = sq_key,
    base.rq_key = rq_key, poll_us = poll_us, poll_key = poll_key);
same_places!(RqCtrl, uapi::RqCtrl; flushes = flushes);
same_places!(ResizeCqReq, uapi::ResizeCqReq; flags = flags, pad = pad);
same_places!(super::ResizeCqResp, uapi::ResizeCqResp; num_cqe = num_cqe, cq_key = cq_key);
same_places!(ResizeQpReq, uapi::ResizeQpReq;
    num_sqe = num_sqe, num_rqe = num_rqe, flags = flags, pad = pad);
same_places!(ResizeQpResp, uapi::ResizeQpResp;
    num_sqe = num_sqe, num_rqe = num_rqe, sq_key = sq_key, rq_key = rq_key);
same_places!(ResizeSrqReq, uapi::ResizeSrqReq; num_rqe = num_rqe, limit = limit, flags = flags);
same_places!(ResizeSrqResp, uapi::ResizeSrqResp; num_rqe = num_rqe, srq_key = srq_key);
same_places!(Sge, uapi::Sge; laddr = laddr, length = length, lkey = lkey);
same_places!(Sqe, uapi::Sqe;
    front.id = id, front.flags = flags, front.num_sge = num_sge, front.opcode = opcode,
    front.rkey = rkey, front.raddr = __bindgen_anon_1, rest.operands = __bindgen_anon_2,
    rest.inline_length = inline_length, sge = __bindgen_anon_3);
same_places!(Dest, uapi::Dest; dgid = dgid, qpn = qpn, qkey = qkey);
same_places!(Path, uapi::Path;
    sgid_index = sgid_index, traffic_class = traffic_class, hop_limit = hop_limit, pad = pad,
    flow_label = flow_label);
same_places!(Bind, uapi::Bind;
    window = window, region = region, length = length, access = access);
same_places!(Rqe, uapi::Rqe;
    front.id = id, front.flags = flags, front.num_sge = num_sge, front.opcode = opcode, sge = sge);
same_places!(Cqe, uapi::Cqe;
    front.id = id, front.flags = flags, front.opcode = opcode, front.status = status,
    front.bytes = bytes, front.data = data, front.qp_id = qp_id, front.vendor_err = vendor_err,
    timestamp = timestamp, wallclock = wallclock, src_qp = src_qp);
