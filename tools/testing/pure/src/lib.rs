// SPDX-License-Identifier: GPL-2.0

//! The pure layers of the driver, from the very files that the module compiles.
#![forbid(unsafe_code)]

#[path = "../../../../drivers/infiniband/sw/rsiw/wire/mod.rs"]
mod wire;

#[path = "../../../../drivers/infiniband/sw/rsiw/proto/mod.rs"]
mod proto;
