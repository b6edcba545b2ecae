// SPDX-License-Identifier: GPL-2.0

//! The part of a queue pair that its mutex does not protect: which QP it is, what its peer may do,
//! and what softirq shares with those who send.
//!
//! - `sq`, `inbound`, `rq`: spin locks around requests under way, Reads of the peer, and receives.
//! - `notes` and their slots: what the QP's work item is to act upon. Leaving a note here does not
//!   queue the work: whoever sends or receives does that at the end
//!   ([`Qp::ring_if_noted`](super::Qp::ring_if_noted)).
//!
//! Sending and receiving know this, and not the [`Qp`](super::Qp) that they are parts of.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::{
    consumer::Consumer,
    count::CountsOf,
    published::Published,
    sq::Sq, //
};
use crate::{
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
    mr::{
        access::Access,
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
        drain::{
            Marked,
            Waker, //
        },
        failure::Failure,
        notes::{
            Notes,
            QpNote, //
        },
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
    wire::ddp::Msn, //
};
use kernel::{
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
        Arc, //
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
