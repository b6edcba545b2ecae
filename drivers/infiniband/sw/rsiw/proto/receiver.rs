// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connection: from octets of the stream to placed data and completions
//! (RFC 5040 sections 5 and 6, RFC 5041 sections 5.3 and 7, RFC 5044 section 5.2).
//!
//! The caller gives a chunk of the stream to [`Receiver::open`], then does what [`Receiver::next`]
//! answers, one [`Step`] after the other, until the answer is [`Step::Pause`]. The receiver calls
//! nobody.
//!
//! FPDUs come in by one way: the [`deframer`](super::deframer) finds one after the other, and the
//! ULPDU of each is taken in once its CRC is right. Nothing is placed before the whole segment is
//! validated (T-8). What remains to be done of a segment is its [`Rest`]; each step does a part of
//! it. Steps in brackets are not done for each segment:
//!
//! ```text
//! Send        [Receive] Place [[Invalidate Quiet] Complete]; or Message
//! Write       Place
//! Response    [Response] Place [[Invalidate Quiet] ReadDone]
//! Request     Request
//! ```
//!
//! Two kinds of FPDUs have a short way: those that continue the message of the FPDU before
//! ([`Step::Train`]), and Sends of one segment ([`Step::Message`]). The other end on this host
//! hands over chunks of one FPDU without a CRC, and asks [`Receiver::admit`] before it does.
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

mod answers;
mod patience;
mod step;

use self::answers::{
    AtHand,
    End,
    Lies,
    Part,
    Pending,
    Rest,
    Stretch, //
};
use self::patience::Patience;
use super::counters::{
    Counter,
    Tally, //
};
use super::deframer::{
    Budget,
    Chunk,
    Deframer,
    Fpdu,
    Next,
    FPDU_FRONT, //
};
use super::failure::{
    Failure,
    Fault, //
};
use super::reads::{
    Inbound,
    InboundRead,
    Responding,
    ResponseTo, //
};
use super::segment::{
    is_enough,
    Action,
    Segment,
    Segments,
    Target, //
};
use super::setup::Params;
use super::state::Arrival;
use crate::num::Broken;
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse,
    WORD_LEN, //
};
use crate::wire::ddp::UNTAGGED_LEN;
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::TermError;
use core::num::{
    Saturating,
    Wrapping, //
};
use core::ops::DerefMut;

pub(crate) use self::step::{
    Blame,
    Conditions,
    Extra,
    Invalidation,
    Received,
    Recv,
    Step, //
};

/// What a receiver needs before it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Nothing,
    /// Another turn: the budget of this turn is used up, and there may be more.
    Turn,
    /// A buffer for [`Receiver::set_buffer`].
    Buffer,
    /// The end of all accesses to the region that was invalidated last.
    Quiet,
    /// A receive for the message at hand, which each turn looks for again.
    Receive,
}

/// The stream has to end, as [`Receiver::failure`] says.
struct Failed;

/// The next step; `None` if something else comes before it.
type Advance = Result<Option<Step>, Failed>;

/// The receiving half of a connection; `B` is the buffer of its deframer.
#[derive(Debug)]
pub(crate) struct Receiver<B> {
    deframer: Deframer<B>,
    segments: Segments,
    crc: bool,
    /// How much this turn may still take in.
    budget: Budget,
    /// Octets of the chunk that are used.
    used: Saturating<usize>,
    /// The FPDU that is taken in, or was taken in last. If something fails, its headers are quoted.
    fpdu: Option<AtHand>,
    rest: Rest,
    /// The payload that is being placed, or the room for the payload of a train. It belongs at
    /// `target`.
    payload: Stretch,
    target: Target,
    /// The result of an Atomic Operation, in the byte order of this host.
    result: Option<[u8; WORD_LEN as usize]>,
    /// The receive of the message at hand.
    recv: Option<Recv>,
    /// What that receive is completed with, once the message is complete.
    received: Received,
    /// The request of the peer that is to be queued.
    request: Option<Inbound>,
    /// The Read whose response comes in.
    responding: Option<Responding>,
    patience: Patience,
    /// How many Sends, Immediates and Writes are placed.
    placed: Wrapping<u32>,
    /// An FPDU with the right CRC has come in.
    heard: bool,
    /// The ULPDU at hand is traced.
    traced: bool,
    /// Everything that still comes is dropped.
    stopped: bool,
    /// Why something was refused, or why the stream ends.
    failure: Option<Failure>,
    /// Whose completion tells of the failure.
    blame: Blame,
    /// What was received since the caller last took it.
    pub(crate) tally: Tally,
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    pub(crate) const fn new(params: &Params) -> Self {
        Self {
            deframer: Deframer::new(),
            segments: Segments::new(params.expect_rtr),
            crc: params.crc,
            budget: Budget::NONE,
            used: Saturating(0),
            fpdu: None,
            rest: Rest::Nothing,
            payload: Stretch { at: 0, len: 0 },
            target: Target::Receive(0),
            result: None,
            recv: None,
            received: Received::NONE,
            request: None,
            responding: None,
            patience: Patience::new(0),
            placed: Wrapping(0),
            heard: false,
            traced: false,
            stopped: false,
            failure: None,
            blame: Blame::Nobody,
            tally: Tally::new(),
        }
    }

    /// Begins a turn, which takes in as much as `budget` allows. [`Receiver::next`] without a chunk
    /// then goes on with what had to wait.
    pub(crate) fn begin(&mut self, budget: Budget) {
        self.budget = budget;
        self.deframer.begin();
        self.rest = match self.rest {
            Rest::Wait => Rest::Nothing,
            Rest::Waits(pending) => Rest::Invalidated(pending),
            rest => rest,
        };
    }

    /// Begins with a chunk, whose first octets may be used already.
    #[inline]
    pub(crate) fn open<C: Chunk>(&mut self, chunk: &C) {
        self.used = Saturating(self.deframer.skip(chunk.len()));
        if C::IS_HANDED_OVER && !self.stopped {
            self.tally.add(Counter::RxDirectSegments, 1);
        }
    }

    /// Returns how many octets of the chunk are used.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.0
    }

    pub(crate) fn lacks(&self) -> Lack {
        if matches!(self.rest, Rest::Waits(_)) {
            Lack::Quiet
        } else if self.deframer.wants_buffer() && !self.stopped {
            Lack::Buffer
        } else if self.patience.waits() && !self.stopped {
            Lack::Receive
        } else if self.budget.is_spent() {
            Lack::Turn
        } else {
            Lack::Nothing
        }
    }

    /// Sets the buffer that was lacking ([`Lack::Buffer`]), of `wire::fpdu::MAX_FPDU` octets.
    pub(crate) fn set_buffer(&mut self, buffer: B) {
        self.deframer.set_buffer(buffer);
    }

    /// Returns whether the stream, if it ended here, would be cut inside an FPDU or a message.
    pub(crate) const fn is_cut(&self) -> bool {
        self.deframer.is_collecting() || self.segments.in_message()
    }

    /// Takes the receive in progress, to be flushed: also one whose message is complete and only
    /// waits for the end of an invalidation.
    pub(crate) fn take_recv(&mut self) -> Option<Recv> {
        if matches!(self.rest, Rest::Waits(Pending::Receive)) {
            self.rest = Rest::Nothing;
        }
        self.recv.take()
    }

    /// Lets the peer send Sends with immediate data.
    pub(crate) fn allow_send_immediate(&mut self) {
        self.segments.allow_send_immediate();
    }

    /// Returns how many Sends, Immediates and Writes of the peer are placed; wraps.
    pub(crate) fn placed(&self) -> u32 {
        self.placed.0
    }

    /// Returns whether nothing is taken in any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Makes the receiver take in nothing any more.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns what is to be done next with a chunk, or with what is left of earlier ones.
    /// `now` is asked for each FPDU.
    #[inline(always)]
    pub(crate) fn next<C: Chunk>(&mut self, chunk: Option<&C>, now: &impl Conditions) -> Step {
        // Bound: what is taken in is taken from the budget.
        loop {
            match self.advance(chunk, now) {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(Failed) => return self.end(chunk),
            }
        }
    }

    /// Goes on by one part of the rest. Returns the next step, or `None` if something else comes
    /// first.
    #[inline(always)]
    fn advance<C: Chunk>(&mut self, chunk: Option<&C>, now: &impl Conditions) -> Advance {
        if self.failure.is_some() {
            return Err(Failed);
        }
        match self.rest {
            Rest::Nothing | Rest::Train => self.next_fpdu(chunk, now),
            Rest::Ulpdu | Rest::Look => {
                let head = self.head(chunk).map_err(|why| self.fails(why))?;
                self.ulpdu(head.octets(), head.ulpdu_len, now)
            }
            Rest::Wait | Rest::Waits(_) => Ok(Some(Step::Pause)),
            Rest::Write {
                stag,
                to,
                payload,
                last,
            } => {
                self.rest = Rest::Written { last };
                Ok(self.place(Target::Write(stag, to), payload))
            }
            Rest::Send(part) => self.send(&part),
            Rest::Sent { last: true } => Ok(Some(self.end_send())),
            Rest::Written { last } => {
                self.placed += u32::from(last);
                self.finish();
                Ok(None)
            }
            Rest::Sent { last: false } | Rest::Responded { last: false } => {
                self.finish();
                Ok(None)
            }
            _ => self.advance_rarely(),
        }
    }

    /// Goes on with responses, with invalidations, and with what takes one step only.
    #[inline(never)]
    fn advance_rarely(&mut self) -> Advance {
        Ok(Some(match self.rest {
            Rest::Response {
                stag,
                to,
                payload,
                last,
            } => {
                let Some(responding) = &mut self.responding else {
                    return Ok(Some(Step::Response(ResponseTo::Read)));
                };
                if let Err(why) = responding.segment((stag, to), payload.len, last) {
                    return Err(self.fails(why.into()));
                }
                self.rest = Rest::Responded { last };
                return Ok(self.place(Target::Response(stag, to), payload));
            }
            Rest::AskAtomic(response) => {
                self.rest = Rest::Atomic(response);
                Step::Response(ResponseTo::Atomic(response.id))
            }
            Rest::Atomic(AtomicResponse { original, .. }) => {
                let Some(Responding { read, .. }) = &self.responding else {
                    return Err(self.fails(Failure::defect("nobody has asked")));
                };
                let target = Target::Response(read.sink_stag, read.sink_to);
                self.rest = Rest::Responded { last: true };
                self.result = Some(original.to_ne_bytes());
                self.target = target;
                Step::Place
            }
            Rest::Responded { .. } => self.end_response(),
            Rest::Invalidated(_) => Step::Quiet,
            Rest::Ended(Pending::Receive) => self.complete(),
            Rest::Ended(Pending::Read) => self.read_done(),
            Rest::Tell(step) => {
                self.stopped |= step != Step::Request;
                self.finish();
                step
            }
            _ => Step::Pause,
        }))
    }

    /// Looks for the next FPDU.
    #[inline(always)]
    fn next_fpdu<C: Chunk>(&mut self, chunk: Option<&C>, now: &impl Conditions) -> Advance {
        let is_alone = matches!(self.rest, Rest::Train);
        self.rest = Rest::Nothing;
        self.fpdu = None;
        // An FPDU that was begun is finished: once all of it is in our buffer, the socket may have
        // nothing left that would bring us back here.
        if self.deframer.is_collecting() {
            if !self.stopped {
                match self.take_collected::<C>() {
                    Ok(true) => return Ok(None),
                    Ok(false) => {}
                    Err(why) => return Err(self.fails(why)),
                }
            }
        } else if self.budget.is_spent() {
            return Ok(Some(Step::Pause));
        }
        let Some(chunk) = chunk else {
            return Ok(Some(Step::Pause));
        };
        if self.stopped {
            // Unread data would turn the close into a RST (T-32).
            self.budget.octets(chunk.len());
            self.used = Saturating(chunk.len());
            return Ok(Some(Step::Pause));
        }
        let at = self.used.0;
        if at >= chunk.len() {
            return Ok(Some(Step::Pause));
        }
        if C::IS_HANDED_OVER {
            return self.next_handed(chunk, now);
        }
        let fpdu = match self.deframer.whole(chunk, at) {
            Some(Ok(fpdu)) => fpdu,
            Some(Err(error)) => return Err(self.fails(error.into())),
            None => match self.deframer.apart(chunk, at) {
                Ok(Next::Fpdu(fpdu)) => fpdu,
                Ok(Next::Collected(n)) => {
                    self.budget.octets(n);
                    self.used += n;
                    return Ok(None);
                }
                Ok(Next::Nothing) => return Ok(Some(Step::Pause)),
                Err(why) => return Err(self.fails(why)),
            },
        };
        let left = chunk.left(at);
        if !is_alone && fpdu.len <= left && self.begin_train(&fpdu.front, now).is_some() {
            return Ok(Some(Step::Train));
        }
        self.budget.fpdu();
        match check_crc(&fpdu, self.crc, &mut self.patience) {
            Ok(true) => {}
            Ok(false) => return Err(self.fails(TermError::MpaCrc.into())),
            Err(why) => return Err(self.fails(why)),
        }
        let lies = Lies::InChunk { at, left };
        self.take_in(AtHand::new(&fpdu, lies), fpdu.head(), now)
    }

    /// Takes in a chunk that the other end hands over: all of it is one FPDU.
    #[inline(always)]
    fn next_handed<C: Chunk>(&mut self, chunk: &C, now: &impl Conditions) -> Advance {
        let Some(front) = chunk.front(0) else {
            return Ok(Some(Step::Pause));
        };
        let (field, head) = front.split_first_chunk().unwrap_or((&[0; LEN_FIELD], &[]));
        self.budget.fpdu();
        let (at, left) = (0, chunk.len());
        let fpdu = AtHand {
            lies: Lies::InChunk { at, left },
            ulpdu_len: u16::from_be_bytes(*field),
            len: left,
        };
        self.take_in(fpdu, head, now)
    }

    /// Takes in an FPDU with the right CRC, whose ULPDU begins with `head`.
    #[inline(always)]
    fn take_in(&mut self, fpdu: AtHand, head: &[u8], now: &impl Conditions) -> Advance {
        self.fpdu = Some(fpdu);
        self.rest = Rest::Ulpdu;
        match is_enough(head) {
            true => self.ulpdu(head, fpdu.ulpdu_len, now),
            false => Ok(None),
        }
    }

    /// If the FPDU in the buffer is complete, it is the next to be taken in. Returns whether it is
    /// complete.
    #[inline(never)]
    fn take_collected<C: Chunk>(&mut self) -> Result<bool, Failure> {
        let Some(fpdu) = self.deframer.collected::<C>()? else {
            return Ok(false);
        };
        self.budget.fpdu();
        if !check_crc(&fpdu, self.crc, &mut self.patience)? {
            self.deframer.use_up_collected();
            return Err(TermError::MpaCrc.into());
        }
        self.fpdu = Some(AtHand::new(&fpdu, Lies::InBuffer));
        self.rest = Rest::Ulpdu;
        Ok(true)
    }

    /// Begins a train if the FPDU that begins with `front` continues the message of the FPDU
    /// before.
    #[inline]
    fn begin_train(&mut self, front: &[u8; FPDU_FRONT], now: &impl Conditions) -> Option<()> {
        self.segments.run_on().filter(|run| run.is_next(front))?;
        let run = self.segments.run(&now.rights())?;
        if now.arrival() != Arrival::Take {
            return None;
        }
        let (target, least) = (run.target(), run.payload_len());
        let room = match target {
            Target::Write(..) => u32::MAX,
            // The last octet comes in a segment with the last flag, which is in no train.
            Target::Response(..) => {
                let left = self.responding.as_ref().map_or(0, Responding::left);
                left.saturating_sub(1)
            }
            Target::Receive(offset) => {
                let len = self.recv.map_or(0, |recv| recv.len);
                let room = len.saturating_sub(offset.into());
                u32::try_from(room).unwrap_or(u32::MAX)
            }
        };
        if room < least.into() {
            return None;
        }
        (self.target, self.payload.len) = (target, room);
        self.rest = Rest::Train;
        Some(())
    }

    /// Takes in an ULPDU that begins with `head`, unless it has to wait for a receive.
    #[inline(always)]
    fn ulpdu(&mut self, head: &[u8], ulpdu_len: u16, now: &impl Conditions) -> Advance {
        if !self.heard {
            // This comes before the checks: if one of them fails, this side must be allowed to send
            // a Terminate (T-24). A Terminate in which nothing is wrong is answered by none, and
            // what waits must not be sent to a peer that has given up.
            self.heard = true;
            if !self.segments.is_end(head, ulpdu_len, &now.rights()) {
                return Ok(Some(Step::Heard));
            }
        }
        if self.patience.is_granted() && self.looks(head, ulpdu_len, now) {
            return Ok(Some(self.look()));
        }
        if now.traces() && !core::mem::replace(&mut self.traced, true) {
            return Ok(Some(Step::Ulpdu));
        }
        self.tally.add(Counter::RxFpdus, 1);
        let arrival = now.arrival();
        if arrival == Arrival::Drop {
            self.stopped = true;
            self.finish();
            return Ok(None);
        }
        let Some(send) = self.segments.whole_send(head, ulpdu_len) else {
            let segment = self.segment(head, ulpdu_len, now);
            return segment.map_err(|why| self.fails(why));
        };
        let (len, solicited) = (send.payload_len.into(), send.solicited);
        self.tally.add(Counter::RxSends, 1);
        self.tally.add(Counter::RxSendBytes, len);
        if arrival == Arrival::TooLate {
            self.rest = Rest::Tell(Step::DataInClosing);
            return Ok(None);
        }
        self.rest = Rest::Send(Part {
            mo: 0,
            payload: Stretch {
                // CAST: 20.
                at: FPDU_FRONT as u32,
                len: send.payload_len.into(),
            },
            first: true,
            last: Some(End {
                solicited,
                extra: Extra::Nothing,
            }),
        });
        Ok(self.recv.is_none().then_some(Step::Message))
    }

    fn segment(
        &mut self,
        head: &[u8],
        ulpdu_len: u16,
        now: &impl Conditions,
    ) -> Result<Option<Step>, Failure> {
        let segment = self.segments.segment(head, ulpdu_len, &now.rights())?;
        self.tally.received(&segment);
        let rest = match (now.arrival(), segment.action) {
            // A Read of no octets only asks, for the peer, what was placed (`proto::placement`).
            (Arrival::TooLate, Action::ReadRequest { request, .. }) if request.len == 0 => {
                Ok(Rest::Written { last: false })
            }
            (Arrival::TooLate, action) if !matches!(action, Action::Terminate { .. }) => {
                Ok(Rest::Tell(Step::DataInClosing))
            }
            _ => self.rest_of(&segment, head),
        };
        match rest {
            Ok(rest) => self.rest = rest,
            Err(error) => self.failure = Some(error.into()),
        }
        // A Terminate says that the connection has not come about (X-ENH-19).
        let opens = segment.first && !matches!(segment.action, Action::Terminate { .. });
        Ok(opens.then_some(Step::FirstSegment))
    }

    /// Returns what is to be done for a segment that begins with `head`.
    fn rest_of(&mut self, segment: &Segment, head: &[u8]) -> Result<Rest, TermError> {
        let payload = Stretch {
            at: segment.payload_at(),
            len: segment.payload_len.into(),
        };
        Ok(match segment.action {
            Action::Ignore => Rest::Written { last: false },
            Action::Write { stag, to, last } => Rest::Write {
                stag,
                to,
                payload,
                last,
            },
            Action::ReadResponse { stag, to, last } => Rest::Response {
                stag,
                to,
                payload,
                last,
            },
            Action::Send {
                mo,
                first,
                last,
                solicited,
                invalidate,
                immediate,
                ..
            } => {
                let extra = match (invalidate, immediate) {
                    (Some(stag), _) => Extra::Invalidated(stag),
                    (None, Some(data)) => Extra::WithImmediate(data),
                    (None, None) => Extra::Nothing,
                };
                Rest::Send(Part {
                    mo,
                    payload,
                    first,
                    last: last.then_some(End { solicited, extra }),
                })
            }
            Action::Immediate {
                data, solicited, ..
            } => Rest::Send(Part {
                mo: 0,
                payload,
                first: true,
                last: Some(End {
                    solicited,
                    extra: Extra::Immediate(data),
                }),
            }),
            Action::ReadRequest { msn, request } => {
                let read = InboundRead { msn, request };
                self.queue(Inbound::Read(read))
            }
            Action::AtomicRequest { msn } => {
                let request = head.get(UNTAGGED_LEN..).and_then(AtomicRequest::parse);
                // All octets are there, so the AOpcode is wrong.
                let request = request.ok_or(TermError::UnexpectedOpcode)?;
                self.tally.add(Counter::RxAtomics, 1);
                self.queue(Inbound::Atomic(msn, request))
            }
            Action::AtomicResponse(response) => Rest::AskAtomic(response),
            Action::Terminate { code, read, placed } => {
                Rest::Tell(Step::Terminated { code, read, placed })
            }
        })
    }

    /// Asks the caller to queue a request of the peer.
    fn queue(&mut self, request: Inbound) -> Rest {
        self.request = Some(request);
        Rest::Tell(Step::Request)
    }

    /// Asks the caller to place a payload. Nothing is checked for an empty one (T-23).
    #[inline(always)]
    fn place(&mut self, target: Target, payload: Stretch) -> Option<Step> {
        (self.target, self.payload) = (target, payload);
        (payload.len > 0).then_some(Step::Place)
    }

    /// Asks the caller to place a segment of a Send. A message that begins takes a receive, unless
    /// it has waited and has one already.
    #[inline]
    fn send(&mut self, part: &Part) -> Advance {
        let Some(recv) = self.recv else {
            return match part.first {
                true => Ok(Some(Step::Receive)),
                false => Err(self.fails(TermError::UntaggedNoBuffer.into())),
            };
        };
        let end = part.mo.checked_add(part.payload.len);
        let Some(len) = end.filter(|end| u64::from(*end) <= recv.len) else {
            self.blame_recv(Fault::LocalLength);
            return Err(self.fails(TermError::UntaggedTooLong.into()));
        };
        self.rest = Rest::Sent {
            last: part.last.is_some(),
        };
        if let Some(End { solicited, extra }) = part.last {
            self.received = Received {
                id: recv.id,
                len,
                solicited,
                extra,
            };
        }
        Ok(self.place(Target::Receive(part.mo), part.payload))
    }

    /// Completes a receive. If the peer names an STag, it is invalidated before (V-INV-14).
    #[inline]
    fn end_send(&mut self) -> Step {
        if let Extra::Invalidated(stag) = self.received.extra {
            self.rest = Rest::Invalidated(Pending::Receive);
            return Step::Invalidate(Invalidation::ForPeer(stag));
        }
        self.complete()
    }

    #[inline]
    fn complete(&mut self) -> Step {
        self.recv = None;
        self.placed += 1;
        self.finish();
        Step::Complete
    }

    /// Completes a Read or Atomic Operation. Its sink is invalidated before, if the request asks
    /// for that.
    fn end_response(&mut self) -> Step {
        match self.responding {
            Some(Responding { read, .. }) if read.invalidate && read.token.is_some() => {
                self.rest = Rest::Invalidated(Pending::Read);
                Step::Invalidate(Invalidation::Sink(read.sink_stag))
            }
            _ => self.read_done(),
        }
    }

    fn read_done(&mut self) -> Step {
        self.responding = None;
        self.finish();
        Step::ReadDone
    }

    /// Marks the FPDU at hand as used. Tests count its calls.
    #[inline(never)]
    fn finish(&mut self) {
        self.rest = Rest::Nothing;
        self.result = None;
        self.traced = false;
        match self.fpdu {
            Some(AtHand {
                lies: Lies::InChunk { at, left },
                len,
                ..
            }) => {
                self.budget.octets(len);
                if len > left {
                    self.tally.add(Counter::RxFpdusJoined, 1);
                }
                self.used = Saturating(at) + Saturating(self.deframer.use_up(len, left));
            }
            Some(AtHand {
                lies: Lies::InBuffer,
                ..
            }) => {
                self.tally.add(Counter::RxFpdusInPieces, 1);
                self.deframer.use_up_collected();
            }
            None => {}
        }
    }
}

/// Returns whether the CRC of an FPDU is right, or not in use. It is not computed again for an FPDU
/// that has waited.
#[inline(always)]
fn check_crc<C: Chunk>(
    fpdu: &Fpdu<'_, C>,
    crc: bool,
    patience: &mut Patience,
) -> Result<bool, Failure> {
    match patience.take_checked() || !crc {
        true => Ok(true),
        false => fpdu.has_crc().map_err(shorter),
    }
}

fn shorter(Broken: Broken) -> Failure {
    Failure::defect("an FPDU is shorter than it was")
}
