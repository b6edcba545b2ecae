// SPDX-License-Identifier: GPL-2.0

//! What queues of requests are made of: requests of kernel consumers and their slots, rings of
//! processes, lists of elements, receive queues.
//!
//! Leaves: they know nothing of queue pairs, shared receive queues and completion queues, which use
//! them.
#![forbid(unsafe_code)]

pub(crate) mod posted;
pub(crate) mod rq;
pub(crate) mod sgl;
pub(crate) mod shared;
pub(crate) mod slots;
