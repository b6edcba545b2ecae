// SPDX-License-Identifier: GPL-2.0

//! Maxima that consumers are told, and counts that are held against them.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::ffi::rdma::attr::QpCap;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;

// How many objects of each kind a device may have.
pub(crate) const MAX_QP: u32 = 100 * 1024;
pub(crate) const MAX_CQ: u32 = 100 * 1024;
pub(crate) const MAX_SRQ: u32 = 100 * 1024;
pub(crate) const MAX_PD: u32 = 100 * 1024;
/// Refused connections that wait for their peer to close. It costs a peer nothing to cause them.
const MAX_REFUSED: u32 = 1024;
/// Entries of a send or receive queue.
pub(crate) const MAX_WR: u32 = 32 * 1024;
pub(crate) const MAX_CQE: u32 = 1 << 21;
pub(crate) const MAX_SRQ_WR: u32 = 1 << 18;
/// Elements of a request of a kernel consumer. For a process it is what an entry has room for.
pub(crate) const KERNEL_MAX_SGE: u32 = 32;
/// Octets of inline data of a request of a kernel consumer.
pub(crate) const KERNEL_MAX_INLINE: u32 = 512;
/// RDMA Reads under way per QP, in each direction.
pub(crate) const MAX_READS: u16 = 128;

/// Checks the sizes of a queue pair against the maxima, and lets each request have at least one
/// element. Fails with `EINVAL` if they are too large.
pub(crate) fn fit(cap: &mut QpCap, has_srq: bool, max_sge: u32, max_inline: u32) -> Result {
    if has_srq {
        // The sizes of a queue that there will not be do not matter (V-QP-3).
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    } else {
        cap.max_recv_sge = cap.max_recv_sge.max(1);
    }
    if cap.max_send_wr > MAX_WR
        || cap.max_recv_wr > MAX_WR
        || cap.max_send_sge > max_sge
        || cap.max_recv_sge > max_sge
        || cap.max_inline_data > max_inline
    {
        return Err(EINVAL);
    }
    cap.max_send_sge = cap.max_send_sge.max(1);
    Ok(())
}

/// What a device may run out of.
pub(crate) struct Limits {
    pub(crate) qps: Limit,
    /// Queue pairs for datagrams.
    pub(crate) ud_qps: Limit,
    pub(crate) cqs: Limit,
    pub(crate) pds: Limit,
    pub(crate) srqs: Limit,
    /// Refused connections whose peer has not closed yet.
    pub(crate) refused: Limit,
}

impl Limits {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let limits = Self {
            qps: Limit::new(MAX_QP),
            ud_qps: Limit::new(MAX_QP),
            cqs: Limit::new(MAX_CQ),
            pds: Limit::new(MAX_PD),
            srqs: Limit::new(MAX_SRQ),
            refused: Limit::new(MAX_REFUSED),
        };
        Ok(Arc::new(limits, GFP_KERNEL)?)
    }
}

/// A count with a maximum.
pub(crate) struct Limit {
    used: Atomic<u32>,
    max: u32,
}

impl Limit {
    const fn new(max: u32) -> Self {
        Self {
            used: Atomic::new(0),
            max,
        }
    }

    pub(crate) fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }
}

/// One of a limited number of objects; given back when dropped.
pub(crate) struct Quota {
    limits: Arc<Limits>,
    of: fn(&Limits) -> &Limit,
}

impl Quota {
    /// Takes one of the objects, or returns `ENOMEM` if all are taken.
    pub(crate) fn take(limits: &Arc<Limits>, of: fn(&Limits) -> &Limit) -> Result<Self> {
        let limit = of(limits);
        if limit.used.fetch_add(1, Relaxed) >= limit.max {
            limit.used.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(Self {
            limits: limits.clone(),
            of,
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        (self.of)(&self.limits).used.fetch_sub(1, Relaxed);
    }
}
