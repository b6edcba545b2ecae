// SPDX-License-Identifier: GPL-2.0

//! DDP segment headers (RFC 5041 section 4) and the number types of the wire. Any context.
#![forbid(unsafe_code)]

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

pub(crate) const VERSION: u8 = 1;
/// Octets of a tagged and of an untagged header, RDMAP's octets included.
pub(crate) const TAGGED_LEN: usize = 14;
pub(crate) const UNTAGGED_LEN: usize = 18;

const TAGGED: u8 = 0x80;
pub(crate) const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;

/// Steering tag: 24 bits of index, which the device chooses, and 8 bits of key, the consumer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stag(pub(crate) u32);

impl Stag {
    /// Makes an STag; the upper 8 bits of `index` are lost.
    pub(crate) const fn new(index: u32, key: u8) -> Self {
        // CAST: lossless; `From` is not const.
        Stag((index << 8) | key as u32)
    }

    pub(crate) const fn index(self) -> u32 {
        self.0 >> 8
    }

    pub(crate) const fn key(self) -> u8 {
        // CAST: the key is the low octet.
        self.0 as u8
    }
}

/// Message sequence number of an untagged queue: starts at 1 and wraps (RFC 5041 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Msn(pub(crate) u32);

impl Msn {
    pub(crate) const FIRST: Msn = Msn(1);

    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Msn(self.0.wrapping_add(1))
    }

    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns this number and moves on to the next.
    pub(crate) fn take(&mut self) -> Self {
        let msn = *self;
        *self = msn.next();
        msn
    }
}

impl Default for Msn {
    fn default() -> Self {
        Self::FIRST
    }
}

/// Tagged offset (TO): the place of an octet in the buffer of an STag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaggedOffset(pub(crate) u64);

impl TaggedOffset {
    /// Returns the offset `len` octets further on; wraps.
    #[must_use]
    pub(crate) const fn behind(self, len: u32) -> Self {
        // CAST: lossless; `From` is not const.
        TaggedOffset(self.0.wrapping_add(len as u64))
    }

    /// Returns the offset `len` octets further on, or `None` if it wraps (T-18).
    pub(crate) const fn checked_add(self, len: u32) -> Option<Self> {
        // CAST: lossless; `From` is not const.
        match self.0.checked_add(len as u64) {
            Some(to) => Some(TaggedOffset(to)),
            None => None,
        }
    }
}

/// Untagged queues of RDMAP (RFC 5040 section 3, RFC 7306 section 4).
pub(crate) mod qn {
    /// Sends of all kinds and Immediate Data.
    pub(crate) const SEND: u32 = 0;
    /// Read Requests and Atomic Requests.
    pub(crate) const READ_REQUEST: u32 = 1;
    pub(crate) const TERMINATE: u32 = 2;
    pub(crate) const ATOMIC_RESPONSE: u32 = 3;
}

/// First octet of each segment: T, L (last one of the message), four reserved bits, DV.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub(crate) struct Control(pub(crate) u8);

impl Control {
    pub(crate) const fn new(tagged: bool, last: bool) -> Self {
        let t = if tagged { TAGGED } else { 0 };
        let l = if last { LAST } else { 0 };
        Control(t | l | VERSION)
    }

    pub(crate) const fn tagged(self) -> bool {
        self.0 & TAGGED != 0
    }

    pub(crate) const fn last(self) -> bool {
        self.0 & LAST != 0
    }

    /// Returns the DV field. The reserved bits are not checked (RFC 5041 section 4.1, D-DDP-1).
    pub(crate) const fn version(self) -> u8 {
        self.0 & VERSION_MASK
    }

    pub(crate) const fn header_len(self) -> usize {
        if self.tagged() {
            TAGGED_LEN
        } else {
            UNTAGGED_LEN
        }
    }
}

/// Header of a tagged segment, whose payload goes to `to` of `stag`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct Tagged {
    pub(crate) control: Control,
    /// See `wire::rdmap::Control`.
    pub(crate) rdmap: u8,
    pub(crate) stag: U32,
    pub(crate) to: U64,
}

/// Header of an untagged segment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct Untagged {
    pub(crate) control: Control,
    pub(crate) rdmap: u8,
    /// STag to invalidate; zero in messages that invalidate nothing.
    pub(crate) invalidate: U32,
    pub(crate) qn: U32,
    pub(crate) msn: U32,
    /// Offset of the payload in the message.
    pub(crate) mo: U32,
}

const _: () = assert!(size_of::<Tagged>() == TAGGED_LEN);
const _: () = assert!(size_of::<Untagged>() == UNTAGGED_LEN);

/// A DDP header of either model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Tagged(Tagged),
    Untagged(Untagged),
}

impl Header {
    /// Reads the header at the front of `ulpdu` and returns it with what follows; `None` if `ulpdu`
    /// is too short. Judges neither version nor opcode.
    pub(crate) fn parse(ulpdu: &[u8]) -> Option<(Self, &[u8])> {
        use zerocopy::FromBytes;

        if Control(*ulpdu.first()?).tagged() {
            let (h, rest) = Tagged::read_from_prefix(ulpdu).ok()?;
            Some((Header::Tagged(h), rest))
        } else {
            let (h, rest) = Untagged::read_from_prefix(ulpdu).ok()?;
            Some((Header::Untagged(h), rest))
        }
    }

    pub(crate) const fn control(&self) -> Control {
        match self {
            Header::Tagged(h) => h.control,
            Header::Untagged(h) => h.control,
        }
    }

    pub(crate) const fn rdmap(&self) -> u8 {
        match self {
            Header::Tagged(h) => h.rdmap,
            Header::Untagged(h) => h.rdmap,
        }
    }
}
