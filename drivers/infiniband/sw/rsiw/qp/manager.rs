// SPDX-License-Identifier: GPL-2.0

//! The manager of a QP's connection, as the QP sees it.
#![forbid(unsafe_code)]

use crate::proto::connection::StreamEnd;
use kernel::sync::Arc;

/// The connection manager's part of one connection.
///
/// The methods leave a note for others to act upon. Any context, under any lock of the QP.
pub(crate) trait Manager: Send + Sync {
    /// Tells that the QP, which is set aside for the connection and was not given the stream yet,
    /// goes away or into error.
    fn abort(self: Arc<Self>);

    /// Tells that the first segment was received.
    fn first_segment(self: Arc<Self>);

    /// Tells that the peer has begun to close.
    fn peer_closing(self: Arc<Self>);

    /// Tells that the QP has left the stream for good: it is in its final state and flushed, and
    /// has nothing on the socket any more.
    fn stream_ended(self: Arc<Self>, end: StreamEnd);
}

pub(super) fn is_same(one: &Arc<dyn Manager>, other: &dyn Manager) -> bool {
    // Only the addresses count: one object may have several vtables.
    core::ptr::addr_eq(Arc::as_ptr(one), other)
}
