// SPDX-License-Identifier: GPL-2.0

//! Bytes worked out by hand, or printed in an RFC.

use crate::proto::message::{Kind, Messages, Rtr, MAX_HEADER, MAX_TERMINATE};
use crate::support::crc::crc32c;
use crate::support::frames::{next, SEND};
use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::{Control, Header, Stag, TaggedOffset};
use crate::wire::fpdu::{fpdu_len, mulpdu, pad_len, Crc, Markers, MAX_FPDU};
use crate::wire::mpa::MAX_FRAME;
use crate::wire::rdmap::{self, ImmediateData, Opcode, ReadRequest};
use crate::wire::terminate;

/// The 42-octet Send of RFC 5044 figures 5 and 6: 24 zero octets of payload.
fn example(msn: u8) -> Vec<u8> {
    let mut fpdu = vec![0x00, 0x2a, 0x41, 0x43];
    fpdu.extend_from_slice(&[0; 4]);
    fpdu.extend_from_slice(&[0, 0, 0, 0]);
    fpdu.extend_from_slice(&[0, 0, 0, msn]);
    fpdu.extend_from_slice(&[0; 4]);
    fpdu.extend_from_slice(&[0; 24]);
    assert_eq!(fpdu.len(), 44);
    fpdu
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    Crc::new().update(crc32c, bytes).to_wire()
}

/// M-MPA-4, T-26: the four CRC vectors, markers included.
#[test]
fn m_mpa_4_crc_vectors() {
    assert_eq!(crc(b"123456789"), 0xe306_9283u32.to_le_bytes());
    let first = [&[0; 4][..], &example(1)].concat();
    assert_eq!(crc(&first), [0x52, 0x23, 0x99, 0x83]);
    let mut second = example(2);
    second.splice(20..20, [0, 0, 0, 0x14]);
    assert_eq!(crc(&second), [0x84, 0x92, 0x58, 0x98]);
    assert_eq!(crc(&example(1)), [0xb7, 0x24, 0x3e, 0xc3]);
    assert_eq!(crc(&example(2)), [0x29, 0x0f, 0xbe, 0xde]);
}

/// The same FPDUs as the transmit half makes them.
#[test]
fn m_mpa_4_vectors_from_tx() {
    let mut tx = Messages::new();
    for (msn, want) in [(1, [0xb7, 0x24, 0x3e, 0xc3]), (2, [0x29, 0x0f, 0xbe, 0xde])] {
        let mut out = [0; MAX_HEADER];
        let frame = next(&mut tx.message(SEND, 24), 1442, &mut out).unwrap();
        let fpdu = [&out[..frame.header_len], &[0; 24]].concat();
        assert_eq!(fpdu, example(msn));
        assert_eq!(crc(&fpdu), want);
    }
}

/// M-MPA-15: the first octets of the stream are a marker 00000000; figure 6's marker has
/// FPDUPTR 0x14 when the FPDU in front of it fills 488 octets.
#[test]
fn m_mpa_15_first_marker() {
    let mut markers = Markers::new();
    let first: Vec<_> = markers.next_fpdu(488).collect();
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].at, first[0].bytes), (0, [0; 4]));
    let second: Vec<_> = markers.next_fpdu(48).collect();
    assert_eq!((second[0].at, second[0].bytes), (20, [0, 0, 0, 0x14]));
}

/// M-MPA-1, M-MPA-2: multiples of four, 0 to 3 octets of pad.
#[test]
fn m_mpa_1_lengths() {
    for len in 0..=u16::MAX {
        let pad = pad_len(len);
        assert!(pad < 4);
        assert_eq!(fpdu_len(len), 2 + usize::from(len) + pad + 4);
        assert_eq!(fpdu_len(len) % 4, 0);
    }
    assert_eq!(MAX_FPDU, 65544);
    for (len, pad) in [(42u16, 0), (43, 3), (44, 2), (45, 1)] {
        assert_eq!(pad_len(len), pad);
    }
}

/// The longest of each, which arrays are made for.
#[test]
fn longest_frames() {
    assert_eq!(MAX_FRAME, 20 + 512);
    // DDP header, control, segment length, headers of a Read Request.
    assert_eq!(terminate::MAX_ULPDU, 18 + 4 + 2 + 18 + 28);
    assert_eq!(MAX_TERMINATE, 2 + 70 + 4 + 4);
}

/// M-MPA-9, M-MPA-10, T-27.
#[test]
fn m_mpa_10_mulpdu() {
    assert_eq!(mulpdu(1448, false), 1442);
    assert_eq!(mulpdu(1460, false), 1454);
    assert_eq!(mulpdu(1447, false), 1438);
    assert_eq!(mulpdu(1448, true), 1430);
    assert_eq!(mulpdu(65483, false), 64768);
    assert_eq!(mulpdu(u32::MAX, true), 64768);
    assert_eq!(mulpdu(0, false), 128);
    assert_eq!(mulpdu(88, true), 128);
    for emss in 140..70000 {
        let fits = fpdu_len(mulpdu(emss, false)) as u32 <= emss;
        assert!(fits, "{emss}");
        let len = fpdu_len(mulpdu(emss, true)) as u32;
        let worst = len + 4 * len.div_ceil(508);
        assert!(emss < 156 || worst <= emss + 4, "{emss}");
    }
}

/// P-RDMAP-2: the octets of each opcode's last segment.
#[test]
fn p_rdmap_2_control_octets() {
    let octets = |tagged, opcode| [Control::new(tagged, true).0, rdmap::Control::new(opcode).0];
    assert_eq!(octets(true, Opcode::Write), [0xc1, 0x40]);
    assert_eq!(octets(false, Opcode::ReadRequest), [0x41, 0x41]);
    assert_eq!(octets(true, Opcode::ReadResponse), [0xc1, 0x42]);
    assert_eq!(octets(false, Opcode::send(false, false)), [0x41, 0x43]);
    assert_eq!(octets(false, Opcode::send(false, true)), [0x41, 0x44]);
    assert_eq!(octets(false, Opcode::send(true, false)), [0x41, 0x45]);
    assert_eq!(octets(false, Opcode::send(true, true)), [0x41, 0x46]);
    assert_eq!(octets(false, Opcode::Terminate), [0x41, 0x47]);
}

/// D-DDP-8, D-DDP-3: where 2048 octets are cut with MULPDU 1500.
#[test]
fn d_ddp_8_segmentation() {
    let tagged = Kind::Write {
        stag: Stag(0x0102_0304),
        to: TaggedOffset(16384),
    };
    for (kind, want) in [
        (SEND, [(1482, 0, false), (566, 1482, true)]),
        (tagged, [(1486, 0, false), (562, 1486, true)]),
    ] {
        let mut message = Messages::new().message(kind, 2048);
        let mut got = Vec::new();
        let mut out = [0; MAX_HEADER];
        while let Some(frame) = next(&mut message, 1500, &mut out) {
            got.push((frame.payload, frame.offset, frame.last));
            let (header, _) = Header::parse(&out[2..frame.header_len]).unwrap();
            assert_eq!(header.control().last(), frame.last);
            match header {
                Header::Tagged(h) => {
                    assert_eq!(h.to.get(), 16384 + u64::from(frame.offset));
                    assert_eq!(h.stag.get(), 0x0102_0304);
                }
                Header::Untagged(h) => {
                    assert_eq!((h.qn.get(), h.msn.get(), h.mo.get()), (0, 1, frame.offset));
                }
            }
        }
        assert_eq!(got, want);
    }
}

/// D-DDP-4, D-DDP-5, P-RDMAP-3, P-RDMAP-5: whole FPDU fronts.
#[test]
fn header_bytes() {
    let mut tx = Messages::new();
    let mut front = |kind, len| {
        let mut out = [0; MAX_HEADER];
        let frame = next(&mut tx.message(kind, len), 1442, &mut out).unwrap();
        out[..frame.header_len].to_vec()
    };
    let write = Kind::Write {
        stag: Stag(0xaabb_ccdd),
        to: TaggedOffset(0x0102_0304_0506_0708),
    };
    assert_eq!(
        front(write, 3),
        [0, 17, 0xc1, 0x40, 0xaa, 0xbb, 0xcc, 0xdd, 1, 2, 3, 4, 5, 6, 7, 8]
    );
    let send = Kind::Send {
        solicited: true,
        invalidate: Some(Stag(0x1122_3344)),
    };
    assert_eq!(
        front(send, 0),
        [0, 18, 0x41, 0x46, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    );
    let data = ImmediateData([1, 2, 3, 4, 5, 6, 7, 8]);
    for (solicited, opcode) in [(false, 0x48), (true, 0x49)] {
        let msn = 2 + u8::from(solicited);
        let bytes = front(Kind::Immediate { data, solicited }, 99);
        assert_eq!(
            bytes,
            [
                0, 26, 0x41, opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0, // DDP
                1, 2, 3, 4, 5, 6, 7, 8
            ]
        );
        assert_eq!(ImmediateData::parse(&bytes[20..]), Some(data));
        assert_eq!(ImmediateData::parse(&bytes[21..]), None);
    }
    let request = ReadRequest {
        sink_stag: Stag(1),
        sink_to: TaggedOffset(2),
        len: 3,
        source_stag: Stag(4),
        source_to: TaggedOffset(5),
    };
    let bytes = front(Kind::ReadRequest(request), 99);
    assert_eq!(
        bytes,
        [
            0, 46, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, // DDP
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, // sink
            0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5 // source
        ]
    );
    assert_eq!(ReadRequest::parse(&bytes[20..]), Some(request));
    assert_eq!(ReadRequest::parse(&bytes[21..]), None);
}

/// X-ATM-1, X-ATM-2, X-ATM-6: Atomic Requests, octet by octet. They share the queue and its numbers
/// with Read Requests (X-ATM-13).
#[test]
fn x_atm_2_requests() {
    let mut tx = Messages::new();
    tx.message(Kind::ReadRequest(ReadRequest::default()), 0);
    let (stag, to) = (Stag(0xaabb_ccdd), TaggedOffset(0x0102_0304_0506_0708));
    let fetch_add = AtomicOperation::FetchAdd {
        add: 0x1112_1314_1516_1718,
        mask: 0x2122_2324_2526_2728,
    };
    let cmp_swap = AtomicOperation::CmpSwap {
        swap: 0x1112_1314_1516_1718,
        swap_mask: 0x2122_2324_2526_2728,
        compare: 0x3132_3334_3536_3738,
        compare_mask: 0x4142_4344_4546_4748,
    };
    let ones = [0xff; 8];
    let compare = [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38];
    let compare_mask = [0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48];
    for (msn, operation, aopcode, rest) in [
        (2, fetch_add, 0, [[0; 8], ones]),
        (3, cmp_swap, 2, [compare, compare_mask]),
    ] {
        let request = AtomicRequest {
            id: 0x5152_5354,
            stag,
            to,
            operation,
        };
        let mut out = [0; MAX_HEADER];
        let mut message = tx.message(Kind::AtomicRequest(request), 99);
        let frame = next(&mut message, 1442, &mut out).unwrap();
        let front = [
            0, 70, 0x41, 0x4a, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, msn, 0, 0, 0, 0, // DDP
            0, 0, 0, aopcode, 0x51, 0x52, 0x53, 0x54, // AOpcode, Request ID
            0xaa, 0xbb, 0xcc, 0xdd, 1, 2, 3, 4, 5, 6, 7, 8, // target
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // Add or Swap Data
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // Add or Swap Mask
        ];
        let mut want = [&front[..], &rest.concat()].concat();
        assert_eq!(out[..frame.header_len], want);
        assert_eq!((frame.payload, frame.last), (0, true));

        // The reserved bits do not matter, nor what FetchAdd compares with.
        want[20..24].copy_from_slice(&[0xff, 0xff, 0xff, 0xf0 | aopcode]);
        if aopcode == 0 {
            want[56..].fill(0x99);
        }
        assert_eq!(AtomicRequest::parse(&want[20..]), Some(request));
        assert_eq!(AtomicRequest::parse(&want[21..]), None);
    }
}

/// X-ATM-1, X-ATM-3: Atomic Responses, octet by octet; they have numbers of their own (X-ATM-15).
#[test]
fn x_atm_3_responses() {
    let mut tx = Messages::new();
    tx.message(Kind::ReadRequest(ReadRequest::default()), 0);
    let response = AtomicResponse {
        id: 0x5152_5354,
        original: 0x1112_1314_1516_1718,
    };
    for msn in 1..3 {
        let mut out = [0; MAX_HEADER];
        let mut message = tx.message(Kind::AtomicResponse(response), 99);
        let frame = next(&mut message, 1442, &mut out).unwrap();
        let want = [
            0, 30, 0x41, 0x4b, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, msn, 0, 0, 0, 0, // DDP
            0x51, 0x52, 0x53, 0x54, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        ];
        assert_eq!(out[..frame.header_len], want);
        assert_eq!((frame.payload, frame.last), (0, true));
        assert_eq!(AtomicResponse::parse(&want[20..]), Some(response));
        assert_eq!(AtomicResponse::parse(&want[21..]), None);
    }
}

/// X-ENH-13: ready-to-receive messages are empty, in one FPDU, with a non-zero STag.
#[test]
fn x_enh_13_rtr_messages() {
    for (rtr, len, control) in [
        (Rtr::Send, 18, [0x41, 0x43]),
        (Rtr::Write, 14, [0xc1, 0x40]),
        (Rtr::Read, 46, [0x41, 0x41]),
    ] {
        let mut out = [0; MAX_HEADER];
        let mut message = Messages::new().message(rtr.kind(), 0);
        let frame = next(&mut message, 1442, &mut out).unwrap();
        assert_eq!((frame.ulpdu_len, frame.payload, frame.last), (len, 0, true));
        assert_eq!(out[2..4], control);
        assert!(next(&mut message, 1442, &mut out).is_none());
    }
}

/// V-STAG-1: 24 bits of index, 8 of key.
#[test]
fn v_stag_1_stag_parts() {
    let stag = Stag::new(0x12_3456, 0x78);
    assert_eq!(stag, Stag(0x1234_5678));
    assert_eq!((stag.index(), stag.key()), (0x12_3456, 0x78));
}
