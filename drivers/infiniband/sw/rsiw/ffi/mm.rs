// SPDX-License-Identifier: GPL-2.0

//! Memory: that of consumers, which anybody may write at any time, and that of the driver which
//! processes map.

pub(super) mod copy;
pub(super) mod kmem;
pub(crate) mod noio;
pub(crate) mod page;
pub(crate) mod position;
pub(crate) mod ring;
pub(crate) mod shmem;
