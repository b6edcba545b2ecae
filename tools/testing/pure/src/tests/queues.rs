// SPDX-License-Identifier: GPL-2.0

//! Outbound and inbound Reads and the completion order, over rings of every small capacity.

use crate::proto::drain::Drained;
use crate::proto::failure::Fault;
use crate::proto::reads::{
    Inbound, InboundRead, InboundReads, OutboundRead, OutboundReads, Responding, ResponseTo,
};
use crate::proto::ring::{Full, Ring};
use crate::proto::sends::{Order, Record, Sends, Status, Token};
use crate::support::rng::{Choices, Rng};
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use std::collections::VecDeque;

/// A ring takes entries at both ends, wherever its oldest one is.
#[test]
fn ring_against_a_deque() {
    for capacity in (0..=20).chain([255]) {
        let mut rng = Rng::new(capacity as u64);
        let mut ring = Ring::new(vec![0; capacity]);
        let mut model = VecDeque::new();
        for n in 0..5000u32 {
            let is_full = model.len() == capacity;
            let pushed = if is_full { Err(Full) } else { Ok(()) };
            match rng.below(4) {
                0 => {
                    assert_eq!(ring.push(n), pushed);
                    model.extend(pushed.map(|()| n));
                }
                1 => {
                    assert_eq!(ring.push_oldest(n), pushed);
                    if !is_full {
                        model.push_front(n);
                    }
                }
                2 => assert_eq!(ring.pop(), model.pop_front()),
                _ => assert_eq!(ring.pop_youngest(), model.pop_back()),
            }
            let at = rng.below(capacity + 2);
            assert_eq!(ring.get(at), model.get(at));
            assert_eq!(ring.get_mut(at), model.get_mut(at));
            assert_eq!(
                (ring.len(), ring.is_full()),
                (model.len(), model.len() == capacity)
            );
            if rng.one_in(500) {
                ring.clear();
                model.clear();
            }
        }
    }
}

fn read(n: u64, len: u32) -> OutboundRead {
    OutboundRead {
        sink_stag: Stag(n as u32),
        sink_to: TaggedOffset(n * 1000),
        len,
        token: Some(Token(n as u32)),
        ..OutboundRead::default()
    }
}

/// P-RDMAP-11: responses answer Reads in order.
#[test]
fn p_rdmap_11_responses_in_order() {
    let mut outbound = OutboundReads::new(vec![OutboundRead::default(); 2]);
    outbound.push(read(1, 100)).unwrap();
    outbound.push(read(2, 0)).unwrap();
    assert_eq!(outbound.push(read(3, 1)), Err(Full));
    for n in 1..=2 {
        let got = outbound.answered(ResponseTo::Read);
        assert_eq!(got.map(|entry| entry.token), Ok(Some(Token(n))));
        // V-FNC-1: it is outstanding until the last segment is placed.
        assert_eq!(outbound.outstanding(), 3 - n as usize);
        let token = outbound.pop().map(|entry| entry.token);
        assert_eq!(token, Some(Some(Token(n))));
    }
    assert_eq!(outbound.outstanding(), 0);
    assert_eq!(
        outbound.answered(ResponseTo::Read),
        Err(TermError::TaggedStag)
    );
}

/// P-RDMAP-11, T-46: a response comes in segments of any size; STag and offset of an empty one do
/// not count (T-23).
#[test]
fn p_rdmap_11_segments() {
    let mut responding = Responding::new(read(1, 100));
    let segments = [
        (1, 1000, 60, false, 40),
        (99, 0, 0, false, 40),
        (1, 1060, 40, true, 0),
    ];
    for (stag, to, len, last, left) in segments {
        let at = (Stag(stag), TaggedOffset(to));
        assert_eq!(responding.segment(at, len, last), Ok(()));
        assert_eq!(responding.left(), left);
    }
    let mut empty = Responding::new(read(2, 0));
    let at = (Stag(77), TaggedOffset(5));
    assert_eq!(empty.segment(at, 0, true), Ok(()));
}

/// V-WC-5: a Terminate that quotes a Read Request names one of ours by its number, as long as it is
/// outstanding.
#[test]
fn v_wc_5_read_by_number() {
    let mut outbound = OutboundReads::new(vec![OutboundRead::default(); 3]);
    let found = |outbound: &OutboundReads<Vec<OutboundRead>>| -> Vec<u32> {
        let numbers = [0, 1, 2, 3, 4, 5, u32::MAX];
        let known = |n: &u32| outbound.find(Msn(*n)).map(|entry| entry.len);
        numbers.iter().filter_map(known).collect()
    };
    assert!(found(&outbound).is_empty());
    for n in 1..=3 {
        outbound.push(read(n, 10 * n as u32)).unwrap();
    }
    assert_eq!(found(&outbound), [10, 20, 30]);
    assert_eq!(outbound.find(Msn(2)).map(|e| e.token), Some(Some(Token(2))));
    outbound.pop();
    outbound.pop();
    assert_eq!(found(&outbound), [30]);
    outbound.push(read(4, 40)).unwrap();
    assert_eq!(outbound.find(Msn(4)).map(|e| e.token), Some(Some(Token(4))));
    assert_eq!(found(&outbound), [30, 40]);
}

/// P-RDMAP-12, P-RDMAP-13, P-ERR-24, V-AE-15, T-22: responses that do not fit.
#[test]
fn p_rdmap_12_13_wrong_responses() {
    let respond = |read, stag, to, len, last| {
        let mut responding = Responding::new(read);
        responding.segment((Stag(stag), TaggedOffset(to)), len, last)
    };
    let (bounds, stream) = (TermError::TaggedBounds, TermError::CatastrophicStream);
    for (len, stag, to, octets, last, want) in [
        (100, 2, 1000, 100, true, Err(TermError::TaggedStag)),
        (100, 1, 1001, 99, true, Err(bounds)),
        (100, 1, 999, 100, true, Err(bounds)),
        (100, 1, 1000, 101, true, Err(bounds)),
        (100, 1, 1000, 99, true, Err(bounds)),
        (100, 1, 1000, 0, true, Err(bounds)),
        (100, 1, 1000, 100, false, Err(stream)),
        (100, 1, 1000, 100, true, Ok(())),
        (0, 1, 1000, 1, true, Err(bounds)),
        (0, 0, 0, 0, false, Err(stream)),
    ] {
        let got = respond(read(1, len), stag, to, octets, last);
        assert_eq!(got, want, "{len}: {stag} {to} {octets} {last}");
    }
    // A sink at the very end of the offsets, and one that would wrap.
    let mut high = read(1, 2);
    high.sink_to = TaggedOffset(u64::MAX);
    let mut responding = Responding::new(high);
    let at = |to| (Stag(1), TaggedOffset(to));
    assert_eq!(responding.segment(at(u64::MAX), 1, false), Ok(()));
    assert_eq!(responding.segment(at(0), 1, true), Err(bounds));
}

/// V-RD-9, V-RD-10, T-29: no more than IRD, in order.
#[test]
fn v_rd_9_irq_is_capped() {
    for ird in [0, 1, 2, 16, 255] {
        let mut inbound = InboundReads::new(vec![Inbound::default(); ird]);
        let read = |n| {
            let request = ReadRequest {
                len: n,
                ..ReadRequest::default()
            };
            let msn = Msn(n);
            InboundRead { msn, request }
        };
        for n in 0..ird as u32 {
            assert!(inbound.has_room());
            inbound.push(Inbound::Read(read(n))).unwrap();
            assert!(inbound.len() == n as usize + 1 && !inbound.is_empty());
        }
        assert!(!inbound.has_room());
        let more = inbound.push(Inbound::default());
        assert_eq!(more, Err(TermError::UntaggedNoBuffer));
        for n in 0..ird as u32 {
            assert_eq!(inbound.front(), Some(Inbound::Read(read(n))));
            assert_eq!(inbound.pop(), Some(Msn(n)));
        }
        assert!(inbound.is_empty() && inbound.pop().is_none());
    }
}

/// T-4, V-ORD-2: a Send behind a Read completes after it.
#[test]
fn t_4_completion_order() {
    let mut order = Order::new(vec![Record::<u8, u8>::default(); 3]);
    let read = order.push(1).unwrap();
    let send = order.push(2).unwrap();
    let write = order.push(3).unwrap();
    assert_eq!(order.push(4), Err(Full));
    order.done(write);
    order.done(send);
    assert_eq!(order.pop(), None);
    order.done(read);
    assert_eq!(order.pop(), Some((1, Status::Success)));
    assert_eq!(order.pop(), Some((2, Status::Success)));
    assert_eq!(order.pop(), Some((3, Status::Success)));
    assert_eq!(order.pop(), None);
    // A token of the past names nothing.
    order.push(5).unwrap();
    order.done(write);
    assert_eq!(order.pop(), None);
}

/// T-11: only the youngest request is taken back, and the others keep their names when older ones
/// are taken out.
#[test]
fn t_11_names_hold() {
    let mut order = Order::new(vec![Record::<u8, u8>::default(); 3]);
    assert!(!order.take_back(Token(0)));
    let tokens = [1, 2, 3].map(|work| order.push(work).unwrap());
    assert_eq!(order.flush(&mut None), Some((1, Status::Flushed)));
    assert_eq!((order.len(), order.is_empty()), (2, false));
    assert!(!order.take_back(tokens[0]) && !order.take_back(tokens[1]));
    assert!(order.take_back(tokens[2]));
    assert_eq!(tokens.map(|token| order.done(token)), [None, Some(2), None]);
    assert_eq!(order.pop(), Some((2, Status::Success)));
    assert_eq!((order.len(), order.is_empty()), (0, true));
}

/// What a peer that is gone is blamed for is the error of the first request that has not ended.
#[test]
fn t_33_blame() {
    let mut order = Order::new(vec![Record::<u8, u8>::default(); 8]);
    let tokens: Vec<Token> = (0..4).map(|n| order.push(n).unwrap()).collect();
    order.done(tokens[0]);
    let mut blame = Some(7);
    let all: Vec<_> = std::iter::from_fn(|| order.flush(&mut blame)).collect();
    let rest = [1, 2, 3].map(|n| (n, Status::Flushed));
    let want = [
        (0, Status::Success),
        (1, Status::Failed(7)),
        rest[1],
        rest[2],
    ];
    assert_eq!(all, want);
    // T-33: the QP has one error completion.
    let mut order = Order::new(vec![Record::<u8, u8>::default(); 8]);
    let tokens: Vec<Token> = (0..2).map(|n| order.push(n).unwrap()).collect();
    assert!(order.fail(tokens[1], 9));
    let all: Vec<_> = std::iter::from_fn(|| order.flush(&mut Some(7))).collect();
    assert_eq!(all, [(0, Status::Flushed), (1, Status::Failed(9))]);
}

/// T-33, V-ST-26: one error completion; V-ST-28: the flush keeps the order.
#[test]
fn t_33_one_failure() {
    let mut order = Order::new(vec![Record::<u8, u8>::default(); 8]);
    let tokens: Vec<Token> = (0..5).map(|n| order.push(n).unwrap()).collect();
    order.done(tokens[0]);
    assert!(order.fail(tokens[2], 9));
    assert!(!order.fail(tokens[2], 10));
    assert!(!order.fail(tokens[3], 9));
    order.done(tokens[4]);
    order.done(tokens[2]);
    assert_eq!(order.pop(), Some((0, Status::Success)));
    assert_eq!(order.pop(), None);
    let rest: Vec<_> = std::iter::from_fn(|| order.flush(&mut None)).collect();
    let want = [
        (1, Status::Flushed),
        (2, Status::Failed(9)),
        (3, Status::Flushed),
        (4, Status::Success),
    ];
    assert_eq!(rest, want);
    let token = order.push(7).unwrap();
    assert!(!order.fail(token, 1));
    // T-35: as new.
    order.reset();
    let token = order.push(8).unwrap();
    assert!(order.fail(token, 1));
    assert_eq!(order.pop(), Some((8, Status::Failed(1))));
    // V-ST-26: a receive that fails first is the one, of both queues.
    order.reset();
    let token = order.push(9).unwrap();
    assert_eq!(order.fails(3), Status::Failed(3));
    assert_eq!(order.fails(4), Status::Flushed);
    assert!(!order.fail(token, 1));
    assert_eq!(order.pop(), Some((9, Status::Flushed)));
}

/// T-11: each request ends exactly once, whatever the order of the ends.
#[test]
fn t_11_exactly_one_end() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut order = Order::new(vec![Record::<u32, u8>::default(); 1 + rng.below(16)]);
        let mut live = Vec::new();
        let mut next = 0;
        let mut popped = Vec::new();
        for _ in 0..500 {
            if rng.one_in(2) {
                if let Ok(token) = order.push(next) {
                    live.push(token);
                    next += 1;
                }
            } else if !live.is_empty() {
                let token = live.swap_remove(rng.below(live.len()));
                order.done(token);
                order.done(token);
            }
            popped.extend(std::iter::from_fn(|| order.pop()).map(|(w, _)| w));
        }
        popped.extend(std::iter::from_fn(|| order.flush(&mut None)).map(|(w, _)| w));
        assert_eq!(popped, (0..next).collect::<Vec<_>>());
    }
}

/// V-QP-21: requests under way move to a larger ring, their tokens stay good. Between the steps of
/// a move requests begin, end, and are taken back.
#[test]
fn v_qp_21_more_records() {
    let mut between = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut depth = 1 + rng.below(4);
        let mut order = Order::new(vec![Record::<u32, u8>::default(); depth]);
        let (mut live, mut next, mut popped, mut moves) = (Vec::new(), 0, Vec::new(), false);
        for _ in 0..200 {
            match rng.below(12) {
                0 => {
                    let asked = 1 + rng.below(40);
                    let unused = order.grow(vec![Record::default(); asked]);
                    // One move at a time, and only to what is larger.
                    assert_eq!(unused.is_none(), asked > depth && !moves);
                    if unused.is_none() {
                        (depth, moves) = (asked, true);
                        assert!(!order.is_full());
                    }
                }
                1..=2 => {
                    if let Some(old) = order.move_some(rng.below(4)) {
                        assert!(moves && old.len() < depth);
                        moves = false;
                    }
                }
                3..=6 => {
                    let is_full = next as usize - popped.len() == depth;
                    assert_eq!(order.is_full(), is_full);
                    match order.push(next) {
                        Ok(token) => live.push((token, next)),
                        Err(Full) => assert!(is_full),
                    }
                    next += u32::from(!is_full);
                }
                7 => {
                    let youngest = live.last().copied();
                    if let Some((token, work)) = youngest {
                        if order.take_back(token) {
                            assert_eq!(work + 1, next);
                            live.pop();
                            next -= 1;
                        }
                    }
                }
                _ if !live.is_empty() => {
                    let (token, work) = live.remove(rng.below(live.len()));
                    assert_eq!(order.done(token), Some(work));
                    between += usize::from(moves);
                }
                _ => (),
            }
            popped.extend(std::iter::from_fn(|| order.pop()).map(|(w, _)| w));
            assert_eq!(order.len(), next as usize - popped.len());
        }
        for (token, work) in live {
            assert_eq!(order.done(token), Some(work));
        }
        popped.extend(std::iter::from_fn(|| order.pop()).map(|(w, _)| w));
        assert_eq!(popped, (0..next).collect::<Vec<_>>());
        order.reset();
        assert!(order.is_empty());
    }
    assert!(between > 1_000, "{between}");
}

/// No step of a move takes longer than it was told, however many requests are under way.
#[test]
fn v_qp_21_moves_in_steps() {
    const DEPTH: u32 = 16_384;
    let records = |count| vec![Record::<u32, u8>::default(); count];
    let mut order = Order::new(records(DEPTH as usize));
    for n in 0..DEPTH {
        order.push(n).unwrap();
    }
    assert!(order.grow(records(2 * DEPTH as usize)).is_none());
    let steps = (1..).find(|_| order.move_some(64).is_some());
    assert_eq!(steps, Some(DEPTH / 64));
    assert_eq!(order.len(), DEPTH as usize);
}

type Records = Vec<Record<u32, Fault>>;

fn records(count: usize) -> Records {
    vec![Record::default(); count]
}

fn sends(depth: usize) -> Sends<Records, Vec<OutboundRead>> {
    Sends::new(records(depth), Vec::new())
}

/// V-QP-21: requests under way move to more records when the send queue grows, and stay where they
/// are when it does not; what waits for a record is noted.
#[test]
fn v_qp_21_sends_grow() {
    let mut sends = sends(2);
    let first = sends.push(10).unwrap();
    assert!(sends.room().is_ok() && !sends.is_stalled());
    sends.push(11).unwrap();
    assert!(sends.room().is_err() && sends.is_stalled());
    assert!(sends.grow(records(3)).is_none());
    // There is room from here on, and no other move before this one has ended.
    assert!(sends.room().is_ok());
    assert!(sends.grow(records(4)).is_some());
    assert_eq!(sends.move_some(2).map(|old| old.len()), Some(2));
    sends.done(first);
    let mut done = Vec::new();
    let completed = sends.complete(|work, status| done.push((work, status)));
    assert!(completed.resumes && completed.drained == Drained::Empty);
    assert_eq!(done, [(10, Status::Success)]);
    assert!(sends.grow(records(2)).is_some());
    assert!(sends.push(12).is_ok() && sends.push(13).is_ok());
    assert!(sends.room().is_err());
    assert_eq!(sends.flush(&mut None), Some((11, Status::Flushed)));
}

/// V-ST-26, T-33: a receive that fails first has the one error completion of its queue pair. T-35:
/// the next connection of that queue pair has one again, and waits for nothing of this one.
#[test]
fn t_35_sends_begin_anew() {
    let fault = Fault::LocalProtection;
    let mut sends = sends(1);
    let token = sends.push(10).unwrap();
    assert!(sends.room().is_err() && sends.is_stalled());
    assert_eq!(sends.fails(fault), Status::Failed(fault));
    assert_eq!(sends.fails(fault), Status::Flushed);
    assert!(!sends.fail(token, fault));
    sends.renew();
    assert!(sends.is_empty() && !sends.is_stalled());
    let token = sends.push(11).unwrap();
    assert!(sends.fail(token, fault));
    let mut done = Vec::new();
    let completed = sends.complete(|work, status| done.push((work, status)));
    assert!(!completed.resumes && completed.drained == Drained::Empty);
    assert_eq!(done, [(11, Status::Failed(fault))]);
}
