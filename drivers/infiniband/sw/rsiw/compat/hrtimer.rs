// SPDX-License-Identifier: GPL-2.0

//! What a timer's function returns, which was an integer in 7.2 and in the candidates of 7.3.

#![allow(non_camel_case_types, reason = "C names")]

use kernel::{
    bindings as older,
    ffi, //
};

/// What is to become of a timer whose function has run.
#[repr(transparent)]
pub struct hrtimer_restart(pub ffi::c_uint);

impl hrtimer_restart {
    /// It stays as it is.
    pub const HRTIMER_NORESTART: Self = Self(older::hrtimer_restart_HRTIMER_NORESTART);
}

type Function = unsafe extern "C" fn(*mut older::hrtimer) -> hrtimer_restart;

/// Initialises a timer.
///
/// # Safety
///
/// `timer` points to a place for a timer that does not move from now on.
#[inline]
pub unsafe fn hrtimer_setup(
    timer: *mut older::hrtimer,
    function: Option<Function>,
    clock: older::clockid_t,
    mode: older::hrtimer_mode,
) {
    // SAFETY: what the function returns is the integer that C expects.
    let function = unsafe {
        core::mem::transmute::<
            Option<Function>,
            Option<unsafe extern "C" fn(*mut older::hrtimer) -> older::hrtimer_restart>,
        >(function)
    };
    // SAFETY: by the caller's promise.
    unsafe { older::hrtimer_setup(timer, function, clock, mode) };
}
