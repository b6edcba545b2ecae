// SPDX-License-Identifier: GPL-2.0

//! Files of `ffi/sync/`.

#[allow(dead_code)]
#[path = "../../../../../drivers/infiniband/sw/rsiw/ffi/sync/gate.rs"]
pub(crate) mod gate;

#[allow(dead_code)]
#[path = "../../../../../drivers/infiniband/sw/rsiw/ffi/sync/rcu_table.rs"]
pub(crate) mod rcu_table;
