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
        if self.state.is_due() {
            let step = self.state.step(!has_spoken || sock.may_finish());
            self.carry_out(step, sock);
        }
    }

    fn carry_out(&mut self, step: Option<Step>, sock: &TcpSocket) {
        match step {
            Some(Step::Wait) => self.timer = Some(FIN_WAIT_MS),
            Some(Step::Send { has_waited, anyway }) => {
                if anyway {
                    sock.shutdown_write();
                }
                let is_sent = anyway || sock.try_shutdown_write();
                self.timer = match self.state.answer(is_sent) {
                    Some(_) => Some(FIN_WAIT_MS),
                    None => has_waited.then_some(CLOSE_TIMEOUT_MS),
                };
            }
            None => {}
        }
    }

    /// Returns the milliseconds after which the QP's timer is to run out, once for each
    /// [`Fin::send`] or [`Fin::expired`] that needs it.
    #[inline]
    pub(super) fn take_timer(&mut self) -> Option<u32> {
        self.timer.take()
    }

    /// Sends a FIN that waits, as the timer ran out. Returns whether there was one; then the timer
    /// is to be set anew. Once it is sent, the peer has [`CLOSE_TIMEOUT_MS`].
    pub(super) fn expired(&mut self, sock: &TcpSocket) -> bool {
        let step = self.state.expired();
        self.carry_out(step, sock);
        step.is_some()
    }
}
