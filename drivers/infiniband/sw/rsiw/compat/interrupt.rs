// SPDX-License-Identifier: GPL-2.0

//! Disabling interrupts for as long as a guard exists, whichever of several guards goes first.
//! `interrupt.c` counts them.

use kernel::types::NotThreadSafe;

extern "C" {
    fn rsiw_compat_interrupt_disable();
    fn rsiw_compat_interrupt_enable();
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
