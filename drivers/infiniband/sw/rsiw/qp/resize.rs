// SPDX-License-Identifier: GPL-2.0

//! Other depths for the queues of a kernel consumer (draft-hilland-rddp-verbs section 6.1.3).
//!
//! Processes have no part in it: the core does not pass their sizes on, and has no way to tell them
//! of new mappings.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    sq::{
        under_way,
        Sq, //
    },
    Qp,
};
use crate::{
    ffi::rdma::attr::QpCap,
    limits::MAX_WR,
    queue::rq::{
        KernelRq,
        Rq, //
    },
};
use kernel::prelude::*;

impl Qp {
    /// Gives both queues the depths in `cap`, all or nothing, with whatever is posted and under way
    /// (V-QP-21). What the consumer says of elements and inline data may be less than there is.
    ///
    /// # Errors
    ///
    /// `EINVAL` for depths beyond the maximum or below what is in use, for more elements or inline
    /// data than before, and for a receive queue where there is a shared one (V-QP-22). `ENOMEM`.
    /// `EOPNOTSUPP` for the QP of a process.
    pub(super) fn resize(&self, cap: &QpCap) -> Result {
        let kernel = self.consumer.kernel().ok_or(EOPNOTSUPP)?;
        let posted = &kernel.posted;
        let more = cap.max_send_sge > self.cap.max_send_sge
            || cap.max_recv_sge > self.cap.max_recv_sge
            || cap.max_inline_data > self.cap.max_inline_data;
        let shared = self.srq.is_some() && cap.max_recv_wr != 0;
        if more || shared || cap.max_send_wr > MAX_WR || cap.max_recv_wr > MAX_WR {
            return Err(EINVAL);
        }
        let mut new_sq = posted.another(cap.max_send_wr)?;
        let mut new_rq = match self.srq {
            Some(_) => None,
            None => Some(KernelRq::new(cap.max_recv_wr, self.cap.max_recv_sge)?),
        };
        // Room for as many requests under way, and completions, comes first, and is never taken
        // back.
        let grown = self.make_room(new_sq.depth())?;
        kernel.spare.extend(new_sq.spare())?;
        let result = posted.replace(&mut new_sq, || match (&mut *self.rq.lock(), &mut new_rq) {
            (Some(rq), Some(new)) => rq.replace(new),
            _ => Ok(()),
        });
        // What was replaced is given up without a lock.
        drop((grown, new_sq, new_rq));
        result
    }

    /// Has room for `depth` requests under way; returns what is not used any more.
    fn make_room(&self, depth: u32) -> Result<Sq> {
        let mut spare = under_way(depth.max(1), GFP_KERNEL)?;
        let swapped = self.sq.lock().swap_if_larger(&mut spare);
        swapped.map_err(|_| EINVAL)?;
        Ok(spare)
    }

    /// The depths at this moment, for the rest see the QP's own [`QpCap`].
    pub(super) fn current_cap(&self) -> QpCap {
        let mut cap = self.cap;
        if let Some(kernel) = self.consumer.kernel() {
            cap.max_send_wr = kernel.posted.asked_and_spare().0;
            // CAST: at most [`MAX_WR`].
            cap.max_recv_wr = self.rq.lock().as_ref().map_or(0, Rq::len) as u32;
        }
        cap
    }
}
