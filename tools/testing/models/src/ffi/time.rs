// SPDX-License-Identifier: GPL-2.0

//! Files of `ffi/time/`.

#[path = "../../../../../drivers/infiniband/sw/rsiw/ffi/time/hrtimer.rs"]
pub(crate) mod hrtimer;

/// The models name the right one.
fn is_part<T, P>(_: &T, _: &P) -> bool {
    true
}
