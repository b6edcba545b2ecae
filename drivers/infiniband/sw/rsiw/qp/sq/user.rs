// SPDX-License-Identifier: GPL-2.0

//! The send queue of a process: a ring in shared memory.
//!
//! A request is copied out of shared memory once, validated, and only the copy is used (T-3). Its
//! slot goes back to the process at that moment.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    BadWqe,
    Work,
    Wqe, //
};
use crate::{
    abi::{
        opcode,
        wqe,
        Sge,
        Sqe,
        SqeFront, //
    },
    ffi::ring::SharedRing,
    proto::{
        failure::Fault,
        request::{
            Operation,
            OperationType, //
        },
    },
    queue::sgl::SgList,
    wire::ddp::{
        Stag,
        TaggedOffset, //
    },
};
use core::mem::offset_of;
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};

/// The consuming end of a process's ring.
pub(in crate::qp) struct UserSq {
    ring: SharedRing<Sqe>,
    /// Number of the next entry; wraps.
    get: u32,
    sig_all: bool,
    max_sge: u32,
}

impl UserSq {
    /// Takes the consuming end of a ring.
    pub(in crate::qp) fn new(ring: SharedRing<Sqe>, sig_all: bool, max_sge: u32) -> Self {
        Self {
            ring,
            get: 0,
            sig_all,
            max_sge,
        }
    }

    /// Number of slots.
    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Requests that were taken out up to now; wraps.
    pub(super) fn taken(&self) -> u32 {
        self.get
    }

    /// Whether no request waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.flags(self.get) & wqe::VALID == 0
    }

    /// Looks at the oldest request, which stays where it is, and copies its elements or octets.
    pub(super) fn peek(&self, sgl: &mut SgList) -> Option<Result<Wqe, BadWqe>> {
        let flags = self.ring.flags(self.get);
        if flags & wqe::VALID == 0 {
            return None;
        }
        let sqe = self.ring.front(self.get);
        Some(self.validate(&sqe, flags, sgl))
    }

    /// Gives the slot of the oldest request back to the process.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.ring.set_flags(self.get, 0);
        self.get = self.get.wrapping_add(1);
        // The library rings the doorbell only if it finds the slot before its own cleared. So
        // clear, then look at the next slot: one of the two sees the other.
        smp_mb(Full);
    }

    /// Takes the oldest request out, of which only the completion is wanted.
    pub(super) fn discard(&mut self) -> Option<Work> {
        let flags = self.ring.flags(self.get);
        if flags & wqe::VALID == 0 {
            return None;
        }
        let sqe = self.ring.front(self.get);
        let work = self.work(&sqe, operation(&sqe), flags);
        self.consume();
        Some(work)
    }

    #[inline]
    fn work(&self, sqe: &SqeFront, operation: Option<Operation>, flags: u16) -> Work {
        Work {
            id: sqe.id,
            operation: operation.map_or(OperationType::Send, |op| op.kind()),
            signalled: self.sig_all || flags & wqe::SIGNALLED != 0,
            bytes: 0,
        }
    }

    /// Validates an entry, of which `sqe` is a private copy, and copies its elements or octets.
    #[inline]
    fn validate(&self, sqe: &SqeFront, flags: u16, sgl: &mut SgList) -> Result<Wqe, BadWqe> {
        let asked = operation(sqe);
        let mut work = self.work(sqe, asked, flags);
        let bad = |work, fault| Err(BadWqe { work, fault });
        let Some(operation) = asked else {
            return bad(work, Fault::LocalOperation);
        };
        let is_read = matches!(operation, Operation::Read { .. });
        let is_inline = flags & wqe::INLINE != 0 && !is_read;
        let len = if is_inline {
            match self.copy_octets(sgl) {
                Some(len) => len.into(),
                None => return bad(work, Fault::LocalLength),
            }
        } else {
            let limit = if is_read { 1 } else { self.max_sge };
            let (ring, count) = (&self.ring, sqe.num_sge.into());
            match sgl.copy_from_ring::<{ offset_of!(Sqe, sge) }, _>(ring, self.get, count, limit) {
                Some(len) => len,
                None => return bad(work, Fault::LocalOperation),
            }
        };
        let Ok(len) = u32::try_from(len) else {
            return bad(work, Fault::LocalLength);
        };
        work.bytes = len;
        Ok(Wqe {
            work,
            operation,
            solicited: flags & wqe::SOLICITED != 0,
            fence: flags & wqe::READ_FENCE != 0,
            len,
            is_inline,
        })
    }

    /// Copies the octets that the oldest request has in the place of elements. Returns how many
    /// they are; `None` if they are too many.
    #[inline]
    fn copy_octets(&self, sgl: &mut SgList) -> Option<u32> {
        let mut first = [Sge::default()];
        let has = self
            .ring
            .copy::<{ offset_of!(Sqe, sge) }, _>(self.get, &mut first);
        let [Sge { length, .. }] = first;
        // CAST: 32 bits fit.
        let room = sgl.replace_by_octets(length as usize).filter(|_| has)?;
        let has = self.ring.copy::<{ Sqe::INLINE_OFFSET }, _>(self.get, room);
        has.then_some(length)
    }
}

/// What a process asks for, if it is something that a process may ask for (T-3).
#[inline]
fn operation(sqe: &SqeFront) -> Option<Operation> {
    let stag = Stag(sqe.rkey);
    let to = TaggedOffset(sqe.raddr);
    Some(match sqe.opcode {
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
