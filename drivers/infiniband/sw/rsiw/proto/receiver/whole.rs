// SPDX-License-Identifier: GPL-2.0

//! Sends that come in one segment, as most short ones do (RFC 5040 section 5.3). Softirq or process
//! context, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Extra,
    Receiver,
    Ulpdu, //
};
use crate::proto::chunk::{
    Payload,
    FPDU_FRONT, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::rx::WholeSend;
use crate::proto::state::Arrival;
use core::ops::DerefMut;

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Takes in a Send that is all of `ulpdu`.
    #[inline]
    pub(super) fn whole_send<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        ulpdu: &Ulpdu<'_, C>,
        send: WholeSend,
        arrival: Arrival,
    ) -> Result<(), Failure> {
        self.tally.add(Counter::RxSends, 1);
        self.tally
            .add(Counter::RxSendBytes, send.payload_len.into());
        if arrival == Arrival::TooLate {
            self.too_late(env);
            return Ok(());
        }
        let payload = Payload {
            source: ulpdu.source,
            at: FPDU_FRONT,
            len: send.payload_len.into(),
        };
        let begun = self.begin_recv(env);
        let placed = begun.and_then(|()| self.place_send(env, 0, &payload));
        placed.and_then(|len| self.complete(env, len, send.solicited, Extra::Nothing))
    }
}
