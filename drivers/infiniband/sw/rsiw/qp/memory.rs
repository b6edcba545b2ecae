// SPDX-License-Identifier: GPL-2.0

//! Regions and windows on behalf of a queue pair (draft-hilland-rddp-verbs section 7), and the
//! words in them that Atomic Operations change (RFC 7306 section 5).
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
use crate::{
    ffi::mm::page::Word,
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        By,
        Mr,
        PdId, //
    },
    wire::{
        atomic::{
            AtomicRequest,
            WORD_LEN, //
        },
        ddp::{
            Stag,
            TaggedOffset, //
        },
        rdmap::ReadRequest,
        terminate::TermError, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The right that a window needs to be the sink of a Read of ours.
pub(super) const SINK: Access = Access::REMOTE_WRITE;

/// Returns how the peer is told of a refused RDMA Write (RFC 5041 section 7.2). There is no code
/// for missing rights; RDMAC's verbs use that of a foreign STag.
pub(super) fn tagged(error: MrError) -> TermError {
    match error {
        MrError::Invalid | MrError::Bound => TermError::TaggedStag,
        MrError::Pd | MrError::Access => TermError::TaggedNotAssociated,
        MrError::Bounds => TermError::TaggedBounds,
        MrError::Wrap => TermError::TaggedWrap,
    }
}

/// Returns how the peer is told of a refused Read source or invalidation (RFC 5040 section 4.8).
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
    /// that the peer may write to (V-ACC-13). Otherwise as [`QpIdentity::access`].
    pub(super) fn access_sink(
        &self,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let want = (Access::LOCAL_WRITE, Some(SINK));
        self.find(stag, self.pd.id(), want, addr, len)
    }

    /// Finds a region of `pd`, or a window if `of_window` has the right that this must grant, and
    /// checks an access to it; see [`MrAccess::new`].
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

    /// Invalidates an STag for the peer (T-7, T-21), which needs one of `rights`. A region of a
    /// process must be one that only this stream can reach. Kernel consumers have several streams
    /// in a domain, but name the region of a request only to the peer of that request.
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

/// What memory is opened for, which decides what rights it takes.
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

    /// Returns the right that it takes of a window, or `None` if windows are not for that.
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

/// Returns the word that `access` covers, or how the peer is told that it is none: its address is
/// not a multiple of its length, or it lies in two places.
fn word(access: &MrAccess<Arc<Mr>>) -> Result<Word<'_>, TermError> {
    let slices = access.slices(0, WORD_LEN);
    let mut slices = slices.map_err(|_| TermError::LocalCatastrophic)?;
    // Slices of kernel memory end early at an address that is not memory.
    let slice = slices.next().ok_or(TermError::LocalCatastrophic)?;
    Word::new(slice).ok_or(TermError::CatastrophicStream)
}

impl QpIdentity {
    /// Opens memory for the peer, or returns how it is told that it may not use that.
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

    /// Checks that the peer may read what it asks for, or returns how it is told that it may not.
    pub(super) fn check_source(&self, request: &ReadRequest) -> Result<(), TermError> {
        if request.len == 0 {
            return Ok(());
        }
        let at = (request.source_stag, request.source_to);
        let access = self.open_for_peer(Access::REMOTE_READ, at, request.len);
        access.map(drop)
    }

    /// Checks that the peer may carry out an Atomic Operation, or returns how it is told that it
    /// may not.
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
