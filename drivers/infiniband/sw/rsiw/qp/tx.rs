// SPDX-License-Identifier: GPL-2.0

//! Transmission: requests and Read Responses into batches of FPDUs, batches into TCP.
//!
//! As many FPDUs as fit are copied into a batch and handed to TCP in one call: the consumer's memory
//! is free again when its request completes (T-19), and no region is kept from its owner while the
//! peer is awaited (T-20). Read Responses have their own way out (T-47); they take turns with the
//! send queue, message by message.
//!
//! Context: process, under the QP's mutex. Nothing here waits: what TCP does not take stays in the
//! batch until there is space.
#![forbid(unsafe_code)]

use super::{
    failure::{
        defect,
        remote,
        Failure, //
    },
    fin::Fin,
    frame::Writer,
    outgoing::{
        Origin,
        Outgoing, //
    },
    sq::SqRing,
    start::{
        self,
        Next,
        Now, //
    },
    Qp, //
};
use crate::{
    ffi::{
        log::pr_ratelimited,
        net::{
            SendFlags,
            TcpSocket,
            TcpState,
            TxBatch, //
        },
    },
    proto::{
        conn::Params,
        order::Token,
        reads::{
            OrqEntry,
            Purpose, //
        },
        state::State,
        tx::{
            self,
            Kind,
            Packer,
            Rtr,
            Tx,
            MAX_HEADER,
            TERMINATE_HEADER, //
        },
    },
    wire::{
        fpdu::{
            mulpdu,
            MAX_FPDU, //
        },
        marker::Markers,
        terminate::{
            TermError, //
            Terminate,
        },
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Octets of a batch, where that many fit into the socket.
const BATCH_BYTES: usize = 128 * 1024;
/// Chunks of a batch, if each is a page: the last FPDU may go beyond `BATCH_BYTES`, with markers,
/// and the first and last chunk may be begun.
const BATCH_CHUNKS: usize = (BATCH_BYTES + MAX_FPDU + MAX_FPDU / 128) / PAGE_SIZE + 2;
/// Requests that may end with one batch.
const BATCH_ENDS: usize = 128;
/// Octets that one caller sends before it leaves the rest to the workqueue.
const BUDGET: usize = 1024 * 1024;

/// The sending side of a connection.
pub(super) struct TxState {
    batch: TxBatch,
    flags: SendFlags,
    /// Requests whose last octet is in the batch.
    ends: KVec<Token>,
    current: Option<KBox<Outgoing>>,
    /// The memory of the current message while there is none: moving it costs more than small
    /// messages do.
    spare: Option<KBox<Outgoing>>,
    tx: Tx,
    packer: Packer,
    markers: Option<Markers>,
    emss: u32,
    mulpdu: u16,
    crc: bool,
    rtr: Option<Rtr>,
    /// Responder: nothing may be sent before the first FPDU came in (T-24).
    wait_for_fpdu: bool,
    /// The send queue has the next turn.
    sq_turn: bool,
    terminate: Option<Terminate>,
    /// Something was sent that the peer is to have before the FIN: more than set-up takes, and Read
    /// Requests, which are answered.
    has_spoken: bool,
    pub(super) fin: Fin,
    /// TCP has refused a batch: nothing is sent any more, and what ended in it never completes.
    refused: bool,
}

/// Why [`TxState::run`] came back.
pub(super) enum Outcome {
    /// There is nothing to send, or no space for it; a callback tells when that changes.
    Idle,
    /// There is more to send; come back later.
    Again,
    /// A request or a response failed.
    Failed(Failure),
}

impl TxState {
    /// For a new connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(qp: &Qp, params: &Params, emss: u32) -> Result<Self> {
        let message = Outgoing::new(qp.cap.max_send_sge, qp.cap.max_inline_data)?;
        Ok(Self {
            batch: TxBatch::new(qp.dev.chunks.clone(), BATCH_CHUNKS)?,
            flags: SendFlags::default(),
            ends: KVec::with_capacity(BATCH_ENDS, GFP_KERNEL)?,
            current: None,
            spare: Some(KBox::new(message, GFP_KERNEL)?),
            tx: Tx::new(),
            packer: Packer::new(emss),
            markers: params.send_markers.then(Markers::new),
            emss,
            mulpdu: mulpdu(emss, params.send_markers),
            crc: params.crc,
            rtr: params.send_rtr,
            wait_for_fpdu: params.wait_for_fpdu,
            sq_turn: true,
            terminate: None,
            has_spoken: false,
            fin: Fin::No,
            refused: false,
        })
    }

    /// Whether a message is on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.batch.is_empty() || self.refused
    }

    /// Whether this side may send: a responder must have heard of its peer first.
    pub(super) fn may_send(&self, qp: &Qp) -> bool {
        !self.wait_for_fpdu || qp.heard_of_peer()
    }

    /// Sends a Terminate behind what TCP has or the batch holds.
    pub(super) fn set_terminate(&mut self, failure: &Failure) {
        self.terminate = Some(Terminate {
            error: failure.error,
            quote: failure.quote,
        });
    }

    /// Sends what there is to send.
    pub(super) fn run(
        &mut self,
        qp: &Arc<Qp>,
        sock: &TcpSocket,
        ring: &mut SqRing,
        state: State,
    ) -> Outcome {
        let outcome = self.send(qp, sock, ring, state);
        // No region may be kept from its owner while the peer is awaited (T-20), nor while the caller
        // waits for the owner.
        if let Some(current) = &mut self.current {
            current.close();
        }
        outcome
    }

    fn send(&mut self, qp: &Arc<Qp>, sock: &TcpSocket, ring: &mut SqRing, state: State) -> Outcome {
        let mut budget = BUDGET;
        loop {
            match self.flush(qp, sock) {
                Ok(true) => {}
                Ok(false) => return Outcome::Idle,
                Err(failure) => return Outcome::Failed(failure),
            }
            if let Some(message) = self.terminate.take() {
                if self.put_terminate(&message).is_ok() {
                    continue;
                }
            }
            self.fin.send(qp, sock, self.has_spoken);
            if !state.sends() {
                return Outcome::Idle;
            }
            if budget == 0 {
                return Outcome::Again;
            }
            let filled = self.fill(qp, sock, ring);
            budget = budget.saturating_sub(self.batch.remaining());
            if let Err(failure) = filled {
                // The segments in front of the bad one go out (V-TM-1).
                if let Err(first) = self.flush(qp, sock) {
                    return Outcome::Failed(first);
                }
                if let Some(current) = self.current.take() {
                    self.recycle(current);
                }
                return Outcome::Failed(failure);
            }
            if self.batch.is_empty() {
                return Outcome::Idle;
            }
        }
    }

    /// Hands the batch to TCP. Gives whether TCP took all of it.
    fn flush(&mut self, qp: &Arc<Qp>, sock: &TcpSocket) -> Result<bool, Failure> {
        if self.refused {
            return Ok(false);
        }
        if !self.batch.is_empty() {
            if let Err(error) = sock.send_batch(&mut self.batch, self.flags) {
                // If the connection is not broken yet, it has to be: FPDUs are whole without these,
                // so that the peer would not miss them. The socket's callbacks tell of it, and the
                // requests are flushed then.
                self.refused = true;
                self.batch.clear();
                self.ends.clear();
                if sock.state() != TcpState::Closed {
                    pr_ratelimited!(
                        "{}: QP {}: TCP does not send: {:?}\n",
                        qp.dev.handle(),
                        qp.num(),
                        error,
                    );
                }
                sock.abort();
                return Ok(false);
            }
            self.flags = SendFlags::default();
            if !self.batch.is_empty() {
                return Ok(false);
            }
        }
        if !self.ends.is_empty() {
            qp.sends_done(&self.ends);
            self.ends.clear();
        }
        Ok(true)
    }

    /// Keeps the memory of a message that is over.
    fn recycle(&mut self, mut message: KBox<Outgoing>) {
        message.close();
        self.spare = Some(message);
    }

    /// Octets of the stream that the FPDU of `frame` takes now, with markers.
    fn octets(&self, frame: &tx::Frame) -> Result<u32> {
        let len = u32::try_from(frame.fpdu_len)?;
        let overhead = self.markers.as_ref().map_or(0, |m| m.overhead(len));
        len.checked_add(overhead).ok_or(EINVAL)
    }

    fn put_terminate(&mut self, message: &Terminate) -> Result {
        self.has_spoken = true;
        let mut header = [0; TERMINATE_HEADER];
        let frame = tx::terminate(message, &mut header);
        let bytes = header.get(..frame.header_len).ok_or(EINVAL)?;
        let len = self.octets(&frame)?;
        self.batch.reserve(len)?;
        self.flags.cut = self.packer.push(len);
        let before = self.batch.mark();
        let mut writer = Writer::new(&mut self.batch, &frame, self.crc, self.markers.as_mut())?;
        let written = writer.bytes(bytes).and_then(|()| writer.finish());
        if written.is_err() {
            self.batch.truncate(before)?;
        }
        written
    }

    /// Puts FPDUs into the empty batch, as many as are ready and fit.
    fn fill(&mut self, qp: &Arc<Qp>, sock: &TcpSocket, ring: &mut SqRing) -> Result<(), Failure> {
        let emss = sock.mss();
        if emss != self.emss {
            self.emss = emss;
            self.packer.set_emss(emss);
            self.mulpdu = mulpdu(emss, self.markers.is_some());
        }
        let limit = sock.send_space().min(BATCH_BYTES);
        while self.batch.is_empty() || self.batch.remaining() < limit {
            if self.current.is_none() {
                if self.ends.len() >= BATCH_ENDS {
                    break;
                }
                self.begin_message(qp, ring)?;
            }
            let Some(mut current) = self.current.take() else {
                break;
            };
            let put = self.put_fpdu(qp, &mut current);
            let is_done = current.message.is_done();
            if is_done && put.as_ref().is_ok_and(|fits| *fits) {
                let ended = self.end_message(qp, &mut current);
                self.recycle(current);
                ended?;
            } else {
                self.current = Some(current);
            }
            let fits = put?;
            if !fits {
                self.flags.more = !self.flags.cut;
                break;
            }
        }
        Ok(())
    }

    /// Puts the next FPDU of a message into the batch, unless it does not fit.
    fn put_fpdu(&mut self, qp: &Arc<Qp>, current: &mut Outgoing) -> Result<bool, Failure> {
        current.open(qp)?;
        let mut message = current.message;
        let mut header = [0; MAX_HEADER];
        let Some(frame) = message.next(self.mulpdu, &mut header) else {
            return Err(defect("a message has no FPDU").into());
        };
        let bytes = header.get(..frame.header_len);
        let bytes = bytes.ok_or_else(|| defect("a header is too long"))?;
        let len = self.octets(&frame);
        let len = len.map_err(|_| defect("an FPDU is too long"))?;
        if self.batch.reserve(len).is_err() {
            if self.batch.is_empty() {
                return Err(TermError::LocalCatastrophic.into());
            }
            return Ok(false);
        }
        let mut packer = self.packer;
        if packer.push(len) {
            if !self.batch.is_empty() {
                // The batch ends its TCP segment; this FPDU begins the next.
                self.packer.end_record();
                self.flags.eor = true;
                return Ok(false);
            }
            self.flags.cut = true;
        }
        let before = (self.batch.mark(), self.markers);
        let writer = Writer::new(&mut self.batch, &frame, self.crc, self.markers.as_mut());
        let written = writer.and_then(|mut writer| {
            writer.bytes(bytes)?;
            current.write_payload(&mut writer, &frame)?;
            writer.finish()
        });
        if let Err(error) = written {
            // What is in front of it, and a Terminate, can go out.
            if self.batch.truncate(before.0).is_err() {
                // Nothing of it, then, nor do its requests complete.
                self.batch.clear();
                self.ends.clear();
            }
            self.markers = before.1;
            // `EFAULT` is for memory of the kernel that its owner named, and that is none.
            let error = if error == EFAULT {
                TermError::LocalCatastrophic
            } else {
                defect("an FPDU is not what its header says")
            };
            return Err(error.into());
        }
        self.packer = packer;
        current.message = message;
        Ok(true)
    }

    /// All of a message is in the batch.
    fn end_message(&mut self, qp: &Arc<Qp>, current: &mut Outgoing) -> Result<(), Failure> {
        self.has_spoken |= !matches!(current.origin, Origin::Bare);
        match &current.origin {
            Origin::Request(_, token) => self
                .ends
                .push_within_capacity(*token)
                .map_err(|_| defect("a batch ends too many requests"))?,
            // The slot is free before the peer can have the response and send its next request.
            Origin::Response(_) => {
                let answered = qp.irq.lock().pop();
                answered.ok_or_else(|| defect("a Read that is answered was not there"))?;
            }
            Origin::Bare => {}
        }
        Ok(())
    }

    /// Begins the next message, if there is one that may be sent.
    fn begin_message(&mut self, qp: &Arc<Qp>, ring: &mut SqRing) -> Result<(), Failure> {
        let Some(mut message) = self.spare.take() else {
            return Ok(());
        };
        match self.next_message(qp, ring, &mut message) {
            Ok(true) => self.current = Some(message),
            Ok(false) => self.spare = Some(message),
            Err(failure) => {
                self.spare = Some(message);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Chooses what to send next and puts it into `to`. Gives whether there is anything.
    fn next_message(
        &mut self,
        qp: &Arc<Qp>,
        ring: &mut SqRing,
        to: &mut Outgoing,
    ) -> Result<bool, Failure> {
        if let Some(rtr) = self.rtr.take() {
            return self.ready_to_receive(qp, rtr, to).map(|()| true);
        }
        let sq_first = self.sq_turn;
        self.sq_turn = !sq_first;
        if sq_first {
            match self.next_request(qp, ring, to)? {
                Next::Message => return Ok(true),
                Next::Nothing => {}
                // Another response in the same batch, and another, could go on for ever.
                Next::AfterFlush => return Ok(false),
            }
        }
        if self.next_response(qp, to) {
            return Ok(true);
        }
        Ok(!sq_first && matches!(self.next_request(qp, ring, to)?, Next::Message))
    }

    /// The oldest request of the send queue, if it may start.
    fn next_request(
        &mut self,
        qp: &Arc<Qp>,
        ring: &mut SqRing,
        to: &mut Outgoing,
    ) -> Result<Next, Failure> {
        let now = Now {
            is_flushed: self.batch.is_empty(),
            may_send: self.may_send(qp),
        };
        let next = start::next_request(qp, ring, &mut self.tx, to, &now)?;
        if matches!(next, Next::AfterFlush) {
            // It is the first thing to be looked at with the next batch.
            self.sq_turn = true;
        }
        Ok(next)
    }

    /// The first message of a peer-to-peer connection (RFC 6581 section 9.2).
    fn ready_to_receive(&mut self, qp: &Qp, rtr: Rtr, to: &mut Outgoing) -> Result<(), Failure> {
        let kind = rtr.kind();
        if let Kind::ReadRequest(request) = kind {
            let entry = OrqEntry {
                sink_stag: request.sink_stag,
                sink_to: request.sink_to,
                purpose: Purpose::ReadyToReceive,
                ..OrqEntry::default()
            };
            let pushed = qp.sq.lock().orq.push(entry);
            pushed.map_err(|_| TermError::LocalCatastrophic)?;
        }
        to.begin(self.tx.message(kind, 0), Origin::Bare);
        Ok(())
    }

    /// The answer to the peer's oldest Read.
    fn next_response(&mut self, qp: &Qp, to: &mut Outgoing) -> bool {
        let Some(entry) = qp.irq.lock().front() else {
            return false;
        };
        let kind = Kind::ReadResponse {
            stag: entry.request.sink_stag,
            to: entry.request.sink_to,
        };
        let message = self.tx.message(kind, entry.request.len);
        to.begin(message, Origin::Response(entry));
        true
    }
}

/// The failure of a response whose source is not to be read (any more).
pub(super) fn response_failure(
    entry: &crate::proto::reads::IrqEntry,
    error: crate::mr::access::MrError,
    done: u32,
) -> Failure {
    Failure {
        error: remote(error),
        quote: Some(entry.quote(done)),
        in_completion: false,
        denied: false,
        cause: None,
    }
}
