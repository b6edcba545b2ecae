// SPDX-License-Identifier: GPL-2.0

//! The ends of connections: FIN, lingering, reset.

use super::*;
use crate::proto::connection::{Connection, Outputs};
use crate::proto::fin::FIN_RETRIES;
use crate::proto::setup::{Initiator, Responder};

/// The FIN waits for acknowledgements, but not for ever, and neither does what follows.
#[test]
fn fin_waits_and_lingers() {
    let mut this = connected();
    this.stream_ends(StreamEnd::Graceful);
    this.armed.clear();
    this.expire(false);
    assert!(this.around.fin);
    assert_eq!(this.armed, [LINGER_MS]);
    // What is acknowledged later changes nothing.
    assert!(this.feed(Input::Acknowledged).is_ok());
    assert_eq!(this.connection.awaits(), Awaits::Drained);
    this.expire(false);
    assert!(this.connection.is_closed());
    this.settle();
    assert_eq!(this.around.told.closes, 1);
}

/// A FIN that cannot be sent yet is tried again, for so long, and then sent all the same. What the
/// peer has sent does not make an end of that.
#[test]
fn fin_is_tried_again() {
    for refusals in [1, FIN_RETRIES - 1, FIN_RETRIES, u8::MAX] {
        let mut this = connected();
        this.stream_ends(StreamEnd::Graceful);
        this.armed.clear();
        this.answers.good = 0;
        assert!(this.feed(Input::Acknowledged).is_ok());
        let tried_again = refusals.min(FIN_RETRIES);
        for left in (0..tried_again).rev() {
            assert!(!this.around.fin);
            assert_eq!(this.connection.awaits(), Awaits::Acknowledgement);
            assert!(this.feed(Input::Acknowledged).is_ok());
            assert!(this.feed(Input::Drained).is_ok());
            assert!(!this.connection.is_closed());
            if left == 0 && refusals < FIN_RETRIES {
                this.answers = Answers::GOOD;
            }
            this.expire(false);
        }
        assert!(this.around.fin);
        assert_eq!(this.connection.awaits(), Awaits::Drained);
        let mut armed = vec![FIN_WAIT_MS; tried_again.into()];
        armed.push(LINGER_MS);
        assert_eq!(this.armed, armed);
        assert!(this.feed(Input::Drained).is_ok());
        assert!(this.connection.is_closed());
        this.settle();
    }
}

/// What the peer has not acknowledged is waited for longer, but not for ever.
#[test]
fn lingers_while_tcp_sends() {
    let mut this = connected();
    this.stream_ends(StreamEnd::Graceful);
    this.expire(false);
    for _ in 0..LINGER_AGAIN {
        this.armed.clear();
        this.unacknowledged();
        assert_eq!(this.armed, [LINGER_MS]);
        assert_eq!(this.connection.awaits(), Awaits::Drained);
    }
    let mut acknowledged = this.clone();
    acknowledged.expire(false);
    assert!(acknowledged.connection.is_closed());
    this.unacknowledged();
    assert!(this.connection.is_closed());
    assert!(!this.around.tcp);
}

/// A connection that was refused lingers once, whatever TCP still sends: others wait for its place.
#[test]
fn refused_lingers_once() {
    let mut this = requested([false; 4]);
    this.reject(b"no");
    this.expire(false);
    assert_eq!(this.connection.awaits(), Awaits::Drained);
    this.unacknowledged();
    assert!(this.connection.is_closed());
}

/// The peer's FIN may come first.
#[test]
fn drained_before_fin() {
    let mut this = connected();
    this.stream_ends(StreamEnd::Graceful);
    assert!(this.feed(Input::Drained).is_ok());
    assert!(this.connection.is_closed());
    this.settle();
}

/// The device goes away while one of them waits.
#[test]
fn shut_at_the_end() {
    for acknowledged in [false, true] {
        let mut this = connected();
        this.stream_ends(StreamEnd::Graceful);
        if acknowledged {
            assert!(this.feed(Input::Acknowledged).is_ok());
        }
        assert!(this.feed(Input::Shut).is_ok());
        assert!(this.connection.is_closed());
        this.settle();
        assert_eq!(this.around.told.closes, 1);
    }
}

/// Nothing follows the end, whatever still happens, and the events are told all the same.
#[test]
fn nothing_behind_the_end() {
    let mut this = connected();
    assert!(this.feed(Input::PeerClosing).is_ok());
    this.stream_ends(StreamEnd::Reset);
    for input in [
        Input::Connected { private_data: b"" },
        Input::Closed(None),
        Input::Octets(b"MPA"),
        Input::Expired { is_ending: true },
        Input::Reject { private_data: b"" },
        Input::Abort,
        Input::Shut,
        Input::Done,
        Input::Failed(FAILURE),
        Input::FirstSegment,
        Input::PeerClosing,
        Input::StreamEnded(StreamEnd::Graceful),
        Input::Acknowledged,
        Input::Drained,
    ] {
        assert!(this.feed(input).is_ok());
        assert!(this.connection.is_closed());
    }
    assert_eq!(this.deliver(true), Some(Event::Disconnect));
    assert_eq!(this.deliver(false), Some(Event::Close));
    assert_eq!(this.logs, [Log::EventLost]);
    assert_eq!(this.deliver(true), None);
}

/// A connection that is being made leaves everything alone.
#[test]
fn being_made() {
    let mut new = Connection::<Box<Initiator>, Box<Responder>>::new();
    for input in [
        Input::Shut,
        Input::Abort,
        Input::Expired { is_ending: true },
        Input::Done,
    ] {
        assert_eq!(new.step(input, &mut []), Outputs::default());
        assert!(new.is_new() && !new.is_closed());
    }
    assert!(new.next_event(&mut []).is_none());
    let closed = Connection::<Box<Initiator>, Box<Responder>>::closed();
    assert!(closed.is_closed());
}
