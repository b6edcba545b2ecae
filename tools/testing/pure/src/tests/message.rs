// SPDX-License-Identifier: GPL-2.0

//! Segmentation, packing and start conditions.

use crate::num::Broken;
use crate::proto::failure::Fault;
use crate::proto::message::{may_start, Kind, Messages, Packer, MAX_HEADER};
use crate::proto::request::{Local, Operation, OperationType};
use crate::support::frames::{self, next, SEND};
use crate::support::rng::{Choices, Rng};
use crate::wire::ddp::{Header, Stag, TaggedOffset};
use crate::wire::fpdu::{fpdu_len, mulpdu};

/// D-DDP-3, D-DDP-8, D-DDP-9, D-DDP-10: every length around the segment borders.
#[test]
fn d_ddp_3_segments_of_every_length() {
    let write = Kind::Write {
        stag: Stag(7),
        to: TaggedOffset(u64::MAX - 5),
    };
    let response = frames::response(Stag(7), TaggedOffset(0));
    for kind in [SEND, write, response] {
        for len in (0..6000).chain([1 << 20, 64768, 65535, 65536]) {
            for limit in [128, 1442] {
                check_segments(kind, len, limit);
            }
        }
    }
    check_segments(SEND, u32::MAX, 64768);
    check_segments(write, u32::MAX, 65535);
}

fn check_segments(kind: Kind, len: u32, limit: u16) {
    let mut message = Messages::new().message(kind, len);
    let mut out = [0; MAX_HEADER];
    let mut offset = 0u32;
    loop {
        assert_eq!(message.sent(), offset);
        let frame = next(&mut message, limit, &mut out).unwrap();
        let header_len = frame.header_len;
        let (header, rest) = Header::parse(&out[2..header_len]).unwrap();
        assert!(rest.is_empty());
        assert!(frame.ulpdu_len <= limit.min(64768));
        assert_eq!(
            usize::from(frame.ulpdu_len),
            header_len - 2 + usize::from(frame.payload)
        );
        assert_eq!(frame.fpdu_len, fpdu_len(frame.ulpdu_len));
        assert_eq!(out[..2], frame.ulpdu_len.to_be_bytes());
        assert_eq!(frame.offset, offset);
        assert_eq!(header.control().last(), frame.last);
        offset += u32::from(frame.payload);
        if frame.last {
            break;
        }
        assert!(frame.payload > 0);
    }
    assert_eq!(offset, len);
    assert!(message.is_done() && next(&mut message, limit, &mut out).is_none());
}

/// D-DDP-3: FPDUs that are alike can be made in one go: they are those that come one by one. No more
/// can be, nor none.
#[test]
fn d_ddp_3_alike_in_one_go() {
    for (len, alike) in [(0, 0), (400, 3), (401, 4), (499, 4), (500, 4)] {
        let message = Messages::new().message(SEND, len);
        let first = message.frame(118).unwrap();
        assert_eq!(message.alike(&first), alike);
        for count in [0, alike + 2] {
            let mut unchanged = message;
            assert_eq!(unchanged.advance(&first, count), Err(Broken));
            assert_eq!(unchanged, message);
        }
        let mut one_by_one = message;
        let mut expected = first;
        for count in 1..=alike {
            assert_eq!(one_by_one.frame(118), Ok(expected));
            one_by_one.advance(&expected, 1).unwrap();
            let mut in_one_go = message;
            in_one_go.advance(&first, count).unwrap();
            assert_eq!(in_one_go, one_by_one);
            expected = expected.next();
            assert_eq!(expected.offset, one_by_one.sent());
        }
    }
}

/// D-DDP-7: numbers per queue; tagged messages have none; a copy takes a step back.
#[test]
fn d_ddp_7_msn_per_queue() {
    let mut tx = Messages::new();
    let mut out = [0; MAX_HEADER];
    let request = Kind::ReadRequest(Default::default());
    let mut seen = Vec::new();
    for kind in [SEND, request, SEND, request, request, SEND] {
        let mut message = tx.message(kind, 0);
        let mut again = message;
        let frame = next(&mut message, 1442, &mut out).unwrap();
        assert_eq!(next(&mut again, 1442, &mut out), Some(frame));
        let Header::Untagged(h) = Header::parse(&out[2..]).unwrap().0 else {
            panic!();
        };
        seen.push((h.qn.get(), h.msn.get()));
    }
    assert_eq!(seen, [(0, 1), (1, 1), (0, 2), (1, 2), (1, 3), (0, 3)]);
}

/// M-MPA-12: each FPDU begins a segment or lies whole in one.
#[test]
fn m_mpa_12_packing() {
    for emss in [536, 1446, 1447, 1448, 1460, 8948] {
        let mut rng = Rng::new(emss.into());
        let mut packer = Packer::new(emss);
        let full = fpdu_len(mulpdu(emss, false)) as u32;
        let mut at = 0u32;
        let mut records = 0u32;
        for _ in 0..10_000 {
            let len = match rng.below(3) {
                0 => full,
                1 => 4 * (5 + rng.below(20)) as u32,
                _ => 4 * (5 + rng.below(full as usize / 4 - 4)) as u32,
            };
            if packer.push(len) {
                records += 1;
                assert!(at > 0 && at + len > emss, "no needless end of record");
                at = 0;
            }
            // What TCP does: segments of emss octets from the last end of record on.
            let begin = at % emss;
            assert!(begin == 0 || begin + len <= emss, "{begin} + {len}");
            at = (begin + len) % emss;
            if at == 0 {
                at = emss;
            }
        }
        assert!(records > 1000);
    }
}

/// M-MPA-12: full FPDUs that fill the segment need no end of record, others do.
#[test]
fn m_mpa_12_full_segments() {
    let mut packer = Packer::new(1448);
    assert!((0..100).all(|_| !packer.push(1448)));
    let mut packer = Packer::new(1447);
    assert!(!packer.push(1444));
    assert!((0..100).all(|_| packer.push(1444)));
    // Large FPDUs by agreement: from the begin of a segment.
    let mut packer = Packer::new(1448);
    assert_eq!(
        [false, true, false],
        [64776, 64776, 100].map(|n| packer.push(n))
    );
    packer.end_record();
    assert!(!packer.push(1448));
    packer.set_emss(1000);
    assert!(!packer.push(996));
    assert!(packer.push(500));
}

/// V-FNC-1 to 5, V-RD-1 to 3, V-WR-10, T-41.
#[test]
fn v_fnc_start_conditions() {
    let (stag, to) = (Stag(1), TaggedOffset(0));
    let send = Operation::Send { invalidate: None };
    let write = Operation::Write {
        stag,
        to,
        immediate: None,
    };
    let read = Operation::Read {
        stag,
        to,
        invalidate: false,
    };
    let atomic = Operation::Atomic {
        stag,
        to,
        kind: OperationType::CompareSwap,
    };
    let invalidate = Operation::Local(Local::Invalidate { stag });
    let (register, bind) = (
        Operation::Local(Local::Register),
        Operation::Local(Local::Bind),
    );
    // (operation, fence, reads, ord, earlier) -> Start
    let table = [
        ((send, false, 5, 8, true), Ok(true)),
        ((write, true, 0, 8, true), Ok(true)), // V-FNC-4
        ((send, true, 1, 8, true), Ok(false)), // V-FNC-1
        ((write, true, 1, 8, true), Ok(false)),
        ((send, true, 0, 0, false), Ok(true)),
        ((read, false, 7, 8, true), Ok(true)),
        ((read, true, 7, 8, true), Ok(true)),   // V-FNC-5, T-41
        ((read, false, 8, 8, true), Ok(false)), // V-RD-1
        ((read, true, 9, 8, true), Ok(false)),  // ORD was lowered
        ((read, false, 0, 0, false), Err(Fault::LocalOperation)), // V-RD-3
        ((atomic, true, 7, 8, true), Ok(true)),
        ((atomic, false, 8, 8, true), Ok(false)), // X-ATM-13
        ((atomic, false, 0, 0, false), Err(Fault::LocalOperation)),
        ((register, true, 3, 8, true), Ok(true)), // V-FNC-5
        ((bind, true, 3, 8, true), Ok(true)),
        ((invalidate, false, 3, 8, true), Ok(true)),
        ((invalidate, true, 0, 8, true), Ok(false)), // V-FNC-3
        ((invalidate, true, 0, 8, false), Ok(true)),
    ];
    for ((operation, fence, reads, ord, earlier), want) in table {
        let got = may_start(&operation, fence, reads, ord, earlier);
        assert_eq!(got, want, "{operation:?} {fence} {reads} {ord} {earlier}");
    }
}
