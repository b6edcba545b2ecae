// SPDX-License-Identifier: GPL-2.0

//! The driver's own formats, for reading what comes in the random mode.
#![forbid(unsafe_code)]

#[path = "../../../../drivers/infiniband/sw/rsiw/wire/mod.rs"]
mod files;

pub(crate) use files::*;
