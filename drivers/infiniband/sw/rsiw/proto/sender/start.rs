// SPDX-License-Identifier: GPL-2.0

//! Starts the requests of the send queue: fences, ORD, and errors that are known from the start
//! (RFC 5040 section 5.4 and draft-hilland-rddp-verbs section 8.2.2: V-FNC, V-RD, V-WC). Also
//! starts what nobody has posted: the answers to requests, and the first message of a peer-to-peer
//! connection. And keeps what ends with a batch: requests complete once TCP, or the other end on
//! this host, has all of it; by then the slots of the peer's requests are free.
//!
//! An Atomic Operation of the peer (RFC 7306 section 5) is carried out when it is the oldest
//! request of the peer that is not answered. So these operations are carried out in the order of
//! the requests, and only when what Reads in front of them have read is in the batch (X-ATM-14).
//! The response is the next message then.
//!
//! On one host, segments are handed to the other end instead of being put into a batch: see
//! `proto::transport`. A Terminate still goes through TCP, and arrives behind what was handed over,
//! as the other end has taken that in already.
//!
//! Context: under the lock of the sender.
#![forbid(unsafe_code)]

use super::{
    Current,
    Env,
    Framer,
    NotDone,
    Origin,
    PayloadError,
    Sender,
    Traced, //
};
use crate::num::Broken;
use crate::proto::drain::{
    Marked,
    Stop, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::message::{
    may_start,
    Kind,
    Messages,
    Rtr,
    MAX_HEADER, //
};
use crate::proto::reads::{
    Inbound,
    InboundRead,
    InboundReads,
    OutboundRead, //
};
use crate::proto::request::{
    BadRequest,
    Local,
    Operation,
    Request,
    Sink, //
};
use crate::proto::ring::Full;
use crate::proto::sends::{
    Record,
    Sends,
    Token, //
};
use crate::proto::transport::Transport;
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse,
    WORD_LEN, //
};
use crate::wire::ddp::{
    Msn,
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use core::num::Saturating;
use core::ops::DerefMut;

/// The sink that an empty Read names: nobody checks it, but some adapters refuse zero.
const NO_SINK: Stag = Stag(1);

/// How many local operations one run carries out at most. They send nothing, so that TCP never
/// stops them, and the process that posts them can add others meanwhile.
pub(super) const MOST_LOCAL: Saturating<u32> = Saturating(128);

pub(super) struct Now {
    /// TCP has all there was to send.
    pub(super) is_flushed: bool,
    /// The other end of the connection takes segments without TCP. This side holds it from the
    /// first segment until all is flushed, and must not wait for anything then.
    pub(super) is_direct: bool,
    /// Whether anything may be sent to the peer. Local operations do not wait for that.
    pub(super) may_send: Result<(), Marked>,
    /// The peer takes Sends with immediate data.
    pub(super) has_send_immediate: bool,
}

/// Makes the oldest request the current message, if it may start. Local operations in front of it
/// are carried out, as many as `locals` leaves to this run. Stops with [`Stop::Again`] at a request
/// that has to come behind a flush, or is left to another run.
pub(super) fn next_request<T: Transport, E: Env<T>>(
    env: &mut E,
    messages: &mut Messages,
    now: &Now,
    locals: &mut Saturating<u32>,
    current: &mut Option<Current>,
) -> Result<(), Stop> {
    loop {
        let request = match env.peek() {
            None => return Err(Stop::Empty),
            Some(Ok(request)) => request,
            Some(Err(BadRequest { work, fault })) => {
                env.with_sends(Sends::room)?;
                return Err(fail_new(env, work, fault).into());
            }
        };
        if !request.operation.is_local() {
            now.may_send?;
        } else if locals.0 == 0 {
            return Err(Stop::Again);
        } else {
            *locals -= 1;
        }
        let sink = match request.operation {
            Operation::Read { invalidate, .. } => Some(read_sink(env, invalidate)),
            Operation::Atomic { .. } => Some(sink(env)),
            _ => None,
        };
        let token = match env.with_sends(|sends| begin(sends, &request, sink, now))? {
            Ok(token) => token,
            Err(fault) => return Err(fail_new(env, request.work, fault).into()),
        };
        if let Operation::Local(operation) = request.operation {
            carry_out(env, token, operation)?;
            continue;
        }
        env.consume();
        return Ok(make_current(env, messages, &request, sink, token, current)?);
    }
}

/// Carries out a local operation that has begun, and completes it. Stops with [`Stop::Again`] if it
/// is left to another run; then it has not begun after all.
fn carry_out<T: Transport, E: Env<T>>(
    env: &mut E,
    token: Token,
    operation: Local,
) -> Result<(), Stop> {
    // Memory that is open is let go of first: whoever waits for its users must not be one of them.
    env.close();
    let result = match env.perform(operation) {
        Ok(()) => Ok(()),
        Err(NotDone::Fault(fault)) => Err(fault),
        Err(NotDone::Later) => {
            let is_undone = env.with_sends(|sends| sends.take_back(token));
            let defect = || Failure::defect("the youngest request is not the youngest");
            return Err(is_undone.then_some(Stop::Again).ok_or_else(defect)?);
        }
    };
    env.consume();
    Ok(finish(env, token, result)?)
}

/// Makes a request that has begun the current message, as it is to be sent. `sink` is the sink of a
/// Read or Atomic Operation.
#[inline(always)]
fn make_current<T: Transport, E: Env<T>>(
    env: &E,
    messages: &mut Messages,
    request: &Request<E::Work>,
    sink: Option<Result<(Stag, TaggedOffset), Fault>>,
    token: Token,
    current: &mut Option<Current>,
) -> Result<(), Failure> {
    let solicited = request.solicited;
    let mut origin = Origin::Request(token);
    let mut then = None;
    let kind = match request.operation {
        Operation::Read { stag, to, .. } => {
            let Some(Ok((sink_stag, sink_to))) = sink else {
                return Err(Failure::defect("a Read began without its sink"));
            };
            // The request completes with its response, as an Atomic Operation does.
            origin = Origin::Bare;
            Kind::ReadRequest(ReadRequest {
                sink_stag,
                sink_to,
                len: request.len,
                source_stag: stag,
                source_to: to,
            })
        }
        Operation::Atomic { stag, to, .. } => {
            origin = Origin::Bare;
            atomic_request(env, messages, stag, to)?
        }
        Operation::Send { invalidate } => Kind::Send {
            solicited,
            invalidate,
        },
        Operation::SendImmediate { data } => Kind::SendImmediate { solicited, data },
        Operation::Write {
            immediate: Some(data),
            ..
        } if request.len == 0 => Kind::Immediate { data, solicited },
        Operation::Write {
            stag,
            to,
            immediate,
        } => {
            then = immediate.map(|data| (data, solicited));
            Kind::Write { stag, to }
        }
        Operation::Local(_) => {
            return Err(Failure::defect("a local operation has no message"));
        }
    };
    *current = Some(Current {
        message: messages.message(kind, request.len),
        then,
        origin,
    });
    Ok(())
}

/// Takes out a request that cannot begin, and completes it in error.
#[cold]
fn fail_new<T: Transport, E: Env<T>>(env: &mut E, work: E::Work, fault: Fault) -> Failure {
    env.consume();
    let token = env.with_sends(|sends| sends.push(work));
    Failure::of_request(token.is_ok_and(|token| env.fail(token, fault)))
}

/// Records a request as under way, if it may start. Returns its token, or what is wrong with it.
fn begin<W, S, O>(
    sends: &mut Sends<S, O>,
    request: &Request<W>,
    sink: Option<Result<(Stag, TaggedOffset), Fault>>,
    now: &Now,
) -> Result<Result<Token, Fault>, Stop>
where
    W: Copy,
    S: DerefMut<Target = [Record<W, Fault>]>,
    O: DerefMut<Target = [OutboundRead]>,
{
    sends.room()?;
    let operation = &request.operation;
    let earlier = !sends.is_empty();
    let reads = sends.outbound.outstanding();
    match may_start(operation, request.fence, reads, sends.ord, earlier) {
        Ok(false) => return Err(sends.stall().into()),
        Err(fault) => return Ok(Err(fault)),
        // The region may still be read for requests in front of this one.
        Ok(true) if !now.is_flushed && operation.takes_back() => return Err(Stop::Again),
        Ok(true) if !now.is_flushed && now.is_direct && operation.is_local() => {
            return Err(Stop::Again);
        }
        Ok(true) => {}
    }
    // STag 0 is nobody's, so the peer need not be asked (V-STAG0-8).
    if matches!(operation, Operation::Write { stag: Stag(0), .. }) && request.len > 0 {
        return Ok(Err(Fault::LocalProtection));
    }
    // The peer could not tell its consumer of the data.
    if matches!(operation, Operation::SendImmediate { .. }) && !now.has_send_immediate {
        return Ok(Err(Fault::LocalOperation));
    }
    if let Some(Err(fault)) = sink {
        return Ok(Err(fault));
    }
    let no_room = |_| Failure::from(TermError::LocalCatastrophic);
    let token = match operation {
        Operation::Send { .. } | Operation::SendImmediate { .. } | Operation::Write { .. } => {
            sends.push_message(request.work)
        }
        _ => sends.push(request.work),
    };
    let token = token.map_err(no_room)?;
    if let Some(Ok((sink_stag, sink_to))) = sink {
        let entry = OutboundRead {
            sink_stag,
            sink_to,
            len: request.len,
            token: Some(token),
            places: Some(token),
            is_atomic: matches!(operation, Operation::Atomic { .. }),
            invalidate: matches!(
                operation,
                Operation::Read {
                    invalidate: true,
                    ..
                }
            ),
        };
        sends.outbound.push(entry).map_err(no_room)?;
    }
    Ok(Ok(token))
}

/// Returns the sink of a Read. If it is used, this side must be allowed to write it (T-22).
fn read_sink<T: Transport, E: Env<T>>(
    env: &E,
    invalidate: bool,
) -> Result<(Stag, TaggedOffset), Fault> {
    let is_used = |sink: &Sink| sink.len > 0 || invalidate;
    let sink = env.sink()?.filter(is_used);
    Ok(sink.map_or((NO_SINK, TaggedOffset(0)), |sink| (sink.stag, sink.to)))
}

fn finish<T: Transport, E: Env<T>>(
    env: &mut E,
    token: Token,
    result: Result<(), Fault>,
) -> Result<(), Failure> {
    match result {
        Ok(()) => {
            env.done(&[token]);
            Ok(())
        }
        Err(fault) => Err(Failure::of_request(env.fail(token, fault))),
    }
}

impl Sender {
    /// Makes the first message of a peer-to-peer connection (RFC 6581 section 9.2).
    pub(super) fn ready_to_receive<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
        rtr: Rtr,
    ) -> Result<Current, Failure> {
        let kind = rtr.kind();
        if let Kind::ReadRequest(request) = kind {
            let entry = OutboundRead {
                sink_stag: request.sink_stag,
                sink_to: request.sink_to,
                ..OutboundRead::default()
            };
            let pushed = env.with_sends(|sends| sends.outbound.push(entry));
            pushed.map_err(|_| TermError::LocalCatastrophic)?;
        }
        Ok(Current {
            message: self.messages.message(kind, 0),
            then: None,
            origin: Origin::Bare,
        })
    }

    /// Makes a Read the current message that asks whether the peer has placed what was sent up to
    /// `token`, unless that is known or another Read will tell. Returns whether there is such a
    /// Read. If it may not begin yet, the sender waits for that if `waits` is set, and else asks
    /// later.
    pub(super) fn ask_placement<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
        token: Token,
        waits: bool,
    ) -> Result<bool, Marked> {
        let read = OutboundRead {
            sink_stag: NO_SINK,
            ..OutboundRead::default()
        };
        let asked = env.with_sends(|sends| match sends.ask(token, read) {
            Ok(is_asked) => Ok(Some(is_asked)),
            Err(Full) if waits => Err(sends.stall()),
            Err(Full) => Ok(None),
        })?;
        let Some(is_asked) = asked else {
            return Ok(false);
        };
        self.unasked.ask();
        if is_asked {
            let request = ReadRequest {
                sink_stag: NO_SINK,
                sink_to: TaggedOffset(0),
                len: 0,
                source_stag: NO_SINK,
                source_to: TaggedOffset(0),
            };
            self.current = Some(Current {
                message: self.messages.message(Kind::ReadRequest(request), 0),
                then: None,
                origin: Origin::Bare,
            });
        }
        Ok(is_asked)
    }

    /// Asks the peer what it has placed, if something was sent that it was not asked about. This is
    /// for the turn of a send queue that has nothing to send. If the question may not begin yet, it
    /// is asked in a later turn.
    #[inline(always)]
    pub(super) fn asks_in_turn<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
    ) -> Result<bool, Marked> {
        match self.unasked.youngest() {
            Some(token) => self.ask_placement(env, token, false),
            None => Ok(false),
        }
    }

    /// Makes the answer to the peer's oldest request the current message, if there is a request.
    /// Returns whether there is one. Fails for an Atomic Operation that the peer may not carry out.
    #[inline(always)]
    pub(super) fn next_response<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
    ) -> Result<bool, Failure> {
        let (msn, request) = match env.with_inbound(|inbound| inbound.front()) {
            None => return Ok(false),
            Some(Inbound::Atomic(msn, request)) => {
                self.perform_atomic(env, msn, &request)?;
                return Ok(true);
            }
            Some(Inbound::Read(InboundRead { msn, request })) => (msn, request),
        };
        let kind = Kind::ReadResponse(request);
        self.current = Some(Current {
            message: self.messages.message(kind, request.len),
            then: None,
            origin: Origin::Peer(msn),
        });
        Ok(true)
    }
}

/// Returns the request for an Atomic Operation of ours on the word at `to` of `stag`.
#[inline(never)]
pub(super) fn atomic_request<T: Transport, E: Env<T>>(
    env: &E,
    messages: &Messages,
    stag: Stag,
    to: TaggedOffset,
) -> Result<Kind, Failure> {
    let operation = env.operands();
    let operation = operation.ok_or_else(|| Failure::defect("no operands are there"))?;
    // The number identifies the request, as no other one under way has it.
    let (_, Msn(id)) = messages.next();
    Ok(Kind::AtomicRequest(AtomicRequest {
        id,
        stag,
        to,
        operation,
    }))
}

/// Returns where the result of an Atomic Operation of ours goes, if this side may write it.
#[inline(never)]
pub(super) fn sink<T: Transport, E: Env<T>>(env: &E) -> Result<(Stag, TaggedOffset), Fault> {
    let is_word = |sink: &Sink| sink.len == WORD_LEN;
    let sink = env.sink()?.filter(is_word).ok_or(Fault::LocalProtection)?;
    Ok((sink.stag, sink.to))
}

impl Sender {
    /// Carries out the peer's oldest request, an Atomic Operation with the number `msn`, and makes
    /// the answer the current message. Fails if the peer may not do that.
    #[inline(never)]
    pub(super) fn perform_atomic<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        msn: Msn,
        request: &AtomicRequest,
    ) -> Result<(), Failure> {
        let original = env.change_word(request).map_err(|error| Failure {
            quote: Some(Quote::atomic_request(msn)),
            ..error.into()
        })?;
        let id = request.id;
        let kind = Kind::AtomicResponse(AtomicResponse { id, original });
        self.current = Some(Current {
            message: self.messages.message(kind, 0),
            then: None,
            origin: Origin::Peer(msn),
        });
        Ok(())
    }
}

/// The most requests that may end with one batch.
const BATCH_ENDS: usize = 128;

/// The requests whose last octet is in the batch.
#[derive(Debug)]
pub(super) struct Ends {
    tokens: [Token; BATCH_ENDS],
    len: Saturating<usize>,
}

impl Ends {
    pub(super) const fn new() -> Self {
        Self {
            tokens: [Token(0); BATCH_ENDS],
            len: Saturating(0),
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len.0 >= BATCH_ENDS
    }

    /// Adds a request. Returns whether there was room.
    pub(super) fn push(&mut self, token: Token) -> bool {
        let Some(slot) = self.tokens.get_mut(self.len.0) else {
            return false;
        };
        *slot = token;
        self.len += 1;
        true
    }

    pub(super) fn tokens(&self) -> &[Token] {
        self.tokens.get(..self.len.0).unwrap_or(&self.tokens)
    }

    pub(super) fn clear(&mut self) {
        self.len.0 = 0;
    }
}

/// Frees the slot of the peer's Read or Atomic Operation that is answered. Call this before the
/// peer can have all of the response, as its next request may come then. Fails if it is not the
/// oldest one.
pub(super) fn end_response<T: Transport, E: Env<T>>(env: &E, msn: Msn) -> Result<(), Failure> {
    if env.with_inbound(InboundReads::pop) != Some(msn) {
        return Err(Failure::defect("a request that is answered was not there"));
    }
    Ok(())
}

impl Framer {
    /// Hands over the next segment of a message that is open. Returns whether the other end has
    /// taken it; if not, TCP has to carry it.
    #[inline]
    pub(super) fn hand_over<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
        transport: &mut T,
        current: &mut Current,
    ) -> Result<bool, Stop> {
        let message = &current.message;
        let frame = message.frame(self.mulpdu);
        let frame = frame.map_err(|Broken| Failure::defect("a message has no segment"))?;
        let mut front = [0; MAX_HEADER];
        let no_room = || Failure::defect("a header has no room");
        let front = front.get_mut(..frame.header_len).ok_or_else(no_room)?;
        if !message.put_header(&frame, front) {
            return Err(no_room().into());
        }
        if !transport.prepare(front)? {
            return Ok(false);
        }
        if let (true, Origin::Peer(msn)) = (frame.last, current.origin) {
            end_response(env, msn)?;
            current.origin = Origin::Answered;
        }
        let handed = env.hand_over(transport, front, &frame);
        handed.map_err(|error| match error {
            PayloadError::NoMemory => Failure::from(TermError::LocalCatastrophic),
            PayloadError::Broken => Failure::defect("a segment is not what its header says"),
        })?;
        env.trace(Traced::Fpdus {
            message: &current.message,
            frame: &frame,
            count: 1,
        });
        let advanced = current.message.advance(&frame, 1);
        advanced.map_err(|Broken| Failure::defect("a message has no such segment"))?;
        Ok(true)
    }
}
