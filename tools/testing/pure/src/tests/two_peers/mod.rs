// SPDX-License-Identifier: GPL-2.0

//! Two complete peers talk in memory: all operations, all cuts of the stream, random
//! interleavings, contents verified.

pub(super) mod atomic;
mod behaviour;
mod direct;
mod order;
mod traffic;

use crate::proto::failure::Fault;
use crate::proto::negotiate::Depths;
use crate::proto::receiver::Extra;
use crate::proto::request::OperationType;
use crate::proto::sends::Status;
use crate::proto::setup::Config;
use crate::proto::state::QpState;
use crate::support::peer::{Peer, Received, Region, Wr};
use crate::support::rng::{Choices, Rng};
use crate::wire::atomic::AtomicOperation;
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{ImmediateData, ReadRequest};
use crate::wire::terminate::TermError;

/// STags of each peer: target of Writes, source of Reads, sink of Reads and Atomic Operations, their
/// target.
pub(super) const TARGET: Stag = Stag(0x1111_1101);
pub(super) const SOURCE: Stag = Stag(0x2222_2202);
pub(super) const SINK: Stag = Stag(0x3333_3303);
pub(super) const WORDS: Stag = Stag(0x4444_4404);
pub(super) const BASE: u64 = 0xffff_8880_0000_0f00;
pub(super) const SIZE: usize = 200_000;

pub(super) fn config(rev: u8, crc: bool, peer_to_peer: bool) -> Config {
    Config {
        rev,
        crc,
        large_fpdus: false,
        peer_to_peer,
        rtr: RtrSet::ALL,
        cap: Depths { ird: 16, ord: 16 },
    }
}

pub(super) fn region(bytes: Vec<u8>, remote_read: bool, remote_write: bool) -> Region {
    Region {
        base: BASE,
        bytes,
        remote_read,
        remote_write,
        remote_atomic: false,
    }
}

/// A region of words that the peer may change, and read.
pub(super) fn words(bytes: Vec<u8>) -> Region {
    Region {
        remote_atomic: true,
        ..region(bytes, true, false)
    }
}

pub(super) fn add_regions(peer: &mut Peer, rng: &mut Rng, size: usize) {
    let source = rng.bytes(size);
    peer.regions()
        .insert(TARGET.0, region(vec![0; size], false, true));
    peer.regions().insert(SOURCE.0, region(source, true, false));
    peer.regions()
        .insert(SINK.0, region(vec![0; size], false, false));
    peer.regions().insert(WORDS.0, words(vec![0; 64]));
}

/// What one side must see in the end.
#[derive(Default)]
pub(super) struct Expect {
    pub(super) completions: Vec<(u64, Status<Fault>)>,
    pub(super) received: Vec<Received>,
    pub(super) target: Vec<u8>,
    pub(super) sink: Vec<u8>,
    pub(super) words: [u64; 8],
    /// Which requests of it the other side takes a receive for.
    pub(super) messages: Vec<u64>,
}

pub(super) fn verify(peer: &Peer, want: &Expect, what: &str) {
    assert_eq!(peer.state(), QpState::Rts, "{what}");
    assert_eq!(peer.sent_terminate, None, "{what}");
    // T-4, T-11: each once, in post order.
    assert_eq!(peer.completions(), want.completions, "{what}");
    assert!(peer.received() == want.received, "{what}: received");
    assert!(
        peer.region(TARGET).bytes == want.target,
        "{what}: target of Writes"
    );
    assert!(
        peer.region(SINK).bytes == want.sink,
        "{what}: sink of Reads"
    );
    let words = want.words.map(u64::to_ne_bytes).concat();
    assert_eq!(peer.region(WORDS).bytes, words, "{what}: words");
}

/// Gives up to `n` octets to the other side, and then segments past TCP. Returns whether anything
/// moved.
pub(super) fn deliver(from: &mut Peer, to: &mut Peer, n: usize) -> bool {
    let segments = n / 1_000 + 1;
    let n = n.min(from.out().len());
    let chunk: Vec<u8> = from.out().drain(..n).collect();
    to.receive(&chunk);
    let handed = from.out().is_empty() && from.hand_over(to, segments);
    n > 0 || handed
}

/// Lets both sides run until nothing moves.
pub(super) fn settle(a: &mut Peer, b: &mut Peer) {
    loop {
        a.transmit(100);
        b.transmit(100);
        let moved = deliver(a, b, usize::MAX) | deliver(b, a, usize::MAX);
        if !moved {
            return;
        }
    }
}

pub(super) fn pair(a: Config, b: Config) -> (Peer, Peer) {
    let depths = Depths { ird: 2, ord: 2 };
    let mut rng = Rng::new(7);
    let mut a = Peer::initiator(a, depths, b"", 1442);
    let mut b = Peer::responder(b, depths, 1442);
    add_regions(&mut a, &mut rng, SIZE);
    add_regions(&mut b, &mut rng, SIZE);
    (a, b)
}

/// A [`pair`] whose connection is set up, and that has sent nothing yet.
pub(super) fn connected(a: Config, b: Config) -> (Peer, Peer) {
    let (mut a, mut b) = pair(a, b);
    settle(&mut a, &mut b);
    (a, b)
}

/// A connected pair that has nothing on its way. The initiator has sent a message, so that both
/// sides may send.
pub(super) fn talking() -> (Peer, Peer) {
    let (mut a, mut b) = connected(config(2, true, false), config(2, true, false));
    b.post_recv(10);
    a.post(99, send(b"go"), false);
    settle(&mut a, &mut b);
    (a, b)
}

pub(super) fn send(data: &[u8]) -> Wr {
    Wr::Send {
        data: data.to_vec(),
        solicited: false,
        invalidate: None,
    }
}

/// A Write to where the peer allows it, if all goes well.
pub(super) fn write(to: u64, data: Vec<u8>) -> Wr {
    let stag = TARGET;
    Wr::Write { data, stag, to }
}

/// A Read of `len` octets, to `sink_to` of the sink.
pub(super) fn read(source_stag: Stag, source_to: u64, len: u32, sink_to: u64) -> Wr {
    Wr::Read(ReadRequest {
        sink_stag: SINK,
        sink_to: TaggedOffset(sink_to),
        len,
        source_stag,
        source_to: TaggedOffset(source_to),
    })
}
