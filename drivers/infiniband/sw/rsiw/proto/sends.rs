// SPDX-License-Identifier: GPL-2.0

//! Send requests under way: what the sender begins and the receiver may end.
//!
//! Any context, under the lock that the driver keeps for it.
#![forbid(unsafe_code)]

use super::failure::Fault;
use super::order::{
    Order,
    Record, //
};
use super::reads::{
    OutboundRead, //
    OutboundReads,
};
use super::ring::Full;
use core::ops::DerefMut;

/// Send requests under way; `S` and `O` are the storage of [`Order`] and [`OutboundReads`].
#[derive(Debug)]
pub(crate) struct Sends<S, O> {
    /// In post order.
    pub(crate) order: Order<S>,
    /// Our RDMA Reads.
    pub(crate) outbound: OutboundReads<O>,
    /// ORD: most Reads that may be outstanding.
    pub(crate) ord: usize,
    /// Transmission waits for a Read to complete.
    pub(crate) stalled: bool,
    /// A Read was answered of which the consumer gets no completion.
    pub(crate) silent: bool,
}

impl<W, S, O> Sends<S, O>
where
    W: Copy,
    S: DerefMut<Target = [Record<W, Fault>]>,
    O: DerefMut<Target = [OutboundRead]>,
{
    /// Nothing is under way; no Read may be before there is a connection.
    pub(crate) const fn new(records: S, reads: O) -> Self {
        Self {
            order: Order::new(records),
            outbound: OutboundReads::new(reads),
            ord: 0,
            stalled: false,
            silent: false,
        }
    }

    /// Whether one more request may be under way; if not, transmission waits.
    pub(crate) fn has_room(&mut self) -> bool {
        self.stalled |= self.order.is_full();
        !self.order.is_full()
    }

    /// Goes on with the records of `other`, which has none in use, if it has more of them; `other`
    /// gets those that are not used any more.
    ///
    /// # Errors
    ///
    /// [`Full`] if `other` has some in use, for which there is no room; nothing has changed.
    pub(crate) fn swap_if_larger(&mut self, other: &mut Self) -> Result<(), Full> {
        self.order.swap_if_larger(&mut other.order)
    }
}
