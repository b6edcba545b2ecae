// SPDX-License-Identifier: GPL-2.0

//! What a connection is told, and what it looks for. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::Event;
use crate::proto::negotiate::Depths;

/// An error number of the surroundings, which is only passed on.
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
    /// What the peer says is not MPA, or cannot be agreed on: `-EPROTO`.
    Protocol,
    /// The event could not be delivered with all that it had: `-ENOMEM`.
    NoMemory,
    /// The consumer asks for what cannot be: `-EINVAL`.
    Invalid,
    Other(Code),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// TCP is gone, or was reset.
    Reset,
    /// A FIN was sent, perhaps behind a Terminate, which a RST must not destroy (T-32).
    Graceful,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    Connected {
        /// The consumer's, for the Request; at most `Initiator::max_private_data`.
        private_data: &'a [u8],
    },
    /// TCP has not connected, is gone, or the peer sent its FIN instead of what is awaited; with
    /// TCP's error, if there is one.
    Closed(Option<Code>),
    /// Octets from TCP, no more than [`Awaits::Frame`] says.
    Octets(&'a [u8]),
    Expired {
        /// The process that connects or has accepted is about to end. It waits for iw_cm, which
        /// waits for the reply or for the established event.
        is_ending: bool,
    },
    /// The timer ran out in [`Awaits::Drained`] before the peer acknowledged all that was sent.
    Unacknowledged,
    /// The consumer accepts the Request. Its QP is set aside for the connection already, unless the
    /// Request has an answer.
    Accept {
        /// IRD and ORD that the consumer wants.
        want: Depths,
        /// For the peer's consumer.
        private_data: &'a [u8],
    },
    Reject {
        private_data: &'a [u8],
    },
    /// The QP that is set aside, but has not been given the stream, goes away or into error; or the
    /// consumer accepts with a QP that it cannot have.
    Abort,
    /// The device or the listener goes away: the connection ends whatever its state.
    Shut,
    /// What [`Outputs::ask`] asked for is done.
    Done,
    Failed(Code),
    FirstSegment,
    /// The peer has begun to close the stream that the QP has.
    PeerClosing,
    /// The QP has left the stream, once and for all.
    StreamEnded(StreamEnd),
    /// The peer has acknowledged all that was sent, or has closed.
    Acknowledged,
    /// What the peer sent was dropped, up to its FIN, or TCP is gone.
    Drained,
    Undelivered(Event),
}

/// What the connection waits for, for those who have to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing that one could look for.
    Nothing,
    /// TCP to connect: [`Input::Connected`] or [`Input::Closed`].
    Connected,
    /// At most so many octets of a frame: [`Input::Octets`] or [`Input::Closed`].
    Frame(usize),
    /// [`Input::Acknowledged`] or [`Input::Drained`].
    Acknowledgement,
    Drained,
}
