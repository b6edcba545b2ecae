// SPDX-License-Identifier: GPL-2.0

//! Transmission: the surroundings of `proto::sender` in the kernel.
//!
//! Context: process, under the QP's mutex. Nothing here waits for the peer.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    direct::Direct,
    fin::Fin,
    source::Source,
    sq::{
        Operands,
        SqRing,
        Work, //
    },
    stream::Stream,
    transport::{
        self,
        TcpTransport, //
    },
};
use crate::{
    ffi::net::TxBatch,
    mr::{
        fast::FastError,
        By, //
    },
    proto::{
        counters::Tally,
        drain::{
            Marked,
            Stop, //
        },
        failure::{
            Failure,
            Fault, //
        },
        frame::Writer,
        order::{
            Record,
            Token, //
        },
        reads::{
            Inbound,
            InboundReads,
            OutboundRead, //
        },
        request::Sink,
        sender::{
            Atomics,
            Env,
            NotDone,
            OpenError,
            PayloadError,
            Peeked,
            Sender, //
        },
        sends::Sends,
        setup::Params,
        state::QpState,
        tx::{
            Frame,
            Message, //
        },
    },
    wire::{
        atomic::{
            AtomicOperation,
            AtomicRequest, //
        },
        ddp::{
            Stag,
            TaggedOffset, //
        },
        rdmap::ReadRequest,
        terminate::{
            TermError,
            Terminate, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The sending side of a connection.
pub(super) struct TxState {
    sender: Sender,
    batch: TxBatch,
    source: Source,
    pub(super) fin: Fin,
}

impl TxState {
    pub(super) fn new(qp: &Base, params: &Params, emss: u32) -> Result<Self> {
        Ok(Self {
            sender: Sender::new(params, emss),
            batch: transport::batch(qp)?,
            source: Source::new(qp.cap.max_send_sge, qp.cap.max_inline_data)?,
            fin: Fin::default(),
        })
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
    pub(super) fn may_send(&self, qp: &Base) -> bool {
        self.sender.may_send(qp.heard_of_peer().is_ok())
    }

    /// Returns the counts of what was sent and of calls of TCP, for the caller to take.
    pub(super) fn tally(&mut self) -> (&mut Tally, &mut u32) {
        (&mut self.sender.tally, &mut self.sender.batches)
    }

    /// Has a Terminate sent behind what TCP or the batch has.
    pub(super) fn set_terminate(&mut self, failure: &Failure) {
        self.sender.set_terminate(failure);
    }

    /// Returns whether TCP has not got all of a Terminate.
    pub(super) fn owes_terminate(&self) -> bool {
        self.sender.owes_terminate(self.batch.is_empty())
    }

    /// Sends what there is to send, to `peer` if the other end is on this host.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        qp: &Base,
        stream: &Arc<Stream>,
        peer: Option<&Stream>,
        ring: &mut SqRing,
        state: QpState,
        may_wait: bool,
    ) -> Stop {
        let (batch, source) = (&mut self.batch, &mut self.source);
        let mut transport = TcpTransport {
            qp,
            stream,
            batch,
            may_wait,
            direct: peer.and_then(|end| Direct::new(end, &stream.sock)),
        };
        let mut env = SendEnv {
            qp,
            ring,
            source,
            fin: &mut self.fin,
            may_wait,
        };
        let limits = qp.dev.tuning.sending();
        self.sender.run(&mut env, &mut transport, state, limits)
    }
}

struct SendEnv<'a> {
    qp: &'a Base,
    ring: &'a mut SqRing,
    source: &'a mut Source,
    fin: &'a mut Fin,
    may_wait: bool,
}

impl Atomics for SendEnv<'_> {
    fn operands(&self) -> Option<AtomicOperation> {
        match &self.source.operands {
            Some(Operands::Atomic(operation)) => Some(*operation),
            _ => None,
        }
    }

    fn change_word(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        self.qp.change_word(request)
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

    fn sink(&self) -> Option<Sink> {
        let sge = self.source.sgl.elements().first()?;
        Some(Sink {
            stag: Stag(sge.lkey),
            to: TaggedOffset(sge.laddr),
            len: sge.length,
        })
    }

    fn may_write(&self, sink: &Sink) -> bool {
        let access = self.qp.access_sink(sink.stag, sink.to.0, sink.len);
        access.is_ok()
    }

    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R {
        f(&mut self.qp.sq.lock())
    }

    fn oldest_inbound(&self) -> Option<Inbound> {
        // Mostly there are none: the lock is not taken in vain.
        if self.qp.inbound.word() == 0 {
            return None;
        }
        self.qp.inbound.lock().front()
    }

    fn with_inbound<R>(&self, f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> R) -> R {
        f(&mut self.qp.inbound.lock())
    }

    fn done(&mut self, tokens: &[Token]) {
        self.qp.sends_done(tokens);
    }

    fn fail(&mut self, token: Token, fault: Fault) -> bool {
        self.qp.fail_send(token, fault)
    }

    fn fail_new(&mut self, work: Work, fault: Fault) -> bool {
        self.qp.fail_new_send(work, fault)
    }

    fn invalidate(&mut self, stag: Stag) -> Result<(), NotDone> {
        if !self.may_wait {
            return Err(NotDone::Later);
        }
        let mr = self.qp.dev.stags.lookup(stag);
        let mr = mr.ok_or(Fault::LocalOperation)?;
        let mr = self.qp.invalidate(mr, stag, By::Consumer);
        mr.map_err(|_| Fault::LocalProtection)?.wait_quiet();
        Ok(())
    }

    fn register(&mut self) -> Result<(), NotDone> {
        let Some(Operands::Register(registration)) = self.source.operands.take() else {
            return Err(Fault::General.into());
        };
        let mr = self.qp.dev.stags.lookup(Stag(registration.stag));
        let mr = mr.ok_or(Fault::LocalProtection)?;
        let registered = mr.register_fast(self.qp.pd.id(), registration, self.may_wait);
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
        let find = |stag| self.qp.dev.stags.lookup(Stag(stag)).ok_or(Fault::Bind);
        let mr = find(binding.window)?;
        // A window of type 1 that is bound to no octets needs no region.
        let region = self.qp.dev.stags.lookup(Stag(binding.region));
        let window = mr.window().ok_or(Fault::Bind)?;
        let bound = window.bind(mr.stag(), binding, region, self.qp.party());
        bound.map_err(|_| Fault::Bind.into())
    }

    #[inline(always)]
    fn open_request(&mut self) -> Result<(), OpenError> {
        self.source.open_request(self.qp)
    }

    fn open_source(&mut self, request: &ReadRequest) -> Result<(), TermError> {
        self.source.open_source(self.qp, request)
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

    fn heard_of_peer(&self) -> Result<(), Marked> {
        self.qp.heard_of_peer()
    }

    #[inline(always)]
    fn fpdus_made(&self, message: &Message, frame: &Frame, count: u32) {
        self.qp.trace_fpdus(message, frame, count);
    }

    fn terminate_made(&self, message: &Terminate) {
        self.qp.trace_terminate(message);
    }

    #[inline(always)]
    fn finish(&mut self, transport: &mut TcpTransport<'l>, has_spoken: bool) {
        self.fin.send(&transport.stream.sock, has_spoken);
    }
}
