// SPDX-License-Identifier: GPL-2.0

//! Sends that wait for a receive, if the administrator grants it some time: `proto::receiver`'s
//! `patience` (V-WR-19, V-SRQ-15). Without that, one without a receive ends the stream (P-ERR-10).

use super::receiver::{completed, counted, receiving, Peer};
use crate::proto::counters::Counter;
use crate::proto::message::Kind;
use crate::proto::receiver::{Extra, Lack, Received};
use crate::proto::state::QpState;
use crate::support::around::Did;
use crate::support::crc::take_done;
use crate::support::frames::fpdu;
use crate::support::receiving::Receiving;
use crate::support::rng::{Choices, Rng};
use crate::support::sending::params;
use crate::wire::ddp::{Msn, Stag, TAGGED_LEN, UNTAGGED_LEN};
use crate::wire::fpdu::CRC_LEN;
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{ImmediateData, ReadRequest};
use crate::wire::terminate::TermError;

fn patient() -> Receiving {
    let mut receiving = receiving();
    receiving.receiver.set_patience(100);
    receiving
}

/// Sends that had to wait since this was asked last.
fn waits(receiving: &mut Receiving) -> u64 {
    let counted = receiving.receiver.tally.take();
    counted.map_or(0, |(counts, _)| {
        core::mem::take(&mut counts[Counter::RxRecvWaits.index()])
    })
}

const NONE: Did = Did::Failed(TermError::UntaggedNoBuffer);

/// Each ULPDU is traced once, however the stream is cut and however often a receive is looked for.
#[test]
fn each_ulpdu_is_traced_once() {
    let mut peer = Peer::new(100);
    let stream = [peer.write(30), peer.send(40).concat(), peer.write(50)].concat();
    for traces in [true, false] {
        for cut in 0..=stream.len() {
            let mut receiving = patient();
            receiving.around.traces = traces;
            let (a, b) = stream.split_at(cut);
            receiving.feed(a);
            receiving.feed(b);
            receiving.feed(&[]);
            assert_eq!(receiving.receiver.lacks(), Lack::Receive);
            receiving.around.recvs.push_back(Some(40));
            receiving.feed(&[]);
            let heads: Vec<_> = receiving.around.heads.iter().map(Vec::len).collect();
            let all = [TAGGED_LEN + 30, UNTAGGED_LEN + 40, TAGGED_LEN + 50];
            match traces {
                true => assert_eq!(heads, all, "{cut}"),
                false => assert!(heads.is_empty()),
            }
        }
    }
}

/// Wherever the stream is cut, a Send waits, and what is behind it does; it goes on as if the
/// receive had been there.
#[test]
fn each_cut() {
    let mut peer = Peer::new(100);
    let stream = [
        peer.write(30),
        peer.send(40).concat(),
        peer.write(50),
        peer.send_invalidate(250, Stag(8)),
        peer.send(0).concat(),
    ]
    .concat();
    let mut eager = receiving();
    eager.around.recvs.extend([Some(1_000); 3]);
    eager.feed(&stream);
    let all = eager.did();
    assert!(!all.contains(&NONE));
    for cut in 0..=stream.len() {
        let mut receiving = patient();
        let (a, b) = stream.split_at(cut);
        receiving.feed(a);
        receiving.feed(b);
        let mut did = receiving.did();
        assert_eq!(did, all[..did.len()]);
        for left in (0..3).rev() {
            assert_eq!(receiving.receiver.lacks(), Lack::Receive, "{cut}");
            receiving.feed(&[]);
            assert_eq!(receiving.did(), [], "{cut}");
            receiving.around.recvs.push_back(Some(1_000));
            receiving.feed(&[]);
            did.extend(receiving.did());
            assert_eq!(receiving.receiver.lacks() == Lack::Receive, left > 0);
        }
        assert_eq!(did, all, "{cut}");
        assert!(receiving.unread.is_empty() && !receiving.receiver.is_cut());
        let waited = waits(&mut receiving);
        assert_eq!(waited, 3, "{cut}");
    }
}

/// Where no time is granted nothing waits, nor is it counted as if it had.
#[test]
fn no_time_is_granted() {
    let mut receiving = receiving();
    receiving.feed(&Peer::new(100).send(40).concat());
    assert_eq!(receiving.did().last(), Some(&NONE));
    assert_eq!(waits(&mut receiving), 0);
}

/// What waits is checked once, however often a receive is looked for, and what comes behind it is
/// not.
#[test]
fn is_checked_once() {
    let mut peer = Peer::new(60_000);
    let send = peer.send(50_000).concat();
    let behind = peer.send(50_000).concat();
    let covered = send.len() - CRC_LEN;
    type Make = fn() -> Receiving;
    let in_buffers: Make = || {
        let mut receiving = Receiving::in_buffers(&params(4));
        receiving.receiver.set_patience(100);
        receiving
    };
    // In one piece, in the buffer for pieces, and in two buffers of TCP.
    for (make, cut) in [(patient as Make, 0), (patient, 1_000), (in_buffers, 1_000)] {
        let mut receiving = make();
        take_done();
        receiving.feed(&send[..cut]);
        receiving.feed(&send[cut..]);
        assert_eq!(receiving.receiver.lacks(), Lack::Receive);
        assert_eq!(take_done(), covered);
        for octet in &behind[..100] {
            receiving.feed(&[*octet]);
        }
        assert_eq!(take_done(), 0, "at a look in vain");
        for n in 0..2 {
            receiving.around.recvs.push_back(Some(50_000));
            receiving.feed(if n == 0 { &[] } else { &behind[100..] });
            assert_eq!(receiving.did().last(), Some(&completed(n, 50_000)));
            // Each has been checked before it is placed.
            assert_eq!(take_done(), if n == 0 { 0 } else { covered });
        }
        assert!(receiving.unread.is_empty());
    }
}

/// The one behind it is checked again.
#[test]
fn next_is_checked() {
    let mut peer = Peer::new(100);
    let send = peer.send(40).concat();
    let mut bad = peer.send(40).concat();
    *bad.last_mut().unwrap() ^= 1;
    let mut receiving = patient();
    receiving.feed(&send);
    assert_eq!(receiving.receiver.lacks(), Lack::Receive);
    receiving.around.recvs.extend([Some(40); 2]);
    receiving.feed(&bad);
    let did = receiving.did();
    assert!(did.contains(&completed(0, 40)));
    assert_eq!(did.last(), Some(&Did::Failed(TermError::MpaCrc)));
}

/// When the time is over the stream ends as it would have without.
#[test]
fn ends_when_the_time_is_over() {
    let send = Peer::new(100).send(40).concat();
    let mut hasty = receiving();
    hasty.feed(&send);
    for cut in [0, 10] {
        let mut receiving = patient();
        receiving.feed(&send[..cut]);
        receiving.feed(&send[cut..]);
        let mut waited = 0;
        while receiving.receiver.lacks() == Lack::Receive {
            receiving.feed(&[]);
            assert!(receiving.around.failure.is_none());
            let Some(pause) = receiving.receiver.pause() else {
                break;
            };
            waited += pause;
        }
        assert_eq!(waited, 100);
        receiving.feed(&[]);
        assert_eq!(receiving.did().last(), Some(&NONE));
        let failures = [&hasty, &receiving].map(|x| format!("{:?}", x.around.failure));
        assert_eq!(failures[0], failures[1]);
    }
}

/// What arrives during a pause, the last one too, does not end it: a Send waits for all of the time,
/// and no longer.
#[test]
fn waits_to_the_millisecond() {
    for limit in [1, 2, 10, 16, 31, 32, 100] {
        for until in 0..=limit {
            let mut peer = Peer::new(100);
            let mut receiving = receiving();
            receiving.receiver.set_patience(limit);
            receiving.feed(&peer.send(40).concat());
            // A millisecond after the other: the timer runs out, or something arrives.
            let mut timer = 0;
            for _ in 0..until {
                if timer == 0 {
                    receiving.feed(&[]);
                    timer = receiving.receiver.pause().expect("time is left");
                }
                receiving.feed(&peer.write(10));
                assert_eq!(receiving.receiver.lacks(), Lack::Receive, "{limit}");
                timer -= 1;
            }
            if until < limit {
                receiving.around.recvs.push_back(Some(40));
            } else {
                assert_eq!((timer, receiving.receiver.pause()), (0, None), "{limit}");
            }
            receiving.feed(&[]);
            let is_taken = receiving.did().contains(&completed(0, 40));
            assert_eq!(is_taken, until < limit, "{limit}, {until}");
            assert_eq!(receiving.around.failure.is_none(), is_taken);
        }
    }
}

/// Each Send has all of the time, and is looked for soon at first.
#[test]
fn begins_anew() {
    let mut peer = Peer::new(100);
    let mut receiving = patient();
    for n in 0..3 {
        receiving.feed(&peer.send(40).concat());
        let pauses = [(); 6].map(|()| receiving.receiver.pause());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16].map(Some), "{n}");
        receiving.around.recvs.push_back(Some(40));
        receiving.feed(&[]);
        assert_eq!(receiving.did().last(), Some(&completed(n, 40)));
    }
}

/// X-IMM-1: Immediate Data waits as Sends do, and is taken in as it is without.
#[test]
fn immediate_data_waits() {
    let data = ImmediateData([1, 2, 3, 4, 0, 0, 0, 0]);
    let solicited = true;
    let message = Peer::new(100).message(Kind::Immediate { data, solicited }, 0);
    let mut receiving = patient();
    receiving.feed(&message.concat());
    assert_eq!(receiving.receiver.lacks(), Lack::Receive);
    receiving.around.recvs.push_back(Some(0));
    receiving.feed(&[]);
    let received = Received {
        id: 0,
        len: 0,
        solicited,
        extra: Extra::Immediate(data),
    };
    assert_eq!(receiving.did().last(), Some(&Did::Completed(received)));

    let mut hasty = super::receiver::receiving();
    hasty.feed(&message.concat());
    assert!(hasty.did().contains(&NONE));
}

/// What is wrong anyway does not wait, nor what needs no receive.
#[test]
fn does_not_wait() {
    // Another number than is due.
    let mut peer = Peer::new(100);
    peer.send(40);
    let mut receiving = patient();
    receiving.feed(&peer.send(40).concat());
    assert!(receiving
        .did()
        .contains(&Did::Failed(TermError::UntaggedMsn)));

    // A receive that makes no sense.
    let mut receiving = patient();
    receiving.around.recvs.push_back(None);
    receiving.feed(&Peer::new(100).send(40).concat());
    let bad = Did::Failed(TermError::LocalCatastrophic);
    assert_eq!(receiving.did().last(), Some(&bad));
    assert!(receiving.around.failure.is_some_and(|f| f.quote.is_some()));

    // What the responder of a peer-to-peer connection is told first.
    let mut params = params(4);
    params.expect_rtr = RtrSet::ALL;
    let mut receiving = Receiving::new(&params);
    receiving.receiver.set_patience(100);
    receiving.feed(&Peer::new(100).send(0).concat());
    assert_ne!(receiving.receiver.lacks(), Lack::Receive);
    assert_eq!(receiving.did(), [Did::FirstFpdu, Did::FirstSegment]);

    // In Closing it ends the stream (T-37).
    let mut receiving = patient();
    receiving.around.state = QpState::Closing;
    receiving.feed(&Peer::new(100).send(40).concat());
    assert_eq!(receiving.did().last(), Some(&Did::DataInClosing));
}

/// M-MPA-13: a Send that lies in two buffers waits in them, and is taken in from there.
#[test]
fn m_mpa_13_in_two_buffers() {
    let send = Peer::new(100).send(40).concat();
    for cut in 20..send.len() {
        let mut receiving = Receiving::in_buffers(&params(4));
        receiving.receiver.set_patience(100);
        receiving.feed(&send[..cut]);
        receiving.feed(&send[cut..]);
        assert_eq!(receiving.receiver.lacks(), Lack::Receive);
        assert_eq!(receiving.unread, send);
        receiving.around.recvs.push_back(Some(40));
        receiving.feed(&[]);
        assert_eq!(receiving.did().last(), Some(&completed(0, 40)));
        assert!(receiving.unread.is_empty());
        assert_eq!(counted(&mut receiving, Counter::RxFpdusJoined), 1);
    }
}

/// What takes no receive does not wait for one: a Read Request, nor what is none of the messages that
/// belong on the queue of Sends (P-ERR-8, P-ERR-9).
#[test]
fn takes_no_receive() {
    let request = ReadRequest {
        len: 5,
        ..ReadRequest::default()
    };
    let message = Peer::new(100).message(Kind::ReadRequest(request), 0);
    let mut receiving = patient();
    receiving.feed(&message.concat());
    assert_ne!(receiving.receiver.lacks(), Lack::Receive);
    let queued = Did::ReadRequest(Msn::FIRST, request);
    assert_eq!(receiving.did().last(), Some(&queued));

    for opcode in [1, 7, 15] {
        let send = Peer::new(100).send(28).concat();
        let mut ulpdu = send[2..][..46].to_vec();
        ulpdu[1] = ulpdu[1] & 0xf0 | opcode;
        let mut receiving = patient();
        receiving.feed(&fpdu(&ulpdu));
        assert_ne!(receiving.receiver.lacks(), Lack::Receive, "{opcode}");
        assert!(receiving.around.failure.is_some(), "{opcode}");
    }
}

/// V-TM-4: a stream that ends on this side meanwhile ends what waits as well: no receive is taken for
/// it, and what comes is dropped.
#[test]
fn v_tm_4_ends_meanwhile() {
    for cut in [0, 10] {
        let send = Peer::new(100).send(40).concat();
        let mut receiving = patient();
        receiving.feed(&send[..cut]);
        receiving.feed(&send[cut..]);
        assert_eq!(receiving.receiver.lacks(), Lack::Receive);
        let failure = TermError::LocalCatastrophic;
        let Receiving {
            receiver, around, ..
        } = &mut receiving;
        assert!(!receiver.is_stopped());
        receiver.stop();
        around.fail(failure.into());
        assert!(receiver.is_stopped());
        assert_ne!(receiving.receiver.lacks(), Lack::Receive);
        receiving.around.recvs.push_back(Some(40));
        receiving.feed(&send);
        assert_eq!(receiving.did(), [Did::FirstFpdu, Did::Failed(failure)]);
        assert_eq!(receiving.around.recvs, [Some(40)]);
        assert!(receiving.unread.is_empty());
        assert_eq!(counted(&mut receiving, Counter::RxFpdus), 0);
    }
}

/// A Send waits also if it comes before the queue pair is told of its connection.
#[test]
fn while_starting() {
    let mut receiving = patient();
    receiving.around.state = QpState::Idle;
    receiving.feed(&Peer::new(100).send(40).concat());
    assert_eq!(receiving.receiver.lacks(), Lack::Receive);
    assert_eq!(receiving.did(), [Did::FirstFpdu]);
}

/// Closing does not wait for what had begun to wait.
#[test]
fn closing_meanwhile() {
    for cut in [0, 10] {
        let send = Peer::new(100).send(40).concat();
        let mut receiving = patient();
        receiving.feed(&send[..cut]);
        receiving.feed(&send[cut..]);
        assert_eq!(receiving.receiver.lacks(), Lack::Receive);
        receiving.around.state = QpState::Closing;
        receiving.feed(&[]);
        assert_eq!(receiving.did().last(), Some(&Did::DataInClosing));
        assert_ne!(receiving.receiver.lacks(), Lack::Receive);
    }
}

/// T-46: messages in any pieces, with receives that come at any time, make what they make if all
/// is there from the start.
#[test]
fn late_receives_make_no_difference() {
    let mut rng = Rng::new(17);
    let mut waited = 0;
    for round in 0..2_000 {
        let mut peer = Peer::new([60, 100, 300][rng.below(3)]);
        let (mut eager, mut patient) = (receiving(), patient());
        let mut stream = Vec::new();
        let mut late = 0;
        for _ in 0..4 {
            let len = rng.below(700) as u32;
            if rng.one_in(2) {
                stream.extend(peer.write(len));
                continue;
            }
            eager.around.recvs.push_back(Some(700));
            late += 1;
            stream.extend(peer.send(len).concat());
        }
        if rng.one_in(4) {
            let octet = rng.below(stream.len());
            if let Some(octet) = stream.get_mut(octet) {
                *octet ^= 1 << rng.below(8);
            }
        }
        eager.feed(&stream);
        let mut rest = &stream[..];
        while !rest.is_empty() || patient.receiver.lacks() == Lack::Receive {
            if late > 0 && (rng.one_in(3) || rest.is_empty()) {
                patient.around.recvs.push_back(Some(700));
                late -= 1;
            }
            let (a, b) = rest.split_at(rng.below(rest.len() + 1));
            patient.feed(a);
            rest = b;
        }
        assert_eq!(patient.did(), eager.did(), "{round}");
        waited += waits(&mut patient);
    }
    assert!(waited > 1_000, "{waited}");
}
