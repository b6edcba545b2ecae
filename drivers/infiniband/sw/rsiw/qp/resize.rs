// SPDX-License-Identifier: GPL-2.0

//! Resizing the queues of a QP (draft-hilland-rddp-verbs section 6.1.3).
//!
//! Kernel consumers modify the QP. The core does not pass the sizes of processes on, and cannot
//! tell them of new mappings: processes with own rings call a method of this driver.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    consumer::{
        NewRings,
        Offers, //
    },
    shared::Shared,
    sq::{
        records,
        Records, //
    },
    Qp, //
};
use crate::{
    abi::{
        own::{
            ResizeQpReq,
            ResizeQpResp, //
        },
        Rings,
    },
    ffi::{
        mm::ring::{
            SharedRing,
            SharedWord, //
        },
        rdma::{
            attr::QpCap,
            udata::Udata, //
        },
        task::memory_for, //
    },
    limits::MAX_WR,
    queue::{
        rq::{
            KernelRq,
            UserRq, //
        },
        shared::{
            new_recv_ring,
            new_ring,
            Moving, //
        },
    },
};
use kernel::{
    alloc::Flags,
    prelude::*, //
};

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
        // Room for as many requests under way and completions is made first, and never taken back.
        let grown = self.make_room(new_sq.depth(), memory_for(false))?;
        kernel.spare.extend(new_sq.spare())?;
        // In the order of locks this one comes before that of `posted`.
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
    /// rings, all or nothing; or takes one step of that. What was posted and not taken moves there
    /// and keeps its numbers. The old rings remain memory as long as they are mapped, but nobody
    /// looks at them. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for depths beyond the maximum or below what is posted, for a receive queue where
    /// there is a shared one (V-QP-22), if the process has no room for the answer, or if it moves to
    /// rings that were not made. `ENOMEM`, `EFAULT`. `EOPNOTSUPP` for the QP of any other consumer.
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
        // Whoever has the mutex is alone in growing, and in beginning requests.
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
