// SPDX-License-Identifier: GPL-2.0

//! Transmission: the surroundings of `proto::sender` in the kernel, which are a TCP socket with a
//! batch in front of it, and sending the FIN when `proto::fin` says so. The FIN does not wait if
//! there was no message but that of set-up, or if the peer has closed.
//!
//! Context: process, under the QP's mutex. Nothing here waits for the peer.
#![forbid(unsafe_code)]

use super::direct::Direct;
use super::identity::QpIdentity;
use super::shared::{
    Flags,
    Shared, //
};
use super::source::Source;
use super::sq::{
    Operands,
    SqRing,
    Work, //
};
use super::stream::Stream;
use crate::ffi::hash::crc32c;
use crate::ffi::mm::page::PageSlice;
use crate::ffi::net::{
    self,
    Mark,
    TcpSocket,
    TcpState,
    TxBatch, //
};
use crate::mr::{
    By,
    FastError, //
};
use crate::num::Broken;
use crate::proto::counters::Tally;
use crate::proto::drain::{
    Stop,
    Waker, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::fin::{
    self,
    Movement,
    Step,
    FIN_WAIT_MS, //
};
use crate::proto::frame::Writer;
use crate::proto::message::Frame;
use crate::proto::reads::{
    Inbound,
    InboundReads,
    OutboundRead, //
};
use crate::proto::request::{
    Local,
    Sink, //
};
use crate::proto::sender::{
    Env,
    NotDone,
    OpenError,
    PayloadError,
    Peeked,
    Sender,
    SourceOf,
    Traced, //
};
use crate::proto::sends::{
    Record,
    Sends,
    Token, //
};
use crate::proto::setup::Params;
use crate::proto::state::QpState;
use crate::proto::transport::{
    Capacity,
    Piece,
    Refused,
    SendFlags,
    Shortage,
    Transport, //
};
use crate::proto::tuning::TX_BATCH;
use crate::wire::atomic::{
    AtomicOperation,
    AtomicRequest, //
};
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::fpdu::{
    Crc,
    MAX_FPDU, //
};
use crate::wire::terminate::TermError;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The sending side of a connection.
pub(super) struct Sending {
    sender: Sender,
    batch: TxBatch,
    source: Source,
    pub(super) fin: Fin,
    /// How far the stream was when the time-out of its end was last started.
    movement: Movement,
}

impl Sending {
    /// Makes the sending side of a new connection. With `awaits_placement`, requests complete when
    /// the peer has placed them.
    pub(super) fn new(
        id: &QpIdentity,
        params: &Params,
        emss: u32,
        awaits_placement: bool,
    ) -> Result<Self> {
        let mut sender = Sender::new(params, emss);
        if awaits_placement {
            sender.await_placement();
        }
        Ok(Self {
            sender,
            batch: batch(id)?,
            source: Source::new(id.cap.max_send_sge, id.cap.max_inline_data)?,
            fin: Fin::default(),
            movement: Movement::default(),
        })
    }

    /// Lets requests be Sends with immediate data, which the peer takes.
    pub(super) fn allow_send_immediate(&mut self) {
        self.sender.allow_send_immediate();
    }

    /// Takes note that a time-out of the end begins ([`CLOSE_TIMEOUT_MS`]).
    pub(super) fn begin_end(&mut self, stream: &Stream) {
        self.movement = Movement::begin(stream.positions());
    }

    /// Takes note that a time-out of the end has run out. Returns whether the stream has moved
    /// since that time-out began: then it is given another one.
    pub(super) fn still_moves(&mut self, stream: &Stream) -> bool {
        self.movement.goes_on(stream.positions())
    }

    /// Returns how many octets of FPDUs wait for room in the socket.
    pub(super) fn unsent(&self) -> usize {
        self.batch.remaining()
    }

    /// Returns whether a message is on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.sender.is_busy() || !self.batch.is_empty()
    }

    /// Returns whether this side may send: a responder must have heard of its peer first.
    pub(super) fn may_send(&self, flags: &Flags) -> bool {
        self.sender.may_send(flags.heard_of_peer().is_ok())
    }

    /// Returns the counts of what was sent and of calls of TCP, for the caller to take.
    pub(super) fn tally(&mut self) -> (&mut Tally, &mut u32) {
        (&mut self.sender.tally, &mut self.sender.batches.0)
    }

    /// Makes the sender send a Terminate behind what TCP or the batch has.
    pub(super) fn set_terminate(&mut self, failure: &Failure) {
        self.sender.set_terminate(failure);
    }

    /// Returns the youngest request known to be placed: see [`Sender::placed`].
    pub(super) fn placed(&self, messages: u32) -> Option<Token> {
        self.sender.placed(messages)
    }

    /// Returns whether TCP still lacks a Terminate, or a part of one.
    pub(super) fn owes_terminate(&self) -> bool {
        self.sender.owes_terminate(self.batch.is_empty())
    }

    /// Sends what there is to send, to `peer` if the other end is on this host.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        qp: &Shared,
        stream: &Arc<Stream>,
        peer: Option<&Stream>,
        ring: &mut SqRing,
        state: QpState,
        may_wait: bool,
    ) -> Stop {
        let (batch, source) = (&mut self.batch, &mut self.source);
        let mut transport = TcpTransport {
            id: &qp.id,
            stream,
            batch,
            may_wait,
            direct: peer.and_then(|end| Direct::new(end, &stream.sock)),
        };
        let mut env = SendEnv {
            qp,
            ring,
            source,
            may_wait,
        };
        let limits = qp.id.dev.tuning.sending();
        let heard = qp.flags.heard_of_peer();
        let stop = self
            .sender
            .run(&mut env, &mut transport, heard, state, limits);
        // Shutting down locks this side's socket: that of the other end must not be held meanwhile.
        drop(transport);
        if self.sender.may_finish(&stop, self.batch.is_empty()) {
            self.fin.send(&stream.sock, self.sender.has_spoken);
        }
        stop
    }
}

struct SendEnv<'a> {
    qp: &'a Shared,
    ring: &'a mut SqRing,
    source: &'a mut Source,
    may_wait: bool,
}

impl SendEnv<'_> {
    fn invalidate(&mut self, stag: Stag) -> Result<(), NotDone> {
        if !self.may_wait {
            return Err(NotDone::Later);
        }
        let mr = self.qp.id.dev.stags.lookup(stag);
        let mr = mr.ok_or(Fault::LocalOperation)?;
        let mr = self.qp.id.invalidate(mr, stag, By::Consumer);
        mr.map_err(|_| Fault::LocalProtection)?.wait_quiet();
        Ok(())
    }

    fn register(&mut self) -> Result<(), NotDone> {
        let Some(Operands::Register(registration)) = self.source.operands.take() else {
            return Err(Fault::General.into());
        };
        let mr = self.qp.id.dev.stags.lookup(Stag(registration.stag));
        let mr = mr.ok_or(Fault::LocalProtection)?;
        let registered = mr.register_fast(self.qp.id.pd.id(), registration, self.may_wait);
        registered.map_err(|error| match error {
            FastError::Busy(later) => {
                self.source.operands = Some(Operands::Register(later));
                NotDone::Later
            }
            FastError::Stag | FastError::Pd => Fault::LocalProtection.into(),
            _ => Fault::LocalOperation.into(),
        })
    }

    fn bind(&mut self) -> Result<(), NotDone> {
        if !self.may_wait {
            return Err(NotDone::Later);
        }
        let Some(Operands::Bind(binding)) = &self.source.operands else {
            return Err(Fault::General.into());
        };
        let find = |stag| self.qp.id.dev.stags.lookup(Stag(stag)).ok_or(Fault::Bind);
        let mr = find(binding.window)?;
        // A window of type 1 that is bound to no octets needs no region.
        let region = self.qp.id.dev.stags.lookup(Stag(binding.region));
        let window = mr.window().ok_or(Fault::Bind)?;
        let bound = window.bind(mr.stag(), binding, region, self.qp.id.party());
        bound.map_err(|_| Fault::Bind.into())
    }
}

impl<'l> Env<TcpTransport<'l>> for SendEnv<'_> {
    type Work = Work;
    type Records = KVVec<Record<Work, Fault>>;
    type Outbound = KVec<OutboundRead>;
    type Inbound = KVec<Inbound>;

    fn peek(&mut self) -> Option<Peeked<TcpTransport<'l>, Self>> {
        let Source { sgl, operands, .. } = self.source;
        let peeked = self.ring.peek(sgl, operands);
        if let Some(Ok(request)) = &peeked {
            self.source.is_inline = request.is_inline;
        }
        peeked
    }

    #[inline(always)]
    fn consume(&mut self) {
        self.ring.consume();
    }

    fn operands(&self) -> Option<AtomicOperation> {
        match &self.source.operands {
            Some(Operands::Atomic(operation)) => Some(*operation),
            _ => None,
        }
    }

    fn sink(&self) -> Result<Option<Sink>, Fault> {
        let Some(sge) = self.source.sgl.elements().first() else {
            return Ok(None);
        };
        let (stag, len) = (Stag(sge.lkey), sge.length);
        if len > 0 {
            let access = self.qp.id.access_sink(stag, sge.laddr, len);
            access.map_err(|_| Fault::LocalProtection)?;
        }
        let to = TaggedOffset(sge.laddr);
        Ok(Some(Sink { stag, to, len }))
    }

    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R {
        f(&mut self.qp.sq.lock())
    }

    fn with_inbound<R>(
        &self,
        f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> Option<R>,
    ) -> Option<R> {
        // Mostly the peer has no requests here, so the lock need not be taken.
        if self.qp.inbound.word() == 0 {
            return None;
        }
        f(&mut self.qp.inbound.lock())
    }

    fn done(&mut self, tokens: &[Token]) {
        self.qp.sends_done(tokens);
    }

    fn fail(&mut self, token: Token, fault: Fault) -> bool {
        self.qp.fail_send(token, fault)
    }

    fn perform(&mut self, operation: Local) -> Result<(), NotDone> {
        match operation {
            Local::Invalidate { stag } => self.invalidate(stag),
            Local::Register => self.register(),
            Local::Bind => self.bind(),
        }
    }

    fn change_word(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        self.qp.id.change_word(request)
    }

    #[inline(always)]
    fn open(&mut self, source: SourceOf<'_>) -> Result<(), OpenError> {
        self.source.open(&self.qp.id, source)
    }

    fn close(&mut self) {
        self.source.close();
    }

    fn payload(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, TcpTransport<'l>>,
    ) -> Result<(), PayloadError> {
        self.source.write(offset, len, writer)
    }

    #[inline]
    fn hand_over(
        &self,
        transport: &mut TcpTransport<'l>,
        front: &[u8],
        frame: &Frame,
    ) -> Result<(), PayloadError> {
        let direct = transport.direct.as_mut().ok_or(PayloadError::Broken)?;
        direct.hand_over(self.source, front, frame)
    }

    #[inline(always)]
    fn trace(&self, what: Traced<'_>) {
        match what {
            Traced::Fpdus {
                message,
                frame,
                count,
            } => self.qp.id.trace_fpdus(message, frame, count),
            Traced::Terminate(message) => self.qp.id.trace_terminate(message),
        }
    }
}

/// The most chunks of a batch, which it needs if each is a page. The last FPDU may go beyond
/// [`TX_BATCH`], with markers, and the first and last chunk may be used in part.
const BATCH_CHUNKS: usize = (TX_BATCH.range.1 as usize + MAX_FPDU + MAX_FPDU / 128) / PAGE_SIZE + 2;

/// Makes an empty batch.
pub(super) fn batch(id: &QpIdentity) -> Result<TxBatch> {
    TxBatch::new(id.dev.chunks.clone(), BATCH_CHUNKS)
}

pub(super) struct TcpTransport<'a> {
    pub(super) id: &'a QpIdentity,
    pub(super) stream: &'a Arc<Stream>,
    pub(super) batch: &'a mut TxBatch,
    /// Whether the caller may wait for memory, for the socket and for those who use a region.
    pub(super) may_wait: bool,
    /// Set if the other end of the connection is on this host.
    pub(super) direct: Option<Direct<'a>>,
}

impl Transport for TcpTransport<'_> {
    type Mark = Mark;

    #[inline]
    fn is_direct(&self) -> bool {
        // TCP has to take the rest of an earlier batch first.
        self.direct.is_some() && self.batch.is_empty()
    }

    fn has_placed(&self) -> bool {
        let direct = self.direct.as_ref();
        direct.is_some_and(|direct| !direct.has_stopped())
    }

    #[inline]
    fn prepare(&mut self, front: &[u8]) -> Result<bool, Stop> {
        let Some(direct) = &mut self.direct else {
            return Ok(false);
        };
        let answer = direct.prepare(front);
        self.id.trace_direct(|| direct.peer(), &answer);
        if matches!(answer, Ok(false)) {
            self.direct = None;
        }
        answer
    }

    #[inline]
    fn capacity(&self) -> Capacity {
        if self.is_direct() {
            return Capacity {
                segment_size: u32::MAX,
                space: usize::MAX,
            };
        }
        Capacity {
            segment_size: self.stream.sock.mss(),
            space: self.stream.sock.send_space(),
        }
    }

    fn unsent(&self) -> usize {
        let direct = self.direct.as_ref().map_or(0, Direct::len);
        self.batch.remaining().saturating_add(direct)
    }

    #[inline(always)]
    fn reserve(&mut self, len: u32) -> Result<(), Shortage> {
        let reserved = self.batch.reserve(len, self.may_wait);
        reserved.map_err(|error| match error == ENOMEM {
            true => Shortage::Memory,
            false => Shortage::Room,
        })
    }

    fn starve(&mut self) -> Stop {
        match self.may_wait {
            true => self.stream.starve().into(),
            false => Stop::Again,
        }
    }

    #[inline]
    fn mark(&self) -> Mark {
        self.batch.mark()
    }

    fn truncate(&mut self, mark: Mark) -> Result<(), Broken> {
        self.batch.truncate(mark).map_err(|_| {
            self.batch.clear();
            Broken
        })
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Broken> {
        self.batch.push_bytes(octets).map_err(|_| Broken)
    }

    #[inline(always)]
    fn put_with<R, E: From<Broken>>(
        &mut self,
        len: u32,
        count: u32,
        write: impl FnOnce(&mut [u8]) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let room = self.batch.piece(len, count)?;
        let octets = room.len();
        Some(write(room).and_then(|written| {
            let octets = u32::try_from(octets).map_err(|_| Broken)?;
            self.batch.commit(octets).map_err(|_| Broken)?;
            Ok(written)
        }))
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn crc_since(&self, mark: Mark) -> Result<Crc, Broken> {
        let octets = self.batch.since(mark).map_err(|_| Broken)?;
        Ok(octets.fold(Crc::new(), |crc, octets| crc.update(crc32c, octets)))
    }

    fn send(&mut self, how: SendFlags) -> Result<Stop, Refused> {
        if let Some(direct) = &mut self.direct {
            // TCP works on this side's socket now: the socket of the other end must not be held
            // meanwhile.
            direct.let_go();
            if self.batch.is_empty() {
                return Ok(Stop::Empty);
            }
        }
        let SendFlags { more, eor, cut } = how;
        let flags = net::SendFlags { more, eor, cut };
        let octets = self.batch.remaining();
        let sent = match self.may_wait {
            true => self.stream.sock.send_batch(self.batch, flags),
            false => self.stream.sock.send_batch_at_once(self.batch, flags),
        };
        self.id.trace_batch(octets, self.batch.remaining(), sent);
        let error = match sent {
            Ok(_) if self.batch.is_empty() => return Ok(Stop::Empty),
            // TCP sets the mark where it finds no room (`SOCK_NOSPACE`).
            Ok(_) => return Ok(Waker::Socket.mark(|| {}).into()),
            // If this run may not wait, a run that may wait tries again. It finds the same error.
            Err(e) if !self.may_wait && e != EIO => return Ok(Stop::Again),
            Err(e) if e == ENOBUFS => return Ok(self.starve()),
            Err(e) => e,
        };
        self.batch.clear();
        // The connection has to end, if it has not yet. The socket's callbacks report that.
        if self.stream.sock.state() != TcpState::Closed {
            self.id.log_peer(fmt!("TCP does not send: {error:?}"));
        }
        Err(Refused(Waker::Socket.mark(|| self.stream.sock.abort())))
    }
}

impl Piece<TcpTransport<'_>> for PageSlice<'_> {
    #[inline]
    fn len(&self) -> u32 {
        PageSlice::len(self)
    }

    #[inline]
    fn take_front(&mut self, len: u32) -> Self {
        PageSlice::take_front(self, len)
    }

    fn put(&self, transport: &mut TcpTransport<'_>) -> Result<(), Broken> {
        transport.batch.push_pages(self).map_err(|_| Broken)
    }

    #[inline]
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Broken> {
        self.copy_out(out).map_err(|_| Broken)
    }
}

/// How long each of Draining, Closing and Terminate may last, in milliseconds. The first two may
/// last several times as long: see [`Movement`] (V-ST-18, V-ST-35).
pub(super) const CLOSE_TIMEOUT_MS: u32 = 5_000;

/// This side's FIN.
#[derive(Default)]
pub(super) struct Fin {
    state: fin::Fin,
    timer: Option<u32>,
}

impl Fin {
    /// Asks for a FIN behind all that was sent.
    pub(super) fn want(&mut self) {
        self.state.want();
    }

    pub(super) fn is_sent(&self) -> bool {
        self.state == fin::Fin::Sent
    }

    /// Sends the FIN if it is wanted; TCP has all that is in front of it. If this side
    /// `has_spoken`, the FIN waits until the peer has acknowledged all that, or the timer has run
    /// out.
    #[inline(always)]
    pub(super) fn send(&mut self, sock: &TcpSocket, has_spoken: bool) {
        if self.state.is_due() {
            let step = self.state.step(!has_spoken || sock.may_finish());
            self.carry_out(step, sock);
        }
    }

    fn carry_out(&mut self, step: Option<Step>, sock: &TcpSocket) {
        match step {
            Some(Step::Wait) => self.timer = Some(FIN_WAIT_MS),
            Some(Step::Send { has_waited, anyway }) => {
                if anyway {
                    sock.shutdown_write();
                }
                let is_sent = anyway || sock.try_shutdown_write();
                self.timer = match self.state.answer(is_sent) {
                    Some(_) => Some(FIN_WAIT_MS),
                    None => has_waited.then_some(CLOSE_TIMEOUT_MS),
                };
            }
            None => {}
        }
    }

    /// Returns the milliseconds after which the QP's timer is to run out, once for each
    /// [`Fin::send`] or [`Fin::expired`] that needs it.
    #[inline]
    pub(super) fn take_timer(&mut self) -> Option<u32> {
        self.timer.take()
    }

    /// Sends a FIN that waits, as the timer ran out. Returns whether there was one; then the timer
    /// is to be set anew. Once the FIN is sent, the timer gives the peer [`CLOSE_TIMEOUT_MS`].
    pub(super) fn expired(&mut self, sock: &TcpSocket) -> bool {
        let step = self.state.expired();
        self.carry_out(step, sock);
        step.is_some()
    }
}
