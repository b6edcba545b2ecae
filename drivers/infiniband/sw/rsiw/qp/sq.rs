// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests of a process or of a consumer in the kernel ([`kernel`]), completions
//! in post order.
//!
//! A request of a process is copied out of shared memory once, validated, and only the copy is used
//! (T-3). Its slot goes back to the process at that moment.
//!
//! Requests under way are recorded in [`Sq`], whatever became of their slots.
//!
//! Context: [`SqRing`] in process context under the QP's mutex; [`Sq`] in any context under its own
//! lock, which comes before those of completion queues.
#![forbid(unsafe_code)]

pub(super) mod kernel;

use self::kernel::KernelSq;
pub(super) use crate::abi::Operands;
use crate::abi::{
    wqe,
    Front,
    Layout, //
};
use crate::ffi::mm::ring::{
    Entry,
    Place,
    Position,
    SharedRing, //
};
use crate::proto::failure::Fault;
use crate::proto::reads::OutboundRead;
use crate::proto::request::{
    BadRequest,
    Operation,
    OperationType,
    Request, //
};
use crate::proto::sends::{
    Record,
    Sends, //
};
use crate::queue::shared::Moving;
use crate::queue::SgList;
use crate::wire::atomic::WORD_LEN;
use ::kernel::alloc::Flags;
use ::kernel::num::casts::u32_as_usize;
use ::kernel::prelude::*;
use ::kernel::sync::barrier::{
    smp_mb,
    Full, //
};
use ::kernel::sync::Arc;

/// A validated send request.
pub(super) type Wqe = Request<Work>;

/// A request that cannot be carried out.
pub(super) type BadWqe = BadRequest<Work>;

/// What is needed to complete a request.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The consumer's name for the request.
    pub(super) id: u64,
    pub(super) operation: OperationType,
    /// Whether success is reported, too.
    pub(super) signalled: bool,
    pub(super) bytes: u32,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            id: 0,
            operation: OperationType::Send,
            signalled: false,
            bytes: 0,
        }
    }
}

/// Where send requests come from.
pub(super) enum SqRing {
    User(UserSq),
    Kernel(Arc<KernelSq>),
}

impl SqRing {
    /// Returns the number of slots.
    pub(super) fn len(&self) -> usize {
        match self {
            // CAST: 32 bits fit.
            Self::User(ring) => ring.len() as usize,
            Self::Kernel(ring) => ring.len(),
        }
    }

    /// Returns the queue of a process with own rings, or `EOPNOTSUPP` for any other queue.
    pub(super) fn own(&mut self) -> Result<&mut UserSq> {
        match self {
            Self::User(queue) if queue.is_own() => Ok(queue),
            Self::User(_) | Self::Kernel(_) => Err(EOPNOTSUPP),
        }
    }

    /// Returns how many requests of a process were taken out, which is the number of the next one;
    /// wraps. Nobody asks this of a consumer in the kernel.
    #[inline(always)]
    pub(super) fn taken(&self) -> u32 {
        match self {
            Self::User(ring) => ring.taken().number(),
            Self::Kernel(_) => 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::User(ring) => ring.is_empty(),
            Self::Kernel(ring) => ring.is_empty(),
        }
    }

    /// Returns whether more than `count` requests of a process wait.
    #[inline(always)]
    pub(super) fn has_behind(&self, count: u32) -> bool {
        match self {
            Self::User(ring) => ring.has_behind(count),
            Self::Kernel(_) => false,
        }
    }

    /// Looks at the oldest request, which stays where it is. `sgl` gets its elements or octets, and
    /// `operands` what it has besides. A request of the kernel gives its operands only once, so
    /// they must still be in `operands` when the same request is looked at again.
    pub(super) fn peek(
        &self,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Option<Result<Wqe, BadWqe>> {
        match self {
            Self::User(ring) => ring.peek(sgl, operands),
            Self::Kernel(ring) => ring.peek(sgl, operands),
        }
    }

    /// Frees the slot of the oldest request.
    #[inline(always)]
    pub(super) fn consume(&mut self) {
        match self {
            Self::User(ring) => ring.consume(),
            Self::Kernel(ring) => drop(ring.pop()),
        }
    }

    /// Takes the oldest request out, for which only a completion is wanted.
    pub(super) fn discard(&mut self) -> Option<Work> {
        match self {
            Self::User(ring) => ring.discard(),
            Self::Kernel(ring) => ring.pop(),
        }
    }
}

/// Room for requests under way.
pub(super) type Records = KVVec<Record<Work, Fault>>;

/// Send requests under way.
pub(super) type Sq = Sends<Records, KVec<OutboundRead>>;

/// Makes room for `depth` requests under way, in memory that is allocated with `flags`.
pub(super) fn records(depth: u32, flags: Flags) -> Result<Records> {
    Ok(KVVec::from_elem(
        Record::default(),
        u32_as_usize(depth.max(1)),
        flags,
    )?)
}

/// The consuming end of a process's ring.
pub(super) struct UserSq {
    ring: SharedRing,
    layout: &'static Layout,
    /// The next entry to be taken out.
    get: Position,
    sig_all: bool,
    max_sge: u32,
}

impl UserSq {
    /// Takes over the consuming end of a ring.
    pub(super) fn new(
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
    fn len(&self) -> u32 {
        self.ring.len()
    }

    pub(super) fn is_own(&self) -> bool {
        self.layout.is_own()
    }

    /// Copies the requests that wait to the empty ring `to`, in which the queue is to go on. Fails
    /// with `EINVAL` if `to` is too small for them.
    pub(super) fn moving_to(&self, to: SharedRing) -> Result<Moving> {
        let mut moving = Moving::new(self.ring.clone(), to, self.get);
        moving.copy(|| Ok(self.get))?;
        Ok(moving)
    }

    /// Goes on in the new ring: see [`Moving::finish`]. Nothing was taken meanwhile.
    pub(super) fn go_on_in(&mut self, moving: &mut Moving) -> bool {
        moving.finish(&mut self.ring, self.get)
    }

    /// Returns the position of the request that is taken next.
    fn taken(&self) -> Position {
        self.get
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.ring.entry(self.get).flags() & wqe::VALID == 0
    }

    /// Returns whether more than `count` requests wait. The library posts them in order.
    #[inline(always)]
    fn has_behind(&self, count: u32) -> bool {
        self.ring.entry(self.get + count).flags() & wqe::VALID != 0
    }

    /// [`super::SqRing::peek`] for a process.
    fn peek(
        &self,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Option<Result<Wqe, BadWqe>> {
        let entry = self.ring.entry(self.get);
        let flags = entry.flags();
        if flags & wqe::VALID == 0 {
            return None;
        }
        // Two functions, so that requests of the stock library cost nothing that only own rings
        // need.
        Some(match self.layout.rest {
            None => self.validate((entry, None), flags, sgl, operands),
            rest => self.validate_own((entry, rest), flags, sgl, operands),
        })
    }

    /// Gives the slot of the oldest request back to the process.
    #[inline(always)]
    fn consume(&mut self) {
        self.ring.entry(self.get).set_flags(0);
        self.get.advance();
        // The library rings the doorbell only if it finds the slot before its own cleared. So
        // clear, then look at the next slot: one of the two sees the other.
        smp_mb(Full);
    }

    /// [`super::SqRing::discard`] for a process.
    fn discard(&mut self) -> Option<Work> {
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

    /// Does the work of [`UserSq::validate`] for an own ring. It is a separate function, so that
    /// the code for stock rings is short.
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
