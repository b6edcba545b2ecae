// SPDX-License-Identifier: GPL-2.0

//! Segments into actions: the checks of P-ERR, P-RDMAP and D-DDP that the protocol layer makes.

use crate::proto::message::{Messages, MAX_HEADER};
use crate::proto::segment::{Action, Rights, Segment, Segments, Target};
use crate::support::by_hand;
use crate::support::frames::{next, SEND};
use crate::support::rights::ALL;
use crate::support::rng::{Choices, Rng};
use crate::wire::ddp::{Msn, Stag};
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{ImmediateData, ReadRequest};
use crate::wire::terminate::TermError;

const LAST: u8 = 0x40;

fn rx() -> Segments {
    Segments::new(RtrSet::default())
}

/// An untagged segment without payload.
fn untagged(opcode: u8, qn: u32, msn: u32, mo: u32, last: bool) -> Vec<u8> {
    let control = if last { by_hand::U_LAST } else { by_hand::U };
    by_hand::untagged(control, 0x40 | opcode, 0, [qn, msn, mo], &[])
}

fn tagged(opcode: u8, stag: u32, to: u64, last: bool) -> Vec<u8> {
    let control = if last { by_hand::T_LAST } else { by_hand::T };
    by_hand::tagged(control, 0x40 | opcode, stag, to, &[])
}

fn read_request(msn: u32, len: u32, source_to: u64) -> Vec<u8> {
    let (sink, source) = ((1, 2), (4, source_to));
    by_hand::Read { sink, len, source }.request(msn)
}

/// Feeds a header with `payload` octets behind it.
fn feed(rx: &mut Segments, head: &[u8], payload: u16) -> Result<Segment, TermError> {
    rx.segment(head, head.len() as u16 + payload, &ALL)
}

fn action(rx: &mut Segments, head: &[u8], payload: u16) -> Action {
    let segment = feed(rx, head, payload).unwrap();
    if !matches!(segment.action, Action::Terminate { .. }) {
        assert_eq!(segment.payload_len, payload);
        assert_eq!(usize::from(segment.header_len), head.len());
    }
    segment.action
}

/// The error, and that everything behind it is ignored (D-DDP-23, M-MPA-31, V-TM-4).
fn error(mut rx: Segments, head: &[u8], payload: u16) -> TermError {
    let error = feed(&mut rx, head, payload).unwrap_err();
    let after = feed(&mut rx, &tagged(0, 1, 0, true), 8).unwrap();
    assert_eq!((after.action, after.payload_len), (Action::Ignore, 0));
    error
}

#[test]
fn p_err_4_to_8_versions_and_opcodes() {
    let mut write = tagged(0, 1, 0, true);
    for (dv, ok) in [(0, false), (1, true), (2, false), (3, false)] {
        write[0] = 0xc0 | dv;
        assert_eq!(feed(&mut rx(), &write, 4).is_ok(), ok);
    }
    assert_eq!(error(rx(), &write, 4), TermError::TaggedVersion);
    let mut send = untagged(3, 0, 1, 0, true);
    send[0] = 0x42;
    assert_eq!(error(rx(), &send, 4), TermError::UntaggedVersion);
    for rv in [0x00, 0x80, 0xc0] {
        let mut send = untagged(3, 0, 1, 0, true);
        send[1] = rv | 3;
        assert_eq!(error(rx(), &send, 4), TermError::RdmapVersion);
    }
    // X-IANA-2: what is not offered; P-RDMAP-4: opcode and T flag.
    let no_immediate = Rights {
        immediate: false,
        ..ALL
    };
    for opcode in 0..16 {
        let head = tagged(opcode, 1, 0, true);
        if opcode != 0 && opcode != 2 {
            assert_eq!(error(rx(), &head, 4), TermError::UnexpectedOpcode);
        }
        let head = untagged(opcode, 0, 1, 0, true);
        if opcode > 11 || [0, 2, 8, 9].contains(&opcode) {
            let refused = rx().segment(&head, head.len() as u16 + 4, &no_immediate);
            assert_eq!(refused, Err(TermError::UnexpectedOpcode));
        }
    }
}

/// D-DDP-1, P-RDMAP-1, P-RDMAP-3: reserved bits and an STag where none is due.
#[test]
fn d_ddp_1_reserved_bits_are_ignored() {
    let mut head = untagged(3, 0, 1, 0, true);
    head[0] |= 0x3c;
    head[1] |= 0x30;
    head[2..6].copy_from_slice(&[0xff; 4]);
    let want = Action::Send {
        msn: Msn(1),
        mo: 0,
        first: true,
        last: true,
        solicited: false,
        invalidate: None,
        immediate: None,
    };
    assert_eq!(action(&mut rx(), &head, 9), want);
}

/// P-ERR-3: all lengths around a header.
#[test]
fn p_err_3_ulpdu_shorter_than_header() {
    let send = untagged(3, 0, 1, 0, true);
    let write = tagged(0, 1, 0, true);
    for n in 0..18 {
        assert_eq!(
            rx().segment(&send[..n], n as u16, &ALL),
            Err(TermError::MpaFpdu)
        );
    }
    for n in 0..14 {
        assert_eq!(
            rx().segment(&write[..n], n as u16, &ALL),
            Err(TermError::MpaFpdu)
        );
    }
}

#[test]
fn p_err_9_22_queue_numbers() {
    for qn in [1, 2, 3, u32::MAX] {
        let head = untagged(3, qn, 1, 0, true);
        assert_eq!(error(rx(), &head, 4), TermError::UntaggedQn);
    }
    for qn in [0, 2, 3] {
        let mut head = read_request(1, 4, 0);
        head[9] = qn;
        assert_eq!(error(rx(), &head, 0), TermError::UntaggedQn);
    }
    for qn in [0, 1, 3] {
        let head = untagged(7, qn, 1, 0, true);
        assert_eq!(error(rx(), &head, 4), TermError::UntaggedQn);
    }
}

#[test]
fn p_err_11_12_msn_and_mo() {
    let (bad_msn, bad_mo) = (TermError::UntaggedMsn, TermError::UntaggedMo);
    let send = |msn, mo| untagged(3, 0, msn, mo, true);
    for msn in [0, 2, u32::MAX] {
        assert_eq!(error(rx(), &send(msn, 0), 4), bad_msn);
    }
    assert_eq!(error(rx(), &send(1, 4), 4), bad_mo);
    let mut open = rx();
    action(&mut open, &untagged(3, 0, 1, 0, false), 100);
    for mo in [0, 99, 101] {
        assert_eq!(error(open, &send(1, mo), 4), bad_mo);
    }
    // P-ERR-26: the next message before the end of this one.
    assert_eq!(error(open, &send(2, 0), 4), bad_msn);
    // T-46: another opcode in the middle.
    let other = error(open, &untagged(5, 0, 1, 100, true), 4);
    assert_eq!(other, TermError::UnexpectedOpcode);
}

/// D-DDP-15, P-RDMAP-14: a message in segments, then the next.
#[test]
fn d_ddp_15_send_in_segments() {
    let mut rx = rx();
    let send = |msn, mo, first, last| Action::Send {
        msn: Msn(msn),
        mo,
        first,
        last,
        solicited: false,
        invalidate: None,
        immediate: None,
    };
    assert_eq!(
        action(&mut rx, &untagged(3, 0, 1, 0, false), 100),
        send(1, 0, true, false)
    );
    assert!(rx.in_message());
    // D-DDP-14: Writes and Reads in between.
    action(&mut rx, &tagged(0, 5, 0, false), 10);
    action(&mut rx, &read_request(1, 0, 0), 0);
    // T-46: an empty segment in the middle.
    assert_eq!(
        action(&mut rx, &untagged(3, 0, 1, 100, false), 0),
        send(1, 100, false, false)
    );
    assert_eq!(
        action(&mut rx, &untagged(3, 0, 1, 100, true), 7),
        send(1, 100, false, true)
    );
    assert!(!rx.in_message());
    action(&mut rx, &tagged(0, 5, 10, true), 10);
    assert_eq!(
        action(&mut rx, &untagged(3, 0, 2, 0, true), 0),
        send(2, 0, true, true)
    );
}

/// T-46: an empty first segment that is not the last takes one receive, not two.
#[test]
fn t_46_empty_first_segment() {
    let mut rx = rx();
    let firsts = [(0, false), (0, false), (5, false), (0, true)].map(|(len, last)| {
        let mo = if last { 5 } else { 0 };
        match action(&mut rx, &untagged(3, 0, 1, mo, last), len) {
            Action::Send { first, .. } => first,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(firsts, [true, false, false, false]);
}

/// T-18: the length of a message is a u32.
#[test]
fn t_18_message_offset_overflow() {
    let mut rx = rx();
    let mut mo = 0u32;
    while let Some(next) = mo.checked_add(65517) {
        action(&mut rx, &untagged(3, 0, 1, mo, false), 65517);
        mo = next;
    }
    let left = (u32::MAX - mo) as u16;
    let mut run = *rx.run(&ALL).expect("the message goes on");
    assert!(!run.advance() && run.target() == Target::Receive(mo));
    assert_eq!(
        error(rx, &untagged(3, 0, 1, mo, true), left + 1),
        TermError::UntaggedTooLong
    );
    action(&mut rx, &untagged(3, 0, 1, mo, true), left);
}

/// P-RDMAP-3: the four kinds of Send.
#[test]
fn p_rdmap_3_send_kinds() {
    let mut rx = rx();
    for (n, opcode) in [3u8, 4, 5, 6].into_iter().enumerate() {
        let mut head = untagged(opcode, 0, 1 + n as u32, 0, true);
        head[2..6].copy_from_slice(&[1, 2, 3, 4]);
        let Action::Send {
            solicited,
            invalidate,
            ..
        } = action(&mut rx, &head, 1)
        else {
            panic!();
        };
        assert_eq!(solicited, opcode >= 5);
        assert_eq!(invalidate, (opcode % 2 == 0).then_some(Stag(0x0102_0304)));
    }
}

/// A Send with immediate data is one that this side has to allow, and that its consumer has to bear;
/// for others the opcode is unknown.
#[test]
fn sends_with_immediate_data() {
    for (opcode, wanted) in [(12u8, false), (13, true)] {
        let mut head = untagged(opcode, 0, 1, 0, true);
        head[2..6].copy_from_slice(&[1, 2, 3, 4]);
        let refused = feed(&mut rx(), &head, 1).unwrap_err();
        assert_eq!(refused, TermError::UnexpectedOpcode);
        let mut rx = rx();
        rx.allow_send_immediate();
        let Action::Send {
            solicited,
            invalidate,
            immediate,
            last,
            ..
        } = action(&mut rx, &head, 1)
        else {
            panic!();
        };
        assert_eq!((solicited, invalidate, last), (wanted, None, true));
        assert_eq!(immediate, Some([1, 2, 3, 4]));
    }
}

/// D-DDP-7: numbers wrap. (The counter is driven there by real messages of the other half.)
#[test]
fn d_ddp_7_msn_sequence() {
    let (mut rx, mut tx) = (rx(), Messages::new());
    for n in 1..2000u32 {
        let mut out = [0; MAX_HEADER];
        let frame = next(&mut tx.message(SEND, 0), 1442, &mut out).unwrap();
        let got = rx
            .segment(&out[2..frame.header_len], frame.ulpdu_len, &ALL)
            .unwrap();
        assert!(matches!(got.action, Action::Send { msn, .. } if msn == Msn(n)));
    }
    assert_eq!(Msn(u32::MAX).next(), Msn(0));
}

/// P-ERR-18, V-ACC-15, T-18: offsets that wrap.
#[test]
fn p_err_18_tagged_wrap() {
    let head = tagged(0, 1, u64::MAX, true);
    assert_eq!(error(rx(), &head, 2), TermError::TaggedWrap);
    action(&mut rx(), &head, 1);
    action(&mut rx(), &head, 0);
    assert_eq!(
        error(rx(), &read_request(1, 2, u64::MAX), 0),
        TermError::RemoteWrap
    );
    action(&mut rx(), &read_request(1, 1, u64::MAX), 0);
    action(&mut rx(), &read_request(1, 0, u64::MAX), 0);
}

/// V-ACC-9, V-ACC-10, P-ERR-20, P-ERR-23: what the QP does not allow; T-23: length zero is
/// allowed in any case.
#[test]
fn v_acc_9_10_limits() {
    let limits = |read, write| Rights { read, write, ..ALL };
    let run = |head: &[u8], payload: u16, limits| {
        rx().segment(head, head.len() as u16 + payload, &limits)
            .map(|s| s.action)
    };
    let (write, read) = (tagged(0, 0xdead, 9, true), read_request(1, 4, 0));
    let empty_read = read_request(1, 0, 0);
    let (no_write, no_read) = (limits(true, false), limits(false, true));
    for (head, payload, limits, want) in [
        (&write, 4, no_write, Some(TermError::TaggedNotAssociated)),
        (&write, 0, no_write, None),
        (&read, 0, no_read, Some(TermError::UntaggedQn)),
        (&empty_read, 0, no_read, None),
    ] {
        assert_eq!(run(head, payload, limits).err(), want);
    }
}

/// X-IMM-1, X-IMM-2: Immediate Data is a message among the Sends, has 8 octets, and places nothing.
#[test]
fn x_imm_1_immediate() {
    for (opcode, solicited) in [(8, false), (9, true)] {
        let immediate = |qn, msn, mo, last| {
            let mut head = untagged(opcode, qn, msn, mo, last);
            head.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
            head
        };
        let good = immediate(0, 1, 0, true);
        let want = Action::Immediate {
            msn: Msn(1),
            data: ImmediateData([1, 2, 3, 4, 5, 6, 7, 8]),
            solicited,
        };
        let mut after = rx();
        assert_eq!(action(&mut after, &good, 0), want);
        assert_eq!(after.next().0, Msn(2));
        action(&mut after, &untagged(3, 0, 2, 0, true), 9);

        for (bad, want) in [
            (immediate(1, 1, 0, true), TermError::UntaggedQn),
            (immediate(0, 2, 0, true), TermError::UntaggedMsn),
            (immediate(0, 1, 1, true), TermError::UntaggedMo),
            (immediate(0, 1, 0, false), TermError::CatastrophicStream),
        ] {
            assert_eq!(error(rx(), &bad, 0), want);
        }
        let short = [0, 1, 7].map(|len| good[..18 + len].to_vec());
        for bad in short {
            assert_eq!(error(rx(), &bad, 0), TermError::CatastrophicStream);
        }
        assert_eq!(error(rx(), &good, 1), TermError::CatastrophicStream);

        // Inside of a Send, whether that has begun with octets or without.
        for len in [0, 4] {
            let mut open = rx();
            action(&mut open, &untagged(3, 0, 1, 0, false), len);
            let inside = immediate(0, 1, len.into(), true);
            assert_eq!(error(open, &inside, 0), TermError::UnexpectedOpcode);
        }
    }
}

/// X-IMM-4: 32 bits are in the first half; if that is zero, in the other.
#[test]
fn x_imm_4_halves() {
    assert_eq!(
        ImmediateData::from_short([1, 2, 3, 4]),
        ImmediateData([1, 2, 3, 4, 0, 0, 0, 0])
    );
    for (data, short) in [
        ([1, 2, 3, 4, 0, 0, 0, 0], [1, 2, 3, 4]),
        ([0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4]),
        ([0, 0, 0, 1, 5, 6, 7, 8], [0, 0, 0, 1]),
        ([0; 8], [0; 4]),
    ] {
        assert_eq!(ImmediateData(data).short(), short);
    }
}

/// P-RDMAP-5, P-ERR-21, V-AE-14, V-AE-15: malformed Read Requests.
#[test]
fn p_rdmap_5_read_requests() {
    let mut rx = rx();
    let good = read_request(1, 77, 0x1000);
    for (msn, want) in [(0, TermError::UntaggedMsn), (2, TermError::UntaggedMsn)] {
        assert_eq!(error(rx, &read_request(msn, 4, 0), 0), want);
    }
    let mut bad = good.clone();
    bad[17] = 1;
    assert_eq!(error(rx, &bad, 0), TermError::UntaggedMo);
    let mut bad = good.clone();
    bad[0] &= !LAST;
    assert_eq!(error(rx, &bad, 0), TermError::CatastrophicStream);
    assert_eq!(error(rx, &good, 1), TermError::UntaggedTooLong);
    assert_eq!(error(rx, &good[..45], 0), TermError::UntaggedMo);
    let request = ReadRequest::parse(&good[18..]).unwrap();
    let want = Action::ReadRequest {
        msn: Msn(1),
        request,
    };
    assert_eq!(action(&mut rx, &good, 0), want);
    assert_eq!(error(rx, &good, 0), TermError::UntaggedMsn);
    action(&mut rx, &read_request(2, 0, 0), 0);
}

/// V-WC-5: a Terminate names the Read Request that it refuses.
#[test]
fn v_wc_5_refused_read() {
    let mut rx = rx();
    let mut head = untagged(7, 2, 1, 0, true);
    head.extend_from_slice(&[0x01, 0x02, 0xe0, 0x00, 0, 46]);
    head.extend_from_slice(&untagged(1, 1, 5, 0, true));
    let segment = feed(&mut rx, &head, 0).unwrap();
    assert_eq!(
        segment.action,
        Action::Terminate {
            code: 0x0102,
            read: Some(Msn(5)),
            placed: None,
        }
    );
}

/// T-32, V-ST-15: a Terminate ends the stream; none is to be sent back.
#[test]
fn v_st_15_terminate() {
    let mut rx = rx();
    let mut head = untagged(7, 2, 1, 0, true);
    head.extend_from_slice(&[0x11, 0x00, 0x00, 0x00]);
    let segment = feed(&mut rx, &head, 0).unwrap();
    assert_eq!(
        segment.action,
        Action::Terminate {
            code: 0x1100,
            read: None,
            placed: None,
        }
    );
    // P-ERR-29.
    assert_eq!(
        feed(&mut rx, &tagged(0, 1, 0, true), 4).unwrap().action,
        Action::Ignore
    );
}

/// X-ENH-15, X-ENH-19, X-ENH-20: the ready-to-receive messages at the responder.
#[test]
fn x_enh_20_rtr() {
    let send = untagged(3, 0, 1, 0, true);
    let mut rx = Segments::new(RtrSet::ALL);
    let segment = feed(&mut rx, &send, 0).unwrap();
    assert_eq!((segment.action, segment.first), (Action::Ignore, true));
    // Its number counts; only the first one is special.
    let segment = feed(&mut rx, &untagged(3, 0, 2, 0, true), 0).unwrap();
    assert!(matches!(segment.action, Action::Send { .. }) && !segment.first);

    for head in [tagged(0, 1, 0, true), read_request(1, 0, 0)] {
        let mut rx = Segments::new(RtrSet::ALL);
        let segment = feed(&mut rx, &head, 0).unwrap();
        assert!(segment.first && segment.action != Action::Ignore);
        assert!(!feed(&mut rx, &tagged(0, 1, 0, true), 0).unwrap().first);
    }

    // A first Send with contents, one that asks for something, or where no Send was agreed on,
    // is a message like any other.
    let no_send = RtrSet {
        send: false,
        ..RtrSet::ALL
    };
    for (rtr, head, payload) in [
        (RtrSet::ALL, send.clone(), 4),
        (RtrSet::ALL, untagged(3, 0, 1, 0, false), 0),
        (RtrSet::ALL, untagged(5, 0, 1, 0, true), 0),
        (no_send, send.clone(), 0),
        (RtrSet::default(), send.clone(), 0),
    ] {
        let segment = feed(&mut Segments::new(rtr), &head, payload).unwrap();
        assert!(segment.first && matches!(segment.action, Action::Send { .. }));
    }
}

/// T-46: headers at random never do harm, and what is accepted keeps its promises.
#[test]
fn t_46_random_segments() {
    let mut rng = Rng::new(3);
    for _ in 0..200_000 {
        let mut rx = Segments::new(RtrSet::ALL);
        for _ in 0..4 {
            let mut head = rng.bytes(70);
            head[0] = head[0] & 0xc0 | 1;
            head[1] = head[1] & 0x0f | 0x40;
            if !rng.one_in(4) {
                head[6..18].fill(0);
                head[9] = rng.below(3) as u8;
                head[13] = rng.below(3) as u8;
            }
            let len = 14 + rng.below(70) as u16;
            let known = usize::from(len).min(70);
            let Ok(segment) = rx.segment(&head[..known], len, &ALL) else {
                break;
            };
            if segment.action != Action::Ignore {
                assert!(segment.header_len + segment.payload_len == len);
            }
            match segment.action {
                Action::Send { mo, .. } => {
                    assert!(mo.checked_add(u32::from(segment.payload_len)).is_some());
                }
                Action::ReadRequest { .. } => assert_eq!(segment.payload_len, 0),
                _ => {}
            }
        }
    }
}
