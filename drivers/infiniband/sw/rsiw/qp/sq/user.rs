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
        wqe,
        Front,
        Layout, //
    },
    ffi::mm::ring::{
        Entry,
        Place,
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
        shared::Moving,
        SgList, //
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
pub(in crate::qp) struct UserSq {
    ring: SharedRing,
    layout: &'static Layout,
    /// The next entry to be taken out.
    get: Position,
    sig_all: bool,
    max_sge: u32,
}

impl UserSq {
    /// Takes over the consuming end of a ring.
    pub(in crate::qp) fn new(
        ring: SharedRing,
        layout: &'static Layout,
        sig_all: bool,
        max_sge: u32,
    ) -> Self {
        Self {
            ring,
            layout,
            get: Position::FIRST,
            sig_all,
            max_sge,
        }
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    pub(super) fn is_own(&self) -> bool {
        self.layout.is_own()
    }

    /// Copies what waits to the empty ring `to`, to move there. Fails with `EINVAL` if `to` is too
    /// small for that.
    pub(in crate::qp) fn moving_to(&self, to: SharedRing) -> Result<Moving> {
        let mut moving = Moving::new(self.ring.clone(), to, self.get);
        moving.copy(|| Ok(self.get))?;
        Ok(moving)
    }

    /// Goes on in the new ring, as [`Moving::finish`] says: nothing was taken meanwhile.
    pub(in crate::qp) fn go_on_in(&mut self, moving: &mut Moving) -> bool {
        moving.finish(&mut self.ring, self.get)
    }

    /// Returns the position of the next request.
    pub(super) fn taken(&self) -> Position {
        self.get
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.entry(self.get).flags() & wqe::VALID == 0
    }

    /// Returns whether more than `count` requests wait. The library posts them in order.
    #[inline(always)]
    pub(super) fn has_behind(&self, count: u32) -> bool {
        self.ring.entry(self.get + count).flags() & wqe::VALID != 0
    }

    /// As [`super::SqRing::peek`].
    pub(super) fn peek(
        &self,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Option<Result<Wqe, BadWqe>> {
        let entry = self.ring.entry(self.get);
        let flags = entry.flags();
        if flags & wqe::VALID == 0 {
            return None;
        }
        // Two functions, so that requests of the stock library cost nothing that only own rings need.
        Some(match self.layout.rest {
            None => self.validate((entry, None), flags, sgl, operands),
            rest => self.validate_own((entry, rest), flags, sgl, operands),
        })
    }

    /// Gives the slot of the oldest request back to the process.
    #[inline(always)]
    pub(super) fn consume(&mut self) {
        self.ring.entry(self.get).set_flags(0);
        self.get.advance();
        // The library rings the doorbell only if it finds the slot before its own cleared. So
        // clear, then look at the next slot: one of the two sees the other.
        smp_mb(Full);
    }

    /// As [`super::SqRing::discard`].
    pub(super) fn discard(&mut self) -> Option<Work> {
        let entry = self.ring.entry(self.get);
        let flags = entry.flags();
        if flags & wqe::VALID == 0 {
            return None;
        }
        let front = Front::of(entry, self.layout.rest);
        let work = self.work(&front, front.operation(), flags);
        self.consume();
        Some(work)
    }

    #[inline(always)]
    fn work(&self, front: &Front, operation: Option<Operation>, flags: u16) -> Work {
        Work {
            id: front.base.id,
            operation: operation.map_or(OperationType::Send, |op| op.kind()),
            signalled: self.sig_all || flags & wqe::SIGNALLED != 0,
            bytes: 0,
        }
    }

    /// Does the work of [`UserSq::validate`] for an own ring. It is a function apart, so that the
    /// code for stock rings is short.
    #[inline(never)]
    fn validate_own(
        &self,
        entry: (Entry<'_>, Option<Place>),
        flags: u16,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Result<Wqe, BadWqe> {
        self.validate(entry, flags, sgl, operands)
    }

    /// Validates the request that is in an entry, and copies its elements or octets; `rest` is that
    /// of the [`Layout`].
    #[inline(always)]
    fn validate(
        &self,
        (entry, rest): (Entry<'_>, Option<Place>),
        flags: u16,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Result<Wqe, BadWqe> {
        let front = &Front::of(entry, rest);
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
            match self.copy_octets(entry, front, sgl) {
                Some(len) => len.into(),
                None => return bad(work, Fault::LocalLength),
            }
        } else {
            let (count, limit) = match (is_local, has_sink) {
                (true, _) => (0, 0),
                (false, true) => (front.base.num_sge.into(), 1),
                (false, false) => (front.base.num_sge.into(), self.max_sge),
            };
            match sgl.copy_from_ring(entry, self.layout.elements, count, limit) {
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

    /// Copies the octets that a request has in place of elements. Returns how many they are, or
    /// `None` if they are too many.
    #[inline(always)]
    fn copy_octets(&self, entry: Entry<'_>, front: &Front, sgl: &mut SgList) -> Option<u32> {
        let length = front.inline_length(entry, self.layout)?;
        let room = sgl.replace_by_octets(u32_as_usize(length))?;
        let has = entry.copy(self.layout.octets, room);
        has.then_some(length)
    }
}
