// SPDX-License-Identifier: GPL-2.0

//! Hands segments to the other end of the connection on this host, instead of putting FPDUs into a
//! batch: see `proto::direct`. A Terminate still goes through TCP, and arrives behind what was
//! handed over, as the other end has taken that in already. Under the lock of the sender.
#![forbid(unsafe_code)]

use super::{
    end_response,
    Current,
    Env,
    Framer,
    Origin,
    PayloadError, //
};
use crate::proto::drain::Stop;
use crate::proto::failure::Failure;
use crate::proto::transport::Transport;
use crate::proto::tx::{
    TooMany,
    MAX_HEADER, //
};
use crate::wire::terminate::TermError;

impl Framer {
    /// Hands over the next segment of a message that is open. Returns whether the other end has taken
    /// it; if not, TCP has to carry it.
    #[inline]
    pub(super) fn hand_over<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
        transport: &mut T,
        current: &mut Current,
    ) -> Result<bool, Stop> {
        let message = &current.message;
        let frame = message.frame(self.mulpdu);
        let frame = frame.ok_or_else(|| Failure::defect("a message has no segment"))?;
        let mut front = [0; MAX_HEADER];
        let no_room = || Failure::defect("a header has no room");
        let front = front.get_mut(..frame.header_len).ok_or_else(no_room)?;
        if !message.put_header(&frame, front) {
            return Err(no_room().into());
        }
        if !transport.prepare(front)? {
            return Ok(false);
        }
        if let (true, Origin::Peer(msn)) = (frame.last, current.origin) {
            end_response(env, msn)?;
            current.origin = Origin::Answered;
        }
        let handed = env.hand_over(transport, front, &frame);
        handed.map_err(|error| match error {
            PayloadError::NoMemory => Failure::from(TermError::LocalCatastrophic),
            PayloadError::Broken => Failure::defect("a segment is not what its header says"),
        })?;
        env.fpdus_made(&current.message, &frame, 1);
        let advanced = current.message.advance(&frame, 1);
        advanced.map_err(|TooMany| Failure::defect("a message has no such segment"))?;
        Ok(true)
    }
}
