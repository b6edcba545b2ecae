// SPDX-License-Identifier: GPL-2.0

//! Sends that wait for a receive. Softirq or process context, under the receive lock.
//!
//! A Send for which no receive is posted ends the stream (RFC 5041 section 7.1). Programs written
//! for transports that repeat such a Send count on some time in which they can post one. If the
//! administrator grants that time, such a Send is not taken in until there is a receive or the time
//! is over. What the peer sends behind it waits in TCP. As receives are posted without a word to
//! the driver, the receiver looks for them after pauses, which grow.
#![forbid(unsafe_code)]

use super::{
    Conditions,
    Receiver,
    Recv,
    Rest,
    Step, //
};
use crate::proto::counters::Counter;
use crate::proto::state::Arrival;
use crate::wire::fpdu::LEN_FIELD;
use core::num::Saturating;
use core::ops::DerefMut;

/// The milliseconds of the first pause, and of the longest.
const FIRST_PAUSE: Saturating<u32> = Saturating(1);
const LONGEST_PAUSE: Saturating<u32> = Saturating(16);

/// How long a Send may wait for a receive, and has waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How many milliseconds each Send may wait; 0 if none may.
    limit: u32,
    /// How many milliseconds the Send at hand may still wait, counted from the start of this pause.
    left: Saturating<u32>,
    /// The milliseconds of this pause, and the most that the next one may have.
    pause: Saturating<u32>,
    next: Saturating<u32>,
    waits: bool,
    /// The next FPDU waits, and its CRC was found to be right, so that it need not be computed
    /// again at each look.
    is_checked: bool,
    /// A Send has found no receive, and may not wait any longer.
    is_over: bool,
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
            is_over: false,
        }
    }

    #[inline]
    pub(super) const fn is_granted(&self) -> bool {
        self.limit != 0
    }

    /// Returns whether a Send waits, and may wait for longer.
    pub(super) const fn waits(&self) -> bool {
        self.waits && self.left.0 > 0
    }

    /// Notes that a Send waits, as it has found no receive. Returns whether it may wait, and
    /// whether it has just begun to wait.
    fn begin(&mut self) -> (bool, bool) {
        let begins = !core::mem::replace(&mut self.waits, true);
        (self.left.0 > 0, begins)
    }

    /// Returns whether the CRC of the next FPDU was found to be right before, and forgets that.
    pub(super) fn take_checked(&mut self) -> bool {
        core::mem::take(&mut self.is_checked)
    }

    /// Ends waiting, as there is a receive.
    #[inline]
    pub(super) fn found(&mut self) {
        if self.is_granted() {
            *self = Self::new(self.limit);
        }
    }

    /// Ends this pause, if there is one, and begins another. Returns its milliseconds; `None` if no
    /// time is left. A receive may also be looked for during a pause. Such looks cost no time: only
    /// pauses that are over count as waiting.
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

    /// Returns the milliseconds to pause if a receive is lacking, or `None` if all the time is
    /// over: then the next look for a receive is the last one. Call it when the pause before is
    /// over.
    pub(crate) fn pause(&mut self) -> Option<u32> {
        self.patience.pause()
    }

    /// Returns whether a Send may wait for a receive: only then [`Receiver::admit`] is needed.
    #[inline]
    pub(crate) fn is_patient(&self) -> bool {
        self.patience.is_granted()
    }

    /// Returns what is to be done before the other end of the connection, on this host, may hand
    /// over a segment: [`Step::Receive`] or [`Step::Failed`], or [`Step::Pause`] if there is
    /// nothing to do. After [`Step::Pause`] it may hand over the segment if [`Receiver::lacks`]
    /// says that nothing is lacking. `front` has MPA's length field and the headers of the segment.
    /// All that the peer wrote to TCP before has to be taken in already.
    #[inline]
    pub(crate) fn admit(&mut self, front: &[u8], now: &impl Conditions) -> Step {
        let Some((len, head)) = front.split_first_chunk::<LEN_FIELD>() else {
            return Step::Pause;
        };
        let ulpdu_len = u16::from_be_bytes(*len);
        if let Some(failure) = self.failure.take() {
            let failure = self.quoted(failure, head, ulpdu_len);
            self.rest = Rest::Nothing;
            return self.fail(failure);
        }
        let is_free = matches!(self.rest, Rest::Nothing) && !self.budget.is_spent();
        if !is_free || self.stopped || !self.patience.is_granted() {
            return Step::Pause;
        }
        self.fpdu = None;
        match self.looks(head, ulpdu_len, now) {
            true => self.look(),
            false => Step::Pause,
        }
    }

    /// Returns whether a receive is to be looked for before a segment is taken in. That is so if
    /// the segment begins a message that takes a receive, and may wait for one. The segment has
    /// `ulpdu_len` octets and begins with `head`.
    #[inline(never)]
    pub(super) fn looks(&self, head: &[u8], ulpdu_len: u16, now: &impl Conditions) -> bool {
        now.arrival() == Arrival::Take
            && self.recv.is_none()
            && !self.patience.is_over
            && self.segments.takes_recv(head, ulpdu_len, &now.rights())
    }

    /// Asks the caller to look for a receive.
    pub(super) fn look(&mut self) -> Step {
        self.rest = Rest::Look;
        Step::Receive
    }

    /// Takes note of what was found after [`Receiver::look`]. A segment that may not wait any
    /// longer is taken in although there is no receive, and may end the stream.
    #[inline(never)]
    pub(super) fn looked(&mut self, recv: Option<Recv>) {
        let is_at_hand = self.fpdu.is_some();
        self.rest = match is_at_hand {
            true => Rest::Ulpdu,
            false => Rest::Nothing,
        };
        if recv.is_some() {
            self.recv = recv;
            self.patience.found();
            return;
        }
        let (may_wait, begins) = self.patience.begin();
        self.tally.add(Counter::RxRecvWaits, begins.into());
        self.patience.is_over = !may_wait;
        if may_wait {
            self.patience.is_checked = is_at_hand;
            self.rest = Rest::Wait;
        }
    }
}
