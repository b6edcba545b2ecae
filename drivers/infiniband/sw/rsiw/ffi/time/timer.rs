// SPDX-License-Identifier: GPL-2.0

//! Timers of reference-counted objects.
//!
//! C header: [`include/linux/timer.h`](srctree/include/linux/timer.h)

use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

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
/// `target` leads to, so that it never has two different values, and the object keeps the timer.
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
pub(super) fn is_part<T, P>(object: &T, part: &P) -> bool {
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

    /// Returns the timer of `this` if it is a part of it.
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
