// SPDX-License-Identifier: GPL-2.0

//! Keyrings of the kernel.
//!
//! C header: [`include/linux/key.h`](srctree/include/linux/key.h)
//!
//! Context: process.

use super::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

/// A keyring. It stays as long as this value, and with it its number, but may be revoked.
///
/// # Invariants
///
/// Owns a reference to a key of the type `keyring`.
pub(crate) struct Keyring(NonNull<b::key>);

// SAFETY: keys are counted, and used and given up by any thread.
unsafe impl Send for Keyring {}
// SAFETY: what is read of it is constant, or read under its lock.
unsafe impl Sync for Keyring {}

impl Keyring {
    /// Returns the keyring with this number, whoever may use it: the number has to come from
    /// somebody with all rights. Fails with `ENOKEY` if there is no such key, or `ENOTDIR` if it is
    /// no keyring.
    pub(crate) fn lookup(serial: i32) -> Result<Self> {
        // SAFETY: no requirements.
        let ring = from_err_ptr(unsafe { h::keyring_lookup(serial) })?;
        // INVARIANT: the function returns keyrings only, with a reference.
        NonNull::new(ring).map(Self).ok_or(ENOKEY)
    }

    /// Returns its number.
    pub(crate) fn serial(&self) -> i32 {
        // SAFETY: the keyring is live.
        unsafe { h::keyring_serial(self.0.as_ptr()) }
    }

    /// Checks that a key is linked into this keyring itself, not into another keyring in it, and
    /// that key and keyring are valid. Fails with `ENOKEY`, `EKEYREVOKED` or `EKEYEXPIRED`, or
    /// `ENOMEM`.
    pub(crate) fn check(&self, key: i32) -> Result {
        // SAFETY: the keyring is live; this is process context.
        to_result(unsafe { h::keyring_check(self.0.as_ptr(), key) })
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        // SAFETY: the reference is this value's.
        unsafe { h::keyring_put(self.0.as_ptr()) };
    }
}
