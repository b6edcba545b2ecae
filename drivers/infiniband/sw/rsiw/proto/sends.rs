// SPDX-License-Identifier: GPL-2.0

//! Send requests under way, which the sender begins and the receiver may end. Any context, under
//! the lock that the driver keeps for it.
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
use core::ops::DerefMut;

/// `S` and `O` are the storage of [`Order`] and [`OutboundReads`].
#[derive(Debug)]
pub(crate) struct Sends<S, O> {
    pub(crate) order: Order<S>,
    /// Our RDMA Reads and Atomic Operations.
    pub(crate) outbound: OutboundReads<O>,
    /// ORD: the most of these that may be outstanding.
    pub(crate) ord: usize,
    /// Transmission waits until fewer requests or Reads are under way.
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
    /// Nothing is under way, and no Read may be before there is a connection.
    pub(crate) const fn new(records: S, reads: O) -> Self {
        Self {
            order: Order::new(records),
            outbound: OutboundReads::new(reads),
            ord: 0,
            stalled: false,
            silent: false,
        }
    }

    /// Returns whether one more request may be under way; if not, transmission waits.
    pub(crate) fn has_room(&mut self) -> bool {
        self.stalled |= self.order.is_full();
        !self.order.is_full()
    }
}
