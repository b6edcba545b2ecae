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

/// DDP version of the RFCs.
pub(crate) const VERSION: u8 = 1;
/// Octets of a tagged header, RDMAP's control octet included.
pub(crate) const TAGGED_LEN: usize = 14;
/// Octets of an untagged header, RDMAP's octets included.
pub(crate) const UNTAGGED_LEN: usize = 18;

const TAGGED: u8 = 0x80;
pub(crate) const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;

/// Steering tag: 24 bits of index, 8 bits of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stag(pub(crate) u32);

impl Stag {
    /// Puts an STag together; the upper 8 bits of `index` are lost.
    pub(crate) const fn new(index: u32, key: u8) -> Self {
        // CAST: lossless; `From` is not const.
        Stag((index << 8) | key as u32)
    }

    /// The part that the device chose.
    pub(crate) const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// The part that the consumer chose.
    pub(crate) const fn key(self) -> u8 {
        // CAST: the low octet is what is asked for.
        self.0 as u8
    }
}

/// Message sequence number of an untagged queue; starts at 1 and wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Msn(pub(crate) u32);

impl Msn {
    /// Number of the first message of each queue (RFC 5041 section 4.3).
    pub(crate) const FIRST: Msn = Msn(1);

    /// Number of the message after this one.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Msn(self.0.wrapping_add(1))
    }

    /// How many numbers further on it is than `earlier`.
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

/// Tagged offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaggedOffset(pub(crate) u64);

impl TaggedOffset {
    /// The offset `len` octets further on; it wraps.
    #[must_use]
    pub(crate) const fn behind(self, len: u32) -> Self {
        // CAST: lossless; `From` is not const.
        TaggedOffset(self.0.wrapping_add(len as u64))
    }

    /// The offset `len` octets further on; `None` if it wraps (T-18).
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
    /// Sends of all kinds, immediates.
    pub(crate) const SEND: u32 = 0;
    /// Read Requests and Atomic Requests.
    pub(crate) const READ_REQUEST: u32 = 1;
    /// The Terminate message.
    pub(crate) const TERMINATE: u32 = 2;
    /// Atomic Responses.
    pub(crate) const ATOMIC_RESPONSE: u32 = 3;
}

/// First octet of each segment: T, L, four reserved bits, DV.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub(crate) struct Control(pub(crate) u8);

impl Control {
    /// The octet to send.
    pub(crate) const fn new(tagged: bool, last: bool) -> Self {
        let t = if tagged { TAGGED } else { 0 };
        let l = if last { LAST } else { 0 };
        Control(t | l | VERSION)
    }

    /// The T flag.
    pub(crate) const fn tagged(self) -> bool {
        self.0 & TAGGED != 0
    }

    /// The L flag: last segment of the message.
    pub(crate) const fn last(self) -> bool {
        self.0 & LAST != 0
    }

    /// The DV field; the reserved bits are not looked at (RFC 5041 section 4.1, D-DDP-1).
    pub(crate) const fn version(self) -> u8 {
        self.0 & VERSION_MASK
    }

    /// Octets of the header that begins with this octet.
    pub(crate) const fn header_len(self) -> usize {
        if self.tagged() {
            TAGGED_LEN
        } else {
            UNTAGGED_LEN
        }
    }
}

/// Header of a tagged segment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct Tagged {
    /// DDP control octet.
    pub(crate) control: Control,
    /// RDMAP control octet, `wire::rdmap::Control`.
    pub(crate) rdmap: u8,
    /// Steering tag of the sink.
    pub(crate) stag: U32,
    /// Offset of the payload in the sink.
    pub(crate) to: U64,
}

/// Header of an untagged segment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct Untagged {
    /// DDP control octet.
    pub(crate) control: Control,
    /// RDMAP control octet.
    pub(crate) rdmap: u8,
    /// STag to invalidate; zero in messages that invalidate nothing.
    pub(crate) invalidate: U32,
    /// Queue number.
    pub(crate) qn: U32,
    /// Message sequence number.
    pub(crate) msn: U32,
    /// Offset of the payload in the message.
    pub(crate) mo: U32,
}

const _: () = assert!(size_of::<Tagged>() == TAGGED_LEN);
const _: () = assert!(size_of::<Untagged>() == UNTAGGED_LEN);

/// A DDP header of either model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// With STag and TO.
    Tagged(Tagged),
    /// With QN, MSN and MO.
    Untagged(Untagged),
}

impl Header {
    /// Reads the header at the front of `ulpdu` and returns what follows it.
    ///
    /// Neither version nor opcode are judged here. `None` if `ulpdu` is too short.
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

    /// The DDP control octet.
    pub(crate) const fn control(&self) -> Control {
        match self {
            Header::Tagged(h) => h.control,
            Header::Untagged(h) => h.control,
        }
    }

    /// The RDMAP control octet.
    pub(crate) const fn rdmap(&self) -> u8 {
        match self {
            Header::Tagged(h) => h.rdmap,
            Header::Untagged(h) => h.rdmap,
        }
    }
}
