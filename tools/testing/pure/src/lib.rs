// SPDX-License-Identifier: GPL-2.0

//! The pure layers of the driver, from the very files that the module compiles, and what tests
//! them: a complete protocol peer, and entry points for fuzzers.
#![forbid(unsafe_code)]

// The pure layers do without some of it.
#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/num.rs"]
mod num;

#[path = "../../../../drivers/infiniband/sw/rsiw/wire/mod.rs"]
mod wire;

// The driver uses what the peers here do not.
#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/mod.rs"]
mod proto;

// The pure parts of memory regions bring their tests with them.
#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
#[path = "../../../../drivers/infiniband/sw/rsiw/mr/permute.rs"]
mod mr_permute;

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
#[path = "../../../../drivers/infiniband/sw/rsiw/mr/range.rs"]
mod mr_range;

// Fuzzers look at less of a peer than the tests do.
#[cfg_attr(not(test), allow(dead_code))]
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
#[allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]
mod support;

pub mod fuzz;

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
#[allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]
mod tests;
