// SPDX-License-Identifier: GPL-2.0

//! Taking in segments that the other end of the connection, on this host, hands over instead of
//! sending them through TCP: see `proto::direct`.
//!
//! They are whole and have no CRC. They are treated as those that TCP brings otherwise.
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
    /// Returns whether a segment of which `front` are the headers, with MPA's length field in front,
    /// can be taken in now ([`HandedOver::Taken`]). If not, another turn is needed
    /// ([`HandedOver::Enough`]), or an invalidated region or a receive is waited for
    /// ([`HandedOver::Later`]).
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

    /// Takes in a segment. `front` is MPA's length field and the headers, `segment` all octets up
    /// to the pad.
    ///
    /// The receiver has to be ready ([`Receiver::admit`]), and all that the peer wrote to TCP
    /// before has to be taken in.
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
