// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations on 64-bit words (RFC 7306 section 5): FetchAdd and CmpSwap, which both return
//! the original value, and the headers of their requests and responses. Any context.
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

/// Octets of the word that an Atomic Operation changes; its address is a multiple of this.
pub(crate) const WORD_LEN: u32 = 8;

/// AOpcodes (RFC 7306 section 5.2.1). 1 is reserved, as are the other bits of their word.
const FETCH_ADD: u32 = 0;
const CMP_SWAP: u32 = 2;
const AOPCODE_MASK: u32 = 0xf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOperation {
    /// Adds `add` to the word, field by field.
    FetchAdd {
        add: u64,
        /// The most significant bit of each field; nothing is carried beyond it. Zero makes the
        /// word one field.
        mask: u64,
    },
    /// Replaces the bits in `swap_mask` by `swap`'s if those in `compare_mask` equal `compare`'s.
    CmpSwap {
        swap: u64,
        swap_mask: u64,
        compare: u64,
        compare_mask: u64,
    },
}

impl AtomicOperation {
    /// Returns what the operation makes of `original` (RFC 7306 sections 5.1.1 and 5.1.2).
    #[must_use]
    pub(crate) const fn apply(&self, original: u64) -> u64 {
        match *self {
            // Adding without the top bits of the fields carries nothing beyond them; then each top
            // bit becomes the sum of both operands' bits and of the carry into it.
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

/// The Atomic Request header (RFC 7306 section 5.2.1); `to` of `stag` is the word at the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicRequest {
    /// Identifier that the response repeats.
    pub(crate) id: u32,
    pub(crate) stag: Stag,
    pub(crate) to: TaggedOffset,
    pub(crate) operation: AtomicOperation,
}

impl AtomicRequest {
    /// Reads the header from `bytes`; `None` if they are too few or the AOpcode is unknown.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;

        let (raw, _) = RawRequest::read_from_prefix(bytes).ok()?;
        let operation = match raw.aopcode.get() & AOPCODE_MASK {
            // The compare operands are ignored.
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
    pub(crate) id: u32,
    pub(crate) original: u64,
}

impl AtomicResponse {
    /// Reads the header from `bytes`; `None` if they are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;

        let (raw, _) = RawResponse::read_from_prefix(bytes).ok()?;
        Some(Self {
            id: raw.id.get(),
            original: raw.original.get(),
        })
    }

    pub(crate) fn to_wire(self) -> [u8; ATOMIC_RESPONSE_LEN] {
        zerocopy::transmute!(RawResponse {
            id: U32::new(self.id),
            original: U64::new(self.original),
        })
    }
}
