// SPDX-License-Identifier: GPL-2.0

//! Short messages that nothing else is to be sent with, as those of a ping-pong: one FPDU, one call
//! of TCP, one completion (RFC 5041 section 5.2, RFC 5044 section 4).
//!
//! The steps are those of [`Sender::send`], without its questions about what was begun before. The
//! request is not recorded as under way either: with nothing in front of it, and nothing behind it
//! while the sender is locked, it completes when TCP has it. What turns out to need more is
//! recorded, and [`Sender::send`] goes on from where it has got to.
//!
//! Under the lock of the sender.
#![forbid(unsafe_code)]

use super::{
    not_opened,
    Current,
    Env,
    Framer,
    OpenError,
    Origin,
    Outcome,
    PayloadError,
    Sender, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::frame::write_whole;
use crate::proto::order::Token;
use crate::proto::request::Operation;
use crate::proto::ring::Full;
use crate::proto::state::QpState;
use crate::proto::transport::Transport;
use crate::proto::tx::{
    Kind,
    FRONT, //
};
use crate::wire::ddp::Stag;
use crate::wire::fpdu::LEN_FIELD;

enum Unsent {
    /// It is more than one FPDU in one piece, or not alone.
    NotAlone,
    NotOpened(OpenError),
    /// It cannot be sent.
    Failed(Failure),
}

impl From<Failure> for Unsent {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Framer {
    /// Returns whether `octets` of payload fit into one FPDU.
    #[inline(always)]
    fn fits(&self, octets: u32) -> bool {
        // No header is longer.
        let room = usize::from(self.mulpdu).checked_sub(const { FRONT - LEN_FIELD });
        // CAST: 32 bits fit.
        room.is_some_and(|room| octets as usize <= room)
    }

    /// Puts the only FPDU of a message into the empty batch, or hands it over. If that fails,
    /// nothing has to be undone.
    #[inline(always)]
    fn put_alone<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        transport: &mut T,
        current: &mut Current,
    ) -> Result<(), Unsent> {
        self.has_opened = true;
        env.open_request().map_err(Unsent::NotOpened)?;
        self.is_open = true;
        if transport.is_direct() {
            if let Some(taken) = self.hand_over(env, transport, current)? {
                return (taken == 1).then_some(()).ok_or(Unsent::NotAlone);
            }
            self.set_segment_size(transport.segment_size());
        }
        let frame = current.message.frame(self.mulpdu);
        let frame = frame.ok_or(Unsent::NotAlone)?;
        let len = u32::try_from(frame.fpdu_len).map_err(|_| Unsent::NotAlone)?;
        if !frame.last || self.packer.fill(&frame).is_some() || !transport.reserve(len) {
            return Err(Unsent::NotAlone);
        }
        let before = transport.mark();
        let room = transport.room(len, 1).ok_or(Unsent::NotAlone)?;
        let message = &mut current.message;
        let written = write_whole::<T, _>(room, message, &frame, self.crc, |to| env.copy(to))
            .and_then(|()| Ok(transport.commit(len)?))
            .and_then(|()| message.advance(&frame, 1).map_err(|_| PayloadError::Broken));
        if let Err(error) = written {
            return Err(self.take_back(transport, (before, None), error).into());
        }
        if self.packer.push(len) && !self.is_large {
            self.flags.cut = true;
        }
        env.fpdus_made(&current.message, &frame, 1);
        Ok(())
    }
}

impl Sender {
    /// Returns whether nothing was begun that is not done.
    #[inline(always)]
    fn is_at_rest<T: Transport>(&self, transport: &T) -> bool {
        self.is_settled
            && self.current.is_none()
            && self.terminate.is_none()
            && self.rtr.is_none()
            && !self.refused
            && self.framer.markers.is_none()
            && self.framer.ends.tokens().is_empty()
            && transport.is_empty()
    }

    /// Sends the oldest request, if it is a Send or RDMA Write of one segment, and nothing else is
    /// to be done. `None` if there is something for [`Sender::send`] to do, or to look for.
    #[inline(never)]
    pub(super) fn send_alone<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        transport: &mut T,
        state: QpState,
    ) -> Option<Outcome> {
        let may_send = self.may_send(self.wait_for_fpdu && env.heard_of_peer());
        if !state.sends() || !may_send || !self.is_at_rest(transport) || env.has_inbound() {
            return None;
        }
        let Some(Ok(request)) = env.peek() else {
            return None;
        };
        let kind = match request.operation {
            // Another message follows it.
            Operation::Write {
                immediate: Some(_), ..
            } => return None,
            // It may be refused (V-STAG0-8).
            Operation::Write { stag: Stag(0), .. } => return None,
            _ => Kind::of(&request)?,
        };
        self.framer.set_segment_size(transport.segment_size());
        if !self.framer.fits(request.len) {
            return None;
        }
        env.consume();
        let mut current = Current {
            message: self.tx.message(kind, request.len),
            then: None,
            origin: Origin::Bare,
        };
        // What is posted together leaves together. What is posted from now on, others look for.
        let put = match env.has_requests() {
            true => Err(Unsent::NotAlone),
            false => self.framer.put_alone(env, transport, &mut current),
        };
        if let Err(why) = put {
            let result = self.take_general_way(env, &request.work, current, why);
            return result.err().map(|failure| self.failed(failure));
        }
        self.framer.is_open = false;
        self.tally.add(Counter::TxFpdus, 1);
        if transport.is_direct() {
            self.tally.handed_over(request.len, true);
        }
        self.tally.sent(&kind, request.len);
        self.has_spoken = true;
        if !self.flush(env, transport) {
            let result = self.wait_for_tcp(env, &request.work);
            return Some(result.map_or_else(|f| self.failed(f), |()| Outcome::Idle));
        }
        env.done_alone(&request.work);
        env.finish(transport, self.has_spoken);
        Some(Outcome::Idle)
    }

    /// Records a request as under way after all. Fails if there is no room, which is a defect.
    fn note<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        work: &E::Work,
    ) -> Result<Token, Failure> {
        self.is_settled = false;
        let token = env.with_sends(|sends| sends.order.push(*work));
        token.map_err(|Full| Failure::defect("there is no room for the only request"))
    }

    /// Records a request that was not sent, for [`Sender::send`]. Fails if it cannot be sent.
    #[cold]
    fn take_general_way<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        work: &E::Work,
        current: Current,
        why: Unsent,
    ) -> Result<(), Failure> {
        let token = self.note(env, work)?;
        match why {
            Unsent::NotAlone => {
                let origin = Origin::Request(token);
                self.current = Some(Current { origin, ..current });
                Ok(())
            }
            Unsent::NotOpened(error) => Err(not_opened(env, token, error)),
            Unsent::Failed(failure) => Err(failure),
        }
    }

    /// Records a request in the batch, to complete when TCP has all of it; if TCP has refused it,
    /// it never does. Fails as [`Sender::note`].
    #[cold]
    fn wait_for_tcp<T, E>(&mut self, env: &mut E, work: &E::Work) -> Result<(), Failure>
    where
        T: Transport,
        E: Env<T>,
    {
        let token = self.note(env, work)?;
        if !self.refused {
            // There is none yet, so there is room.
            let _ = self.framer.ends.push(token);
        }
        Ok(())
    }
}
