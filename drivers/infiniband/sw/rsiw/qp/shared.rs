// SPDX-License-Identifier: GPL-2.0

//! What the parts of a queue pair share: which QP it is, and the data that softirq, those who send
//! and those who post use without the QP's mutex.
//!
//! - `sq`, `inbound`, `rq`: spin locks around requests under way, Reads of the peer, and receives.
//! - `published`, `flags`: read without a lock.
//! - `notes` and their slots: what the QP's work item is to act upon. Leaving a note here does not
//!   queue the work: whoever sends or receives does that at the end
//!   ([`Qp::ring_if_noted`](super::Qp::ring_if_noted)).
//! - `by_number`: what the consumer has told of the peer, for the few who ask for that.
//!
//! Sending and receiving know all this, but not the [`Qp`](super::Qp) that they are parts of. The
//! stream, and the other end of a connection on this host, also know whom they wake ([`Wakes`]).
//!
//! [`Manager`] is the connection manager, as a queue pair knows it.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

mod published;

use self::published::Published;
use super::identity::{
    Consumer,
    QpIdentity, //
};
use super::sq::Sq;
use crate::counts::CountsOf;
use crate::ffi::rdma::attr::{
    AccessFlags,
    IbQpState,
    QpModify,
    QpPath, //
};
use crate::ffi::sync::Watched;
use crate::limits::MAX_READS;
use crate::mr::access::Access;
use crate::notes::{
    Noticeboard,
    Slot, //
};
use crate::proto::by_number::{
    answer_ms,
    receive_ms,
    Hello,
    Pair, //
};
use crate::proto::connection::StreamEnd;
use crate::proto::drain::{
    Marked,
    Waker, //
};
use crate::proto::failure::{
    Cause,
    Failure,
    Fault, //
};
use crate::proto::notes::{
    Notes,
    QpNote, //
};
use crate::proto::reads::{
    Inbound,
    InboundReads,
    OutboundRead,
    OutboundReads, //
};
use crate::proto::schedule::{
    self,
    Actor,
    Reason, //
};
use crate::proto::sends::Status;
use crate::proto::setup::Params;
use crate::proto::state::{
    Post,
    QpState, //
};
use crate::queue::rq::Rq;
use crate::wire::ddp::Msn;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    AtomicFlag,
    Relaxed,
    Release, //
};
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};
use kernel::sync::{
    new_spinlock,
    new_spinlock_irq,
    Arc,
    SpinLock,
    SpinLockIrq, //
};

/// The queues for the Reads of a connection, in both directions.
pub(super) struct ReadQueues {
    inbound: InboundReads<KVec<Inbound>>,
    outbound: OutboundReads<KVec<OutboundRead>>,
}

impl ReadQueues {
    /// Makes empty queues for what the two sides have agreed on, or returns `ENOMEM`. Sleeps.
    pub(super) fn new(params: &Params) -> Result<Self> {
        let ird = params.ird.into();
        let inbound = KVec::from_elem(Inbound::default(), ird, GFP_KERNEL_ACCOUNT)?;
        let slots = params.outbound_slots().into();
        let outbound = KVec::from_elem(OutboundRead::default(), slots, GFP_KERNEL_ACCOUNT)?;
        Ok(Self {
            inbound: InboundReads::new(inbound),
            outbound: OutboundReads::new(outbound),
        })
    }
}

/// What the peer's Terminate says.
#[derive(Clone, Copy)]
pub(super) struct RemoteEnd {
    /// Layer, error type and error code, as `0xLTCC`.
    pub(super) code: u16,
    /// The Read Request or Atomic Request that the Terminate refuses.
    pub(super) read: Option<Msn>,
    /// How many Sends, Immediates and Writes the peer has placed, if it says that.
    pub(super) placed: Option<u32>,
}

/// What is read and written without a lock.
pub(super) struct Flags {
    /// Rights of the peer.
    pub(super) access: Atomic<AccessFlags>,
    /// What has ended the stream: a [`Cause`].
    pub(super) ended_by: Atomic<u32>,
    /// Whether the peer has sent an FPDU with the right CRC on this connection, other than a
    /// Terminate as the first one: 1 if it has, otherwise 0.
    heard: Atomic<u32>,
    /// Whether data came in since the last doorbell. This is no note, because it is set with each
    /// packet, where a plain store is cheaper.
    pub(super) answered: AtomicFlag,
    /// Whether the process has recently slept until a completion event came. Set under the mutex.
    pub(super) has_slept: AtomicFlag,
    /// Whether the consumer has taken no step since the QP was made or reset: Idle is RESET to it
    /// then, and INIT otherwise. Set under the mutex.
    pub(super) is_reset: AtomicFlag,
    /// Whether the kernel may need the requests of this QP in order to free memory. If so, the work
    /// items of the QP use the kernel's reserves. Set under the mutex.
    pub(super) reclaims: AtomicFlag,
    /// Whether requests and receives make no completions any more: the consumer destroys the QP
    /// (V-CQ-29), or resets it.
    pub(super) mute: AtomicFlag,
    /// Whether the consumer destroys the QP: nobody finds it by its number any more.
    pub(super) ending: AtomicFlag,
}

impl Flags {
    fn new() -> Self {
        Self {
            access: Atomic::new(AccessFlags::NONE),
            ended_by: Atomic::new(Cause::NONE.0),
            heard: Atomic::new(0),
            answered: AtomicFlag::new(false),
            has_slept: AtomicFlag::new(false),
            is_reset: AtomicFlag::new(true),
            reclaims: AtomicFlag::new(false),
            mute: AtomicFlag::new(false),
            ending: AtomicFlag::new(false),
        }
    }

    pub(super) fn rights(&self) -> Access {
        Access::from_verbs(self.access.load(Relaxed))
    }

    /// Returns whether the peer may ask for Atomic Operations at all. The connection manager knows
    /// no right for that, so the rights to read and to write together imply it. The regions decide,
    /// and few of them grant it.
    pub(super) fn may_atomic(&self) -> bool {
        let rights = self.rights();
        rights.contains(Access::REMOTE_ATOMIC)
            || rights.contains(Access::REMOTE_READ | Access::REMOTE_WRITE)
    }

    /// Fails unless an FPDU of the peer has come in: the sender has to wait then.
    pub(super) fn heard_of_peer(&self) -> Result<(), Marked> {
        match self.heard.load(Acquire) {
            // There is no mark to set: whoever stores that an FPDU has come in always wakes the
            // sender.
            0 => Err(Waker::Peer.mark(|| {})),
            _ => Ok(()),
        }
    }

    /// Records that an FPDU with a correct CRC came in. The caller wakes the sender.
    pub(super) fn set_heard(&self) {
        self.heard.store(1, Release);
    }

    /// Records `cause` as what has ended the stream; the first one counts.
    pub(super) fn ends_of(&self, cause: Cause) {
        let none = Cause::NONE.0;
        let _ = self.ended_by.cmpxchg(none, cause.0, Relaxed);
    }

    /// Returns why a request that ended with `status` failed.
    #[inline]
    pub(super) fn cause(&self, status: Status<Fault>) -> Cause {
        if status == Status::Success {
            return Cause::NONE;
        }
        Cause::of(status, self.ended())
    }

    /// Returns what has ended the stream, if it has ended, until the next connection.
    pub(super) fn ended(&self) -> Cause {
        Cause(self.ended_by.load(Relaxed))
    }
}

/// What the parts of a queue pair share.
#[pin_data]
pub(crate) struct Shared {
    pub(crate) id: QpIdentity,
    pub(super) published: Published,
    pub(super) flags: Flags,
    #[pin]
    pub(super) sq: Watched<Sq>,
    #[pin]
    pub(super) inbound: Watched<InboundReads<KVec<Inbound>>>,
    /// `None` with a shared receive queue.
    #[pin]
    pub(super) rq: Watched<Option<Rq>>,
    pub(super) notes: Noticeboard<QpNote>,
    /// What goes with [`QpNote::Failure`].
    #[pin]
    pub(super) failure: Slot<Failure>,
    /// What goes with [`QpNote::Terminate`].
    #[pin]
    pub(super) remote_end: Slot<RemoteEnd>,
    #[pin]
    pub(crate) set_aside: SetAside,
    #[pin]
    pub(super) by_number: ByNumber,
    #[pin]
    pub(crate) counts: CountsOf,
}

impl Shared {
    /// Makes the shared part of an idle queue pair, with the requests `sends` and the receives
    /// `rq`.
    pub(super) fn new(id: QpIdentity, sends: Sq, rq: Option<Rq>) -> impl PinInit<Self> {
        pin_init!(Self {
            counts <- CountsOf::new(id.dev.counts.clone(), id.dev.bound_counts.clone()),
            id,
            published: Published::new(MAX_READS),
            flags: Flags::new(),
            sq <- Watched::new(new_spinlock_irq!(sends, "rsiw::Shared::sq")),
            inbound <- Watched::new(
                new_spinlock_irq!(InboundReads::new(KVec::new()), "rsiw::Shared::inbound")
            ),
            rq <- Watched::new(new_spinlock_irq!(rq, "rsiw::Shared::rq")),
            notes: Noticeboard::new(),
            failure <- Slot::new(),
            remote_end <- Slot::new(),
            set_aside <- SetAside::new(),
            by_number <- ByNumber::new(),
        })
    }

    /// Returns the state, which may have changed by now.
    pub(super) fn state(&self) -> QpState {
        self.published.state()
    }

    /// Returns whether a consumer in the kernel made the QP and it has no connection.
    pub(crate) fn is_unconnected_of_kernel(&self) -> bool {
        self.id.is_of_kernel() && self.state() == QpState::Idle
    }

    /// Tells the manager of the connection that its first segment has passed the protocol's checks.
    pub(super) fn first_segment(&self) {
        if let Some(manager) = self.set_aside.manager() {
            manager.first_segment();
        }
    }

    /// Changes the state, and tells a process whether its receives are flushed in the new one.
    /// Under the QP's mutex. A flush that follows sees all receives that were posted before the
    /// process was told.
    pub(super) fn set_state(&self, state: QpState) {
        self.published.set_state(state);
        if let Some(rq) = &mut *self.rq.lock() {
            rq.set_flushes(state.post_recv() == Post::Flush);
        }
        smp_mb(Full);
    }

    /// Returns whether the consumer posts receives to the QP's own queue and does not tell of those
    /// that it posts while receives are flushed.
    pub(super) fn posts_recvs_silently(&self) -> bool {
        let rq = self.rq.lock();
        rq.as_ref().is_some_and(|rq| !rq.is_told_of_posts())
    }

    /// Returns whether the consumer may have waited for an answer of the peer and got it since the
    /// last call. It has not if a Read is under way, or was answered without a completion.
    #[inline(always)]
    pub(super) fn take_answered(&self) -> bool {
        let answered = self.flags.answered.load(Relaxed);
        self.flags.answered.store(false, Relaxed);
        answered && {
            let mut sq = self.sq.lock();
            !core::mem::take(&mut sq.silent) && sq.outbound.outstanding() == 0
        }
    }

    /// Returns who sends: see [`schedule::who`].
    #[inline(always)]
    pub(super) fn who(&self, reason: Reason) -> Actor {
        schedule::who(reason, || {
            self.flags.has_slept.load(Relaxed) || self.id.send_cq.is_awaited()
        })
    }

    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.notes.peek() != Notes::NONE
    }

    /// Puts the queues for the Reads of a new connection into their places, and sets the ORD that
    /// it begins with, and whether requests complete only when the peer has placed them. Returns
    /// the old queues, to be dropped without a lock.
    pub(super) fn exchange_reads(
        &self,
        new: ReadQueues,
        ord: u16,
        awaits_placement: bool,
    ) -> ReadQueues {
        let inbound = core::mem::replace(&mut *self.inbound.lock(), new.inbound);
        let mut sq = self.sq.lock();
        sq.ord = ord.into();
        sq.await_placement(awaits_placement);
        let outbound = core::mem::replace(&mut sq.outbound, new.outbound);
        ReadQueues { inbound, outbound }
    }

    /// Forgets what was noted about an earlier connection. That connection leaves no more notes by
    /// now. Under the QP's mutex.
    pub(super) fn forget_connection(&self) {
        self.flags.is_reset.store(false, Relaxed);
        self.flags.heard.store(0, Release);
        self.notes.take_all();
        self.failure.take();
        self.remote_end.take();
    }

    /// Notes that the stream must end. The first cause counts.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.put_first(failure);
        self.notes.leave(QpNote::Failure);
    }

    /// Takes the failure that [`QpNote::Failure`] is about, ahead of the work item.
    #[inline]
    pub(super) fn noted_failure(&self) -> Option<Failure> {
        let is_noted = self.notes.peek().contains(QpNote::Failure);
        is_noted.then(|| self.failure.take()).flatten()
    }

    /// Notes that the peer ends the stream. Its first Terminate counts.
    pub(super) fn terminate_received(&self, end: RemoteEnd) {
        self.remote_end.put_first(end);
        self.notes.leave(QpNote::Terminate);
    }
}

/// What the consumer has told of the peer of a queue pair that it connects by number
/// (`proto::by_number`). Process context.
#[pin_data]
pub(super) struct ByNumber {
    #[pin]
    pub(super) told: SpinLock<Told>,
}

/// See [`ByNumber`].
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) path: QpPath,
    /// ORD and IRD as the consumer has set them.
    ord: Option<u8>,
    ird: Option<u8>,
    /// Set from the step to RTR on. Only then the queue pair is connected by number.
    pub(super) pair: Option<Pair>,
    /// The consumer has taken the step to RTS.
    pub(super) sends: bool,
    /// What the peer has said, once the two have met.
    pub(super) hello: Option<Hello>,
}

impl Told {
    pub(super) const NOTHING: Self = Self {
        path: QpPath::NOTHING,
        ord: None,
        ird: None,
        pair: None,
        sends: false,
        hello: None,
    };

    /// Adds what `attr` tells.
    pub(super) fn extend(&mut self, attr: &QpModify) {
        self.path.extend(&attr.path);
        self.ord = attr.max_rd_atomic.or(self.ord);
        self.ird = attr.max_dest_rd_atomic.or(self.ird);
    }

    /// Returns the PSN that this side begins with, if it is known yet.
    pub(super) fn psn(&self) -> Option<u32> {
        self.path.sq_psn.filter(|_| self.sends)
    }
}

/// What a new stream of a queue pair that is connected by number is to be like.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// How many milliseconds a message waits for a receive.
    pub(super) receive_ms: u32,
    /// Whether the peer may send Sends with immediate data, and whether this side may.
    pub(super) takes_immediate: bool,
    pub(super) sends_immediate: bool,
}

impl ByNumber {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            told <- new_spinlock!(Told::NOTHING, "rsiw::ByNumber::told"),
        })
    }

    /// Returns whether the consumer has named the peer.
    pub(super) fn is_told(&self) -> bool {
        self.told.lock().pair.is_some()
    }

    /// Returns what a new stream is to be like; `None` if the queue pair is not connected by
    /// number.
    pub(super) fn terms(&self, consumer: &Consumer) -> Option<Terms> {
        let told = *self.told.lock();
        told.pair?;
        let rnr_retry = told.hello.and_then(|hello| hello.rnr_retry);
        Some(Terms {
            receive_ms: receive_ms(rnr_retry, told.path.min_rnr_timer.unwrap_or(0)),
            takes_immediate: consumer.takes_send_immediate(),
            sends_immediate: told.hello.is_some_and(|hello| hello.takes_immediate),
        })
    }

    /// Returns how many Reads may be under way. Under the queue pair's mutex: the step to RTS, which
    /// says that, may come at any time.
    pub(super) fn max_ord(&self) -> u16 {
        self.told.lock().ord.map_or(MAX_READS, u16::from)
    }

    /// Returns whether the peer expects the PSN that this side begins with, as far as both are
    /// known.
    pub(super) fn fits(&self) -> bool {
        let told = *self.told.lock();
        let hello = told.hello;
        hello.is_none_or(|hello| hello.check_psn(told.psn()).is_ok())
    }

    /// Returns for how many milliseconds requests wait for a peer that does not answer.
    pub(super) fn answer_ms(&self) -> u32 {
        let path = self.told.lock().path;
        answer_ms(path.timeout.unwrap_or(0), path.retry_cnt.unwrap_or(0))
    }

    /// Returns the attributes that the consumer has set, the state that it sees unless the queue
    /// pair is in error or about to be, and ORD and IRD.
    pub(super) fn shown(&self) -> (QpPath, Option<IbQpState>, Option<u8>, Option<u8>) {
        let told = *self.told.lock();
        let state = told.pair.map(|_| match told.sends {
            true => IbQpState::Rts,
            false => IbQpState::Rtr,
        });
        let depths = told.pair.and(told.ord.zip(told.ird)).unzip();
        (told.path, state, depths.0, depths.1)
    }
}

/// A queue pair, as its stream and the other end of its connection know it: they wake it.
pub(super) trait Wakes: Send + Sync {
    fn shared(&self) -> &Shared;

    /// Makes `actor` act, unless `actor` is the caller.
    fn wake(self: Arc<Self>, actor: Actor);
}

impl dyn Wakes {
    /// Queues the urgent work item: see [`Qp::urge`](super::Qp::urge).
    #[inline]
    pub(super) fn urge(self: &Arc<Self>) {
        self.clone().wake(Actor::Urgent);
    }

    /// Leaves a note for the work item: see [`Qp::note`](super::Qp::note).
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.shared().notes.leave(note);
        self.urge();
    }
}

/// The connection manager's part of one connection.
///
/// The methods leave a note for others to act upon. Any context, under any lock of the QP.
pub(crate) trait Manager: Send + Sync {
    /// Tells that the QP, which is set aside for the connection and was not given the stream yet,
    /// goes away or into error.
    fn abort(self: Arc<Self>);

    /// Tells that the first segment was received.
    fn first_segment(self: Arc<Self>);

    /// Tells that the peer has begun to close.
    fn peer_closing(self: Arc<Self>);

    /// Tells that the QP has left the stream for good: it is in its final state and flushed, and
    /// has nothing on the socket any more.
    fn stream_ended(self: Arc<Self>, end: StreamEnd);

    /// Returns whether `other` runs the connection in the place of this manager.
    fn leaves_to(&self, _other: &dyn Manager) -> bool {
        false
    }
}

/// Returns whether both are one object.
pub(crate) fn is_same(one: &dyn Manager, other: &dyn Manager) -> bool {
    // Only the addresses count: one object may have several vtables.
    core::ptr::addr_eq(one, other)
}

/// The manager that a queue pair is set aside for: from the request to connect or accept until the
/// connection is closed.
#[pin_data]
pub(crate) struct SetAside {
    #[pin]
    manager: SpinLockIrq<Option<Arc<dyn Manager>>>,
}

impl SetAside {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            manager <- new_spinlock_irq!(None, "rsiw::SetAside::manager"),
        })
    }

    /// Sets the QP aside for `manager`, or returns `EISCONN` if it is set aside for another one.
    pub(super) fn set(&self, manager: Arc<dyn Manager>) -> Result {
        let mut slot = self.manager.lock();
        if slot.is_some() {
            return Err(EISCONN);
        }
        *slot = Some(manager);
        Ok(())
    }

    /// Forgets `manager`, whose connection was not established. The QP may have another manager by
    /// now.
    pub(crate) fn forget(&self, manager: &dyn Manager) {
        let old = {
            let mut slot = self.manager.lock();
            slot.take_if(|attached| is_same(&**attached, manager))
        };
        drop(old);
    }

    /// Returns whether the QP is set aside for `manager`.
    pub(super) fn is_for(&self, manager: &dyn Manager) -> bool {
        let slot = self.manager.lock();
        slot.as_ref()
            .is_some_and(|attached| is_same(&**attached, manager))
    }

    /// Returns whether it is `manager` who runs the connection that the QP is set aside for.
    pub(super) fn is_run_by(&self, manager: &dyn Manager) -> bool {
        self.manager().is_some_and(|present| {
            is_same(&*present, manager) || present.leaves_to(manager) //
        })
    }

    /// Returns whether the QP is set aside for anybody.
    pub(super) fn is_set(&self) -> bool {
        self.manager.lock().is_some()
    }

    /// Returns the manager, if there is one.
    pub(super) fn manager(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().clone()
    }

    /// Forgets the manager, and returns it, if there is one.
    pub(super) fn take(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().take()
    }
}
