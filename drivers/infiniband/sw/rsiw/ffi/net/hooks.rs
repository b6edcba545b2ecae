// SPDX-License-Identifier: GPL-2.0

//! The hooks of a socket: what TCP calls when something happens to it (`sk_data_ready` and others).
//!
//! A socket keeps the hooks that it was created with, for when those of a handler go.
//!
//! Context: process.

use crate::ffi::raw::{
    b,
    h, //
};
use core::ptr::NonNull;

type Hook = Option<unsafe extern "C" fn(*mut b::sock)>;

#[derive(Clone, Copy)]
pub(super) struct Hooks {
    pub(super) state_change: Hook,
    pub(super) data_ready: Hook,
    pub(super) write_space: Hook,
    pub(super) error_report: Hook,
}

impl Hooks {
    /// Returns those that a socket has now.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket whose hooks nobody changes.
    pub(super) unsafe fn of(sk: NonNull<b::sock>) -> Self {
        let sk = sk.as_ptr();
        Self {
            // SAFETY: the caller vouches for `sk`.
            state_change: unsafe { (*sk).sk_state_change },
            // SAFETY: as above.
            data_ready: unsafe { (*sk).sk_data_ready },
            // SAFETY: as above.
            write_space: unsafe { (*sk).sk_write_space },
            // SAFETY: as above.
            error_report: unsafe { (*sk).sk_error_report },
        }
    }

    /// Gives them to a socket.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket for which the functions are made, and its locks are held by [`lock`].
    pub(super) unsafe fn store(&self, sk: NonNull<b::sock>) {
        let sk = sk.as_ptr();
        // SAFETY: the caller vouches for `sk` and holds the lock that guards the fields.
        unsafe { (*sk).sk_state_change = self.state_change };
        // SAFETY: as above.
        unsafe { (*sk).sk_data_ready = self.data_ready };
        // SAFETY: as above.
        unsafe { (*sk).sk_write_space = self.write_space };
        // SAFETY: as above.
        unsafe { (*sk).sk_error_report = self.error_report };
    }

    /// Gives them back to a socket.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket for which the functions are made; this is process context, with
    /// neither of its locks held.
    pub(super) unsafe fn restore(&self, sk: NonNull<b::sock>) {
        // SAFETY: by the caller's promise.
        unsafe { lock(sk) };
        // SAFETY: the locks were just taken.
        unsafe { self.store(sk) };
        // SAFETY: as above.
        unsafe { unlock(sk) };
    }
}

/// Takes the locks under which hooks and handler of a socket are exchanged.
///
/// # Safety
///
/// `sk` is a live socket; this is process context, with neither of its locks held.
pub(super) unsafe fn lock(sk: NonNull<b::sock>) {
    // SAFETY: by the caller's promise.
    unsafe { h::lock_sock(sk.as_ptr()) };
    // SAFETY: as above.
    unsafe { h::sk_callback_write_lock(sk.as_ptr()) };
}

/// Drops the locks; what arrived meanwhile is taken in, and hooks are called in this context.
///
/// # Safety
///
/// The locks are held by [`lock`].
pub(super) unsafe fn unlock(sk: NonNull<b::sock>) {
    // SAFETY: by the caller's promise.
    unsafe { h::sk_callback_write_unlock(sk.as_ptr()) };
    // SAFETY: as above.
    unsafe { b::release_sock(sk.as_ptr()) };
}
