// SPDX-License-Identifier: GPL-2.0

//! How many octets of a segment have to be read before it is known.

use crate::proto::deframer::FPDU_FRONT;
use crate::proto::segment::{is_enough, Action, Rights, Segments, Target, FRONT_LEN, HEAD_LEN};
use crate::support::by_hand;
use crate::support::rights::ALL;
use crate::support::rng::{Choices, Rng};
use crate::wire::ddp::LAST;
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::mpa::RtrSet;
use crate::wire::terminate::Quote;

/// T-46: what is expected of a segment after the one before changes nothing about what it means,
/// also where it is another, or a part of it.
#[test]
fn t_46_runs_make_no_difference() {
    let mut rng = Rng::new(46);
    let mut expected_ones = 0;
    for round in 0..20_000 {
        let mut quick = Segments::new(RtrSet::default());
        let mut slow = quick;
        let tagged = rng.one_in(2);
        let response = rng.one_in(2);
        let payload = [0u16, 1, 100, 1424][rng.below(4)];
        // Near the end of the offsets now and then.
        let mut at = match rng.one_in(4) {
            true => u64::MAX - 3_000,
            false => 0x1000,
        };
        let mut mo = 0u32;
        let mut before = None;
        for n in 0..6 {
            let last = n == 5 || rng.one_in(8);
            let mut ulpdu = if tagged {
                let control = if last { by_hand::T_LAST } else { by_hand::T };
                let opcode = match response {
                    true => by_hand::READ_RESP,
                    false => by_hand::WRITE,
                };
                by_hand::tagged(control, opcode, 7, at, &[])
            } else {
                let control = if last { by_hand::U_LAST } else { by_hand::U };
                by_hand::untagged(control, by_hand::SEND, 0, [0, 1, mo], &[])
            };
            if rng.one_in(16) {
                let octet = rng.below(ulpdu.len());
                ulpdu[octet] ^= 1 << rng.below(8);
            }
            let len = ulpdu.len() as u16 + if rng.one_in(16) { 50 } else { payload };
            ulpdu.resize(HEAD_LEN.min(len.into()), 0x5a);
            let limits = Rights {
                write: !rng.one_in(32),
                ..ALL
            };
            let mut front = len.to_be_bytes().to_vec();
            front.extend(&ulpdu);
            front.resize(FPDU_FRONT, 0);
            let front: [u8; FPDU_FRONT] = front.try_into().expect("as long");
            at = at.wrapping_add(u64::from(payload));
            mo = mo.wrapping_add(payload.into());
            let result = slow.segment(&ulpdu, len, &limits);
            let run = quick.run(&limits).filter(|run| run.is_next(&front));
            // Those that are expected are as long as the one before and not the last.
            let last = front[2] & LAST != 0;
            assert!(run.is_none() || before == Some(len) && !last);
            before = Some(len);
            let Some(run) = run else {
                assert_eq!(quick.segment(&ulpdu, len, &limits), result, "{round} {n}");
                continue;
            };
            let expected = *run;
            if !run.advance() {
                // The end of the offsets: this one is taken by itself.
                assert_eq!(quick.segment(&ulpdu, len, &limits), result, "{round} {n}");
                continue;
            }
            let segment = result.expect("it goes on");
            let target = match segment.action {
                Action::Write {
                    stag,
                    to,
                    last: false,
                } => Target::Write(stag, to),
                Action::ReadResponse {
                    stag,
                    to,
                    last: false,
                } => Target::Response(stag, to),
                Action::Send {
                    mo,
                    first: false,
                    last: false,
                    ..
                } => Target::Receive(mo),
                action => panic!("{action:?}"),
            };
            assert_eq!(target, expected.target());
            assert_eq!(segment.payload_len, expected.payload_len());
            assert_eq!(
                expected.front_len(),
                LEN_FIELD + usize::from(segment.header_len)
            );
            assert_eq!(len, expected.ulpdu_len());
            quick.went_on(segment.payload_len.into());
            expected_ones += 1;
            // What follows is judged by the same state.
            assert_eq!(quick.without_run(), slow.without_run());
        }
    }
    assert!(expected_ones > 10_000, "{expected_ones}");
}

/// T-46: a Send that is taken in as a whole one, by its front, is what it is otherwise.
#[test]
fn t_46_whole_sends_make_no_difference() {
    let mut rng = Rng::new(48);
    let (mut whole, mut other) = (0, 0);
    for round in 0..20_000 {
        let rtr = RtrSet {
            send: rng.one_in(4),
            ..RtrSet::default()
        };
        let mut quick = Segments::new(rtr);
        let mut slow = quick;
        let mut msn = 1u32;
        for n in 0..4 {
            let opcode = [0x43, 0x43, 0x45, 0x44][rng.below(4)];
            let last = !rng.one_in(8);
            let mut ulpdu = vec![0x01 | (u8::from(last) << 6), opcode, 0, 0, 0, 9];
            ulpdu.extend(0u32.to_be_bytes());
            ulpdu.extend(msn.to_be_bytes());
            ulpdu.extend(0u32.to_be_bytes());
            if rng.one_in(8) {
                let octet = rng.below(ulpdu.len());
                ulpdu[octet] ^= 1 << rng.below(8);
            }
            let len = match rng.one_in(16) {
                true => 14 + rng.below(8),
                false => ulpdu.len() + rng.below(100),
            };
            ulpdu.resize(len, 0x5a);
            let head = &ulpdu[..HEAD_LEN.min(len)];
            let before = quick;
            let result = slow.segment(head, len as u16, &ALL);
            match quick.whole_send(head, len as u16) {
                Some(send) => {
                    let segment = result.expect("it is right");
                    let Action::Send {
                        mo: 0,
                        first: true,
                        last: true,
                        solicited,
                        invalidate: None,
                        immediate: None,
                        ..
                    } = segment.action
                    else {
                        panic!("{round} {n}: {segment:?}");
                    };
                    assert_eq!(segment.payload_len, send.payload_len);
                    assert_eq!(solicited, send.solicited);
                    assert!(!segment.first);
                    whole += 1;
                }
                None => {
                    assert_eq!(quick, before);
                    assert_eq!(quick.segment(head, len as u16, &ALL), result);
                    other += 1;
                }
            }
            assert_eq!(quick, slow, "{round} {n}");
            msn = quick.next().0 .0;
        }
    }
    assert!(whole > 10_000 && other > 10_000, "{whole} {other}");
}

/// Where the first octets are said to be enough, they tell what more of them would.
#[test]
fn t_46_front_is_enough() {
    let mut rng = Rng::new(7);
    let mut enough = 0;
    for _ in 0..200_000 {
        let mut ulpdu = rng.bytes(HEAD_LEN + 10);
        if !rng.one_in(4) {
            ulpdu[0] = ulpdu[0] & 0xc0 | 1;
            ulpdu[1] = ulpdu[1] & 0x0f | 0x40;
        }
        if !rng.one_in(4) {
            ulpdu[6..18].fill(0);
            ulpdu[9] = rng.below(3) as u8;
            ulpdu[13] = rng.below(3) as u8;
        }
        let len = 14 + rng.below(70) as u16;
        let front = &ulpdu[..FRONT_LEN.min(len.into())];
        let head = &ulpdu[..HEAD_LEN.min(len.into())];
        if !is_enough(front) {
            continue;
        }
        enough += 1;
        let (mut rx, mut other) = (Segments::new(RtrSet::ALL), Segments::new(RtrSet::ALL));
        assert_eq!(rx.segment(front, len, &ALL), other.segment(head, len, &ALL));
        assert_eq!(Quote::new(front, len), Quote::new(head, len));
    }
    assert!(enough > 50_000);
}
