// SPDX-License-Identifier: GPL-2.0

//! What trace events and details call states, events and errors: the names of the specifications,
//! and our own where they have none. Those of operations and opcodes are in their tables
//! (`request.rs`, `wire/rdmap.rs`). Any context.
#![forbid(unsafe_code)]

use super::drain::Stop;
use super::failure::Fault;
use super::order::Status;
use super::schedule::Actor;
use super::state::{
    QpEvent,
    QpState, //
};
use core::ffi::CStr;

pub(crate) type Name = &'static CStr;

impl QpState {
    /// Returns the name; Draining is Closing for the verbs.
    pub(crate) const fn name(self) -> Name {
        match self {
            Self::Idle => c"Idle",
            Self::Rts => c"RTS",
            Self::Draining => c"Draining",
            Self::Closing => c"Closing",
            Self::Terminate => c"Terminate",
            Self::Error => c"Error",
        }
    }
}

impl QpEvent {
    pub(crate) const fn name(&self) -> Name {
        match self {
            Self::Connected => c"connected",
            Self::Modify { .. } => c"modify",
            Self::Drained => c"drained",
            Self::Destroy { .. } => c"destroy",
            Self::PeerFin { .. } => c"peer_fin",
            Self::PeerReset => c"peer_reset",
            Self::Lost => c"lost",
            Self::LocalError { .. } => c"local_error",
            Self::TerminateReceived { .. } => c"terminate_received",
            Self::Closed => c"closed",
            Self::Timeout => c"timeout",
            Self::PostedTooLate => c"posted_too_late",
            Self::DataInClosing => c"data_in_closing",
        }
    }
}

impl Actor {
    /// Returns the name, as it is in those of counters.
    pub(crate) const fn name(self) -> Name {
        match self {
            Self::Caller => c"thread",
            Self::Urgent => c"urgent",
            Self::Patient => c"patient",
            Self::Later => c"later",
        }
    }
}

/// Returns the name of what the other end on this host answers, see
/// [`Transport::prepare`](super::transport::Transport::prepare).
pub(crate) const fn of_answer(answer: &Result<bool, Stop>) -> Name {
    match answer {
        Ok(true) => c"taken",
        Ok(false) => c"gone",
        Err(Stop::Again) => c"enough",
        Err(_) => c"later",
    }
}

impl Status<Fault> {
    pub(crate) const fn name(self) -> Name {
        match self {
            Self::Success => c"success",
            Self::Flushed => c"flushed",
            Self::Failed(Fault::LocalLength) => c"local_length",
            Self::Failed(Fault::LocalProtection) => c"local_protection",
            Self::Failed(Fault::LocalOperation) => c"local_operation",
            Self::Failed(Fault::Bind) => c"bind",
            Self::Failed(Fault::RemoteAccess) => c"remote_access",
            Self::Failed(Fault::RemoteInvalid) => c"remote_invalid",
            Self::Failed(Fault::General) => c"general",
        }
    }
}
