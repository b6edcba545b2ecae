// SPDX-License-Identifier: GPL-2.0

//! Short messages that nothing else is to be sent with, as those of a ping-pong: one FPDU, one call
//! of TCP, one completion (RFC 5041 section 5.2, RFC 5044 section 4).
//!
//! They leave as [`Sender::send`] would have them leave, by the same steps; here no step has to ask
//! what was begun before. Whatever turns out to be more goes on there, from where it has got to.
//!
//! Under the lock of the sender.
#![forbid(unsafe_code)]

use super::{
    Current,
    Env,
    Framer,
    Origin,
    Outcome,
    PayloadError,
    Sender, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::frame::write_whole;
use crate::proto::link::Link;
use crate::proto::request::{
    Operation,
    Request, //
};
use crate::proto::state::QpState;
use crate::proto::tx::{
    Kind,
    FRONT, //
};
use crate::wire::fpdu::LEN_FIELD;

/// The message that `request` becomes, if that is all that it becomes and nothing has to be asked
/// for it before.
#[inline(always)]
fn kind_of<W>(request: &Request<W>) -> Option<Kind> {
    match request.operation {
        Operation::Send { invalidate } => Some(Kind::Send {
            solicited: request.solicited,
            invalidate,
        }),
        Operation::Write {
            stag,
            to,
            immediate: None,
        } if stag.0 != 0 => Some(Kind::Write { stag, to }),
        _ => None,
    }
}

impl Framer {
    /// Whether `octets` of payload fit into one FPDU.
    #[inline(always)]
    fn fits(&self, octets: u32) -> bool {
        // No header is longer.
        let room = usize::from(self.mulpdu).checked_sub(FRONT.wrapping_sub(LEN_FIELD));
        // CAST: 32 bits fit.
        room.is_some_and(|room| octets as usize <= room)
    }

    /// Puts the only FPDU of a message into the empty batch, or hands it over. Returns whether it
    /// did; if not, nothing was done that would have to be done otherwise.
    ///
    /// # Errors
    ///
    /// The message cannot be sent.
    #[inline(always)]
    fn put_alone<L: Link, E: Env<L>>(
        &mut self,
        env: &mut E,
        link: &mut L,
        current: &mut Current,
    ) -> Result<bool, Failure> {
        self.has_opened = true;
        self.open(env, current)?;
        if link.is_direct() {
            if let Some(taken) = self.hand_over(env, link, current)? {
                return Ok(taken == 1);
            }
            self.set_segment_size(link.segment_size());
        }
        let frame = current.message.frame(self.mulpdu);
        let frame = frame.filter(|frame| frame.last && self.packer.fill(frame).is_none());
        let len = frame.and_then(|frame| u32::try_from(frame.fpdu_len).ok());
        let len = len.filter(|len| link.reserve(*len));
        let before = link.mark();
        let room = len.and_then(|len| link.room(len, 1));
        let (Some(frame), Some(len), Some(room)) = (frame, len, room) else {
            // It takes more than one FPDU, or than one piece of the batch.
            return Ok(false);
        };
        let message = &mut current.message;
        let written = write_whole::<L, _>(room, message, &frame, self.crc, |to| env.copy(to))
            .and_then(|()| Ok(link.commit(len)?))
            .and_then(|()| message.advance(&frame, 1).map_err(|_| PayloadError::Broken));
        if let Err(error) = written {
            return Err(self.take_back(link, (before, None), error));
        }
        if self.packer.push(len) && !self.is_large {
            self.flags.cut = true;
        }
        env.fpdus_made(&current.message, &frame, 1);
        Ok(true)
    }
}

impl Sender {
    /// Whether nothing was begun that is not done.
    #[inline(always)]
    fn is_at_rest<L: Link>(&self, link: &L) -> bool {
        self.current.is_none()
            && self.terminate.is_none()
            && self.rtr.is_none()
            && !self.refused
            && self.framer.markers.is_none()
            && self.framer.ends.tokens().is_empty()
            && link.is_empty()
    }

    /// Sends the oldest request, if it is a Send or an RDMA Write that fits into one segment and
    /// there is nothing else to do. `None` if there is something for [`Sender::send`] to do, or to
    /// look for.
    #[inline(never)]
    pub(super) fn send_alone<L: Link, E: Env<L>>(
        &mut self,
        env: &mut E,
        link: &mut L,
        state: QpState,
    ) -> Option<Outcome> {
        let may_send = self.may_send(self.wait_for_fpdu && env.heard_of_peer());
        if !state.sends() || !may_send || !self.is_at_rest(link) || env.has_inbound() {
            return None;
        }
        let Some(Ok(request)) = env.peek() else {
            return None;
        };
        let kind = kind_of(&request)?;
        self.framer.set_segment_size(link.segment_size());
        if !self.framer.fits(request.len) {
            return None;
        }
        let token = env.with_sends(|sends| sends.begin_alone(&request))?;
        env.consume();
        let mut current = Current {
            message: self.tx.message(kind, request.len),
            then: None,
            origin: Origin::Request(token),
        };
        // What is posted together leaves together. What is posted from now on, somebody else looks
        // for.
        let is_put = !env.has_requests()
            && match self.framer.put_alone(env, link, &mut current) {
                Ok(is_put) => is_put,
                Err(failure) => return Some(Outcome::Failed(failure)),
            };
        if !is_put {
            self.current = Some(current);
            return None;
        }
        // The next message mostly lies in the same memory.
        self.framer.is_open = false;
        self.tally.add(Counter::TxFpdus, 1);
        if link.is_direct() {
            self.tally.handed_over(request.len, true);
        }
        self.tally.sent(&kind, request.len);
        self.has_spoken = true;
        // There is none yet.
        let _ = self.framer.ends.push(token);
        if !self.flush(env, link) {
            return Some(Outcome::Idle);
        }
        env.finish(link, self.has_spoken);
        Some(Outcome::Idle)
    }
}
