// SPDX-License-Identifier: GPL-2.0

//! What ends a stream, and how refused accesses are told to the peer.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::base::Base;
use crate::{
    ffi::log::pr_ratelimited,
    mr::access::MrError,
    proto::{
        failure::{
            Cause,
            Failure,
            Fault, //
        },
        order::Status,
    },
    wire::terminate::TermError, //
};
use kernel::{
    pr_warn_once,
    sync::atomic::Relaxed, //
};

/// Tells of a failure that only a defect of this driver can bring about.
pub(super) fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.cause.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
    }
}

impl Base {
    /// The stream ends, or has ended, because of `cause`; the first one counts.
    pub(super) fn ends_of(&self, cause: Cause) {
        let none = Cause::NONE.0;
        let _ = self.ended_by.cmpxchg(none, cause.0, Relaxed);
    }

    /// Logs an error of this side.
    pub(super) fn log_failure(&self, failure: &Failure) {
        pr_ratelimited!(
            "{}: QP {}: ends the stream: {}{}{:?} (Terminate {:#06x})\n",
            self.dev.handle(),
            self.num(),
            failure.cause.unwrap_or(""),
            failure.cause.map_or("", |_| ": "),
            failure.error,
            failure.error.code(),
        );
    }

    /// Logs that the peer has ended the stream.
    pub(super) fn log_terminate(&self, code: u16) {
        pr_ratelimited!(
            "{}: QP {}: the peer ends the stream (Terminate {:#06x})\n",
            self.dev.handle(),
            self.num(),
            code,
        );
    }

    /// What a request that ended so failed of.
    #[inline]
    pub(super) fn cause(&self, status: Status<Fault>) -> Cause {
        if status == Status::Success {
            return Cause::NONE;
        }
        Cause::of(status, self.ended())
    }

    /// What has ended the stream, if it has ended. The next connection forgets it.
    pub(super) fn ended(&self) -> Cause {
        Cause(self.ended_by.load(Relaxed))
    }
}

/// A refused RDMA Write as the peer is told (RFC 5041 section 7.2). There is no code for missing
/// rights; RDMAC's verbs use that of a foreign STag.
pub(super) fn tagged(error: MrError) -> TermError {
    match error {
        MrError::Invalid | MrError::Bound => TermError::TaggedStag,
        MrError::Pd | MrError::Access => TermError::TaggedNotAssociated,
        MrError::Bounds => TermError::TaggedBounds,
        MrError::Wrap => TermError::TaggedWrap,
    }
}

/// A refused Read source or invalidation as the peer is told (RFC 5040 section 4.8).
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
