// SPDX-License-Identifier: GPL-2.0

//! Creation of queue pairs, and resizing of their queues (draft-hilland-rddp-verbs section 6.1.3).
//!
//! Kernel consumers modify the QP to resize its queues. The core does not pass on the sizes that a
//! process asks for, and cannot tell a process of new mappings. So processes with own rings call a
//! method of this driver.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::direct::LocalPeers;
use super::identity::{
    Consumer,
    NewRings,
    OfKernel,
    OfProcess,
    Offers,
    ProcessRings,
    QpIdentity, //
};
use super::poller::Poller;
use super::shared::Shared;
use super::sq::kernel::KernelSq;
use super::sq::{
    records,
    Records,
    SqRing,
    UserSq, //
};
use super::{
    Inner,
    Qp,
    QpTable, //
};
use crate::abi::own::{
    self,
    Features,
    ResizeQpReq,
    ResizeQpResp, //
};
use crate::abi::{
    CreateQpResp,
    Rings, //
};
use crate::cq::{
    Cq,
    Spare, //
};
use crate::device::Pd;
use crate::ffi::mm::ring::{
    SharedRing,
    SharedWord, //
};
use crate::ffi::mm::Payer;
use crate::ffi::rdma::attr::{
    QpCap,
    Qpn, //
};
use crate::ffi::rdma::handle::QpHandle;
use crate::ffi::rdma::udata::Udata;
use crate::ffi::rsiw::Queues;
use crate::ffi::task::{
    memory_for,
    Identity,
    Thread, //
};
use crate::ffi::time::hrtimer::ShortTimer;
use crate::ffi::time::Timer;
use crate::limits::{
    fit,
    Quota,
    KERNEL_MAX_INLINE,
    KERNEL_MAX_SGE,
    MAX_READS,
    MAX_WR, //
};
use crate::mr::window::Binder;
use crate::proto::sends::Sends;
use crate::queue::rq::{
    KernelRq,
    Rq,
    UserRq, //
};
use crate::queue::shared::{
    new_recv_ring,
    new_ring,
    Moving, //
};
use crate::srq::Srq;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::{
    new_mutex,
    new_spinlock,
    new_work, //
};

/// The existing objects that a QP is made of.
pub(crate) struct QpParts {
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) peers: Arc<LocalPeers>,
    /// What was agreed on with a process.
    pub(crate) features: Features,
}

/// What a process asks of its queues.
struct Wanted<'a, 'b> {
    has_srq: bool,
    sig_all: bool,
    features: Features,
    udata: &'a Udata<'b>,
    queues: &'a Arc<Queues>,
}

/// The queues of a new QP, and its consumer.
struct NewQueues {
    ring: SqRing,
    /// `None` with a shared receive queue.
    rq: Option<Rq>,
    consumer: Consumer,
}

impl NewQueues {
    /// Makes the queues of a process; replaces the sizes in `cap` by those given.
    fn of_process(cap: &mut QpCap, asked: &Wanted<'_, '_>) -> Result<Self> {
        let (udata, loaded) = (asked.udata, asked.queues.loaded());
        let layout = asked.features.rings().layout();
        fit(cap, asked.has_srq, layout.max_sge, layout.max_inline)?;
        let (sq, send) = new_ring(layout.sqe, cap.max_send_wr, udata, loaded)?;
        let (rq, recv) = if asked.has_srq {
            (None, None)
        } else {
            let tells = asked.features.tells_of_flushes();
            let (ring, word, entry) =
                new_recv_ring(layout.rqe, cap.max_recv_wr, tells, udata, loaded)?;
            cap.max_recv_wr = ring.len();
            let rq = UserRq::new(ring, layout, word, cap.max_recv_sge);
            (Some(Rq::User(rq)), Some(entry))
        };
        cap.max_send_wr = sq.len();
        let rings = ProcessRings::new(Offers { send, recv }, sq.clone())?;
        cap.max_inline_data = layout.max_inline;
        let sq = UserSq::new(sq, layout, asked.sig_all, cap.max_send_sge);
        Ok(Self {
            ring: SqRing::User(sq),
            rq,
            consumer: Consumer::Process(OfProcess {
                owner: Identity::current()?,
                thread: Thread::current(),
                rings,
                takes_immediate: asked.features.has_immediate(),
                takes_send_immediate: asked.features.has_send_immediate(),
            }),
        })
    }

    /// Makes the queues of a kernel consumer, whose sends complete in `send_cq`.
    fn of_kernel(
        cap: &mut QpCap,
        srq: Option<&Arc<Srq>>,
        sig_all: bool,
        send_cq: &Arc<Cq>,
    ) -> Result<Self> {
        fit(cap, srq.is_some(), KERNEL_MAX_SGE, KERNEL_MAX_INLINE)?;
        let posted = KernelSq::new(
            cap.max_send_wr,
            sig_all,
            cap.max_send_sge,
            cap.max_inline_data,
        )?;
        let spare = Spare::new(send_cq.clone());
        spare.extend(posted.spare())?;
        let (rq, recv_slots) = match srq {
            Some(srq) => (None, srq.slots()),
            None => {
                let rq = Rq::Kernel(KernelRq::new(cap.max_recv_wr, cap.max_recv_sge)?);
                let slots = rq.slots();
                (Some(rq), slots)
            }
        };
        Ok(Self {
            ring: SqRing::Kernel(posted.clone()),
            rq,
            consumer: Consumer::Kernel(OfKernel {
                maker: Identity::current()?,
                send_slots: posted.slots(),
                posted,
                recv_slots,
                spare,
            }),
        })
    }
}

/// Returns for how many microseconds the calling process wants its send queue to be polled.
fn poll_us(features: Features, udata: Option<&mut Udata<'_>>) -> Result<u32> {
    let Some(udata) = udata.filter(|_| features.may_ask_to_poll()) else {
        return Ok(0);
    };
    let req = udata.read_if_there::<own::CreateQpReq>()?;
    req.map_or(Ok(0), |req| req.poll_us())
}

impl Qp {
    /// Creates a queue pair for the calling process, or for a kernel consumer; replaces the sizes
    /// that are asked for in `cap` by those given.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the maxima, `ENOMEM`.
    pub(crate) fn create(
        table: &Arc<QpTable>,
        handle: Arc<QpHandle>,
        parts: QpParts,
        cap: &mut QpCap,
        sig_all: bool,
        mut udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self>, Qpn)> {
        let QpParts {
            pd,
            send_cq,
            recv_cq,
            srq,
            peers,
            features,
        } = parts;
        let dev = pd.device().clone();
        let quota = Quota::take(dev.limits(), |limits| &limits.qps)?;
        let poll_us = poll_us(features, udata.as_deref_mut())?;
        let queues = match &udata {
            Some(udata) => {
                let asked = Wanted {
                    has_srq: srq.is_some(),
                    sig_all,
                    features,
                    udata,
                    queues: dev.queues(),
                };
                NewQueues::of_process(cap, &asked)?
            }
            None => NewQueues::of_kernel(cap, srq.as_ref(), sig_all, &send_cq)?,
        };
        let NewQueues { ring, rq, consumer } = queues;
        let poller = match &udata {
            Some(udata) => Poller::new(poll_us, udata, dev.queues())?,
            None => None,
        };
        let cap = *cap;

        let payer = match &udata {
            Some(_) => Payer::of_caller(),
            None => Payer::nobody(),
        };
        let flags = memory_for(udata.is_some());
        let binder = Binder::new(flags)?;
        // CAST: at most [`MAX_WR`].
        let mut sends = Sends::new(records(ring.len() as u32, flags)?, KVec::new());
        sends.ord = MAX_READS.into();
        let id = QpIdentity {
            num: Atomic::new(Qpn(0)),
            dev,
            pd,
            handle,
            cap,
            sig_all,
            consumer,
            payer,
            send_cq,
            recv_cq,
            srq,
            binder,
        };
        let qp = Arc::pin_init(
            pin_init!(Self {
                shared <- Shared::new(id, sends, rq),
                table: table.clone(),
                peers,
                poller,
                shown <- new_spinlock!(None, "rsiw::Qp::shown"),
                inner <- new_mutex!(Inner::new(ring), "rsiw::Qp::inner"),
                work <- new_work!("rsiw::Qp::work"),
                posts <- new_work!("rsiw::Qp::posts"),
                timer <- Timer::new(),
                gathers <- ShortTimer::new(),
                _quota: quota,
            }),
            flags,
        )?;
        qp.shared.id.pd.join();
        let num = match table.insert(qp.clone(), flags) {
            Ok(num) => num,
            Err(e) => {
                qp.forget_offers();
                qp.shared.id.pd.leave();
                return Err(e);
            }
        };
        qp.shared.id.num.store(num, Relaxed);
        if let Some(Err(e)) = udata.map(|udata| qp.finish(features, udata)) {
            qp.destroy()?;
            qp.free_number();
            return Err(e);
        }
        Ok((qp, num))
    }

    /// Prepares polling for the process if it asked for that, and answers the process.
    fn finish(self: &Arc<Self>, features: Features, udata: &mut Udata<'_>) -> Result {
        if let Some(poller) = &self.poller {
            poller.prepare(self.clone())?;
        }
        let id = &self.shared.id;
        let (sq_key, rq_key) = id.consumer.keys();
        let base = CreateQpResp {
            qp_id: id.num().0,
            num_sqe: id.cap.max_send_wr,
            num_rqe: id.cap.max_recv_wr,
            pad: 0,
            sq_key,
            rq_key,
        };
        if !features.may_ask_to_poll() {
            return udata.respond(&base);
        }
        let mut resp = own::CreateQpResp {
            base,
            ..Default::default()
        };
        if let Some(poller) = self.active_poller() {
            poller.describe(&mut resp);
        }
        udata.respond(&resp)
    }
}

/// How many records are moved at a time with interrupts off.
const AT_A_TIME: usize = 64;

impl Qp {
    /// Gives both queues the depths in `cap`, all or nothing, whatever is posted and under way
    /// (V-QP-21). `cap` may ask for fewer elements and less inline data than there is.
    ///
    /// # Errors
    ///
    /// `EINVAL` for depths beyond the maximum or below what is in use, for more elements or inline
    /// data than before, and for a receive queue where there is a shared one (V-QP-22). `ENOMEM`.
    /// `EOPNOTSUPP` for the QP of a process.
    pub(crate) fn resize(&self, cap: &QpCap) -> Result {
        let id = &self.shared.id;
        let kernel = id.consumer.kernel().ok_or(EOPNOTSUPP)?;
        let posted = &kernel.posted;
        let more = cap.max_send_sge > id.cap.max_send_sge
            || cap.max_recv_sge > id.cap.max_recv_sge
            || cap.max_inline_data > id.cap.max_inline_data;
        let beside_srq = id.srq.is_some() && cap.max_recv_wr != 0;
        if more || beside_srq || cap.max_send_wr > MAX_WR || cap.max_recv_wr > MAX_WR {
            return Err(EINVAL);
        }
        let mut new_sq = posted.another(cap.max_send_wr)?;
        let mut new_rq = match id.srq {
            Some(_) => None,
            None => Some(KernelRq::new(cap.max_recv_wr, id.cap.max_recv_sge)?),
        };
        // Room for as many completions and requests under way is made first, and never taken back.
        let grown = self.make_room(new_sq.depth(), memory_for(false))?;
        kernel.spare.extend(new_sq.spare())?;
        // In lock order the lock of `rq` comes before that of `posted`.
        let mut rq = self.shared.rq.lock();
        let result = posted.replace(&mut new_sq, || match (&mut *rq, &mut new_rq) {
            (Some(rq), Some(new)) => rq.replace(new),
            _ => Ok(()),
        });
        drop(rq);
        // What was replaced is dropped without a lock.
        drop((grown, new_sq, new_rq));
        result
    }

    /// Gives the queues of a process with own rings the depths that its request asks for, in new
    /// rings, all or nothing. The request may also ask for one step of that only: to make the
    /// rings, or to move to them. What was posted and not taken moves there and keeps its numbers.
    /// The old rings stay in memory as long as they are mapped, but nobody looks at them. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for depths beyond the maximum or below what is posted, for a receive queue where
    /// there is a shared one (V-QP-22), if the process has no room for the answer, or if it moves
    /// to rings that were not made. `ENOMEM`, `EFAULT`. `EOPNOTSUPP` for the QP of any other
    /// consumer.
    pub(crate) fn resize_rings(&self, udata: &mut Udata<'_>) -> Result {
        let rings = self.shared.id.consumer.rings().ok_or(EOPNOTSUPP)?;
        let asked: ResizeQpReq = udata.read_from(ResizeQpReq::SHORTEST)?;
        let step = asked.step()?;
        let mut offered = rings.offered.lock();
        let made = &mut offered.made;
        let Some(new) = made.take_step(step, || self.shared.make_rings(&asked, udata))? else {
            return Ok(());
        };
        // Room is made first, and never taken back, as in `resize`.
        let grown = self.make_room(new.sq.len(), memory_for(true))?;
        let mut word = new.word;
        let moved = self.move_to(new.sq, new.rq, &mut word)?;
        let old = core::mem::replace(&mut offered.offers, new.offers);
        // Memory is freed without a lock.
        drop(offered);
        drop((grown, moved, word, old));
        Ok(())
    }

    /// Moves what was posted to other rings, and returns the old ones. Swaps `word` with the word
    /// of the receive queue.
    fn move_to(
        &self,
        sq: SharedRing,
        rq: Option<SharedRing>,
        word: &mut Option<SharedWord>,
    ) -> Result<(Moving, Option<Moving>, SharedRing)> {
        let shared = &self.shared;
        // Receives may be taken at any time, requests only under this mutex.
        let mut inner = self.inner.lock();
        let view = sq.clone();
        let queue = inner.ring.own()?;
        let mut sends = queue.moving_to(sq)?;
        let mut recvs = rq
            .map(|rq| shared.with_own_rq(|queue| queue.moving_to(rq)))
            .transpose()?;
        if let Some(recvs) = &mut recvs {
            recvs.copy(|| shared.with_own_rq(|queue| queue.taken()))?;
            // Both queues exist: nothing fails from here on.
            while !shared.with_own_rq(|queue| queue.go_on_in(recvs))? {
                recvs.forget(shared.with_own_rq(|queue| queue.taken())?);
            }
            shared.with_own_rq(|queue| queue.tell_by(word))?;
        }
        queue.go_on_in(&mut sends);
        let rings = shared.id.consumer.rings().ok_or(EOPNOTSUPP)?;
        let seen = core::mem::replace(&mut *rings.posted.lock(), view);
        drop(inner);
        Ok((sends, recvs, seen))
    }

    /// Makes room for `depth` requests under way, in memory allocated with `flags`. Returns what is
    /// not used any more.
    fn make_room(&self, depth: u32, flags: Flags) -> Result<Records> {
        let larger = records(depth, flags)?;
        // Only the owner of this mutex grows the room, and begins requests.
        let _inner = self.inner.lock();
        if let Some(unused) = self.shared.sq.lock().grow(larger) {
            return Ok(unused);
        }
        loop {
            let moved = self.shared.sq.lock().move_some(AT_A_TIME);
            if let Some(old) = moved {
                return Ok(old);
            }
        }
    }
}

impl Shared {
    /// Makes the rings that a process asks for, and tells it how to map them.
    fn make_rings(&self, asked: &ResizeQpReq, udata: &mut Udata<'_>) -> Result<NewRings> {
        let id = &self.id;
        let beside_srq = id.srq.is_some() && asked.num_rqe != 0;
        if beside_srq || asked.num_sqe > MAX_WR || asked.num_rqe > MAX_WR {
            return Err(EINVAL);
        }
        let loaded = id.dev.queues().loaded();
        let layout = Rings::Own.layout();
        let (sq, send) = new_ring(layout.sqe, asked.num_sqe, udata, loaded)?;
        let (rq, word, recv) = match id.srq {
            Some(_) => (None, None, None),
            None => {
                let tells = self.with_own_rq(|queue| queue.is_told_of_posts())?;
                let (ring, word, offer) =
                    new_recv_ring(layout.rqe, asked.num_rqe, tells, udata, loaded)?;
                (Some(ring), word, Some(offer))
            }
        };
        let offers = Offers { send, recv };
        let (sq_key, rq_key) = offers.keys();
        udata.respond(&ResizeQpResp {
            num_sqe: sq.len(),
            num_rqe: rq.as_ref().map_or(0, SharedRing::len),
            sq_key,
            rq_key,
        })?;
        Ok(NewRings {
            sq,
            rq,
            word,
            offers,
        })
    }

    /// Calls `act` with the receive queue of a process with own rings.
    fn with_own_rq<R>(&self, act: impl FnOnce(&mut UserRq) -> R) -> Result<R> {
        match &mut *self.rq.lock() {
            Some(rq) => Ok(act(rq.own()?)),
            None => Err(EOPNOTSUPP),
        }
    }
}
