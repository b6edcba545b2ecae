// SPDX-License-Identifier: GPL-2.0

//! Regions and windows on behalf of a queue pair (draft-hilland-rddp-verbs section 7), the words in
//! them that Atomic Operations change (RFC 7306 section 5), and copying received payload to where
//! it belongs.
//!
//! Finding and entering a region costs as much as copying a segment. So a region is kept open for
//! the next segment or message that is in it ([`CachedRegion`]): the receiver keeps the one that it
//! has placed into last, and the sender those that it has read from. Before each use they check
//! again whether the region may be used: once its STag is invalid it may not, and whoever
//! invalidates it waits until they let go. The receiver lets go when something is to be
//! invalidated, and when feeding it ends, which the budget limits. The sender lets go when its run
//! ends, and before it invalidates, registers or binds.
//!
//! Words are changed by single instructions of this host's processors. So an operation is atomic
//! with respect to those of all other queue pairs and devices of this host, and to such
//! instructions of its programs.
//!
//! Context: softirq or process, with the socket's lock or the QP's mutex held.
#![forbid(unsafe_code)]

use super::identity::QpIdentity;
use crate::abi::MAX_SGE;
use crate::ffi::mm::page::{
    PageSlice,
    Word, //
};
use crate::ffi::net::SkbChunk;
use crate::mr::access::{
    Access,
    MrAccess,
    MrError, //
};
use crate::mr::{
    By,
    Mr,
    PdId, //
};
use crate::num::{
    Broken,
    Length, //
};
use crate::proto::deframer::{
    Chunk,
    Payload,
    Source,
    Train, //
};
use crate::proto::segment::Target;
use crate::queue::{
    Piece,
    SgList, //
};
use crate::wire::atomic::{
    AtomicRequest,
    WORD_LEN, //
};
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The right that a window needs to be the sink of a Read of ours.
pub(super) const SINK: Access = Access::REMOTE_WRITE;

/// Returns the error for the peer whose RDMA Write is refused (RFC 5041 section 7.2). There is no
/// code for missing rights; RDMAC's verbs use that of a foreign STag.
pub(super) fn tagged(error: MrError) -> TermError {
    match error {
        MrError::Invalid | MrError::Bound => TermError::TaggedStag,
        MrError::Pd | MrError::Access => TermError::TaggedNotAssociated,
        MrError::Bounds => TermError::TaggedBounds,
        MrError::Wrap => TermError::TaggedWrap,
    }
}

/// Returns the error for the peer whose Read or invalidation is refused (RFC 5040 section 4.8).
pub(super) fn remote(error: MrError) -> TermError {
    match error {
        MrError::Invalid => TermError::RemoteStag,
        MrError::Pd => TermError::RemoteNotAssociated,
        MrError::Access => TermError::RemoteAccess,
        MrError::Bounds => TermError::RemoteBounds,
        MrError::Wrap => TermError::RemoteWrap,
        MrError::Bound => TermError::RemoteCannotInvalidate,
    }
}

impl QpIdentity {
    /// Checks an access to memory on behalf of this QP, and keeps the memory open.
    pub(super) fn access(
        &self,
        stag: Stag,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let of_window = want.is_remote().then_some(want);
        self.find(stag, self.pd.id(), (want, of_window), addr, len)
    }

    /// Checks an access to the sink of a Read of ours, and keeps it open. The sink may be a window
    /// that the peer may write to (V-ACC-13). In all else this is like [`QpIdentity::access`].
    pub(super) fn access_sink(
        &self,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let want = (Access::LOCAL_WRITE, Some(SINK));
        self.find(stag, self.pd.id(), want, addr, len)
    }

    /// Finds a region of `pd`, or a window if `of_window` names the right that a window must grant,
    /// and checks an access to it; see [`MrAccess::new`].
    #[inline(always)]
    pub(super) fn find(
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

    /// Invalidates an STag. Returns the region or window, whose users may be waited for.
    pub(super) fn invalidate(&self, mr: Arc<Mr>, stag: Stag, by: By) -> Result<Arc<Mr>, MrError> {
        let pd = self.pd.id();
        let result = match mr.window() {
            Some(window) => window.invalidate(stag, self.party(), by),
            None => mr.invalidate(stag, pd, by),
        };
        self.trace_invalidate(stag, by, result);
        result.map(|()| mr)
    }

    /// Invalidates an STag for the peer (T-7, T-21), which needs at least one right among `rights`.
    /// A region of a process must be one that only this stream can reach. Kernel consumers have
    /// several streams in a domain, but name the region of a request only to the peer of that
    /// request.
    pub(super) fn invalidate_remotely(
        &self,
        stag: Stag,
        rights: Access,
    ) -> Result<Arc<Mr>, TermError> {
        if !rights.is_remote() {
            return Err(TermError::RemoteAccess);
        }
        let found = self.dev.stags.lookup(stag).ok_or(MrError::Invalid);
        let mr = found.map_err(remote)?;
        if mr.is_user() && !self.pd.is_single_stream() {
            return Err(TermError::RemoteCannotInvalidate);
        }
        self.invalidate(mr, stag, By::Peer).map_err(remote)
    }

    /// Invalidates the sink of a Read of ours.
    pub(super) fn invalidate_locally(&self, stag: Stag) -> Result<Arc<Mr>, ()> {
        let mr = self.dev.stags.lookup(stag).ok_or(())?;
        self.invalidate(mr, stag, By::Consumer).map_err(|_| ())
    }
}

/// What memory is opened for, which decides what rights are needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reading the payload of a request of ours.
    Request,
    /// Reading what a Read of the peer asks for.
    Answer,
    /// Placing an RDMA Write of the peer.
    Write,
    /// Placing the response to a Read of ours.
    Response,
    /// Placing a message into a receive.
    Receive,
}

impl Purpose {
    fn wants(self) -> Access {
        match self {
            Self::Request => Access::LOCAL_READ,
            Self::Answer => Access::REMOTE_READ,
            Self::Write => Access::REMOTE_WRITE,
            Self::Response | Self::Receive => Access::LOCAL_WRITE,
        }
    }

    /// Returns the right that a window must grant, or `None` if windows do not serve this purpose.
    fn wants_of_window(self) -> Option<Access> {
        match self {
            Self::Request | Self::Receive => None,
            Self::Answer => Some(Access::REMOTE_READ),
            Self::Write => Some(Access::REMOTE_WRITE),
            Self::Response => Some(SINK),
        }
    }
}

/// The access that was opened last, or none.
pub(super) struct CachedRegion(Option<(Stag, Purpose, MrAccess<Arc<Mr>>)>);

impl CachedRegion {
    pub(super) const NONE: Self = Self(None);

    /// Opens the `len` octets at `addr` of the region or window `stag`, or returns why that is not
    /// allowed.
    #[inline(always)]
    pub(super) fn open(
        &mut self,
        id: &QpIdentity,
        purpose: Purpose,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<&mut MrAccess<Arc<Mr>>, MrError> {
        let want = purpose.wants();
        let pd = match purpose {
            Purpose::Receive => id.recv_pd(),
            _ => id.pd.id(),
        };
        let cached = self.0.as_mut().filter(|(known, before, access)| {
            *known == stag && *before == purpose && !access.is_windowed()
        });
        match cached {
            Some((_, _, access)) => access.move_to(stag, pd, want, addr, len)?,
            None => {
                let want = (want, purpose.wants_of_window());
                self.0 = Some((stag, purpose, id.find(stag, pd, want, addr, len)?));
            }
        }
        let (_, _, access) = self.0.as_mut().ok_or(MrError::Invalid)?;
        Ok(access)
    }

    /// Opens memory as [`CachedRegion::open`] does, and traces if that is not allowed.
    #[inline(always)]
    pub(super) fn open_traced(
        &mut self,
        id: &QpIdentity,
        purpose: Purpose,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<&mut MrAccess<Arc<Mr>>, MrError> {
        let opened = self.open(id, purpose, stag, addr, len);
        opened.inspect_err(|why| id.trace_refused(purpose.wants(), *why, (stag, addr), len))
    }

    /// Returns what was opened last.
    pub(super) fn access(&self) -> Option<&MrAccess<Arc<Mr>>> {
        self.0.as_ref().map(|(_, _, access)| access)
    }

    /// Lets go of what was opened last.
    pub(super) fn close(&mut self) {
        self.0 = None;
    }
}

/// Returns the word that `access` covers, or the error for the peer if that is no word: its address
/// is not a multiple of its length, or it does not lie in one piece.
fn word(access: &MrAccess<Arc<Mr>>) -> Result<Word<'_>, TermError> {
    let slices = access.slices(0, WORD_LEN);
    let mut slices = slices.map_err(|_| TermError::LocalCatastrophic)?;
    // Slices of kernel memory end early at an address that is not memory.
    let slice = slices.next().ok_or(TermError::LocalCatastrophic)?;
    Word::new(slice).ok_or(TermError::CatastrophicStream)
}

impl QpIdentity {
    /// Opens memory for the peer, or returns the error for a peer that may not use that memory.
    fn open_for_peer(
        &self,
        want: Access,
        (stag, to): (Stag, TaggedOffset),
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, TermError> {
        let access = self.access(stag, want, to.0, len);
        let access = access.inspect_err(|why| self.trace_refused(want, *why, (stag, to.0), len));
        access.map_err(remote)
    }

    fn open_word(&self, request: &AtomicRequest) -> Result<MrAccess<Arc<Mr>>, TermError> {
        let at = (request.stag, request.to);
        self.open_for_peer(Access::REMOTE_ATOMIC, at, WORD_LEN)
    }

    /// Checks that the peer may read what it asks for, or returns the error for it.
    pub(super) fn check_source(&self, request: &ReadRequest) -> Result<(), TermError> {
        if request.len == 0 {
            return Ok(());
        }
        let at = (request.source_stag, request.source_to);
        let access = self.open_for_peer(Access::REMOTE_READ, at, request.len);
        access.map(drop)
    }

    /// Checks that the peer may carry out an Atomic Operation, or returns the error for it.
    pub(super) fn check_word(&self, request: &AtomicRequest) -> Result<(), TermError> {
        word(&self.open_word(request)?).map(|_| ())
    }

    /// Carries out an Atomic Operation of the peer and returns the original value. Fails as
    /// [`QpIdentity::check_word`]; then nothing has changed.
    pub(super) fn change_word(&self, request: &AtomicRequest) -> Result<u64, TermError> {
        let access = self.open_word(request)?;
        let original = word(&access)?.change(|original| request.operation.apply(original));
        original.map_err(|_| TermError::LocalCatastrophic)
    }
}

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
        Source::Chunk { chunk, at: base } => chunk.copy_to_page(base.try_add(at)?, to),
        Source::Bytes(bytes) => {
            let end = at.try_add(to.len())?;
            to.copy_in(0, bytes.get(at..end).ok_or(Broken)?)
        }
    }
}

/// Fills all of the range of `access` with octets of `payload` from `skip` on.
///
/// # Errors
///
/// `EIO` if there are not that many on either side, `EFAULT` if the memory is not there.
#[inline(always)]
fn fill<C: CopyToPage>(
    access: &MrAccess<Arc<Mr>>,
    payload: &mut Payload<'_, C>,
    skip: u32,
) -> Result {
    let len = access.len();
    skip.end_within(len, payload.len).ok_or(Broken)?;
    let mut at = payload.at.try_add(skip)?;
    let end = at.try_add(len)?;
    if let Some(slice) = access.in_one_page() {
        payload.count_piece();
        return copy(&payload.source, at, &slice);
    }
    for slice in access.slices(0, len).map_err(|_| Broken)? {
        payload.count_piece();
        copy(&payload.source, at, &slice)?;
        at = at.try_add(slice.len())?;
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

/// Places `payload` at `target`, once all memory concerned is checked (T-8, V-ACC-17). Returns the
/// error for the peer if it may not write there, or if the memory is not there.
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
    let mut slices = access.slices(0, access.len()).map_err(|_| Broken)?;
    let mut room = PageSlice::EMPTY;
    while let Some(mut at) = train.take() {
        id.trace_train(|| train.front());
        let mut missing = train.payload_len();
        while missing > room.len() {
            let len = room.len();
            if len > 0 {
                chunk.copy_to_page(at, &room)?;
                at = at.try_add(len)?;
                missing = missing.try_sub(len)?;
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

/// Places payload that lies in several elements of a receive. In all else this is like [`place`].
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
            skip = skip.try_add(piece.len)?;
        }
        return Ok(());
    }
    let mut open_pieces: [Option<MrAccess<Arc<Mr>>>; MAX_SGE] = [const { None }; MAX_SGE];
    for (slot, piece) in open_pieces.iter_mut().zip(pieces) {
        *slot = Some(open(piece)?);
    }
    for access in open_pieces.iter().flatten() {
        fill(access, payload, skip)?;
        skip = skip.try_add(access.len())?;
    }
    Ok(())
}
