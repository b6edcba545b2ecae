// SPDX-License-Identifier: GPL-2.0

//! Only for this driver: module parameters, trace events, queues, the methods and files that are
//! declared in C, and the header of its ABI.

pub(crate) mod methods;
pub(crate) mod params;
pub(crate) mod queues;
pub(crate) mod trace;
pub(crate) mod uapi;
