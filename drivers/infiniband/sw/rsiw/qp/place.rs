// SPDX-License-Identifier: GPL-2.0

//! Copying received payload to where it belongs.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    identity::QpIdentity,
    memory::{
        tagged,
        CachedRegion,
        Purpose, //
    },
};
use crate::{
    abi::MAX_SGE,
    ffi::{
        mm::page::PageSlice,
        net::SkbChunk, //
    },
    mr::{
        access::{
            Access,
            MrAccess, //
        },
        Mr, //
    },
    proto::{
        deframer::{
            Chunk,
            Payload,
            Source,
            Train, //
        },
        segment::Target, //
    },
    queue::{
        Piece,
        SgList, //
    },
    wire::{
        ddp::Stag,
        terminate::TermError, //
    },
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc, //
};

/// Received octets that can be copied to where they belong.
pub(super) trait CopyToPage {
    /// Fills `to` with octets from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not that many, `EFAULT` if they are not readable, `EACCES` if `to` is
    /// not to be written.
    fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result;
}

impl CopyToPage for SkbChunk<'_> {
    #[inline(always)]
    fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        SkbChunk::copy_to_page(self, at, to)
    }
}

/// Copies the octets of the payload from `at` on to `to`: see [`CopyToPage::copy_to_page`].
#[inline(always)]
fn copy<C: CopyToPage>(source: &Source<'_, C>, at: usize, to: &PageSlice<'_>) -> Result {
    match source {
        Source::Chunk { chunk, at: base } => {
            chunk.copy_to_page(base.checked_add(at).ok_or(EINVAL)?, to)
        }
        Source::Bytes(bytes) => {
            let end = at.checked_add(u32_as_usize(to.len())).ok_or(EINVAL)?;
            to.copy_in(0, bytes.get(at..end).ok_or(EINVAL)?)
        }
    }
}

/// Fills all of the range of `access` with octets of `payload` from `skip` on.
///
/// # Errors
///
/// `EINVAL` if there are not that many on either side, `EFAULT` if the memory is not there.
#[inline(always)]
fn fill<C: CopyToPage>(
    access: &MrAccess<Arc<Mr>>,
    payload: &mut Payload<'_, C>,
    skip: u32,
) -> Result {
    let len = access.len();
    if skip.checked_add(len).is_none_or(|end| end > payload.len) {
        return Err(EINVAL);
    }
    let mut at = payload.at.checked_add(u32_as_usize(skip)).ok_or(EINVAL)?;
    let end = at.checked_add(u32_as_usize(len)).ok_or(EINVAL)?;
    if let Some(slice) = access.in_one_page() {
        payload.count_piece();
        return copy(&payload.source, at, &slice);
    }
    for slice in access.slices(0, len).map_err(|_| EINVAL)? {
        payload.count_piece();
        copy(&payload.source, at, &slice)?;
        at = at.checked_add(u32_as_usize(slice.len())).ok_or(EINVAL)?;
    }
    // Slices of kernel memory end early at an address that is not memory.
    if at != end {
        return Err(EFAULT);
    }
    Ok(())
}

/// A range of one region or window.
struct RegionRange {
    purpose: Purpose,
    stag: Stag,
    addr: u64,
    len: u32,
}

/// Finds the memory of `target`, up to `len` octets. In a receive, whose elements are in `sgl`, the
/// range ends with the element at the latest, and is `None` if the receive ends in front of
/// `target`. Returns `EACCES` if the addresses of an element wrap.
#[inline(always)]
fn range_of(target: Target, sgl: &SgList, len: u32) -> Result<Option<RegionRange>> {
    let (purpose, stag, addr, len) = match target {
        Target::Write(stag, to) => (Purpose::Write, stag, to.0, len),
        Target::Response(stag, to) => (Purpose::Response, stag, to.0, len),
        Target::Receive(offset) => {
            let Some(piece) = sgl.pieces(offset, len).next() else {
                return Ok(None);
            };
            let (stag, addr) = place_of(&piece)?;
            (Purpose::Receive, stag, addr, piece.len)
        }
    };
    Ok(Some(RegionRange {
        purpose,
        stag,
        addr,
        len,
    }))
}

/// Places `payload` at `target`, once all memory concerned is checked (T-8, V-ACC-17). Returns how
/// the peer is told if it may not write there, or if the memory is not there.
#[inline(always)]
pub(super) fn place<C: CopyToPage>(
    id: &QpIdentity,
    cached: &mut CachedRegion,
    sgl: &SgList,
    target: Target,
    payload: &mut Payload<'_, C>,
) -> Result<(), TermError> {
    let fault = |_| TermError::LocalCatastrophic;
    let range = range_of(target, sgl, payload.len).map_err(fault)?;
    match (range, target) {
        (Some(range), _) if range.len == payload.len => {
            let RegionRange { purpose, stag, .. } = range;
            let access = cached.open_traced(id, purpose, stag, range.addr, range.len);
            fill(access.map_err(tagged)?, payload, 0).map_err(fault)
        }
        (_, Target::Receive(offset)) => place_apart(id, sgl, offset, payload).map_err(fault),
        _ => Err(TermError::LocalCatastrophic),
    }
}

/// Places the payloads of a train, the first at `target`, as many as there is room for in one
/// element or region. Places none if they may not be placed: the first segment by itself shows why.
///
/// # Errors
///
/// `EFAULT` if the memory is not there, `EACCES` if it is not to be written.
#[inline]
pub(super) fn place_train<C: Chunk + CopyToPage>(
    id: &QpIdentity,
    cached: &mut CachedRegion,
    sgl: &SgList,
    target: Target,
    train: &mut Train<'_, C>,
) -> Result {
    let Some(range) = range_of(target, sgl, train.limit())? else {
        return Ok(());
    };
    let Ok(access) = cached.open(id, range.purpose, range.stag, range.addr, 1) else {
        return Ok(());
    };
    access.extend(range.len);
    train.set_limit(access.len());
    let chunk = train.chunk();
    let mut slices = access.slices(0, access.len()).map_err(|_| EINVAL)?;
    let mut room = PageSlice::EMPTY;
    while let Some(mut at) = train.take() {
        id.trace_train(|| train.front());
        let mut missing = train.payload_len();
        while missing > room.len() {
            let len = room.len();
            if len > 0 {
                chunk.copy_to_page(at, &room)?;
                at = at.checked_add(u32_as_usize(len)).ok_or(EINVAL)?;
                missing = missing.wrapping_sub(len);
            }
            train.count_piece();
            // Slices of kernel memory end early at an address that is not memory.
            room = slices.next().ok_or(EFAULT)?;
        }
        chunk.copy_to_page(at, &room.take_front(missing))?;
    }
    Ok(())
}

/// Returns the STag of a piece, and the address of its first octet.
fn place_of(piece: &Piece) -> Result<(Stag, u64)> {
    let addr = piece.sge.laddr.checked_add(piece.at.into());
    Ok((Stag(piece.sge.lkey), addr.ok_or(EACCES)?))
}

/// Places payload that lies in several elements of a receive. Otherwise as [`place`].
#[inline(never)]
fn place_apart<C: CopyToPage>(
    id: &QpIdentity,
    sgl: &SgList,
    offset: u32,
    payload: &mut Payload<'_, C>,
) -> Result {
    let open = |piece: Piece| {
        let (stag, addr) = place_of(&piece)?;
        let (stags, want) = (&id.dev.stags, Access::LOCAL_WRITE);
        let access = stags.access(stag, id.recv_pd(), want, addr, piece.len);
        let access =
            access.inspect_err(|why| id.trace_refused(want, *why, (stag, addr), piece.len));
        access.map_err(|_| EACCES)
    };
    let pieces = sgl.pieces(offset, payload.len);
    // The elements together are as long as the receive, and this payload is within it.
    let octets = pieces
        .clone()
        .try_fold(0, |sum: u32, piece| sum.checked_add(piece.len));
    if octets != Some(payload.len) {
        return Err(EINVAL);
    }
    let mut skip = 0u32;
    if sgl.elements().len() > MAX_SGE {
        // These are too many to be kept open on the stack of a softirq: each is opened twice, to
        // check it and to fill it.
        for piece in pieces.clone() {
            open(piece)?;
        }
        for piece in pieces {
            fill(&open(piece)?, payload, skip)?;
            skip = skip.checked_add(piece.len).ok_or(EINVAL)?;
        }
        return Ok(());
    }
    let mut open_pieces: [Option<MrAccess<Arc<Mr>>>; MAX_SGE] = [const { None }; MAX_SGE];
    for (slot, piece) in open_pieces.iter_mut().zip(pieces) {
        *slot = Some(open(piece)?);
    }
    for access in open_pieces.iter().flatten() {
        fill(access, payload, skip)?;
        skip = skip.checked_add(access.len()).ok_or(EINVAL)?;
    }
    Ok(())
}
