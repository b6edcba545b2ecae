// SPDX-License-Identifier: GPL-2.0

//! Files of `ffi/time/`.

#[path = "../../../../../drivers/infiniband/sw/rsiw/ffi/time/hrtimer.rs"]
pub(crate) mod hrtimer;

mod timer {
    /// The models name the right one.
    pub(super) fn is_part<T, P>(_: &T, _: &P) -> bool {
        true
    }
}
