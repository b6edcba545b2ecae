// SPDX-License-Identifier: GPL-2.0

//! Sending the FIN of a stream that the QP has, when `proto::fin` says so.
//!
//! The FIN does not wait if there was no message but that of set-up, or if the peer has closed.
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
    /// Has a FIN sent, behind what stands in front of it.
    pub(super) fn want(&mut self) {
        self.state.want();
    }

    pub(super) fn is_sent(&self) -> bool {
        self.state == fin::Fin::Sent
    }

    /// Sends the FIN if it is wanted; TCP has all that is in front of it. With `has_spoken`,
    /// the FIN waits until the peer has acknowledged that, or the timer has run out.
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

    /// Returns the milliseconds after which the QP's timer is to run out, once for each
    /// [`Fin::send`] that needs it.
    #[inline]
    pub(super) fn take_timer(&mut self) -> Option<u32> {
        self.timer.take()
    }

    /// Sends a FIN that waits for acknowledgements, as the timer ran out. Returns whether there was
    /// one; then the peer has [`CLOSE_TIMEOUT_MS`] from now on.
    pub(super) fn expired(&mut self, sock: &TcpSocket) -> bool {
        let was_waiting = self.state.expired();
        if was_waiting {
            sock.shutdown_write();
        }
        was_waiting
    }
}
