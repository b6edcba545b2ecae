// SPDX-License-Identifier: GPL-2.0

//! The part of a queue pair that its mutex does not protect: which QP it is, what its peer may do,
//! what it counts, what ends its stream, and what softirq shares with those who send.
//!
//! - `sq`, `inbound`, `rq`: spin locks around requests under way, Reads of the peer, and receives.
//! - `notes` and their slots: what the QP's work item is to act upon. Leaving a note here does not
//!   queue the work: whoever sends or receives does that at the end
//!   ([`Qp::ring_if_noted`](super::Qp::ring_if_noted)).
//!
//! Sending and receiving know this, and not the [`Qp`](super::Qp) that they are parts of. The
//! stream, and the other end of a connection on this host, know it as their [`Parent`].
//!
//! Counts are for the device, or in the counter that the administrator has bound the queue pair to;
//! the core adds the latter to what it shows of the device.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::{
    consumer::Consumer,
    published::Published,
    sq::Sq, //
};
use crate::{
    counts::Counts,
    cq::Cq,
    device::Device,
    ffi::{
        mm::scope::Payer,
        rdma::{
            attr::{
                AccessFlags,
                QpCap,
                Qpn, //
            },
            handle::QpHandle, //
        },
    },
    log::Author,
    mr::{
        access::{
            Access,
            MrError, //
        },
        window::{
            Binder,
            Party, //
        },
        PdId, //
    },
    notes::{
        Noticeboard,
        Slot, //
    },
    pd::Pd,
    proto::{
        connection::StreamEnd,
        counters::{
            Counter,
            Tally, //
        },
        drain::{
            Marked,
            Waker, //
        },
        failure::{
            Cause,
            Failure,
            Fault, //
        },
        notes::{
            Notes,
            QpNote, //
        },
        order::Status,
        reads::{
            Inbound,
            InboundReads, //
        },
        schedule::{
            self,
            Actor,
            Reason, //
        },
        state::{
            Post,
            QpState, //
        },
    },
    queue::rq::Rq,
    srq::Srq,
    watched::{
        Watch,
        Watched, //
    },
    wire::{
        ddp::Msn,
        terminate::TermError, //
    },
};
use kernel::{
    fmt, pr_warn_once,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        barrier::{
            smp_mb,
            Full, //
        },
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// What the peer's Terminate says.
#[derive(Clone, Copy)]
pub(super) struct RemoteEnd {
    /// Layer, error type and error code, as `0xLTCC`.
    pub(super) code: u16,
    /// The Read Request or Atomic Request that it refuses.
    pub(super) read: Option<Msn>,
}

impl Watch for InboundReads<KVec<Inbound>> {
    /// How many there are.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.len() as u64 // CAST: IRD at most.
    }
}

impl Watch for Option<Rq> {
    /// The number of slots.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.as_ref().map_or(0, |rq| rq.len() as u64) // CAST: at most [`MAX_WR`].
    }
}

/// What the parts of a queue pair share.
#[pin_data]
pub(crate) struct Base {
    /// Set once, when the QP is entered in the device's table.
    pub(super) num: Atomic<Qpn>,
    pub(crate) dev: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    pub(crate) handle: Arc<QpHandle>,
    pub(super) cap: QpCap,
    pub(super) consumer: Consumer,
    /// Who pays for what a connection needs: the process that made the QP.
    pub(crate) payer: Payer,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    pub(super) srq: Option<Arc<Srq>>,
    /// Identifies the QP to windows.
    pub(super) binder: Arc<Binder>,
    /// Rights of the peer.
    pub(super) access: Atomic<AccessFlags>,
    pub(super) published: Published,
    /// What has ended the stream: a [`Cause`](crate::proto::failure::Cause).
    pub(super) ended_by: Atomic<u32>,
    /// Not 0 once the peer has sent an FPDU.
    pub(super) heard: Atomic<u32>,
    /// Whether data came in since the last doorbell. This is no note, because it is set with each
    /// packet, where a plain store is cheaper.
    pub(super) answered: AtomicFlag,
    /// Whether the process has slept of late until a completion event came. Set under the mutex.
    pub(super) has_slept: AtomicFlag,
    /// Whether the consumer destroys the QP, whose requests make no completions then (V-CQ-29).
    pub(super) destroyed: AtomicFlag,
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
    pub(super) counts_of: CountsOf,
}

impl Base {
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// Returns the state, which may have changed by now.
    pub(super) fn state(&self) -> QpState {
        self.published.state()
    }

    /// Changes the state, and tells a process whether its receives are flushed in the new one. Under
    /// the QP's mutex. Whoever flushes then sees what was posted by who had not been told yet.
    pub(super) fn set_state(&self, state: QpState) {
        self.published.set_state(state);
        if let Some(rq) = &mut *self.rq.lock() {
            rq.set_flushes(state.post_recv() == Post::Flush);
        }
        smp_mb(Full);
    }

    /// Returns whether the consumer posts receives to the QP's own queue and does not tell of them
    /// where they are flushed.
    pub(super) fn posts_recvs_silently(&self) -> bool {
        let rq = self.rq.lock();
        rq.as_ref().is_some_and(|rq| !rq.is_told_of_posts())
    }

    /// Returns how windows identify the QP.
    pub(super) fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Returns the protection domain of the memory of receives: that of their queue (V-PD-7).
    pub(super) fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    pub(super) fn max_recv_sge(&self) -> u32 {
        match &self.srq {
            Some(srq) => srq.max_sge(),
            None => self.cap.max_recv_sge,
        }
    }

    /// As [`schedule::who`].
    #[inline(always)]
    pub(super) fn who(&self, reason: Reason) -> Actor {
        schedule::who(reason, || {
            self.has_slept.load(Relaxed) || self.send_cq.is_awaited()
        })
    }

    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.notes.peek() != Notes::NONE
    }

    pub(super) fn rights(&self) -> Access {
        Access::from_verbs(self.access.load(Relaxed))
    }

    /// Returns whether the peer may ask for Atomic Operations at all. The connection manager knows
    /// no right for that, so the rights to read and to write together imply it. The regions decide,
    /// few of which grant it.
    pub(super) fn may_atomic(&self) -> bool {
        let rights = self.rights();
        rights.contains(Access::REMOTE_ATOMIC)
            || rights.contains(Access::REMOTE_READ | Access::REMOTE_WRITE)
    }

    /// Has the sender wait unless an FPDU of the peer has come in.
    pub(super) fn heard_of_peer(&self) -> Result<(), Marked> {
        match self.heard.load(Acquire) {
            // There is nothing to set: whoever stores that it came in always wakes.
            0 => Err(Waker::Peer.mark(|| {})),
            _ => Ok(()),
        }
    }

    /// Records that an FPDU with a correct CRC came in. Returns whether it is the first one, for
    /// which transmission may wait.
    #[inline]
    #[must_use = "transmission may wait for it"]
    pub(super) fn fpdu_received(&self) -> bool {
        let is_first = self.heard.load(Relaxed) == 0;
        if is_first {
            self.heard.store(1, Release);
        }
        is_first
    }

    /// Forgets what was noted about an earlier connection, which leaves no more notes. Under the
    /// QP's mutex.
    pub(super) fn forget_connection(&self) {
        self.heard.store(0, Release);
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

    pub(super) fn terminate_received(&self, end: RemoteEnd) {
        self.remote_end.put_first(end);
        self.notes.leave(QpNote::Terminate);
    }
}

/// Where a queue pair counts.
#[pin_data]
pub(super) struct CountsOf {
    /// Whether `bound` is set. What is counted during a change may go to the old counter.
    is_bound: AtomicFlag,
    #[pin]
    bound: SpinLockIrq<Option<Arc<Counts>>>,
}

impl CountsOf {
    pub(super) fn device() -> impl PinInit<Self> {
        pin_init!(Self {
            is_bound: AtomicFlag::new(false),
            bound <- new_spinlock_irq!(None, "rsiw::qp::CountsOf::bound"),
        })
    }
}

impl Base {
    /// Makes the queue pair count in `counts` from now on, or for the device if that is `None`.
    pub(crate) fn count_in(&self, counts: Option<Arc<Counts>>) {
        let of = &self.counts_of;
        of.is_bound.store(counts.is_some(), Relaxed);
        let old = core::mem::replace(&mut *of.bound.lock(), counts);
        // Memory is freed without a lock.
        drop(old);
    }

    /// Adds `tally` to the counters, and clears it.
    #[inline(always)]
    fn count_up(&self, tally: &mut Tally) {
        if self.counts_of.is_bound.load(Relaxed) {
            return self.count_up_bound(tally);
        }
        self.dev.counts.take_up(tally);
    }

    #[cold]
    #[inline(never)]
    fn count_up_bound(&self, tally: &mut Tally) {
        let bound = self.counts_of.bound.lock().clone();
        if bound.is_some() {
            self.dev.bound_counts.take_up(&mut tally.clone());
        }
        bound.as_ref().unwrap_or(&self.dev.counts).take_up(tally);
    }

    /// Counts an event that is rare.
    #[cold]
    #[inline(never)]
    pub(super) fn count(&self, counter: Counter) {
        let bound = self.counts_of.bound.lock().clone();
        bound.as_ref().unwrap_or(&self.dev.counts).add(counter, 1);
    }

    /// Counts rare events, ignoring `None`.
    #[inline(always)]
    pub(super) fn count_all(&self, counters: impl IntoIterator<Item = Option<Counter>>) {
        // Bound: the counters that one event has.
        for counter in counters.into_iter().flatten() {
            self.count(counter);
        }
    }

    #[inline]
    pub(super) fn count_received(&self, tally: &mut Tally) {
        self.count_up(tally);
    }

    /// Counts what `actor` sent, and the calls of TCP (`batches`) that it took.
    #[inline]
    pub(super) fn count_sent(&self, (tally, batches): (&mut Tally, &mut u32), actor: Actor) {
        if *batches > 0 {
            let counter = match actor {
                Actor::Urgent | Actor::Later => Counter::TxByUrgent,
                Actor::Patient => Counter::TxByPatient,
                Actor::Caller => Counter::TxByThread,
            };
            tally.add(counter, core::mem::take(batches).into());
        }
        self.count_up(tally);
    }
}

/// Logs a failure that only a defect of this driver can cause.
pub(super) fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.detail.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
    }
}

impl Base {
    /// Records `cause` as what has ended the stream; the first one counts.
    pub(super) fn ends_of(&self, cause: Cause) {
        let none = Cause::NONE.0;
        let _ = self.ended_by.cmpxchg(none, cause.0, Relaxed);
    }

    /// Logs what this side ends the stream for: an error of its consumer, or of the peer.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let author = match failure.error {
            TermError::LocalCatastrophic => self.own_author(),
            _ => self.peer_author(),
        };
        let detail = failure.detail.unwrap_or("");
        let separator = failure.detail.map_or("", |_| ": ");
        let (num, error, code) = (self.num(), failure.error, failure.error.code());
        self.dev.log(
            author,
            fmt!("QP {num}: ends the stream: {detail}{separator}{error:?} (Terminate {code:#06x})"),
        );
    }

    /// Logs that the peer has ended the stream.
    pub(super) fn log_terminate(&self, code: u16) {
        self.log_peer(fmt!("the peer ends the stream (Terminate {code:#06x})"));
    }

    /// Logs what the peer of this queue pair can cause.
    pub(super) fn log_peer(&self, line: fmt::Arguments<'_>) {
        let num = self.num();
        self.dev.log(self.peer_author(), fmt!("QP {num}: {line}"));
    }

    /// Returns who can cause lines about what this side does.
    fn own_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::Process,
            Consumer::Kernel(_) => Author::Kernel,
        }
    }

    /// Returns who can cause lines about what the other side does.
    pub(crate) fn peer_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::PeerOfProcess,
            Consumer::Kernel(_) => Author::PeerOfKernel,
        }
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

/// Returns how the peer is told of a refused RDMA Write (RFC 5041 section 7.2). There is no code
/// for missing rights; RDMAC's verbs use that of a foreign STag.
pub(super) fn tagged(error: MrError) -> TermError {
    match error {
        MrError::Invalid | MrError::Bound => TermError::TaggedStag,
        MrError::Pd | MrError::Access => TermError::TaggedNotAssociated,
        MrError::Bounds => TermError::TaggedBounds,
        MrError::Wrap => TermError::TaggedWrap,
    }
}

/// Returns how the peer is told of a refused Read source or invalidation (RFC 5040 section 4.8).
pub(super) fn remote(error: MrError) -> TermError {
    match error {
        MrError::Invalid => TermError::RemoteStag,
        MrError::Pd => TermError::RemoteNotAssociated,
        MrError::Access => TermError::RemoteAccess,
        MrError::Bounds => TermError::RemoteBounds,
        MrError::Wrap => TermError::RemoteWrap,
        MrError::Bound => TermError::RemoteCannotInvalidate,
    }
}

/// The queue pair that a part belongs to.
pub(super) trait Parent: Send + Sync {
    fn base(&self) -> &Base;

    /// Has `actor` act, unless that is the caller.
    fn let_act(self: Arc<Self>, actor: Actor);

    /// Tells that the connection's first segment has passed the protocol's checks.
    fn first_segment(self: Arc<Self>);
}

impl dyn Parent {
    /// As [`Qp::urge`](super::Qp::urge).
    #[inline]
    pub(super) fn urge(self: &Arc<Self>) {
        self.clone().let_act(Actor::Urgent);
    }

    /// As [`Qp::note`](super::Qp::note).
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.base().notes.leave(note);
        self.urge();
    }

    /// As [`Qp::ring_if_noted`](super::Qp::ring_if_noted). `base` is that of this queue pair, which
    /// the caller has at hand.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>, base: &Base) {
        if base.is_noted() {
            self.urge();
        }
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
}

pub(super) fn is_same(one: &Arc<dyn Manager>, other: &dyn Manager) -> bool {
    // Only the addresses count: one object may have several vtables.
    core::ptr::addr_eq(Arc::as_ptr(one), other)
}
