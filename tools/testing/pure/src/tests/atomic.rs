// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations (RFC 7306 section 5): what they make of a word, and what may be wrong with
//! requests and responses.

use super::two_peers::atomic::operation;
use crate::proto::failure::Fault;
use crate::proto::message::{Kind, Messages, MAX_HEADER};
use crate::proto::reads::{
    Inbound, InboundRead, InboundReads, OutboundRead, OutboundReads, ResponseTo,
};
use crate::proto::segment::{Action, Rights, Segments};
use crate::proto::sends::Token;
use crate::support::around::Did;
use crate::support::frames::{self, fpdu, next};
use crate::support::receiving::{Faults, Receiving};
use crate::support::rights::ALL;
use crate::support::rng::{Choices, Rng};
use crate::support::sending::params;
use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{Quote, Received, TermError};

/// FetchAdd as RFC 7306 section 5.1.1 says it: bit by bit, with a carry that ends at a set mask bit.
fn fetch_add_by_bits(original: u64, add: u64, mask: u64) -> u64 {
    let (mut result, mut carry) = (0, 0);
    for bit in 0..64 {
        let location = 1u64 << bit;
        let sum = carry + ((original & location) >> bit) + ((add & location) >> bit);
        result |= (sum & 1) << bit;
        carry = if mask & location == 0 { sum >> 1 } else { 0 };
    }
    result
}

/// CmpSwap as section 5.1.2 says it, bit by bit.
fn cmp_swap_by_bits(original: u64, [swap, swap_mask, compare, compare_mask]: [u64; 4]) -> u64 {
    let bit = |word: u64, n: u32| (word >> n) & 1;
    let is_as_expected =
        (0..64).all(|n| bit(compare_mask, n) == 0 || bit(original, n) == bit(compare, n));
    let chosen = |n| match is_as_expected && bit(swap_mask, n) == 1 {
        true => bit(swap, n),
        false => bit(original, n),
    };
    (0..64).fold(0, |word, n| word | (chosen(n) << n))
}

/// X-ATM-5, X-ATM-7: the operations do what the RFC's loops do.
#[test]
fn x_atm_5_7_against_the_loops() {
    let mut rng = Rng::new(5);
    let corners = [
        0,
        1,
        u64::MAX,
        1 << 63,
        u64::MAX >> 1,
        0x8080_8080_8080_8080,
    ];
    let mut swapped = 0;
    for n in 0..200_000 {
        let original = match n % 4 {
            0 => corners[rng.below(corners.len())],
            _ => rng.bits() ^ rng.bits().rotate_left(32),
        };
        let got = |operation: AtomicOperation| operation.apply(original);
        match operation(&mut rng, original) {
            operation @ AtomicOperation::FetchAdd { add, mask } => {
                assert_eq!(got(operation), fetch_add_by_bits(original, add, mask));
            }
            operation @ AtomicOperation::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => {
                let operands = [swap, swap_mask, compare, compare_mask];
                let want = cmp_swap_by_bits(original, operands);
                assert_eq!(got(operation), want);
                swapped += u32::from(want != original);
            }
        }
        for (add, mask) in corners.iter().flat_map(|a| corners.map(|m| (*a, m))) {
            let operation = AtomicOperation::FetchAdd { add, mask };
            assert_eq!(got(operation), fetch_add_by_bits(original, add, mask));
        }
    }
    assert!(swapped > 10_000);
}

/// X-ATM-5, X-ATM-7: what they are used for.
#[test]
fn x_atm_5_7_examples() {
    let add = |add, mask, original| AtomicOperation::FetchAdd { add, mask }.apply(original);
    assert_eq!(add(1, 0, u64::MAX), 0);
    assert_eq!(add(u64::MAX, 0, 5), 4);
    // Two counters of 32 bits, and eight of eight.
    assert_eq!(add(0x1_0000_0001, 1 << 31, 0x7_ffff_ffff), 0x8_0000_0000);
    let bytes = 0x8080_8080_8080_8080;
    assert_eq!(add(0x0101_0101_0101_0101, bytes, u64::MAX), 0);
    // Each bit a field: exclusive or.
    assert_eq!(add(0b1100, u64::MAX, 0b1010), 0b0110);

    let swap = |compare, original| {
        AtomicOperation::CmpSwap {
            swap: 9,
            swap_mask: u64::MAX,
            compare,
            compare_mask: u64::MAX,
        }
        .apply(original)
    };
    assert_eq!([swap(5, 5), swap(5, 6)], [9, 6]);
    let masked = AtomicOperation::CmpSwap {
        swap: 0xabcd,
        swap_mask: 0xff00,
        compare: 0x1234,
        compare_mask: 0x00f0,
    };
    assert_eq!(
        [0x77_3f37, 0x77_3f47].map(|n| masked.apply(n)),
        [0x77_ab37, 0x77_3f47]
    );
}

fn request(id: u32) -> AtomicRequest {
    AtomicRequest {
        id,
        stag: Stag(7),
        to: TaggedOffset(0x1000),
        operation: AtomicOperation::FetchAdd { add: 1, mask: 0 },
    }
}

/// A message's ULPDU.
fn ulpdu(tx: &mut Messages, kind: Kind) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let frame = next(&mut tx.message(kind, 0), 1442, &mut header).expect("one FPDU");
    header[2..frame.header_len].to_vec()
}

fn take(rx: &mut Segments, ulpdu: &[u8], limits: &Rights) -> Result<Action, TermError> {
    let segment = rx.segment(ulpdu, ulpdu.len() as u16, limits)?;
    assert_eq!(segment.payload_len, 0);
    Ok(segment.action)
}

/// Each of these changes makes a good message a bad one.
fn check_bad(good: &[u8], qn: u8) {
    let cases: [(&str, usize, u8, TermError); 5] = [
        ("queue", 9, qn ^ 1, TermError::UntaggedQn),
        ("queue of Sends", 9, 0, TermError::UntaggedQn),
        ("number", 13, 2, TermError::UntaggedMsn),
        ("offset", 17, 1, TermError::UntaggedMo),
        (
            "not the last segment",
            0,
            0x01,
            TermError::CatastrophicStream,
        ),
    ];
    let rx = Segments::new(RtrSet::default());
    for (what, at, octet, error) in cases {
        let mut bad = good.to_vec();
        bad[at] = octet;
        assert_eq!(take(&mut rx.clone(), &bad, &ALL), Err(error), "{what}");
    }
    let mut bad = good.to_vec();
    bad[0] |= 0x80;
    let got = take(&mut rx.clone(), &bad, &ALL);
    assert_eq!(got, Err(TermError::UnexpectedOpcode), "tagged");
    for len in 18..good.len() {
        let got = take(&mut rx.clone(), &good[..len], &ALL);
        assert_eq!(got, Err(TermError::UntaggedMo));
    }
    bad = good.to_vec();
    bad.push(0);
    let got = take(&mut rx.clone(), &bad, &ALL);
    assert_eq!(got, Err(TermError::UntaggedTooLong));
}

/// X-ATM-1, X-ATM-2, X-ATM-13: requests are header only, one segment each, on the queue of Read
/// Requests, whose numbers and room they share.
#[test]
fn x_atm_13_requests() {
    let good = ulpdu(&mut Messages::new(), Kind::AtomicRequest(request(1)));
    check_bad(&good, 1);
    let no_atomic = Rights {
        atomic: false,
        ..ALL
    };
    let mut rx = Segments::new(RtrSet::default());
    assert_eq!(take(&mut rx, &good, &no_atomic), Err(TermError::UntaggedQn));
    assert!(rx.denied());
    // Reads may be forbidden by themselves.
    let mut rx = Segments::new(RtrSet::default());
    let mut tx = Messages::new();
    let no_read = Rights { read: false, ..ALL };
    for n in 1..4 {
        let atomic = ulpdu(&mut tx, Kind::AtomicRequest(request(n)));
        let msn = Msn(2 * n - 1);
        let got = take(&mut rx, &atomic, &no_read);
        assert_eq!(got, Ok(Action::AtomicRequest { msn }));
        let request = ReadRequest::default();
        let read = ulpdu(&mut tx, Kind::ReadRequest(request));
        let msn = Msn(2 * n);
        assert_eq!(
            take(&mut rx, &read, &no_read),
            Ok(Action::ReadRequest { msn, request })
        );
    }
    assert_eq!(rx.next().1, Msn(7));
}

/// X-ATM-3, X-ATM-15: responses are header only, one segment each, on a queue of their own.
#[test]
fn x_atm_15_responses() {
    let response = AtomicResponse { id: 1, original: 2 };
    let mut tx = Messages::new();
    let good = ulpdu(&mut tx, Kind::AtomicResponse(response));
    check_bad(&good, 3);
    let mut rx = Segments::new(RtrSet::default());
    let want = Ok(Action::AtomicResponse(response));
    assert_eq!(take(&mut rx, &good, &ALL), want);
    let second = ulpdu(&mut tx, Kind::AtomicResponse(response));
    assert_eq!(
        take(&mut rx.clone(), &good, &ALL),
        Err(TermError::UntaggedMsn)
    );
    assert_eq!(take(&mut rx, &second, &ALL), want);
}

fn outbound(asked: &[OutboundRead]) -> OutboundReads<Vec<OutboundRead>> {
    let mut outbound = OutboundReads::new(vec![OutboundRead::default(); 8]);
    for (n, asked) in asked.iter().enumerate() {
        let entry = OutboundRead {
            sink_stag: Stag(n as u32),
            len: 8,
            ..*asked
        };
        outbound.push(entry).expect("room");
    }
    outbound
}

fn read(n: u32) -> OutboundRead {
    OutboundRead {
        token: Some(Token(n)),
        ..OutboundRead::default()
    }
}

fn atomic(n: u32) -> OutboundRead {
    OutboundRead {
        is_atomic: true,
        ..read(n)
    }
}

/// Which request `entry` is of, and whether that is an Atomic Operation.
fn of(entry: &OutboundRead) -> (Option<Token>, bool) {
    (entry.token, entry.is_atomic)
}

/// X-ATM-14, X-ATM-15: a response is that of the oldest request, or an error.
#[test]
fn x_atm_15_wrong_responses() {
    let mut mixed = outbound(&[atomic(0), read(1), atomic(2)]);
    for wrong in [0, 2, 3, 4, u32::MAX] {
        let got = mixed.answered(ResponseTo::Atomic(wrong));
        assert_eq!(got, Err(TermError::CatastrophicStream));
    }
    // Nor is it that of a Read.
    assert_eq!(mixed.answered(ResponseTo::Read), Err(TermError::TaggedStag));
    let first = mixed.answered(ResponseTo::Atomic(1)).expect("due");
    assert_eq!(of(&first), of(&atomic(0)));
    // V-FNC-1: outstanding until the result is placed.
    assert_eq!(mixed.outstanding(), 3);
    mixed.pop();
    // The Read is next.
    for id in [1, 2, 3] {
        let got = mixed.answered(ResponseTo::Atomic(id));
        assert_eq!(got, Err(TermError::CatastrophicStream));
    }
    let second = mixed.answered(ResponseTo::Read).expect("due");
    assert_eq!(of(&second), of(&read(1)));
    mixed.pop();
    assert_eq!(mixed.find(Msn(3)).map(of), Some(of(&atomic(2))));
    assert_eq!(
        mixed.answered(ResponseTo::Atomic(3)).map(|read| of(&read)),
        Ok(of(&atomic(2)))
    );
    mixed.pop();
    // Nobody has asked for one.
    for asked in [&[][..], &[read(1)], &[OutboundRead::default()]] {
        let got = outbound(asked).answered(ResponseTo::Atomic(1));
        assert_eq!(got, Err(TermError::UntaggedNoBuffer));
    }
}

/// X-ATM-13, X-ATM-14: both kinds share the room and leave in the order in which they came.
#[test]
fn x_atm_13_inbound() {
    let mut inbound = InboundReads::new(vec![Inbound::default(); 3]);
    let read = InboundRead {
        msn: Msn(2),
        request: ReadRequest {
            len: 100,
            ..ReadRequest::default()
        },
    };
    inbound.push(Inbound::Atomic(Msn(1), request(5))).unwrap();
    inbound.push(Inbound::Read(read)).unwrap();
    inbound.push(Inbound::Atomic(Msn(3), request(6))).unwrap();
    assert!(!inbound.has_room());
    let more = inbound.push(Inbound::Atomic(Msn(4), request(7)));
    assert_eq!(more, Err(TermError::UntaggedNoBuffer));
    for want in [
        Inbound::Atomic(Msn(1), request(5)),
        Inbound::Read(read),
        Inbound::Atomic(Msn(3), request(6)),
    ] {
        assert_eq!(inbound.front(), Some(want));
        inbound.pop();
    }
    assert_eq!((inbound.front(), inbound.pop()), (None, None));
}

fn receiving(asked: &[OutboundRead]) -> Receiving {
    let mut receiving = Receiving::new(&params(4));
    *receiving.around.outbound() = outbound(asked);
    receiving
}

fn response(tx: &mut Messages, id: u32, original: u64) -> Vec<u8> {
    fpdu(&ulpdu(
        tx,
        Kind::AtomicResponse(AtomicResponse { id, original }),
    ))
}

/// X-ATM-16: the result goes to the sink, and the request completes then.
#[test]
fn x_atm_16_results() {
    let mut receiving = receiving(&[atomic(10), read(11), atomic(12)]);
    let mut tx = Messages::new();
    receiving.feed(&response(&mut tx, 1, 77));
    let (stag, to) = (Stag(1), TaggedOffset(0));
    let mut message = tx.message(frames::response(stag, to), 8);
    let mut header = [0; MAX_HEADER];
    let frame = next(&mut message, 1442, &mut header).expect("an FPDU");
    let segment = [&header[2..frame.header_len], &[3; 8]].concat();
    receiving.feed(&fpdu(&segment));
    receiving.feed(&response(&mut tx, 3, u64::MAX));
    let to = TaggedOffset(0);
    assert_eq!(
        receiving.did()[2..],
        [
            Did::Response(Stag(0), to, 77u64.to_ne_bytes().to_vec()),
            Did::ReadDone(Some(Token(10))),
            Did::Response(Stag(1), to, vec![3; 8]),
            Did::ReadDone(Some(Token(11))),
            Did::Response(Stag(2), to, vec![0xff; 8]),
            Did::ReadDone(Some(Token(12))),
        ]
    );
}

/// X-ATM-15, X-ATM-16, X-ATM-19: what is wrong with a response ends the stream before anything is
/// placed; the Terminate has its DDP header.
#[test]
fn x_atm_19_bad_responses() {
    let place = Faults {
        response: true,
        ..Faults::default()
    };
    for (asked, id, faults, want) in [
        (&[][..], 1, Faults::default(), TermError::UntaggedNoBuffer),
        (
            &[read(1)],
            1,
            Faults::default(),
            TermError::UntaggedNoBuffer,
        ),
        (
            &[atomic(1)],
            2,
            Faults::default(),
            TermError::CatastrophicStream,
        ),
        (&[atomic(1)], 1, place, TermError::LocalCatastrophic),
    ] {
        let mut receiving = receiving(asked);
        receiving.around.faults = faults;
        let mut tx = Messages::new();
        receiving.feed(&response(&mut tx, id, 77));
        let mut want_did = vec![Did::FirstFpdu, Did::FirstSegment];
        if faults.response {
            want_did.push(Did::FailedSend(Token(1), Fault::LocalProtection));
        }
        want_did.push(Did::Failed(want));
        assert_eq!(receiving.did(), want_did);
        let quote = receiving.around.failure.and_then(|failure| failure.quote);
        let ulpdu = ulpdu(
            &mut Messages::new(),
            Kind::AtomicResponse(AtomicResponse { id, original: 77 }),
        );
        assert_eq!(quote, Quote::new(&ulpdu[..18], 30));
    }
}

/// X-ATM-4, X-ATM-10: requests are read and queued, or end the stream.
#[test]
fn x_atm_4_requests_are_queued() {
    let good = ulpdu(&mut Messages::new(), Kind::AtomicRequest(request(9)));
    let mut taken = receiving(&[]);
    taken.feed(&fpdu(&good));
    let queued = Did::AtomicRequest(Msn(1), request(9));
    assert_eq!(taken.did()[2..], [queued]);

    for aopcode in [1, 3, 4, 15] {
        let mut bad = good.clone();
        bad[21] = aopcode;
        let mut taken = receiving(&[]);
        taken.feed(&fpdu(&bad));
        assert_eq!(taken.did()[2..], [Did::Failed(TermError::UnexpectedOpcode)]);
    }
    for error in [TermError::RemoteAccess, TermError::CatastrophicStream] {
        let mut taken = receiving(&[]);
        taken.around.faults.read = Some(error);
        taken.feed(&fpdu(&good));
        assert_eq!(taken.did()[2..], [Did::Failed(error)]);
        let quote = taken.around.failure.and_then(|failure| failure.quote);
        assert_eq!(quote, Some(Quote::atomic_request(Msn(1))));
    }
}

/// X-ATM-19: a Terminate has the DDP header of a request and no more, and names one of ours (V-WC-5).
#[test]
fn x_atm_19_quotes() {
    let ulpdu = ulpdu(&mut Messages::new(), Kind::AtomicRequest(request(9)));
    let quote = Quote::new(&ulpdu, 70);
    assert_eq!(quote, Some(Quote::atomic_request(Msn(1))));
    for error in [TermError::RemoteAccess, TermError::CatastrophicStream] {
        let terminate = crate::wire::terminate::Terminate { error, quote };
        let mut out = [0; crate::wire::terminate::MAX_ULPDU];
        let len = usize::from(terminate.emit(&mut out));
        let [layer_type, code] = error.code().to_be_bytes();
        let want = [&[layer_type, code, 0xc0, 0, 0, 70][..], &ulpdu[..18]].concat();
        assert_eq!(out[18..len], want);
        let received = Received::parse(&out[18..len]).expect("a Terminate");
        assert_eq!(received.refused_read(), Some(Msn(1)));
    }
}
