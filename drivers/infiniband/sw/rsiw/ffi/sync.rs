// SPDX-License-Identifier: GPL-2.0

//! Synchronisation that the kernel crate does not offer.

pub(crate) mod cell;
pub(crate) mod gate;
pub(crate) mod rcu_table;
