// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations (RFC 7306 section 5): the headers of Atomic Requests and Atomic Responses, and
//! what an operation makes of a word. Any context.
//!
//! There are two operations, FetchAdd and CmpSwap, on 64 bits. Both return what was there before.
#![forbid(unsafe_code)]

use super::ddp::{
    Stag,
    TaggedOffset, //
};
use super::rdmap::{
    ATOMIC_REQUEST_LEN,
    ATOMIC_RESPONSE_LEN, //
};
use zerocopy::byteorder::big_endian::{
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Octets that an Atomic Operation is about, and what their address is a multiple of.
pub(crate) const WORD_LEN: u32 = 8;

/// AOpcodes (RFC 7306 section 5.2.1); 1 is reserved. The other bits of their word are reserved too.
const FETCH_ADD: u32 = 0;
const CMP_SWAP: u32 = 2;
const AOPCODE_MASK: u32 = 0xf;

/// An Atomic Operation with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOperation {
    /// Adds to fields of the word.
    FetchAdd {
        /// What is added.
        add: u64,
        /// The most significant bits of the fields: what is carried out of these is lost. Without
        /// any, the word is one field.
        mask: u64,
    },
    /// Replaces bits of the word if others are as expected.
    CmpSwap {
        /// What they are replaced by.
        swap: u64,
        /// Those that are replaced.
        swap_mask: u64,
        /// What is expected.
        compare: u64,
        /// Those that are compared.
        compare_mask: u64,
    },
}

impl AtomicOperation {
    /// What is in the place of `original` afterwards (RFC 7306 sections 5.1.1 and 5.1.2).
    #[must_use]
    pub(crate) const fn apply(&self, original: u64) -> u64 {
        match *self {
            // Without the top bits of the fields nothing is carried beyond them; then each gets the
            // sum of both operands' and of what was carried into it.
            Self::FetchAdd { add, mask } => {
                (original & !mask).wrapping_add(add & !mask) ^ ((original ^ add) & mask)
            }
            Self::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => {
                if (original ^ compare) & compare_mask != 0 {
                    original
                } else {
                    (original & !swap_mask) | (swap & swap_mask)
                }
            }
        }
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    aopcode: U32,
    id: U32,
    stag: U32,
    to: U64,
    add_swap: U64,
    add_swap_mask: U64,
    compare: U64,
    compare_mask: U64,
}

const _: () = assert!(size_of::<RawRequest>() == ATOMIC_REQUEST_LEN);

/// The Atomic Request header (RFC 7306 section 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicRequest {
    /// What the response has to repeat.
    pub(crate) id: u32,
    /// STag of the buffer at the responder.
    pub(crate) stag: Stag,
    /// Offset in that buffer.
    pub(crate) to: TaggedOffset,
    /// What to do.
    pub(crate) operation: AtomicOperation,
}

impl AtomicRequest {
    /// Reads the header from the front of `bytes`. `None` if they are too few, or for an AOpcode
    /// that is reserved.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;

        let (raw, _) = RawRequest::read_from_prefix(bytes).ok()?;
        let operation = match raw.aopcode.get() & AOPCODE_MASK {
            // Its other operands are ignored.
            FETCH_ADD => AtomicOperation::FetchAdd {
                add: raw.add_swap.get(),
                mask: raw.add_swap_mask.get(),
            },
            CMP_SWAP => AtomicOperation::CmpSwap {
                swap: raw.add_swap.get(),
                swap_mask: raw.add_swap_mask.get(),
                compare: raw.compare.get(),
                compare_mask: raw.compare_mask.get(),
            },
            _ => return None,
        };
        Some(Self {
            id: raw.id.get(),
            stag: Stag(raw.stag.get()),
            to: TaggedOffset(raw.to.get()),
            operation,
        })
    }

    /// The octets of the header.
    pub(crate) fn to_wire(self) -> [u8; ATOMIC_REQUEST_LEN] {
        let (aopcode, add_swap, add_swap_mask, compare, compare_mask) = match self.operation {
            AtomicOperation::FetchAdd { add, mask } => (FETCH_ADD, add, mask, 0, u64::MAX),
            AtomicOperation::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => (CMP_SWAP, swap, swap_mask, compare, compare_mask),
        };
        zerocopy::transmute!(RawRequest {
            aopcode: U32::new(aopcode),
            id: U32::new(self.id),
            stag: U32::new(self.stag.0),
            to: U64::new(self.to.0),
            add_swap: U64::new(add_swap),
            add_swap_mask: U64::new(add_swap_mask),
            compare: U64::new(compare),
            compare_mask: U64::new(compare_mask),
        })
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawResponse {
    id: U32,
    original: U64,
}

const _: () = assert!(size_of::<RawResponse>() == ATOMIC_RESPONSE_LEN);

/// The Atomic Response header (RFC 7306 section 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicResponse {
    /// That of the request.
    pub(crate) id: u32,
    /// What the word was before.
    pub(crate) original: u64,
}

impl AtomicResponse {
    /// Reads the header from the front of `bytes`. `None` if they are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;

        let (raw, _) = RawResponse::read_from_prefix(bytes).ok()?;
        Some(Self {
            id: raw.id.get(),
            original: raw.original.get(),
        })
    }

    /// The octets of the header.
    pub(crate) fn to_wire(self) -> [u8; ATOMIC_RESPONSE_LEN] {
        zerocopy::transmute!(RawResponse {
            id: U32::new(self.id),
            original: U64::new(self.original),
        })
    }
}
