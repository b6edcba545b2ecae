// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams of RoCEv2, in UDP (InfiniBand Architecture Specification, volume 1, chapter
//! 9 and annex A17): the base transport header (BTH) and that of datagrams (DETH), the global route
//! header (GRH) that a receiver finds in front of a message, and the invariant CRC (ICRC). Any
//! context; the caller brings the CRC-32 function.
//!
//! The ICRC covers what routers do not change. It begins with eight octets of ones, which stand for
//! InfiniBand's link header. The IP header, the UDP header and the BTH follow, with ones in the
//! place of what routers may change, then all that is behind, the pad included.
#![forbid(unsafe_code)]

use super::Short;
use zerocopy::byteorder::big_endian::{
    U16,
    U32, //
};
use zerocopy::FromBytes as _;
use zerocopy::IntoBytes as _;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
const IMMEDIATE_LEN: usize = 4;
/// Octets of the longest headers of a datagram: with immediate data.
pub(crate) const MAX_HEADERS: usize = BTH_LEN + DETH_LEN + IMMEDIATE_LEN;
pub(crate) const ICRC_LEN: usize = 4;
pub(crate) const GRH_LEN: usize = 40;
/// What the GRH has in the place of a protocol's number.
pub(crate) const GRH_NEXT: u8 = 0x1b;
pub(crate) const UDP_LEN: usize = 8;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;
/// The protocol number of UDP.
pub(crate) const UDP: u8 = 17;

/// A message in one packet, without and with immediate data.
const SEND_ONLY: u8 = 0x64;
const SEND_ONLY_IMMEDIATE: u8 = 0x65;

const SOLICITED: u8 = 1 << 7;
/// InfiniBand's migration state: migrated, as where there is no alternate path.
const MIGRATED: u8 = 1 << 6;
/// The version of the transport headers.
const VERSION_MASK: u8 = 0xf;
/// The partition of all ports, as a full member.
const DEFAULT_PKEY: u16 = 0xffff;
/// Whether a member is a full one does not matter here.
const PKEY_MASK: u16 = 0x7fff;
const MASK_24: u32 = 0xff_ffff;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeaders {
    opcode: u8,
    /// Flags, octets of pad, version.
    flags: u8,
    pkey: U16,
    /// The octet that routers may change, and the number of the QP.
    dest_qpn: U32,
    psn: U32,
    qkey: U32,
    src_qpn: U32,
}

const _: () = assert!(size_of::<RawHeaders>() == BTH_LEN + DETH_LEN);

/// The headers of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// The receiver is to raise an event.
    pub(crate) solicited: bool,
    /// Octets between message and ICRC, at most 3.
    pub(crate) pad: u8,
    pub(crate) dest_qpn: u32,
    pub(crate) psn: u32,
    pub(crate) qkey: u32,
    pub(crate) src_qpn: u32,
    /// The octets as on the wire.
    pub(crate) immediate: Option<[u8; IMMEDIATE_LEN]>,
}

/// Why octets are no headers of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDatagram {
    Short,
    /// The packet is of another kind.
    Other,
    /// The packet belongs to another partition than the default one.
    Partition,
}

impl From<Short> for NoDatagram {
    fn from(_: Short) -> Self {
        Self::Short
    }
}

impl Headers {
    /// Reads the headers, and returns them with what is behind.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), NoDatagram> {
        let (raw, rest) = RawHeaders::read_from_prefix(bytes).map_err(|_| Short)?;
        let (immediate, rest) = match raw.opcode {
            SEND_ONLY => (None, rest),
            SEND_ONLY_IMMEDIATE => {
                let (data, rest) = rest.split_first_chunk().ok_or(Short)?;
                (Some(*data), rest)
            }
            _ => return Err(NoDatagram::Other),
        };
        if raw.flags & VERSION_MASK != 0 {
            return Err(NoDatagram::Other);
        }
        if raw.pkey.get() & PKEY_MASK != DEFAULT_PKEY & PKEY_MASK {
            return Err(NoDatagram::Partition);
        }
        let headers = Self {
            solicited: raw.flags & SOLICITED != 0,
            pad: (raw.flags >> 4) & 3,
            dest_qpn: raw.dest_qpn.get() & MASK_24,
            psn: raw.psn.get() & MASK_24,
            qkey: raw.qkey.get(),
            src_qpn: raw.src_qpn.get() & MASK_24,
            immediate,
        };
        Ok((headers, rest))
    }

    /// Returns how many octets [`Headers::write`] writes.
    pub(crate) const fn len(&self) -> usize {
        match self.immediate {
            Some(_) => MAX_HEADERS,
            None => BTH_LEN + DETH_LEN,
        }
    }

    /// Writes the headers to the beginning of `to`.
    pub(crate) fn write(&self, to: &mut [u8]) -> Result<(), Short> {
        let raw = RawHeaders {
            opcode: match self.immediate {
                Some(_) => SEND_ONLY_IMMEDIATE,
                None => SEND_ONLY,
            },
            flags: MIGRATED | ((self.pad & 3) << 4) | if self.solicited { SOLICITED } else { 0 },
            pkey: U16::new(DEFAULT_PKEY),
            dest_qpn: U32::new(self.dest_qpn & MASK_24),
            psn: U32::new(self.psn & MASK_24),
            qkey: U32::new(self.qkey),
            src_qpn: U32::new(self.src_qpn & MASK_24),
        };
        let rest = raw.write_to_prefix(to).map(|()| to).map_err(|_| Short)?;
        match (self.immediate, rest.get_mut(size_of::<RawHeaders>()..)) {
            (Some(data), Some(rest)) => data.write_to_prefix(rest).map_err(|_| Short),
            _ => Ok(()),
        }
    }
}

/// Which octets of a header routers may change. Those are all ones for the ICRC.
const IPV4_CHANGES: [usize; 4] = [1, 8, 10, 11];
const UDP_CHECKSUM: [usize; 2] = [6, 7];
const BTH_CHANGES: [usize; 1] = [4];
/// Traffic class, flow label and hop limit. The first octet also has the version, which stays.
const IPV6_CHANGES: [usize; 4] = [1, 2, 3, 7];
const IPV6_FIRST: u8 = 0x6f;

/// Copies `from` to the beginning of `to`, with ones at `places`.
fn mask(to: &mut [u8], from: &[u8], places: &[usize]) -> Result<(), Short> {
    from.write_to_prefix(to).map_err(|_| Short)?;
    for place in places {
        *to.get_mut(*place).ok_or(Short)? = 0xff;
    }
    Ok(())
}

/// An ICRC that is being calculated.
pub(crate) struct Icrc<F> {
    crc32: F,
    crc: u32,
}

impl<F: Fn(u32, &[u8]) -> u32> Icrc<F> {
    /// Begins with the headers in front of the message: `ip` without options or extensions, `udp`
    /// and the others in `transport`. `crc32` continues a CRC-32, as Ethernet has it, without
    /// inverting it at the beginning or at the end.
    pub(crate) fn begin(
        crc32: F,
        ip: &[u8],
        udp: &[u8; UDP_LEN],
        transport: &[u8],
    ) -> Result<Self, Short> {
        let mut link = [0xff; 8];
        let mut crc = crc32(u32::MAX, &link);
        let mut room = [0; IPV6_LEN];
        let room = room.get_mut(..ip.len()).ok_or(Short)?;
        match ip.len() {
            IPV4_LEN => mask(room, ip, &IPV4_CHANGES)?,
            IPV6_LEN => {
                mask(room, ip, &IPV6_CHANGES)?;
                *room.first_mut().ok_or(Short)? = IPV6_FIRST;
            }
            _ => return Err(Short),
        }
        crc = crc32(crc, room);
        mask(&mut link, udp, &UDP_CHECKSUM)?;
        crc = crc32(crc, &link);
        let mut bth = [0; BTH_LEN];
        let (first, rest) = transport.split_first_chunk::<BTH_LEN>().ok_or(Short)?;
        mask(&mut bth, first, &BTH_CHANGES)?;
        crc = crc32(crc, &bth);
        crc = crc32(crc, rest);
        Ok(Self { crc32, crc })
    }

    /// Goes on with the message and its pad, and returns the ICRC as on the wire.
    pub(crate) fn end(self, message: &[u8]) -> [u8; ICRC_LEN] {
        (!(self.crc32)(self.crc, message)).to_le_bytes()
    }
}
