// SPDX-License-Identifier: GPL-2.0

//! The running thread, processes, and threads that serve one.

pub(crate) mod context;
pub(crate) mod process;
pub(crate) mod serving;
