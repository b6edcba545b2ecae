// SPDX-License-Identifier: GPL-2.0

//! Regions and windows on behalf of a queue pair (draft-hilland-rddp-verbs section 7).
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    failure::remote, //
};
use crate::{
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        By, Mr, PdId,
    },
    wire::{
        ddp::Stag,
        terminate::TermError, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The right that a window needs to be the sink of a Read of ours.
pub(super) const SINK: Access = Access::REMOTE_WRITE;

impl Base {
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

    /// As [`Base::access`] for the sink of a Read of ours, which may be a window that the peer may
    /// write to (V-ACC-13).
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

    /// Invalidates an STag for the peer (T-7, T-21), which needs a right to it. A region of a
    /// process must be one that only this stream can reach. Kernel consumers have several streams
    /// in a domain, but name the region of a request only to the peer of that request.
    pub(super) fn invalidate_remotely(&self, stag: Stag) -> Result<Arc<Mr>, TermError> {
        let rights = self.rights();
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
