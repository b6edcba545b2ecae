// SPDX-License-Identifier: GPL-2.0

//! Headers of datagrams, and their ICRC.

use crate::support::crc::crc32;
use crate::support::datagram::{any_headers, Packet, V4, V6};
use crate::support::rng::{Choices, Rng};
use crate::wire::roce::{
    Headers, Icrc, NoDatagram, GRH_LEN, ICRC_LEN, IPV4_LEN, IPV6_LEN, MAX_HEADERS, UDP_LEN,
};
use crate::wire::Short;

/// Packets that scapy 2.8.0 made of these fields, with its own ICRC, between ports 4791; its tests
/// show that it finds the ICRC that an adapter sent.
///
/// 192.0.2.1 to 198.51.100.2, DF, TTL 64; Send Only, solicited, pad 3, to 0x123456, PSN 0xabcdef,
/// Q_Key 0x11111111, from 0x654321, "datagrams".
pub(crate) const SCAPY_V4: &str = "
    45 00 00 40 00 00 40 00 40 11 4e 76 c0 00 02 01
    c6 33 64 02 12 b7 12 b7 00 2c 51 9f 64 f0 ff ff
    00 12 34 56 00 ab cd ef 11 11 11 11 00 65 43 21
    64 61 74 61 67 72 61 6d 73 00 00 00 e4 41 d5 d0";
/// 2001:db8::1 to 2001:db8:1::2, traffic class 2, flow label 0x12345, hop limit 63; Send Only with
/// immediate data 01020304, no pad, to 0x42, PSN 7, Q_Key 0x80010000, from 0x43, "datagram".
pub(crate) const SCAPY_V6: &str = "
    60 21 23 45 00 2c 11 3f 20 01 0d b8 00 00 00 00
    00 00 00 00 00 00 00 01 20 01 0d b8 00 01 00 00
    00 00 00 00 00 00 00 02 12 b7 12 b7 00 2c c6 0f
    65 40 ff ff 00 00 00 42 00 00 00 07 80 01 00 00
    00 00 00 43 01 02 03 04 64 61 74 61 67 72 61 6d
    f8 44 34 e7";

/// The packet that such lines show.
pub(crate) fn packet(lines: &str) -> Packet {
    let octets = lines.split_whitespace();
    let octets: Vec<u8> = octets
        .map(|octet| u8::from_str_radix(octet, 16).unwrap())
        .collect();
    Packet::split(&octets)
}

/// The headers of [`SCAPY_V4`] and [`SCAPY_V6`].
pub(crate) const HEADERS_V4: Headers = Headers {
    solicited: true,
    pad: 3,
    dest_qpn: 0x12_3456,
    psn: 0xab_cdef,
    qkey: 0x1111_1111,
    src_qpn: 0x65_4321,
    immediate: None,
};
pub(crate) const HEADERS_V6: Headers = Headers {
    solicited: false,
    pad: 0,
    dest_qpn: 0x42,
    psn: 7,
    qkey: 0x8001_0000,
    src_qpn: 0x43,
    immediate: Some([1, 2, 3, 4]),
};

/// What [`Headers::write`] writes.
fn written(headers: &Headers) -> Vec<u8> {
    let mut octets = vec![0; headers.len()];
    headers.write(&mut octets).unwrap();
    octets
}

/// Without and with immediate data.
fn both() -> [Vec<u8>; 2] {
    [written(&HEADERS_V4), written(&HEADERS_V6)]
}

#[test]
fn lengths_are_those_of_the_specification() {
    assert_eq!([HEADERS_V4.len(), HEADERS_V6.len()], [20, 24]);
    assert_eq!((MAX_HEADERS, ICRC_LEN, GRH_LEN), (24, 4, 40));
    assert_eq!((UDP_LEN, IPV4_LEN, IPV6_LEN), (8, 20, 40));
}

#[test]
fn headers_are_written_as_scapy_does() {
    for (lines, headers) in [(SCAPY_V4, HEADERS_V4), (SCAPY_V6, HEADERS_V6)] {
        let packet = packet(lines);
        let payload = &packet.udp[UDP_LEN..];
        let (octets, rest) = payload.split_at(headers.len());
        assert_eq!(written(&headers), octets);
        assert_eq!(Headers::parse(payload), Ok((headers, rest)));
    }
}

#[test]
fn headers_are_what_they_were() {
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let pad = rng.below(4);
        let headers = any_headers(&mut rng, pad);
        let len = headers.len();
        let rest = rng.below(9);
        let mut octets = rng.bytes(len + rest);
        let behind = octets[len..].to_vec();
        assert_eq!(headers.write(&mut octets), Ok(()));
        assert_eq!(Headers::parse(&octets), Ok((headers, &behind[..])));
    }
}

/// Numbers have 24 bits, and a pad has two.
#[test]
fn what_does_not_fit_is_left_out() {
    let headers = Headers {
        pad: 7,
        dest_qpn: 0xab12_3456,
        psn: 0xcdab_cdef,
        src_qpn: 0xef65_4321,
        ..HEADERS_V4
    };
    assert_eq!(written(&headers), written(&HEADERS_V4));
}

#[test]
fn headers_that_are_cut() {
    for octets in both() {
        for len in 0..octets.len() {
            assert_eq!(Headers::parse(&octets[..len]), Err(NoDatagram::Short));
        }
        assert!(Headers::parse(&octets).is_ok());
    }
    for headers in [HEADERS_V4, HEADERS_V6] {
        for len in 0..headers.len() {
            assert_eq!(headers.write(&mut vec![0; len]), Err(Short), "{len}");
        }
    }
}

/// Octets 4 and 16, the one with the request for an acknowledgement, and the migration state.
#[test]
fn what_means_nothing_is_ignored() {
    for octets in both() {
        let headers = Headers::parse(&octets).unwrap();
        for at in [4, 8, 16] {
            for value in 0..=u8::MAX {
                let mut octets = octets.clone();
                octets[at] = value;
                assert_eq!(Headers::parse(&octets), Ok(headers), "{at}: {value}");
            }
        }
        let mut octets = octets.clone();
        octets[1] ^= 0x40;
        assert_eq!(Headers::parse(&octets), Ok(headers));
    }
}

#[test]
fn versions_and_opcodes_of_others() {
    for octets in both() {
        for version in 1..16 {
            let mut octets = octets.clone();
            octets[1] |= version;
            assert_eq!(Headers::parse(&octets), Err(NoDatagram::Other));
        }
        for opcode in 0..=u8::MAX {
            let mut octets = octets.clone();
            octets[0] = opcode;
            let parsed = Headers::parse(&octets).map(|(headers, _)| headers.immediate.is_some());
            let wanted = match opcode {
                0x64 => Ok(false),
                0x65 if octets.len() < MAX_HEADERS => Err(NoDatagram::Short),
                0x65 => Ok(true),
                _ => Err(NoDatagram::Other),
            };
            assert_eq!(parsed, wanted, "{opcode:#x}");
        }
    }
}

/// The default partition only; both kinds of its members.
#[test]
fn partitions() {
    for mut octets in both() {
        for pkey in 0..=u16::MAX {
            octets[2..4].copy_from_slice(&pkey.to_be_bytes());
            let parsed = Headers::parse(&octets).map(drop);
            let wanted = match pkey {
                0xffff | 0x7fff => Ok(()),
                _ => Err(NoDatagram::Partition),
            };
            assert_eq!(parsed, wanted, "{pkey:#x}");
        }
    }
}

/// What the driver calculates for a packet; `len` octets are headers.
fn icrc(packet: &Packet, len: usize) -> Result<[u8; ICRC_LEN], Short> {
    let (udp, payload) = packet.udp.split_first_chunk().unwrap();
    let (payload, _) = payload.split_last_chunk::<ICRC_LEN>().unwrap();
    let (transport, message) = payload.split_at(len);
    let begun = Icrc::begin(crc32, &packet.ip, udp, transport)?;
    Ok(begun.end(message))
}

#[test]
fn crc_32_is_that_of_ethernet() {
    assert_eq!(!crc32(u32::MAX, b"123456789"), 0xcbf4_3926);
    let halves = crc32(crc32(u32::MAX, b"1234"), b"56789");
    assert_eq!(halves, crc32(u32::MAX, b"123456789"));
}

#[test]
fn icrc_is_that_of_scapy() {
    for (lines, headers) in [(SCAPY_V4, HEADERS_V4), (SCAPY_V6, HEADERS_V6)] {
        let packet = packet(lines);
        let wanted = *packet.udp.last_chunk().unwrap();
        assert_eq!(packet.icrc(), wanted);
        assert_eq!(icrc(&packet, headers.len()), Ok(wanted));
    }
}

/// Any octets, but for the version of IP.
fn any_packet(rng: &mut Rng) -> Packet {
    let (first, len) = match rng.one_in(2) {
        true => (0x40, IPV4_LEN),
        false => (0x60, IPV6_LEN),
    };
    let len = len + UDP_LEN + MAX_HEADERS + rng.below(80) + ICRC_LEN;
    let mut octets = rng.bytes(len);
    octets[0] = octets[0] & 0xf | first;
    Packet::split(&octets)
}

#[test]
fn icrc_of_any_packet() {
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let packet = any_packet(&mut rng);
        // Where the headers end does not matter.
        for len in 12..=MAX_HEADERS {
            assert_eq!(icrc(&packet, len), Ok(packet.icrc()), "seed {seed}");
        }
    }
}

/// Each bit that routers do not change, and no other. The version of IPv6 is not looked at.
#[test]
fn what_icrc_covers() {
    for seed in 0..20 {
        let packet = any_packet(&mut Rng::new(seed));
        let wanted = icrc(&packet, 20);
        let first = if packet.ip.len() == IPV6_LEN { 4 } else { 0 };
        for bit in first..8 * (packet.len() - ICRC_LEN) {
            let (at, bit) = (bit / 8, 1 << (7 - bit % 8));
            let mut other = packet.clone();
            *other.octet(at) ^= bit;
            let is_covered = packet.changeable(at) & bit == 0;
            assert_eq!(icrc(&other, 20) != wanted, is_covered, "{at}: {bit:#x}");
        }
    }
}

#[test]
fn icrc_of_what_is_no_packet() {
    let crc = |ip, transport| {
        let (ip, transport) = (vec![0x45; ip], vec![0; transport]);
        Icrc::begin(crc32, &ip, &[0; UDP_LEN], &transport).map(drop)
    };
    for len in 0..100 {
        let wanted = match len {
            IPV4_LEN | IPV6_LEN => Ok(()),
            _ => Err(Short),
        };
        assert_eq!(crc(len, 12), wanted, "{len}");
    }
    for len in 0..12 {
        assert_eq!(crc(IPV4_LEN, len), Err(Short), "{len}");
    }
}

/// The packets of the support are as Linux makes them.
#[test]
fn packets_of_the_support() {
    for (lines, (from, to)) in [(SCAPY_V4, V4), (SCAPY_V6, V6)] {
        let wanted = packet(lines);
        let mut made = Packet::of(&from, &to, &wanted.udp[UDP_LEN..]);
        for at in 0..made.len() {
            let changeable = made.changeable(at);
            *made.octet(at) &= !changeable;
            let wanted = *wanted.clone().octet(at) & !changeable;
            assert_eq!(*made.octet(at), wanted, "{at}");
        }
        assert_eq!(made.len(), wanted.len());
    }
}
