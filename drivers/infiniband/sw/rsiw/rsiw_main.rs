// SPDX-License-Identifier: GPL-2.0

//! rsiw: RDMA over any network interface (iWARP on kernel TCP sockets).
//!
//! Layers: `num` (arithmetic); `wire` and `proto` (pure protocol), and `ffi` (C and all unsafe
//! code), which know nothing of each other. Above them, each using only those before it: `abi`,
//! `counts`, `limits`, `log`, `notes`; `queue`; `cq`, `mr`; `device`; `srq`; `qp`; `ud`;
//! `gids`; `cm`; `rnic`; `verbs` (what the RDMA core calls); `link` (what makes and removes
//! devices).

// With an older kernel, see compat/compat.mk.
#[cfg(rsiw_compat)]
extern crate rsiw_kernel as kernel;

use kernel::prelude::*;

mod abi;
mod cm;
mod counts;
mod cq;
mod device;
mod ffi;
mod gids;
mod kunit;
mod limits;
mod link;
mod log;
mod mr;
mod notes;
mod num;
mod proto;
mod qp;
mod queue;
mod rnic;
mod srq;
mod ud;
mod verbs;
mod wire;

module! {
    type: RsiwModule,
    name: "rsiw",
    authors: ["rsiw developers"],
    description: "Software iWARP RDMA driver",
    license: "GPL",
    alias: ["rdma-link-rsiw"],
}

/// The module's state.
type RsiwModule = ffi::module::Module<link::Links>;
