// SPDX-License-Identifier: GPL-2.0

//! Names for trace events: of the phases of a connection, its inputs, and its events. Any context.
#![forbid(unsafe_code)]

use super::{
    Connection,
    Event,
    Input,
    Phase, //
};
use crate::proto::names::Name;

impl<I, R> Connection<I, R> {
    pub(crate) const fn phase(&self) -> Name {
        match &self.phase {
            Phase::New => c"new",
            Phase::Dialing { .. } => c"dialing",
            Phase::Connecting(_) => c"connecting",
            Phase::Requesting(_) => c"requesting",
            Phase::AwaitReply(_) => c"await_reply",
            Phase::AwaitRequest { .. } => c"await_request",
            Phase::Requested(_) => c"requested",
            Phase::Starting { .. } => c"starting",
            Phase::Running(_) => c"running",
            Phase::Parting => c"parting",
            Phase::Finishing(_) => c"finishing",
            Phase::Lingering => c"lingering",
            Phase::Closed => c"closed",
        }
    }
}

impl Input<'_> {
    pub(crate) const fn name(&self) -> Name {
        match self {
            Self::Connected { .. } => c"connected",
            Self::Closed(_) => c"closed",
            Self::Octets(_) => c"octets",
            Self::Expired { .. } => c"expired",
            Self::Unacknowledged => c"unacknowledged",
            Self::Accept { .. } => c"accept",
            Self::Reject { .. } => c"reject",
            Self::Abort => c"abort",
            Self::Shut => c"shut",
            Self::Done => c"done",
            Self::Failed(_) => c"failed",
            Self::FirstSegment => c"first_segment",
            Self::PeerClosing => c"peer_closing",
            Self::StreamEnded(_) => c"stream_ended",
            Self::Acknowledged => c"acknowledged",
            Self::Drained => c"drained",
            Self::Undelivered(_) => c"undelivered",
        }
    }
}

impl Event {
    /// Returns its name as in iw_cm.
    pub(crate) const fn name(&self) -> Name {
        match self {
            Self::Request { .. } => c"connect_request",
            Self::Reply { .. } => c"connect_reply",
            Self::Established { .. } => c"established",
            Self::Disconnect => c"disconnect",
            Self::Close => c"close",
        }
    }
}
