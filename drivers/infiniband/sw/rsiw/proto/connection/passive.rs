// SPDX-License-Identifier: GPL-2.0

//! The steps of the side that was connected to, until there is a connection, and the last steps of
//! either side: the FIN, lingering, giving TCP up. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::{
    Ask,
    Callbacks,
    Connection,
    Error,
    Input,
    Link,
    Log,
    Outbox,
    Outputs,
    Phase,
    Qp,
    Tcp,
    Timer,
    ANSWER_MS,
    LINGER_MS, //
};
use crate::proto::fin::{
    Fin,
    Step,
    FIN_WAIT_MS, //
};
use crate::proto::setup::{
    Initiator,
    Reason,
    Responder,
    SetupEvent, //
};
use core::ops::DerefMut;

impl<I, R> Connection<I, R>
where
    I: DerefMut<Target = Initiator>,
    R: DerefMut<Target = Responder>,
{
    /// Takes in the Request.
    pub(super) fn await_request(
        &mut self,
        mut mpa: R,
        heard: bool,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Octets(octets) => {
                let heard = heard || !octets.is_empty();
                let reason = match mpa.feed(octets).event {
                    None => return Phase::AwaitRequest { mpa, heard },
                    Some(SetupEvent::Request(depths)) => {
                        self.outbox.request = Some(depths);
                        out.timer = Some(Timer::Arm(ANSWER_MS));
                        return Phase::Requested(mpa);
                    }
                    Some(SetupEvent::Failed(failure)) => failure.reason,
                    Some(SetupEvent::Established(_) | SetupEvent::Rejected(_)) => Reason::Crossed,
                };
                out.log = Some(Log::BadRequest(reason));
                self.reset(out)
            }
            Input::Closed(_) => {
                // Port scanners and health checks send nothing. The log does not mention them
                // (T-42b).
                out.log = heard.then_some(Log::RequestCut);
                self.reset(out)
            }
            Input::Expired { .. } => {
                out.log = Some(Log::NoRequest);
                self.reset(out)
            }
            Input::Abort | Input::DrivenOut | Input::Shut => self.reset(out),
            _ => Phase::AwaitRequest { mpa, heard },
        }
    }

    /// Waits for the consumer's answer, but does not look whether the peer is still there. If it is
    /// gone, the accept succeeds, and the QP finds the end of the stream: programs are prepared for
    /// a connection that ends, and hardly for an accept that fails.
    pub(super) fn requested(
        &mut self,
        mut mpa: R,
        input: Input<'_>,
        frame: &mut [u8],
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Accept { want, private_data } => match mpa.accept(want, private_data, frame) {
                Ok((reply, params)) => self.start(reply, None, params, out),
                Err(_) => self.accept_failed(Error::Invalid, out),
            },
            Input::Reject { private_data } => self.refuse(mpa, private_data, frame, out),
            Input::Expired { .. } => {
                out.log = Some(Log::NotAnswered);
                self.reset(out)
            }
            Input::Abort | Input::Shut => self.reset(out),
            _ => Phase::Requested(mpa),
        }
    }

    /// Refuses a Request: sends Reply and FIN, and waits for the peer's FIN.
    pub(super) fn refuse(
        &mut self,
        mut mpa: R,
        private_data: &[u8],
        frame: &mut [u8],
        out: &mut Outputs,
    ) -> Phase<I, R> {
        self.outbox.request = None;
        match mpa.reject(private_data, frame) {
            Ok(len) => {
                out.ask = Some(Ask::Refuse(len));
                Phase::Parting
            }
            Err(_) => self.reset(out),
        }
    }

    /// Takes a reject of a Request that was answered. If an established event is still due, iw_cm
    /// has given up its identifier because of the reject, and asserts that it is told nothing more.
    pub(super) fn rejected_late(&mut self, phase: Phase<I, R>, out: &mut Outputs) -> Phase<I, R> {
        let is_accepted = matches!(phase, Phase::Running(Link::Accepted { .. }));
        if !is_accepted && self.outbox.established.is_none() {
            return phase;
        }
        self.outbox = Outbox::new();
        match phase {
            Phase::Running(_) => {
                out.timer = Some(Timer::Disarm);
                out.qp = Some(Qp::Abort);
                Phase::Running(Link::Down)
            }
            phase => phase,
        }
    }

    /// Fails the consumer's call to accept, after which iw_cm is done with the connection.
    pub(super) fn accept_failed(&mut self, error: Error, out: &mut Outputs) -> Phase<I, R> {
        out.fails = Some(error);
        out.qp = Some(Qp::Detach(None));
        self.reset(out)
    }
}

impl<I, R> Connection<I, R>
where
    I: DerefMut<Target = Initiator>,
    R: DerefMut<Target = Responder>,
{
    /// Sends a FIN when it is time, and lingers until the peer's FIN comes: data that nobody reads
    /// must not turn the close into a RST, which could destroy what was sent last (T-32).
    pub(super) fn close(&mut self, out: &mut Outputs) -> Phase<I, R> {
        if !self.has_tcp {
            out.timer = Some(Timer::Disarm);
            return Phase::Closed;
        }
        if !self.has_callbacks {
            self.has_callbacks = true;
            out.callbacks = Some(Callbacks::Install);
        }
        let mut fin = Fin::Wanted;
        let step = fin.step(false);
        self.finish(fin, step, out)
    }

    /// Waits until the FIN may go, and sends it, more than once if need be.
    pub(super) fn finishing(
        &mut self,
        mut fin: Fin,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        let step = match input {
            Input::Acknowledged => fin.step(true),
            Input::Expired { .. } => fin.expired(),
            Input::Failed(_) => fin.answer(false),
            Input::Done => {
                fin.answer(true);
                if fin == Fin::Sent {
                    out.timer = Some(Timer::Arm(LINGER_MS));
                    return Phase::Lingering;
                }
                None
            }
            // The surroundings look for this again once the FIN is sent.
            Input::Drained if matches!(fin, Fin::Refused(_)) => None,
            Input::Drained => return self.give_up(Tcp::Release, out),
            Input::Abort | Input::Shut => return self.reset(out),
            _ => None,
        };
        self.finish(fin, step, out)
    }

    pub(super) fn finish(
        &mut self,
        fin: Fin,
        step: Option<Step>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match step {
            None => Phase::Finishing(fin),
            Some(Step::Wait) => {
                out.timer = Some(Timer::Arm(FIN_WAIT_MS));
                Phase::Finishing(fin)
            }
            Some(Step::Send { anyway, .. }) => {
                out.ask = Some(Ask::Finish { anyway });
                Phase::Finishing(fin)
            }
        }
    }

    /// Lingers once more, if it may: time is up, but TCP is still sending.
    pub(super) fn linger_on(&mut self, out: &mut Outputs) -> Phase<I, R> {
        match self.linger_again.checked_sub(1) {
            Some(left) => {
                self.linger_again = left;
                out.timer = Some(Timer::Arm(LINGER_MS));
                Phase::Lingering
            }
            None => self.reset(out),
        }
    }

    /// Lets go of the socket, if there is one.
    pub(super) fn let_go(&mut self, how: Tcp, out: &mut Outputs) {
        if core::mem::take(&mut self.has_callbacks) {
            out.callbacks = Some(Callbacks::Remove);
        }
        if core::mem::take(&mut self.has_tcp) {
            out.tcp = Some(how);
        }
    }

    /// Ends the connection. Its events may still have to be delivered.
    pub(super) fn give_up(&mut self, how: Tcp, out: &mut Outputs) -> Phase<I, R> {
        self.outbox.request = None;
        out.timer = Some(Timer::Disarm);
        self.let_go(how, out);
        Phase::Closed
    }

    /// Ends the connection, and resets TCP, so that the peer gets a RST.
    pub(super) fn reset(&mut self, out: &mut Outputs) -> Phase<I, R> {
        self.give_up(Tcp::Reset, out)
    }
}
