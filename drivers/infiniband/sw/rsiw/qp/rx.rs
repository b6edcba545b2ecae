// SPDX-License-Identifier: GPL-2.0

//! Receiving: from octets of the socket to placed data and completions (RFC 5040, 5041, 5044).
//!
//! Nothing is placed before the whole segment is validated, CRC included (T-8). A segment that lies
//! in one piece is placed from where it is; others are collected in a buffer first.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    budget::Budget,
    failure::{
        defect,
        Refusal, //
    },
    place::Source,
    rest::Rest,
    rq::Recv,
    sgl::SgList,
    stream::Stream,
    Qp,
    RemoteEnd, //
};
use crate::{
    abi::{
        Opcode,
        WcStatus, //
    },
    cq::Completion,
    ffi::net::SkbChunk,
    mr::{
        access::Access,
        Mr, //
    },
    proto::{
        conn::Params,
        deframer::{
            ByteSource,
            Deframer,
            Fpdu,
            Place,
            Step, //
        },
        failure::{
            Failure,
            Fault, //
        },
        order::Token,
        reads::Purpose,
        rx::{
            is_enough,
            Action,
            Rx,
            Segment,
            FRONT_LEN,
            HEAD_LEN, //
        },
        state::State,
    },
    wire::{
        ddp::{
            Msn,
            Stag,
            TaggedOffset, //
        },
        fpdu::{
            Crc,
            CRC_LEN,
            LEN_FIELD, //
        },
        rdmap::ReadRequest,
        terminate::{
            Quote,
            TermError, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Receive state of a connection.
pub(super) struct RxState {
    deframer: Deframer,
    rx: Rx,
    crc: bool,
    /// An FPDU has come in whole.
    heard: bool,
    /// What may still be done this time.
    budget: Budget,
    /// Segments that come in pieces; made when the first one does.
    staging: Option<KVVec<u8>>,
    wants_staging: bool,
    /// How often there was no memory for it.
    tries: u32,
    /// The receive that a Send is being placed into.
    recv: Option<Recv>,
    /// Its elements.
    sgl: SgList,
    /// What waits for others to be done with an invalidated region.
    pending: Option<Pending>,
    /// Everything that still comes is dropped.
    stopped: bool,
}

/// What waits for a region to be quiet.
struct Pending {
    mr: Arc<Mr>,
    then: Then,
}

/// What is done then.
enum Then {
    /// The receive in progress completes.
    Receive(Completion),
    /// A Read of ours completes.
    Read(Token),
}

impl RxState {
    /// For a new connection, with receives of at most `max_sge` elements.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(params: &Params, max_sge: u32) -> Result<Self> {
        Ok(Self {
            deframer: Deframer::new(),
            rx: Rx::new(params.expect_rtr),
            crc: params.crc,
            heard: false,
            budget: Budget::NONE,
            staging: None,
            wants_staging: false,
            tries: 0,
            recv: None,
            sgl: SgList::new(max_sge, 0)?,
            pending: None,
            stopped: false,
        })
    }

    /// Begins to take in as much as `budget` allows.
    pub(super) fn begin(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Whether that was done, and there may be more.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// Whether receiving waits for a buffer.
    pub(super) fn wants_staging(&self) -> bool {
        self.wants_staging && self.staging.is_none() && !self.stopped
    }

    /// How often there was no memory for it.
    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// Notes that there was none; gives how often.
    pub(super) fn tried(&mut self) -> u32 {
        self.tries = self.tries.saturating_add(1);
        self.tries
    }

    /// The buffer, of `wire::fpdu::MAX_FPDU` octets.
    pub(super) fn set_staging(&mut self, buffer: KVVec<u8>) {
        self.staging = Some(buffer);
    }

    /// Whether an FPDU or a message is incomplete.
    pub(super) fn is_cut(&self) -> bool {
        self.deframer.staged() != 0 || self.rx.in_message()
    }

    /// The receive in progress, to be flushed, also if only an invalidation is waited for.
    pub(super) fn take_recv(&mut self) -> Option<Recv> {
        let _ = self.pending.take_if(|p| matches!(p.then, Then::Receive(_)));
        self.recv.take()
    }

    /// Takes octets from the front of a chunk and gives how many.
    pub(super) fn consume(&mut self, stream: &Stream, chunk: &SkbChunk<'_>) -> usize {
        let mut at = 0;
        // An FPDU that was begun is finished: once all of it is in our buffer, there may be nothing in
        // the socket that would bring us back here.
        while !self.budget.is_spent() || self.deframer.staged() != 0 {
            if self.stopped {
                // What is not read would turn the close into a RST (T-32).
                self.budget.octets(chunk.len());
                return chunk.len();
            }
            if !self.resume(stream) {
                return at;
            }
            match self.step(stream, chunk, at) {
                Ok(Some(n)) => {
                    self.budget.octets(n);
                    match at.checked_add(n) {
                        Some(next) if next <= chunk.len() => at = next,
                        _ => self.fail(&stream.qp, defect("more is read than there is").into()),
                    }
                }
                Ok(None) => return at,
                Err(failure) => self.fail(&stream.qp, failure),
            }
        }
        at
    }

    /// Ends the stream.
    pub(super) fn fail(&mut self, qp: &Arc<Qp>, failure: Failure) {
        self.stopped = true;
        self.rx.stop();
        qp.fail(failure);
    }

    /// One step of [`RxState::consume`]: octets used, `None` if no more can be.
    fn step(
        &mut self,
        stream: &Stream,
        chunk: &SkbChunk<'_>,
        at: usize,
    ) -> Result<Option<usize>, Failure> {
        let before = self.deframer;
        let fault = |_| defect("the stream cannot be read");
        let rest = Rest::new(chunk, at).map_err(fault)?;
        match self.deframer.next(&rest)? {
            Step::NeedMore => Ok(None),
            Step::Stage { at: to, n } => {
                let Some(staging) = &mut self.staging else {
                    // A buffer of this size is not to be had in softirq.
                    self.deframer = before;
                    self.wants_staging = true;
                    return Ok(None);
                };
                let range = to.checked_add(n).map(|end| to..end);
                let out = range.and_then(|range| staging.get_mut(range));
                let out = out.ok_or_else(|| defect("an FPDU does not fit its buffer"))?;
                let copied = rest.copy_to(0, out);
                copied.map_err(|_| defect("the stream cannot be read"))?;
                Ok(Some(n))
            }
            Step::Fpdu(fpdu) => match fpdu.place {
                Place::Chunk => {
                    self.fpdu(stream, &Source::Chunk { chunk, at }, rest.front(), &fpdu)?;
                    Ok(Some(fpdu.len))
                }
                Place::Staging => {
                    let staging = self.staging.take();
                    let staging = staging.ok_or_else(|| defect("the buffer of FPDUs is gone"))?;
                    let result = match staging.get(..fpdu.len) {
                        Some(bytes) => self.fpdu(stream, &Source::Bytes(bytes), bytes, &fpdu),
                        None => Err(defect("an FPDU does not fit its buffer").into()),
                    };
                    self.staging = Some(staging);
                    result.map(|()| Some(0))
                }
            },
        }
    }

    /// Takes in a complete FPDU of which `front` are the first octets, at least
    /// [`FRONT_LEN`] of the ULPDU too if it has as many.
    fn fpdu(
        &mut self,
        stream: &Stream,
        src: &Source<'_>,
        front: &[u8],
        fpdu: &Fpdu,
    ) -> Result<(), Failure> {
        let qp = &stream.qp;
        let fault = |_| defect("an FPDU is shorter than it was");
        let short = || defect("the front of an FPDU is not there");
        self.budget.fpdu();
        if self.crc {
            let crc = src
                .crc32c(0, fpdu.crc_covers(), Crc::new().0)
                .map_err(fault)?;
            let mut wire = [0; CRC_LEN];
            src.copy_to(fpdu.crc_covers(), &mut wire).map_err(fault)?;
            if !Crc(crc).matches(wire) {
                return Err(TermError::MpaCrc.into());
            }
        }
        // Before it is looked into: what is wrong with it can be told (T-24).
        if !self.heard {
            self.heard = true;
            qp.first_fpdu();
        }
        let ulpdu_len = usize::from(fpdu.ulpdu_len);
        let front = front.get(LEN_FIELD..).ok_or_else(short)?;
        let front = front.get(..FRONT_LEN.min(ulpdu_len)).ok_or_else(short)?;
        if is_enough(front) {
            return self.ulpdu(stream, src, front, fpdu);
        }
        let mut head = [0; HEAD_LEN];
        let head = head.get_mut(..HEAD_LEN.min(ulpdu_len));
        let head = head.ok_or_else(short)?;
        src.copy_to(LEN_FIELD, head).map_err(fault)?;
        self.ulpdu(stream, src, head, fpdu)
    }

    /// Takes in the ULPDU of an FPDU, given its first octets.
    fn ulpdu(
        &mut self,
        stream: &Stream,
        src: &Source<'_>,
        head: &[u8],
        fpdu: &Fpdu,
    ) -> Result<(), Failure> {
        let qp = &stream.qp;
        let state = qp.state();
        let result = self
            .rx
            .segment(head, fpdu.ulpdu_len, &qp.rx_limits())
            .map_err(Refusal::from)
            .and_then(|segment| {
                if segment.first {
                    qp.first_segment();
                }
                if state == State::Closing && !matches!(segment.action, Action::Terminate { .. }) {
                    qp.data_in_closing();
                    self.stopped = true;
                    return Ok(());
                }
                self.act(qp, src, &segment)
            });
        result.map_err(|refusal| Failure {
            quote: Quote::new(head, fpdu.ulpdu_len),
            in_completion: refusal.in_completion,
            denied: self.rx.denied(),
            ..refusal.error.into()
        })
    }

    /// Does what a segment asks for.
    fn act(&mut self, qp: &Arc<Qp>, src: &Source<'_>, segment: &Segment) -> Result<(), Refusal> {
        let at = LEN_FIELD.checked_add(segment.header_len.into());
        let at = at.ok_or_else(|| defect("a header is too long"))?;
        let len = u32::from(segment.payload_len);
        match segment.action {
            Action::Ignore => Ok(()),
            Action::Write { stag, to, .. } => self.write(qp, src, at, (stag, to), len),
            Action::ReadResponse { stag, to, last } => {
                self.read_response(qp, src, at, (stag, to), segment.payload_len, last)
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
                    self.recv = Some(qp.take_recv(&mut self.sgl)?);
                }
                let end = self.place(qp, src, at, mo, len)?;
                if last {
                    self.complete(qp, end, solicited, invalidate)?;
                }
                Ok(())
            }
            Action::ReadRequest { msn, request } => read_request(qp, msn, request),
            Action::Terminate { code, read } => {
                self.stopped = true;
                qp.terminate_received(RemoteEnd { code, read });
                Ok(())
            }
        }
    }

    /// Places a segment of an RDMA Write.
    fn write(
        &mut self,
        qp: &Arc<Qp>,
        src: &Source<'_>,
        at: usize,
        (stag, to): (Stag, TaggedOffset),
        len: u32,
    ) -> Result<(), Refusal> {
        if len == 0 {
            return Ok(());
        }
        let access = qp
            .access(stag, Access::REMOTE_WRITE, to.0, len)
            .map_err(super::failure::tagged)?;
        src.place(&access, at, len, &mut self.budget)
            .map_err(|_| TermError::LocalCatastrophic.into())
    }

    /// Places a segment of a Send; gives the octets of the message so far.
    fn place(
        &mut self,
        qp: &Arc<Qp>,
        src: &Source<'_>,
        at: usize,
        mo: u32,
        len: u32,
    ) -> Result<u32, Refusal> {
        let Some(recv) = &self.recv else {
            return Err(TermError::UntaggedNoBuffer.into());
        };
        let end = mo.checked_add(len).ok_or(TermError::UntaggedTooLong)?;
        let (status, error) = if u64::from(end) > recv.len {
            (WcStatus::LocLenErr, TermError::UntaggedTooLong)
        } else {
            match src.place_recv(qp, &self.sgl, at, mo, len, &mut self.budget) {
                Ok(()) => return Ok(end),
                Err(_) => (WcStatus::LocProtErr, TermError::LocalCatastrophic),
            }
        };
        Err(self.refuse(qp, status, error))
    }

    /// Completes the receive in progress in error.
    fn refuse(&mut self, qp: &Arc<Qp>, status: WcStatus, error: TermError) -> Refusal {
        let in_completion = self
            .recv
            .take()
            .is_some_and(|recv| qp.fail_recv(recv.id, status));
        Refusal {
            error,
            in_completion,
        }
    }

    /// Completes the receive in progress, `len` octets long, and invalidates what the peer wants to
    /// be invalidated before (V-INV-14).
    fn complete(
        &mut self,
        qp: &Arc<Qp>,
        len: u32,
        solicited: bool,
        invalidate: Option<Stag>,
    ) -> Result<(), Refusal> {
        let Some(recv) = self.recv else {
            return Ok(());
        };
        let completion = Completion {
            id: recv.id,
            opcode: Opcode::Receive,
            status: WcStatus::Success,
            bytes: len,
            invalidated: invalidate,
            qp: qp.num(),
            solicited,
        };
        if let Some(stag) = invalidate {
            match qp.invalidate_remotely(stag) {
                Ok(mr) => return self.when_quiet(qp, mr, Then::Receive(completion)),
                Err(error) => return Err(self.refuse(qp, WcStatus::RemInvReqErr, error)),
            }
        }
        self.recv = None;
        qp.complete_recv(&completion)
    }

    /// Places a segment of a Read Response; completes the Read with the last one.
    fn read_response(
        &mut self,
        qp: &Arc<Qp>,
        src: &Source<'_>,
        at: usize,
        (stag, to): (Stag, TaggedOffset),
        len: u16,
        last: bool,
    ) -> Result<(), Refusal> {
        let response = qp.sq.lock().orq.response(stag, to, len, last)?;
        let purpose = response.entry.purpose;
        let len = u32::from(len);
        let refuse = |()| Refusal {
            error: TermError::LocalCatastrophic,
            in_completion: purpose
                .token()
                .is_some_and(|token| qp.fail_send(token, Fault::LocalProtection)),
        };
        if len > 0 {
            qp.access_sink(stag, to.0, len)
                .map_err(|_| ())
                .and_then(|access| {
                    let placed = src.place(&access, at, len, &mut self.budget);
                    placed.map_err(|_| ())
                })
                .map_err(refuse)?;
        }
        if !response.complete {
            return Ok(());
        }
        let Purpose::Request {
            token,
            invalidate: true,
        } = purpose
        else {
            qp.read_done(purpose.token());
            return Ok(());
        };
        let sink = response.entry.sink_stag;
        let mr = qp.invalidate_locally(sink).map_err(refuse)?;
        self.when_quiet(qp, mr, Then::Read(token))
    }

    /// Goes on once nobody uses `mr`, which was invalidated; whoever still does is not waited for.
    fn when_quiet(&mut self, qp: &Arc<Qp>, mr: Arc<Mr>, then: Then) -> Result<(), Refusal> {
        if mr.is_quiet() {
            return self.finish(qp, &then);
        }
        self.pending = Some(Pending { mr, then });
        Ok(())
    }

    fn finish(&mut self, qp: &Arc<Qp>, then: &Then) -> Result<(), Refusal> {
        match then {
            Then::Receive(completion) => {
                self.recv = None;
                qp.complete_recv(completion)
            }
            Then::Read(token) => {
                qp.read_done(Some(*token));
                Ok(())
            }
        }
    }

    /// Does what had to wait. Gives whether receiving may go on.
    pub(super) fn resume(&mut self, stream: &Stream) -> bool {
        let Some(pending) = self.pending.take_if(|pending| pending.mr.is_quiet()) else {
            return self.pending.is_none();
        };
        if let Err(refusal) = self.finish(&stream.qp, &pending.then) {
            self.fail(&stream.qp, refusal.error.into());
        }
        true
    }

    /// The region whose users receiving waits for.
    pub(super) fn waits_for(&self) -> Option<&Arc<Mr>> {
        self.pending.as_ref().map(|pending| &pending.mr)
    }
}

/// Queues a Read Request of the peer.
fn read_request(qp: &Arc<Qp>, msn: Msn, request: ReadRequest) -> Result<(), Refusal> {
    if request.len > 0 {
        qp.access(
            request.source_stag,
            Access::REMOTE_READ,
            request.source_to.0,
            request.len,
        )
        .map_err(super::failure::remote)?;
    }
    let waiting = qp.irq.lock().push(msn, request)?;
    qp.kick_for_read(request.len, waiting);
    Ok(())
}
