// SPDX-License-Identifier: GPL-2.0

//! Entry points for fuzzers: each takes any bytes and must neither panic nor hang.

mod datagram;
mod receiver;
mod sender;

pub use self::receiver::receiver;
pub use self::sender::sender;

use crate::proto::by_number::Hello;
use crate::proto::connection::{self, Awaits, Code, StreamEnd};
use crate::proto::deframer::{Chunk, Deframer, Next, Reach};
use crate::proto::negotiate::Depths;
use crate::proto::request::OperationType;
use crate::proto::segment::Segments;
use crate::proto::setup::{Config, Initiator, Responder};
use crate::support::endpoint::{Answers, Endpoint, FAILURE};
use crate::support::peer::{Peer, Region, Wr};
use crate::support::piece::{next, Piece};
use crate::support::rights::ALL;
use crate::support::rng::{Choices, Input};
use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::{self, Stag, TaggedOffset};
use crate::wire::fpdu::MAX_FPDU;
use crate::wire::mpa::{Header, RtrSet, HEADER_LEN, MAX_FRAME};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{Quote, Received};

/// An entry point.
pub type Target = fn(&[u8]);

/// All entry points, by the name of their fuzz target.
pub const TARGETS: [(&str, Target); 8] = [
    ("parsers", parsers),
    ("deframer", deframer),
    ("rx", rx),
    ("setup", setup),
    ("connection", connection),
    ("sender", sender),
    ("receiver", receiver),
    ("two_peers", two_peers),
];

fn config() -> Config {
    Config {
        rev: 2,
        crc: true,
        large_fpdus: false,
        peer_to_peer: true,
        rtr: RtrSet::ALL,
        cap: Depths { ird: 8, ord: 8 },
    }
}

/// The parsers of all headers. For that of datagrams, the first octet is the length of the IP
/// header.
pub fn parsers(data: &[u8]) {
    if let Some(frame) = data.first_chunk::<HEADER_LEN>() {
        if let Ok(header) = Header::parse(frame) {
            assert!(Header::parse(&header.to_wire()) == Ok(header));
        }
    }
    if let Ok(hello) = Hello::parse(data) {
        assert!(Hello::parse(&hello.to_wire()) == Ok(hello));
    }
    let _ = ddp::Header::parse(data);
    let _ = ReadRequest::parse(data);
    if let Some(request) = AtomicRequest::parse(data) {
        assert!(AtomicRequest::parse(&request.to_wire()) == Some(request));
    }
    let _ = AtomicResponse::parse(data);
    let _ = Received::parse(data);
    let len = u16::try_from(data.len()).unwrap_or(u16::MAX);
    let _ = Quote::new(data, len);
    datagram::parse(data);
}

/// A stream of FPDUs; the first octet chooses the size of the chunks, and whether those behind one
/// can be read.
pub fn deframer(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    let len = usize::from(size).max(1);
    let mut deframer = Deframer::new();
    deframer.set_buffer(vec![0; MAX_FPDU]);
    let mut used = 0usize;
    for begin in (0..stream.len()).step_by(len) {
        let rest = stream.get(begin..).unwrap_or(&[]);
        let len = len.min(rest.len());
        let chunk = match size % 2 {
            0 => Piece::front(rest, len, Reach::Apart),
            _ => Piece::all(rest.get(..len).unwrap_or(&[])),
        };
        let mut at = deframer.skip(chunk.len());
        loop {
            let collected = deframer.collected::<Piece<'_>>();
            assert!(collected.is_ok());
            if let Ok(Some(fpdu)) = collected {
                used = used.saturating_add(fpdu.len);
                deframer.use_up_collected();
            }
            let left = chunk.len().saturating_sub(at);
            let n = match next(&mut deframer, &chunk, at) {
                Err(_) => return,
                Ok(Next::Nothing) => break,
                Ok(Next::Collected(n)) => n,
                Ok(Next::Fpdu(fpdu)) => {
                    assert!(size % 2 == 0 || fpdu.len <= left);
                    used = used.saturating_add(fpdu.len);
                    deframer.use_up(fpdu.len, left)
                }
            };
            assert!(n > 0 && n <= left);
            at = at.saturating_add(n);
        }
        assert_eq!(at, chunk.len());
    }
    assert!(used <= stream.len());
    assert_eq!(used == stream.len(), !deframer.is_collecting());
}

/// Segments behind each other: an octet of length each.
pub fn rx(data: &[u8]) {
    let mut rx = Segments::new(RtrSet::ALL);
    let mut rest = data;
    while let Some((&len, tail)) = rest.split_first() {
        let (head, tail) = tail.split_at(usize::from(len).min(tail.len()));
        let ulpdu_len = u16::try_from(head.len()).unwrap_or(u16::MAX);
        if rx.segment(head, ulpdu_len, &ALL).is_err() {
            return;
        }
        rest = tail;
    }
}

/// Frames for both roles; the first octet chooses where the stream is cut.
pub fn setup(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let (a, b) = stream.split_at(usize::from(cut).min(stream.len()));
    let mut initiator = Initiator::new(config(), Depths { ird: 4, ord: 4 });
    let mut responder = Responder::new(config());
    for part in [a, b] {
        assert!(initiator.feed(part).consumed <= part.len());
        assert!(responder.feed(part).consumed <= part.len());
    }
    let mut out = [0; MAX_FRAME];
    let _ = responder.accept(Depths { ird: 99, ord: 99 }, responder_data(data), &mut out);
    let _ = (initiator.private_data(), responder.private_data());
}

fn responder_data(data: &[u8]) -> &[u8] {
    data.get(..data.len().min(600)).unwrap_or(data)
}

/// A connection; the input chooses the side, what happens to it, and what its peer says. Whatever
/// that is, time ends it, and its consumer was told what iw_cm counts on.
pub fn connection(data: &[u8]) {
    use connection::Input as Happens;
    let mut input = Input(data);
    let depths = Depths { ird: 4, ord: 4 };
    let mut endpoint = if input.one_in(2) {
        Endpoint::connect(config(), depths, !input.one_in(8)).0
    } else {
        Endpoint::listen(config())
    };
    while !input.0.is_empty() {
        let what = input.below(24);
        endpoint.answers = if input.one_in(8) {
            Answers {
                good: u8::try_from(input.below(3)).unwrap_or(0),
                later: input.one_in(2),
            }
        } else {
            Answers::GOOD
        };
        let happens = match what {
            0 => Happens::Connected {
                private_data: b"private",
            },
            1 => Happens::Closed(None),
            2 => Happens::Closed(Some(Code(-104))),
            3..=8 => {
                let len = input.below(64).min(input.0.len());
                let (octets, rest) = input.0.split_at(len);
                input.0 = rest;
                endpoint.octets(octets);
                continue;
            }
            9 => {
                endpoint.expire(input.one_in(4));
                continue;
            }
            10 | 11 => {
                let told = &endpoint.around.told;
                if told.may_answer() {
                    if what == 10 {
                        let _ = endpoint.accept(depths, responder_data(data));
                    } else {
                        endpoint.reject(responder_data(data));
                    }
                }
                continue;
            }
            12 => Happens::Abort,
            13 => match input.one_in(2) {
                true => Happens::DrivenOut,
                false => Happens::Shut,
            },
            14 => Happens::Done,
            15 => Happens::Failed(FAILURE),
            16 => Happens::FirstSegment,
            17 => Happens::PeerClosing,
            18 => Happens::StreamEnded(StreamEnd::Reset),
            19 => Happens::StreamEnded(StreamEnd::Graceful),
            20 => Happens::Acknowledged,
            21 if matches!(endpoint.connection.awaits(), Awaits::Drained) => Happens::Drained,
            _ => {
                let _ = endpoint.deliver(!input.one_in(8));
                continue;
            }
        };
        if matches!(happens, Happens::Done | Happens::Failed(_)) {
            endpoint.unanswered = false;
        }
        let _ = endpoint.feed(happens);
    }
    endpoint.settle();
}

/// Octets of a message.
fn message_len(input: &mut Input<'_>) -> u32 {
    let n = u32::try_from(input.below(256)).unwrap_or(0);
    n.saturating_mul(if input.one_in(4) { 60 } else { 3 })
}

/// Two peers; the input chooses operations, schedule, cuts and faults on the wire.
pub fn two_peers(data: &[u8]) {
    let mut input = Input(data);
    let depths = Depths { ird: 2, ord: 2 };
    let mut peers = [
        Peer::initiator(config(), depths, b"pd", 200),
        Peer::responder(config(), depths, 300),
    ];
    for peer in &mut peers {
        let region = Region {
            base: 0x1000,
            bytes: vec![0; 4096],
            remote_read: true,
            remote_write: true,
            remote_atomic: true,
        };
        peer.regions().insert(1, region);
    }
    let mut id = 0;
    while !input.0.is_empty() {
        let what = input.below(11);
        let [a, b] = &mut peers;
        let (x, y) = if input.one_in(2) { (a, b) } else { (b, a) };
        let len = input.below(256).saturating_mul(5);
        let to = 0x1000u64.saturating_add(input.bits());
        match what {
            0 => x.post_recv(len),
            1 => {
                let data = vec![7; len];
                let invalidate = input.one_in(8).then_some(Stag(1));
                let wr = Wr::Send {
                    data,
                    solicited: input.one_in(2),
                    invalidate,
                };
                x.post(id, wr, input.one_in(2));
            }
            2 => {
                let wr = Wr::Write {
                    data: vec![8; len],
                    stag: Stag(1),
                    to,
                };
                x.post(id, wr, input.one_in(2));
            }
            3 => {
                let request = ReadRequest {
                    sink_stag: Stag(1),
                    sink_to: TaggedOffset(0x1000),
                    len: u32::try_from(len).unwrap_or(0),
                    source_stag: Stag(1),
                    source_to: TaggedOffset(to),
                };
                x.post(id, Wr::Read(request), input.one_in(2));
            }
            10 => {
                let add = input.bits();
                let wr = Wr::Atomic {
                    operation: AtomicOperation::FetchAdd { add, mask: 1 << 31 },
                    kind: OperationType::MaskedFetchAdd,
                    stag: Stag(1),
                    to: to & !7,
                    sink: (Stag(1), to),
                };
                x.post(id, wr, input.one_in(2));
            }
            4 => x.transmit(len),
            5 => {
                // A fault on the wire.
                if let Some(octet) = x.out().get_mut(len) {
                    *octet ^= 1;
                }
            }
            6 if x.fin() && x.out().is_empty() => y.peer_fin(),
            7 if input.one_in(8) => x.disconnect(),
            8 if x.fin() && y.fin() => x.closed(),
            _ => {
                let len = len.min(x.out().len());
                let chunk: Vec<u8> = x.out().drain(..len).collect();
                y.receive(&chunk);
            }
        }
        id = id.saturating_add(1);
    }
}
