// SPDX-License-Identifier: GPL-2.0

//! MPA Request and Reply frames (RFC 5044 section 7.1.1) with the enhanced set-up words of RFC 6581
//! section 6. Any context.
//!
//! A frame is a header of [`HEADER_LEN`] octets and private data, whose length is in the header.
//! Whoever reads exactly that much takes nothing that belongs to the first FPDU (T-25).
#![forbid(unsafe_code)]

use super::Short;
use zerocopy::byteorder::big_endian::U16;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

pub(crate) const HEADER_LEN: usize = 20;
/// How many octets of private data a frame may have, the enhanced words included.
pub(crate) const MAX_PRIVATE_DATA: usize = 512;
pub(crate) const ENHANCED_LEN: usize = 4;
pub(crate) const MAX_FRAME: usize = HEADER_LEN + MAX_PRIVATE_DATA;

/// Revision of RDMAC, which speaks another DDP and RDMAP (RFC 5044 appendix C).
pub(crate) const REV_RDMAC: u8 = 0;
/// Revisions of RFC 5044 and of RFC 6581.
pub(crate) const REV_1: u8 = 1;
pub(crate) const REV_2: u8 = 2;

/// IRD or ORD value that asks for no negotiation (RFC 6581 section 9.1).
pub(crate) const NO_NEGOTIATION: u16 = 0x3fff;

const REQUEST_KEY: [u8; 16] = *b"MPA ID Req Frame";
const REPLY_KEY: [u8; 16] = *b"MPA ID Rep Frame";

const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
const ENHANCED: u8 = 0x10;
const LARGE_FPDUS: u8 = 0x08;

/// The two frames: the Request of the initiator and the Reply of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    Key,
    PrivateDataLength,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    key: [u8; 16],
    flags: u8,
    rev: u8,
    pd_len: U16,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_LEN);

/// A frame without its private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// M: the sender of the frame wants markers in what it receives.
    pub(crate) markers: bool,
    /// C: the sender of the frame wants CRCs.
    pub(crate) crc: bool,
    /// R: the connection is refused; has no meaning in a Request.
    pub(crate) reject: bool,
    /// S: the private data begins with [`Enhanced`]; has no meaning below revision 2.
    pub(crate) enhanced: bool,
    /// The sender of the frame takes FPDUs that are longer than a TCP segment. The RFCs reserve
    /// this bit; soft implementations use it by agreement.
    pub(crate) large_fpdus: bool,
    pub(crate) rev: u8,
    /// Octets of private data, 0..=512, the enhanced words included.
    pub(crate) pd_len: u16,
}

impl Header {
    /// Reads a header; fails for a wrong key or too much private data. Does not judge the revision.
    pub(crate) fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, FrameError> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        let kind = match raw.key {
            REQUEST_KEY => Kind::Request,
            REPLY_KEY => Kind::Reply,
            _ => return Err(FrameError::Key),
        };
        let pd_len = raw.pd_len.get();
        if usize::from(pd_len) > MAX_PRIVATE_DATA {
            return Err(FrameError::PrivateDataLength);
        }
        Ok(Header {
            kind,
            markers: raw.flags & MARKERS != 0,
            crc: raw.flags & CRC != 0,
            reject: raw.flags & REJECT != 0,
            enhanced: raw.flags & ENHANCED != 0 && raw.rev >= REV_2,
            large_fpdus: raw.flags & LARGE_FPDUS != 0,
            rev: raw.rev,
            pd_len,
        })
    }

    pub(crate) fn to_wire(self) -> [u8; HEADER_LEN] {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        zerocopy::transmute!(RawHeader {
            key: match self.kind {
                Kind::Request => REQUEST_KEY,
                Kind::Reply => REPLY_KEY,
            },
            flags: flag(self.markers, MARKERS)
                | flag(self.crc, CRC)
                | flag(self.reject, REJECT)
                | flag(self.enhanced, ENHANCED)
                | flag(self.large_fpdus, LARGE_FPDUS),
            rev: self.rev,
            pd_len: U16::new(self.pd_len),
        })
    }
}

/// Writes a whole frame into `out` and returns its length; sets `pd_len` and `enhanced` of
/// `header`. Fails if `out` is too small or the private data too long.
pub(crate) fn emit(
    mut header: Header,
    enhanced: Option<Enhanced>,
    private_data: &[u8],
    out: &mut [u8],
) -> Result<usize, Short> {
    let words = enhanced.map(Enhanced::to_wire);
    let words: &[u8] = words.as_ref().map_or(&[], |w| w);
    let pd_len = words.len().checked_add(private_data.len()).ok_or(Short)?;
    if pd_len > MAX_PRIVATE_DATA {
        return Err(Short);
    }
    header.pd_len = u16::try_from(pd_len).map_err(|_| Short)?;
    header.enhanced = enhanced.is_some();
    let total = HEADER_LEN.checked_add(pd_len).ok_or(Short)?;
    let out = out.get_mut(..total).ok_or(Short)?;
    let bytes = header.to_wire();
    for (to, from) in out
        .iter_mut()
        .zip(bytes.iter().chain(words).chain(private_data))
    {
        *to = *from;
    }
    Ok(total)
}

/// A set of ready-to-receive messages, each of length zero: Send (B), RDMA Write (C), RDMA Read
/// (D). In peer-to-peer mode the initiator sends one of them first (RFC 6581 section 9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RtrSet {
    pub(crate) send: bool,
    pub(crate) write: bool,
    pub(crate) read: bool,
}

impl RtrSet {
    pub(crate) const ALL: RtrSet = RtrSet {
        send: true,
        write: true,
        read: true,
    };

    #[must_use]
    pub(crate) const fn common(self, other: RtrSet) -> RtrSet {
        RtrSet {
            send: self.send && other.send,
            write: self.write && other.write,
            read: self.read && other.read,
        }
    }

    pub(crate) const fn is_empty(self) -> bool {
        !(self.send || self.write || self.read)
    }
}

/// The enhanced set-up words in front of the private data (RFC 6581 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enhanced {
    /// A: peer-to-peer mode, with these messages. Without A the other three bits mean nothing.
    pub(crate) peer_to_peer: Option<RtrSet>,
    /// Inbound Reads that the sender of the frame takes, 14 bits.
    pub(crate) ird: u16,
    /// Outbound Reads that the sender of the frame may have outstanding, 14 bits.
    pub(crate) ord: u16,
}

impl Enhanced {
    pub(crate) const fn parse(bytes: [u8; ENHANCED_LEN]) -> Self {
        let [a, b, c, d] = bytes;
        let first = u16::from_be_bytes([a, b]);
        let second = u16::from_be_bytes([c, d]);
        let set = RtrSet {
            send: first & 0x4000 != 0,
            write: second & 0x8000 != 0,
            read: second & 0x4000 != 0,
        };
        Enhanced {
            peer_to_peer: if first & 0x8000 != 0 { Some(set) } else { None },
            ird: first & NO_NEGOTIATION,
            ord: second & NO_NEGOTIATION,
        }
    }

    /// Returns the octets; depths that need more than 14 bits become [`NO_NEGOTIATION`].
    pub(crate) fn to_wire(self) -> [u8; ENHANCED_LEN] {
        let flag = |on: bool, bit: u16| if on { bit } else { 0 };
        let set = self.peer_to_peer.unwrap_or_default();
        let first = flag(self.peer_to_peer.is_some(), 0x8000) | flag(set.send, 0x4000);
        let second = flag(set.write, 0x8000) | flag(set.read, 0x4000);
        let [a, b] = (first | self.ird.min(NO_NEGOTIATION)).to_be_bytes();
        let [c, d] = (second | self.ord.min(NO_NEGOTIATION)).to_be_bytes();
        [a, b, c, d]
    }
}
