// SPDX-License-Identifier: GPL-2.0

//! What only this driver has: its module parameters, trace events and queues, and the header of its
//! ABI.

pub(crate) mod params;
pub(crate) mod queues;
pub(crate) mod trace;
pub(crate) mod uapi;
