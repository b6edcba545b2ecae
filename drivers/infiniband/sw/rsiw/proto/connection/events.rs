// SPDX-License-Identifier: GPL-2.0

//! The events that a connection owes its consumer, in the order in which iw_cm wants them.
//!
//! Each kind occurs once in the life of a connection. The core asserts that: an established event
//! for each successful accept, a reply for each successful connect, exactly one close event after
//! either, and none of them otherwise. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::Error;
use crate::proto::negotiate::EventDepths;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A peer asks for a connection; for the consumer of the listener.
    Request {
        /// The peer's, from its own view.
        depths: EventDepths,
        /// Octets of private data.
        data: usize,
    },
    /// The end of a connect; without an error the connection is up.
    Reply {
        error: Option<Error>,
        /// The responder's, from this side's view.
        depths: EventDepths,
        data: usize,
    },
    /// The end of an accept; with an error the connection is dead already.
    Established {
        error: Option<Error>,
        /// As in `Reply`.
        depths: EventDepths,
    },
    /// The peer wants to end the connection.
    Disconnect,
    Close,
}

impl Event {
    pub(crate) const fn error(&self) -> Option<Error> {
        match self {
            Event::Reply { error, .. } | Event::Established { error, .. } => *error,
            Event::Request { .. } | Event::Disconnect | Event::Close => None,
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        match self {
            Event::Reply { error, .. } => error.is_some(),
            Event::Close => true,
            Event::Request { .. } | Event::Established { .. } | Event::Disconnect => false,
        }
    }
}

/// The end of a connect, and who has the private data of the peer's Reply.
#[derive(Clone, Debug)]
pub(super) struct Reply<I> {
    pub(super) error: Option<Error>,
    pub(super) depths: EventDepths,
    pub(super) mpa: Option<I>,
}

impl<I> Reply<I> {
    pub(super) fn failed(error: Error) -> Self {
        Self {
            error: Some(error),
            depths: EventDepths::default(),
            mpa: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Established {
    pub(super) error: Option<Error>,
    pub(super) depths: EventDepths,
}

/// Events that wait to be delivered, in the order of the fields.
#[derive(Clone, Debug)]
pub(super) struct Outbox<I> {
    pub(super) request: Option<EventDepths>,
    pub(super) reply: Option<Reply<I>>,
    pub(super) established: Option<Established>,
    pub(super) disconnect: bool,
    pub(super) close: bool,
}

impl<I> Outbox<I> {
    pub(super) const fn new() -> Self {
        Self {
            request: None,
            reply: None,
            established: None,
            disconnect: false,
            close: false,
        }
    }
}

/// Copies private data, as much as there is room for. Returns how many octets that was.
pub(super) fn copy(data: &[u8], out: &mut [u8]) -> usize {
    for (to, from) in out.iter_mut().zip(data) {
        *to = *from;
    }
    data.len().min(out.len())
}
