// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (draft-hilland-rddp-verbs section 6).
//!
//! What a QP consists of, and how its parts may be used:
//!
//! - `inner`, a mutex: state, connection, transmission. Process context. All state transitions
//!   happen under it.
//! - `sq`, `inbound`, `rq`: spin locks around what softirq shares with it.
//! - the [`stream::Stream`]: receiving, under the socket's lock.
//! - `notes`, and what goes with them: what softirq found out and the QP's work item has to act
//!   upon.
//!
//! Handlers of consumers and of the connection manager are called without any of these held.
#![forbid(unsafe_code)]

mod atomic;
mod complete;
mod consumer;
mod control;
mod count;
pub(crate) mod create;
mod describe;
mod direct;
mod effects;
pub(crate) mod ends;
mod failure;
mod fin;
mod kept;
mod link;
mod look;
pub(crate) mod manager;
mod place;
mod published;
mod resize;
mod rx;
mod schedule;
mod source;
mod sq;
mod stream;
pub(crate) mod table;
mod trace;
mod tx;
mod work;

use self::{
    consumer::Consumer,
    control::Inner,
    count::CountsOf,
    manager::{
        is_same,
        Manager, //
    },
    published::Published,
    sq::Sq,
    table::QpTable,
};
use crate::{
    cq::Cq,
    device::Device,
    ffi::{
        hrtimer::ShortTimer,
        iwcm::CallId,
        rdma::{
            attr::{
                AccessFlags,
                QpCap,
                Qpn, //
            },
            handle::QpHandle,
        },
        timer::Timer,
    },
    limits::Quota,
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        window::{
            Binder,
            Party, //
        },
        By, Mr, PdId,
    },
    notes::{
        Noticeboard,
        Slot, //
    },
    pd::Pd,
    proto::{
        failure::Failure,
        notes::QpNote,
        reads::{
            Inbound, //
            InboundReads,
        },
        schedule::{
            PostRow,
            Reason, //
        },
        state::QpState,
    },
    queue::rq::Rq,
    srq::Srq,
    wire::{
        ddp::{
            Msn,
            Stag, //
        },
        terminate::TermError,
    },
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
        Arc, Mutex, SpinLockIrq,
    },
    workqueue::Work,
};

/// What the peer's Terminate says.
#[derive(Clone, Copy)]
struct RemoteEnd {
    /// `0xLTCC`.
    code: u16,
    /// The Read Request or Atomic Request that it refuses.
    read: Option<Msn>,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    /// Set once, when the QP gets into the device's table.
    num: Atomic<Qpn>,
    pub(crate) dev: Arc<Device>,
    /// Where it is found by its number.
    table: Arc<QpTable>,
    pd: Arc<Pd>,
    /// The core's QP.
    pub(crate) handle: Arc<QpHandle>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    cap: QpCap,
    sig_all: bool,
    consumer: Consumer,
    /// By which windows know the QP.
    binder: Arc<Binder>,
    /// Rights of the peer.
    access: Atomic<AccessFlags>,
    /// What is known of it to those who do not hold `inner`.
    #[pin]
    published: Published,
    /// What has ended the stream: a [`Cause`](crate::proto::failure::Cause).
    ended_by: Atomic<u32>,
    /// The peer has sent an FPDU.
    heard: Atomic<u32>,
    /// Data came in since the last doorbell. This is not a note, because it is set with each packet,
    /// where a plain store is cheaper.
    answered: AtomicFlag,
    /// Requests of a process that are left to gather.
    #[pin]
    post_row: SpinLockIrq<PostRow>,
    /// The consumer destroys the QP: its requests make no completions any more (V-CQ-29).
    destroyed: AtomicFlag,
    /// The shared receive queue, if receives come from one.
    srq: Option<Arc<Srq>>,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    sq: SpinLockIrq<Sq>,
    #[pin]
    inbound: SpinLockIrq<InboundReads<KVec<Inbound>>>,
    /// Whether there are any, for those who would take the lock in vain. It changes under that
    /// lock.
    has_inbound: AtomicFlag,
    #[pin]
    rq: SpinLockIrq<Option<Rq>>,
    /// What the work item is to act upon.
    notes: Noticeboard<QpNote>,
    /// What goes with [`QpNote::Failure`].
    #[pin]
    failure: Slot<Failure>,
    /// What goes with [`QpNote::Terminate`].
    #[pin]
    remote_end: Slot<RemoteEnd>,
    /// Who manages the connection, from the request to connect or accept on until it is closed.
    #[pin]
    manager: SpinLockIrq<Option<Arc<dyn Manager>>>,
    #[pin]
    work: Work<Qp, { work::ACTS }>,
    #[pin]
    posts: Work<Qp, { work::SENDS }>,
    #[pin]
    timer: Timer<Qp>,
    /// Runs while Reads of the peer gather.
    #[pin]
    gathers: ShortTimer<Qp>,
    #[pin]
    counts_of: CountsOf,
    _quota: Quota,
}

/// The right to a window that is the sink of a Read of ours.
const SINK: Access = Access::REMOTE_WRITE;

impl Qp {
    /// The QP's number.
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// The state, which may be another by now. Any context.
    fn state(&self) -> QpState {
        self.published.load()
    }

    /// As whom windows know the QP.
    fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Checks and keeps an access to memory on behalf of this QP. Any context.
    fn access(
        &self,
        stag: Stag,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let of_window = want.is_remote().then_some(want);
        self.find(stag, self.pd.id(), (want, of_window), addr, len)
    }

    /// As [`Qp::access`] for the sink of a Read of ours, which may be a window that the peer may
    /// write to (V-ACC-13).
    fn access_sink(&self, stag: Stag, addr: u64, len: u32) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let want = (Access::LOCAL_WRITE, Some(SINK));
        self.find(stag, self.pd.id(), want, addr, len)
    }

    /// Finds a region of `pd`, or a window, if there is a right to want of one, and checks an access
    /// to it; see [`MrAccess::new`].
    #[inline(always)]
    fn find(
        &self,
        stag: Stag,
        pd: PdId,
        (want, of_window): (Access, Option<Access>),
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let mr = self.dev.stags.lookup(stag).ok_or(MrError::Invalid)?;
        match of_window.zip(mr.window()) {
            Some((want, window)) => window.access(mr.clone(), stag, self.party(), want, addr, len),
            None => MrAccess::new(mr, stag, pd, want, addr, len),
        }
    }

    /// Makes an STag invalid. Returns the region or window whose users may be waited for.
    fn invalidate(&self, mr: Arc<Mr>, stag: Stag, by: By) -> Result<Arc<Mr>, MrError> {
        let pd = self.pd.id();
        let result = match mr.window() {
            Some(window) => window.invalidate(stag, self.party(), by),
            None => mr.invalidate(stag, pd, by),
        };
        self.trace_invalidate(stag, by, result);
        result.map(|()| mr)
    }

    /// The protection domain of the memory that receives name: that of the queue they come from
    /// (V-PD-7).
    fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    /// What the peer may do.
    fn rights(&self) -> Access {
        Access::from_verbs(self.access.load(Relaxed))
    }

    /// Whether the peer has sent an FPDU.
    fn heard_of_peer(&self) -> bool {
        self.heard.load(Acquire) != 0
    }

    /// Notes that an FPDU came in whose CRC is right. Softirq.
    fn fpdu_received(&self) {
        if self.heard.load(Relaxed) == 0 {
            self.heard.store(1, Release);
        }
    }

    /// Notes the first segment of the connection, which has passed the protocol's checks. Softirq.
    fn first_segment(self: &Arc<Self>) {
        let manager = self.manager.lock().clone();
        if let Some(manager) = manager {
            manager.first_segment();
        }
        // A responder may have requests that waited for this (T-24).
        self.schedule(Reason::PeerHeard);
    }

    /// Most elements of a receive.
    fn max_recv_sge(&self) -> u32 {
        match &self.srq {
            Some(srq) => srq.max_sge(),
            None => self.cap.max_recv_sge,
        }
    }

    /// Invalidates an STag for the peer (T-7, T-21): one to which the peer has a right. A region of
    /// a process must be one that only this stream can reach; kernel consumers, who have several
    /// streams in a domain, name the region of a request to the peer of that request only.
    fn invalidate_remotely(&self, stag: Stag) -> Result<Arc<Mr>, TermError> {
        let rights = self.rights();
        if !rights.is_remote() {
            return Err(TermError::RemoteAccess);
        }
        let found = self.dev.stags.lookup(stag).ok_or(MrError::Invalid);
        let mr = found.map_err(failure::remote)?;
        if mr.is_user() && !self.pd.is_single_stream() {
            return Err(TermError::RemoteCannotInvalidate);
        }
        self.invalidate(mr, stag, By::Peer).map_err(failure::remote)
    }

    /// Invalidates the sink of a Read of ours.
    fn invalidate_locally(&self, stag: Stag) -> Result<Arc<Mr>, ()> {
        let mr = self.dev.stags.lookup(stag).ok_or(())?;
        self.invalidate(mr, stag, By::Consumer).map_err(|_| ())
    }

    /// Whether a consumer in the kernel made it.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.consumer, Consumer::Kernel(_))
    }

    /// Whether a consumer in the kernel made it, and has no connection with it.
    pub(crate) fn is_unconnected_of_kernel(&self) -> bool {
        self.is_of_kernel() && self.state() == QpState::Idle
    }

    /// Whether the caller may connect the QP by `id`: others must not get hold of it by its number.
    /// A QP of the kernel has no owner to compare with, but an identifier that it was made for.
    pub(crate) fn is_callers(&self, id: CallId<'_>) -> bool {
        match (&self.consumer, id.made(&self.handle)) {
            (Consumer::Process(process), None) => process.owner.is_current(),
            (Consumer::Kernel(_), Some(made)) => made,
            _ => false,
        }
    }

    /// Sets the QP aside for the connection of `manager`.
    ///
    /// # Errors
    ///
    /// `EISCONN` if it is for another, or the QP is in a state that cannot be connected.
    pub(crate) fn attach(&self, manager: Arc<dyn Manager>) -> Result {
        let mut inner = self.inner.lock();
        let mut slot = self.manager.lock();
        if slot.is_some() || inner.state != QpState::Idle {
            return Err(EISCONN);
        }
        *slot = Some(manager);
        inner.was_closed = false;
        Ok(())
    }

    /// Forgets `manager`, whose connection did not come about. The QP may have another one since.
    pub(crate) fn detach(&self, manager: &dyn Manager) {
        let old = {
            let mut slot = self.manager.lock();
            slot.take_if(|attached| is_same(attached, manager))
        };
        drop(old);
    }

    /// Whether the QP is set aside for the connection of `manager`.
    fn is_attached(&self, manager: &dyn Manager) -> bool {
        let slot = self.manager.lock();
        slot.as_ref()
            .is_some_and(|attached| is_same(attached, manager))
    }

    /// Takes the manager out of its slot.
    fn take_manager(&self) -> Option<Arc<dyn Manager>> {
        self.manager.lock().take()
    }
}
