// SPDX-License-Identifier: GPL-2.0

//! What ends a stream, and how the peer is told of refused accesses.
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

/// Logs a failure that only a defect of this driver can cause.
pub(super) fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.detail.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
    }
}

impl Base {
    /// Records `cause` as what has ended the stream; the first one counts.
    pub(super) fn ends_of(&self, cause: Cause) {
        let none = Cause::NONE.0;
        let _ = self.ended_by.cmpxchg(none, cause.0, Relaxed);
    }

    pub(super) fn log_failure(&self, failure: &Failure) {
        pr_ratelimited!(
            "{}: QP {}: ends the stream: {}{}{:?} (Terminate {:#06x})\n",
            self.dev.handle(),
            self.num(),
            failure.detail.unwrap_or(""),
            failure.detail.map_or("", |_| ": "),
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

    /// Returns why a request that ended with `status` failed.
    #[inline]
    pub(super) fn cause(&self, status: Status<Fault>) -> Cause {
        if status == Status::Success {
            return Cause::NONE;
        }
        Cause::of(status, self.ended())
    }

    /// Returns what has ended the stream, if it has ended, until the next connection.
    pub(super) fn ended(&self) -> Cause {
        Cause(self.ended_by.load(Relaxed))
    }
}

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
