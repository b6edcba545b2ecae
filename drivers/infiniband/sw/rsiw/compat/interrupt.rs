// SPDX-License-Identifier: GPL-2.0

//! Disabling interrupts for as long as a guard exists, whichever of several guards goes first
//! (`interrupt.c` counts them), and the spinlock that does so. Any context but NMIs.

use kernel::bindings;
use kernel::ffi::c_char;
use kernel::sync::lock::{
    Backend,
    Guard,
    Lock, //
};
use kernel::types::NotThreadSafe;

extern "C" {
    fn rsiw_compat_interrupt_disable();
    fn rsiw_compat_interrupt_enable();
    fn rsiw_compat_spin_lock(lock: *mut bindings::spinlock_t);
    fn rsiw_compat_spin_trylock(lock: *mut bindings::spinlock_t) -> bool;
    fn rsiw_compat_spin_unlock(lock: *mut bindings::spinlock_t);
}

/// Interrupts of this processor are disabled while one of these exists.
pub struct LocalInterruptDisabled(NotThreadSafe);

/// Disables interrupts of this processor. Any context but NMIs.
#[inline]
pub fn local_interrupt_disable() -> LocalInterruptDisabled {
    // SAFETY: the guard ends what begins here.
    unsafe { rsiw_compat_interrupt_disable() };
    LocalInterruptDisabled(NotThreadSafe)
}

impl Drop for LocalInterruptDisabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: ends what began when the guard was made, by the same processor.
        unsafe { rsiw_compat_interrupt_enable() };
    }
}

/// Initialises a [`SpinLockIrq`] with a value and, if one is given, a name.
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockIrq::new(
            $inner, $crate::optional_name!($($name)?), $crate::static_lock_class!())
    };
}
pub use new_spinlock_irq;

/// A spinlock whose holder has interrupts disabled.
pub type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

/// Who holds a [`SpinLockIrq`].
pub type SpinLockIrqGuard<'a, T> = Guard<'a, T, SpinLockIrqBackend>;

/// The backend of [`SpinLockIrq`].
pub struct SpinLockIrqBackend;

// SAFETY: C's spinlock excludes others; `relock` is the default, which locks in the same way.
unsafe impl Backend for SpinLockIrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: by the caller's promise.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) {
        // SAFETY: by the caller's promise the lock is initialised.
        unsafe { rsiw_compat_spin_lock(ptr) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _guard_state: &()) {
        // SAFETY: by the caller's promise it holds the lock.
        unsafe { rsiw_compat_spin_unlock(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<()> {
        // SAFETY: by the caller's promise the lock is initialised.
        unsafe { rsiw_compat_spin_trylock(ptr) }.then_some(())
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: by the caller's promise the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
