// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a process: a ring in shared memory.
//!
//! Context: any, under the queue's lock.
#![forbid(unsafe_code)]

use super::{
    BadRecv,
    Recv, //
};
use crate::{
    abi::{
        wqe,
        Rqe, //
    },
    ffi::ring::SharedRing,
    queue::sgl::{
        total_len,
        SgList, //
    },
};
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};

/// The consuming end of a process's ring.
pub(crate) struct UserRq {
    ring: SharedRing<Rqe>,
    /// Number of the next entry; wraps.
    get: u32,
    max_sge: u32,
}

impl UserRq {
    /// Takes the consuming end of a ring.
    pub(crate) fn new(ring: SharedRing<Rqe>, max_sge: u32) -> Self {
        Self {
            ring,
            get: 0,
            max_sge,
        }
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// As [`super::Rq::holds`].
    pub(crate) fn holds(&self, count: u32) -> bool {
        // They are added in order: it does if the last one is there.
        let last = self.get.wrapping_add(count).wrapping_sub(1);
        count <= self.len() && self.ring.flags(last) & wqe::VALID != 0
    }

    /// Takes the oldest receive, if there is one; its slot goes back to the process.
    fn next(&mut self) -> Option<Rqe> {
        if self.ring.flags(self.get) & wqe::VALID == 0 {
            return None;
        }
        let rqe = self.ring.read(self.get);
        self.ring.set_flags(self.get, 0);
        self.get = self.get.wrapping_add(1);
        smp_mb(Full);
        Some(rqe)
    }

    /// As [`super::Rq::take`].
    pub(crate) fn take(&mut self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        let rqe = self.next()?;
        let count = usize::from(rqe.num_sge);
        // CAST: 32 bits fit.
        let sges = rqe
            .sge
            .get(..count)
            .filter(|_| count <= self.max_sge as usize);
        let Some(sges) = sges else {
            return Some(Err(BadRecv { id: rqe.id }));
        };
        if !sgl.set(sges) {
            return Some(Err(BadRecv { id: rqe.id }));
        }
        Some(Ok(Recv {
            id: rqe.id,
            len: total_len(sges),
        }))
    }

    /// As [`super::Rq::discard`].
    pub(crate) fn discard(&mut self) -> Option<u64> {
        self.next().map(|rqe| rqe.id)
    }
}
