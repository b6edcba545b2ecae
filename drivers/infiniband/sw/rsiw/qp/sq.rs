// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests of a process ([`user`]) or a kernel consumer ([`kernel`]), completions
//! in post order.
//!
//! Requests under way are recorded in [`Sq`], whatever became of their slots.
//!
//! Context: [`SqRing`] in process context under the QP's mutex; [`Sq`] in any context under its own
//! lock, which comes before those of completion queues.
#![forbid(unsafe_code)]

pub(super) mod kernel;
pub(super) mod user;

use self::{
    kernel::KernelSq,
    user::UserSq, //
};
pub(super) use crate::abi::Operands;
use crate::{
    proto::{
        failure::Fault,
        reads::OutboundRead,
        request::{
            BadRequest,
            OperationType,
            Request, //
        },
        sends::{
            Record,
            Sends, //
        },
    },
    queue::SgList, //
};
use ::kernel::{
    alloc::Flags,
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc, //
};

/// A validated send request.
pub(super) type Wqe = Request<Work>;

/// A request that cannot be carried out.
pub(super) type BadWqe = BadRequest<Work>;

/// What is needed to complete a request.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The consumer's name for it.
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

    /// Returns the queue of a process with own rings, or `EOPNOTSUPP` if it is another's.
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
    /// `operands` what it has besides; a consumer in the kernel has that once, so that it has to be
    /// there still when the same request is looked at again.
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
