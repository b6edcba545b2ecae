// SPDX-License-Identifier: GPL-2.0

//! What a connection wants to be done.
//!
//! Context as in `proto::connection`.
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

/// What to do with the timer. There is one per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Start it, or set it anew, to so many milliseconds.
    Arm(u32),
    /// Stop it.
    Disarm,
}

/// What to do with the socket's callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callbacks {
    /// Install those of the connection.
    Install,
    /// Remove them.
    Remove,
}

/// What to do with the QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Qp {
    /// It is free again; with the reason, where the consumer only learns of that later.
    Detach(Option<Error>),
    /// End the stream that it has.
    Abort,
    /// Drop the reference: it has left the stream.
    Forget,
}

/// What to do with TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Send the FIN.
    Finish,
    /// Reset it, and let go of the socket.
    Reset,
    /// Let go of the socket.
    Release,
}

/// What may fail. The next input is [`Input::Done`] or [`Input::Failed`]; until then no other one
/// changes anything, but for [`Ask::Request`]. Lengths are of the frame in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Connect TCP, with callbacks.
    Dial,
    /// Send the Request, of so many octets.
    Request(usize),
    /// Give TCP to the QP, as agreed, once the Reply, of so many octets, if any, is sent.
    Start {
        /// Octets of the Reply; 0 at the initiator.
        reply: usize,
        /// What was agreed on.
        params: Params,
    },
    /// Send the Reply, of so many octets, that refuses the Request, unless too many refused
    /// connections wait for their peers.
    Refuse(usize),
    /// Send a Terminate as the only FPDU of the stream.
    Terminate(TermError),
}

/// What the administrator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// No Request on a connection in time.
    NoRequest,
    /// The Request is not one.
    BadRequest(Reason),
    /// The connection ended inside the Request.
    RequestCut,
    /// The consumer did not answer a Request in time.
    NotAnswered,
    /// A peer-to-peer initiator does not begin to send.
    NoFirstSegment,
    /// The consumer could not be told of a Request.
    NoRoom,
    /// The consumer was not told of something.
    EventLost,
}

/// What to do, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outputs {
    /// One line for the log.
    pub(crate) log: Option<Log>,
    /// What to do with the timer.
    pub(crate) timer: Option<Timer>,
    /// What to do with the callbacks.
    pub(crate) callbacks: Option<Callbacks>,
    /// What to do with the QP.
    pub(crate) qp: Option<Qp>,
    /// What to do with TCP.
    pub(crate) tcp: Option<Tcp>,
    /// What may fail.
    pub(crate) ask: Option<Ask>,
    /// The consumer's call that the input came from fails.
    pub(crate) fails: Option<Error>,
}
