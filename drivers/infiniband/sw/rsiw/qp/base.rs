// SPDX-License-Identifier: GPL-2.0

//! What of a queue pair is not under its mutex: which one it is, what its peer may do, and what
//! softirq shares with those who send.
//!
//! - `sq`, `inbound`, `rq`: spin locks around requests under way, Reads of the peer, and receives.
//! - `notes`, and what goes with them: what was found out, for the QP's work item to act upon. Who
//!   leaves one here does not queue the work: whoever sent or received does, at the end
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
    ffi::rdma::{
        attr::{
            AccessFlags,
            QpCap,
            Qpn, //
        },
        handle::QpHandle,
    },
    mr::{
        access::Access,
        window::{
            Binder,
            Party, //
        },
        PdId,
    },
    notes::{
        Noticeboard,
        Slot, //
    },
    pd::Pd,
    proto::{
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
        state::QpState,
    },
    queue::rq::Rq,
    srq::Srq,
    wire::ddp::Msn,
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
        Arc,
        SpinLockIrq, //
    },
};

/// What the peer's Terminate says.
#[derive(Clone, Copy)]
pub(super) struct RemoteEnd {
    /// `0xLTCC`.
    pub(super) code: u16,
    /// The Read Request or Atomic Request that it refuses.
    pub(super) read: Option<Msn>,
}

/// What is shared by all that works for a queue pair.
#[pin_data]
pub(crate) struct Base {
    /// Set once, when the QP gets into the device's table.
    pub(super) num: Atomic<Qpn>,
    pub(crate) dev: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    /// The core's QP.
    pub(crate) handle: Arc<QpHandle>,
    pub(super) cap: QpCap,
    pub(super) consumer: Consumer,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    /// The shared receive queue, if receives come from one.
    pub(super) srq: Option<Arc<Srq>>,
    /// By which windows know the QP.
    pub(super) binder: Arc<Binder>,
    /// Rights of the peer.
    pub(super) access: Atomic<AccessFlags>,
    /// The state, and numbers, as of the last change.
    pub(super) published: Published,
    /// What has ended the stream: a [`Cause`](crate::proto::failure::Cause).
    pub(super) ended_by: Atomic<u32>,
    /// The peer has sent an FPDU.
    pub(super) heard: Atomic<u32>,
    /// Data came in since the last doorbell. This is not a note, because it is set with each packet,
    /// where a plain store is cheaper.
    pub(super) answered: AtomicFlag,
    /// The process has slept of late until a completion event came. Set under the QP's mutex.
    pub(super) has_slept: AtomicFlag,
    /// The consumer destroys the QP: its requests make no completions any more (V-CQ-29).
    pub(super) destroyed: AtomicFlag,
    #[pin]
    pub(super) sq: SpinLockIrq<Sq>,
    #[pin]
    pub(super) inbound: SpinLockIrq<InboundReads<KVec<Inbound>>>,
    /// Whether there are any, for those who would take the lock in vain. It changes under that
    /// lock.
    pub(super) has_inbound: AtomicFlag,
    /// The QP's own receives.
    #[pin]
    pub(super) rq: SpinLockIrq<Option<Rq>>,
    /// What the work item is to act upon.
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
    /// Returns the QP's number.
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// Returns the state, which may be another by now.
    pub(super) fn state(&self) -> QpState {
        self.published.state()
    }

    /// Returns as whom windows know the QP.
    pub(super) fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Returns the protection domain of the memory that receives name: that of the queue they come
    /// from (V-PD-7).
    pub(super) fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    /// Returns the most elements of a receive.
    pub(super) fn max_recv_sge(&self) -> u32 {
        match &self.srq {
            Some(srq) => srq.max_sge(),
            None => self.cap.max_recv_sge,
        }
    }

    /// Returns who is to act because of `reason`.
    #[inline(always)]
    pub(super) fn who(&self, reason: Reason) -> Actor {
        schedule::who(reason, || {
            self.has_slept.load(Relaxed) || self.send_cq.is_awaited()
        })
    }

    /// Returns whether there are notes to act upon.
    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.notes.peek() != Notes::NONE
    }

    /// Returns what the peer may do.
    pub(super) fn rights(&self) -> Access {
        Access::from_verbs(self.access.load(Relaxed))
    }

    /// Returns whether the peer may ask for Atomic Operations at all. The connection manager knows
    /// no right for that: who may read and write may do both at once. The regions decide, of which
    /// few have the right.
    pub(super) fn may_atomic(&self) -> bool {
        let rights = self.rights();
        rights.contains(Access::REMOTE_ATOMIC)
            || rights.contains(Access::REMOTE_READ | Access::REMOTE_WRITE)
    }

    /// Returns whether the peer has sent an FPDU.
    pub(super) fn heard_of_peer(&self) -> bool {
        self.heard.load(Acquire) != 0
    }

    /// Notes that an FPDU came in whose CRC is right.
    pub(super) fn fpdu_received(&self) {
        if self.heard.load(Relaxed) == 0 {
            self.heard.store(1, Release);
        }
    }

    /// Forgets what was noted about an earlier connection, of which nothing more comes. Under the
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

    /// Notes that the peer ended the stream.
    pub(super) fn terminate_received(&self, end: RemoteEnd) {
        self.remote_end.put_first(end);
        self.notes.leave(QpNote::Terminate);
    }
}
