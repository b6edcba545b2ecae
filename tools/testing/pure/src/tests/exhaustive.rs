// SPDX-License-Identifier: GPL-2.0

//! The parsers of `wire/`, for all values of what they decide on and all lengths.
//!
//! What decides is small: flags, versions, opcodes and lengths, each within 16 bits. All values are
//! tried, against what the figures of the RFCs say, written here a second time. What does not
//! decide is only carried over: every octet is tried with every value, in front of three
//! backgrounds, and has to be found in its own field and in no other.

use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::{self, Header};
use crate::wire::fpdu::{Markers, LARGE_SEGMENT};
use crate::wire::mpa::{self, Enhanced, FrameError, Kind};
use crate::wire::rdmap::{self, Opcode, ReadRequest};
use crate::wire::terminate::{Quoted, Received};

const BACKGROUNDS: [u8; 3] = [0, 0xff, 0xa5];

/// A field: its octets in the header, and its value as the parser gives it.
type Field<'a, T> = (std::ops::Range<usize>, &'a dyn Fn(&T) -> u64);

/// Every octet of `N` with every value is found in its field, and nowhere else. `fix` sets what the
/// parser decides on.
fn carried_over<const N: usize, T>(
    fix: impl Fn(&mut [u8; N]),
    parse: impl Fn(&[u8]) -> Option<T>,
    fields: &[Field<'_, T>],
) {
    for background in BACKGROUNDS {
        for place in 0..N {
            for value in 0..=u8::MAX {
                let mut bytes = [background; N];
                bytes[place] = value;
                fix(&mut bytes);
                let parsed = parse(&bytes).unwrap();
                for (range, get) in fields {
                    let want = bytes[range.clone()]
                        .iter()
                        .fold(0, |sum, &octet| (sum << 8) | u64::from(octet));
                    assert_eq!(get(&parsed), want, "{range:?} of {bytes:02x?}");
                }
            }
        }
        // Cut short anywhere, there is nothing; with more behind it, the same.
        let mut bytes = [background; N];
        fix(&mut bytes);
        for len in 0..N {
            assert!(parse(&bytes[..len]).is_none(), "{len} of {N} octets");
        }
        for more in 0..64 {
            let longer = [&bytes[..], &vec![background; more]].concat();
            assert!(parse(&longer).is_some());
        }
    }
}

fn frame(key: &[u8; 16], flags: u8, rev: u8, pd_len: u16) -> [u8; mpa::HEADER_LEN] {
    let mut bytes = [0; mpa::HEADER_LEN];
    bytes[..16].copy_from_slice(key);
    bytes[16..18].copy_from_slice(&[flags, rev]);
    bytes[18..].copy_from_slice(&pd_len.to_be_bytes());
    bytes
}

/// M-MPA-20, M-MPA-25, M-MPA-27: RFC 5044 section 7.1.1 and RFC 6581 section 4; all flags of all
/// revisions, all lengths.
#[test]
fn m_mpa_20_25_27_frames() {
    let keys = [
        (b"MPA ID Req Frame", Kind::Request),
        (b"MPA ID Rep Frame", Kind::Reply),
    ];
    for (key, kind) in keys {
        for flags in 0..=u8::MAX {
            for rev in 0..=u8::MAX {
                let bit = |number: u8| flags & (0x80 >> number) != 0;
                let header = mpa::Header::parse(&frame(key, flags, rev, 7)).unwrap();
                let want = mpa::Header {
                    kind,
                    markers: bit(0),
                    crc: bit(1),
                    reject: bit(2),
                    enhanced: bit(3) && rev >= 2,
                    large_fpdus: bit(4),
                    rev,
                    pd_len: 7,
                };
                assert_eq!(header, want);
                // The bits without a meaning are zero on the wire.
                let sent = flags & if rev >= 2 { 0xf8 } else { 0xe8 };
                assert_eq!(header.to_wire(), frame(key, sent, rev, 7));
            }
        }
        for pd_len in 0..=u16::MAX {
            let parsed = mpa::Header::parse(&frame(key, 0, 1, pd_len));
            match pd_len {
                0..=512 => assert_eq!(parsed.unwrap().pd_len, pd_len),
                _ => assert_eq!(parsed, Err(FrameError::PrivateDataLength)),
            }
        }
        for place in 0..16 {
            for value in 0..=u8::MAX {
                let mut other = *key;
                other[place] = value;
                let is_key = keys.iter().any(|(key, _)| **key == other);
                assert_eq!(mpa::Header::parse(&frame(&other, 0, 1, 0)).is_ok(), is_key);
            }
        }
    }
}

/// X-ENH-1: RFC 6581 section 6: both words of the enhanced set-up, all values of each beside all
/// bits of the other that mean something together with it.
#[test]
fn x_enh_1_words() {
    let check = |first: u16, second: u16| {
        let [a, b] = first.to_be_bytes();
        let [c, d] = second.to_be_bytes();
        let parsed = Enhanced::parse([a, b, c, d]);
        assert_eq!(parsed.peer_to_peer.is_some(), (first >> 15) == 1);
        if let Some(set) = parsed.peer_to_peer {
            assert_eq!(set.send, (first >> 14) & 1 == 1);
            assert_eq!(set.write, (second >> 15) == 1);
            assert_eq!(set.read, (second >> 14) & 1 == 1);
            assert_eq!(parsed.to_wire(), [a, b, c, d]);
        }
        assert_eq!(parsed.ird, first % 0x4000);
        assert_eq!(parsed.ord, second % 0x4000);
    };
    for word in 0..=u16::MAX {
        for bits in 0..4 {
            for low in [0, 1, 0x3fff] {
                check(word, (bits << 14) | low);
                check((bits << 14) | low, word);
            }
        }
    }
}

/// D-DDP-1, P-RDMAP-1: both control octets, all values, at all lengths up to 64 (RFC 5041 section
/// 4.1, RFC 5040 section 4.1).
#[test]
fn d_ddp_1_p_rdmap_1_control() {
    for ddp in 0..=u8::MAX {
        let control = ddp::Control(ddp);
        let tagged = ddp & 0x80 != 0;
        let want = if tagged { 14 } else { 18 };
        assert_eq!(control.tagged(), tagged);
        assert_eq!(control.last(), ddp & 0x40 != 0);
        assert_eq!(control.version(), ddp % 4);
        assert_eq!(control.header_len(), want);
        for rdmap in 0..=u8::MAX {
            for len in 0..=64 {
                let mut bytes = vec![0x5a; len];
                bytes
                    .iter_mut()
                    .zip([ddp, rdmap])
                    .for_each(|(to, from)| *to = from);
                let parsed = Header::parse(&bytes);
                assert_eq!(parsed.is_some(), len >= want);
                let Some((header, rest)) = parsed else {
                    continue;
                };
                assert_eq!(matches!(header, Header::Tagged(_)), tagged);
                assert_eq!((header.control(), header.rdmap()), (control, rdmap));
                assert_eq!(rest, &bytes[want..]);
            }
        }
    }
    for rdmap in 0..=u8::MAX {
        let control = rdmap::Control(rdmap);
        assert_eq!(control.version(), rdmap / 64);
        // RFC 5040 figure 3, RFC 7306 figure 2; and two of ours.
        let assigned = rdmap % 16 <= 13;
        assert_eq!(control.opcode().is_some(), assigned);
        if let Some(opcode) = control.opcode() {
            assert_eq!(opcode as u8, rdmap % 16);
            assert_eq!(rdmap::Control::new(opcode).0, 0x40 | (rdmap % 16));
            assert_eq!(opcode.tagged(), matches!(rdmap % 16, 0 | 2));
            assert_eq!(opcode.invalidates(), matches!(rdmap % 16, 4 | 6));
            assert_eq!(opcode.solicited(), matches!(rdmap % 16, 5 | 6 | 9 | 13));
            assert_eq!(opcode.is_send_immediate(), matches!(rdmap % 16, 12 | 13));
        }
    }
}

/// D-DDP-4, D-DDP-5: fields of DDP headers (RFC 5041 figures 2 and 4).
#[test]
fn d_ddp_4_5_headers() {
    let tagged = |bytes: &[u8]| match Header::parse(bytes)? {
        (Header::Tagged(h), _) => Some(h),
        _ => None,
    };
    carried_over::<14, _>(
        |bytes| bytes[0] |= 0x80,
        tagged,
        &[
            (1..2, &|h| h.rdmap.into()),
            (2..6, &|h| h.stag.get().into()),
            (6..14, &|h| h.to.get()),
        ],
    );
    let untagged = |bytes: &[u8]| match Header::parse(bytes)? {
        (Header::Untagged(h), _) => Some(h),
        _ => None,
    };
    carried_over::<18, _>(
        |bytes| bytes[0] &= 0x7f,
        untagged,
        &[
            (1..2, &|h| h.rdmap.into()),
            (2..6, &|h| h.invalidate.get().into()),
            (6..10, &|h| h.qn.get().into()),
            (10..14, &|h| h.msn.get().into()),
            (14..18, &|h| h.mo.get().into()),
        ],
    );
}

/// P-RDMAP-5: the Read Request header (RFC 5040 figure 7).
#[test]
fn p_rdmap_5_header() {
    carried_over::<28, _>(
        |_| (),
        ReadRequest::parse,
        &[
            (0..4, &|r| r.sink_stag.0.into()),
            (4..12, &|r| r.sink_to.0),
            (12..16, &|r| r.len.into()),
            (16..20, &|r| r.source_stag.0.into()),
            (20..28, &|r| r.source_to.0),
        ],
    );
}

/// X-ATM-2, X-ATM-4, X-ATM-6: the Atomic Request and Response headers (RFC 7306 figures 4 and 5).
#[test]
fn x_atm_2_6_headers() {
    let operands = |r: &AtomicRequest| match r.operation {
        AtomicOperation::FetchAdd { add, mask } => [add, mask, 0, 0],
        AtomicOperation::CmpSwap {
            swap,
            swap_mask,
            compare,
            compare_mask,
        } => [swap, swap_mask, compare, compare_mask],
    };
    for (aopcode, last) in [(0u32, 36), (2, 52)] {
        let all: [Field<'_, AtomicRequest>; 7] = [
            (4..8, &|r| r.id.into()),
            (8..12, &|r| r.stag.0.into()),
            (12..20, &|r| r.to.0),
            (20..28, &|r| operands(r)[0]),
            (28..36, &|r| operands(r)[1]),
            (36..44, &|r| operands(r)[2]),
            (44..52, &|r| operands(r)[3]),
        ];
        let used: Vec<_> = all
            .into_iter()
            .filter(|(range, _)| range.end <= last)
            .collect();
        carried_over::<52, _>(
            |bytes| bytes[..4].copy_from_slice(&aopcode.to_be_bytes()),
            AtomicRequest::parse,
            &used,
        );
    }
    // The other bits of the AOpcode's word mean nothing.
    for high in [0u32, 0x0001_0000, 0xffff_0000] {
        for low in 0..=u16::MAX {
            let mut bytes = [0; 52];
            bytes[..4].copy_from_slice(&(high | u32::from(low)).to_be_bytes());
            let parsed = AtomicRequest::parse(&bytes).map(|r| r.operation);
            match low % 16 {
                0 => assert!(matches!(parsed, Some(AtomicOperation::FetchAdd { .. }))),
                2 => assert!(matches!(parsed, Some(AtomicOperation::CmpSwap { .. }))),
                _ => assert_eq!(parsed, None),
            }
        }
    }
    carried_over::<12, _>(
        |_| (),
        AtomicResponse::parse,
        &[(0..4, &|r| r.id.into()), (4..12, &|r| r.original)],
    );
}

/// P-TERM-1: received Terminates (RFC 5040 figures 8 to 10): all codes; all bits with all opcodes
/// of what is quoted, tagged and untagged, cut anywhere.
#[test]
fn p_term_1_received() {
    for code in 0..=u16::MAX {
        let [layer_type, code_octet] = code.to_be_bytes();
        let parsed = Received::parse(&[layer_type, code_octet, 0, 0]).unwrap();
        assert_eq!(
            (parsed.code, parsed.quoted, parsed.segment_len),
            (code, None, None)
        );
    }
    for bits in 0..=u8::MAX {
        let (has_length, has_ddp, has_read) =
            (bits & 0x80 != 0, bits & 0x40 != 0, bits & 0x20 != 0);
        for ddp in [0x41, 0xc1] {
            for opcode in 0..16 {
                let quoted_len = if ddp & 0x80 != 0 { 14 } else { 18 };
                for len in 0..=60 {
                    let mut bytes = vec![0x11; len];
                    let head = [0x12, 0x03, bits, 0, 0xab, 0xcd, ddp, 0x40 | opcode];
                    bytes.iter_mut().zip(head).for_each(|(to, from)| *to = from);
                    let parsed = Received::parse(&bytes);
                    assert_eq!(parsed.is_some(), len >= 4);
                    let Some(parsed) = parsed else { continue };
                    let quotes = has_ddp && len >= 6 + quoted_len;
                    let opcode_read = match parsed.quoted {
                        None => None,
                        Some(Quoted::Tagged { opcode, .. } | Quoted::Untagged { opcode, .. }) => {
                            opcode
                        }
                    };
                    assert_eq!(parsed.code, 0x1203);
                    assert_eq!(parsed.quoted.is_some(), quotes);
                    assert_eq!(
                        parsed.segment_len,
                        (has_ddp && has_length && len >= 6).then_some(0xabcd)
                    );
                    assert_eq!(
                        parsed.read_request.is_some(),
                        quotes && has_read && len >= 6 + quoted_len + 28
                    );
                    assert_eq!(
                        opcode_read,
                        if quotes {
                            Opcode::from_bits(opcode)
                        } else {
                            None
                        }
                    );
                }
            }
        }
    }
}

/// M-MPA-15, M-MPA-16: markers of FPDUs of every length that is ever sent, at every place that the
/// stream can be at.
#[test]
fn m_mpa_15_16_all_lengths() {
    // Octets until the next marker, after an FPDU that fills a gap but for these.
    for until in (0..508).step_by(4) {
        let mut at_place = Markers::new();
        let _ = at_place.next_fpdu(508 - until);
        for len in (20..=LARGE_SEGMENT).step_by(if until == 0 { 4 } else { 508 + 4 }) {
            let mut markers = at_place;
            assert_eq!(
                markers.overhead(len) as usize,
                4 * markers.next_fpdu(len).count()
            );
            let mut markers = at_place;
            let mut want = until;
            // Octets of markers in this FPDU, but for one in front of it.
            let mut inserted = 0;
            for marker in markers.next_fpdu(len) {
                assert_eq!(marker.at, want);
                let pointer = u32::from_be_bytes(marker.bytes);
                assert_eq!(pointer, if want == 0 { 0 } else { want + inserted });
                inserted += if want == 0 { 0 } else { 4 };
                want += 508;
            }
            assert!(want >= len, "{want} of {len}");
        }
    }
}
