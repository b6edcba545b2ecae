// SPDX-License-Identifier: GPL-2.0

//! The state of a TCP socket, and the error that ended its connection. Any context.

use crate::ffi::raw::b;
use kernel::prelude::*;

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    Connecting,
    Established,
    /// The peer sent its FIN, this side did not.
    CloseWait,
    /// This side sent its FIN (FIN-WAIT, CLOSING, LAST-ACK).
    Closing,
    /// Gone, or never set up.
    Closed,
    Listen,
}

impl TcpState {
    pub(super) fn from_raw(state: c_int) -> Self {
        let Ok(state) = u32::try_from(state) else {
            return Self::Closed;
        };
        match state {
            b::BPF_TCP_ESTABLISHED => Self::Established,
            b::BPF_TCP_SYN_SENT | b::BPF_TCP_SYN_RECV | b::BPF_TCP_NEW_SYN_RECV => Self::Connecting,
            b::BPF_TCP_CLOSE_WAIT => Self::CloseWait,
            b::BPF_TCP_FIN_WAIT1
            | b::BPF_TCP_FIN_WAIT2
            | b::BPF_TCP_CLOSING
            | b::BPF_TCP_LAST_ACK => Self::Closing,
            b::BPF_TCP_LISTEN => Self::Listen,
            _ => Self::Closed,
        }
    }
}

/// Returns the error of a socket whose `sk_err` is `err`.
pub(super) fn error_of(err: c_int) -> Option<Error> {
    match err.checked_neg() {
        Some(errno) if errno < 0 => Some(Error::from_errno(errno)),
        _ => None,
    }
}
