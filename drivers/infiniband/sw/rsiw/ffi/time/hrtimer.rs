// SPDX-License-Identifier: GPL-2.0

//! Timers of microseconds for reference-counted objects. `time.rs` says why those of the kernel
//! crate are not used.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use super::is_part;
use crate::ffi::raw::b;
use core::marker::PhantomData;
use kernel::interrupt::local_interrupt_disable;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    AtomicFlag,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;

const MODE: b::hrtimer_mode = b::hrtimer_mode_HRTIMER_MODE_REL_SOFT;

/// An object that has a [`ShortTimer`].
pub(crate) trait ExpiresSoon: Sized + Send + Sync + 'static {
    /// Returns the timer, which must be a part of the object: any other is not started.
    fn short_timer(&self) -> &ShortTimer<Self>;

    /// Called in softirq when the timer ran out. The timer may be started again here.
    fn soon_expired(this: Arc<Self>);
}

/// A timer for microseconds that keeps its object alive while it runs.
///
/// # Invariants
///
/// From the moment when `runs` is set until the callback or [`ShortTimer::stop`] resets it, the
/// timer owns a reference, and `target` is from `Arc::into_raw` of it. The timer is a part of the
/// object that `target` leads to: so `target` never has two different values, and the object keeps
/// the timer.
#[pin_data]
#[repr(C)]
pub(crate) struct ShortTimer<T: ExpiresSoon> {
    #[pin]
    timer: Opaque<b::hrtimer>,
    target: Atomic<*mut T>,
    runs: AtomicFlag,
    _target: PhantomData<Arc<T>>,
}

// SAFETY: C's timers may be started and stopped from any thread; the target is `Send` and `Sync`.
unsafe impl<T: ExpiresSoon> Send for ShortTimer<T> {}
// SAFETY: as above, and the other fields are accessed atomically.
unsafe impl<T: ExpiresSoon> Sync for ShortTimer<T> {}

impl<T: ExpiresSoon> ShortTimer<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: it does not run.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                let clock = b::CLOCK_MONOTONIC as b::clockid_t;
                // SAFETY: `timer` is a place for a timer that does not move once initialised.
                unsafe { b::hrtimer_setup(timer, Some(Self::callback), clock, MODE) };
            }),
            target: Atomic::new(core::ptr::null_mut()),
            runs: AtomicFlag::new(false),
            _target: PhantomData,
        })
    }

    fn of(this: &Arc<T>) -> Option<&Self> {
        Some(this.short_timer()).filter(|timer| is_part(&**this, *timer))
    }

    /// Starts the timer of `this`, unless it runs. In either case the callback sees what the caller
    /// did before. Any context.
    pub(crate) fn start(this: &Arc<T>, us: u32) {
        let Some(timer) = Self::of(this) else {
            kernel::pr_err_once!("BUG: an object names a timer that is not its own\n");
            return;
        };
        // Others who find the timer marked as running rely on it. So nobody may take the processor
        // away from here until it runs.
        let _here = local_interrupt_disable();
        // INVARIANT: the reference that the timer owns from now on is made next; the callback does
        // not come before the timer was started. ORDERING: a callback that comes for an earlier
        // start sees what was done before this one.
        if timer.runs.xchg(true, Release) {
            return;
        }
        let target = Arc::into_raw(this.clone());
        timer.target.store(target.cast_mut(), Relaxed);
        let ns = i64::from(us) * 1_000;
        // SAFETY: the timer is initialised, with this mode; the reference keeps it in place.
        unsafe { b::hrtimer_start_range_ns(timer.timer.get(), ns, 0, MODE) };
    }

    /// Stops the timer of `this` and waits for its callback. If it is started meanwhile, it may go
    /// on. Not in softirq.
    pub(crate) fn stop(this: &Arc<T>) {
        let Some(timer) = Self::of(this) else {
            return;
        };
        // SAFETY: the timer is initialised; the callback takes no lock of the caller.
        if unsafe { b::hrtimer_cancel(timer.timer.get()) } == 0 {
            return;
        }
        let target = timer.target.load(Relaxed).cast_const();
        timer.runs.store(false, Relaxed);
        // SAFETY: by the type invariants: the timer was started and its callback will not come.
        drop(unsafe { Arc::from_raw(target) });
    }

    /// # Safety
    ///
    /// To be called by C as the function of the timer of a `ShortTimer<T>`.
    unsafe extern "C" fn callback(timer: *mut b::hrtimer) -> b::hrtimer_restart {
        // SAFETY: the timer is the first field; one that fires is alive by the type invariants.
        let this = unsafe { &*timer.cast::<Self>() };
        let target = this.target.load(Relaxed).cast_const();
        // ORDERING: with `start`. Whoever comes from now on starts the timer anew.
        this.runs.xchg(false, Acquire);
        // SAFETY: by the type invariants; this callback takes the reference. The object may be
        // freed here, as C does not look at a timer that is not to be restarted.
        T::soon_expired(unsafe { Arc::from_raw(target) });
        b::hrtimer_restart::HRTIMER_NORESTART
    }
}
