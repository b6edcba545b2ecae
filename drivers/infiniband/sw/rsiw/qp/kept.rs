// SPDX-License-Identifier: GPL-2.0

//! The region that a segment was placed into, kept for the next one.
//!
//! Finding a region and going in costs as much as placing a segment. What is kept is looked at
//! again for each segment: whoever makes the STag invalid is seen, and waits until the region is let
//! go of. It is let go of when something is to be invalidated, and when the octets at hand are all
//! taken in, which are as many as the budget allows for.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use super::Qp;
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

/// For what memory is written, which says who must have allowed it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// An RDMA Write of the peer.
    Write,
    /// The response to a Read of ours.
    Response,
    /// A receive.
    Receive,
}

impl Sink {
    /// The right that it takes.
    fn wants(self) -> Access {
        match self {
            Self::Write => Access::REMOTE_WRITE,
            Self::Response | Self::Receive => Access::LOCAL_WRITE,
        }
    }
}

/// An access of a segment before, or none.
pub(super) struct Kept(Option<(Stag, Sink, MrAccess<Arc<Mr>>)>);

impl Kept {
    /// None.
    pub(super) const NONE: Self = Self(None);

    /// An access to the `len` octets at `addr` of the region `stag`.
    ///
    /// # Errors
    ///
    /// Why it is not allowed.
    #[inline]
    pub(super) fn access(
        &mut self,
        qp: &Qp,
        sink: Sink,
        stag: Stag,
        addr: u64,
        len: u32,
    ) -> Result<&MrAccess<Arc<Mr>>, MrError> {
        let access = self.access_up_to(qp, sink, stag, addr, len, len);
        access.inspect_err(|why| qp.trace_refused(sink.wants(), *why, (stag, addr), len))
    }

    /// As [`Kept::access`], with as many more octets as are allowed, up to `most`, for who asks for
    /// less if it is refused.
    ///
    /// # Errors
    ///
    /// Why not even `len` octets are allowed.
    #[inline]
    pub(super) fn access_up_to(
        &mut self,
        qp: &Qp,
        sink: Sink,
        stag: Stag,
        addr: u64,
        len: u32,
        most: u32,
    ) -> Result<&MrAccess<Arc<Mr>>, MrError> {
        let want = sink.wants();
        let pd = match sink {
            Sink::Write | Sink::Response => qp.pd.id(),
            Sink::Receive => qp.recv_pd(),
        };
        let kept = self
            .0
            .as_mut()
            .filter(|(known, of, access)| *known == stag && *of == sink && !access.is_windowed());
        match kept {
            Some((_, _, access)) => access.move_to(stag, pd, want, addr, len)?,
            None => {
                let access = match sink {
                    Sink::Write => qp.access(stag, want, addr, len)?,
                    Sink::Response => qp.access_sink(stag, addr, len)?,
                    Sink::Receive => qp.dev.stags.access(stag, pd, want, addr, len)?,
                };
                self.0 = Some((stag, sink, access));
            }
        }
        let (_, _, access) = self.0.as_mut().ok_or(MrError::Invalid)?;
        if most > len {
            access.extend(most);
        }
        Ok(access)
    }

    /// Lets go of it.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}
