// SPDX-License-Identifier: GPL-2.0

//! Takes in segments that the other end of the connection, on this host, hands over instead of
//! sending them through TCP: see `proto::direct`. They are whole, have no CRC, and are otherwise
//! treated as those that TCP brings.
//!
//! Process context with bottom halves off, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Receiver,
    Ulpdu, //
};
use crate::proto::chunk::{
    Chunk,
    Source, //
};
use crate::proto::counters::Counter;
use crate::proto::direct::HandedOver;
use crate::wire::fpdu::{
    fpdu_len,
    LEN_FIELD, //
};
use core::ops::DerefMut;

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Returns [`HandedOver::Taken`] if a segment of which `front` are MPA's length field and the
    /// headers can be taken in now, [`HandedOver::Enough`] if that takes another turn, or
    /// [`HandedOver::Later`] if an invalidated region or a receive is waited for.
    #[inline]
    pub(crate) fn admit<C: Chunk, E: Env<C>>(&mut self, env: &mut E, front: &[u8]) -> HandedOver {
        if self.budget.is_spent() {
            return HandedOver::Enough;
        }
        if self.stopped {
            return HandedOver::Taken;
        }
        if !self.resume(env) {
            return HandedOver::Later;
        }
        let (len, head) = match front.split_first_chunk::<LEN_FIELD>() {
            Some(parts) if self.patience.is_granted() => parts,
            _ => return HandedOver::Taken,
        };
        match self.find_recv(env, head, u16::from_be_bytes(*len)) {
            Ok(true) => HandedOver::Taken,
            Ok(false) => HandedOver::Later,
            Err(failure) => {
                self.fail(env, failure);
                HandedOver::Taken
            }
        }
    }

    /// Takes in a segment, for which [`Receiver::admit`] has just returned [`HandedOver::Taken`].
    /// `front` is as there, `segment` all octets up to the pad. All that the peer wrote to TCP
    /// before has to be taken in already.
    #[inline]
    pub(crate) fn take_in<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        segment: &C,
        front: &[u8],
        ulpdu_len: u16,
    ) {
        self.budget.octets(fpdu_len(ulpdu_len));
        if self.stopped {
            return;
        }
        self.budget.fpdu();
        env.fpdu_received();
        self.tally.add(Counter::RxDirectSegments, 1);
        let source = Source::Chunk {
            chunk: segment,
            at: 0,
        };
        let ulpdu = Ulpdu {
            source: &source,
            head: front.get(LEN_FIELD..).unwrap_or(&[]),
            len: ulpdu_len,
        };
        if let Err(failure) = self.take(env, &ulpdu) {
            self.fail(env, failure);
        }
    }
}
