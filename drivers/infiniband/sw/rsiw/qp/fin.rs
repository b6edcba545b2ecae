// SPDX-License-Identifier: GPL-2.0

//! Sending the FIN of a stream that the QP has, when `proto::fin` says so.
//!
//! Nothing waits where there was no message but that of set-up, or where the peer has closed.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use crate::{
    ffi::net::TcpSocket,
    proto::fin::{
        self,
        Step,
        FIN_WAIT_MS, //
    },
};

/// How long Draining, Closing and Terminate may last each, in milliseconds (V-ST-18, V-ST-35).
pub(super) const CLOSE_TIMEOUT_MS: u32 = 5_000;

/// This side's FIN.
#[derive(Default)]
pub(super) struct Fin {
    state: fin::Fin,
    timer: Option<u32>,
}

impl Fin {
    /// There is to be one.
    pub(super) fn want(&mut self) {
        self.state.want();
    }

    /// Returns whether it was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.state == fin::Fin::Sent
    }

    /// Sends it if it is wanted, TCP having all that is in front of it; with `has_spoken`, if the
    /// peer has acknowledged that.
    #[inline(always)]
    pub(super) fn send(&mut self, sock: &TcpSocket, has_spoken: bool) {
        if !self.state.is_due() {
            return;
        }
        match self.state.step(!has_spoken || sock.may_finish()) {
            Some(Step::Wait) => self.timer = Some(FIN_WAIT_MS),
            Some(Step::Send { has_waited }) => {
                sock.shutdown_write();
                self.timer = has_waited.then_some(CLOSE_TIMEOUT_MS);
            }
            None => {}
        }
    }

    /// Returns for how many milliseconds the QP's timer is to be started, once after each
    /// [`Fin::send`].
    #[inline]
    pub(super) fn take_timer(&mut self) -> Option<u32> {
        self.timer.take()
    }

    /// The timer ran out: sends a FIN that waits for acknowledgements. Returns whether it was that;
    /// then the peer has [`CLOSE_TIMEOUT_MS`] from now on.
    pub(super) fn expired(&mut self, sock: &TcpSocket) -> bool {
        let was_waiting = self.state.expired();
        if was_waiting {
            sock.shutdown_write();
        }
        was_waiting
    }
}
