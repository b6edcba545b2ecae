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
    Receiver, //
};
use crate::proto::chunk::{
    Chunk,
    Source, //
};
use crate::proto::counters::Counter;
use crate::proto::deframer::{
    Fpdu,
    Place, //
};
use crate::wire::fpdu::{
    fpdu_len,
    LEN_FIELD, //
};
use core::ops::DerefMut;

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Whether a segment can be taken in now of which `front` are the headers, with MPA's length
    /// field in front. If not, an invalidated region or a receive is waited for.
    #[inline]
    pub(crate) fn is_ready<C: Chunk, E: Env<C>>(&mut self, env: &mut E, front: &[u8]) -> bool {
        if self.stopped {
            return true;
        }
        if !self.resume(env) {
            return false;
        }
        if !self.patience.is_granted() {
            return true;
        }
        let Some((len, head)) = front.split_first_chunk::<LEN_FIELD>() else {
            return true;
        };
        let found = self.find_recv(env, head, u16::from_be_bytes(*len));
        found.unwrap_or_else(|failure| {
            self.fail(env, failure);
            true
        })
    }

    /// Takes in a segment. `front` is MPA's length field and the headers, `segment` all octets up
    /// to the pad.
    ///
    /// The receiver has to be ready ([`Receiver::is_ready`]), and all that the peer wrote to TCP
    /// before has to be taken in.
    #[inline]
    pub(crate) fn take_in<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        segment: &C,
        front: &[u8],
        ulpdu_len: u16,
    ) {
        let len = fpdu_len(ulpdu_len);
        self.budget.octets(len);
        if self.stopped {
            return;
        }
        self.budget.fpdu();
        // Counted before it is looked into, as an FPDU of TCP is behind the check of its CRC.
        env.fpdu_received();
        self.tally.add(Counter::RxFpdus, 1);
        self.tally.add(Counter::RxDirectSegments, 1);
        let source = Source::Chunk {
            chunk: segment,
            at: 0,
        };
        if let Some(send) = front.first_chunk().and_then(|f| self.rx.whole_send(f)) {
            if let Err(failure) = self.whole_send(env, &source, front, send) {
                self.fail(env, failure);
            }
            return;
        }
        let fpdu = Fpdu {
            place: Place::Chunk,
            ulpdu_len,
            len,
        };
        let head = front.get(LEN_FIELD..).unwrap_or(&[]);
        if let Err(failure) = self.ulpdu(env, &source, head, &fpdu) {
            self.fail(env, failure);
        }
    }
}
