// SPDX-License-Identifier: GPL-2.0

//! Short messages that nothing else is to be sent with, as those of a ping-pong: one FPDU, one call
//! of TCP, one completion (RFC 5041 section 5.2, RFC 5044 section 4).
//!
//! They leave as [`Sender::send`] would have them leave, by the same steps; here no step has to ask
//! what was begun before. Nor is the request noted as under way: with nothing in front of it, and
//! nothing behind it as long as the sender is locked, it completes when TCP has it. Whatever turns
//! out to be more is noted, and goes on there, from where it has got to.
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

/// Why a message was not sent.
enum Unsent {
    /// It is more than one FPDU in one piece, or not alone.
    NotAlone,
    /// Its memory could not be opened.
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
    /// Whether `octets` of payload fit into one FPDU.
    #[inline(always)]
    fn fits(&self, octets: u32) -> bool {
        // No header is longer.
        let room = usize::from(self.mulpdu).checked_sub(const { FRONT - LEN_FIELD });
        // CAST: 32 bits fit.
        room.is_some_and(|room| octets as usize <= room)
    }

    /// Puts the only FPDU of a message into the empty batch, or hands it over.
    ///
    /// # Errors
    ///
    /// It did not; nothing was done that would have to be done otherwise.
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
    /// Whether nothing was begun that is not done.
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

    /// Sends the oldest request, if it is a Send or an RDMA Write that fits into one segment and
    /// there is nothing else to do. `None` if there is something for [`Sender::send`] to do, or to
    /// look for.
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
            // Another message comes behind it.
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
        // What is posted together leaves together. What is posted from now on, somebody else looks
        // for.
        let put = match env.has_requests() {
            true => Err(Unsent::NotAlone),
            false => self.framer.put_alone(env, transport, &mut current),
        };
        if let Err(why) = put {
            let result = self.take_general_way(env, &request.work, current, why);
            return result.err().map(|failure| self.failed(failure));
        }
        // The next message mostly lies in the same memory.
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

    /// Notes a request as under way after all.
    ///
    /// # Errors
    ///
    /// There is no room, although nothing was under way.
    fn note<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        work: &E::Work,
    ) -> Result<Token, Failure> {
        self.is_settled = false;
        let token = env.with_sends(|sends| sends.order.push(*work));
        token.map_err(|Full| Failure::defect("there is no room for the only request"))
    }

    /// Notes a request that was not sent, for [`Sender::send`] to go on with it.
    ///
    /// # Errors
    ///
    /// It cannot be sent.
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

    /// Notes a request that is in the batch, for when TCP has all of it; if TCP has refused it, it
    /// never completes.
    ///
    /// # Errors
    ///
    /// As [`Sender::note`].
    #[cold]
    fn wait_for_tcp<T, E>(&mut self, env: &mut E, work: &E::Work) -> Result<(), Failure>
    where
        T: Transport,
        E: Env<T>,
    {
        let token = self.note(env, work)?;
        if !self.refused {
            // There is none yet.
            let _ = self.framer.ends.push(token);
        }
        Ok(())
    }
}
