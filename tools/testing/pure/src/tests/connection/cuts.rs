// SPDX-License-Identifier: GPL-2.0

//! The peer's frame in every cut, and two connections with each other.

use super::*;
use crate::support::rng::{Choices, Rng};

/// Feeds `stream`, a frame with private data, to what `begin` makes: in every cut, at once and octet
/// by octet.
fn every_cut(begin: impl Fn() -> Endpoint, stream: &[u8]) {
    for cut in 0..=stream.len() {
        for step in [1, 1000] {
            let mut this = begin();
            let mut taken = 0;
            for part in [&stream[..cut], &stream[cut..]] {
                for chunk in part.chunks(step) {
                    taken += this.octets(chunk);
                }
            }
            assert_eq!(taken, stream.len());
            this.deliver_all();
            assert_eq!(this.events[0].1, b"private data");
            this.settle();
        }
    }
}

/// T-25: a frame that comes octet by octet, or in two pieces, is one that comes at once.
#[test]
fn t_25_every_cut() {
    every_cut(await_reply, &reply(b"private data"));
    every_cut(
        || Endpoint::listen(p2p()),
        &request([true; 4], b"private data"),
    );
}

/// T-42b: the peer closes at every octet of its frame.
#[test]
fn t_42b_closed_at_every_octet() {
    let stream = request([true; 4], b"data");
    for cut in 0..stream.len() {
        let mut this = Endpoint::listen(p2p());
        // In two pieces, so that what was said is remembered.
        this.octets(&stream[..cut / 2]);
        this.octets(&stream[cut / 2..cut]);
        assert!(this.feed(Input::Octets(b"")).is_ok());
        assert!(this.feed(Input::Closed(None)).is_ok());
        let logs: &[Log] = if cut > 0 { &[Log::RequestCut] } else { &[] };
        assert_eq!(this.logs, logs);
        assert!(this.connection.is_closed());
        this.settle();
        assert!(this.events.is_empty());
    }
    let stream = reply(b"data");
    for cut in 0..stream.len() {
        let mut this = await_reply();
        this.octets(&stream[..cut]);
        assert!(this.feed(Input::Closed(Some(Code(-104)))).is_ok());
        assert_eq!(this.connection.is_closed(), cut > 0);
        this.settle();
        let error = if cut > 0 {
            Error::Reset
        } else {
            // Of the other attempt, which nobody answers.
            Error::TimedOut
        };
        assert_eq!(events(&this), [failed(error)]);
    }
}

/// Two connections with each other, with frames in random cuts: they agree, and what the consumers
/// say arrives.
#[test]
fn two_connections() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let enhanced = rng.one_in(2);
        let ours = if enhanced { p2p() } else { config(1) };
        let (mut up, result) = Endpoint::connect(ours, depths(5, 6), true);
        assert!(result.is_ok());
        let mut down = Endpoint::listen(if rng.one_in(3) { config(1) } else { p2p() });
        let len = rng.below(508);
        let said = rng.bytes(len);
        let len = rng.below(508);
        let answered = rng.bytes(len);
        up.connected(&said);
        let rejects = rng.one_in(3);
        for round in 0.. {
            assert!(round < 4);
            cuts(&mut rng, up.sent.last().expect("a Request"), &mut down);
            down.deliver_all();
            if down.connection.is_requested() {
                break;
            }
            // A revision that the responder does not do: it resets, and the other falls back.
            assert!(down.connection.is_closed());
            assert!(up.feed(Input::Closed(None)).is_ok());
            down = Endpoint::listen(p2p());
            up.connected(&said);
        }
        assert_eq!(down.events[0].1, said[..said.len().min(MAX_EVENT_DATA)]);
        if rejects {
            down.reject(&answered);
        } else {
            assert_eq!(down.accept(depths(7, 8), &answered), Ok(()));
        }
        let frame = down.sent.pop().expect("a Reply");
        cuts(&mut rng, &frame, &mut up);
        up.deliver_all();
        let Some((Event::Reply { error, .. }, data)) = up.events.first() else {
            panic!("no reply");
        };
        assert_eq!(*error, rejects.then_some(Error::Refused));
        assert_eq!(data[..], answered[..answered.len().min(MAX_EVENT_DATA)]);
        if !rejects {
            let (a, b) = (up.started.expect("up"), down.started.expect("down"));
            assert_eq!(a.crc, b.crc);
            assert_eq!(a.peer_to_peer, b.peer_to_peer);
            if a.peer_to_peer {
                assert!(a.ord <= b.ird && b.ord <= a.ird);
                assert!(down.feed(Input::FirstSegment).is_ok());
            }
        }
        up.settle();
        down.settle();
    }
}

/// Feeds a frame in pieces of random length.
fn cuts(rng: &mut Rng, frame: &[u8], to: &mut Endpoint) {
    let mut rest = frame;
    while !rest.is_empty() && matches!(to.connection.awaits(), Awaits::Frame(_)) {
        let n = 1 + rng.below(rest.len());
        let taken = to.octets(&rest[..n]);
        rest = &rest[taken..];
    }
}
