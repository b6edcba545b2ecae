// SPDX-License-Identifier: GPL-2.0

//! Frames and segments as the raw peer writes them, by a description of the wire that is not the
//! driver's.

#[allow(dead_code, reason = "the raw peer uses the rest")]
#[path = "../../../peer/src/bytes.rs"]
mod bytes;
#[path = "../../../peer/src/crc.rs"]
mod crc;

pub(crate) use bytes::*;
