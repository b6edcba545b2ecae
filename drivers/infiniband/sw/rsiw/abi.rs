// SPDX-License-Identifier: GPL-2.0

//! What the driver shares with user space: the layouts, numbers and limits of rdma-core's `siw`
//! provider (driver id `RDMA_DRIVER_SIW`, ABI version 1), and our own ([`own`]); and which
//! operation an entry of a send queue asks for ([`Front`]).
//!
//! The entries of own rings begin like the stock ones. A [`Layout`] says in what the two differ.
//!
//! The layouts are those of `include/uapi/rdma/siw-abi.h`. All fields are in host order. Entries of
//! the rings are only ever copied (see `ffi::mm::ring`).
#![forbid(unsafe_code)]

pub(crate) mod own;

use crate::ffi::mm::ring::{
    Entry,
    EntryLen,
    Place,
    FLAGS, //
};
use crate::ffi::rdma::wr::{
    Binding,
    Registration, //
};
use crate::proto::failure::Fault;
use crate::proto::request::{
    operations,
    Operation,
    OperationType, //
};
use crate::proto::sends::Status;
use crate::wire::atomic::AtomicOperation;
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use zerocopy_derive::{
    Immutable,
    KnownLayout, //
};

/// `uverbs_abi_ver` of the device.
pub(crate) const VERSION: u32 = 1;

/// Which rings a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    /// The rings of this file.
    Stock,
    /// The rings of [`own`].
    Own,
}

/// Scatter/gather elements that an entry has room for.
pub(crate) const MAX_SGE: usize = 6;

/// Octets of inline data: the room of all elements but the first.
pub(crate) const MAX_INLINE: usize = size_of::<Sge>() * (MAX_SGE - 1);

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CreateCqResp {
    pub(crate) cq_id: u32,
    pub(crate) num_cqe: u32,
    pub(crate) cq_key: u64,
}

/// Response to resizing a CQ: an extension of ours, see `include/uapi/rdma/rsiw-abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ResizeCqResp {
    pub(crate) num_cqe: u32,
    pub(crate) pad: u32,
    pub(crate) cq_key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CreateQpResp {
    pub(crate) qp_id: u32,
    pub(crate) num_sqe: u32,
    pub(crate) num_rqe: u32,
    pub(crate) pad: u32,
    pub(crate) sq_key: u64,
    pub(crate) rq_key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct RegMrReq {
    pub(crate) stag_key: u8,
    pub(crate) reserved: [u8; 3],
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct RegMrResp {
    pub(crate) stag: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CreateSrqResp {
    pub(crate) num_rqe: u32,
    pub(crate) pad: u32,
    pub(crate) srq_key: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct AllocContextResp {
    pub(crate) dev_id: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Sge {
    pub(crate) laddr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct SqeFront {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) num_sge: u8,
    pub(crate) opcode: u8,
    pub(crate) rkey: u32,
    pub(crate) raddr: u64,
}

/// Send queue entry. With [`wqe::INLINE`], `sge[0].length` octets of data start at `sge[1]`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Sqe {
    pub(crate) front: SqeFront,
    pub(crate) sge: [Sge; MAX_SGE],
}

#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct RqeFront {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) num_sge: u8,
    pub(crate) opcode: u8,
    pub(crate) unused: u32,
}

/// Receive queue entry.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Rqe {
    pub(crate) front: RqeFront,
    pub(crate) sge: [Sge; MAX_SGE],
}

/// Completion queue entry.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Cqe {
    pub(crate) id: u64,
    pub(crate) flags: u8,
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) bytes: u32,
    /// The STag that the peer invalidated, if [`wqe::REM_INVAL`] is set.
    pub(crate) inval_stag: u64,
    pub(crate) qp_id: u64,
}

/// What follows the entries of a CQ: what the consumer waits for, by the values of [`notify`].
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct CqCtrl {
    pub(crate) flags: u32,
    pub(crate) pad: u32,
}

/// How the entries of one kind of rings are laid out.
pub(crate) struct Layout {
    pub(crate) sqe: EntryLen,
    pub(crate) rqe: EntryLen,
    pub(crate) cqe: EntryLen,
    /// Where own send entries have what no stock one has. `None` means stock rings.
    pub(crate) rest: Option<Place>,
    /// Where the elements of a send entry are.
    pub(crate) elements: Place,
    /// Where the inline octets of a send entry are.
    pub(crate) octets: Place,
    /// Scatter/gather elements that entries have room for.
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
}

/// Where the elements of a receive are, in rings of both kinds.
pub(crate) const RECV_ELEMENTS: Place = Place::at::<{ offset_of!(Rqe, sge) }>();

static STOCK: Layout = Layout {
    sqe: EntryLen::of::<Sqe>(),
    rqe: EntryLen::of::<Rqe>(),
    cqe: EntryLen::of::<Cqe>(),
    rest: None,
    elements: Place::at::<{ offset_of!(Sqe, sge) }>(),
    // Behind the element that says how many octets there are.
    octets: Place::at::<{ offset_of!(Sqe, sge) + size_of::<Sge>() }>(),
    max_sge: MAX_SGE as u32,       // CAST: 6.
    max_inline: MAX_INLINE as u32, // CAST: 80.
};

impl Rings {
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::Stock => &STOCK,
            Self::Own => &own::LAYOUT,
        }
    }
}

impl Layout {
    pub(crate) fn is_own(&self) -> bool {
        self.rest.is_some()
    }

    /// Returns whether the fields of a receive that have no meaning yet are zero. In stock rings
    /// nobody looks at them.
    pub(crate) fn is_clean(&self, recv: &RqeFront) -> bool {
        !self.is_own() || recv.opcode == 0 && recv.unused == 0
    }
}

/// Operands of a request beside its elements.
pub(crate) enum Operands {
    Register(Registration),
    Bind(Binding),
    Atomic(AtomicOperation),
}

/// A private copy of what a send entry has in front of its elements. What the process wrote there
/// is interpreted only here (T-3). What is copied out of an entry is read once.
pub(crate) struct Front {
    pub(crate) base: SqeFront,
    /// `None` for stock rings.
    rest: Option<own::SqeRest>,
}

impl Front {
    /// Copies the front out of an entry of a send queue; `rest` is that of the queue's [`Layout`].
    #[inline(always)]
    pub(crate) fn of(entry: Entry<'_>, rest: Option<Place>) -> Self {
        let rest = rest.and_then(|place| {
            let mut rest = [own::SqeRest::default()];
            let has = entry.copy(place, &mut rest);
            let [rest] = rest;
            has.then_some(rest)
        });
        Self {
            base: entry.front(),
            rest,
        }
    }

    /// Returns the operation that is asked for, or `None` if the process may not ask for it.
    #[inline]
    pub(crate) fn operation(&self) -> Option<Operation> {
        match &self.rest {
            None => self.base.operation(),
            Some(rest) => rest.operation(&self.base),
        }
    }

    /// Returns what is asked for, in the queue of a queue pair for datagrams, or `None` if such a
    /// queue pair cannot do it.
    pub(crate) fn datagram(&self) -> Option<own::DatagramRequest> {
        self.rest.as_ref()?.datagram(&self.base)
    }

    #[inline]
    pub(crate) fn operands(&self) -> Option<Operands> {
        self.rest.as_ref()?.operands(&self.base)
    }

    /// Returns how many inline octets `entry`, of which this is the front, claims to have.
    #[inline]
    pub(crate) fn inline_length(&self, entry: Entry<'_>, layout: &Layout) -> Option<u32> {
        if let Some(rest) = &self.rest {
            return Some(rest.inline_length);
        }
        let mut first = [Sge::default()];
        let has = entry.copy(layout.elements, &mut first);
        let [Sge { length, .. }] = first;
        has.then_some(length)
    }
}

impl SqeFront {
    #[inline]
    fn operation(&self) -> Option<Operation> {
        let stag = Stag(self.rkey);
        let to = TaggedOffset(self.raddr);
        Some(match self.opcode {
            opcode::WRITE => Operation::Write {
                stag,
                to,
                immediate: None,
            },
            opcode::READ => Operation::Read {
                stag,
                to,
                invalidate: false,
            },
            opcode::SEND => Operation::Send { invalidate: None },
            opcode::SEND_REMOTE_INV => Operation::Send {
                invalidate: Some(stag),
            },
            _ => return None,
        })
    }
}

/// Values of `opcode` of queue entries and completions.
pub(crate) mod opcode {
    pub(crate) const WRITE: u8 = 0;
    pub(crate) const READ: u8 = 1;
    pub(crate) const SEND: u8 = 3;
    pub(crate) const SEND_REMOTE_INV: u8 = 5;
    /// In own rings only.
    pub(crate) const FETCH_AND_ADD: u8 = 6;
    /// In own rings only.
    pub(crate) const COMP_AND_SWAP: u8 = 7;
    pub(crate) const RECEIVE: u8 = 8;
    /// In own rings only.
    pub(crate) const INVAL_STAG: u8 = 10;
    /// For consumers in the kernel only.
    pub(crate) const REG_MR: u8 = 11;
    /// In own rings only.
    pub(crate) const BIND_MW: u8 = 12;
    /// In own rings only; completes as a Send.
    pub(crate) const SEND_WITH_IMM: u8 = 14;
    /// In own rings only; completes as an RDMA Write.
    pub(crate) const WRITE_WITH_IMM: u8 = 13;

    macro_rules! numbers {
        ($($(#[$_doc:meta])* $operation:ident, $_name:literal, $ring:ident, $_core:ident;)*) => {
            /// Returns the opcode of an operation in completions.
            pub(crate) const fn of(operation: super::OperationType) -> u8 {
                match operation {
                    $(super::OperationType::$operation => $ring,)*
                }
            }
        };
    }
    super::operations!(numbers);
}

/// Bits of the flags of queue entries and completions.
#[allow(dead_code, reason = "numbers of the ABI")]
pub(crate) mod wqe {
    /// The entry belongs to the kernel (SQ, RQ) or to the consumer (CQ).
    pub(crate) const VALID: u16 = 1;
    /// The data is in the entry.
    pub(crate) const INLINE: u16 = 1 << 1;
    /// Success is to be reported too.
    pub(crate) const SIGNALLED: u16 = 1 << 2;
    /// The peer is to raise a solicited event.
    pub(crate) const SOLICITED: u16 = 1 << 3;
    /// Earlier Reads must be complete first.
    pub(crate) const READ_FENCE: u16 = 1 << 4;
    /// In a completion: the peer invalidated an STag.
    pub(crate) const REM_INVAL: u16 = 1 << 5;
    /// Set by the library while it reaps.
    pub(crate) const COMPLETED: u16 = 1 << 6;
}

/// Values of [`CqCtrl::flags`].
#[allow(dead_code, reason = "numbers of the ABI")]
pub(crate) mod notify {
    pub(crate) const NOT: u32 = 0;
    /// Tell of the next solicited completion or completion in error.
    pub(crate) const SOLICITED: u32 = 1;
    /// Tell of the next completion.
    pub(crate) const NEXT_COMPLETION: u32 = 1 << 1;
}

/// The last status that stock entries can have.
pub(crate) const GENERAL: u16 = 9;

/// Returns how a request ended, as [`Cqe::status`].
pub(crate) const fn wc_status(status: Status<Fault>) -> u16 {
    match status {
        Status::Success => 0,
        Status::Failed(Fault::LocalLength) => 1,
        Status::Failed(Fault::LocalProtection) => 2,
        Status::Failed(Fault::LocalOperation) => 3,
        Status::Flushed => 4,
        // 5 is a bad response, 6 a local STag without the right for what the peer did.
        Status::Failed(Fault::RemoteAccess) => 7,
        Status::Failed(Fault::RemoteInvalid) => 8,
        Status::Failed(Fault::General) => GENERAL,
        // In own rings only.
        Status::Failed(Fault::Bind) => 10,
        Status::Failed(Fault::RetryExceeded) => 11,
        Status::Failed(Fault::RnrRetryExceeded) => 12,
        Status::Failed(Fault::RemoteOperation) => 13,
    }
}

const _: () = {
    assert!(size_of::<CreateCqResp>() == 16);
    assert!(size_of::<ResizeCqResp>() == 16);
    assert!(size_of::<CreateQpResp>() == 32);
    assert!(size_of::<RegMrReq>() == 8);
    assert!(size_of::<RegMrResp>() == 8);
    assert!(size_of::<CreateSrqResp>() == 16);
    assert!(size_of::<AllocContextResp>() == 8);
    assert!(size_of::<Sge>() == 16);
    assert!(size_of::<Sqe>() == 120);
    assert!(offset_of!(Sqe, front.flags) == 8 && offset_of!(Sqe, front.num_sge) == 10);
    assert!(offset_of!(Sqe, front.opcode) == 11 && offset_of!(Sqe, front.rkey) == 12);
    assert!(offset_of!(Sqe, front.raddr) == 16 && offset_of!(Sqe, sge) == 24);
    assert!(size_of::<Rqe>() == 112);
    assert!(offset_of!(Rqe, front.flags) == 8 && offset_of!(Rqe, front.num_sge) == 10);
    assert!(offset_of!(Rqe, front.opcode) == 11 && offset_of!(Rqe, sge) == 16);
    assert!(size_of::<Cqe>() == 32);
    assert!(offset_of!(Cqe, flags) == 8 && offset_of!(Cqe, opcode) == 9);
    assert!(offset_of!(Cqe, status) == 10 && offset_of!(Cqe, bytes) == 12);
    assert!(offset_of!(Cqe, inval_stag) == 16 && offset_of!(Cqe, qp_id) == 24);
    assert!(offset_of!(Sqe, front.flags) == FLAGS && offset_of!(Rqe, front.flags) == FLAGS);
    assert!(offset_of!(Cqe, flags) == FLAGS);
    assert!(size_of::<CqCtrl>() == 8);
    assert!(MAX_INLINE == 80);
};
