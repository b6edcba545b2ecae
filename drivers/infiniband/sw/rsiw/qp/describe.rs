// SPDX-License-Identifier: GPL-2.0

//! What `rdma resource show qp -dd` tells of a queue pair beyond what the core knows.
//!
//! Any process may ask, and the core does not say who does: nothing is told that helps to forge
//! what a peer sends, as numbers of TCP and of messages do.
//!
//! Context: process; takes no mutex and no socket's lock, and spin locks to read a few numbers.
#![forbid(unsafe_code)]

use super::{
    look::Look,
    Qp, //
};
use crate::ffi::rdma::details::Details;
use kernel::prelude::*;

impl Qp {
    /// Tells how it is.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        to.word(c"iwarp_state", self.state().name())?;
        let (under_way, reads, ord, stalled) = {
            let sq = self.sq.lock();
            let reads = sq.outbound.outstanding();
            (sq.order.len(), reads, sq.ord, sq.stalled)
        };
        to.hex(c"ended_by", self.ended().0.into())?;
        let is_empty = !self.consumer.has_posted(self.published.taken());
        to.flag(c"sq_empty", is_empty)?;
        to.count(c"sends_under_way", under_way)?;
        to.flag(c"sends_stalled", stalled)?;
        to.count(c"reads_out", reads)?;
        to.count(c"ord", ord)?;
        let inbound = self.inbound.lock().len();
        to.count(c"reads_in", inbound)?;
        to.number(c"ird", self.published.ird())?;
        to.number(c"windows", self.binder.count())?;
        to.number(c"look_us", self.consumer.look().map_or(0, Look::us))?;
        let Some(conn) = self.published.look() else {
            return Ok(());
        };
        to.flag(c"crc", conn.crc)?;
        to.flag(c"markers", conn.markers)?;
        to.count(c"batch_bytes", self.published.unsent())?;
        to.flag(c"direct_tx", conn.direct.0)?;
        to.flag(c"direct_rx", conn.direct.1)?;
        if let Some(peer) = conn.peer {
            to.number(c"direct_peer", peer)?;
        }
        to.number(c"mss", conn.mss)?;
        to.number(c"tcp_unacked", conn.unacked)?;
        to.number(c"tcp_unsent", conn.unsent)?;
        to.number(c"tcp_unread", conn.unread)
    }
}
