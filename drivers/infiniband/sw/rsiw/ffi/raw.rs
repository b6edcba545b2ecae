// SPDX-License-Identifier: GPL-2.0

//! The generated bindings: the only file that names them or `kernel::bindings`.
//!
//! Other files of `ffi/` write `use super::raw::{b, h};`. Nothing outside `ffi/` may use this.

/// The C API: what the kernel crate binds and what bindgen adds for this driver.
#[allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::as_underscore,
    clippy::cast_lossless,
    unknown_lints,
    unnecessary_transmutes,
    reason = "generated code"
)]
pub(crate) mod b {
    pub(crate) use super::super::opaque::rdma_cm_id;
    use super::super::opaque::*;
    pub(crate) use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: a bit-field unit is a transparent array of integers.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("RSIW_FFI_GEN"), "/bindings_generated.rs"));
}

/// Helpers of `helpers.c` for macros and inline functions of C.
#[allow(
    dead_code,
    missing_docs,
    improper_ctypes,
    unreachable_pub,
    non_camel_case_types,
    reason = "generated code"
)]
pub(crate) mod h {
    use super::b::*;
    use kernel::ffi;

    include!(concat!(env!("RSIW_FFI_GEN"), "/helpers_generated.rs"));
}
