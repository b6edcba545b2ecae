// SPDX-License-Identifier: GPL-2.0

//! Requests of the send queue, validated (draft-hilland-rddp-verbs section 8.1).
//!
//! Any context.
#![forbid(unsafe_code)]

use super::failure::Fault;
use super::names::Name;
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ImmediateData;

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
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
        /// Sent in a message of its own behind it, or without it if it is empty (RFC 7306 section
        /// 6).
        immediate: Option<ImmediateData>,
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
    /// Atomic Operation, whose result goes to the first element; the surroundings know the operands.
    Atomic {
        /// Where the word is.
        stag: Stag,
        /// Offset of the word there.
        to: TaggedOffset,
        /// What its completion calls it.
        kind: OperationType,
    },
    /// Local invalidation.
    Invalidate {
        /// What.
        stag: Stag,
    },
    /// Fast registration; the surroundings know of what.
    Register,
    /// Bind of a memory window; the surroundings know which.
    Bind,
}

/// The table of operations. Hands it to the macro `$then`, as lines of: what completions are told
/// of; its name in trace events; and what completions call it in the rings of a process
/// (`abi::opcode`), and to a consumer in the kernel (`WcOpcode`).
macro_rules! operations {
    ($then:ident) => {
        $then! {
            /// A Send of any kind.
            Send, c"send", SEND, SEND;
            /// RDMA Write.
            Write, c"write", WRITE, RDMA_WRITE;
            /// RDMA Read, with or without invalidation.
            Read, c"read", READ, RDMA_READ;
            /// CmpSwap of all bits.
            CompareSwap, c"compare_swap", COMP_AND_SWAP, COMP_SWAP;
            /// FetchAdd with one field.
            FetchAdd, c"fetch_add", FETCH_AND_ADD, FETCH_ADD;
            /// CmpSwap with masks.
            MaskedCompareSwap, c"masked_compare_swap", COMP_AND_SWAP, MASKED_COMP_SWAP;
            /// FetchAdd with any number of fields.
            MaskedFetchAdd, c"masked_fetch_add", FETCH_AND_ADD, MASKED_FETCH_ADD;
            /// Local invalidation.
            Invalidate, c"invalidate", INVAL_STAG, LOCAL_INV;
            /// Fast registration.
            Register, c"register", REG_MR, REG_MR;
            /// Bind of a memory window.
            Bind, c"bind", BIND_MW, BIND_MW;
            /// A receive.
            Receive, c"receive", RECEIVE, RECV;
        }
    };
}
pub(crate) use operations;

/// Declares the type of operations.
macro_rules! types {
    ($($(#[$doc:meta])* $operation:ident, $name:literal, $_ring:ident, $_core:ident;)*) => {
        /// The type of an operation, as completions tell it (draft-hilland-rddp-verbs section 8.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum OperationType {
            $($(#[$doc])* $operation,)*
        }

        impl OperationType {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$operation),*];

            /// Its name in trace events, as the verbs call it.
            pub(crate) const fn name(self) -> Name {
                match self {
                    $(Self::$operation => $name,)*
                }
            }
        }
    };
}
operations!(types);

/// A validated request. `W` is what is needed to complete it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<W> {
    /// For its completion.
    pub(crate) work: W,
    /// What to do.
    pub(crate) operation: Operation,
    /// The peer is to raise an event.
    pub(crate) solicited: bool,
    /// Earlier Reads and Atomic Operations must be complete first.
    pub(crate) fence: bool,
    /// Octets of the message.
    pub(crate) len: u32,
    /// The octets came with the request, instead of the names of memory.
    pub(crate) is_inline: bool,
}

/// A request that cannot be carried out (V-WC-3, V-WC-21).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadRequest<W> {
    /// For its completion.
    pub(crate) work: W,
    /// What is wrong.
    pub(crate) fault: Fault,
}

/// The memory that the response to a Read or an Atomic Operation goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    /// Its STag.
    pub(crate) stag: Stag,
    /// Its first octet.
    pub(crate) to: TaggedOffset,
    /// How many octets.
    pub(crate) len: u32,
}

impl Operation {
    /// Its type.
    pub(crate) const fn kind(&self) -> OperationType {
        match self {
            Operation::Send { .. } => OperationType::Send,
            Operation::Write { .. } => OperationType::Write,
            Operation::Read { .. } => OperationType::Read,
            Operation::Atomic { kind, .. } => *kind,
            Operation::Invalidate { .. } => OperationType::Invalidate,
            Operation::Register => OperationType::Register,
            Operation::Bind => OperationType::Bind,
        }
    }

    /// Whether it concerns this side only, and is not sent.
    pub(crate) const fn is_local(&self) -> bool {
        matches!(
            self,
            Operation::Invalidate { .. } | Operation::Register | Operation::Bind
        )
    }

    /// Whether it takes memory back that requests in front of it may still be read from.
    pub(crate) const fn takes_back(&self) -> bool {
        matches!(self, Operation::Invalidate { .. } | Operation::Bind)
    }
}
