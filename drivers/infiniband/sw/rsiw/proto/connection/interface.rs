// SPDX-License-Identifier: GPL-2.0

//! What a connection is told ([`Input`]), what it waits for ([`Awaits`]), what it wants done
//! ([`Outputs`]), and the events that it owes its consumer. Context as in `proto::connection`.
//!
//! Events come in the order in which iw_cm wants them, each kind at most once in the life of a
//! connection. The core asserts that there is an established event for each successful accept, a
//! reply for each successful connect, exactly one close event after either, and no other such
//! event.
#![forbid(unsafe_code)]

use crate::proto::negotiate::{
    Depths,
    EventDepths, //
};
use crate::proto::setup::{
    Params,
    Reason, //
};
use crate::wire::terminate::TermError;
use core::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A peer asks for a connection; for the consumer of the listener.
    Request {
        /// The peer's read depths, from its own view.
        depths: EventDepths,
        /// Octets of private data.
        data: usize,
    },
    /// The end of a connect; without an error the connection is up.
    Reply {
        error: Option<Error>,
        /// The responder's read depths, from this side's view.
        depths: EventDepths,
        data: usize,
    },
    /// The end of an accept; with an error the connection is dead already.
    Established {
        error: Option<Error>,
        /// The read depths, as in `Reply`.
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

/// The end of a connect; `mpa` has the private data of the peer's Reply.
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

/// An error number of the surroundings, which is only passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

/// Why there is no connection, or why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The connection was given up, or the peer ended it: `-ECONNRESET`.
    Reset,
    /// Nobody listens, or the peer's consumer does not want the connection: `-ECONNREFUSED`.
    Refused,
    /// The peer does not answer: `-ETIMEDOUT`.
    TimedOut,
    /// What the peer says is not MPA, or cannot be agreed on: `-EPROTO`.
    Protocol,
    /// The event could not be delivered with all that it had: `-ENOMEM`.
    NoMemory,
    /// The consumer asks for something impossible: `-EINVAL`.
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
        /// The consumer's private data for the Request: at most `Initiator::max_private_data`
        /// octets.
        private_data: &'a [u8],
    },
    /// TCP could not connect, or is gone, or the peer sent its FIN instead of what is awaited; with
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
    /// Request was answered before.
    Accept {
        /// IRD and ORD that the consumer wants.
        want: Depths,
        /// Private data for the peer's consumer.
        private_data: &'a [u8],
    },
    Reject {
        private_data: &'a [u8],
    },
    /// The QP that is set aside, but has not been given the stream, goes away or into error; or the
    /// consumer accepts with a QP that it cannot have.
    Abort,
    /// The connection has to make room for another one that waits for its Request, too, or its
    /// listener goes away. If the connection has its own Request by now, the input does nothing.
    DrivenOut,
    /// The device goes away, or the object that has parked the Request does. The connection ends in
    /// any phase.
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

/// What the connection waits for, so that others can look whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing that anybody could look for.
    Nothing,
    /// TCP to connect: [`Input::Connected`] or [`Input::Closed`].
    Connected,
    /// At most this many octets of a frame: [`Input::Octets`] or [`Input::Closed`].
    Frame(usize),
    /// [`Input::Acknowledged`] or [`Input::Drained`].
    Acknowledgement,
    Drained,
}

/// What to do with the timer, of which a connection has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Start the timer, or set it anew, to this many milliseconds.
    Arm(u32),
    Disarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callbacks {
    /// Install the callbacks of the connection.
    Install,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Qp {
    /// The QP is free again. An error is for a QP whose consumer learns of the reason only later.
    Detach(Option<Error>),
    /// End the stream that the QP has.
    Abort,
    /// Drop the reference to the QP, which has left the stream.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Reset it, and let go of the socket.
    Reset,
    /// Let go of the socket.
    Release,
}

/// Something to do that may fail. The next input is [`Input::Done`] or [`Input::Failed`]; only
/// while [`Ask::Request`] waits for that, others may come first. Lengths are those of the frame in
/// the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Connect TCP, with callbacks.
    Dial,
    /// Send the Request, of this many octets.
    Request(usize),
    /// Give TCP to the QP, as agreed, once the Reply, if any, is sent.
    Start {
        /// Octets of the Reply; 0 at the initiator.
        reply: usize,
        params: Params,
    },
    /// Send the Reply that refuses the Request, of this many octets, unless too many refused
    /// connections wait for their peers.
    Refuse(usize),
    /// Send the FIN, if TCP has all that stands in front of it, or `anyway`.
    Finish { anyway: bool },
    /// Send a Terminate as the only FPDU of the stream, with or without markers.
    Terminate { error: TermError, markers: bool },
}

/// What the administrator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// No Request came in time.
    NoRequest,
    /// What came is no Request.
    BadRequest(Reason),
    /// The connection ended inside the Request.
    RequestCut,
    /// The consumer did not answer a Request in time.
    NotAnswered,
    /// A peer-to-peer initiator does not begin to send.
    NoFirstSegment,
    /// The consumer could not be told of a Request, for lack of memory or of room in its backlog.
    NoRoom,
    /// The consumer could not be told of another event.
    EventLost,
}

/// What to do, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outputs {
    pub(crate) log: Option<Log>,
    pub(crate) timer: Option<Timer>,
    pub(crate) callbacks: Option<Callbacks>,
    pub(crate) qp: Option<Qp>,
    pub(crate) tcp: Option<Tcp>,
    pub(crate) ask: Option<Ask>,
    /// The error with which the consumer's call fails, if the input comes from one.
    pub(crate) fails: Option<Error>,
}

impl Input<'_> {
    /// Returns whether a step with this input may write a frame.
    pub(crate) const fn makes_frame(&self) -> bool {
        matches!(
            self,
            Self::Connected { .. }
                | Self::Accept { .. }
                | Self::Reject { .. }
                | Self::Undelivered(_)
        )
    }

    pub(crate) const fn name(&self) -> &'static CStr {
        match self {
            Self::Connected { .. } => c"connected",
            Self::Closed(_) => c"closed",
            Self::Octets(_) => c"octets",
            Self::Expired { .. } => c"expired",
            Self::Unacknowledged => c"unacknowledged",
            Self::Accept { .. } => c"accept",
            Self::Reject { .. } => c"reject",
            Self::Abort => c"abort",
            Self::DrivenOut => c"driven_out",
            Self::Shut => c"shut",
            Self::Done => c"done",
            Self::Failed(_) => c"failed",
            Self::FirstSegment => c"first_segment",
            Self::PeerClosing => c"peer_closing",
            Self::StreamEnded(_) => c"stream_ended",
            Self::Acknowledged => c"acknowledged",
            Self::Drained => c"drained",
            Self::Undelivered(_) => c"undelivered",
        }
    }
}

impl Event {
    /// Returns the name of the event in iw_cm.
    pub(crate) const fn name(&self) -> &'static CStr {
        match self {
            Self::Request { .. } => c"connect_request",
            Self::Reply { .. } => c"connect_reply",
            Self::Established { .. } => c"established",
            Self::Disconnect => c"disconnect",
            Self::Close => c"close",
        }
    }
}
