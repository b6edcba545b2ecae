// SPDX-License-Identifier: GPL-2.0

//! What a connection wants done. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::{
    Error, //
};
use crate::{
    proto::{
        collector::Reason,
        setup::Params, //
    },
    wire::terminate::TermError, //
};

/// What to do with the timer, of which a connection has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Start it, or set it anew, to so many milliseconds.
    Arm(u32),
    Disarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callbacks {
    /// Install those of the connection.
    Install,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Qp {
    /// It is free again; with the reason, where the consumer learns of that only later.
    Detach(Option<Error>),
    /// End the stream that it has.
    Abort,
    /// Drop the reference: it has left the stream.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Reset it, and let go of the socket.
    Reset,
    /// Let go of the socket.
    Release,
}

/// What may fail. [`Input::Done`] or [`Input::Failed`] is the next input; until then no other one
/// changes anything, except for [`Ask::Request`]. Lengths are of the frame in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Connect TCP, with callbacks.
    Dial,
    /// Send the Request, of so many octets.
    Request(usize),
    /// Give TCP to the QP, as agreed, once the Reply, if any, is sent.
    Start {
        /// Octets of the Reply; 0 at the initiator.
        reply: usize,
        params: Params,
    },
    /// Send the Reply, of so many octets, that refuses the Request, unless too many refused
    /// connections wait for their peers.
    Refuse(usize),
    /// Send the FIN, if TCP has all that is to stand in front of it, or `anyway`.
    Finish { anyway: bool },
    /// Send a Terminate as the only FPDU of the stream, with or without markers.
    Terminate { error: TermError, markers: bool },
}

/// What the administrator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// No Request came in time.
    NoRequest,
    /// The Request is not one.
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
    /// The consumer's call that the input came from fails.
    pub(crate) fails: Option<Error>,
}
