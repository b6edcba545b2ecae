// SPDX-License-Identifier: GPL-2.0

//! Clocks, and timers of reference-counted objects.

pub(crate) mod clock;
pub(crate) mod hrtimer;
pub(crate) mod timer;
