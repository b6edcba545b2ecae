// SPDX-License-Identifier: GPL-2.0

//! Other modules. Process context.

use super::raw::h;
use kernel::{
    prelude::*,
    str::CStr, //
};

/// Whether a module of that name is loaded, or being loaded.
pub(crate) fn is_loaded(name: &CStr) -> bool {
    // SAFETY: the name is a C string.
    unsafe { h::module_is_loaded(name.as_char_ptr()) }
}
