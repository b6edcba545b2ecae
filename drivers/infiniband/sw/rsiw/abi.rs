// SPDX-License-Identifier: GPL-2.0

//! What the driver shares with user space: the layouts, numbers and limits of rdma-core's `siw`
//! provider (driver id `RDMA_DRIVER_SIW`, ABI version 1), and our own ([`own`]); and which
//! operation an entry of a send queue asks for ([`Front`]).
//!
//! The layouts are those of `include/uapi/rdma/siw-abi.h`. All fields are in host order. Entries of
//! the rings are only ever copied (see `ffi::mm::ring`).
#![forbid(unsafe_code)]

pub(crate) mod own;

use crate::{
    ffi::{
        mm::ring::{
            Position,
            RingEntry,
            SharedRing, //
        },
        rdma::wr::{
            Binding,
            Registration, //
        },
    },
    proto::{
        failure::Fault,
        order::Status,
        request::{
            operations,
            Operation,
            OperationType, //
        },
    },
    wire::{
        atomic::AtomicOperation,
        ddp::{
            Stag,
            TaggedOffset, //
        },
    },
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
    /// Those of this file.
    Stock,
    /// Those of [`own`].
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

impl RingEntry for Sqe {
    type Flags = u16;
    const FLAGS_OFFSET: usize = offset_of!(Sqe, front.flags);
}

impl RingEntry for Rqe {
    type Flags = u16;
    const FLAGS_OFFSET: usize = offset_of!(Rqe, front.flags);
}

impl RingEntry for Cqe {
    type Flags = u8;
    const FLAGS_OFFSET: usize = offset_of!(Cqe, flags);
}

/// An entry of a queue of requests. What is copied out of it is read once.
pub(crate) trait HasElements: RingEntry<Flags = u16> {
    const MAX_SGE: u32;

    /// Returns whether nothing is set in a receive that means nothing so far.
    fn is_clean(_front: &RqeFront) -> bool {
        true
    }

    /// Copies the first elements of the entry at `at`. Returns whether it has room for as many.
    fn elements(ring: &SharedRing<Self>, at: Position, to: &mut [Sge]) -> bool;
}

/// Operands of a request beside its elements.
pub(crate) enum Operands {
    Register(Registration),
    Bind(Binding),
    Atomic(AtomicOperation),
}

/// A private copy of the front of an entry, and the only place where what the process wrote there
/// is interpreted (T-3).
pub(crate) trait Front {
    fn base(&self) -> &SqeFront;

    /// Returns what is asked for, or `None` for what the process may not ask for.
    fn operation(&self) -> Option<Operation>;

    fn operands(&self) -> Option<Operands>;
}

pub(crate) trait SendEntry: HasElements {
    type Front: FromBytes + Front;

    const MAX_INLINE: u32;

    /// Returns how many inline octets the entry at `at`, which begins with `front`, claims to have.
    fn inline_length(ring: &SharedRing<Self>, at: Position, front: &Self::Front) -> Option<u32>;

    /// Copies the first inline octets of the entry at `at`. Returns whether it has room for
    /// as many.
    fn octets(ring: &SharedRing<Self>, at: Position, to: &mut [Sge]) -> bool;
}

impl HasElements for Sqe {
    const MAX_SGE: u32 = MAX_SGE as u32; // CAST: 6.

    #[inline]
    fn elements(ring: &SharedRing<Self>, at: Position, to: &mut [Sge]) -> bool {
        ring.copy::<{ offset_of!(Sqe, sge) }, _>(at, to)
    }
}

impl SendEntry for Sqe {
    type Front = SqeFront;
    const MAX_INLINE: u32 = MAX_INLINE as u32; // CAST: 80.

    #[inline]
    fn inline_length(ring: &SharedRing<Self>, at: Position, _front: &SqeFront) -> Option<u32> {
        let mut first = [Sge::default()];
        let has = Self::elements(ring, at, &mut first);
        let [Sge { length, .. }] = first;
        has.then_some(length)
    }

    #[inline]
    fn octets(ring: &SharedRing<Self>, at: Position, to: &mut [Sge]) -> bool {
        const AT: usize = offset_of!(Sqe, sge) + size_of::<Sge>();
        ring.copy::<AT, _>(at, to)
    }
}

impl Front for SqeFront {
    #[inline]
    fn base(&self) -> &SqeFront {
        self
    }

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

    #[inline]
    fn operands(&self) -> Option<Operands> {
        None
    }
}

impl HasElements for Rqe {
    const MAX_SGE: u32 = MAX_SGE as u32; // CAST: 6.

    #[inline]
    fn elements(ring: &SharedRing<Self>, at: Position, to: &mut [Sge]) -> bool {
        ring.copy::<{ offset_of!(Rqe, sge) }, _>(at, to)
    }
}

/// Values of `opcode` of queue entries and completions.
pub(crate) mod opcode {
    pub(crate) const WRITE: u8 = 0;
    pub(crate) const READ: u8 = 1;
    pub(crate) const SEND: u8 = 3;
    pub(crate) const SEND_REMOTE_INV: u8 = 5;
    /// Of own rings.
    pub(crate) const FETCH_AND_ADD: u8 = 6;
    /// Of own rings.
    pub(crate) const COMP_AND_SWAP: u8 = 7;
    pub(crate) const RECEIVE: u8 = 8;
    /// Of own rings.
    pub(crate) const INVAL_STAG: u8 = 10;
    /// Of the kernel's consumers only.
    pub(crate) const REG_MR: u8 = 11;
    /// Of own rings.
    pub(crate) const BIND_MW: u8 = 12;
    /// Of own rings; completes as an RDMA Write.
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
    /// The entry is the kernel's (SQ, RQ) or the consumer's (CQ).
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

/// Values of [`CqCtrl::flags`](super::CqCtrl::flags).
#[allow(dead_code, reason = "numbers of the ABI")]
pub(crate) mod notify {
    pub(crate) const NOT: u32 = 0;
    /// Tell of the next solicited completion or completion in error.
    pub(crate) const SOLICITED: u32 = 1;
    /// Tell of the next completion.
    pub(crate) const NEXT_COMPLETION: u32 = 1 << 1;
}

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
        Status::Failed(Fault::General) => 9,
        // Of own rings.
        Status::Failed(Fault::Bind) => 10,
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
    assert!(size_of::<CqCtrl>() == 8);
    assert!(MAX_INLINE == 80);
};
