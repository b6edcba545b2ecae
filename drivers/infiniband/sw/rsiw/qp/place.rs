// SPDX-License-Identifier: GPL-2.0

//! Copying payload to where it belongs.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    budget::Budget,
    sgl::{
        Piece,
        SgList, //
    },
    Qp, //
};
use crate::{
    abi::MAX_SGE,
    ffi::{
        crc::crc32c,
        net::SkbChunk, //
    },
    mr::{
        access::{
            Access,
            MrAccess, //
        },
        Mr, //
    },
    wire::ddp::Stag,
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc, //
};

/// Where a complete FPDU is.
pub(super) enum Source<'a> {
    /// In a socket buffer.
    Chunk {
        /// The buffer.
        chunk: &'a SkbChunk<'a>,
        /// Where it begins there.
        at: usize,
    },
    /// In memory of ours.
    Bytes(&'a [u8]),
}

impl Source<'_> {
    /// Copies octets of the FPDU from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not that many.
    pub(super) fn copy_to(&self, at: usize, out: &mut [u8]) -> Result {
        match self {
            Source::Chunk { chunk, at: base } => {
                chunk.copy_to(base.checked_add(at).ok_or(EINVAL)?, out)
            }
            Source::Bytes(bytes) => {
                let end = at.checked_add(out.len()).ok_or(EINVAL)?;
                out.copy_from_slice(bytes.get(at..end).ok_or(EINVAL)?);
                Ok(())
            }
        }
    }

    /// Continues the CRC32c `crc` over `len` octets from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not that many.
    pub(super) fn crc32c(&self, at: usize, len: usize, crc: u32) -> Result<u32> {
        match self {
            Source::Chunk { chunk, at: base } => {
                chunk.crc32c(base.checked_add(at).ok_or(EINVAL)?, len, crc)
            }
            Source::Bytes(bytes) => {
                let end = at.checked_add(len).ok_or(EINVAL)?;
                Ok(crc32c(crc, bytes.get(at..end).ok_or(EINVAL)?))
            }
        }
    }

    /// Copies `len` octets from `at` on to the front of the range of `access`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not that many on either side.
    pub(super) fn place(
        &self,
        access: &MrAccess<Arc<Mr>>,
        mut at: usize,
        len: u32,
        budget: &mut Budget,
    ) -> Result {
        let end = at.checked_add(u32_as_usize(len)).ok_or(EINVAL)?;
        for slice in access.slices(0, len).map_err(|_| EINVAL)? {
            let n = u32_as_usize(slice.len());
            budget.piece();
            match self {
                Source::Chunk { chunk, at: base } => {
                    chunk.copy_to_page(base.checked_add(at).ok_or(EINVAL)?, &slice)?;
                }
                Source::Bytes(bytes) => {
                    let end = at.checked_add(n).ok_or(EINVAL)?;
                    slice.copy_in(0, bytes.get(at..end).ok_or(EINVAL)?)?;
                }
            }
            at = at.checked_add(n).ok_or(EINVAL)?;
        }
        // Memory of the kernel ends where its owner named what is none.
        if at != end {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Places `len` octets from `at` on at `offset` of a receive. All elements concerned are checked
    /// before anything is placed (V-ACC-17).
    ///
    /// # Errors
    ///
    /// `EACCES` if an element does not allow it, `EINVAL` if the elements are too short.
    pub(super) fn place_recv(
        &self,
        qp: &Qp,
        sgl: &SgList,
        mut at: usize,
        offset: u32,
        len: u32,
        budget: &mut Budget,
    ) -> Result {
        let open = |piece: Piece| {
            let addr = piece.sge.laddr.checked_add(piece.at.into()).ok_or(EACCES)?;
            let (stag, want) = (Stag(piece.sge.lkey), Access::LOCAL_WRITE);
            qp.dev
                .stags
                .access(stag, qp.recv_pd(), want, addr, piece.len)
                .map_err(|_| EACCES)
        };
        let pieces = sgl.pieces(offset, len);
        // A receive is as long as its elements, in which this lies.
        let octets = pieces
            .clone()
            .try_fold(0, |sum: u32, piece| sum.checked_add(piece.len));
        if octets != Some(len) {
            return Err(EINVAL);
        }
        // Nothing has to be kept of the usual one.
        if let Some(piece) = pieces.clone().next().filter(|piece| piece.len == len) {
            return self.place(&open(piece)?, at, len, budget);
        }
        if sgl.elements().len() > MAX_SGE {
            // Too many to be kept on the stack of a softirq: look at them twice.
            for piece in pieces.clone() {
                open(piece)?;
            }
            for piece in pieces {
                self.place(&open(piece)?, at, piece.len, budget)?;
                at = at.checked_add(u32_as_usize(piece.len)).ok_or(EINVAL)?;
            }
            return Ok(());
        }
        let mut open_pieces: [Option<MrAccess<Arc<Mr>>>; MAX_SGE] = [const { None }; MAX_SGE];
        for (slot, piece) in open_pieces.iter_mut().zip(pieces) {
            *slot = Some(open(piece)?);
        }
        for access in open_pieces.iter().flatten() {
            self.place(access, at, access.len(), budget)?;
            at = at.checked_add(u32_as_usize(access.len())).ok_or(EINVAL)?;
        }
        Ok(())
    }
}
