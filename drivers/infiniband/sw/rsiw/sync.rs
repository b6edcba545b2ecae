// SPDX-License-Identifier: GPL-2.0

//! Synchronisation built from the kernel crate's safe types.
#![forbid(unsafe_code)]

pub(crate) mod gate;
