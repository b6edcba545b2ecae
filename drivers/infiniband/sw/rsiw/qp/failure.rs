// SPDX-License-Identifier: GPL-2.0

//! What ends a stream from this side, and how refused accesses are told to the peer.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::{
    mr::access::MrError,
    proto::failure::Failure,
    wire::terminate::TermError, //
};
use kernel::pr_warn_once;

/// Tells of a failure that only a defect of this driver can bring about.
pub(super) fn tell_defect(failure: &Failure) {
    if let Some(what) = failure.cause.filter(|_| failure.is_defect) {
        pr_warn_once!("BUG: {what}\n");
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
