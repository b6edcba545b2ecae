// SPDX-License-Identifier: GPL-2.0

//! Takes in segments that the other end of the connection, on this host, hands over instead of
//! sending them through TCP: see `proto::transport`. They are whole, have no CRC, and are otherwise
//! treated as those that TCP brings.
//!
//! Process context with bottom halves off, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Lack,
    Receiver,
    Ulpdu, //
};
use crate::{
    proto::{
        counters::Counter,
        deframer::{
            Chunk,
            Source, //
        },
    },
    wire::fpdu::{
        fpdu_len,
        LEN_FIELD, //
    },
};
use core::ops::DerefMut;

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Returns what is lacking before a segment can be taken in of which `front` are MPA's length
    /// field and the headers.
    #[inline]
    pub(crate) fn admit<C: Chunk, E: Env<C>>(&mut self, env: &mut E, front: &[u8]) -> Lack {
        if self.budget.is_spent() {
            return Lack::Turn;
        }
        if self.stopped {
            return Lack::Nothing;
        }
        if !self.resume(env) {
            return self.lacks();
        }
        let (len, head) = match front.split_first_chunk::<LEN_FIELD>() {
            Some(parts) if self.patience.is_granted() => parts,
            _ => return Lack::Nothing,
        };
        match self.find_recv(env, head, u16::from_be_bytes(*len)) {
            Ok(true) => Lack::Nothing,
            Ok(false) => Lack::Receive,
            Err(failure) => {
                self.fail(env, failure);
                Lack::Nothing
            }
        }
    }

    /// Takes in a segment, for which [`Receiver::admit`] has just returned [`Lack::Nothing`].
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
