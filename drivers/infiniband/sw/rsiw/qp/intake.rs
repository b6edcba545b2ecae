// SPDX-License-Identifier: GPL-2.0

//! Reception: the surroundings of `proto::receiver` in the kernel.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::memory::{
    place,
    place_train,
    CachedRegion,
    CopyToPage, //
};
use super::shared::{
    RemoteEnd,
    Shared,
    Wakes, //
};
use crate::ffi::hash::crc32c;
use crate::ffi::net::{
    self,
    SkbChunk, //
};
use crate::ffi::rsiw::{
    params,
    trace, //
};
use crate::mr::access::Access;
use crate::mr::Mr;
use crate::num::Broken;
use crate::proto::deframer::{
    Budget,
    Chunk,
    Reach,
    FPDU_FRONT, //
};
use crate::proto::failure::Failure;
use crate::proto::notes::QpNote;
use crate::proto::reads::{
    Inbound,
    InboundRead, //
};
use crate::proto::receiver::{
    Blame,
    Conditions,
    Invalidation,
    Lack,
    Receiver,
    Step, //
};
use crate::proto::schedule::{
    Actor,
    Reason, //
};
use crate::proto::segment::Rights;
use crate::proto::setup::Params;
use crate::proto::state::{
    Arrival,
    QpState, //
};
use crate::queue::SgList;
use crate::wire::fpdu::Crc;
use crate::wire::terminate::TermError;
use core::num::Saturating;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The receiving part of a connection, which belongs to whoever holds the socket's lock.
pub(super) struct Receiving {
    pub(super) receiver: Receiver<KVVec<u8>>,
    /// The elements of the receive in progress.
    sgl: SgList,
    /// The region that was invalidated last.
    pub(super) invalidated: Option<Arc<Mr>>,
    /// How often there was no memory for the receiver's buffer.
    pub(super) tries: Saturating<u32>,
}

impl Receiving {
    pub(super) fn new(params: &Params, max_sge: u32) -> Result<Self> {
        let mut receiver = Receiver::new(params);
        receiver.set_patience(params::rnr_wait_ms());
        Ok(Self {
            receiver,
            sgl: SgList::new(max_sge, 0)?,
            invalidated: None,
            tries: Saturating(0),
        })
    }
}

/// The receiving part of a connection while it is fed: it is taken out of its place in the stream
/// meanwhile.
pub(super) struct Intake<'a> {
    /// The region that was placed into last. It stays open until feeding ends.
    cached: CachedRegion,
    pub(super) part: KBox<Receiving>,
    pub(super) shared: &'a Shared,
    wakes: &'a Arc<dyn Wakes>,
}

impl<'a> Intake<'a> {
    /// Begins feeding, with as much as `budget` allows. What had to wait is taken in first.
    #[inline]
    pub(super) fn begin(wakes: &'a Arc<dyn Wakes>, part: KBox<Receiving>, budget: Budget) -> Self {
        let mut intake = Self {
            cached: CachedRegion::NONE,
            part,
            shared: wakes.shared(),
            wakes,
        };
        intake.part.receiver.begin(budget);
        intake.go_on(None::<&SkbChunk<'_>>);
        intake
    }

    /// Ends feeding, which closes the cached region.
    #[inline]
    pub(super) fn end(self) -> KBox<Receiving> {
        self.part
    }

    /// Takes in octets from the front of a chunk. Returns how many.
    #[inline]
    pub(super) fn take<C: Chunk + CopyToPage>(&mut self, chunk: &C) -> usize {
        self.part.receiver.open(chunk);
        self.go_on(Some(chunk));
        self.part.receiver.used()
    }

    /// Takes in a segment that the other end hands over, after [`Intake::admit`] has just returned
    /// [`Lack::Nothing`].
    #[inline]
    pub(super) fn take_handed<C: Chunk + CopyToPage>(&mut self, segment: &C) {
        if self.take(segment) == 0 {
            self.part.receiver.stop();
            self.shared.fail(Failure::defect("a segment is lost"));
        }
    }

    /// Returns what is lacking before the other end may hand over a segment, if anything is.
    /// `front` are MPA's length field and the headers of the segment.
    #[inline]
    pub(super) fn admit(&mut self, front: &[u8]) -> Lack {
        if self.part.receiver.is_patient() {
            let shared = self.shared;
            self.feed(None::<&SkbChunk<'_>>, |receiver, _| {
                receiver.admit(front, shared)
            });
        }
        self.part.receiver.lacks()
    }

    /// Goes on with a chunk, or with what had to wait.
    #[inline]
    fn go_on<C: Chunk + CopyToPage>(&mut self, chunk: Option<&C>) {
        let shared = self.shared;
        self.feed(chunk, |receiver, chunk| receiver.next(chunk, shared));
    }

    /// Asks the receiver by `next` for one step after the other, and does each.
    fn feed<C: Chunk + CopyToPage>(
        &mut self,
        chunk: Option<&C>,
        next: impl Fn(&mut Receiver<KVVec<u8>>, Option<&C>) -> Step,
    ) {
        let shared = self.shared;
        // Bound: what is taken in is taken from the budget.
        loop {
            let (cached, part) = (&mut self.cached, &mut *self.part);
            let (receiver, sgl) = (&mut part.receiver, &mut part.sgl);
            let done = match next(receiver, chunk) {
                Step::Pause => return,
                Step::Message => take_message(shared, cached, sgl, receiver, chunk),
                Step::Receive => shared.take_recv(sgl).map(|recv| receiver.give(recv)),
                Step::Place => place_payload(shared, cached, sgl, receiver, chunk),
                Step::Train => {
                    let target = receiver.target();
                    if let Some(mut train) = receiver.train(chunk) {
                        let placed = place_train(&shared.id, cached, sgl, target, &mut train);
                        let taken = train.end();
                        receiver.took(&taken, placed.is_ok());
                    }
                    Ok(())
                }
                Step::Complete => shared.complete_received(receiver.received()),
                step => self.do_rarely(chunk, step),
            };
            if let Err(why) = done {
                self.part.receiver.refuse(why);
            }
        }
    }

    /// Does a step that most Sends and Writes do not need.
    #[inline(never)]
    fn do_rarely<C: Chunk>(&mut self, chunk: Option<&C>, step: Step) -> Result<(), Failure> {
        let (shared, wakes) = (self.shared, self.wakes);
        let Receiving {
            receiver,
            invalidated,
            ..
        } = &mut *self.part;
        match step {
            Step::Response(asked) => {
                let read = shared.sq.lock().outbound.answered(asked);
                receiver.responds(read?);
            }
            Step::ReadDone => shared.end_read(wakes),
            Step::Invalidate(what) => {
                self.cached.close();
                *invalidated = Some(shared.invalidate_for(what)?);
            }
            Step::Quiet => {
                receiver.set_quiet(invalidated.as_ref().is_none_or(|mr| mr.is_quiet()));
            }
            Step::Request => shared.queue_inbound(wakes, receiver.request()?)?,
            Step::Heard => {
                shared.flags.set_heard();
                // Requests may have waited for this from the start.
                wakes.urge();
            }
            Step::Ulpdu => {
                let head = receiver.head(chunk)?;
                shared.id.trace_ulpdu(head.octets(), head.ulpdu_len);
            }
            Step::FirstSegment => shared.first_segment(),
            Step::DataInClosing => shared.notes.leave(QpNote::DataInClosing),
            Step::Terminated { code, read, placed } => {
                shared.terminate_received(RemoteEnd { code, read, placed });
            }
            Step::Failed => {
                self.cached.close();
                let told = shared.fail_blamed(receiver.blame());
                shared.fail(receiver.failure(told));
            }
            Step::Pause
            | Step::Message
            | Step::Receive
            | Step::Place
            | Step::Train
            | Step::Complete => {}
        }
        Ok(())
    }
}

/// Takes in a Send that is one segment.
#[inline(always)]
fn take_message<C: Chunk + CopyToPage>(
    shared: &Shared,
    cached: &mut CachedRegion,
    sgl: &mut SgList,
    receiver: &mut Receiver<KVVec<u8>>,
    chunk: Option<&C>,
) -> Result<(), Failure> {
    let recv = shared.take_recv(sgl)?;
    if !receiver.begin_message(recv) {
        return Ok(());
    }
    place_payload(shared, cached, sgl, receiver, chunk)?;
    receiver.end_message();
    shared.complete_received(receiver.received())
}

/// Places the payload at hand where it belongs.
#[inline(always)]
fn place_payload<C: Chunk + CopyToPage>(
    shared: &Shared,
    cached: &mut CachedRegion,
    sgl: &SgList,
    receiver: &mut Receiver<KVVec<u8>>,
    chunk: Option<&C>,
) -> Result<(), Failure> {
    let target = receiver.target();
    let placed = place(
        &shared.id,
        cached,
        sgl,
        target,
        &mut receiver.payload(chunk),
    );
    placed.map_err(Failure::from)
}

impl Chunk for SkbChunk<'_> {
    fn len(&self) -> usize {
        SkbChunk::len(self)
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Broken> {
        SkbChunk::copy_to(self, at, to).map_err(|_| Broken)
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

    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Broken> {
        SkbChunk::crc32c(self, at, len, crc.0)
            .map(Crc)
            .map_err(|_| Broken)
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

impl Conditions for Shared {
    #[inline(always)]
    fn arrival(&self) -> Arrival {
        self.state().arrival()
    }

    fn rights(&self) -> Rights {
        let rights = self.flags.rights();
        Rights {
            read: rights.contains(Access::REMOTE_READ),
            write: rights.contains(Access::REMOTE_WRITE),
            atomic: self.flags.may_atomic(),
            immediate: self.id.consumer.takes_immediate(),
        }
    }

    #[inline(always)]
    fn traces(&self) -> bool {
        trace::is_ulpdu_rx_on()
    }
}

impl Shared {
    /// Records that our oldest Read is done, and wakes those who wait for that.
    fn end_read(&self, wakes: &Arc<dyn Wakes>) {
        let resumes = self.read_done();
        // Whoever makes the state Draining looks at the Reads afterwards.
        if self.state() == QpState::Draining {
            // The FIN may be due. A process that disconnects does not poll.
            wakes.clone().wake(Actor::Urgent);
        } else if resumes {
            wakes.clone().wake(self.who(Reason::Left));
        }
    }

    /// Invalidates an STag. Returns its region or window, whose users the receiver asks about next.
    fn invalidate_for(&self, what: Invalidation) -> Result<Arc<Mr>, Failure> {
        match what {
            Invalidation::ForPeer(stag) => {
                let region = self.id.invalidate_remotely(stag, self.flags.rights());
                region.map_err(Failure::from)
            }
            Invalidation::Sink(stag) => {
                let region = self.id.invalidate_locally(stag);
                region.map_err(|()| TermError::LocalCatastrophic.into())
            }
        }
    }

    /// Completes in error the request or receive that is to blame for the end of the stream.
    /// Returns whether the completion tells of the error.
    fn fail_blamed(&self, blame: Blame) -> bool {
        match blame {
            Blame::Nobody => false,
            Blame::Receive(id, fault) => self.fail_recv(id, fault),
            Blame::Request(token, fault) => self.fail_send(token, fault),
        }
    }

    /// Queues a Read or Atomic Operation of the peer, if there is room for it and the peer may do
    /// that there.
    fn queue_inbound(&self, wakes: &Arc<dyn Wakes>, request: Inbound) -> Result<(), Failure> {
        if !self.inbound.lock().has_room() {
            return Err(Failure::new(
                TermError::UntaggedNoBuffer,
                "more Reads and Atomic Operations than IRD allows",
            ));
        }
        match &request {
            Inbound::Read(InboundRead { request, .. }) => self.id.check_source(request)?,
            Inbound::Atomic(_, request) => self.id.check_word(request)?,
        }
        self.inbound.lock().push(request)?;
        // Requests that come before the work item runs are answered together with this one.
        wakes.urge();
        Ok(())
    }
}
