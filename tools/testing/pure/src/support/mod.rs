// SPDX-License-Identifier: GPL-2.0

//! Helpers of the tests and the fuzzers.

pub(crate) mod around;
#[cfg(test)]
pub(crate) mod by_hand;
pub(crate) mod crc;
pub(crate) mod datagram;
pub(crate) mod endpoint;
pub(crate) mod faults;
pub(crate) mod frames;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod piece;
pub(crate) mod queue;
pub(crate) mod receiving;
pub(crate) mod rights;
pub(crate) mod rng;
mod room;
pub(crate) mod sending;
pub(crate) mod tcp;
mod trains;
pub(crate) mod tuning;
