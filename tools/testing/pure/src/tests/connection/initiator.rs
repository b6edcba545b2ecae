// SPDX-License-Identifier: GPL-2.0

//! The side that connects.

use super::*;

/// From SYN to FIN: what is sent, what is told, and in which order.
#[test]
fn life_of_an_initiator() {
    let mut this = connecting();
    assert_eq!(this.armed, [TICK_MS]);
    this.connected(b"hello");
    let want = [words(4, 4, [true; 4]), b"hello".to_vec()].concat();
    assert_eq!(this.sent, [frame(REQ, C | S, 2, &want)]);
    // T-25: what is behind the Reply is not the connection's.
    let stream = [reply(b"hi"), vec![0x55; 30]].concat();
    assert_eq!(this.octets(&stream), reply(b"hi").len());
    let params = this.started.expect("a stream for the queue pair");
    assert_eq!(params.send_rtr, Some(Rtr::Write));
    assert_eq!((params.ird, params.ord), (4, 3));
    assert_eq!(this.said, b"hi");
    assert!(this.connection.reply_data().is_empty());
    assert_eq!(this.around.timer, None);
    assert!(!this.around.callbacks && this.around.tcp);
    let depths = EventDepths { ird: 2, ord: 3 };
    let up = Event::Reply {
        error: None,
        depths,
        data: 2,
    };
    this.deliver_all();
    assert_eq!(this.events, [(up, b"hi".to_vec())]);

    assert!(this.feed(Input::PeerClosing).is_ok());
    assert!(this.feed(Input::PeerClosing).is_ok());
    this.stream_ends(StreamEnd::Graceful);
    assert_eq!(this.around.timer, Some(FIN_WAIT_MS));
    assert!(this.around.callbacks && !this.around.fin);
    assert_eq!(this.connection.awaits(), Awaits::Acknowledgement);
    assert!(this.feed(Input::Acknowledged).is_ok());
    assert_eq!(this.around.timer, Some(LINGER_MS));
    assert!(this.around.fin);
    assert_eq!(this.connection.awaits(), Awaits::Drained);
    assert!(this.feed(Input::Drained).is_ok());
    assert!(this.connection.is_closed());
    this.deliver_all();
    assert_eq!(events(&this), [up, Event::Disconnect, Event::Close]);
    this.settle();
}

/// X-ENH-13, X-ENH-18: each ready-to-receive message that the responder may choose.
#[test]
fn x_enh_13_each_rtr() {
    for (bits, rtr) in [
        ([true, true, true, true], Rtr::Write),
        ([true, true, false, true], Rtr::Read),
        ([true, false, true, false], Rtr::Write),
        ([true, false, false, true], Rtr::Read),
        ([true, true, false, false], Rtr::Send),
    ] {
        let mut this = await_reply();
        this.octets(&frame(REP, C | S, 2, &words(3, 2, bits)));
        let params = this.started.expect("a connection");
        assert_eq!(params.send_rtr, Some(rtr));
        this.settle();
    }
}

/// X-ENH-9, X-ENH-16, X-ENH-17, M-MPA-14: what cannot be agreed on, or carried out, is told by a
/// Terminate, with markers if the Reply asks for them.
#[test]
fn x_enh_17_terminate() {
    for (words, error) in [
        (words(3, 200, [true; 4]), TermError::MpaInsufficientIrd),
        (
            words(3, 2, [true, false, false, false]),
            TermError::MpaNoMatchingRtr,
        ),
    ] {
        for (good, flags) in [(true, C | S), (false, C | S), (true, C | S | M)] {
            let mut this = await_reply();
            this.answers.good = u8::from(good);
            this.octets(&frame(REP, flags, 2, &words));
            assert_eq!(this.terminates, [(error, flags & M != 0)]);
            // Behind a Terminate that TCP does not take nothing has to arrive.
            assert_eq!(this.connection.is_closed(), !good);
            this.settle();
            assert_eq!(events(&this), [failed(Error::Protocol)]);
        }
    }
    for flags in [C | S, C | S | M] {
        let mut this = await_reply();
        this.answers.good = 0;
        this.octets(&frame(REP, flags, 2, &words(3, 2, [true; 4])));
        let error = TermError::MpaLocalCatastrophic;
        assert_eq!(this.terminates, [(error, flags & M != 0)]);
        assert!(this.connection.is_closed());
        this.settle();
        assert_eq!(events(&this), [failed(Error::Reset)]);
    }
}

/// RFC 6581 section 10, X-ENH-5: an answer of an older responder, or none, leads to another
/// connection with revision 1, whose deadlines begin anew.
#[test]
fn x_enh_5_fall_back() {
    let older = frame(REP, C, 1, b"");
    let not_enhanced = frame(REP, C, 2, b"");
    let too_new = frame(REP, C | S, 3, &words(1, 1, NO_BITS));
    let closed: &[u8] = &[];
    for answer in [&older[..], &not_enhanced, &too_new, closed] {
        let mut this = await_reply();
        for _ in 0..10 {
            this.expire(false);
        }
        if answer.is_empty() {
            assert!(this.feed(Input::Closed(None)).is_ok());
        } else {
            this.octets(answer);
        }
        // The first one is given up in front of the second.
        assert_eq!(this.around.sockets, (2, 1), "{answer:?}");
        assert_eq!(this.connection.awaits(), Awaits::Connected);
        assert_eq!(this.around.qp, QpIs::Attached);
        assert!(this.deliver(true).is_none());
        this.armed.clear();
        let mut late = this.clone();
        late.settle();
        assert_eq!(late.armed.iter().sum::<u32>(), CONNECT_MS - TICK_MS);

        this.connected(b"hello");
        assert_eq!(this.sent[1], frame(REQ, C, 1, b"hello"));
        this.octets(&frame(REP, C, 1, b"old"));
        let params = this.started.expect("a connection");
        assert!(!params.peer_to_peer && params.send_rtr.is_none());
        assert_eq!((params.ird, params.ord), (4, 4));
        this.settle();
        let [(Event::Reply { error: None, .. }, data), (Event::Close, _)] = &this.events[..] else {
            panic!("{:?}", this.events);
        };
        assert_eq!(data, b"old");
    }
}

/// It is tried once, and not behind an answer that is no answer of an older responder.
#[test]
fn no_second_fall_back() {
    // Once.
    let mut this = await_reply();
    assert!(this.feed(Input::Closed(None)).is_ok());
    this.connected(b"");
    assert!(this.feed(Input::Closed(None)).is_ok());
    this.settle();
    assert_eq!(events(&this), [failed(Error::Reset)]);
    assert_eq!(this.around.sockets, (2, 2));
    // An answer was begun.
    for cut in 1..reply(b"").len() {
        let mut this = await_reply();
        this.octets(&reply(b"")[..cut]);
        assert!(this.feed(Input::Closed(None)).is_ok());
        this.settle();
        assert_eq!(events(&this), [failed(Error::Reset)], "cut at {cut}");
        assert_eq!(this.around.sockets, (1, 1));
    }
    // It was no answer.
    let crossed = request([true; 4], b"");
    let wrong = frame(b"GET / HTTP/1.1\r\n", C, 2, b"");
    let rdmac = frame(REP, C, 0, b"");
    let long = frame(REP, C, 2, &[0; 513]);
    for answer in [crossed, wrong, rdmac, long] {
        let mut this = await_reply();
        this.octets(&answer);
        this.settle();
        assert_eq!(events(&this), [failed(Error::Protocol)]);
        assert_eq!(this.around.sockets, (1, 1));
    }
    // The second connection cannot be begun.
    let mut this = await_reply();
    this.answers = BAD;
    assert!(this.feed(Input::Closed(None)).is_ok());
    assert!(this.connection.is_closed());
    this.settle();
    assert_eq!(events(&this), [failed(Error::Other(FAILURE))]);
}

/// The call to connect fails, and nothing else is told.
#[test]
fn connect_fails() {
    let (mut this, result) = Endpoint::connect(p2p(), depths(4, 4), false);
    assert_eq!(result, Err(Error::Other(FAILURE)));
    assert!(this.connection.is_closed());
    assert_eq!((this.around.qp, this.around.sockets), (QpIs::Free, (0, 0)));
    this.settle();
    assert!(this.events.is_empty());
}

/// TCP's own errors are told as they are; without one it is a refusal.
#[test]
fn tcp_does_not_connect() {
    for (code, error) in [
        (None, Error::Refused),
        (Some(Code(-113)), Error::Other(Code(-113))),
    ] {
        let mut this = connecting();
        assert!(this.feed(Input::Closed(code)).is_ok());
        assert!(this.connection.is_closed());
        this.settle();
        assert_eq!(events(&this), [failed(error)]);
    }
    // TCP does not take the Request.
    let mut this = connecting();
    this.answers = BAD;
    this.connected(b"hello");
    this.settle();
    assert_eq!(events(&this), [failed(Error::Other(FAILURE))]);
    // More private data than there is room for, which the driver does not let through.
    let mut this = connecting();
    this.connected(&[0; 509]);
    this.settle();
    assert_eq!(events(&this), [failed(Error::Invalid)]);
}

/// A Request that is answered later, as when somebody else's work has sent it.
#[test]
fn request_later() {
    for (input, error) in [
        (Input::Failed(FAILURE), Some(Error::Other(FAILURE))),
        (Input::Abort, Some(Error::Reset)),
        (Input::Shut, Some(Error::Reset)),
        (Input::Expired { is_ending: true }, Some(Error::TimedOut)),
        (Input::Expired { is_ending: false }, None),
        (Input::Done, None),
    ] {
        let mut this = connecting();
        this.answers.later = true;
        this.connected(b"");
        assert!(this.unanswered);
        assert!(this.feed(input).is_ok());
        match error {
            Some(error) => {
                this.settle();
                assert_eq!(events(&this), [failed(error)]);
            }
            None => {
                assert!(this.feed(Input::Done).is_ok());
                assert!(matches!(this.connection.awaits(), Awaits::Frame(_)));
                this.octets(&reply(b""));
                assert!(this.connection.is_running());
            }
        }
    }
}

/// The time-outs of TCP and of the Reply, in ticks, and the end of a process that waits.
#[test]
fn time_outs() {
    type Make = fn() -> Endpoint;
    let both: [(Make, u32); 2] = [(connecting, CONNECT_MS), (await_reply, REPLY_MS)];
    for (make, ms) in both {
        let mut this = make();
        this.armed.clear();
        let ticks = ms / TICK_MS;
        for _ in 1..ticks {
            assert!(this.connection.goes_on(false) && !this.connection.goes_on(true));
            this.expire(false);
            assert_eq!(this.around.timer, Some(TICK_MS));
        }
        assert!(!this.connection.goes_on(false));
        this.expire(false);
        assert!(this.connection.is_closed());
        assert_eq!(this.logs, []);
        this.settle();
        assert_eq!(events(&this), [failed(Error::TimedOut)]);

        let mut this = make();
        this.expire(true);
        assert!(this.connection.is_closed());
        this.settle();
        assert_eq!(events(&this), [failed(Error::TimedOut)]);
    }
}

/// M-MPA-28: the peer's consumer rejects; its private data is told, and TCP ends in good order.
#[test]
fn m_mpa_28_rejected() {
    let data = vec![7; 508];
    let mut this = await_reply();
    this.octets(&frame(
        REP,
        C | S | R,
        2,
        &[words(3, 2, NO_BITS), data.clone()].concat(),
    ));
    assert_eq!(this.connection.awaits(), Awaits::Acknowledgement);
    assert_eq!(this.around.qp, QpIs::Free);
    this.deliver_all();
    let told = Event::Reply {
        error: Some(Error::Refused),
        depths: EventDepths { ird: 2, ord: 3 },
        data: MAX_EVENT_DATA,
    };
    // T-10: cut to what an event can carry.
    assert_eq!(this.events, [(told, data[..MAX_EVENT_DATA].to_vec())]);
    this.settle();
    assert_eq!(this.events.len(), 1);
}

/// A reply event that cannot be delivered is told again without its private data, and the
/// connection ends as one that there never was.
#[test]
fn reply_undelivered() {
    let mut this = await_reply();
    this.octets(&reply(b"hi"));
    assert!(this.feed(Input::PeerClosing).is_ok());
    this.deliver(false);
    assert_eq!(this.around.qp, QpIs::Aborted);
    this.settle();
    assert_eq!(events(&this), [failed(Error::NoMemory)]);
    // The stream had ended meanwhile.
    let mut this = await_reply();
    this.octets(&reply(b"hi"));
    this.stream_ends(StreamEnd::Reset);
    this.deliver(false);
    this.settle();
    assert_eq!(events(&this), [failed(Error::NoMemory)]);
    // It told of an error.
    let mut this = await_reply();
    this.octets(&frame(
        REP,
        C | S | R,
        2,
        &[words(3, 2, NO_BITS), vec![1]].concat(),
    ));
    this.deliver(false);
    this.settle();
    assert_eq!(events(&this), [failed(Error::Refused)]);
    // Without private data it is lost.
    let mut this = await_reply();
    this.octets(&reply(b""));
    this.deliver(false);
    assert_eq!(this.logs, [Log::EventLost]);
    this.settle();
}

/// The queue pair, or the device, goes away in each phase.
#[test]
fn initiator_given_up() {
    for input in [Input::Abort, Input::Shut] {
        for mut this in [connecting(), await_reply()] {
            assert!(this.feed(input).is_ok());
            assert!(this.connection.is_closed());
            this.settle();
            assert_eq!(events(&this), [failed(Error::Reset)]);
        }
    }
    // What the queue pair has is ended by the queue pair.
    let mut this = connected();
    assert!(this.feed(Input::Abort).is_ok());
    assert_eq!(this.around.qp, QpIs::Running);
    assert!(this.feed(Input::Shut).is_ok());
    assert_eq!(this.around.qp, QpIs::Aborted);
    this.stream_ends(StreamEnd::Reset);
    assert!(this.connection.is_closed());
    this.settle();
    assert_eq!(this.around.told.closes, 1);
}
