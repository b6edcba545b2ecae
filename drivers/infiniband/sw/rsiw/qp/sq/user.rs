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
    Operands,
    Work,
    Wqe, //
};
use crate::{
    abi::{
        own,
        wqe,
        Front,
        SendEntry,
        Sqe, //
    },
    ffi::mm::ring::{
        Position,
        SharedRing, //
    },
    proto::{
        failure::Fault,
        request::{
            Operation,
            OperationType, //
        },
    },
    queue::{
        sgl::SgList,
        shared::{
            valid_from,
            Moving, //
        },
    },
    wire::atomic::WORD_LEN, //
};
use ::kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full, //
    },
};

/// The consuming end of a process's ring.
pub(in crate::qp) struct UserSq<E> {
    ring: SharedRing<E>,
    /// The next entry to be taken out.
    get: Position,
    sig_all: bool,
    max_sge: u32,
}

/// A view of a process's ring without the QP's mutex. What it says may have changed by now.
pub(in crate::qp) enum Posted {
    User(SharedRing<Sqe>),
    Own(SharedRing<own::Sqe>),
}

impl Posted {
    /// Returns the number of slots.
    pub(in crate::qp) fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.len(),
            Self::Own(ring) => ring.len(),
        }
    }

    /// Returns whether the request with that number waits.
    pub(in crate::qp) fn has(&self, number: u32) -> bool {
        let number = Position::of(number);
        let count = match self {
            Self::User(ring) => valid_from(ring, number, 1),
            Self::Own(ring) => valid_from(ring, number, 1),
        };
        count != 0
    }
}

impl<E: SendEntry> UserSq<E> {
    /// Takes over the consuming end of a ring.
    pub(in crate::qp) fn new(ring: SharedRing<E>, sig_all: bool, max_sge: u32) -> Self {
        Self {
            ring,
            get: Position::FIRST,
            sig_all,
            max_sge,
        }
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Copies what waits to the empty ring `to`, to move there. Fails with `EINVAL` if `to` is too
    /// small for that.
    pub(in crate::qp) fn moving_to(&self, to: SharedRing<E>) -> Result<Moving<E>> {
        let mut moving = Moving::new(self.ring.clone(), to, self.get);
        moving.copy(|| Ok(self.get))?;
        Ok(moving)
    }

    /// Goes on in the new ring, as [`Moving::finish`] says: nothing was taken meanwhile.
    pub(in crate::qp) fn go_on_in(&mut self, moving: &mut Moving<E>) -> bool {
        moving.finish(&mut self.ring, self.get)
    }

    /// Returns the position of the next request.
    pub(super) fn taken(&self) -> Position {
        self.get
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.flags(self.get) & wqe::VALID == 0
    }

    /// Returns whether more than `count` requests wait. The library posts them in order.
    #[inline]
    pub(super) fn has_behind(&self, count: u32) -> bool {
        self.ring.flags(self.get + count) & wqe::VALID != 0
    }

    /// As [`super::SqRing::peek`].
    pub(super) fn peek(
        &self,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Option<Result<Wqe, BadWqe>> {
        let flags = self.ring.flags(self.get);
        if flags & wqe::VALID == 0 {
            return None;
        }
        let front = self.ring.front(self.get);
        Some(self.validate(&front, flags, sgl, operands))
    }

    /// Gives the slot of the oldest request back to the process.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.ring.set_flags(self.get, 0);
        self.get.advance();
        // The library rings the doorbell only if it finds the slot before its own cleared. So
        // clear, then look at the next slot: one of the two sees the other.
        smp_mb(Full);
    }

    /// As [`super::SqRing::discard`].
    pub(super) fn discard(&mut self) -> Option<Work> {
        let flags = self.ring.flags(self.get);
        if flags & wqe::VALID == 0 {
            return None;
        }
        let front: E::Front = self.ring.front(self.get);
        let work = self.work(&front, front.operation(), flags);
        self.consume();
        Some(work)
    }

    #[inline]
    fn work(&self, front: &E::Front, operation: Option<Operation>, flags: u16) -> Work {
        Work {
            id: front.base().id,
            operation: operation.map_or(OperationType::Send, |op| op.kind()),
            signalled: self.sig_all || flags & wqe::SIGNALLED != 0,
            bytes: 0,
        }
    }

    /// Validates an entry, of which `front` is a private copy, and copies its elements or octets.
    #[inline]
    fn validate(
        &self,
        front: &E::Front,
        flags: u16,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Result<Wqe, BadWqe> {
        let asked = front.operation();
        let mut work = self.work(front, asked, flags);
        let bad = |work, fault| Err(BadWqe { work, fault });
        let Some(operation) = asked else {
            return bad(work, Fault::LocalOperation);
        };
        let is_atomic = matches!(operation, Operation::Atomic { .. });
        // An operation with a sink has one element.
        let has_sink = is_atomic || matches!(operation, Operation::Read { .. });
        let is_local = operation.is_local();
        let is_inline = flags & wqe::INLINE != 0 && !has_sink && !is_local;
        let len = if is_inline {
            match self.copy_octets(front, sgl) {
                Some(len) => len.into(),
                None => return bad(work, Fault::LocalLength),
            }
        } else {
            let (count, limit) = match (is_local, has_sink) {
                (true, _) => (0, 0),
                (false, true) => (front.base().num_sge.into(), 1),
                (false, false) => (front.base().num_sge.into(), self.max_sge),
            };
            match sgl.copy_from_ring(&self.ring, self.get, count, limit) {
                Some(len) => len,
                None => return bad(work, Fault::LocalOperation),
            }
        };
        let Ok(len) = u32::try_from(len) else {
            return bad(work, Fault::LocalLength);
        };
        if is_atomic && len != WORD_LEN {
            return bad(work, Fault::LocalLength);
        }
        if is_atomic || is_local {
            *operands = front.operands();
        }
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

    /// Copies the octets that the oldest request has in place of elements. Returns how many they
    /// are, or `None` if they are too many.
    #[inline]
    fn copy_octets(&self, front: &E::Front, sgl: &mut SgList) -> Option<u32> {
        let length = E::inline_length(&self.ring, self.get, front)?;
        let room = sgl.replace_by_octets(u32_as_usize(length))?;
        E::octets(&self.ring, self.get, room).then_some(length)
    }
}
