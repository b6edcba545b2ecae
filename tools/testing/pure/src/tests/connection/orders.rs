// SPDX-License-Identifier: GPL-2.0

//! Every order of inputs.
//!
//! [`Endpoint`] asserts what has to hold: one reply per connect, one established event per accept,
//! one close event after either, nothing behind the end, nothing behind another answer to a Request
//! that is accepted, each socket given up once, a time-out wherever something is waited for.

use super::*;
use crate::support::rng::{Choices, Rng};
use crate::tests::names::is_of_variant;
use std::collections::HashSet;

/// What may happen, from the view of the driver. Some of it cannot, in most phases.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Connected,
    Closed(Option<Code>),
    /// The first octets of a frame.
    Begun,
    /// A frame, or what is left of one that was begun.
    Frame(Frame),
    /// Time goes by until something else happens.
    Waits,
    Tick,
    Ending,
    Accept,
    AcceptTooMuch,
    Reject,
    Abort,
    DrivenOut,
    Shut,
    Answer(bool),
    FirstSegment,
    PeerClosing,
    StreamEnded(StreamEnd),
    Acknowledged,
    Drained,
    Unacknowledged,
    Deliver(bool),
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    Plain,
    PeerToPeer,
    Reject,
    NoRtr,
    Old,
    Wrong,
}

const ALL: [Happens; 33] = {
    use Happens::*;
    [
        Connected,
        Closed(None),
        Closed(Some(Code(-1))),
        Begun,
        Frame(self::Frame::Plain),
        Frame(self::Frame::PeerToPeer),
        Frame(self::Frame::Reject),
        Frame(self::Frame::NoRtr),
        Frame(self::Frame::Old),
        Frame(self::Frame::Wrong),
        Waits,
        Tick,
        Ending,
        Accept,
        AcceptTooMuch,
        Reject,
        Abort,
        DrivenOut,
        Shut,
        Answer(true),
        Answer(false),
        FirstSegment,
        PeerClosing,
        StreamEnded(StreamEnd::Reset),
        StreamEnded(StreamEnd::Graceful),
        Acknowledged,
        Drained,
        Unacknowledged,
        Deliver(true),
        Deliver(false),
        // Twice, so that they come at random as often as the others together.
        Deliver(true),
        Connected,
        Waits,
    ]
};

/// Answers to what may fail: all succeed, none, one, or the Request is sent later.
const ANSWERS: [Answers; 4] = [
    Answers::GOOD,
    Answers {
        good: 0,
        later: false,
    },
    Answers {
        good: 1,
        later: false,
    },
    Answers {
        good: u8::MAX,
        later: true,
    },
];

/// An endpoint and the frame that its peer is sending.
#[derive(Clone)]
struct World {
    endpoint: Endpoint,
    begun: bool,
}

impl World {
    fn both() -> [Self; 3] {
        let world = |endpoint| Self {
            endpoint,
            begun: false,
        };
        let (up, result) = Endpoint::connect(p2p(), depths(4, 4), true);
        assert!(result.is_ok());
        let (down, result) = Endpoint::connect(p2p(), depths(4, 4), false);
        assert_eq!(result, Err(Error::Other(FAILURE)));
        [world(up), world(down), world(Endpoint::listen(p2p()))]
    }

    /// What tells states apart, but for what has been done and the octets in frames.
    fn key(&self) -> String {
        let Endpoint {
            connection,
            around,
            unanswered,
            ..
        } = &self.endpoint;
        format!("{connection:?} {around:?} {unanswered} {}", self.begun)
    }

    fn happens(&mut self, what: Happens, answers: Answers) {
        let is_initiator = self.endpoint.around.told.connects;
        let this = &mut self.endpoint;
        this.answers = answers;
        let input = match what {
            Happens::Connected => Input::Connected {
                private_data: b"pd",
            },
            Happens::Closed(code) => Input::Closed(code),
            Happens::Begun | Happens::Frame(_) => {
                let kind = match what {
                    Happens::Frame(kind) => kind,
                    _ => Frame::PeerToPeer,
                };
                let mut stream = frame_of(is_initiator, kind);
                if core::mem::take(&mut self.begun) {
                    // Of whatever kind: what comes behind the header.
                    stream.drain(..HEADER_LEN);
                } else if matches!(what, Happens::Begun) {
                    stream.truncate(HEADER_LEN);
                }
                let waits = matches!(this.connection.awaits(), Awaits::Frame(_));
                this.octets(&stream);
                let still = matches!(this.connection.awaits(), Awaits::Frame(_));
                self.begun = waits && still && matches!(what, Happens::Begun);
                return;
            }
            Happens::Waits => {
                for _ in 0..200 {
                    if this.around.timer != Some(TICK_MS) {
                        break;
                    }
                    this.expire(false);
                }
                return this.expire(false);
            }
            Happens::Tick => return this.expire(false),
            Happens::Ending if this.around.timer.is_some() => return this.expire(true),
            // One that was stopped just then.
            Happens::Ending => Input::Expired { is_ending: true },
            Happens::Accept | Happens::AcceptTooMuch => {
                if this.around.told.may_answer() {
                    let much = [0; 600];
                    let private_data = match what {
                        Happens::Accept => &b"yes"[..],
                        _ => &much,
                    };
                    let _ = this.accept(depths(2, 2), private_data);
                }
                return;
            }
            Happens::Reject => {
                if this.around.told.may_answer() {
                    this.reject(b"no");
                }
                return;
            }
            Happens::Abort => Input::Abort,
            Happens::DrivenOut => Input::DrivenOut,
            Happens::Shut => Input::Shut,
            Happens::Answer(good) => {
                this.unanswered = false;
                if good {
                    Input::Done
                } else {
                    Input::Failed(FAILURE)
                }
            }
            Happens::FirstSegment => Input::FirstSegment,
            Happens::PeerClosing => Input::PeerClosing,
            Happens::StreamEnded(end) => Input::StreamEnded(end),
            Happens::Acknowledged => Input::Acknowledged,
            Happens::Drained => Input::Drained,
            Happens::Unacknowledged => return this.unacknowledged(),
            Happens::Deliver(delivered) => {
                this.deliver(delivered);
                return;
            }
        };
        assert!(this.feed(input).is_ok());
    }
}

fn frame_of(is_initiator: bool, kind: Frame) -> Vec<u8> {
    let all = [true; 4];
    let (key, flags) = if is_initiator { (REP, C) } else { (REQ, C) };
    let with = |bits, data: &[u8]| [words(2, 2, bits), data.to_vec()].concat();
    match kind {
        Frame::Plain => frame(key, flags | S, 2, &with(NO_BITS, b"pd")),
        Frame::PeerToPeer => frame(key, flags | S, 2, &with(all, b"pd")),
        Frame::Reject => frame(key, flags | S | R, 2, &with(NO_BITS, b"no")),
        Frame::NoRtr => frame(key, flags | S, 2, &with([true, false, false, false], b"pd")),
        Frame::Old => frame(key, flags, 1, b"old"),
        Frame::Wrong => frame(b"GET / HTTP/1.1\r\n", flags, 2, b""),
    }
}

/// All states that any order of inputs leads to; from each, time alone ends the connection.
#[test]
fn every_order_of_inputs() {
    let mut seen = HashSet::new();
    let mut next: Vec<World> = World::both().into();
    while let Some(world) = next.pop() {
        if !seen.insert(world.key()) {
            continue;
        }
        let phase = world.key().split_off("Connection { phase: ".len());
        assert!(
            is_of_variant(world.endpoint.connection.phase(), &phase),
            "{phase}"
        );
        world.endpoint.clone().settle();
        for what in ALL {
            // One tick changes nothing but what is left; `Waits` sees the end of that.
            if matches!(what, Happens::Tick) {
                continue;
            }
            for answers in ANSWERS {
                let mut world = world.clone();
                world.happens(what, answers);
                world.endpoint.forget();
                next.push(world);
            }
        }
    }
    for phase in [
        "Connecting(",
        "Requesting(",
        "AwaitReply(",
        "AwaitRequest {",
        "Requested(",
        "Running(Down)",
        "Running(Accepted {",
        "Running(Up)",
        "Running(Closing)",
        "Finishing(",
        "Lingering",
        "Closed",
    ] {
        let start = format!("Connection {{ phase: {phase}");
        assert!(seen.iter().any(|key| key.starts_with(&start)), "{phase}");
    }
    assert!(seen.len() > 250, "{}", seen.len());
}

/// The same at random, with single ticks.
#[test]
fn random_orders() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        for mut world in World::both() {
            for _ in 0..rng.below(40) {
                let what = ALL[rng.below(ALL.len())];
                let answers = if rng.one_in(3) {
                    ANSWERS[rng.below(ANSWERS.len())]
                } else {
                    Answers::GOOD
                };
                world.happens(what, answers);
            }
            world.endpoint.settle();
        }
    }
}
