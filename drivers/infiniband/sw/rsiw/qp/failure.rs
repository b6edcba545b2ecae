// SPDX-License-Identifier: GPL-2.0

//! What ends a stream, and how the peer is told of refused accesses.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    consumer::Consumer, //
};
use crate::{
    log::Author,
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
    fmt,
    pr_warn_once,
    prelude::*,
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

    /// Logs what this side ends the stream for: an error of its consumer, or of the peer.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let author = match failure.error {
            TermError::LocalCatastrophic => self.own_author(),
            _ => self.peer_author(),
        };
        let detail = failure.detail.unwrap_or("");
        let separator = failure.detail.map_or("", |_| ": ");
        let (num, error, code) = (self.num(), failure.error, failure.error.code());
        self.dev.log(
            author,
            fmt!("QP {num}: ends the stream: {detail}{separator}{error:?} (Terminate {code:#06x})"),
        );
    }

    /// Logs that the peer has ended the stream.
    pub(super) fn log_terminate(&self, code: u16) {
        self.log_peer(fmt!("the peer ends the stream (Terminate {code:#06x})"));
    }

    /// Logs what the peer of this queue pair can cause.
    pub(super) fn log_peer(&self, line: fmt::Arguments<'_>) {
        let num = self.num();
        self.dev.log(self.peer_author(), fmt!("QP {num}: {line}"));
    }

    /// Returns who can cause lines about what this side does.
    fn own_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::Process,
            Consumer::Kernel(_) => Author::Kernel,
        }
    }

    /// Returns who can cause lines about what the other side does.
    pub(crate) fn peer_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::PeerOfProcess,
            Consumer::Kernel(_) => Author::PeerOfKernel,
        }
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
