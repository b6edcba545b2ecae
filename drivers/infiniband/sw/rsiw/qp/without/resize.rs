// SPDX-License-Identifier: GPL-2.0

//! Stands for `qp::resize`: queues keep the depths that they were made with.
#![forbid(unsafe_code)]

use crate::{
    ffi::rdma::{
        attr::QpCap,
        udata::Udata, //
    },
    qp::Qp,
};
use kernel::prelude::*;

impl Qp {
    pub(crate) fn resize(&self, _cap: &QpCap) -> Result {
        Err(EOPNOTSUPP)
    }

    pub(crate) fn resize_rings(&self, _udata: &mut Udata<'_>) -> Result {
        Err(EOPNOTSUPP)
    }
}
