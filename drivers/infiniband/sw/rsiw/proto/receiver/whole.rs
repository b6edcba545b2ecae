// SPDX-License-Identifier: GPL-2.0

//! Sends that come in one segment, as most short ones do (RFC 5040 section 5.3).
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Extra,
    Receiver, //
};
use crate::proto::chunk::{
    Payload,
    Source,
    FPDU_FRONT, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::rx::WholeSend;
use crate::proto::state::QpState;
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::Quote;
use core::ops::DerefMut;

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Takes in a Send whose FPDU begins with `front`.
    ///
    /// # Errors
    ///
    /// The stream must end.
    #[inline]
    pub(super) fn whole_send<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        source: &Source<'_, C>,
        front: &[u8],
        send: WholeSend,
    ) -> Result<(), Failure> {
        let head = front.get(LEN_FIELD..FPDU_FRONT).unwrap_or(&[]);
        env.ulpdu_received(head, send.ulpdu_len);
        self.tally.add(Counter::RxSends, 1);
        self.tally
            .add(Counter::RxSendBytes, send.payload_len.into());
        if env.state() == QpState::Closing {
            env.data_in_closing();
            self.stopped = true;
            return Ok(());
        }
        let payload = Payload {
            source,
            at: FPDU_FRONT,
            len: send.payload_len.into(),
        };
        let begun = self.begin_recv(env);
        let placed = begun.and_then(|()| self.place(env, 0, &payload));
        let done = placed.and_then(|len| self.complete(env, len, send.solicited, Extra::Nothing));
        done.map_err(|failure| Failure {
            quote: Quote::new(head, send.ulpdu_len),
            ..failure
        })
    }
}
