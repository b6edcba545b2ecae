// SPDX-License-Identifier: GPL-2.0

//! Sending the FIN of a stream that the QP has, when `proto::fin` says so.
//!
//! Nothing waits where there was no message but that of set-up, or where the peer has closed.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    effects::CLOSE_TIMEOUT_MS,
    Qp, //
};
use crate::{
    ffi::net::TcpSocket,
    proto::fin::{
        Step,
        FIN_WAIT_MS, //
    },
};
use kernel::sync::Arc;

pub(super) use crate::proto::fin::Fin;

/// What a QP does about its FIN.
pub(super) trait SendFin {
    /// Sends it if it is wanted, TCP having all that is in front of it; with `has_spoken`, if the
    /// peer has acknowledged that.
    fn send(&mut self, qp: &Arc<Qp>, sock: &TcpSocket, has_spoken: bool);

    /// The timer ran out: sends a FIN that waits for acknowledgements. Returns whether it was that.
    fn waits_no_more(&mut self, qp: &Arc<Qp>, sock: &TcpSocket) -> bool;
}

impl SendFin for Fin {
    #[inline(always)]
    fn send(&mut self, qp: &Arc<Qp>, sock: &TcpSocket, has_spoken: bool) {
        if !self.is_due() {
            return;
        }
        match self.step(!has_spoken || sock.may_finish()) {
            Some(Step::Wait) => qp.start_timer(FIN_WAIT_MS),
            Some(Step::Send { has_waited }) => {
                sock.shutdown_write();
                if has_waited {
                    qp.start_timer(CLOSE_TIMEOUT_MS);
                }
            }
            None => {}
        }
    }

    fn waits_no_more(&mut self, qp: &Arc<Qp>, sock: &TcpSocket) -> bool {
        let was_waiting = self.expired();
        if was_waiting {
            sock.shutdown_write();
            qp.start_timer(CLOSE_TIMEOUT_MS);
        }
        was_waiting
    }
}
