// SPDX-License-Identifier: GPL-2.0

//! rsiw: RDMA over any network interface (iWARP on kernel TCP sockets).

use kernel::prelude::*;

mod abi;
mod ffi;
mod sync;

module! {
    type: RsiwModule,
    name: "rsiw",
    authors: ["rsiw developers"],
    description: "Software iWARP RDMA driver",
    license: "GPL",
    alias: ["rdma-link-rsiw"],
}

struct RsiwModule;

impl kernel::Module for RsiwModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
