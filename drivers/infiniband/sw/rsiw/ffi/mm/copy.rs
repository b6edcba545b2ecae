// SPDX-License-Identifier: GPL-2.0

//! Copies between memory that others read and write at any time and our own.
//!
//! This is the only home of such copies (`tools/lint/gates.py`), as their order matters: programs
//! wait for a message by looking at its last octet.
//!
//! Context: any.

use crate::ffi::raw::{
    b,
    h, //
};

/// Places octets of a message in the memory of a consumer, in order: see `helpers/copy.c`. The
/// octets may overlap.
///
/// # Safety
///
/// `len` octets from `from` on are readable and from `to` on writable, for accesses that put up with
/// concurrent ones.
#[inline(always)]
pub(in crate::ffi) unsafe fn place(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the caller's promise; C puts up with concurrent accesses.
    unsafe { h::place(to, from, len) };
}

/// Fills `to`, which is nobody else's, with octets that others may write meanwhile. Each is read
/// once, in any order.
///
/// # Safety
///
/// As many octets as `to` has are readable from `from` on, for accesses that put up with concurrent
/// writes, and none of them is one of `to`.
#[inline(always)]
pub(in crate::ffi) unsafe fn fetch(to: &mut [u8], from: *const u8) {
    // SAFETY: by the caller's promise; C's `memcpy` puts up with concurrent writes.
    unsafe { b::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
}
