// SPDX-License-Identifier: GPL-2.0

//! A region that is kept open, for the next segment or message that is in it.
//!
//! Finding and entering a region costs as much as copying a segment. So the receiver keeps the
//! region open that it has placed into last, and the sender those that it has read from. Before
//! each use they check again whether the region may be used: once its STag is invalid it may not,
//! and whoever invalidates it waits until they let go. The receiver lets go when something is to be
//! invalidated, and when feeding it ends, which the budget limits. The sender lets go when its run
//! ends, and before it invalidates, registers or binds.
//!
//! Context: softirq or process, with the socket's lock or the QP's mutex held.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    memory::SINK, //
};
use crate::{
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        Mr, //
    },
    wire::ddp::Stag,
};
use kernel::sync::Arc;

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
        qp: &Base,
        purpose: Purpose,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<&mut MrAccess<Arc<Mr>>, MrError> {
        let want = purpose.wants();
        let pd = match purpose {
            Purpose::Receive => qp.recv_pd(),
            _ => qp.pd.id(),
        };
        let cached = self.0.as_mut().filter(|(known, before, access)| {
            *known == stag && *before == purpose && !access.is_windowed()
        });
        match cached {
            Some((_, _, access)) => access.move_to(stag, pd, want, addr, len)?,
            None => {
                let want = (want, purpose.wants_of_window());
                self.0 = Some((stag, purpose, qp.find(stag, pd, want, addr, len)?));
            }
        }
        let (_, _, access) = self.0.as_mut().ok_or(MrError::Invalid)?;
        Ok(access)
    }

    /// As [`CachedRegion::open`], with a trace event if it is not allowed.
    #[inline(always)]
    pub(super) fn open_traced(
        &mut self,
        qp: &Base,
        purpose: Purpose,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<&mut MrAccess<Arc<Mr>>, MrError> {
        let opened = self.open(qp, purpose, stag, addr, len);
        opened.inspect_err(|why| qp.trace_refused(purpose.wants(), *why, (stag, addr), len))
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
