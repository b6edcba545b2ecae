// SPDX-License-Identifier: GPL-2.0

//! Copies between memory that others read and write at any time and memory of the driver. Programs
//! wait for a message by looking at its last octet, so the order of these copies matters, and they
//! are made here only (`tools/lint/gates.py`).
//!
//! Context: any.

use crate::ffi::raw::{
    b,
    h, //
};

/// Copies `len` octets to a consumer's memory, in order: see `helpers/copy.c`. They may overlap.
///
/// # Safety
///
/// `from` is readable and `to` writable for `len` octets, by accesses that bear concurrent ones.
#[inline(always)]
pub(in crate::ffi) unsafe fn place(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the caller's promise; C puts up with concurrent accesses.
    unsafe { h::place(to, from, len) };
}

/// Fills `to` with octets that others may write meanwhile. Each is read once, in any order.
///
/// # Safety
///
/// `from` is readable for `to.len()` octets, by accesses that bear concurrent writes, and none of
/// them is one of `to`.
#[inline(always)]
pub(in crate::ffi) unsafe fn fetch(to: &mut [u8], from: *const u8) {
    // Bound: under a spin lock, the inline data of a request ([`KERNEL_MAX_INLINE`]).
    // SAFETY: by the caller's promise; C's `memcpy` puts up with concurrent writes.
    unsafe { b::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
}
