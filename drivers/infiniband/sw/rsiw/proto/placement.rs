// SPDX-License-Identifier: GPL-2.0

//! Placement: requests that complete when the peer has placed them.
//!
//! A Send or Write of iWARP completes once TCP has its octets and its memory is free again.
//! Programs that were written for InfiniBand expect more: once a request has completed they tell
//! others, by another way than the stream, that the peer has the data.
//!
//! On a connection for such programs, the sender puts a Read of no octets behind a row of requests.
//! The peer answers the Read when it has placed what stands in front of it (RFC 5040 section 5.5;
//! RFC 5041 section 5.3). All requests in front of the Read complete with the response. One such
//! Read is under way at a time; requests that are sent meanwhile share the next one. A Read of the
//! consumer tells the same. What the other end on this host takes without TCP is placed at once.
//!
//! A program disconnects as soon as it has what it waited for. Then a Read may come too late to be
//! answered. So a side that has sent its FIN drops a Read of no octets, without an error. And when
//! the peer closes in good order, requests that it has not confirmed complete as they do without
//! placement. That is not enough between queue pairs that are connected by number: there, whoever
//! ends the stream says in a Terminate how many messages it has placed ([`Quote::placed`]).
//!
//! [`Quote::placed`]: crate::wire::terminate::Quote::placed
//!
//! The record of a Send or Write has two conditions then: TCP has the message, and a response has
//! told of this message or of one behind it. Both are checked where the oldest request completes
//! (`proto::sends`), so no list is walked through when a response comes.
//!
//! Context: any, under the owner's lock.
#![forbid(unsafe_code)]

use super::ring::Token;
use core::num::{
    Saturating,
    Wrapping, //
};

/// How far the peer has placed what was sent. Under the lock of the requests under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Whether requests complete only once the peer has placed them.
    pub(super) is_awaited: bool,
    /// A Read of the sender's own is under way.
    pub(super) is_asked: bool,
    /// The oldest request that the peer is not known to have placed.
    next: Token,
}

impl Placed {
    /// Makes the state of a new connection, of which `first` is the first request.
    pub(super) const fn new(is_awaited: bool, first: Token) -> Self {
        Self {
            is_awaited,
            is_asked: false,
            next: first,
        }
    }

    pub(super) fn has(&self, token: Token) -> bool {
        token.is_before(self.next)
    }

    /// Takes note that all requests up to `token` are placed.
    pub(super) fn extend(&mut self, token: Token) {
        if !self.has(token) {
            self.next = token.next();
        }
    }
}

/// A request, and how many Sends, Immediates and Writes were sent up to it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    token: Token,
    messages: Wrapping<u32>,
}

impl Sent {
    /// Returns whether the request is placed if the peer has placed `messages` messages.
    fn is_placed(&self, messages: u32) -> bool {
        (Wrapping(messages) - self.messages).0 <= u32::MAX / 2
    }
}

/// What the sender has sent, but has not asked the peer about. Under the lock of the sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unasked {
    /// The youngest request of which TCP, or the batch, has all.
    youngest: Option<Sent>,
    /// The youngest request that the peer was asked about.
    asked: Option<Sent>,
    /// Octets since the last Read; saturates.
    octets: Saturating<u32>,
}

/// After how many octets the peer is asked although there is more to send.
const RUN_OCTETS: u32 = 1 << 20;

impl Unasked {
    pub(super) const NOTHING: Self = Self {
        youngest: None,
        asked: None,
        octets: Saturating(0),
    };

    /// Adds a request of `octets` octets; `messages` is how many messages were sent up to it.
    pub(super) fn add(&mut self, token: Token, octets: u32, messages: Wrapping<u32>) {
        self.youngest = Some(Sent { token, messages });
        self.octets += octets;
    }

    /// Adds octets of a request, another message of which is still to be sent.
    pub(super) fn add_part(&mut self, octets: u32) {
        self.octets += octets;
    }

    /// Takes note that the peer is asked about all that was sent.
    pub(super) fn ask(&mut self) {
        let asked = self.youngest.take();
        *self = Self {
            asked: asked.or(self.asked),
            ..Self::NOTHING
        };
    }

    /// Returns the youngest request.
    pub(super) fn youngest(&self) -> Option<Token> {
        Some(self.youngest?.token)
    }

    /// Returns the youngest request known to be placed, after the peer has said, as its last word,
    /// that it has placed `messages` messages.
    pub(super) fn placed(&self, messages: u32) -> Option<Token> {
        let mut sent = Iterator::chain(self.youngest.iter(), &self.asked);
        let placed = sent.find(|sent| sent.is_placed(messages))?;
        Some(placed.token)
    }

    /// Returns whether the peer is to be asked before more is sent.
    pub(super) const fn is_due(&self) -> bool {
        self.youngest.is_some() && self.octets.0 >= RUN_OCTETS
    }
}
