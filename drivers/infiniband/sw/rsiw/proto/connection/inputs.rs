// SPDX-License-Identifier: GPL-2.0

//! What a connection is told, and what it looks for.
//!
//! Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::Event;
use crate::proto::negotiate::Depths;

/// An error number of the surroundings, which is only handed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

/// Why there is no connection, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// It was given up, or the peer ended it: `-ECONNRESET`.
    Reset,
    /// Nobody listens, or the peer's consumer does not want it: `-ECONNREFUSED`.
    Refused,
    /// The peer does not answer: `-ETIMEDOUT`.
    TimedOut,
    /// What the peer says is not MPA, or not what can be agreed on: `-EPROTO`.
    Protocol,
    /// The event could not be delivered with all that it had: `-ENOMEM`.
    NoMemory,
    /// The consumer asks for what cannot be: `-EINVAL`.
    Invalid,
    /// What the surroundings said.
    Other(Code),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// TCP is gone, or was reset.
    Reset,
    /// A FIN was sent, perhaps behind a Terminate: the close must not turn into a RST that
    /// destroys it (T-32).
    Graceful,
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// TCP is connected.
    Connected {
        /// The consumer's, for the Request; at most `Initiator::max_private_data`.
        private_data: &'a [u8],
    },
    /// TCP has not connected, is gone, or the peer sent its FIN instead of what is waited for; with
    /// TCP's error, if it has one.
    Closed(Option<Code>),
    /// Octets from TCP, not more than [`Awaits::Frame`] says.
    Octets(&'a [u8]),
    /// The timer ran out.
    Expired {
        /// The initiator's process is about to end. It waits for iw_cm, which waits for the reply
        /// event.
        is_ending: bool,
    },
    /// The timer ran out while the connection waits for [`Awaits::Drained`], and the peer has not
    /// acknowledged all that was sent.
    Unacknowledged,
    /// The consumer accepts the Request. Its QP is set aside for the connection already.
    Accept {
        /// IRD and ORD that the consumer wants.
        want: Depths,
        /// For the peer's consumer.
        private_data: &'a [u8],
    },
    /// The consumer does not want the connection.
    Reject {
        /// For the peer's consumer.
        private_data: &'a [u8],
    },
    /// The QP that is set aside, but was not given the stream yet, goes away or into error; or the
    /// consumer accepts with one that it cannot have.
    Abort,
    /// The device or the listener goes away: the connection ends whatever its state.
    Shut,
    /// What [`Outputs::ask`] asked for is done.
    Done,
    /// It could not be done.
    Failed(Code),
    /// The QP received the first segment.
    FirstSegment,
    /// The peer has begun to close the stream that the QP has.
    PeerClosing,
    /// The QP has left the stream, once and for all.
    StreamEnded(StreamEnd),
    /// The peer has acknowledged all that was sent, or has closed.
    Acknowledged,
    /// What the peer sent was dropped, and its FIN was behind it, or TCP is gone.
    Drained,
    /// An event could not be delivered.
    Undelivered(Event),
}

/// What the connection waits for, for those who have to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing that one could look for.
    Nothing,
    /// TCP to connect: [`Input::Connected`] or [`Input::Closed`].
    Connected,
    /// Octets of a frame, at most so many: [`Input::Octets`] or [`Input::Closed`].
    Frame(usize),
    /// [`Input::Acknowledged`], or [`Input::Drained`].
    Acknowledgement,
    /// [`Input::Drained`].
    Drained,
}
