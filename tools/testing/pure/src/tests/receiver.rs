// SPDX-License-Identifier: GPL-2.0

//! The receiver in surroundings that do what a test says: `proto::receiver` as the module compiles
//! it.

use crate::proto::counters::Counter;
use crate::proto::deframer::Reach;
use crate::proto::failure::Fault;
use crate::proto::message::{Kind, Messages, MAX_HEADER};
use crate::proto::reads::OutboundRead;
use crate::proto::receiver::{Extra, Lack, Received};
use crate::proto::segment::Rights;
use crate::proto::sends::Token;
use crate::proto::setup::Params;
use crate::proto::state::QpState;
use crate::support::around::Did;
use crate::support::by_hand;
use crate::support::frames::{self, fpdu, next};
use crate::support::receiving::{Faults, Receiving};
use crate::support::rights::ALL;
use crate::support::rng::{Choices, Rng};
use crate::support::sending::params;
use crate::support::tuning::{SOFTIRQ, WORK};
use crate::wire::ddp::{Msn, Stag, TaggedOffset, TAGGED_LEN};
use crate::wire::fpdu::MAX_FPDU;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;

pub(super) fn receiving() -> Receiving {
    Receiving::new(&params(4))
}

/// How often something was counted.
pub(super) fn counted(receiving: &mut Receiving, counter: Counter) -> u64 {
    let counts = receiving.receiver.tally.take();
    counts.map_or(0, |(counts, _)| counts[counter as usize])
}

/// What a peer sends: messages in FPDUs of so many octets of ULPDU at most.
pub(super) struct Peer {
    tx: Messages,
    mulpdu: u16,
}

impl Peer {
    pub(super) fn new(mulpdu: u16) -> Self {
        let tx = Messages::new();
        Self { tx, mulpdu }
    }

    /// The FPDUs of a message, whose octets are its offsets.
    pub(super) fn message(&mut self, kind: Kind, len: u32) -> Vec<Vec<u8>> {
        let mut message = self.tx.message(kind, len);
        let mut header = [0; MAX_HEADER];
        let mut fpdus = Vec::new();
        while let Some(frame) = next(&mut message, self.mulpdu, &mut header) {
            let mut ulpdu = header[2..frame.header_len].to_vec();
            let end = frame.offset + u32::from(frame.payload);
            ulpdu.extend((frame.offset..end).map(|n| n as u8));
            fpdus.push(fpdu(&ulpdu));
        }
        fpdus
    }

    pub(super) fn send(&mut self, len: u32) -> Vec<Vec<u8>> {
        self.message(frames::SEND, len)
    }

    pub(super) fn send_invalidate(&mut self, len: u32, stag: Stag) -> Vec<u8> {
        let kind = Kind::Send {
            solicited: true,
            invalidate: Some(stag),
        };
        self.message(kind, len).concat()
    }

    pub(super) fn write(&mut self, len: u32) -> Vec<u8> {
        let (stag, to) = (Stag(3), TaggedOffset(70));
        self.message(Kind::Write { stag, to }, len).concat()
    }

    pub(super) fn response(&mut self, len: u32) -> Vec<u8> {
        let kind = frames::response(SINK, TaggedOffset(0));
        self.message(kind, len).concat()
    }
}

pub(super) const SINK: Stag = Stag(0x0600);

/// A Read of ours of `len` octets.
pub(super) fn read(receiving: &mut Receiving, len: u32, asked: OutboundRead) {
    let entry = OutboundRead {
        sink_stag: SINK,
        len,
        ..asked
    };
    receiving.around.outbound().push(entry).expect("room");
}

/// One that completes a request.
pub(super) fn request(n: u32, invalidate: bool) -> OutboundRead {
    OutboundRead {
        token: Some(Token(n)),
        invalidate,
        ..OutboundRead::default()
    }
}

fn octets(len: u32) -> Vec<u8> {
    (0..len).map(|n| n as u8).collect()
}

pub(super) fn completed(id: u64, len: u32) -> Did {
    Did::Completed(Received {
        id,
        len,
        solicited: false,
        extra: Extra::Nothing,
    })
}

/// T-24, T-8: the first FPDU with the right CRC is told before anything is made of it, the first
/// segment once that is good; both once.
#[test]
fn t_24_first_fpdu() {
    let mut receiving = receiving();
    let mut peer = Peer::new(1000);
    receiving.feed(&peer.write(2));
    receiving.feed(&peer.write(0));
    let placed = Did::Write(Stag(3), TaggedOffset(70), octets(2));
    assert_eq!(receiving.did(), [Did::FirstFpdu, Did::FirstSegment, placed]);

    let mut receiving = self::receiving();
    // An unknown opcode.
    receiving.feed(&fpdu(&[0xc1, 0x4f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    let failed = Did::Failed(TermError::UnexpectedOpcode);
    assert_eq!(receiving.did(), [Did::FirstFpdu, failed]);

    let mut receiving = self::receiving();
    let mut bad = peer.write(2);
    bad[20] ^= 1;
    receiving.feed(&bad);
    assert_eq!(receiving.did(), [Did::Failed(TermError::MpaCrc)]);
    assert!(receiving.around.failure.is_some_and(|f| f.quote.is_none()));

    // A Terminate on a queue that is not its own.
    let mut receiving = self::receiving();
    let bad = [
        0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    receiving.feed(&fpdu(&bad));
    let failed = Did::Failed(TermError::UntaggedQn);
    assert_eq!(receiving.did(), [Did::FirstFpdu, failed]);

    // Nothing is sent to a peer that gives up before it has sent anything else, and the connection
    // has not come about (X-ENH-19).
    let mut receiving = self::receiving();
    receiving.feed(&[terminate(), peer.write(1)].concat());
    assert_eq!(receiving.did(), [Did::Terminated(0x1202, None)]);
}

/// V-SEC-1: softirq takes in 493 FPDUs of nothing at a time, and the work item four times as many
/// octets; an FPDU is not cut by that.
#[test]
fn v_sec_1_budget() {
    let mut peer = Peer::new(64_000);
    let one = peer.write(0);
    let mut receiving = receiving();
    receiving.unread = one.repeat(1000);
    assert!(receiving.turn(SOFTIRQ));
    assert_eq!(receiving.unread.len(), (1000 - 493) * one.len());
    receiving.feed(&[]);
    assert!(receiving.unread.is_empty());
    // A piece counts, too.
    let one = peer.write(1);
    receiving.unread = one.repeat(1000);
    assert!(receiving.turn(SOFTIRQ));
    let taken = 1000 - receiving.unread.len() / one.len();
    assert_eq!((taken, receiving.unread.len() % one.len()), (331, 0));
    // In a train as well.
    receiving.unread = Peer::new(TAGGED_LEN as u16 + 1).write(1000);
    assert!(receiving.turn(SOFTIRQ));
    assert_eq!(receiving.unread.len(), (1000 - 331) * one.len());
    receiving.unread.clear();
    for (budget, taken) in [(SOFTIRQ, 5), (WORK, 17)] {
        let long = peer.write(63_000);
        receiving.unread = long.repeat(30);
        assert!(receiving.turn(budget));
        assert_eq!(receiving.unread.len(), (30 - taken) * long.len());
    }
}

/// M-MPA-13, T-46: octets that are no whole FPDU wait until there is a buffer to collect them in,
/// and nothing is lost; what lies in one piece needs none.
#[test]
fn m_mpa_13_no_buffer_yet() {
    let mut peer = Peer::new(1000);
    let mut receiving = receiving();
    receiving.has_memory = false;
    let whole = peer.write(5);
    receiving.feed(&whole);
    assert!(receiving.unread.is_empty() && receiving.receiver.lacks() != Lack::Buffer);
    let cut = peer.write(6);
    let (a, b) = cut.split_at(17);
    receiving.feed(a);
    assert!(receiving.receiver.lacks() == Lack::Buffer && !receiving.receiver.is_cut());
    assert_eq!(receiving.unread, a);
    receiving.has_memory = true;
    receiving.feed(&[]);
    assert!(receiving.receiver.is_cut() && receiving.unread.is_empty());
    assert_ne!(receiving.receiver.lacks(), Lack::Buffer);
    receiving.feed(b);
    assert!(!receiving.receiver.is_cut());
    let placed = [5, 6].map(|n| Did::Write(Stag(3), TaggedOffset(70), octets(n)));
    assert_eq!(receiving.did()[2..], placed);
}

/// M-MPA-13: a buffer that is smaller than an FPDU is a defect; nothing is placed.
#[test]
fn m_mpa_13_buffer_too_small() {
    let mut peer = Peer::new(1000);
    let mut receiving = receiving();
    receiving.receiver.set_buffer(vec![0; 10]);
    receiving.feed(&peer.write(5)[..15]);
    assert_eq!(receiving.did(), [Did::Failed(TermError::LocalCatastrophic)]);
    let failure = receiving.around.failure.expect("failed");
    assert!(failure.is_defect && failure.detail.is_some());
    assert_eq!(failure.error, TermError::LocalCatastrophic);

    // It shrinks when all is there: the last octet comes, and the FPDU does not fit any more.
    let mut receiving = self::receiving();
    receiving.receiver.set_buffer(vec![0; MAX_FPDU]);
    let write = peer.write(5);
    let (a, b) = write.split_at(write.len() - 1);
    receiving.feed(a);
    receiving.receiver.set_buffer(a[..10].to_vec());
    receiving.feed(b);
    assert_eq!(receiving.did(), [Did::Failed(TermError::LocalCatastrophic)]);
}

/// V-ST-11, P-ERR-10: a receive that is flushed in the middle of its message gets nothing more, and
/// the rest of the message has no other one.
#[test]
fn p_err_10_receive_was_flushed() {
    let mut peer = Peer::new(200);
    let mut receiving = receiving();
    receiving.around.recvs.extend([Some(1000), Some(1000)]);
    let fpdus = peer.send(500);
    receiving.feed(&fpdus[0]);
    assert!(receiving.receiver.is_cut());
    let recv = receiving.flush().expect("a receive in progress");
    assert_eq!((recv.id, recv.len), (0, 1000));
    assert_eq!(receiving.flush(), None);
    receiving.feed(&fpdus[1]);
    let failed = Did::Failed(TermError::UntaggedNoBuffer);
    assert_eq!(receiving.did()[2..], [failed]);
    assert_eq!(receiving.around.recvs.len(), 1);
}

/// A Terminate of the peer's, about a receive that it lacks.
fn terminate() -> Vec<u8> {
    by_hand::fpdu(&by_hand::terminate(0x1202, None))
}

/// T-33, V-ST-19, V-ST-26: once an error has ended the stream nothing is placed or completed, and no
/// Terminate is acted upon; also within a message, whose segments come in trains.
#[test]
fn t_33_drops_in_terminate() {
    for state in [QpState::Terminate, QpState::Error] {
        for begun in [0, 1, 3] {
            let mut peer = Peer::new(100);
            let mut stream = peer.send(900);
            stream.push(peer.write(300));
            stream.push(peer.send(2000).concat());
            stream.push(terminate());
            let (first, rest) = stream.split_at(begun);
            let mut receiving = receiving();
            receiving.around.recvs.extend([Some(1_000); 2]);
            receiving.feed(&first.concat());
            let before = receiving.did();
            receiving.around.state = state;
            receiving.feed(&rest.concat());
            let did = receiving.did();
            let new: Vec<_> = did.iter().filter(|d| !before.contains(d)).collect();
            assert!(new.iter().all(|d| **d == Did::FirstFpdu), "{new:?}");
            assert!(receiving.unread.is_empty());
        }
    }
}

/// T-37: in Closing data ends the stream, but a Terminate is taken in.
#[test]
fn t_37_in_closing() {
    let mut peer = Peer::new(200);
    let terminate = terminate();
    let closing = || {
        let mut receiving = receiving();
        receiving.around.state = QpState::Closing;
        receiving.around.recvs.push_back(Some(10));
        receiving
    };
    let mut receiving = closing();
    receiving.feed(&terminate);
    receiving.feed(&peer.write(1));
    assert_eq!(receiving.did(), [Did::Terminated(0x1202, None)]);
    assert!(receiving.receiver.is_stopped());
    let mut receiving = closing();
    receiving.feed(&[peer.send(1).concat(), peer.write(1), terminate].concat());
    assert_eq!(receiving.did()[2..], [Did::DataInClosing]);
    // T-32: all of it is read, so that the close is no reset.
    assert!(receiving.unread.is_empty() && receiving.around.recvs.len() == 1);
    // Behind the first segment a Send that is one segment goes a shorter way.
    let mut peer = Peer::new(200);
    let mut receiving = closing();
    receiving.around.state = QpState::Rts;
    receiving.feed(&peer.write(1));
    receiving.around.state = QpState::Closing;
    receiving.feed(&peer.send(1).concat());
    assert_eq!(receiving.did().last(), Some(&Did::DataInClosing));
    assert!(receiving.unread.is_empty() && receiving.around.recvs.len() == 1);
}

/// In Closing a Read of no octets asks what only the peer wants to know, and is dropped; one of some
/// octets is data.
#[test]
fn questions_in_closing() {
    for (len, want) in [(0, None), (1, Some(Did::DataInClosing))] {
        let mut peer = Peer::new(200);
        let mut receiving = receiving();
        receiving.feed(&peer.write(1));
        receiving.around.state = QpState::Closing;
        let request = ReadRequest {
            len,
            ..ReadRequest::default()
        };
        let _ = receiving.did();
        receiving.feed(&peer.message(Kind::ReadRequest(request), 0).concat());
        assert_eq!(receiving.did().first(), want.as_ref(), "{len}");
        assert!(receiving.unread.is_empty());
        assert_eq!(receiving.receiver.is_stopped(), want.is_some());
    }
}

/// V-WC-6, V-WC-8, V-WC-11, T-33: a receive whose memory does not allow the message, or that is too
/// short for it, completes in error, and nothing else tells of it.
#[test]
fn v_wc_8_memory_of_a_receive() {
    let cases = [
        (
            Some(4),
            false,
            Fault::LocalLength,
            TermError::UntaggedTooLong,
        ),
        (
            Some(5),
            true,
            Fault::LocalProtection,
            TermError::LocalCatastrophic,
        ),
    ];
    for (room, fails, fault, error) in cases {
        let mut peer = Peer::new(200);
        let mut receiving = receiving();
        receiving.around.recvs.push_back(room);
        receiving.around.faults.recv = fails;
        receiving.feed(&peer.send(5).concat());
        let did = receiving.did();
        assert_eq!(did[2..], [Did::FailedRecv(0, fault), Did::Failed(error)]);
        let failure = receiving.around.failure.expect("failed");
        assert!(failure.in_completion && failure.quote.is_some());
    }
}

/// P-RDMAP-14, P-ERR-10, V-TM-4: a message takes one receive, in order; where there is none, or one
/// that makes no sense, the stream ends, and what is behind is dropped.
#[test]
fn p_rdmap_14_one_receive_each() {
    let mut peer = Peer::new(200);
    let mut receiving = receiving();
    receiving.around.recvs.extend([Some(600), Some(0), None]);
    let stream = [peer.send(500).concat(), peer.send(0).concat()].concat();
    receiving.feed(&stream);
    assert_eq!(receiving.did()[2..], [completed(0, 500), completed(1, 0)]);
    receiving.feed(&[peer.send(0).concat(), peer.write(5)].concat());
    let failed = Did::Failed(TermError::LocalCatastrophic);
    assert_eq!(receiving.did(), [failed]);
    assert!(receiving.unread.is_empty());
}

/// V-INV-14: a receive completes when nobody uses what its message invalidates; one that is flushed
/// meanwhile does not complete, and what is behind goes on.
#[test]
fn v_inv_14_flushed_while_waiting() {
    for flushed in [false, true] {
        let mut peer = Peer::new(200);
        let mut receiving = receiving();
        receiving.around.recvs.push_back(Some(10));
        receiving.around.quiet = false;
        let stream = [peer.send_invalidate(5, Stag(8)), peer.write(1)].concat();
        receiving.feed(&stream);
        assert!(receiving.receiver.lacks() == Lack::Quiet && !receiving.unread.is_empty());
        assert_eq!(receiving.did()[2..], [Did::Invalidated(Stag(8))]);
        let write = Did::Write(Stag(3), TaggedOffset(70), octets(1));
        if flushed {
            assert!(receiving.flush().is_some());
            receiving.feed(&[]);
            assert_eq!(receiving.did(), [write]);
        } else {
            receiving.around.quiet = true;
            receiving.feed(&[]);
            let completed = Did::Completed(Received {
                id: 0,
                len: 5,
                solicited: true,
                extra: Extra::Invalidated(Stag(8)),
            });
            assert_eq!(receiving.did(), [completed, write]);
        }
    }
}

/// V-INV-14: the same for a message that comes in pieces.
#[test]
fn v_inv_14_pieces_while_waiting() {
    let mut peer = Peer::new(200);
    let mut receiving = receiving();
    receiving.around.recvs.push_back(Some(10));
    receiving.around.quiet = false;
    let send = peer.send_invalidate(5, Stag(8));
    let (begin, rest) = send.split_at(9);
    let write = peer.write(1);
    receiving.feed(begin);
    receiving.feed(&[rest, &write].concat());
    assert_eq!(receiving.did()[2..], [Did::Invalidated(Stag(8))]);
    assert_eq!(receiving.unread, write);
    assert_eq!(counted(&mut receiving, Counter::RxFpdusInPieces), 1);
}

/// V-INV-15: a Read that invalidates its sink completes once nobody uses that; what is behind
/// waits. Flushing receives changes nothing about it.
#[test]
fn v_inv_15_read_with_invalidate() {
    for quiet in [true, false] {
        let mut peer = Peer::new(200);
        let mut receiving = receiving();
        read(&mut receiving, 300, request(7, true));
        read(&mut receiving, 0, request(8, false));
        receiving.around.quiet = quiet;
        receiving.feed(&[peer.response(300), peer.response(0)].concat());
        let done = |n| Did::ReadDone(Some(Token(n)));
        let did = receiving.did();
        assert_eq!(
            did[did.len() - if quiet { 3 } else { 1 }],
            Did::Invalidated(SINK)
        );
        if !quiet {
            assert_eq!(receiving.receiver.lacks(), Lack::Quiet);
            assert_eq!(receiving.around.outbound().outstanding(), 2);
            assert_eq!(receiving.receiver.take_recv(), None);
            receiving.around.quiet = true;
            receiving.feed(&[]);
            assert_eq!(receiving.did(), [done(7), done(8)]);
        } else {
            assert_eq!(did[did.len() - 2..], [done(7), done(8)]);
        }
        assert_eq!(receiving.around.outbound().outstanding(), 0);
    }
}

/// V-INV-13, V-WC-22, V-WC-23, T-22, T-33: a sink that cannot be written, or not be invalidated,
/// fails its Read, and ends the stream with code zero. The Read of connection set-up is no request
/// that could tell.
#[test]
fn v_wc_23_sink_of_a_read() {
    for (asked, placed) in [
        (request(7, true), true),
        (request(7, false), false),
        (OutboundRead::default(), false),
    ] {
        let mut peer = Peer::new(200);
        let mut receiving = receiving();
        read(&mut receiving, 5, asked);
        receiving.around.faults.sink = true;
        receiving.around.faults.response = !placed;
        receiving.feed(&peer.response(5));
        let did = receiving.did();
        let token = asked.token;
        let told = token.map(|token| Did::FailedSend(token, Fault::LocalProtection));
        let failed = Did::Failed(TermError::LocalCatastrophic);
        let want: Vec<_> = told.into_iter().chain([failed]).collect();
        assert!(did.ends_with(&want), "{did:?}");
        assert_eq!(did.len(), 2 + usize::from(placed) + want.len());
        let failure = receiving.around.failure.expect("failed");
        assert_eq!(failure.in_completion, token.is_some());
    }
}

/// X-ENH-18, P-RDMAP-11, T-23: the response to the Read of connection set-up completes no request.
#[test]
fn x_enh_18_response_without_request() {
    let mut peer = Peer::new(200);
    let mut receiving = receiving();
    read(&mut receiving, 0, OutboundRead::default());
    receiving.feed(&peer.response(0));
    assert_eq!(receiving.did()[2..], [Did::ReadDone(None)]);
    receiving.feed(&peer.response(0));
    assert_eq!(receiving.did(), [Did::Failed(TermError::TaggedStag)]);
}

/// V-CQ-7: a completion queue that is full ends the stream with 0x0207, at once or behind an
/// invalidation that was waited for.
#[test]
fn v_cq_7_full() {
    for quiet in [true, false] {
        for invalidates in [true, false] {
            let mut peer = Peer::new(200);
            let mut receiving = receiving();
            receiving.around.recvs.push_back(Some(10));
            receiving.around.faults.cq_is_full = true;
            receiving.around.quiet = quiet;
            let message = if invalidates {
                peer.send_invalidate(5, Stag(8))
            } else {
                peer.send(5).concat()
            };
            receiving.feed(&[message, peer.write(1)].concat());
            receiving.around.quiet = true;
            receiving.feed(&[]);
            let did = receiving.did();
            let failed = Did::Failed(TermError::CatastrophicStream);
            assert_eq!(did.last(), Some(&failed));
            assert_eq!(did.len(), 3 + usize::from(invalidates));
            assert!(receiving.unread.is_empty() && receiving.receiver.lacks() != Lack::Quiet);
        }
    }
}

/// V-INV-12, T-7, V-WC-13: an invalidation that is refused fails the receive, and ends the stream.
#[test]
fn v_inv_12_refused() {
    let mut peer = Peer::new(200);
    let mut receiving = receiving();
    receiving.around.recvs.push_back(Some(10));
    receiving.around.faults.invalidate = Some(TermError::RemoteCannotInvalidate);
    receiving.feed(&peer.send_invalidate(5, Stag(8)));
    let want = [
        Did::FailedRecv(0, Fault::RemoteInvalid),
        Did::Failed(TermError::RemoteCannotInvalidate),
    ];
    assert_eq!(receiving.did()[2..], want);
    assert!(receiving.around.failure.is_some_and(|f| f.in_completion));
}

/// V-TM-8, V-AE-12: what the surroundings refuse is told with the headers of the segment, and
/// whether the peer lacks a right.
#[test]
fn v_ae_12_refused_by_the_surroundings() {
    let mut peer = Peer::new(200);
    let request = ReadRequest {
        len: 9,
        ..ReadRequest::default()
    };
    let stream = peer.message(Kind::ReadRequest(request), 0).concat();
    let cases: [(fn(&mut Receiving), _, _); 3] = [
        (
            |r| r.around.faults.read = Some(TermError::RemoteStag),
            TermError::RemoteStag,
            false,
        ),
        (
            |r| r.around.rights.read = false,
            TermError::UntaggedQn,
            true,
        ),
        (
            |r| r.around.has_read_room = false,
            TermError::UntaggedNoBuffer,
            false,
        ),
    ];
    for (refuse, error, denied) in cases {
        let mut receiving = receiving();
        refuse(&mut receiving);
        receiving.feed(&stream);
        let failure = receiving.around.failure.expect("failed");
        assert_eq!((failure.error, failure.denied), (error, denied));
        assert!(failure.quote.is_some() && !failure.in_completion);
    }
    let mut receiving = receiving();
    receiving.feed(&stream);
    let queued = Did::ReadRequest(Msn::FIRST, request);
    assert_eq!(receiving.did()[2..], [queued]);
    receiving.around.faults.write = Some(TermError::TaggedStag);
    receiving.feed(&peer.write(1));
    assert_eq!(receiving.did(), [Did::Failed(TermError::TaggedStag)]);
}

/// P-ERR-3: a ULPDU that is too short for any header is told of at once, although what follows it
/// can be waited for.
#[test]
fn p_err_3_short_in_buffers() {
    for len in 0..14 {
        let mut receiving = Receiving::in_buffers(&params(4));
        for octet in fpdu(&vec![0; len]) {
            receiving.feed(&[octet]);
        }
        assert_eq!(receiving.did(), [Did::Failed(TermError::MpaFpdu)], "{len}");
    }
}

/// P-ERR-3: it is told of as well if all of it is there, with more behind it.
#[test]
fn p_err_3_short_with_more_behind() {
    for len in 0..14 {
        let mut receiving = receiving();
        receiving.feed(&[fpdu(&vec![0; len]), vec![0; 64]].concat());
        assert_eq!(receiving.did(), [Did::Failed(TermError::MpaFpdu)], "{len}");
    }
}

/// T-46, M-MPA-13: segments that are taken in together, as each goes on as the one before, come to
/// the same as one by one, whatever is wrong with them or with where they belong. So do those that
/// are taken in from several buffers, where the rest of some is waited for.
#[test]
fn t_46_trains_make_no_difference() {
    let mut rng = Rng::new(46);
    let (mut in_trains, mut joined, mut failed) = (0, 0, 0);
    for round in 0..3_000 {
        let params = Params {
            crc: rng.one_in(2),
            ..params(4)
        };
        let mut peer = Peer::new([60, 100, 300][rng.below(3)]);
        let (mut whole, mut pieces) = (Receiving::new(&params), Receiving::new(&params));
        let mut buffers = Receiving::in_buffers(&params);
        let mut stream = Vec::new();
        for _ in 0..3 {
            let len = rng.below(1_500) as u32;
            let room = match rng.one_in(8) {
                true => u64::from(len).saturating_sub(1),
                false => u64::from(len) + 10,
            };
            match rng.below(3) {
                0 => {
                    for x in [&mut whole, &mut pieces, &mut buffers] {
                        x.around.recvs.push_back(Some(room));
                    }
                    stream.extend(match rng.one_in(2) {
                        true => peer.send(len).concat(),
                        false => peer.send_invalidate(len, Stag(8)),
                    });
                }
                1 => stream.extend(peer.write(len)),
                _ => {
                    for x in [&mut whole, &mut pieces, &mut buffers] {
                        read(x, len, request(round, round % 2 == 0));
                    }
                    stream.extend(peer.response(len));
                }
            }
        }
        if rng.one_in(2) {
            let octet = rng.below(stream.len());
            stream[octet] ^= 1 << rng.below(8);
        }
        let faults = Faults {
            write: rng.one_in(16).then_some(TermError::TaggedBounds),
            response: rng.one_in(16),
            recv: rng.one_in(16),
            invalidate: rng.one_in(16).then_some(TermError::RemoteCannotInvalidate),
            sink: rng.one_in(16),
            cq_is_full: rng.one_in(16),
            ..Faults::default()
        };
        let limits = Rights {
            write: !rng.one_in(16),
            ..ALL
        };
        for x in [&mut whole, &mut pieces, &mut buffers] {
            x.around.faults = faults;
            x.around.rights = limits;
        }
        whole.feed(&stream);
        for octet in &stream {
            pieces.feed(&[*octet]);
        }
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let most = [4, 40, 400][rng.below(3)];
            let n = 1 + rng.below(most);
            let (front, behind) = rest.split_at(n.min(rest.len()));
            buffers.feed(front);
            rest = behind;
        }
        // The end of the stream.
        buffers.missing = Reach::Apart;
        buffers.feed(&[]);
        let did = whole.did();
        assert_eq!(did, pieces.did(), "{round}");
        assert_eq!(did, buffers.did(), "{round}");
        let failures = [&whole, &pieces, &buffers].map(|x| format!("{:?}", x.around.failure));
        assert_eq!(failures[0], failures[1], "{round}");
        assert_eq!(failures[0], failures[2], "{round}");
        let cut = [&whole, &pieces, &buffers].map(|x| x.receiver.is_cut());
        assert_eq!(cut, [cut[0]; 3], "{round}");
        joined += counted(&mut buffers, Counter::RxFpdusJoined);
        assert_eq!(pieces.around.in_trains, 0);
        in_trains += whole.around.in_trains;
        failed += u32::from(whole.around.failure.is_some());
    }
    assert!(in_trains > 5_000, "{in_trains}");
    assert!(joined > 5_000, "{joined}");
    assert!(failed > 500, "{failed}");
}
