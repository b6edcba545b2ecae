// SPDX-License-Identifier: GPL-2.0

//! The receive queue: requests out of the process's ring.
//!
//! Context: any, under the lock of the QP's receive queue or the shared one.
#![forbid(unsafe_code)]

use super::sq::total_len;
use crate::{
    abi::{
        wqe,
        Rqe,
        Sge,
        MAX_SGE, //
    },
    ffi::ring::SharedRing,
};
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};

/// A receive that was taken from the queue.
#[derive(Clone, Copy)]
pub(crate) struct Recv {
    /// The consumer's name for it.
    pub(crate) id: u64,
    sges: [Sge; MAX_SGE],
    count: usize,
    /// Octets that it has room for.
    pub(super) len: u64,
}

/// A receive whose list of elements makes no sense.
pub(crate) struct BadRecv {
    /// The consumer's name for it.
    pub(crate) id: u64,
}

impl Recv {
    fn new(rqe: &Rqe, max_sge: u32) -> Result<Self, BadRecv> {
        let count = usize::from(rqe.num_sge);
        // CAST: 32 bits fit.
        let sges = rqe
            .sge
            .get(..count)
            .filter(|_| count <= max_sge as usize)
            .ok_or(BadRecv { id: rqe.id })?;
        Ok(Self {
            id: rqe.id,
            len: total_len(sges),
            sges: rqe.sge,
            count,
        })
    }

    /// The pieces of `len` octets from `offset` of the message on: an element, an offset in it, and
    /// a length.
    pub(super) fn pieces(&self, offset: u32, len: u32) -> Pieces<'_> {
        pieces(self.sges.get(..self.count).unwrap_or(&[]), offset, len)
    }
}

/// The pieces of `len` octets from `offset` on of what `sges` describe.
pub(super) fn pieces(sges: &[Sge], offset: u32, len: u32) -> Pieces<'_> {
    Pieces {
        sges: sges.iter(),
        index: 0,
        skip: offset,
        left: len,
    }
}

/// Iterator over the pieces of a message.
pub(super) struct Pieces<'a> {
    sges: core::slice::Iter<'a, Sge>,
    /// Which element comes next.
    index: usize,
    /// Octets in front of the range that are still to be passed over.
    skip: u32,
    /// Octets of the range to come.
    left: u32,
}

/// A part of an element.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Which element.
    pub(super) index: usize,
    /// The element.
    pub(super) sge: Sge,
    /// Where in the element.
    pub(super) at: u32,
    /// Octets, at least one.
    pub(super) len: u32,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.left > 0 {
            let sge = self.sges.next()?;
            let index = self.index;
            self.index = index.saturating_add(1);
            let Some(rest) = sge.length.checked_sub(self.skip).filter(|rest| *rest > 0) else {
                self.skip = self.skip.saturating_sub(sge.length);
                continue;
            };
            let piece = Piece {
                index,
                sge: *sge,
                at: self.skip,
                len: rest.min(self.left),
            };
            self.skip = 0;
            self.left = self.left.saturating_sub(piece.len);
            return Some(piece);
        }
        None
    }
}

/// The process's ring of receives.
pub(crate) struct Rq {
    ring: SharedRing<Rqe>,
    /// Number of the next entry; wraps.
    get: u32,
    max_sge: u32,
}

impl Rq {
    /// Takes the consuming end of a ring.
    pub(crate) fn new(ring: SharedRing<Rqe>, max_sge: u32) -> Self {
        Self {
            ring,
            get: 0,
            max_sge,
        }
    }

    /// Number of slots.
    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Whether at least `count` receives wait; `count` is not 0.
    pub(crate) fn holds(&self, count: u32) -> bool {
        // They are added in order: it does if the last one is there.
        let last = self.get.wrapping_add(count).wrapping_sub(1);
        count <= self.len() && self.ring.flags(last) & wqe::VALID != 0
    }

    /// Takes the oldest receive, if there is one; its slot goes back to the process.
    pub(crate) fn take(&mut self) -> Option<Result<Recv, BadRecv>> {
        if self.ring.flags(self.get) & wqe::VALID == 0 {
            return None;
        }
        let rqe = self.ring.read(self.get);
        self.ring.set_flags(self.get, 0);
        self.get = self.get.wrapping_add(1);
        smp_mb(Full);
        Some(Recv::new(&rqe, self.max_sge))
    }
}
