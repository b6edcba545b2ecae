// SPDX-License-Identifier: GPL-2.0

//! Validated requests of the send queue (draft-hilland-rddp-verbs section 8.1). Any context.
#![forbid(unsafe_code)]

use super::failure::Fault;
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ImmediateData;
use core::ffi::CStr;

/// What a request does, with its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Send {
        /// The peer is to invalidate this STag.
        invalidate: Option<Stag>,
    },
    /// A Send with immediate data, which only some peers take.
    SendImmediate { data: [u8; 4] },
    /// RDMA Write to `to` of `stag`.
    Write {
        stag: Stag,
        to: TaggedOffset,
        /// Immediate Data, which follow in a message of their own; sent alone if the RDMA Write is
        /// empty (RFC 7306 section 6).
        immediate: Option<ImmediateData>,
    },
    /// RDMA Read from `to` of `stag` into the first element.
    Read {
        stag: Stag,
        to: TaggedOffset,
        /// Invalidate the sink STag when the Read completes.
        invalidate: bool,
    },
    /// Atomic Operation on the word at `to` of `stag`, whose result goes to the first element. The
    /// surroundings know the operands.
    Atomic {
        stag: Stag,
        to: TaggedOffset,
        kind: OperationType,
    },
    /// Concerns this side only, and is not sent.
    Local(Local),
}

/// An operation that concerns this side only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Invalidate {
        stag: Stag,
    },
    /// Fast registration; the surroundings know of what.
    Register,
    /// Bind of a memory window; the surroundings know which.
    Bind,
}

/// The table of operations, handed to the macro `$then`. A line has the [`OperationType`], its name
/// in trace events, and its names in completions: in the rings of a process (`abi::opcode`) and for
/// a consumer in the kernel (`WcOpcode`).
macro_rules! operations {
    ($then:ident) => {
        $then! {
            /// A Send of any kind.
            Send, c"send", SEND, SEND;
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
            Invalidate, c"invalidate", INVAL_STAG, LOCAL_INV;
            /// Fast registration.
            Register, c"register", REG_MR, REG_MR;
            Bind, c"bind", BIND_MW, BIND_MW;
            Receive, c"receive", RECEIVE, RECV;
        }
    };
}
pub(crate) use operations;

macro_rules! types {
    ($($(#[$doc:meta])* $operation:ident, $name:literal, $_ring:ident, $_core:ident;)*) => {
        /// The type of an operation, as completions tell it (draft-hilland-rddp-verbs section 8.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum OperationType {
            $($(#[$doc])* $operation,)*
        }

        impl OperationType {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$operation),*];

            /// Returns the operation's name in trace events, which is its name in the verbs.
            pub(crate) const fn name(self) -> &'static CStr {
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
    pub(crate) work: W,
    pub(crate) operation: Operation,
    /// The peer is to raise an event.
    pub(crate) solicited: bool,
    /// Earlier Reads and Atomic Operations must be complete first.
    pub(crate) fence: bool,
    /// Octets of the message.
    pub(crate) len: u32,
    /// The octets came with the request, instead of elements that name memory.
    pub(crate) is_inline: bool,
}

/// A request that cannot be carried out (V-WC-3, V-WC-21).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadRequest<W> {
    pub(crate) work: W,
    pub(crate) fault: Fault,
}

/// The memory that the response to a Read or an Atomic Operation goes to: `len` octets from `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    pub(crate) stag: Stag,
    pub(crate) to: TaggedOffset,
    pub(crate) len: u32,
}

impl Operation {
    pub(crate) const fn kind(&self) -> OperationType {
        match self {
            Operation::Send { .. } | Operation::SendImmediate { .. } => OperationType::Send,
            Operation::Write { .. } => OperationType::Write,
            Operation::Read { .. } => OperationType::Read,
            Operation::Atomic { kind, .. } => *kind,
            Operation::Local(Local::Invalidate { .. }) => OperationType::Invalidate,
            Operation::Local(Local::Register) => OperationType::Register,
            Operation::Local(Local::Bind) => OperationType::Bind,
        }
    }

    /// Returns whether the operation concerns this side only, and is not sent.
    pub(crate) const fn is_local(&self) -> bool {
        matches!(self, Operation::Local(_))
    }

    /// Returns whether the operation takes back memory from which earlier requests may still be
    /// read.
    pub(crate) const fn takes_back(&self) -> bool {
        matches!(
            self,
            Operation::Local(Local::Invalidate { .. } | Local::Bind)
        )
    }
}
