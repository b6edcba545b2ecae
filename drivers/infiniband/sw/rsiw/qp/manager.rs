// SPDX-License-Identifier: GPL-2.0

//! Who sets up a QP's connection, as the QP sees it.
#![forbid(unsafe_code)]

use crate::proto::connection::StreamEnd;
use kernel::sync::Arc;

/// The connection manager's part of one connection.
///
/// The methods leave a note for others to act upon. Any context, under any lock of the QP.
pub(crate) trait Manager: Send + Sync {
    /// The QP that is set aside for the connection, but was not given the stream yet, goes away or
    /// into error.
    fn abort(self: Arc<Self>);

    /// The first segment was received.
    fn first_segment(self: Arc<Self>);

    /// The peer has begun to close.
    fn peer_closing(self: Arc<Self>);

    /// The QP has left the stream, once and for all: it is in its final state and flushed, and has
    /// nothing on the socket any more.
    fn stream_ended(self: Arc<Self>, end: StreamEnd);
}

/// Whether `one` is `other`.
pub(super) fn is_same(one: &Arc<dyn Manager>, other: &dyn Manager) -> bool {
    // Of the same object there may be several tables of functions.
    core::ptr::addr_eq(Arc::as_ptr(one), other)
}
