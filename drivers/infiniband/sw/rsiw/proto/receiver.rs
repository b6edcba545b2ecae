// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connection: from octets of the stream to placed data and completions
//! (RFC 5040 sections 5 and 6, RFC 5041 sections 5.3 and 7, RFC 5044 section 5.2).
//!
//! Nothing is placed before the whole segment is validated, CRC included (T-8). A segment is placed
//! from where it is once all of it is there. If it cannot be waited for, or lies in chunks that
//! cannot be read together, it is collected in a buffer first.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

mod atomic;
mod direct;
mod joined;
mod patience;
mod whole;

pub(crate) use self::atomic::Atomics;
use self::patience::Patience;
use super::budget::Budget;
use super::chunk::{
    Chunk,
    Payload,
    Source, //
};
use super::conn::Params;
use super::counters::{
    Counter,
    Tally, //
};
use super::deframer::{Deframer, Fpdu};
use super::failure::{
    Failure,
    Fault, //
};
use super::order::Token;
use super::reads::{
    Purpose,
    Response, //
};
use super::rx::{
    is_enough,
    Action,
    Going,
    Limits,
    Rx,
    Segment,
    FRONT_LEN,
    HEAD_LEN, //
};
use super::state::QpState;
use super::train::{
    Room,
    Train, //
};
use crate::wire::ddp::{
    self,
    Msn,
    Stag,
    TaggedOffset, //
};
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::rdmap::{
    ImmediateData,
    ReadRequest, //
};
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use core::ops::DerefMut;

/// A receive that was taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recv {
    /// The consumer's name for it.
    pub(crate) id: u64,
    /// Octets that it has room for.
    pub(crate) len: u64,
}

/// What a receive tells its consumer beside the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Nothing.
    #[default]
    Nothing,
    /// The STag that the peer has invalidated.
    Invalidated(Stag),
    /// Immediate Data, instead of a message.
    Immediate(ImmediateData),
}

impl Extra {
    /// What a Send that invalidates this tells.
    pub(crate) fn of_send(invalidate: Option<Stag>) -> Self {
        invalidate.map_or(Self::Nothing, Self::Invalidated)
    }
}

/// A message that a receive has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The consumer's name for the receive.
    pub(crate) id: u64,
    /// Octets of the message.
    pub(crate) len: u32,
    /// The peer asks for an event.
    pub(crate) solicited: bool,
    /// What else there is to tell.
    pub(crate) extra: Extra,
}

/// A payload could not be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced;

/// What a receiver needs of its surroundings, which receive octets in chunks `C`.
///
/// The methods that tell of something leave a note for others to act upon: the caller holds the
/// receive lock.
pub(crate) trait Env<C>: Limits + Atomics {
    /// The CRC32c of octets in one piece, continued.
    fn crc32c(crc: u32, octets: &[u8]) -> u32;

    /// The state of the connection, which may be another by now.
    fn state(&self) -> QpState;

    /// An FPDU has come in, whose CRC is right: this side may send.
    fn fpdu_received(&mut self);

    /// The first segment has passed the protocol's checks.
    fn first_segment(&mut self);

    /// An ULPDU of `len` octets has come in that begins with `head`; for who wants to know.
    fn ulpdu_received(&self, _head: &[u8], _len: u16) {}

    /// Data came in although this side is closing.
    fn data_in_closing(&mut self);

    /// The peer has ended the stream: see [`Action::Terminate`].
    fn terminate_received(&mut self, code: u16, read: Option<Msn>);

    /// The stream must end.
    fn fail(&mut self, failure: Failure);

    /// Places the payload of an RDMA Write, which is not empty, if the peer may write there.
    ///
    /// # Errors
    ///
    /// How the peer is told that it may not.
    fn place_write(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), TermError>;

    /// Places the payload of a Read Response, which is not empty, if this side may write there.
    ///
    /// # Errors
    ///
    /// It may not.
    fn place_response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced>;

    /// Places the payloads of a train that goes on with a message, as many as the memory allows for
    /// without another question. None is placed where it does not, which is found out with the
    /// first segment by itself then.
    ///
    /// # Errors
    ///
    /// The payload that was taken last could not be placed.
    fn place_train(&mut self, going: Going, train: &mut Train<'_, C>) -> Result<(), Unplaced>
    where
        C: Chunk;

    /// Takes the oldest receive, and keeps the names of its memory for [`Env::place_recv`]. `None` if
    /// there is none.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    fn take_recv(&mut self) -> Result<Option<Recv>, Failure>;

    /// Places the payload of a Send at `offset` of the receive that was taken last, which has room
    /// for it.
    ///
    /// # Errors
    ///
    /// Its memory does not allow it; nothing has been placed.
    fn place_recv(
        &mut self,
        offset: u32,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced>;

    /// Completes a receive.
    ///
    /// # Errors
    ///
    /// The completion queue is full, which ends the stream (V-CQ-7).
    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure>;

    /// Completes a receive in error. Returns whether the completion tells so (T-33).
    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool;

    /// Invalidates an STag for the peer (T-7, T-21). The region is asked for by [`Env::is_quiet`].
    ///
    /// # Errors
    ///
    /// How the peer is told that it cannot.
    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError>;

    /// Invalidates the sink of a Read of ours; as [`Env::invalidate_for_peer`].
    ///
    /// # Errors
    ///
    /// It cannot.
    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced>;

    /// Whether nobody uses the memory of the region that was invalidated last.
    fn is_quiet(&self) -> bool;

    /// Gives a segment of a Read Response to our Reads: see
    /// [`super::reads::OutboundReads::response`].
    ///
    /// # Errors
    ///
    /// What the Terminate has to say.
    fn response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        len: u32,
        last: bool,
    ) -> Result<Response, TermError>;

    /// Octets that our oldest Read waits for: see [`super::reads::OutboundReads::left`].
    fn response_left(&self, stag: Stag, to: TaggedOffset) -> u32;

    /// The response of our oldest Read is placed; `None` for one that is no request's.
    fn read_done(&mut self, token: Option<Token>);

    /// A request under way failed. Returns whether its completion tells so (T-33).
    fn fail_send(&mut self, token: Token, fault: Fault) -> bool;

    /// Queues a Read of the peer, if the peer may read that much there.
    ///
    /// # Errors
    ///
    /// What the Terminate has to say.
    fn read_request(&mut self, msn: Msn, request: ReadRequest) -> Result<(), TermError>;
}

/// What waits until nobody uses an invalidated region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// The receive in progress completes.
    Receive(Received),
    /// A Read of ours completes.
    Read(Token),
}

/// The receiving half of a connection; `B` is the staging buffer.
#[derive(Debug)]
pub(crate) struct Receiver<B> {
    deframer: Deframer,
    rx: Rx,
    crc: bool,
    /// What may still be done this time.
    budget: Budget,
    /// Segments that come in pieces; made when the first one does.
    staging: Option<B>,
    wants_staging: bool,
    /// The receive that a Send is being placed into.
    recv: Option<Recv>,
    pending: Option<Pending>,
    /// The FPDU in the buffer, which waits for a receive.
    held: Option<Fpdu>,
    /// Octets that the next chunks begin with and that were taken in already.
    ahead: usize,
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
            staging: None,
            wants_staging: false,
            recv: None,
            pending: None,
            held: None,
            ahead: 0,
            patience: Patience::new(0),
            stopped: false,
            tally: Tally::new(),
        }
    }

    /// Begins to take in as much as `budget` allows.
    pub(crate) fn begin(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Whether that was done, and there may be more.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// Whether receiving waits for a buffer.
    pub(crate) const fn wants_staging(&self) -> bool {
        self.wants_staging && self.staging.is_none() && !self.stopped
    }

    /// The buffer, of `wire::fpdu::MAX_FPDU` octets.
    pub(crate) fn set_staging(&mut self, buffer: B) {
        self.staging = Some(buffer);
    }

    /// Whether receiving waits until nobody uses an invalidated region.
    pub(crate) const fn waits_for_quiet(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether an FPDU or a message is incomplete.
    pub(crate) const fn is_cut(&self) -> bool {
        self.deframer.staged() != 0 || self.held.is_some() || self.rx.in_message()
    }

    /// The receive in progress, to be flushed, also if only an invalidation is waited for.
    pub(crate) fn take_recv(&mut self) -> Option<Recv> {
        let _ = self.pending.take_if(|p| matches!(p, Pending::Receive(_)));
        self.recv.take()
    }

    /// Takes octets from the front of a chunk. Returns how many.
    pub(crate) fn consume<C: Chunk, E: Env<C>>(&mut self, env: &mut E, chunk: &C) -> usize {
        let mut at = self.skip_ahead(chunk.len());
        // An FPDU that was begun is finished: once all of it is in our buffer, there may be nothing
        // in the socket that would bring us back here.
        while !self.budget.is_spent() || self.deframer.staged() != 0 {
            if self.stopped {
                // What is not read would turn the close into a RST (T-32).
                self.budget.octets(chunk.len());
                return chunk.len();
            }
            if !self.resume(env) || at == chunk.len() && self.deframer.staged() == 0 {
                return at;
            }
            match self.go_on(env, chunk, at) {
                Ok(0) => {}
                Ok(n) => {
                    at = at.saturating_add(n);
                    continue;
                }
                Err(failure) => {
                    self.fail(env, failure);
                    continue;
                }
            }
            match self.step(env, chunk, at) {
                Ok(Some(n)) => {
                    self.budget.octets(n);
                    match at.checked_add(n) {
                        Some(next) if self.ahead != 0 => return next,
                        Some(next) if next <= chunk.len() => at = next,
                        _ => self.fail(env, Failure::defect("more is read than there is")),
                    }
                }
                Ok(None) => return at,
                Err(failure) => self.fail(env, failure),
            }
        }
        at
    }

    /// Ends the stream.
    pub(crate) fn fail<C, E: Env<C>>(&mut self, env: &mut E, failure: Failure) {
        self.stopped = true;
        self.rx.stop();
        env.fail(failure);
    }

    /// Takes in the FPDUs from octet `at` of a chunk on that go on with the message of the one
    /// before. Returns how many octets they are.
    fn go_on<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
    ) -> Result<usize, Failure> {
        let Some(run) = self.rx.run(env) else {
            return Ok(0);
        };
        if self.deframer.staged() != 0 || env.state() == QpState::Closing {
            return Ok(0);
        }
        let going = run.going();
        let room = match going {
            Going::Write(..) => Room::UpTo(u32::MAX),
            Going::Response(stag, to) => Room::Exactly(env.response_left(stag, to)),
            Going::Send { mo, .. } => {
                let len = self.recv.map_or(0, |recv| recv.len);
                let room = len.saturating_sub(mo.into());
                Room::UpTo(u32::try_from(room).unwrap_or(u32::MAX))
            }
        };
        let crc32c: Option<fn(u32, &[u8]) -> u32> = if self.crc { Some(E::crc32c) } else { None };
        let mut train = Train::new(chunk, at, run, room, &mut self.budget, crc32c);
        let placed = env.place_train(going, &mut train);
        let taken = train.end();
        if taken.payload == 0 {
            return Ok(0);
        }
        let (payload, is_complete) = (taken.payload, taken.is_complete);
        self.rx.went_on(payload, is_complete, taken.is_over);
        self.tally.add(Counter::RxFpdus, taken.fpdus.into());
        self.tally.went_on(&going, payload, is_complete);
        match going {
            Going::Write(..) => placed.map_err(|Unplaced| TermError::LocalCatastrophic.into()),
            Going::Response(stag, to) => {
                let response = env.response(stag, to, payload, is_complete)?;
                match placed {
                    Ok(()) => self.end_response(env, &response),
                    Err(Unplaced) => Err(Self::refuse_response(env, &response)),
                }
            }
            Going::Send {
                mo,
                solicited,
                invalidate,
            } => match placed {
                Ok(()) if is_complete => {
                    // There was room for it.
                    let extra = Extra::of_send(invalidate);
                    self.complete(env, mo.wrapping_add(payload), solicited, extra)
                }
                Ok(()) => Ok(()),
                Err(Unplaced) => {
                    Err(self.refuse(env, Fault::LocalProtection, TermError::LocalCatastrophic))
                }
            },
        }
        .map_err(|failure: Failure| Failure {
            quote: quote(chunk, taken.last_at, &going),
            ..failure
        })?;
        Ok(taken.octets)
    }

    /// One step of [`Receiver::consume`]: octets used, `None` if no more can be.
    fn step<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
    ) -> Result<Option<usize>, Failure> {
        // No FPDU is shorter than the front.
        if let Some(front) = chunk.front(at) {
            let left = chunk.len().saturating_sub(at);
            let len = front.first_chunk().copied();
            let whole = len.and_then(|len| self.deframer.whole(len, left));
            if let Some(fpdu) = whole {
                let taken = self.fpdu(env, &Source::Chunk { chunk, at }, &front, &fpdu)?;
                return Ok(taken.then_some(fpdu.len));
            }
        }
        self.step_apart(env, chunk, at)
    }

    /// Takes in a complete FPDU of which `front` are the first octets, at least [`FRONT_LEN`] of
    /// the ULPDU too if it has as many. Returns whether it was taken in, and does not have to wait
    /// for a receive.
    fn fpdu<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        source: &Source<'_, C>,
        front: &[u8],
        fpdu: &Fpdu,
    ) -> Result<bool, Failure> {
        let fault = |_| Failure::defect("an FPDU is shorter than it was");
        let short = || Failure::defect("the front of an FPDU is not there");
        self.budget.fpdu();
        if self.crc && !self.patience.take_checked() {
            let is_right = source.has_crc(fpdu.crc_covers(), E::crc32c);
            if !is_right.map_err(fault)? {
                return Err(TermError::MpaCrc.into());
            }
        }
        // Before it is looked into: what is wrong with it can be told (T-24).
        env.fpdu_received();
        if self.patience.is_granted() {
            let head = front.get(LEN_FIELD..).ok_or_else(short)?;
            if !self.find_recv(env, head, fpdu.ulpdu_len)? {
                self.patience.set_checked();
                return Ok(false);
            }
        }
        self.tally.add(Counter::RxFpdus, 1);
        let ulpdu_len = usize::from(fpdu.ulpdu_len);
        if let Some(send) = front.first_chunk().and_then(|f| self.rx.whole_send(f)) {
            return self.whole_send(env, source, front, send).map(|()| true);
        }
        let front = front.get(LEN_FIELD..).ok_or_else(short)?;
        let front = front.get(..FRONT_LEN.min(ulpdu_len)).ok_or_else(short)?;
        if is_enough(front) {
            return self.ulpdu(env, source, front, fpdu).map(|()| true);
        }
        let mut head = [0; HEAD_LEN];
        let head = head.get_mut(..HEAD_LEN.min(ulpdu_len));
        let head = head.ok_or_else(short)?;
        source.copy_to(LEN_FIELD, head).map_err(fault)?;
        self.ulpdu(env, source, head, fpdu).map(|()| true)
    }

    /// Takes in the ULPDU of an FPDU, given its first octets.
    fn ulpdu<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        source: &Source<'_, C>,
        head: &[u8],
        fpdu: &Fpdu,
    ) -> Result<(), Failure> {
        env.ulpdu_received(head, fpdu.ulpdu_len);
        let state = env.state();
        let segment = self.rx.segment(head, fpdu.ulpdu_len, env);
        let result = segment.map_err(Failure::from).and_then(|segment| {
            self.tally.received(&segment);
            if segment.first {
                env.first_segment();
            }
            if state == QpState::Closing && !matches!(segment.action, Action::Terminate { .. }) {
                env.data_in_closing();
                self.stopped = true;
                return Ok(());
            }
            self.act(env, source, head, &segment)
        });
        result.map_err(|failure| Failure {
            quote: Quote::new(head, fpdu.ulpdu_len),
            denied: self.rx.denied(),
            ..failure
        })
    }

    /// Does what a segment asks for.
    fn act<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        source: &Source<'_, C>,
        head: &[u8],
        segment: &Segment,
    ) -> Result<(), Failure> {
        let at = LEN_FIELD.checked_add(segment.header_len.into());
        let payload = Payload {
            source,
            at: at.ok_or_else(|| Failure::defect("a header is too long"))?,
            len: segment.payload_len.into(),
        };
        match segment.action {
            Action::Ignore => Ok(()),
            Action::Write { stag, to, .. } => {
                if payload.len > 0 {
                    env.place_write(stag, to, &payload, &mut self.budget)?;
                }
                Ok(())
            }
            Action::ReadResponse { stag, to, last } => {
                let response = env.response(stag, to, payload.len, last)?;
                self.read_response(env, &response, (stag, to), &payload)
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
                let len = self.place(env, mo, &payload)?;
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
            Action::ReadRequest { msn, request } => Ok(env.read_request(msn, request)?),
            Action::AtomicRequest { msn } => self.atomic_request(env, msn, head),
            Action::AtomicResponse(response) => self.atomic_response(env, response),
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

    /// Places a segment of a Send. Returns the octets of the message so far.
    #[inline(always)]
    fn place<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        mo: u32,
        payload: &Payload<'_, C>,
    ) -> Result<u32, Failure> {
        let Some(recv) = &self.recv else {
            return Err(TermError::UntaggedNoBuffer.into());
        };
        let end = mo.checked_add(payload.len);
        let end = end.ok_or(TermError::UntaggedTooLong)?;
        let (fault, error) = if u64::from(end) > recv.len {
            (Fault::LocalLength, TermError::UntaggedTooLong)
        } else {
            match env.place_recv(mo, payload, &mut self.budget) {
                Ok(()) => return Ok(end),
                Err(Unplaced) => (Fault::LocalProtection, TermError::LocalCatastrophic),
            }
        };
        Err(self.refuse(env, fault, error))
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

    /// Places a segment of a Read Response; completes the Read with the last one.
    fn read_response<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        response: &Response,
        (stag, to): (Stag, TaggedOffset),
        payload: &Payload<'_, C>,
    ) -> Result<(), Failure> {
        if payload.len > 0 {
            let placed = env.place_response(stag, to, payload, &mut self.budget);
            if let Err(Unplaced) = placed {
                return Err(Self::refuse_response(env, response));
            }
        }
        self.end_response(env, response)
    }

    /// Completes the Read of a segment that is placed, if it was the last one.
    fn end_response<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        response: &Response,
    ) -> Result<(), Failure> {
        if !response.complete {
            return Ok(());
        }
        let Purpose::Request {
            token,
            invalidate: true,
        } = response.entry.purpose
        else {
            env.read_done(response.entry.purpose.token());
            return Ok(());
        };
        if let Err(Unplaced) = env.invalidate_sink(response.entry.sink_stag) {
            return Err(Self::refuse_response(env, response));
        }
        self.when_quiet(env, Pending::Read(token))
    }

    /// Completes the Read of `response` in error.
    fn refuse_response<C, E: Env<C>>(env: &mut E, response: &Response) -> Failure {
        let token = response.entry.purpose.token();
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
    pub(crate) fn resume<C: Chunk, E: Env<C>>(&mut self, env: &mut E) -> bool {
        (self.pending.is_none() && self.held.is_none()) || self.resume_now::<C, E>(env)
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
        self.held.is_none() || self.resume_staged::<C, E>(env)
    }
}

/// A quote of the FPDU at octet `at` of a chunk, which goes on with a message.
fn quote<C: Chunk>(chunk: &C, at: usize, going: &Going) -> Option<Quote> {
    let front = chunk.front(at)?;
    let (len, headers) = front.split_first_chunk::<LEN_FIELD>()?;
    let header_len = match going {
        Going::Write(..) | Going::Response(..) => ddp::TAGGED_LEN,
        Going::Send { .. } => ddp::UNTAGGED_LEN,
    };
    Quote::new(headers.get(..header_len)?, u16::from_be_bytes(*len))
}
