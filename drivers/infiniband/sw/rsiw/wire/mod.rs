// SPDX-License-Identifier: GPL-2.0

//! Wire formats: octets to checked values and back.
//!
//! MPA (RFC 5044, RFC 6581), DDP (RFC 5041), RDMAP (RFC 5040, opcodes of RFC 7306), datagrams of
//! RoCEv2, and how TLS begins (RFC 8446). Depends on `core` and `zerocopy` only; any context. The
//! tests compile these files with cargo.
#![forbid(unsafe_code)]
// The raw peer and the tests use what the driver does not.
#![allow(dead_code)]

pub(crate) mod atomic;
pub(crate) mod ddp;
pub(crate) mod fpdu;
pub(crate) mod mpa;
pub(crate) mod rdmap;
pub(crate) mod roce;
pub(crate) mod terminate;
pub(crate) mod tls;

/// A buffer was too short for what had to be read from or written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short;
