// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connection: from octets of the stream to placed data and completions
//! (RFC 5040 sections 5 and 6, RFC 5041 sections 5.3 and 7, RFC 5044 section 5.2).
//!
//! There is one way in. The [`deframer`](super::deframer) finds one FPDU after the other, and
//! [`Receiver::take`] takes in its ULPDU once the CRC is right: nothing is placed before the whole
//! segment is validated (T-8). Segments that the other end on this host hands over are ULPDUs
//! already (`receiver/direct.rs`). The only other way is a short one, for FPDUs that go on with the
//! message of the one before ([`Train`]).
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

mod env;
mod handed_over;
mod patience;
mod whole;

pub(crate) use self::env::{
    Env,
    Extra,
    Received,
    Recv,
    Unplaced, //
};
use self::patience::Patience;
use super::budget::Budget;
use super::chunk::{
    Chunk,
    Payload,
    Source,
    FPDU_FRONT, //
};
use super::counters::{
    Counter,
    Tally, //
};
use super::deframer::{
    collected,
    Deframer,
    Fpdu,
    Next, //
};
use super::failure::{
    Failure,
    Fault, //
};
use super::order::Token;
use super::reads::{
    Inbound,
    InboundRead,
    Response, //
};
use super::rx::{
    is_enough,
    Action,
    Rx,
    Segment,
    Target,
    HEAD_LEN, //
};
use super::setup::Params;
use super::state::QpState;
use super::train::Train;
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse,
    WORD_LEN, //
};
use crate::wire::ddp::UNTAGGED_LEN;
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use core::num::Saturating;
use core::ops::DerefMut;

/// What a receiver lacks to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing: it has taken in all that there was.
    Nothing,
    /// Another turn: its budget is used up, and there may be more.
    Turn,
    /// The buffer: see [`Receiver::set_buffer`].
    Buffer,
    /// That nobody uses the region that was invalidated last.
    Quiet,
    /// A receive for the message at hand. It is looked for again with each turn.
    Receive,
}

/// The ULPDU of an FPDU, whose CRC is right if it has one.
#[derive(Debug)]
struct Ulpdu<'a, C> {
    /// Where the FPDU is.
    source: &'a Source<'a, C>,
    /// The first octets of the ULPDU, as many as [`Rx::segment`] wants to see.
    head: &'a [u8],
    /// Octets.
    len: u16,
}

/// What waits until nobody uses an invalidated region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// The receive in progress completes.
    Receive(Received),
    /// A Read of ours completes.
    Read(Token),
}

/// The receiving half of a connection; `B` is the buffer of its deframer.
#[derive(Debug)]
pub(crate) struct Receiver<B> {
    deframer: Deframer<B>,
    rx: Rx,
    crc: bool,
    /// What may still be done this time.
    budget: Budget,
    /// The receive that a Send is being placed into.
    recv: Option<Recv>,
    pending: Option<Pending>,
    patience: Patience,
    /// Everything that still comes is dropped.
    stopped: bool,
    /// What was received since this was looked at last.
    pub(crate) tally: Tally,
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// For a new connection.
    pub(crate) const fn new(params: &Params) -> Self {
        Self {
            deframer: Deframer::new(),
            rx: Rx::new(params.expect_rtr),
            crc: params.crc,
            budget: Budget::NONE,
            recv: None,
            pending: None,
            patience: Patience::new(0),
            stopped: false,
            tally: Tally::new(),
        }
    }

    /// Begins to take in as much as `budget` allows, with what had to wait.
    pub(crate) fn begin<C: Chunk, E: Env<C>>(&mut self, env: &mut E, budget: Budget) {
        self.budget = budget;
        self.deframer.begin();
        self.resume(env);
    }

    /// What is lacking to go on.
    pub(crate) fn lacks(&self) -> Lack {
        if self.pending.is_some() {
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

    /// Gives the buffer that is lacking, of `wire::fpdu::MAX_FPDU` octets.
    pub(crate) fn set_buffer(&mut self, buffer: B) {
        self.deframer.set_buffer(buffer);
    }

    /// Whether an FPDU or a message is incomplete.
    pub(crate) const fn is_cut(&self) -> bool {
        self.deframer.is_collecting() || self.rx.in_message()
    }

    /// The receive in progress, to be flushed, also if only an invalidation is waited for.
    pub(crate) fn take_recv(&mut self) -> Option<Recv> {
        let _ = self.pending.take_if(|p| matches!(p, Pending::Receive(_)));
        self.recv.take()
    }

    /// Takes octets from the front of a chunk. Returns how many.
    pub(crate) fn consume<C: Chunk, E: Env<C>>(&mut self, env: &mut E, chunk: &C) -> usize {
        let mut at = Saturating(self.deframer.skip(chunk.len()));
        // An FPDU that was begun is finished: once all of it is in our buffer, there may be nothing
        // in the socket that would bring us back here.
        while !self.budget.is_spent() || self.deframer.is_collecting() {
            if !self.stopped && !self.resume(env) {
                return at.0;
            }
            if self.stopped {
                // What is not read would turn the close into a RST (T-32).
                self.budget.octets(chunk.len());
                return chunk.len();
            }
            match self.step(env, chunk, at.0) {
                Ok(0) => return at.0,
                Ok(n) => at += n,
                Err(failure) => self.fail(env, failure),
            }
        }
        at.0
    }

    /// Takes in what begins at octet `at` of a chunk. Returns how many octets of the chunk that is.
    fn step<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
    ) -> Result<usize, Failure> {
        let fpdu = match self.deframer.next(chunk, at)? {
            Next::Fpdu(fpdu) => fpdu,
            Next::Collected(n) => {
                self.budget.octets(n);
                return Ok(n);
            }
            Next::Nothing => return Ok(0),
        };
        let octets = self.train(env, chunk, at, &fpdu.front)?;
        if octets > 0 {
            return Ok(octets);
        }
        if !self.fpdu(env, &fpdu)? {
            return Ok(0);
        }
        self.budget.octets(fpdu.len);
        let left = chunk.left(at);
        if fpdu.len > left {
            self.tally.add(Counter::RxFpdusJoined, 1);
        }
        Ok(self.deframer.use_up(fpdu.len, left))
    }

    /// Ends the stream.
    pub(crate) fn fail<C, E: Env<C>>(&mut self, env: &mut E, failure: Failure) {
        self.stopped = true;
        self.rx.stop();
        env.fail(failure);
    }

    /// Takes in the FPDUs from octet `at` of a chunk on that go on with the message of the one
    /// before and are as long; the first begins with `front`. Returns how many octets they are; 0 if
    /// the first has to be taken by itself.
    #[inline]
    fn train<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
        front: &[u8; FPDU_FRONT],
    ) -> Result<usize, Failure> {
        let run = self.rx.run(env).filter(|run| run.is_next(front));
        let Some(run) = run.filter(|_| env.state() != QpState::Closing) else {
            return Ok(0);
        };
        let target = run.target();
        let room = match target {
            Target::Write(..) => u32::MAX,
            // The last octet comes in a segment that says so.
            Target::Response(stag, to) => {
                let left = env.with_reads(|reads| reads.left(stag, to));
                left.saturating_sub(1)
            }
            Target::Receive(offset) => {
                let len = self.recv.map_or(0, |recv| recv.len);
                let room = len.saturating_sub(offset.into());
                u32::try_from(room).unwrap_or(u32::MAX)
            }
        };
        let mut train = Train::new(chunk, at, run, room, &mut self.budget, self.crc);
        if train.limit() == 0 {
            return Ok(0);
        }
        let placed = env.place_train(target, &mut train);
        let taken = train.end();
        if taken.fpdus == 0 {
            return Ok(0);
        }
        self.rx.went_on(taken.payload);
        self.tally.add(Counter::RxFpdus, taken.fpdus.into());
        self.tally.went_on(target, taken.payload);
        let went_on = match target {
            Target::Write(..) => placed.map_err(|Unplaced| TermError::LocalCatastrophic.into()),
            Target::Response(stag, to) => {
                let len = taken.payload;
                match env.with_reads(|reads| reads.response(stag, to, len, false)) {
                    Ok(read) => placed.map_err(|Unplaced| Self::refuse_response(env, &read)),
                    Err(error) => Err(error.into()),
                }
            }
            Target::Receive(_) => placed.map_err(|Unplaced| self.refuse_payload(env)),
        };
        went_on.map_err(|failure: Failure| Failure {
            quote: quote(chunk, taken.last_at),
            ..failure
        })?;
        Ok(taken.octets)
    }

    /// Takes in an FPDU. Returns whether it was taken, and does not have to wait for a receive.
    fn fpdu<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        fpdu: &Fpdu<'_, C>,
    ) -> Result<bool, Failure> {
        let fault = |_| Failure::defect("an FPDU is shorter than it was");
        self.budget.fpdu();
        if self.crc && !self.patience.take_checked() && !fpdu.has_crc().map_err(fault)? {
            return Err(TermError::MpaCrc.into());
        }
        // Before it is looked into: what is wrong with it can be told (T-24).
        env.fpdu_received();
        let (source, len) = (&fpdu.source, fpdu.ulpdu_len);
        let head = fpdu.head();
        if is_enough(head) {
            return self.offer(env, &Ulpdu { source, head, len });
        }
        let mut head = [0; HEAD_LEN];
        let head = head.get_mut(..HEAD_LEN.min(len.into())).unwrap_or(&mut []);
        source.copy_to(LEN_FIELD, head).map_err(fault)?;
        self.offer(env, &Ulpdu { source, head, len })
    }

    /// Takes in the ULPDU of an FPDU, unless it has to wait for a receive. Returns whether it was
    /// taken.
    #[inline]
    fn offer<C, E: Env<C>>(&mut self, env: &mut E, ulpdu: &Ulpdu<'_, C>) -> Result<bool, Failure> {
        if self.patience.is_granted() && !self.find_recv(env, ulpdu.head, ulpdu.len)? {
            self.patience.set_checked();
            return Ok(false);
        }
        self.take(env, ulpdu).map(|()| true)
    }

    /// Takes in an ULPDU.
    fn take<C, E: Env<C>>(&mut self, env: &mut E, ulpdu: &Ulpdu<'_, C>) -> Result<(), Failure> {
        self.tally.add(Counter::RxFpdus, 1);
        env.ulpdu_received(ulpdu.head, ulpdu.len);
        let result = self.segment(env, ulpdu);
        result.map_err(|failure| Failure {
            quote: Quote::new(ulpdu.head, ulpdu.len),
            denied: self.rx.denied(),
            ..failure
        })
    }

    /// Checks the segment of an ULPDU, and does what it asks for.
    fn segment<C, E: Env<C>>(&mut self, env: &mut E, ulpdu: &Ulpdu<'_, C>) -> Result<(), Failure> {
        if let Some(send) = self.rx.whole_send(ulpdu.head, ulpdu.len) {
            return self.whole_send(env, ulpdu, send);
        }
        let state = env.state();
        let segment = self.rx.segment(ulpdu.head, ulpdu.len, env)?;
        self.tally.received(&segment);
        if segment.first {
            env.first_segment();
        }
        if state == QpState::Closing && !matches!(segment.action, Action::Terminate { .. }) {
            env.data_in_closing();
            self.stopped = true;
            return Ok(());
        }
        self.perform(env, ulpdu, &segment)
    }

    /// Does what a segment asks for.
    fn perform<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        ulpdu: &Ulpdu<'_, C>,
        segment: &Segment,
    ) -> Result<(), Failure> {
        let at = LEN_FIELD.checked_add(segment.header_len.into());
        let payload = Payload {
            source: ulpdu.source,
            at: at.ok_or_else(|| Failure::defect("a header is too long"))?,
            len: segment.payload_len.into(),
        };
        match segment.action {
            Action::Ignore => Ok(()),
            Action::Write { stag, to, .. } => {
                Ok(self.place(env, Target::Write(stag, to), &payload)?)
            }
            Action::ReadResponse { stag, to, last } => {
                let len = payload.len;
                let response = env.with_reads(|reads| reads.response(stag, to, len, last))?;
                let placed = self.place(env, Target::Response(stag, to), &payload);
                self.end_response(env, &response, placed)
            }
            Action::Send {
                mo,
                first,
                last,
                solicited,
                invalidate,
                ..
            } => {
                if first {
                    self.begin_recv(env)?;
                }
                let len = self.place_send(env, mo, &payload)?;
                if last {
                    let extra = Extra::of_send(invalidate);
                    self.complete(env, len, solicited, extra)?;
                }
                Ok(())
            }
            Action::Immediate {
                data, solicited, ..
            } => {
                self.begin_recv(env)?;
                self.complete(env, 0, solicited, Extra::Immediate(data))
            }
            Action::ReadRequest { msn, request } => {
                let read = InboundRead { msn, request };
                Ok(env.request_received(Inbound::Read(read))?)
            }
            Action::AtomicRequest { msn } => {
                let request = ulpdu
                    .head
                    .get(UNTAGGED_LEN..)
                    .and_then(AtomicRequest::parse);
                // All octets are there: what is wrong is the AOpcode.
                let request = request.ok_or(TermError::UnexpectedOpcode)?;
                self.tally.add(Counter::RxAtomics, 1);
                Ok(env.request_received(Inbound::Atomic(msn, request))?)
            }
            Action::AtomicResponse(AtomicResponse { id, original }) => {
                let response = env.with_reads(|reads| reads.atomic_response(id))?;
                // The result is in the byte order of this host.
                let result = original.to_ne_bytes();
                let payload = Payload {
                    source: &Source::Bytes(&result),
                    at: 0,
                    len: WORD_LEN,
                };
                let (stag, to) = (response.entry.sink_stag, response.entry.sink_to);
                let placed = self.place(env, Target::Response(stag, to), &payload);
                self.end_response(env, &response, placed)
            }
            Action::Terminate { code, read } => {
                self.stopped = true;
                env.terminate_received(code, read);
                Ok(())
            }
        }
    }

    /// Has a receive for a message that begins.
    #[inline(always)]
    fn begin_recv<C, E: Env<C>>(&mut self, env: &mut E) -> Result<(), Failure> {
        // One that may wait has it already.
        if self.recv.is_none() {
            self.recv = Some(env.take_recv()?.ok_or(TermError::UntaggedNoBuffer)?);
        }
        Ok(())
    }

    /// Places a payload. Nothing is checked for one that is empty (T-23).
    #[inline(always)]
    fn place<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        target: Target,
        payload: &Payload<'_, C>,
    ) -> Result<(), TermError> {
        match payload.len {
            0 => Ok(()),
            _ => env.place(target, payload, &mut self.budget),
        }
    }

    /// Places a segment of a Send. Returns the octets of the message so far.
    #[inline(always)]
    fn place_send<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        mo: u32,
        payload: &Payload<'_, C>,
    ) -> Result<u32, Failure> {
        let Some(recv) = self.recv else {
            return Err(TermError::UntaggedNoBuffer.into());
        };
        let end = mo.checked_add(payload.len);
        let end = end.ok_or(TermError::UntaggedTooLong)?;
        if u64::from(end) > recv.len {
            return Err(self.refuse(env, Fault::LocalLength, TermError::UntaggedTooLong));
        }
        let placed = self.place(env, Target::Receive(mo), payload);
        placed.map_err(|_| self.refuse_payload(env)).map(|()| end)
    }

    /// Completes the receive in progress in error, whose memory does not allow what it is for.
    fn refuse_payload<C, E: Env<C>>(&mut self, env: &mut E) -> Failure {
        self.refuse(env, Fault::LocalProtection, TermError::LocalCatastrophic)
    }

    /// Completes the receive in progress in error.
    fn refuse<C, E: Env<C>>(&mut self, env: &mut E, fault: Fault, error: TermError) -> Failure {
        let recv = self.recv.take();
        Failure {
            in_completion: recv.is_some_and(|recv| env.fail_recv(recv.id, fault)),
            ..error.into()
        }
    }

    /// Completes the receive in progress, `len` octets long, and invalidates what the peer wants to
    /// be invalidated before (V-INV-14).
    #[inline(always)]
    fn complete<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        len: u32,
        solicited: bool,
        extra: Extra,
    ) -> Result<(), Failure> {
        let Some(recv) = self.recv else {
            return Ok(());
        };
        let received = Received {
            id: recv.id,
            len,
            solicited,
            extra,
        };
        if let Extra::Invalidated(stag) = extra {
            if let Err(error) = env.invalidate_for_peer(stag) {
                return Err(self.refuse(env, Fault::RemoteInvalid, error));
            }
            return self.when_quiet(env, Pending::Receive(received));
        }
        self.recv = None;
        env.complete_recv(&received)
    }

    /// Completes the Read or Atomic Operation of a response, if that was all of it and is `placed`.
    fn end_response<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        response: &Response,
        placed: Result<(), TermError>,
    ) -> Result<(), Failure> {
        if placed.is_err() {
            return Err(Self::refuse_response(env, response));
        }
        if !response.complete {
            return Ok(());
        }
        let entry = &response.entry;
        let Some(token) = entry.token.filter(|_| entry.invalidate) else {
            env.read_done(entry.token);
            return Ok(());
        };
        if let Err(Unplaced) = env.invalidate_sink(entry.sink_stag) {
            return Err(Self::refuse_response(env, response));
        }
        self.when_quiet(env, Pending::Read(token))
    }

    /// Completes the Read of `response` in error.
    fn refuse_response<C, E: Env<C>>(env: &mut E, response: &Response) -> Failure {
        let token = response.entry.token;
        let told = token.is_some_and(|token| env.fail_send(token, Fault::LocalProtection));
        Failure::of_request(told)
    }

    /// Goes on once nobody uses what was invalidated; whoever still does is not waited for.
    fn when_quiet<C, E: Env<C>>(&mut self, env: &mut E, then: Pending) -> Result<(), Failure> {
        if env.is_quiet() {
            return self.finish(env, then);
        }
        self.pending = Some(then);
        Ok(())
    }

    fn finish<C, E: Env<C>>(&mut self, env: &mut E, then: Pending) -> Result<(), Failure> {
        match then {
            Pending::Receive(received) => {
                self.recv = None;
                env.complete_recv(&received)
            }
            Pending::Read(token) => {
                env.read_done(Some(token));
                Ok(())
            }
        }
    }

    /// Does what had to wait. Returns whether receiving may go on.
    #[inline(always)]
    fn resume<C: Chunk, E: Env<C>>(&mut self, env: &mut E) -> bool {
        (self.pending.is_none() && !self.deframer.is_collecting()) || self.resume_now::<C, E>(env)
    }

    #[cold]
    fn resume_now<C: Chunk, E: Env<C>>(&mut self, env: &mut E) -> bool {
        if self.pending.is_some() {
            let Some(pending) = self.pending.take_if(|_| env.is_quiet()) else {
                return false;
            };
            if let Err(failure) = self.finish(env, pending) {
                self.fail(env, failure);
            }
        }
        if self.stopped {
            return true;
        }
        let Some(buffer) = self.deframer.take_collected() else {
            return true;
        };
        let fpdu = collected::<C>(&buffer);
        let taken = fpdu.and_then(|fpdu| self.fpdu(env, &fpdu));
        let waits = matches!(taken, Ok(false));
        self.deframer.give_back(buffer, !waits);
        self.tally.add(Counter::RxFpdusInPieces, (!waits).into());
        if let Err(failure) = taken {
            self.fail(env, failure);
        }
        !waits && self.pending.is_none()
    }
}

/// A quote of the FPDU at octet `at` of a chunk, which goes on with a message.
fn quote<C: Chunk>(chunk: &C, at: usize) -> Option<Quote> {
    let front = chunk.front(at)?;
    let (len, head) = front.split_first_chunk::<LEN_FIELD>()?;
    Quote::new(head, u16::from_be_bytes(*len))
}
