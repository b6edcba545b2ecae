// SPDX-License-Identifier: GPL-2.0

//! This side's FIN, and when it may go: behind all data, and once the peer has that.
//!
//! Some peers act upon a FIN before they have taken in what came right in front of it. An
//! acknowledgement says that TCP over there has the data, which drivers take in as it comes. It is
//! not waited for long, as a peer that takes nothing must keep nobody from closing, and not at all
//! where the peer has closed. `cm::teardown` does the same for a stream that the QP has left.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    effects::CLOSE_TIMEOUT_MS,
    Qp, //
};
use crate::{
    cm::FIN_WAIT_MS,
    ffi::net::TcpSocket, //
};
use kernel::sync::Arc;

/// What became of the FIN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fin {
    No,
    Wanted,
    /// Only acknowledgements are waited for.
    Waits,
    Sent,
}

impl Fin {
    /// There is to be one.
    pub(super) fn want(&mut self) {
        if *self == Fin::No {
            *self = Fin::Wanted;
        }
    }

    /// Sends it if it is wanted, TCP having all that is in front of it; with `has_spoken`, if the
    /// peer has acknowledged that.
    pub(super) fn send(&mut self, qp: &Arc<Qp>, sock: &TcpSocket, has_spoken: bool) {
        if !matches!(self, Fin::Wanted | Fin::Waits) {
            return;
        }
        if !has_spoken || sock.may_finish() {
            let waited = *self == Fin::Waits;
            *self = Fin::Sent;
            sock.shutdown_write();
            if waited {
                qp.start_timer(CLOSE_TIMEOUT_MS);
            }
        } else if *self == Fin::Wanted {
            *self = Fin::Waits;
            qp.start_timer(FIN_WAIT_MS);
        }
    }

    /// The timer ran out: sends a FIN that waits for acknowledgements. Returns whether it was that.
    pub(super) fn waits_no_more(&mut self, qp: &Arc<Qp>, sock: &TcpSocket) -> bool {
        if *self != Fin::Waits {
            return false;
        }
        *self = Fin::Sent;
        sock.shutdown_write();
        qp.start_timer(CLOSE_TIMEOUT_MS);
        true
    }
}
