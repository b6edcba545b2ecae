// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests of a process ([`user`]) or a kernel consumer ([`kernel`]), completions
//! in post order.
//!
//! What is under way is counted in [`Sq`], whatever became of its slot.
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
use super::sgl::SgList;
use crate::{
    abi::{
        Opcode,
        WcStatus, //
    },
    ffi::rdma::wr::{
        Binding,
        Registration, //
    },
    proto::{
        order::{
            Order,
            Record, //
        },
        reads::{
            Orq,
            OrqEntry, //
        },
        tx::Class,
    },
    wire::ddp::{
        Stag,
        TaggedOffset, //
    },
};
use ::kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// Send, perhaps invalidating an STag of the peer.
    Send {
        /// The STag.
        invalidate: Option<Stag>,
    },
    /// RDMA Write.
    Write {
        /// Sink.
        stag: Stag,
        /// Offset in the sink.
        to: TaggedOffset,
    },
    /// RDMA Read into the first element.
    Read {
        /// Source.
        stag: Stag,
        /// Offset in the source.
        to: TaggedOffset,
        /// The sink is invalidated afterwards.
        invalidate: bool,
    },
    /// Local invalidation.
    Invalidate {
        /// What.
        stag: Stag,
    },
    /// Fast registration.
    Register(Registration),
    /// Bind of a memory window.
    Bind(Binding),
}

/// A validated send request.
#[derive(Clone, Copy)]
pub(super) struct Wqe {
    /// For its completion.
    pub(super) work: Work,
    /// What to do.
    pub(super) operation: Operation,
    /// The peer is to raise an event.
    pub(super) solicited: bool,
    /// Earlier Reads must be complete first.
    pub(super) fence: bool,
    /// Octets of the message.
    pub(super) len: u32,
    /// The list that comes with the request holds the octets themselves.
    pub(super) is_inline: bool,
}

/// What is needed to complete a request.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The consumer's name for it.
    pub(super) id: u64,
    /// What it was.
    pub(super) opcode: Opcode,
    /// Success is reported too.
    pub(super) signalled: bool,
    /// Octets of the message.
    pub(super) bytes: u32,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            id: 0,
            opcode: Opcode::Send,
            signalled: false,
            bytes: 0,
        }
    }
}

/// A request that cannot be carried out (V-WC-3, V-WC-21).
#[derive(Clone, Copy)]
pub(super) struct BadWqe {
    /// For its completion.
    pub(super) work: Work,
    /// What is wrong.
    pub(super) status: WcStatus,
}

impl Wqe {
    /// The class by which fences and ORD hold it back.
    pub(super) fn class(&self) -> Class {
        match self.operation {
            Operation::Read { .. } => Class::Read,
            Operation::Invalidate { .. } => Class::Invalidate,
            Operation::Register(_) | Operation::Bind(_) => Class::Register,
            Operation::Send { .. } | Operation::Write { .. } => Class::Transfer,
        }
    }
}

/// Where send requests come from.
pub(super) enum SqRing {
    /// A process.
    User(UserSq),
    /// A kernel consumer.
    Kernel(Arc<KernelSq>),
}

impl SqRing {
    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        match self {
            // CAST: 32 bits fit.
            Self::User(ring) => ring.len() as usize,
            Self::Kernel(ring) => ring.len(),
        }
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::User(ring) => ring.is_empty(),
            Self::Kernel(ring) => ring.is_empty(),
        }
    }

    /// Looks at the oldest request, which stays where it is; `sgl` gets its elements or octets.
    pub(super) fn peek(&self, sgl: &mut SgList) -> Option<Result<Wqe, BadWqe>> {
        match self {
            Self::User(ring) => ring.peek(sgl),
            Self::Kernel(ring) => ring.peek(sgl),
        }
    }

    /// Frees the slot of the oldest request.
    pub(super) fn consume(&mut self) {
        match self {
            Self::User(ring) => ring.consume(),
            Self::Kernel(ring) => drop(ring.pop()),
        }
    }

    /// Takes the oldest request out, of which only the completion is wanted.
    pub(super) fn discard(&mut self) -> Option<Work> {
        match self {
            Self::User(ring) => ring.discard(),
            Self::Kernel(ring) => ring.pop(),
        }
    }
}

/// Send requests under way.
pub(super) struct Sq {
    /// In post order.
    pub(super) order: Order<KVVec<Record<Work, WcStatus>>>,
    /// Our RDMA Reads.
    pub(super) orq: Orq<KVec<OrqEntry>>,
    /// Most Reads that may be outstanding.
    pub(super) ord: usize,
    /// Transmission waits for a Read to complete.
    pub(super) stalled: bool,
}

impl Sq {
    /// For `depth` requests under way, in memory that is allocated with `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(depth: u32, flags: Flags) -> Result<Self> {
        // CAST: 32 bits fit.
        let records = KVVec::from_elem(Record::default(), depth as usize, flags)?;
        Ok(Self {
            order: Order::new(records),
            orq: Orq::new(KVec::new()),
            ord: 0,
            stalled: false,
        })
    }

    /// Whether one more request may be under way; if not, transmission waits.
    pub(super) fn has_room(&mut self) -> bool {
        self.stalled |= self.order.is_full();
        !self.order.is_full()
    }

    /// Goes on with the records of `other`, which has none in use, if it has more of them; `other`
    /// gets those that are not used any more.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `other` has some in use, for which there is no room.
    pub(super) fn swap_if_larger(&mut self, other: &mut Self) -> Result {
        let swapped = self.order.swap_if_larger(&mut other.order);
        swapped.map_err(|_| EINVAL)
    }
}
