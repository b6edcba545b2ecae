// SPDX-License-Identifier: GPL-2.0

//! The side that was connected to.

use super::*;
use crate::proto::counters::Counter;
use crate::support::around::Did;
use crate::support::by_hand;
use crate::support::receiving::Receiving;

const ALL: [bool; 4] = [true; 4];

/// From the accept of TCP to its end, in peer-to-peer mode.
#[test]
fn life_of_a_responder() {
    let mut this = Endpoint::listen(p2p());
    assert_eq!(this.around.timer, Some(REQUEST_MS));
    // T-25: what is behind the Request is not the connection's.
    let stream = [request(ALL, b"hello"), vec![0x55; 30]].concat();
    assert_eq!(this.octets(&stream), request(ALL, b"hello").len());
    assert_eq!(this.around.timer, Some(ANSWER_MS));
    assert_eq!(this.connection.awaits(), Awaits::Nothing);
    this.deliver_all();
    let told = Event::Request {
        depths: EventDepths { ird: 3, ord: 2 },
        data: 5,
    };
    assert_eq!(this.events, [(told, b"hello".to_vec())]);

    assert_eq!(this.accept(depths(4, 4), b"yes"), Ok(()));
    let want = [words(4, 3, ALL), b"yes".to_vec()].concat();
    assert_eq!(this.sent, [frame(REP, C | S, 2, &want)]);
    assert_eq!(this.around.timer, Some(TICK_MS));
    // The consumer learns of it with the first segment, and of a peer that closes not before.
    assert!(this.feed(Input::PeerClosing).is_ok());
    this.deliver_all();
    assert_eq!(this.events.len(), 1);
    assert!(this.feed(Input::FirstSegment).is_ok());
    assert!(this.feed(Input::FirstSegment).is_ok());
    assert_eq!(this.around.timer, None);
    assert!(this.feed(Input::PeerClosing).is_ok());
    this.stream_ends(StreamEnd::Reset);
    assert!(this.connection.is_closed());
    this.deliver_all();
    let up = Event::Established {
        error: None,
        depths: EventDepths { ird: 4, ord: 3 },
    };
    assert_eq!(events(&this), [told, up, Event::Disconnect, Event::Close]);
    this.settle();
}

/// X-ENH-12 to X-ENH-14: with each set of ready-to-receive messages on offer the accept is told
/// with the first segment, or without peer-to-peer mode at once.
#[test]
fn x_enh_14_each_rtr() {
    for offer in 0..8u8 {
        let bits = [true, offer & 4 != 0, offer & 2 != 0, offer & 1 != 0];
        let mut this = accepted(bits);
        let params = this.started.expect("a connection");
        assert!(params.peer_to_peer && params.wait_for_fpdu);
        assert_eq!(this.around.told.established, (0, 0));
        assert_eq!(this.around.timer, Some(TICK_MS));
        assert!(this.feed(Input::FirstSegment).is_ok());
        this.deliver_all();
        assert_eq!(this.around.told.established, (0, 1));
        this.settle();
    }
    for bytes in [
        request(NO_BITS, b"x"),
        frame(REQ, C, 1, b"x"),
        frame(REQ, C, 2, b"x"),
    ] {
        let mut this = Endpoint::listen(p2p());
        this.octets(&bytes);
        this.deliver_all();
        assert_eq!(this.accept(depths(4, 4), b""), Ok(()));
        this.deliver_all();
        assert_eq!(this.around.told.established, (0, 1));
        assert_eq!(this.around.timer, None);
        this.settle();
    }
}

/// Lets the time for the first segment go by; returns the milliseconds.
fn wait_for_first(this: &mut Endpoint) -> u32 {
    let mut waited = 0;
    while let Some(ms) = this.around.timer {
        waited += ms;
        this.expire(false);
    }
    waited
}

/// The end of an accept without a first segment, by the depths of `accepted`.
fn not_established(error: Error) -> Event {
    Event::Established {
        error: Some(error),
        depths: EventDepths { ird: 4, ord: 3 },
    }
}

/// A peer that does not begin to send: the stream ends, and the accept with an error.
#[test]
fn no_first_segment() {
    for end in [StreamEnd::Reset, StreamEnd::Graceful] {
        let mut this = accepted(ALL);
        assert_eq!(wait_for_first(&mut this), RTR_MS);
        assert_eq!(this.logs, [Log::NoFirstSegment]);
        assert_eq!(this.around.qp, QpIs::Aborted);
        this.stream_ends(end);
        this.deliver_all();
        let dead = not_established(Error::TimedOut);
        assert_eq!(events(&this)[1..], [dead, Event::Close]);
        this.settle();
    }
    // The first segment comes while the stream is being ended.
    let mut this = accepted(ALL);
    wait_for_first(&mut this);
    assert!(this.feed(Input::FirstSegment).is_ok());
    this.settle();
    assert_eq!(this.around.told.established, (0, 1));
}

/// The process that has accepted ends, and waits for the established event: at the next tick the
/// stream ends as if the time were over, but nobody is to blame.
#[test]
fn process_ends_without_first_segment() {
    let mut this = accepted(ALL);
    this.expire(false);
    assert_eq!(this.around.timer, Some(TICK_MS));
    this.expire(true);
    assert_eq!((this.around.timer, this.around.qp), (None, QpIs::Aborted));
    assert!(this.logs.is_empty());
    this.settle();
    assert_eq!(this.around.told.established, (1, 0));
}

/// T-42, T-42b: who says nothing, or not what it should, is reset, with a line for those who spoke.
#[test]
fn t_42_no_request() {
    let mut this = Endpoint::listen(p2p());
    this.expire(false);
    assert_eq!(
        (this.logs.as_slice(), this.connection.is_closed()),
        (&[Log::NoRequest][..], true)
    );
    let mut this = Endpoint::listen(p2p());
    assert!(this.feed(Input::Closed(None)).is_ok());
    assert!(this.logs.is_empty() && this.connection.is_closed());
    this.settle();
    for (bytes, reason) in [
        (frame(b"GET / HTTP/1.1\r\n", C, 2, b""), Reason::Key),
        (reply(b""), Reason::Crossed),
        (frame(REQ, C, 0, b""), Reason::Rdmac),
        (frame(REQ, C, 3, b""), Reason::Revision),
        (frame(REQ, C | S, 2, &[0; 3]), Reason::PrivateData),
    ] {
        let mut this = Endpoint::listen(p2p());
        this.octets(&bytes);
        assert_eq!(this.logs, [Log::BadRequest(reason)]);
        assert!(this.connection.is_closed());
        this.settle();
        assert!(this.events.is_empty());
    }
}

/// The consumer does not answer in time.
#[test]
fn not_answered() {
    let mut this = requested(ALL);
    this.expire(false);
    assert_eq!(this.logs, [Log::NotAnswered]);
    assert!(this.connection.is_closed());
    assert_eq!(this.accept(depths(1, 1), b""), Err(Error::Reset));
    this.settle();
    assert_eq!(this.events.len(), 1);
}

/// M-MPA-28: the consumer rejects: a Reply with its private data, a FIN behind it.
#[test]
fn m_mpa_28_consumer_rejects() {
    let mut this = requested(ALL);
    this.reject(b"no");
    assert_eq!(this.sent.len(), 1);
    assert_eq!(
        (this.sent[0][16], &this.sent[0][24..]),
        (C | S | R, &b"no"[..])
    );
    assert_eq!(this.connection.awaits(), Awaits::Acknowledgement);
    assert_eq!(this.around.timer, Some(FIN_WAIT_MS));
    this.settle();
    assert_eq!(this.around.told.closes, 0);
    // TCP does not take it, too many linger, or it is too long.
    let mut this = requested(ALL);
    this.answers = BAD;
    this.reject(b"no");
    assert!(this.connection.is_closed());
    this.settle();
    let mut this = requested(ALL);
    this.reject(&[0; 600]);
    assert!(this.connection.is_closed() && this.sent.is_empty());
    this.settle();
}

/// An accept that fails: the call says so, nothing is told, and TCP is reset.
#[test]
fn accept_fails() {
    // The Reply, or the start of the queue pair.
    let mut this = requested(ALL);
    this.answers = BAD;
    assert_eq!(this.accept(depths(1, 1), b""), Err(Error::Other(FAILURE)));
    assert!(this.connection.is_closed());
    this.settle();
    // Too much private data.
    let mut this = requested(ALL);
    assert_eq!(this.accept(depths(1, 1), &[0; 600]), Err(Error::Invalid));
    assert!(this.connection.is_closed() && this.sent.is_empty());
    this.settle();
    // A queue pair that is not the consumer's.
    let mut this = requested(ALL);
    assert!(this.feed(Input::Abort).is_ok());
    assert!(this.connection.is_closed());
    this.settle();
}

/// L-CORE-4: TCP is gone before the consumer answers. An accept succeeds as ever, and the queue pair
/// ends the stream: an established event, and a close event.
#[test]
fn gone_while_requested() {
    for bits in [ALL, NO_BITS] {
        let mut this = requested(bits);
        assert_eq!(this.connection.awaits(), Awaits::Nothing);
        assert!(this.feed(Input::Closed(None)).is_ok());
        assert!(this.connection.is_requested() && this.around.tcp);
        let mut other = this.clone();
        let mut third = this.clone();
        assert_eq!(this.accept(depths(1, 1), b""), Ok(()));
        this.stream_ends(StreamEnd::Reset);
        assert!(this.connection.is_closed());
        this.settle();
        let told = &this.around.told;
        assert_eq!(told.established.0 + told.established.1, 1);
        assert_eq!(told.closes, 1);
        other.answers = BAD;
        other.reject(b"no");
        assert!(other.connection.is_closed());
        other.settle();
        third.settle();
        assert_eq!(third.logs, [Log::NotAnswered]);
    }
}

/// A Request that nobody can be told of is refused.
#[test]
fn request_undelivered() {
    let mut this = Endpoint::listen(p2p());
    this.octets(&request(ALL, b"hello"));
    this.deliver(false);
    assert_eq!(this.logs, [Log::NoRoom]);
    assert_eq!(this.sent[0][16], C | S | R);
    this.settle();
    // It is gone already.
    let mut this = Endpoint::listen(p2p());
    this.octets(&request(ALL, b"hello"));
    let mut late = this.clone();
    let event = late.connection.next_event(&mut []).expect("a Request");
    assert!(late.feed(Input::Shut).is_ok());
    assert!(late.feed(Input::Undelivered(event)).is_ok());
    assert!(late.connection.is_closed() && late.sent.is_empty());
    // It is not told at all then.
    assert!(this.feed(Input::Shut).is_ok());
    this.deliver_all();
    assert!(this.events.is_empty());
}

/// The device, the listener or the queue pair goes away in each phase.
#[test]
fn responder_given_up() {
    for input in [Input::Abort, Input::Shut] {
        for mut this in [Endpoint::listen(p2p()), requested(ALL)] {
            assert!(this.feed(input).is_ok());
            assert!(this.connection.is_closed());
            this.settle();
        }
    }
    let mut this = accepted(ALL);
    assert!(this.feed(Input::Shut).is_ok());
    assert_eq!(this.around.qp, QpIs::Aborted);
    this.settle();
    assert_eq!(
        (this.around.told.established, this.around.told.closes),
        ((1, 0), 1)
    );
}

/// X-ENH-19: a peer that finds the Reply impossible sends a Terminate and nothing else. The accept
/// ends with an error then, as if the stream had ended without a word.
#[test]
fn x_enh_19_gives_up() {
    let terminate = by_hand::fpdu(&by_hand::terminate(0x2007, None));
    for octets in [&terminate[..], &[]] {
        for end in [StreamEnd::Reset, StreamEnd::Graceful] {
            let mut this = accepted(ALL);
            let mut receiving = Receiving::new(&this.started.expect("a connection"));
            receiving.feed(octets);
            for did in receiving.did() {
                if did == Did::FirstSegment {
                    assert!(this.feed(Input::FirstSegment).is_ok());
                }
            }
            assert!(this.feed(Input::PeerClosing).is_ok());
            this.stream_ends(end);
            this.deliver_all();
            let dead = not_established(Error::Reset);
            assert_eq!(events(&this)[1..], [dead, Event::Close]);
            assert_eq!(Counter::of_event(&dead), Some(Counter::ConnFailed));
            this.settle();
        }
    }
}

/// Who waits for a Request may have to go for another connection. That comes too late once the
/// Request is there, whoever has it.
#[test]
fn driven_out() {
    let mut this = Endpoint::listen(p2p());
    assert!(this.feed(Input::DrivenOut).is_ok());
    assert!(this.connection.is_closed());
    this.settle();
    let running = {
        let mut this = accepted(ALL);
        assert!(this.feed(Input::FirstSegment).is_ok());
        this
    };
    for mut this in [requested(ALL), accepted(ALL), running] {
        let before = format!("{:?}", this.connection);
        assert!(this.feed(Input::DrivenOut).is_ok());
        assert_eq!(format!("{:?}", this.connection), before);
    }
}

/// The answer to an accept, or a reject, where there is no Request.
#[test]
fn answers_without_request() {
    let mut told = accepted(ALL);
    assert!(told.feed(Input::FirstSegment).is_ok());
    told.deliver_all();
    for mut this in [connecting(), connected(), told, Endpoint::listen(p2p())] {
        let want = depths(1, 1);
        let accept = Input::Accept {
            want,
            private_data: b"",
        };
        let before = format!("{:?}", this.connection);
        assert_eq!(this.feed(accept), Err(Error::Reset));
        assert_eq!(this.feed(Input::Reject { private_data: b"" }), Ok(()));
        assert_eq!(format!("{:?}", this.connection), before);
        this.settle();
    }
}

/// L-CORE-4: a consumer that rejects behind its accept, before it is told how that ended. iw_cm has
/// given up its identifier, so that nothing is told any more, and the stream ends.
#[test]
fn rejected_late() {
    let happened: [fn(&mut Endpoint); 4] = [
        |_| {},
        |this| assert!(this.feed(Input::FirstSegment).is_ok()),
        |this| this.expire(false),
        |this| {
            wait_for_first(this);
            this.stream_ends(StreamEnd::Graceful);
        },
    ];
    for happened in happened {
        let mut this = accepted(ALL);
        happened(&mut this);
        let is_running = this.connection.is_running();
        this.reject(b"no");
        assert!(!is_running || this.around.qp == QpIs::Aborted);
        assert!(!is_running || this.around.timer.is_none());
        assert!(this.feed(Input::FirstSegment).is_ok());
        this.settle();
        // The Request only.
        assert_eq!(this.events.len(), 1);
    }
}

/// L-CORE-4: an accept behind an accept succeeds and ends the connection, of which the consumer is
/// told: iw_cm waits for the established event, and then for the close event.
#[test]
fn accepted_again() {
    let mut this = accepted(ALL);
    assert_eq!(this.accept(depths(4, 4), b""), Ok(()));
    assert!(this.around.qp == QpIs::Aborted);
    this.stream_ends(StreamEnd::Reset);
    this.settle();
    // The Request, how the accept ended, and the end.
    assert_eq!(this.events.len(), 3);
}
