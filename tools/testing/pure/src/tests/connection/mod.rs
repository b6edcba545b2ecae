// SPDX-License-Identifier: GPL-2.0

//! Connections from the first SYN to the last event.

mod cuts;
mod ends;
mod initiator;
mod meanwhile;
mod orders;
mod responder;

use super::setup::{config, depths, frame, p2p, words, C, M, NO_BITS, R, REP, REQ, S};
use crate::proto::connection::{
    Awaits, Code, Error, Event, Input, Log, StreamEnd, ANSWER_MS, CONNECT_MS, LINGER_AGAIN,
    LINGER_MS, REPLY_MS, REQUEST_MS, RTR_MS, TICK_MS,
};
use crate::proto::fin::FIN_WAIT_MS;
use crate::proto::message::Rtr;
use crate::proto::negotiate::EventDepths;
use crate::proto::setup::Reason;
use crate::support::endpoint::{Answers, Endpoint, QpIs, FAILURE, MAX_EVENT_DATA};
use crate::wire::mpa::HEADER_LEN;
use crate::wire::terminate::TermError;

/// The first thing that may fail does, the others succeed.
const BAD: Answers = Answers {
    good: 0,
    later: false,
};

/// An initiator whose TCP connects.
fn connecting() -> Endpoint {
    let (this, result) = Endpoint::connect(p2p(), depths(4, 4), true);
    assert_eq!(result, Ok(()));
    assert_eq!(this.connection.awaits(), Awaits::Connected);
    this
}

/// An initiator that has sent its Request.
fn await_reply() -> Endpoint {
    let mut this = connecting();
    this.connected(b"hello");
    assert!(matches!(this.connection.awaits(), Awaits::Frame(_)));
    this
}

/// A Reply in peer-to-peer mode.
fn reply(data: &[u8]) -> Vec<u8> {
    frame(
        REP,
        C | S,
        2,
        &[words(3, 2, [true; 4]), data.to_vec()].concat(),
    )
}

/// A Request in peer-to-peer mode, or not.
fn request(bits: [bool; 4], data: &[u8]) -> Vec<u8> {
    frame(REQ, C | S, 2, &[words(3, 2, bits), data.to_vec()].concat())
}

/// An initiator that has a connection, and has said so.
fn connected() -> Endpoint {
    let mut this = await_reply();
    this.octets(&reply(b"hi"));
    this.deliver_all();
    assert_eq!(this.around.qp, QpIs::Running);
    this
}

/// A responder whose consumer has to answer.
fn requested(bits: [bool; 4]) -> Endpoint {
    let mut this = Endpoint::listen(p2p());
    this.octets(&request(bits, b"hello"));
    this.deliver_all();
    assert!(this.connection.is_requested());
    this
}

/// A responder whose consumer has accepted.
fn accepted(bits: [bool; 4]) -> Endpoint {
    let mut this = requested(bits);
    assert_eq!(this.accept(depths(4, 4), b"yes"), Ok(()));
    this.deliver_all();
    this
}

fn events(this: &Endpoint) -> Vec<Event> {
    this.events.iter().map(|(event, _)| *event).collect()
}

/// A reply event that says why there is no connection.
fn failed(error: Error) -> Event {
    Event::Reply {
        error: Some(error),
        depths: EventDepths::default(),
        data: 0,
    }
}
