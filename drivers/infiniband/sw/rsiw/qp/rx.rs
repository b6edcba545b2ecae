// SPDX-License-Identifier: GPL-2.0

//! Reception: what `proto::receiver` takes in, and to where.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    base::RemoteEnd,
    failure::{
        remote,
        tagged, //
    },
    kept::{
        Kept,
        Purpose, //
    },
    place::{
        place,
        place_recv,
        place_train,
        CopyToPage, //
    },
    Qp,
};
use crate::{
    cq::Completion,
    ffi::{
        crc::crc32c,
        net::{
            self,
            SkbChunk, //
        },
        rsiw::params,
    },
    mr::{
        access::Access,
        Mr, //
    },
    proto::{
        budget::Budget,
        chunk::{
            Chunk,
            Payload,
            Reach,
            FPDU_FRONT, //
        },
        conn::Params,
        counters::Tally,
        failure::{
            Cause,
            Failure,
            Fault, //
        },
        notes::QpNote,
        order::{
            Status,
            Token, //
        },
        reads::{
            Inbound,
            InboundRead,
            Response, //
        },
        receiver::{
            Atomics,
            Env,
            Received,
            Receiver,
            Recv,
            Unplaced, //
        },
        request::OperationType,
        rx::{
            Going,
            Limits, //
        },
        schedule::Reason,
        state::QpState,
        train::Train,
    },
    queue::sgl::SgList,
    wire::{
        atomic::AtomicRequest,
        ddp::{
            Msn,
            Stag,
            TaggedOffset, //
        },
        fpdu::Crc,
        rdmap::ReadRequest,
        terminate::TermError,
        Short,
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Receive state of a connection.
pub(super) struct RxState {
    receiver: Receiver<KVVec<u8>>,
    /// The elements of the receive in progress.
    sgl: SgList,
    /// The region that was invalidated last.
    invalidated: Option<Arc<Mr>>,
    /// How often there was no memory for a staging buffer.
    tries: u32,
}

impl RxState {
    /// For a new connection, with receives of at most `max_sge` elements.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(params: &Params, max_sge: u32) -> Result<Self> {
        let mut receiver = Receiver::new(params);
        receiver.set_patience(params::rnr_wait_ms());
        Ok(Self {
            receiver,
            sgl: SgList::new(max_sge, 0)?,
            invalidated: None,
            tries: 0,
        })
    }

    /// To take in octets with, for `qp`. The region that was placed into last is in `kept`, and
    /// belongs to nobody else as long as that lives.
    #[inline]
    pub(super) fn intake<'a>(&'a mut self, qp: &'a Arc<Qp>, kept: &'a mut Kept) -> Intake<'a> {
        Intake {
            receiver: &mut self.receiver,
            env: RecvEnv {
                qp,
                sgl: &mut self.sgl,
                invalidated: &mut self.invalidated,
                kept,
            },
        }
    }

    /// What was received since this was looked at last.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.receiver.tally
    }

    /// Whether there may be more to take in than was allowed.
    pub(super) fn is_spent(&self) -> bool {
        self.receiver.is_spent()
    }

    /// Whether receiving waits for a buffer.
    pub(super) fn wants_staging(&self) -> bool {
        self.receiver.wants_staging()
    }

    /// How often there was no memory for it.
    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// Notes that there was none. Returns how often.
    pub(super) fn tried(&mut self) -> u32 {
        self.tries = self.tries.saturating_add(1);
        self.tries
    }

    /// The buffer, of `wire::fpdu::MAX_FPDU` octets.
    pub(super) fn set_staging(&mut self, buffer: KVVec<u8>) {
        self.receiver.set_staging(buffer);
    }

    /// Whether an FPDU or a message is incomplete.
    pub(super) fn is_cut(&self) -> bool {
        self.receiver.is_cut()
    }

    /// The receive in progress, to be flushed, also if only an invalidation is waited for.
    pub(super) fn take_recv(&mut self) -> Option<Recv> {
        self.receiver.take_recv()
    }

    /// Whether receiving waits for a receive.
    pub(super) fn waits_for_recv(&self) -> bool {
        self.receiver.waits_for_recv()
    }

    /// Milliseconds until one is to be looked for again: see [`Receiver::pause`].
    pub(super) fn pause(&mut self) -> u32 {
        self.receiver.pause()
    }

    /// The region whose users receiving waits for.
    pub(super) fn waits_for(&self) -> Option<&Arc<Mr>> {
        let waits = self.receiver.waits_for_quiet();
        self.invalidated.as_ref().filter(|_| waits)
    }
}

/// A receiver that is being fed.
pub(super) struct Intake<'a> {
    receiver: &'a mut Receiver<KVVec<u8>>,
    env: RecvEnv<'a>,
}

impl Intake<'_> {
    /// Begins to take in as much as `budget` allows, with what had to wait.
    pub(super) fn begin(&mut self, budget: Budget) {
        self.receiver.begin(budget);
        self.receiver.resume::<SkbChunk<'_>, _>(&mut self.env);
    }

    /// Takes octets from the front of a chunk. Returns how many.
    pub(super) fn consume(&mut self, chunk: &SkbChunk<'_>) -> usize {
        self.receiver.consume(&mut self.env, chunk)
    }

    /// Whether a segment of the other end can be taken in now, of which `front` are the headers.
    #[inline]
    pub(super) fn is_ready(&mut self, front: &[u8]) -> bool {
        let env = &mut self.env;
        self.receiver.is_ready::<SkbChunk<'_>, _>(env, front)
    }

    /// Takes in a segment that the other end hands over: see [`Receiver::take_in`].
    #[inline]
    pub(super) fn take_in<C: CopyToPage>(&mut self, segment: &C, front: &[u8], ulpdu_len: u16) {
        self.receiver
            .take_in(&mut self.env, segment, front, ulpdu_len);
    }

    /// Ends the stream.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.receiver
            .fail::<SkbChunk<'_>, _>(&mut self.env, failure);
    }
}

impl Chunk for SkbChunk<'_> {
    fn len(&self) -> usize {
        SkbChunk::len(self)
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Short> {
        SkbChunk::copy_to(self, at, to).map_err(|_| Short)
    }

    #[inline]
    fn front(&self, at: usize) -> Option<[u8; FPDU_FRONT]> {
        SkbChunk::front(self, at)
    }

    fn reach(&self, at: usize, len: usize) -> Reach {
        match SkbChunk::reach(self, at, len) {
            net::Reach::Here => Reach::Here,
            net::Reach::Later => Reach::Later,
            net::Reach::Apart => Reach::Apart,
        }
    }

    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Short> {
        self.crc32c(at, len, crc.0).map(Crc).map_err(|_| Short)
    }
}

/// The surroundings of the receiver.
struct RecvEnv<'a> {
    qp: &'a Arc<Qp>,
    sgl: &'a mut SgList,
    invalidated: &'a mut Option<Arc<Mr>>,
    kept: &'a mut Kept,
}

impl Limits for RecvEnv<'_> {
    fn may_read(&self) -> bool {
        self.qp.rights().contains(Access::REMOTE_READ)
    }

    fn may_write(&self) -> bool {
        self.qp.rights().contains(Access::REMOTE_WRITE)
    }

    fn may_atomic(&self) -> bool {
        self.qp.may_atomic()
    }

    fn has_read_room(&self) -> bool {
        self.qp.inbound.lock().has_room()
    }

    fn may_take_immediate(&self) -> bool {
        self.qp.consumer.takes_immediate()
    }
}

impl RecvEnv<'_> {
    /// Queues a request of the peer, and sees to it that it is answered.
    fn queue(&self, request: Inbound) -> Result<(), TermError> {
        let reason = {
            let mut inbound = self.qp.inbound.lock();
            let reason = inbound.push(request)?;
            self.qp.has_inbound.store(true, Relaxed);
            reason
        };
        self.qp.schedule(reason);
        Ok(())
    }
}

impl Atomics for RecvEnv<'_> {
    fn atomic_request(&mut self, msn: Msn, request: AtomicRequest) -> Result<(), TermError> {
        self.qp.check_word(&request)?;
        self.queue(Inbound::Atomic(msn, request))
    }

    fn atomic_response(&mut self, id: u32) -> Result<Response, TermError> {
        self.qp.sq.lock().outbound.atomic_response(id)
    }

    fn place_result(&mut self, stag: Stag, to: TaggedOffset, result: u64) -> Result<(), Unplaced> {
        let placed = self.qp.place_result(self.kept, (stag, to), result);
        placed.map_err(|_| Unplaced)
    }
}

impl<C: CopyToPage> Env<C> for RecvEnv<'_> {
    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn state(&self) -> QpState {
        self.qp.state()
    }

    fn fpdu_received(&mut self) {
        self.qp.fpdu_received();
    }

    fn first_segment(&mut self) {
        self.qp.first_segment();
    }

    #[inline(always)]
    fn ulpdu_received(&self, head: &[u8], len: u16) {
        self.qp.trace_ulpdu(head, len);
    }

    fn data_in_closing(&mut self) {
        self.qp.notes.leave(QpNote::DataInClosing);
    }

    fn terminate_received(&mut self, code: u16, read: Option<Msn>) {
        self.qp.terminate_received(RemoteEnd { code, read });
    }

    fn fail(&mut self, failure: Failure) {
        self.qp.fail(failure);
    }

    fn place_write(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), TermError> {
        let access = self
            .kept
            .open_traced(self.qp, Purpose::Write, stag, to.0, payload.len);
        let placed = place(payload, 0, access.map_err(tagged)?, budget);
        placed.map_err(|_| TermError::LocalCatastrophic)
    }

    fn place_response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        let access = self
            .kept
            .open_traced(self.qp, Purpose::Response, stag, to.0, payload.len);
        let access = access.map_err(|_| Unplaced)?;
        place(payload, 0, access, budget).map_err(|_| Unplaced)
    }

    fn place_train(&mut self, going: Going, train: &mut Train<'_, C>) -> Result<(), Unplaced>
    where
        C: Chunk,
    {
        place_train(self.qp, self.kept, self.sgl, going, train).map_err(|_| Unplaced)
    }

    #[inline(always)]
    fn take_recv(&mut self) -> Result<Option<Recv>, Failure> {
        self.qp.take_recv(self.sgl)
    }

    #[inline(always)]
    fn place_recv(
        &mut self,
        offset: u32,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        let placed = place_recv(self.qp, self.kept, self.sgl, offset, payload, budget);
        placed.map_err(|_| Unplaced)
    }

    #[inline(always)]
    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure> {
        self.qp.complete_recv(&Completion {
            id: received.id,
            operation: OperationType::Receive,
            status: Status::Success,
            bytes: received.len,
            cause: Cause::NONE,
            extra: received.extra,
            qp: self.qp.num(),
            solicited: received.solicited,
        })
    }

    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool {
        self.kept.close();
        self.qp.fail_recv(id, fault)
    }

    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError> {
        self.kept.close();
        *self.invalidated = Some(self.qp.invalidate_remotely(stag)?);
        Ok(())
    }

    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced> {
        self.kept.close();
        let mr = self.qp.invalidate_locally(stag);
        *self.invalidated = Some(mr.map_err(|()| Unplaced)?);
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.invalidated.as_ref().is_none_or(|mr| mr.is_quiet())
    }

    fn response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        len: u32,
        last: bool,
    ) -> Result<Response, TermError> {
        self.qp.sq.lock().outbound.response(stag, to, len, last)
    }

    fn response_left(&self, stag: Stag, to: TaggedOffset) -> u32 {
        self.qp.sq.lock().outbound.left(stag, to)
    }

    fn read_done(&mut self, token: Option<Token>) {
        let stalled = self.qp.read_done(token);
        // Whoever made the state Draining has looked at the Reads afterwards.
        let draining = self.qp.state() == QpState::Draining;
        self.qp.schedule(Reason::ReadDone { draining, stalled });
    }

    fn fail_send(&mut self, token: Token, fault: Fault) -> bool {
        self.kept.close();
        self.qp.fail_send(token, fault)
    }

    fn read_request(&mut self, msn: Msn, request: ReadRequest) -> Result<(), TermError> {
        if request.len > 0 {
            let (stag, to) = (request.source_stag, request.source_to.0);
            let access = self.qp.access(stag, Access::REMOTE_READ, to, request.len);
            let access = access.inspect_err(|why| {
                let want = Access::REMOTE_READ;
                self.qp.trace_refused(want, *why, (stag, to), request.len);
            });
            access.map_err(remote)?;
        }
        self.queue(Inbound::Read(InboundRead { msn, request }))
    }
}
