// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connection: from octets of the stream to placed data and completions
//! (RFC 5040 sections 5 and 6, RFC 5041 sections 5.3 and 7, RFC 5044 section 5.2).
//!
//! FPDUs come in one way: the [`deframer`](super::deframer) finds one after the other, and
//! [`Receiver::take`] takes in its ULPDU once the CRC is right. Nothing is placed before the whole
//! segment is validated (T-8). What the other end on this host hands over are ULPDUs already
//! (`receiver/handed_over.rs`). FPDUs that continue the message of the one before have a short way
//! ([`Train`]), and so have Sends of one segment, as most short ones are. Softirq or process
//! context, under the receive lock.
#![forbid(unsafe_code)]

mod env;
mod handed_over;
mod patience;

use self::patience::Patience;
use super::{
    counters::{
        Counter,
        Tally, //
    },
    deframer::{
        collected,
        Budget,
        Chunk,
        Deframer,
        Fpdu,
        Next,
        Payload,
        Source,
        Train,
        FPDU_FRONT, //
    },
    failure::{
        Failure,
        Fault, //
    },
    order::Token,
    reads::{
        Inbound,
        InboundRead,
        Response, //
    },
    rx::{
        is_enough,
        Action,
        Rx,
        Segment,
        Target,
        WholeSend,
        HEAD_LEN, //
    },
    setup::Params,
    state::Arrival, //
};
use crate::wire::{
    atomic::{
        AtomicRequest,
        AtomicResponse,
        WORD_LEN, //
    },
    ddp::UNTAGGED_LEN,
    fpdu::LEN_FIELD,
    terminate::{
        Quote,
        TermError, //
    },
};
use core::{
    num::Saturating,
    ops::DerefMut, //
};

pub(crate) use self::env::{
    Env,
    Extra,
    Received,
    Recv,
    Unplaced, //
};

/// What a receiver lacks to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Nothing,
    /// Another turn: its budget is used up, and there may be more.
    Turn,
    /// A buffer for [`Receiver::set_buffer`].
    Buffer,
    /// The end of all accesses to the region that was invalidated last.
    Quiet,
    /// A receive for the message at hand, which each turn looks for again.
    Receive,
}

/// The ULPDU of an FPDU, whose CRC is right if it has one.
#[derive(Debug)]
struct Ulpdu<'a, C> {
    source: &'a Source<'a, C>,
    /// The first octets of the ULPDU, as many as [`Rx::segment`] needs.
    head: &'a [u8],
    len: u16,
}

/// What completes once nobody uses an invalidated region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Receive(Received),
    Read(Token),
}

/// The receiving half of a connection; `B` is the buffer of its deframer.
#[derive(Debug)]
pub(crate) struct Receiver<B> {
    deframer: Deframer<B>,
    rx: Rx,
    crc: bool,
    /// What this turn may still take in.
    budget: Budget,
    /// The receive of the message at hand.
    recv: Option<Recv>,
    pending: Option<Pending>,
    patience: Patience,
    /// Everything that still comes is dropped.
    stopped: bool,
    /// What was received since the caller last took it.
    pub(crate) tally: Tally,
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
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

    /// Begins a turn that takes in as much as `budget` allows, and does what had to wait.
    pub(crate) fn begin<C: Chunk, E: Env<C>>(&mut self, env: &mut E, budget: Budget) {
        self.budget = budget;
        self.deframer.begin();
        self.resume(env);
    }

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

    /// Returns whether an FPDU or a message is incomplete.
    pub(crate) const fn is_cut(&self) -> bool {
        self.deframer.is_collecting() || self.rx.in_message()
    }

    /// Takes the receive in progress, to be flushed, even if it waits only for an invalidation.
    pub(crate) fn take_recv(&mut self) -> Option<Recv> {
        let _ = self.pending.take_if(|p| matches!(p, Pending::Receive(_)));
        self.recv.take()
    }

    /// Takes octets from the front of a chunk. Returns how many.
    pub(crate) fn consume<C: Chunk, E: Env<C>>(&mut self, env: &mut E, chunk: &C) -> usize {
        let mut at = Saturating(self.deframer.skip(chunk.len()));
        // An FPDU that was begun is finished: once all of it is in our buffer, the socket may have
        // nothing left that would bring us back here.
        while !self.budget.is_spent() || self.deframer.is_collecting() {
            if !self.stopped && !self.resume(env) {
                return at.0;
            }
            if self.stopped {
                // Unread data would turn the close into a RST (T-32).
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

    /// Returns whether nothing is taken in any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn fail<C, E: Env<C>>(&mut self, env: &mut E, failure: Failure) {
        self.stopped = true;
        env.fail(failure);
    }

    /// Takes in the FPDUs from octet `at` of a chunk on that continue the message of the one before
    /// and are as long; the first begins with `front`. Returns how many octets they have, or 0 if
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
        let Some(run) = run.filter(|_| env.state().arrival() == Arrival::Take) else {
            return Ok(0);
        };
        let target = run.target();
        let room = match target {
            Target::Write(..) => u32::MAX,
            // The last octet comes in a segment with the last flag, which is in no train.
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

    /// Takes in an FPDU. Returns whether it was taken and does not have to wait for a receive.
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
        // Before the checks: if one fails, this side has to be allowed to send a Terminate (T-24).
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

    /// Takes in the ULPDU of an FPDU, unless it has to wait for a receive. Returns whether it
    /// was taken.
    #[inline]
    fn offer<C, E: Env<C>>(&mut self, env: &mut E, ulpdu: &Ulpdu<'_, C>) -> Result<bool, Failure> {
        if self.patience.is_granted() && !self.find_recv(env, ulpdu.head, ulpdu.len)? {
            self.patience.set_checked();
            return Ok(false);
        }
        self.take(env, ulpdu).map(|()| true)
    }

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

    fn segment<C, E: Env<C>>(&mut self, env: &mut E, ulpdu: &Ulpdu<'_, C>) -> Result<(), Failure> {
        let arrival = env.state().arrival();
        if arrival == Arrival::Drop {
            self.stopped = true;
            return Ok(());
        }
        if let Some(send) = self.rx.whole_send(ulpdu.head, ulpdu.len) {
            return self.whole_send(env, ulpdu, send, arrival);
        }
        let segment = self.rx.segment(ulpdu.head, ulpdu.len, env)?;
        self.tally.received(&segment);
        if segment.first {
            env.first_segment();
        }
        if arrival == Arrival::TooLate && !matches!(segment.action, Action::Terminate { .. }) {
            self.too_late(env);
            return Ok(());
        }
        self.perform(env, ulpdu, &segment)
    }

    fn too_late<C, E: Env<C>>(&mut self, env: &mut E) {
        env.data_in_closing();
        self.stopped = true;
    }

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
                // All octets are there, so the AOpcode is wrong.
                let request = request.ok_or(TermError::UnexpectedOpcode)?;
                self.tally.add(Counter::RxAtomics, 1);
                Ok(env.request_received(Inbound::Atomic(msn, request))?)
            }
            Action::AtomicResponse(AtomicResponse { id, original }) => {
                let response = env.with_reads(|reads| reads.atomic_response(id))?;
                // The consumer gets the result in the byte order of this host.
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

    /// Takes a receive for a message that begins, unless it has waited and has one already.
    #[inline(always)]
    fn begin_recv<C, E: Env<C>>(&mut self, env: &mut E) -> Result<(), Failure> {
        if self.recv.is_none() {
            self.recv = Some(env.take_recv()?.ok_or(TermError::UntaggedNoBuffer)?);
        }
        Ok(())
    }

    /// Places a payload. Nothing is checked for an empty one (T-23).
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

    /// Completes the receive in progress in error, as its memory may not be written.
    fn refuse_payload<C, E: Env<C>>(&mut self, env: &mut E) -> Failure {
        self.refuse(env, Fault::LocalProtection, TermError::LocalCatastrophic)
    }

    fn refuse<C, E: Env<C>>(&mut self, env: &mut E, fault: Fault, error: TermError) -> Failure {
        let recv = self.recv.take();
        Failure {
            in_completion: recv.is_some_and(|recv| env.fail_recv(recv.id, fault)),
            ..error.into()
        }
    }

    /// Completes the receive in progress with a message of `len` octets, after invalidating the
    /// STag that the peer names (V-INV-14).
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

    /// Completes the request of `response` in error.
    fn refuse_response<C, E: Env<C>>(env: &mut E, response: &Response) -> Failure {
        let token = response.entry.token;
        let told = token.is_some_and(|token| env.fail_send(token, Fault::LocalProtection));
        Failure::of_request(told)
    }

    /// Performs `then` once nobody uses the invalidated region: now, or when receiving resumes.
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

/// Quotes the FPDU at octet `at` of a chunk, which continues a message.
fn quote<C: Chunk>(chunk: &C, at: usize) -> Option<Quote> {
    let front = chunk.front(at)?;
    let (len, head) = front.split_first_chunk::<LEN_FIELD>()?;
    Quote::new(head, u16::from_be_bytes(*len))
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Takes in a Send that is all of `ulpdu`.
    #[inline]
    fn whole_send<C, E: Env<C>>(
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
