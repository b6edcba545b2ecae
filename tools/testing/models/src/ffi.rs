// SPDX-License-Identifier: GPL-2.0

//! Files of `ffi/`, and what stands for the C below them.

pub(crate) mod mm;
pub(crate) mod raw;
pub(crate) mod sync;
pub(crate) mod time;

pub(crate) mod module {
    #[derive(Clone, Copy)]
    pub(crate) struct Loaded;
}
