// SPDX-License-Identifier: GPL-2.0

//! The steps of the side that connects. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::interface::Reply;
use super::{
    Ask,
    Connection,
    Error,
    Input,
    Outputs,
    Phase,
    Qp,
    Tcp,
    Timer,
    CONNECT_MS,
    REPLY_MS,
    TICK_MS, //
};
use crate::proto::setup::{
    Initiator,
    Reason,
    Responder,
    SetupEvent,
    SetupFailure, //
};
use core::ops::DerefMut;

/// What an initiator asks for, and how far it has got.
#[derive(Clone, Debug)]
pub(super) struct Attempt<I> {
    pub(super) mpa: I,
    /// Octets of the Reply were received.
    heard: bool,
    /// Milliseconds that the phase may still take.
    left: u32,
}

impl<I> Attempt<I> {
    pub(super) fn new(mpa: I) -> Self {
        Self {
            mpa,
            heard: false,
            left: 0,
        }
    }

    /// Begins the next phase, of `ms` milliseconds.
    pub(super) fn for_next(self, ms: u32) -> Self {
        Self { left: ms, ..self }
    }

    /// Returns the milliseconds that are left after a tick.
    pub(super) fn left(&self) -> u32 {
        self.left.saturating_sub(TICK_MS)
    }
}

impl<I: DerefMut<Target = Initiator>> Attempt<I> {
    /// Returns whether another attempt with the older set-up may do better (RFC 6581 section 10).
    pub(super) fn may_fall_back(&self, reason: Reason) -> bool {
        match reason {
            Reason::NotEnhanced | Reason::Revision => true,
            Reason::Closed => !self.heard,
            _ => false,
        }
    }

    /// Turns this attempt into one with the older set-up, unless it is one already.
    pub(super) fn older(mut self) -> Option<Self> {
        *self.mpa = self.mpa.older()?;
        Some(self)
    }
}

impl<I, R> Connection<I, R>
where
    I: DerefMut<Target = Initiator>,
    R: DerefMut<Target = Responder>,
{
    /// Waits until TCP has begun to connect.
    pub(super) fn dialing(
        &mut self,
        attempt: Attempt<I>,
        first: bool,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Done => {
                self.has_tcp = true;
                self.has_callbacks = true;
                out.timer = Some(Timer::Arm(TICK_MS));
                Phase::Connecting(attempt.for_next(CONNECT_MS))
            }
            Input::Failed(code) if first => {
                out.qp = Some(Qp::Detach(None));
                out.fails = Some(Error::Other(code));
                Phase::Closed
            }
            Input::Failed(code) => {
                self.connect_failed(Reply::failed(Error::Other(code)), out);
                Phase::Closed
            }
            _ => Phase::Dialing { attempt, first },
        }
    }

    /// Waits until TCP is connected, then sends the Request.
    pub(super) fn connecting(
        &mut self,
        attempt: Attempt<I>,
        input: Input<'_>,
        frame: &mut [u8],
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Connected { private_data } => match attempt.mpa.request(private_data, frame) {
                Ok(len) => {
                    out.ask = Some(Ask::Request(len));
                    Phase::Requesting(attempt)
                }
                Err(_) => self.no_connection(Error::Invalid, out),
            },
            Input::Closed(code) => {
                let error = code.map_or(Error::Refused, Error::Other);
                self.no_connection(error, out)
            }
            Input::Expired { is_ending } => self.tick(attempt, is_ending, Phase::Connecting, out),
            Input::Abort | Input::Shut => self.no_connection(Error::Reset, out),
            _ => Phase::Connecting(attempt),
        }
    }

    /// Waits until TCP has taken the Request.
    pub(super) fn requesting(
        &mut self,
        attempt: Attempt<I>,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Done => {
                out.timer = Some(Timer::Arm(TICK_MS));
                Phase::AwaitReply(attempt.for_next(REPLY_MS))
            }
            Input::Failed(code) => self.no_connection(Error::Other(code), out),
            Input::Expired { is_ending } => self.tick(attempt, is_ending, Phase::Requesting, out),
            Input::Abort | Input::Shut => self.no_connection(Error::Reset, out),
            _ => Phase::Requesting(attempt),
        }
    }

    pub(super) fn await_reply(
        &mut self,
        mut attempt: Attempt<I>,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        let event = match input {
            Input::Octets(octets) => {
                attempt.heard |= !octets.is_empty();
                attempt.mpa.feed(octets).event
            }
            Input::Closed(_) => attempt.mpa.closed(),
            Input::Expired { is_ending } => {
                return self.tick(attempt, is_ending, Phase::AwaitReply, out);
            }
            Input::Abort | Input::Shut => return self.no_connection(Error::Reset, out),
            _ => None,
        };
        match event {
            None => Phase::AwaitReply(attempt),
            Some(SetupEvent::Established(params)) => {
                out.timer = Some(Timer::Disarm);
                self.start(0, Some(attempt.mpa), params, out)
            }
            Some(SetupEvent::Rejected(depths)) => {
                let reply = Reply {
                    error: Some(Error::Refused),
                    depths,
                    mpa: Some(attempt.mpa),
                };
                self.connect_failed(reply, out);
                self.close(out)
            }
            Some(SetupEvent::Failed(failure)) => self.set_up_failed(attempt, failure, out),
            // An initiator gets no Request.
            Some(SetupEvent::Request(_)) => self.no_connection(Error::Protocol, out),
        }
    }

    /// Falls back to the older set-up, or gives up: the peer's Reply is wrong or did not come.
    pub(super) fn set_up_failed(
        &mut self,
        attempt: Attempt<I>,
        failure: SetupFailure,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        let SetupFailure { reason, terminate } = failure;
        let markers = attempt.mpa.peer_wants_markers();
        if attempt.may_fall_back(reason) {
            if let Some(attempt) = attempt.older() {
                out.timer = Some(Timer::Disarm);
                self.let_go(Tcp::Reset, out);
                out.ask = Some(Ask::Dial);
                return Phase::Dialing {
                    attempt,
                    first: false,
                };
            }
        }
        let error = match reason {
            Reason::Closed => Error::Reset,
            _ => Error::Protocol,
        };
        self.connect_failed(Reply::failed(error), out);
        match terminate {
            Some(error) => {
                out.ask = Some(Ask::Terminate { error, markers });
                Phase::Parting
            }
            None => self.reset(out),
        }
    }

    pub(super) fn tick(
        &mut self,
        attempt: Attempt<I>,
        is_ending: bool,
        phase: impl FnOnce(Attempt<I>) -> Phase<I, R>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        let left = attempt.left();
        if left > 0 && !is_ending {
            out.timer = Some(Timer::Arm(TICK_MS));
            return phase(attempt.for_next(left));
        }
        self.no_connection(Error::TimedOut, out)
    }

    /// Frees the QP and tells the consumer that there will be no connection.
    pub(super) fn connect_failed(&mut self, reply: Reply<I>, out: &mut Outputs) {
        out.qp = Some(Qp::Detach(reply.error));
        self.outbox.reply = Some(reply);
    }

    /// Frees the QP, tells the consumer that there will be no connection, and resets TCP, so that
    /// the peer gets a RST.
    pub(super) fn no_connection(&mut self, error: Error, out: &mut Outputs) -> Phase<I, R> {
        self.connect_failed(Reply::failed(error), out);
        self.reset(out)
    }
}
