// SPDX-License-Identifier: GPL-2.0

//! What ends a train of FPDUs: `proto::deframer`, as the receiver uses it.

use super::receiver::{read, receiving, request, Peer, SINK};
use crate::proto::failure::Fault;
use crate::proto::message::Kind;
use crate::proto::sends::Token;
use crate::support::around::Did;
use crate::support::frames;
use crate::support::memory::{Memory, Region};
use crate::support::receiving::Receiving;
use crate::wire::ddp::{Stag, TaggedOffset, TAGGED_LEN, UNTAGGED_LEN};
use crate::wire::terminate::{Quote, TermError};

/// Octets of payload of each segment.
const EACH: u32 = 100;

/// A peer whose tagged segments have [`EACH`] octets of payload.
fn peer() -> Peer {
    Peer::new(TAGGED_LEN as u16 + EACH as u16)
}

/// The quote of a segment with `header_len` octets of headers.
fn quote(fpdu: &[u8], header_len: usize) -> Option<Quote> {
    let len = u16::from_be_bytes([fpdu[0], fpdu[1]]);
    Quote::new(&fpdu[2..][..header_len], len)
}

fn last(receiving: &mut Receiving, count: usize) -> Vec<Did> {
    let did = receiving.did();
    did[did.len() - count..].to_vec()
}

/// V-WC-8, V-TM-8: the memory of a receive that goes away in the middle of a message fails the receive,
/// and the Terminate quotes the segment that was to go there.
#[test]
fn v_wc_8_memory_of_a_receive_goes() {
    let fpdus = Peer::new(UNTAGGED_LEN as u16 + 100).send(400);
    let mut receiving = receiving();
    receiving.around.recvs.push_back(Some(1_000));
    receiving.feed(&fpdus[0]);
    receiving.around.faults.recv = true;
    receiving.feed(&fpdus[1..].concat());
    let end = [
        Did::FailedRecv(0, Fault::LocalProtection),
        Did::Failed(TermError::LocalCatastrophic),
    ];
    assert_eq!(last(&mut receiving, 2), end);
    let failure = receiving.around.failure.as_ref().expect("failed");
    assert!(failure.in_completion && !failure.is_defect);
    assert_eq!(failure.quote, quote(&fpdus[1], UNTAGGED_LEN));
}

/// V-WC-23, T-22: the same for the sink of a Read.
#[test]
fn v_wc_23_sink_of_a_read_goes() {
    let mut receiving = receiving();
    read(&mut receiving, 400, request(7, false));
    let (stag, to) = (SINK, TaggedOffset(0));
    let fpdus = peer().message(frames::response(stag, to), 400);
    receiving.feed(&fpdus[0]);
    let faults = &mut receiving.around.faults;
    (faults.response, faults.late) = (true, true);
    receiving.feed(&fpdus[1..].concat());
    let end = [
        Did::FailedSend(Token(7), Fault::LocalProtection),
        Did::Failed(TermError::LocalCatastrophic),
    ];
    assert_eq!(last(&mut receiving, 2), end);
    let failure = receiving.around.failure.as_ref().expect("failed");
    assert!(failure.in_completion && !failure.is_defect);
    assert_eq!(failure.quote, quote(&fpdus[1], TAGGED_LEN));
}

/// P-ERR-18, T-18: a Write whose offset wraps is placed up to there, although the segment at which it
/// does is like those before it.
#[test]
fn p_err_18_offset_wraps() {
    let stag = Stag(3);
    for left in [201, 250, 299] {
        let to = TaggedOffset(u64::MAX - left + 1);
        let fpdus = peer().message(Kind::Write { stag, to }, 5 * EACH);
        let mut receiving = receiving();
        receiving.feed(&fpdus.concat());
        let octets = |from: u32| (from..from + EACH).map(|n| n as u8).collect();
        let end = [
            Did::Write(stag, to, octets(0)),
            Did::Write(stag, TaggedOffset(to.0 + u64::from(EACH)), octets(EACH)),
            Did::Failed(TermError::TaggedWrap),
        ];
        assert_eq!(last(&mut receiving, 3), end, "{left}");
        assert_eq!(receiving.around.in_trains, 1, "{left}");
    }
}

/// P-ERR-15: a Write that goes on behind the end of its region is placed up to the last segment
/// that is all within it.
#[test]
fn p_err_15_end_of_a_region() {
    for len in [3 * EACH, 3 * EACH + 1, 4 * EACH - 1] {
        let region = Region {
            base: 0,
            bytes: vec![0xee; len as usize],
            remote_read: false,
            remote_write: true,
            remote_atomic: false,
        };
        let mut receiving = receiving();
        receiving.around.queue.memory = Memory::Regions([(3, region)].into());
        let (stag, to) = (Stag(3), TaggedOffset(0));
        let fpdus = peer().message(Kind::Write { stag, to }, 6 * EACH);
        receiving.feed(&fpdus.concat());
        assert_eq!(
            last(&mut receiving, 1),
            [Did::Failed(TermError::TaggedBounds)]
        );
        assert_eq!(receiving.around.in_trains, 2);
        let Memory::Regions(regions) = &receiving.around.queue.memory else {
            panic!();
        };
        let (placed, rest) = regions[&3].bytes.split_at(3 * EACH as usize);
        assert!((0..).zip(placed).all(|(n, octet)| n as u8 == *octet));
        assert!(rest.iter().all(|octet| *octet == 0xee));
    }
}

/// P-RDMAP-12, P-RDMAP-13: a response that ends early, or does not end where it has to, is not placed
/// from there on.
#[test]
fn p_rdmap_12_13_end_of_a_response() {
    let cases = [
        (2 * EACH, 3 * EACH, TermError::TaggedBounds),
        (3 * EACH, 2 * EACH, TermError::CatastrophicStream),
    ];
    for (sent, asked, error) in cases {
        let mut receiving = receiving();
        read(&mut receiving, asked, request(7, false));
        receiving.feed(&peer().response(sent));
        let did = receiving.did();
        let placed = did.iter().filter(|did| matches!(did, Did::Response(..)));
        assert_eq!(placed.count(), 1);
        assert_eq!(did.last(), Some(&Did::Failed(error)));
        assert_eq!(receiving.around.in_trains, 0);
    }
}
