// SPDX-License-Identifier: GPL-2.0

//! What `rdma resource show -dd` tells of an object beyond what the core knows.
//!
//! It is for everybody: neither the core nor the message, which has no sender, says whether the
//! administrator asks. (A thread may write to a socket that another one opened.)
//!
//! C header: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h). Context: process, in the
//! call of whoever asks.

use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr, //
};

/// Where details go: pairs of a name and a value.
///
/// # Invariants
///
/// `msg` is a netlink message with an open nest of driver attributes.
pub(crate) struct Details<'a> {
    msg: *mut b::sk_buff,
    _msg: PhantomData<&'a mut b::sk_buff>,
}

impl Details<'_> {
    /// Adds a number. Fails with `EMSGSIZE` if there is no room, as do all of these.
    pub(crate) fn number(&mut self, name: &CStr, value: impl Into<u64>) -> Result {
        let name = name.as_char_ptr();
        // SAFETY: by the invariant; the name is a C string.
        to_result(unsafe { b::rdma_nl_put_driver_u64(self.msg, name, value.into()) })
    }

    pub(crate) fn count(&mut self, name: &CStr, value: usize) -> Result {
        self.number(name, u64::try_from(value).unwrap_or(u64::MAX))
    }

    pub(crate) fn hex(&mut self, name: &CStr, value: u64) -> Result {
        let name = name.as_char_ptr();
        // SAFETY: by the invariant; the name is a C string.
        to_result(unsafe { b::rdma_nl_put_driver_u64_hex(self.msg, name, value) })
    }

    pub(crate) fn word(&mut self, name: &CStr, value: &CStr) -> Result {
        let (name, value) = (name.as_char_ptr(), value.as_char_ptr());
        // SAFETY: by the invariant; both are C strings.
        to_result(unsafe { b::rdma_nl_put_driver_string(self.msg, name, value) })
    }

    pub(crate) fn flag(&mut self, name: &CStr, value: bool) -> Result {
        self.word(name, if value { c"yes" } else { c"no" })
    }
}

/// Lets `tell` add details to a message. Returns 0 or an error. After `EMSGSIZE` the core asks once
/// more, with an empty message.
///
/// # Safety
///
/// `msg` is the message that the core passed to a callback, which goes on until this returns.
pub(super) unsafe fn fill(
    msg: *mut b::sk_buff,
    tell: impl FnOnce(&mut Details<'_>) -> Result,
) -> c_int {
    // SAFETY: by the caller's promise.
    let nest = unsafe { h::driver_nest_start(msg) };
    if nest.is_null() {
        return EMSGSIZE.to_errno();
    }
    // INVARIANT: just opened.
    let mut details = Details {
        msg,
        _msg: PhantomData,
    };
    match tell(&mut details) {
        Ok(()) => {
            // SAFETY: the nest is that of this message.
            unsafe { h::driver_nest_end(msg, nest) };
            0
        }
        Err(e) => {
            // SAFETY: as above.
            unsafe { h::driver_nest_cancel(msg, nest) };
            e.to_errno()
        }
    }
}
