// SPDX-License-Identifier: GPL-2.0

//! Datagrams as they are sent and received, and the states of a queue pair for them.

use super::roce::{packet, HEADERS_V4, HEADERS_V6, SCAPY_V4, SCAPY_V6};
use crate::proto::by_number::Gid;
use crate::proto::datagram::{
    longest_message, qkey, seal, Datagram, Discard, UdAttrs, UdState, LONGEST_MESSAGE, ROOM_BEHIND,
    ROOM_IN_FRONT,
};
use crate::support::crc::crc32;
use crate::support::datagram::{any_headers, mapped, sealed, Packet, PORT, V4, V6};
use crate::support::rng::{Choices, Rng};
use crate::wire::roce::{NoDatagram, GRH_LEN};

fn parse(packet: &Packet) -> Result<Datagram<'_>, Discard> {
    Datagram::parse(&packet.ip, &packet.udp, crc32)
}

/// Random addresses of one family.
fn any_addresses(rng: &mut Rng) -> (Gid, Gid) {
    let mut gid = || -> Gid { rng.bytes(16).try_into().unwrap() };
    let (from, to) = (gid(), gid());
    match rng.one_in(2) {
        true => (from, to),
        false => (
            mapped(*from.last_chunk().unwrap()),
            mapped(*to.last_chunk().unwrap()),
        ),
    }
}

#[test]
fn a_datagram_is_what_it_was() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let len = match seed {
            0..200 => seed as usize % 10,
            200..210 => LONGEST_MESSAGE as usize,
            _ => rng.below(700),
        };
        let (message, addresses) = (rng.bytes(len), any_addresses(&mut rng));
        let headers = any_headers(&mut rng, len);
        let packet = sealed(&message, headers, addresses).expect("it fits");
        assert_eq!(packet.udp.len() % 4, 0);
        assert_eq!(packet.udp.last_chunk(), Some(&packet.icrc()));
        let pad = usize::from(headers.pad);
        let end = packet.udp.len() - 4;
        assert!(packet.udp[end - pad..end].iter().all(|octet| *octet == 0));
        let datagram = parse(&packet).expect("a datagram");
        assert_eq!(datagram.headers, headers, "seed {seed}");
        assert_eq!(datagram.message, message);
        assert_eq!(datagram.grh[8..24], addresses.0);
        assert_eq!(datagram.grh[24..], addresses.1);
        assert_eq!(datagram.len() as usize, GRH_LEN + len);
    }
}

/// Fragments of IP may make a packet that no interface sends in one piece.
#[test]
fn a_message_is_longer_than_any_mtu() {
    let most = LONGEST_MESSAGE as usize;
    for (len, is_taken) in [
        (most - 1, true),
        (most, true),
        (most + 1, false),
        (60_000, false),
    ] {
        let packet = sealed(&vec![7; len], HEADERS_V6, V6).expect("it fits");
        let parsed = parse(&packet).map(|datagram| datagram.message.len());
        match is_taken {
            true => assert_eq!(parsed, Ok(len)),
            false => assert_eq!(parsed, Err(Discard::Malformed)),
        }
    }
}

/// The pad is that of the message, whatever the headers say.
#[test]
fn a_message_is_padded() {
    for len in 0..9u8 {
        for pad in 0..=u8::MAX {
            let mut headers = HEADERS_V4;
            headers.pad = pad;
            let packet = sealed(&vec![1; len.into()], headers, V4).unwrap();
            headers.pad = len.wrapping_neg() % 4;
            assert_eq!(parse(&packet).map(|datagram| datagram.headers), Ok(headers));
        }
    }
}

#[test]
fn what_is_sealed_is_what_scapy_makes() {
    for (lines, headers, addresses, message) in [
        (SCAPY_V4, HEADERS_V4, V4, &b"datagrams"[..]),
        (SCAPY_V6, HEADERS_V6, V6, b"datagram"),
    ] {
        let wanted = packet(lines);
        let made = sealed(message, headers, addresses).unwrap();
        assert_eq!(made.udp[8..], wanted.udp[8..]);
        let datagram = parse(&wanted).expect("a datagram");
        assert_eq!((datagram.headers, datagram.message), (headers, message));
    }
}

/// Only what is in front of the message and behind it is written, as far as it is needed.
#[test]
fn the_rest_of_the_room_stays() {
    assert_eq!((ROOM_IN_FRONT, ROOM_BEHIND), (24, 7));
    for (headers, unused) in [(HEADERS_V4, 4), (HEADERS_V6, 0)] {
        for len in 0..9 {
            let mut room = vec![0xee; ROOM_IN_FRONT + len + ROOM_BEHIND + 5];
            let sealed = seal(&mut room, len, headers, (&V4.0, &V4.1), PORT, crc32).unwrap();
            let used = sealed.len();
            assert_eq!(used, ROOM_IN_FRONT - unused + len.next_multiple_of(4) + 4);
            assert_eq!(room[..unused], [0xee; 4][..unused]);
            assert!(room[ROOM_IN_FRONT..][..len].iter().all(|o| *o == 0xee));
            assert!(room[unused + used..].iter().all(|octet| *octet == 0xee));
        }
    }
}

#[test]
fn messages_that_are_too_long_for_the_room() {
    let addresses = (&V6.0, &V6.1);
    for len in 0..9usize {
        let enough = ROOM_IN_FRONT + len.next_multiple_of(4) + 4;
        for room in 0..enough + 5 {
            let mut room = vec![0; room];
            let fits = room.len() >= enough;
            let sealed = seal(&mut room, len, HEADERS_V4, addresses, PORT, crc32);
            assert_eq!(sealed.is_some(), fits);
        }
    }
    for len in usize::MAX - 40..=usize::MAX {
        let mut room = [0; 100];
        let sealed = seal(&mut room, len, HEADERS_V4, addresses, PORT, crc32);
        assert_eq!(sealed, None);
    }
}

/// IP tells lengths with 16 bits: for IPv4, its own header counts.
#[test]
fn messages_that_are_too_long_for_ip() {
    for (addresses, longest) in [(V4, 65_480), (V6, 65_500)] {
        assert!(sealed(&vec![1; longest], HEADERS_V4, addresses).is_some());
        assert!(sealed(&vec![1; longest + 1], HEADERS_V4, addresses).is_none());
        assert!(sealed(&vec![1; 70_000], HEADERS_V4, addresses).is_none());
    }
}

#[test]
fn addresses_of_different_families() {
    assert_eq!(sealed(b"", HEADERS_V4, (V4.0, V6.1)), None);
    assert_eq!(sealed(b"", HEADERS_V4, (V6.0, V4.1)), None);
    // All of the prefix tells.
    for at in 0..12 {
        let mut other = V4.1;
        other[at] ^= 1;
        assert_eq!(sealed(b"", HEADERS_V4, (V4.0, other)), None);
    }
}

/// What else a bit makes of a packet.
fn refusal(packet: &Packet, at: usize, bit: u8) -> Option<Discard> {
    let ip = packet.ip.len();
    match (ip, at, bit) {
        _ if packet.changeable(at) & bit != 0 => None,
        // Version, length of the header, fragment, next header.
        (20, 0 | 9, _) | (40, 0 | 6, _) => Some(Discard::Malformed),
        (20, 6, 0x01..=0x20) | (20, 7, _) => Some(Discard::Malformed),
        // Opcode, but for the one of the two that makes the other one, version, partition.
        _ if at == ip + 8 && bit != 1 => Some(Discard::Malformed),
        _ if at == ip + 9 && bit < 0x10 => Some(Discard::Malformed),
        _ if at == ip + 10 && bit < 0x80 => Some(Discard::Malformed),
        _ if at == ip + 11 => Some(Discard::Malformed),
        _ => Some(Discard::Icrc),
    }
}

#[test]
fn each_bit_that_is_damaged() {
    for (seed, addresses) in (0..12).zip([V4, V6].into_iter().cycle()) {
        let mut rng = Rng::new(seed);
        // Not so short that an immediate may not be there.
        let message = rng.bytes(4 + seed as usize);
        let headers = any_headers(&mut rng, message.len());
        let packet = sealed(&message, headers, addresses).unwrap();
        for bit in 0..8 * packet.len() {
            let (at, bit) = (bit / 8, 1 << (bit % 8));
            let mut other = packet.clone();
            *other.octet(at) ^= bit;
            let refusal = refusal(&packet, at, bit);
            assert_eq!(parse(&other).err(), refusal, "seed {seed}: {at}, {bit:#x}");
        }
    }
}

/// Returns whether a packet became another one, beside what routers may change.
fn is_damaged(packet: &Packet, was: &Packet) -> bool {
    let octets = |packet: &Packet| [&packet.ip[..], &packet.udp].concat();
    let both = octets(packet).into_iter().zip(octets(was)).enumerate();
    let mut differences = both.map(|(at, (is, was))| (is ^ was) & !packet.changeable(at));
    differences.any(|bits| bits != 0)
}

/// Some octets are other ones. One of 2^32 such packets would pass; of these, none does.
#[test]
fn what_is_damaged_in_many_places() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let len = rng.below(40);
        let (message, addresses) = (rng.bytes(len), any_addresses(&mut rng));
        let headers = any_headers(&mut rng, message.len());
        let was = sealed(&message, headers, addresses).unwrap();
        let mut packet = was.clone();
        for _ in 0..=rng.below(6) {
            let (at, bits) = (rng.below(packet.len()), rng.bits() as u8);
            *packet.octet(at) ^= bits;
        }
        match parse(&packet) {
            Ok(same) => {
                assert_eq!((same.headers, same.message), (headers, &message[..]));
                assert!(!is_damaged(&packet, &was), "seed {seed}");
            }
            Err(why) => {
                assert!(matches!(why, Discard::Icrc | Discard::Malformed));
                assert!(is_damaged(&packet, &was), "seed {seed}");
            }
        }
    }
}

#[test]
fn packets_that_are_cut() {
    for (headers, addresses) in [(HEADERS_V4, V4), (HEADERS_V6, V6), (HEADERS_V6, V4)] {
        let whole = sealed(b"message", headers, addresses).unwrap();
        for len in 0..whole.ip.len() {
            let parsed = Datagram::parse(&whole.ip[..len], &whole.udp, crc32);
            assert_eq!(parsed, Err(Discard::Malformed), "{len}");
        }
        for len in 0..whole.udp.len() {
            let mut cut = whole.clone();
            cut.udp.truncate(len);
            let least = 8 + headers.len() + 4;
            let wanted = match len >= least && len % 4 == 0 {
                true => Discard::Icrc,
                false => Discard::Malformed,
            };
            assert_eq!(parse(&cut), Err(wanted), "{len}");
        }
    }
}

/// The caller may hand over all of a packet for its IP header.
#[test]
fn what_follows_the_ip_header_does_not_matter() {
    for addresses in [V4, V6] {
        let packet = sealed(b"message", HEADERS_V4, addresses).unwrap();
        let all = [&packet.ip[..], &packet.udp].concat();
        let parsed = Datagram::parse(&all, &packet.udp, crc32);
        assert_eq!(parsed, parse(&packet));
        assert!(parsed.is_ok());
    }
}

/// Changes octets of a packet, and makes its ICRC right again.
fn changed(addresses: (Gid, Gid), octets: &[(usize, u8)]) -> Packet {
    let mut packet = sealed(b"message", HEADERS_V4, addresses).unwrap();
    for (at, octet) in octets {
        *packet.octet(*at) = *octet;
    }
    packet.set_icrc();
    packet
}

fn only_udp(next: u8) -> Result<(), Discard> {
    match next {
        17 => Ok(()),
        _ => Err(Discard::Malformed),
    }
}

/// A packet of IPv4 and UDP without options.
#[test]
fn other_packets_of_ipv4() {
    for first in 0..=u8::MAX {
        let packet = changed(V4, &[(0, first)]);
        assert_eq!(parse(&packet).is_ok(), first == 0x45, "{first:#x}");
    }
    let mut options = changed(V4, &[(0, 0x46)]);
    options.ip.extend([1; 4]);
    assert_eq!(parse(&options), Err(Discard::Malformed));
    for next in 0..=u8::MAX {
        let parsed = parse(&changed(V4, &[(9, next)])).map(drop);
        assert_eq!(parsed, only_udp(next), "{next}");
    }
    // Other hosts may number their packets.
    let numbered = changed(V4, &[(4, 0x12), (5, 0x34)]);
    assert!(parse(&numbered).is_ok());
}

#[test]
fn fragments_of_ipv4() {
    // Others follow, or others are in front. What says that there are none may, and may not.
    for (octets, is_whole) in [
        (0x0000_u16, true),
        (0x4000, true),
        (0x2000, false),
        (0x6000, false),
        (0x0001, false),
        (0x4080, false),
        (0x0100, false),
        (0x1000, false),
    ] {
        let [high, low] = octets.to_be_bytes();
        let packet = changed(V4, &[(6, high), (7, low)]);
        let parsed = parse(&packet).map(drop);
        let wanted = is_whole.then_some(()).ok_or(Discard::Malformed);
        assert_eq!(parsed, wanted, "{octets:#x}");
    }
}

/// No extensions, of which the header of a fragment is one.
#[test]
fn other_packets_of_ipv6() {
    for first in (0..=u8::MAX).step_by(0x10) {
        let packet = changed(V6, &[(0, first)]);
        assert_eq!(parse(&packet).is_ok(), first == 0x60, "{first:#x}");
    }
    for next in 0..=u8::MAX {
        let parsed = parse(&changed(V6, &[(6, next)])).map(drop);
        assert_eq!(parsed, only_udp(next), "{next}");
    }
}

/// A sender says that there is more pad than there are octets.
#[test]
fn a_pad_that_is_longer_than_the_rest() {
    for len in 0..8u8 {
        for pad in 0..4u8 {
            let mut packet = sealed(&vec![7; len.into()], HEADERS_V4, V4).unwrap();
            let padded = usize::from(len.next_multiple_of(4));
            packet.udp[9] = packet.udp[9] & !0x30 | (pad << 4);
            packet.set_icrc();
            let parsed = parse(&packet).map(|datagram| datagram.message.len());
            let wanted = padded.checked_sub(pad.into());
            assert_eq!(parsed, wanted.ok_or(Discard::Malformed));
        }
    }
    // A sender that does not pad.
    let mut odd = sealed(b"message", HEADERS_V4, V4).unwrap();
    odd.udp[9] &= !0x30;
    odd.udp.remove(8 + 20 + 7);
    odd.set_icrc();
    assert_eq!(parse(&odd), Err(Discard::Malformed));
}

/// IPv4 in the form of IPv6: what the header says, and the length of all behind it.
#[test]
fn the_grh_of_ipv4() {
    let packet = packet(SCAPY_V4);
    let mut marked = packet.clone();
    (marked.ip[1], marked.ip[8]) = (0xa7, 9);
    for (packet, start) in [
        (packet, [0x60, 0, 0, 0, 0, 44, 0x1b, 64]),
        (marked, [0x6a, 0x70, 0, 0, 0, 44, 0x1b, 9]),
    ] {
        let grh = parse(&packet).expect("a datagram").grh;
        let (from, to) = V4;
        assert_eq!(grh[..], [&start[..], &from, &to].concat());
    }
}

#[test]
fn the_grh_of_ipv6() {
    let packet = packet(SCAPY_V6);
    let grh = parse(&packet).expect("a datagram").grh;
    let start = [0x60, 0x21, 0x23, 0x45, 0, 44, 0x1b, 63];
    let (from, to) = V6;
    assert_eq!(grh[..], [&start[..], &from, &to].concat());
}

#[test]
fn no_headers_are_no_datagram() {
    for why in [NoDatagram::Short, NoDatagram::Other, NoDatagram::Partition] {
        assert_eq!(Discard::from(why), Discard::Malformed);
    }
}

/// Rows: from; columns: to.
#[test]
fn steps_between_states() {
    use UdState::{Error, Init, Reset, Rtr, Rts};
    let states = [Reset, Init, Rtr, Rts, Error];
    let table = [
        [true, true, false, false, true],
        [true, true, true, false, true],
        [true, false, false, true, true],
        [true, false, false, true, true],
        [true, false, false, false, true],
    ];
    for (from, row) in states.into_iter().zip(table) {
        for (to, wanted) in states.into_iter().zip(row) {
            assert_eq!(from.leads_to(to), wanted, "{from:?} to {to:?}");
        }
    }
    let receives = states.map(UdState::receives);
    assert_eq!(receives, [false, false, true, true, false]);
}

/// State and Q_Key are read at once, and are those that were written. What is no state is an error.
#[test]
fn attributes_in_one_word() {
    use UdState::{Error, Init, Reset, Rtr, Rts};
    let (state, qkey) = (Reset, 0);
    assert_eq!(UdAttrs::NEW, UdAttrs { state, qkey });
    for state in [Reset, Init, Rtr, Rts, Error] {
        for qkey in [0, 1, 0x1111_1111, 1 << 31, u32::MAX] {
            let attrs = UdAttrs { state, qkey };
            assert_eq!(UdAttrs::of_word(attrs.to_word()), attrs);
        }
    }
    assert_eq!(UdAttrs::of_word(u64::MAX).state, Error);
}

#[test]
fn a_qkey_with_the_highest_bit_is_the_own_one() {
    for own in [0, 7, 0x8000_0001, u32::MAX] {
        for asked in [0, 1, 0x1111_1111, 0x7fff_ffff] {
            assert_eq!(qkey(asked, own), asked);
            assert_eq!(qkey(asked | (1 << 31), own), own);
        }
    }
}

/// The longest MTU of InfiniBand that fits with 80 octets of headers; 256 in any case.
#[test]
fn longest_messages() {
    for (mtu, wanted) in [
        (0, 256),
        (79, 256),
        (255, 256),
        (336, 256),
        (591, 256),
        (592, 512),
        (1_103, 512),
        (1_104, 1_024),
        (1_280, 1_024),
        (1_500, 1_024),
        (2_127, 1_024),
        (2_128, 2_048),
        (4_175, 2_048),
        (4_176, 4_096),
        (9_000, 4_096),
        (65_536, 4_096),
        (u32::MAX, 4_096),
    ] {
        assert_eq!(longest_message(mtu), wanted, "{mtu}");
    }
    // With IPv6, immediate data and a pad, the longest of all fits.
    let packet = sealed(&[1; 4_096], HEADERS_V6, V6).unwrap();
    assert!(packet.len() <= 4_176);
}
