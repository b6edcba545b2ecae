// SPDX-License-Identifier: GPL-2.0

//! Files of `qp/`.

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/qp/shared/published.rs"]
mod published;

pub(crate) mod model;
