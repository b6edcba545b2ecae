// SPDX-License-Identifier: GPL-2.0

//! Clocks, timers of reference-counted objects, and limits for how often something is done that
//! others can cause.
//!
//! A [`Timer`] (milliseconds) or [`hrtimer::ShortTimer`] (microseconds) is a part of its object.
//! While it runs it has a reference to the object, which the callback gets: so nobody has to keep a
//! handle, and the object does not go away under the callback. Starting a timer of the kernel crate
//! ([`kernel::time::hrtimer`]) returns a handle that waits for the callback when it is dropped.
//! That is not possible in softirq, where the timers here are started. The kernel crate has no
//! `timer_list`. [`now`] and [`wall`] read the monotonic clock and the clock of the day as plain
//! nanoseconds.
//!
//! # Context
//!
//! Timers are started in any context, also again while they run. Callbacks come in softirq.
//! Stopping waits for the callback: process context, without a lock that the callback takes.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::time::{Expires, Timer};
//! use kernel::{prelude::*, sync::Arc};
//!
//! #[pin_data]
//! struct Request {
//!     #[pin]
//!     timer: Timer<Self>,
//! }
//!
//! impl Expires for Request {
//!     fn timer(&self) -> &Timer<Self> {
//!         &self.timer
//!     }
//!
//!     fn expired(_this: Arc<Self>) {
//!         pr_info!("no answer for a second\n");
//!     }
//! }
//!
//! fn ask() -> Result<Arc<Request>> {
//!     let request = Arc::pin_init(pin_init!(Request { timer <- Timer::new() }), GFP_KERNEL)?;
//!     Timer::start(&request, 1000);
//!     Ok(request)
//! }
//!
//! fn answered(request: &Arc<Request>) {
//!     Timer::stop(request);
//! }
//! ```
//!
//! C headers: [`include/linux/timer.h`](srctree/include/linux/timer.h),
//! [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h),
//! [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

pub(crate) mod hrtimer;

use super::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// An object that has a timer.
pub(crate) trait Expires: Sized + Send + Sync + 'static {
    /// Returns the timer, which must be a part of the object: any other is not started.
    fn timer(&self) -> &Timer<Self>;

    /// Called in softirq when the timer ran out.
    fn expired(this: Arc<Self>);
}

/// A timer that keeps its object alive while it runs.
///
/// # Invariants
///
/// While the timer is pending, and until its callback has taken it, `target` is from
/// `Arc::into_raw` of a reference that the timer owns. The timer is a part of the object that
/// `target` leads to: so `target` never has two different values, and the object keeps the timer.
#[pin_data]
#[repr(C)]
pub(crate) struct Timer<T: Expires> {
    #[pin]
    timer: Opaque<b::timer_list>,
    target: Atomic<*mut T>,
    _target: PhantomData<Arc<T>>,
}

// SAFETY: C's timers may be set and stopped from any thread; the target is `Send` and `Sync`.
unsafe impl<T: Expires> Send for Timer<T> {}
// SAFETY: as above, and the target is accessed atomically.
unsafe impl<T: Expires> Sync for Timer<T> {}

/// Returns whether `part` lies in `object`.
fn is_part<T, P>(object: &T, part: &P) -> bool {
    let at = (&raw const *part)
        .addr()
        .checked_sub((&raw const *object).addr());
    let last = size_of::<T>().checked_sub(size_of::<P>());
    at.zip(last).is_some_and(|(at, last)| at <= last)
}

impl<T: Expires> Timer<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: not pending.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is a place for a timer that does not move once initialised.
                unsafe { h::timer_setup(timer, Some(Self::callback)) };
            }),
            target: Atomic::new(core::ptr::null_mut()),
            _target: PhantomData,
        })
    }

    /// Returns the timer of `this`, if the timer is a part of it.
    pub(crate) fn of(this: &Arc<T>) -> Option<&Self> {
        Some(this.timer()).filter(|timer| is_part(&**this, *timer))
    }

    /// Starts the timer of `this`, or sets it anew. Any context.
    pub(crate) fn start(this: &Arc<T>, ms: u32) {
        let Some(timer) = Self::of(this) else {
            kernel::pr_err_once!("BUG: an object names a timer that is not its own\n");
            return;
        };
        let target = Arc::into_raw(this.clone());
        // INVARIANT: always the object that the timer is a part of, and owned by the timer, below.
        timer.target.store(target.cast_mut(), Relaxed);
        // SAFETY: the timer is initialised; the reference keeps it in place.
        if unsafe { h::mod_timer_ms(timer.timer.get(), ms) } {
            // SAFETY: from `into_raw` above; the timer was pending, so it owns a reference already.
            drop(unsafe { Arc::from_raw(target) });
        }
    }

    /// Stops the timer of `this` and waits for its callback. Not in softirq.
    pub(crate) fn stop(this: &Arc<T>) {
        let Some(timer) = Self::of(this) else {
            return;
        };
        // SAFETY: the timer is initialised; the callback takes no lock of the caller.
        if unsafe { b::timer_delete_sync(timer.timer.get()) } != 0 {
            // SAFETY: by the type invariants: it was pending and its callback will not come.
            drop(unsafe { Arc::from_raw(timer.target.load(Relaxed).cast_const()) });
        }
    }

    /// # Safety
    ///
    /// To be called by C as the function of the timer of a `Timer<T>`.
    unsafe extern "C" fn callback(timer: *mut b::timer_list) {
        // SAFETY: the timer is the first field; one that fires is alive by the type invariants.
        let this = unsafe { &*timer.cast::<Self>() };
        let target = this.target.load(Relaxed).cast_const();
        // SAFETY: by the type invariants; this callback takes the reference.
        T::expired(unsafe { Arc::from_raw(target) });
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// Returns the nanoseconds since some point in the past. Any context.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: no requirements.
    let nanoseconds = unsafe { b::ktime_get() };
    // They do not wrap in the lifetime of a machine, so they are never negative.
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// Returns the whole milliseconds since the same point in the past as [`now`]. Any context.
pub(crate) fn now_ms() -> u64 {
    now() / NS_PER_MS
}

/// Returns the nanoseconds since 1970. Any context.
pub(crate) fn wall() -> u64 {
    // SAFETY: no requirements.
    let nanoseconds = unsafe { b::ktime_get_with_offset(b::tk_offsets_TK_OFFS_REAL) };
    // The administrator may set the clock to a time before 1970.
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// A `struct ratelimit_state`: ten times in five seconds, the kernel's default.
///
/// What was refused is counted. Who calls [`RateLimit::take_missed`] has to tell of it: the kernel
/// itself writes no line about it. Those who share a limit can hide each other: who uses it up
/// leaves nothing for the others. Any context.
///
/// # Examples
///
/// ```
/// use crate::ffi::time::RateLimit;
/// use kernel::prelude::*;
///
/// fn complain(limit: &RateLimit) {
///     if limit.allow() {
///         let left_out = limit.take_missed();
///         pr_info!("a bad packet, and {left_out} before that were not told of\n");
///     }
/// }
/// ```
///
/// # Invariants
///
/// `state` is initialised.
#[pin_data]
pub(crate) struct RateLimit {
    #[pin]
    state: Opaque<b::ratelimit_state>,
}

// SAFETY: C's states may be used from any thread.
unsafe impl Send for RateLimit {}
// SAFETY: as above; what changes in them is atomic or under their own lock.
unsafe impl Sync for RateLimit {}

impl RateLimit {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: the helper initialises it.
        pin_init!(Self {
            state <- Opaque::ffi_init(|state| {
                // SAFETY: `state` is a place for one, which does not move once initialised.
                unsafe { h::ratelimit_init(state) };
            }),
        })
    }

    /// Returns whether it may be done once more now, and counts that.
    pub(crate) fn allow(&self) -> bool {
        // SAFETY: by the type invariants. The name would be for a line that is not written.
        unsafe { b::___ratelimit(self.state.get(), c"".as_char_ptr()) != 0 }
    }

    /// Returns how often [`RateLimit::allow`] has refused since the last call.
    pub(crate) fn take_missed(&self) -> u32 {
        // SAFETY: by the type invariants.
        unsafe { h::ratelimit_state_reset_miss(self.state.get()) }
    }
}
