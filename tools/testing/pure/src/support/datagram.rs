// SPDX-License-Identifier: GPL-2.0

//! Packets of datagrams as hosts put them on the wire, and their ICRC by a description that is not
//! the driver's.

use super::crc::crc32;
use super::rng::Choices;
use crate::proto::by_number::Gid;
use crate::proto::datagram::{seal, ROOM_BEHIND, ROOM_IN_FRONT};
use crate::wire::roce::Headers;

pub(crate) const PORT: u16 = 4791;

/// Addresses of both families: from, to.
pub(crate) const V4: (Gid, Gid) = (mapped([192, 0, 2, 1]), mapped([198, 51, 100, 2]));
pub(crate) const V6: (Gid, Gid) = (global(0, 1), global(1, 2));

/// The GID of an IPv4 address.
pub(crate) const fn mapped([a, b, c, d]: [u8; 4]) -> Gid {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// An address of documentation.
const fn global(net: u8, host: u8) -> Gid {
    [
        0x20, 1, 0xd, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, host, //
    ]
}

/// A packet: its IP header, and all behind that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) ip: Vec<u8>,
    pub(crate) udp: Vec<u8>,
}

impl Packet {
    /// What Linux puts in front of the payload of UDP. Both addresses are of one family.
    pub(crate) fn of(from: &Gid, to: &Gid, payload: &[u8]) -> Self {
        let len = 8 + payload.len() as u16;
        let port = PORT.to_be_bytes();
        let is_v4 = from[..12] == mapped([0; 4])[..12];
        let ip = if is_v4 {
            let total = (20 + len).to_be_bytes();
            let front = [
                0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0xc5, 0xc6,
            ];
            [&front[..], &from[12..], &to[12..]].concat()
        } else {
            let len = len.to_be_bytes();
            let front = [0x60, 0, 0, 0, len[0], len[1], 17, 64];
            [&front[..], from, to].concat()
        };
        let udp = [&port[..], &port, &len.to_be_bytes(), &[0xc7, 0xc8], payload].concat();
        Self { ip, udp }
    }

    /// Splits the octets of a packet behind the header that its version says.
    #[cfg(test)]
    pub(crate) fn split(octets: &[u8]) -> Self {
        let len = if octets[0] >> 4 == 4 { 20 } else { 40 };
        let (ip, udp) = octets.split_at(len);
        Self {
            ip: ip.to_vec(),
            udp: udp.to_vec(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ip.len() + self.udp.len()
    }

    pub(crate) fn octet(&mut self, at: usize) -> &mut u8 {
        match at.checked_sub(self.ip.len()) {
            None => &mut self.ip[at],
            Some(at) => &mut self.udp[at],
        }
    }

    /// The bits of octet `at` that routers may change: DSCP and ECN, TTL and checksum of IPv4;
    /// traffic class, flow label and hop limit of IPv6; the checksum of UDP; the octet of the BTH
    /// for congestion.
    pub(crate) fn changeable(&self, at: usize) -> u8 {
        match (self.ip.len(), at) {
            (20, 1 | 8 | 10 | 11 | 26 | 27 | 32) => 0xff,
            (40, 0) => 0x0f,
            (40, 1..=3 | 7 | 46 | 47 | 52) => 0xff,
            _ => 0,
        }
    }

    /// What the last four octets ought to be.
    pub(crate) fn icrc(&self) -> [u8; 4] {
        let octets = [&self.ip[..], &self.udp].concat();
        let mut covered = vec![0xff; 8];
        for (at, octet) in octets[..octets.len() - 4].iter().enumerate() {
            covered.push(octet | self.changeable(at));
        }
        let mut crc = u32::MAX;
        for octet in covered {
            for bit in 0..8 {
                let carry = (crc ^ u32::from(octet >> bit)) & 1;
                crc = (crc >> 1) ^ (carry * 0xedb8_8320);
            }
        }
        (!crc).to_le_bytes()
    }

    /// Makes the last four octets right.
    pub(crate) fn set_icrc(&mut self) {
        let (icrc, len) = (self.icrc(), self.udp.len());
        self.udp[len - 4..].copy_from_slice(&icrc);
    }
}

/// The packet of a message, as the driver and the host make it.
pub(crate) fn sealed(message: &[u8], headers: Headers, (from, to): (Gid, Gid)) -> Option<Packet> {
    let mut room = vec![0xee; ROOM_IN_FRONT + message.len() + ROOM_BEHIND];
    room[ROOM_IN_FRONT..][..message.len()].copy_from_slice(message);
    let payload = seal(&mut room, message.len(), headers, (&from, &to), PORT, crc32)?;
    Some(Packet::of(&from, &to, payload))
}

/// Any headers for a message of this length.
pub(crate) fn any_headers(choices: &mut impl Choices, message_len: usize) -> Headers {
    let mut number = || {
        let [a, b, c, d] = [(); 4].map(|()| choices.bits() as u8);
        u32::from_be_bytes([a, b, c, d])
    };
    let (dest_qpn, psn, qkey, src_qpn) = (number(), number(), number(), number());
    let immediate = number().to_be_bytes();
    Headers {
        solicited: choices.one_in(2),
        pad: (message_len.wrapping_neg() % 4) as u8,
        dest_qpn: dest_qpn >> 8,
        psn: psn >> 8,
        qkey,
        src_qpn: src_qpn >> 8,
        immediate: choices.one_in(2).then_some(immediate),
    }
}
