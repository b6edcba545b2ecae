// SPDX-License-Identifier: GPL-2.0

//! What queues of requests are made of: requests of kernel consumers and their slots, rings of
//! processes and the offers to map them, lists of elements, receive queues.
//!
//! None of this knows queue pairs, shared receive queues or completion queues, which use it.
#![forbid(unsafe_code)]

pub(crate) mod posted;
pub(crate) mod rq;
pub(crate) mod sgl;
pub(crate) mod shared;
