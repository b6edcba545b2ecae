// SPDX-License-Identifier: GPL-2.0

//! Files of `mr/`.

#[path = "../../../../drivers/infiniband/sw/rsiw/mr/window/count.rs"]
mod count;

pub(crate) mod model;
