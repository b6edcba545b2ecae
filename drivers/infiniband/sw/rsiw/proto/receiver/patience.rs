// SPDX-License-Identifier: GPL-2.0

//! Sends that wait for a receive. Softirq or process context, under the receive lock.
//!
//! A Send for which none is posted ends the stream (RFC 5041 section 7.1). Programs written for
//! transports that try again count on being given some time. If the administrator grants it, such a
//! Send is not taken in before there is a receive or that time is over, and what the peer sends
//! behind it waits in TCP. As receives are posted without a word to this side, it has to look for
//! them, in pauses that grow.
#![forbid(unsafe_code)]

use super::{
    Env,
    Receiver, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::state::Arrival;
use crate::wire::terminate::Quote;
use core::num::Saturating;
use core::ops::DerefMut;

/// The first pause, and the longest, in milliseconds.
const FIRST_PAUSE: Saturating<u32> = Saturating(1);
const LONGEST_PAUSE: Saturating<u32> = Saturating(16);

/// How long a Send may wait for a receive, and has waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Milliseconds that each may wait; with 0 none does.
    limit: u32,
    /// Milliseconds that the Send at hand may still wait, from when the pause at hand began.
    left: Saturating<u32>,
    /// The pause at hand, and the longest that the next one may be, in milliseconds.
    pause: Saturating<u32>,
    next: Saturating<u32>,
    waits: bool,
    /// The next FPDU waits, and its CRC is right: it is not computed at each look.
    is_checked: bool,
}

impl Patience {
    pub(super) const fn new(limit: u32) -> Self {
        Self {
            limit,
            left: Saturating(limit),
            pause: Saturating(0),
            next: FIRST_PAUSE,
            waits: false,
            is_checked: false,
        }
    }

    #[inline]
    pub(super) const fn is_granted(&self) -> bool {
        self.limit != 0
    }

    /// Returns whether a Send waits that may do so for longer.
    pub(super) const fn waits(&self) -> bool {
        self.waits && self.left.0 > 0
    }

    /// Returns whether a Send that finds no receive may wait, and whether it begins to.
    fn begin(&mut self) -> (bool, bool) {
        let begins = !core::mem::replace(&mut self.waits, true);
        (self.left.0 > 0, begins)
    }

    pub(super) fn set_checked(&mut self) {
        self.is_checked = true;
    }

    /// Returns whether the CRC of the next FPDU is known to be right, for that one only.
    pub(super) fn take_checked(&mut self) -> bool {
        core::mem::take(&mut self.is_checked)
    }

    fn end(&mut self) {
        *self = Self::new(self.limit);
    }

    /// Ends the pause at hand, if there is one, and begins another. What is looked for during a
    /// pause does not count: only what is over has been waited for.
    pub(super) fn pause(&mut self) -> Option<u32> {
        self.left -= self.pause;
        self.pause = self.next.min(self.left);
        self.next = (self.next * Saturating(2)).min(LONGEST_PAUSE);
        (self.pause.0 > 0).then_some(self.pause.0)
    }
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Lets each Send wait up to `ms` milliseconds for a receive.
    pub(crate) fn set_patience(&mut self, ms: u32) {
        self.patience = Patience::new(ms);
    }

    /// Returns the milliseconds to pause if a receive is lacking, or `None` if all the time is over:
    /// then the next look for a receive is the last one. Call it when nobody pauses any more.
    pub(crate) fn pause(&mut self) -> Option<u32> {
        self.patience.pause()
    }

    /// Takes the receive for a segment that needs one; `head` are the first octets of its ULPDU.
    /// Returns whether the segment may be taken in, also if that can only end the stream. Fails if
    /// the receive makes no sense.
    #[inline(never)]
    pub(super) fn find_recv<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        head: &[u8],
        ulpdu_len: u16,
    ) -> Result<bool, Failure> {
        let is_taken = env.state().arrival() == Arrival::Take;
        if !is_taken || self.recv.is_some() || !self.rx.takes_recv(head, ulpdu_len, env) {
            return Ok(true);
        }
        let taken = env.take_recv().map_err(|failure| Failure {
            quote: Quote::new(head, ulpdu_len),
            ..failure
        })?;
        if taken.is_some() {
            self.recv = taken;
            self.patience.end();
            return Ok(true);
        }
        let (may_wait, begins) = self.patience.begin();
        self.tally.add(Counter::RxRecvWaits, begins.into());
        Ok(!may_wait)
    }
}
