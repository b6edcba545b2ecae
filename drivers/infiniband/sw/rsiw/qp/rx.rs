// SPDX-License-Identifier: GPL-2.0

//! Reception: the surroundings of `proto::receiver` in the kernel.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    identity::QpIdentity,
    memory::{
        remote,
        CachedRegion, //
    },
    place::{
        place,
        place_train,
        CopyToPage, //
    },
    shared::{
        RemoteEnd,
        Shared,
        Wakes, //
    },
};
use crate::{
    cq::Completion,
    ffi::{
        hash::crc32c,
        net::{
            self,
            SkbChunk, //
        },
        rsiw::params, //
    },
    mr::{
        access::Access,
        Mr, //
    },
    proto::{
        deframer::{
            Budget,
            Chunk,
            Payload,
            Reach,
            Train,
            FPDU_FRONT, //
        },
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
            OutboundRead,
            OutboundReads, //
        },
        receiver::{
            Env,
            Received,
            Receiver,
            Recv,
            Unplaced, //
        },
        request::OperationType,
        rx::{
            Limits,
            Target, //
        },
        schedule::{
            Actor,
            Reason, //
        },
        setup::Params,
        state::QpState, //
    },
    queue::sgl::SgList,
    wire::{
        ddp::{
            Msn,
            Stag, //
        },
        fpdu::Crc,
        rdmap::ReadRequest,
        terminate::TermError,
        Short, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The receiving part of a connection, which belongs to whoever holds the socket's lock.
pub(super) struct Receiving {
    pub(super) receiver: Receiver<KVVec<u8>>,
    /// The elements of the receive in progress.
    sgl: SgList,
    /// The region that was invalidated last.
    pub(super) invalidated: Option<Arc<Mr>>,
    /// How often there was no memory for the receiver's buffer.
    pub(super) tries: u32,
}

impl Receiving {
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
}

/// The receiving part of a connection while it is fed, out of its place.
pub(super) struct Intake<'a> {
    /// The region that was placed into last, which is open until this ends.
    cached: CachedRegion,
    pub(super) part: KBox<Receiving>,
    pub(super) shared: &'a Shared,
    wakes: &'a Arc<dyn Wakes>,
}

impl<'a> Intake<'a> {
    #[inline]
    pub(super) fn new(wakes: &'a Arc<dyn Wakes>, part: KBox<Receiving>) -> Self {
        Self {
            cached: CachedRegion::NONE,
            part,
            shared: wakes.shared(),
            wakes,
        }
    }

    /// Ends feeding, which closes the cached region.
    #[inline]
    pub(super) fn end(self) -> KBox<Receiving> {
        self.part
    }

    /// Calls `f` with the receiver and its surroundings.
    #[inline(always)]
    pub(super) fn with<R>(
        &mut self,
        f: impl FnOnce(&mut Receiver<KVVec<u8>>, &mut Surroundings<'_>) -> R,
    ) -> R {
        let part = &mut *self.part;
        let mut env = Surroundings {
            qp: self.shared,
            wakes: self.wakes,
            sgl: &mut part.sgl,
            invalidated: &mut part.invalidated,
            cached: &mut self.cached,
        };
        f(&mut part.receiver, &mut env)
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
        SkbChunk::crc32c(self, at, len, crc.0)
            .map(Crc)
            .map_err(|_| Short)
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

pub(super) struct Surroundings<'a> {
    qp: &'a Shared,
    wakes: &'a Arc<dyn Wakes>,
    sgl: &'a mut SgList,
    invalidated: &'a mut Option<Arc<Mr>>,
    cached: &'a mut CachedRegion,
}

impl Limits for Surroundings<'_> {
    fn may_read(&self) -> bool {
        self.qp.flags.rights().contains(Access::REMOTE_READ)
    }

    fn may_write(&self) -> bool {
        self.qp.flags.rights().contains(Access::REMOTE_WRITE)
    }

    fn may_atomic(&self) -> bool {
        self.qp.flags.may_atomic()
    }

    fn has_read_room(&self) -> bool {
        self.qp.inbound.lock().has_room()
    }

    fn may_take_immediate(&self) -> bool {
        self.qp.id.consumer.takes_immediate()
    }
}

impl<C: CopyToPage> Env<C> for Surroundings<'_> {
    type Reads = KVec<OutboundRead>;

    fn state(&self) -> QpState {
        self.qp.state()
    }

    #[inline]
    fn fpdu_received(&mut self) {
        if self.qp.flags.fpdu_received() {
            // Requests may have waited for this from the start.
            self.wakes.urge();
        }
    }

    fn first_segment(&mut self) {
        self.qp.first_segment();
    }

    #[inline(always)]
    fn ulpdu_received(&self, head: &[u8], len: u16) {
        self.qp.id.trace_ulpdu(head, len);
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

    #[inline(always)]
    fn place(
        &mut self,
        target: Target,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), TermError> {
        place(&self.qp.id, self.cached, self.sgl, target, payload, budget)
    }

    fn place_train(&mut self, target: Target, train: &mut Train<'_, C>) -> Result<(), Unplaced>
    where
        C: Chunk,
    {
        place_train(&self.qp.id, self.cached, self.sgl, target, train).map_err(|_| Unplaced)
    }

    #[inline(always)]
    fn take_recv(&mut self) -> Result<Option<Recv>, Failure> {
        self.qp.take_recv(self.sgl)
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
            qp: self.qp.id.num(),
            solicited: received.solicited,
        })
    }

    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool {
        self.cached.close();
        self.qp.fail_recv(id, fault)
    }

    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError> {
        self.cached.close();
        *self.invalidated = Some(
            self.qp
                .id
                .invalidate_remotely(stag, self.qp.flags.rights())?,
        );
        Ok(())
    }

    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced> {
        self.cached.close();
        let mr = self.qp.id.invalidate_locally(stag);
        *self.invalidated = Some(mr.map_err(|()| Unplaced)?);
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.invalidated.as_ref().is_none_or(|mr| mr.is_quiet())
    }

    fn with_reads<R>(&mut self, f: impl FnOnce(&mut OutboundReads<Self::Reads>) -> R) -> R {
        f(&mut self.qp.sq.lock().outbound)
    }

    fn read_done(&mut self, token: Option<Token>) {
        let resumes = self.qp.read_done(token);
        // Whoever makes the state Draining looks at the Reads afterwards.
        let actor = if self.qp.state() == QpState::Draining {
            // The FIN may be due. A process that disconnects does not poll.
            Actor::Urgent
        } else if resumes {
            self.qp.who(Reason::Left)
        } else {
            return;
        };
        self.wakes.clone().wake(actor);
    }

    fn fail_send(&mut self, token: Token, fault: Fault) -> bool {
        self.cached.close();
        self.qp.fail_send(token, fault)
    }

    fn request_received(&mut self, request: Inbound) -> Result<(), TermError> {
        match &request {
            Inbound::Read(InboundRead { request, .. }) => self.qp.id.check_source(request)?,
            Inbound::Atomic(_, request) => self.qp.id.check_word(request)?,
        }
        self.qp.inbound.lock().push(request)?;
        // Those that come before the work item runs are answered with it.
        self.wakes.urge();
        Ok(())
    }
}

impl QpIdentity {
    /// Checks that the peer may read what it asks for, or returns how it is told that it may not.
    fn check_source(&self, request: &ReadRequest) -> Result<(), TermError> {
        if request.len == 0 {
            return Ok(());
        }
        let (stag, to) = (request.source_stag, request.source_to.0);
        let want = Access::REMOTE_READ;
        let access = self.access(stag, want, to, request.len);
        let access =
            access.inspect_err(|why| self.trace_refused(want, *why, (stag, to), request.len));
        access.map(drop).map_err(remote)
    }
}
