// SPDX-License-Identifier: GPL-2.0

//! The kernel crate of the candidates of Linux 7.3 with what the driver expects of that of 7.3; see
//! `rsiw_kernel.rs`.

pub use kernel::*;

mod hrtimer;

pub mod bindings {
    //! What differs is of timers.
    pub use crate::hrtimer::{
        hrtimer_restart,
        hrtimer_setup, //
    };
    pub use kernel::bindings::*;
}
