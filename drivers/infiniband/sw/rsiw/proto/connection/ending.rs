// SPDX-License-Identifier: GPL-2.0

//! The last steps: the FIN, lingering, giving TCP up. Context as in `proto::connection`.
#![forbid(unsafe_code)]

use super::{
    Ask,
    Callbacks,
    Connection,
    Input,
    Outputs,
    Phase,
    Tcp,
    Timer,
    LINGER_MS, //
};
use crate::proto::{
    fin::{
        Fin,
        Step,
        FIN_WAIT_MS, //
    },
    setup::{
        Initiator,
        Responder, //
    },
};
use core::ops::DerefMut;

impl<I, R> Connection<I, R>
where
    I: DerefMut<Target = Initiator>,
    R: DerefMut<Target = Responder>,
{
    /// Sends a FIN when it is time, and lingers until the peer's: data that nobody reads must not
    /// turn the close into a RST, which could destroy what was sent last (T-32).
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
            // The surroundings look again when it is sent.
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

    /// Lingers once more, if it may, as TCP still sends though the time is over.
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

    /// Ends the connection, but for its events.
    pub(super) fn give_up(&mut self, how: Tcp, out: &mut Outputs) -> Phase<I, R> {
        self.outbox.request = None;
        out.timer = Some(Timer::Disarm);
        self.let_go(how, out);
        Phase::Closed
    }

    /// As [`Self::give_up`], and sends the peer a RST.
    pub(super) fn reset(&mut self, out: &mut Outputs) -> Phase<I, R> {
        self.give_up(Tcp::Reset, out)
    }
}
