// SPDX-License-Identifier: GPL-2.0

//! Data that the lock of a socket guards, as `kernel::sync::LockedBy` has it for locks of the
//! kernel crate.
//!
//! Context: any in which the lock of a socket may be held.

use super::{
    locked::LockedSock,
    socket::TcpSocket, //
};
use crate::ffi::raw::b;
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};

/// A value that only the holder of one socket's lock can access.
///
/// # Invariants
///
/// A reference to `value` is only made from a borrowed [`LockedSock`] of the socket at `sk`, for as
/// long as that is borrowed.
pub(crate) struct LockedBySock<T> {
    /// Only compared.
    sk: NonNull<b::sock>,
    value: UnsafeCell<T>,
}

// SAFETY: `sk` is only compared, and whoever has the whole value has the only reference to it.
unsafe impl<T: Send> Send for LockedBySock<T> {}
// SAFETY: by the invariant one thread at a time gets at `value`: the holder of a socket's lock.
unsafe impl<T: Send> Sync for LockedBySock<T> {}

impl<T> LockedBySock<T> {
    pub(crate) fn new(sock: &TcpSocket, value: T) -> Self {
        // INVARIANT: there is no reference yet.
        Self {
            sk: sock.sk(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value; `None` if `sk` is another socket.
    #[inline]
    pub(crate) fn get<'a>(&'a self, sk: &'a mut LockedSock<'_>) -> Option<&'a mut T> {
        if sk.as_ptr() != self.sk.as_ptr() {
            return None;
        }
        // INVARIANT: `sk` is borrowed for as long as the reference lives.
        // SAFETY: by the invariants of `LockedSock` nobody else has one of the same socket, and the
        // lock orders what was done before. If the socket is another one at the address of the
        // first, the first is gone, and so are all references that were made from it.
        Some(unsafe { &mut *self.value.get() })
    }
}
