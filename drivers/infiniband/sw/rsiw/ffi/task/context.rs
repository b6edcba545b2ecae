// SPDX-License-Identifier: GPL-2.0

//! The context of a call: what it allows, and softirqs that are kept off.
//!
//! C headers: [`include/linux/preempt.h`](srctree/include/linux/preempt.h),
//! [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h)
//!
//! Context: any, if a function does not say otherwise.

use crate::ffi::raw::h;
use kernel::types::NotThreadSafe;

/// Returns whether the thread may sleep although it called something that promises not to: it holds
/// no spinlock, is no RCU reader, has interrupts, softirqs and preemption enabled, is not about to
/// wait, and does not reclaim memory. Always false in a kernel that does not count all of that. The
/// thread may hold sleeping locks: do not wait for anything that needs them.
#[inline]
pub(crate) fn may_sleep() -> bool {
    // SAFETY: looks at flags of the processor and the thread.
    unsafe { h::may_sleep() }
}

/// Returns whether the caller holds no spin lock, has interrupts, softirqs and preemption on, and
/// does not reclaim memory. It may be an RCU reader, or about to wait for something, so that nothing
/// may sleep. Never so in a kernel that does not count all of that.
#[inline]
pub(crate) fn is_preemptible() -> bool {
    // SAFETY: looks at flags of the processor and the thread.
    unsafe { h::is_preemptible() }
}

/// Returns whether others are preferred to this thread, which might keep those who wait for it
/// waiting for long. Process context.
#[inline]
pub(crate) fn is_low_priority() -> bool {
    // SAFETY: looks at the thread.
    unsafe { h::is_low_priority() }
}

/// Returns whether another thread is to have the processor.
#[inline]
pub(crate) fn is_wanted() -> bool {
    // SAFETY: looks at flags of the thread.
    unsafe { h::need_resched() }
}

/// Returns on how many processors the thread may run at this moment. Process context.
pub(crate) fn processors() -> u32 {
    // SAFETY: reads numbers, one of them the thread's.
    unsafe { h::usable_cpus() }
}

#[inline]
pub(crate) fn is_softirq() -> bool {
    // SAFETY: looks at flags of the processor.
    unsafe { h::in_serving_softirq() }
}

/// Keeps this thread on its processor, where no softirq begins; those that are pending when it is
/// dropped run then.
///
/// # Invariants
///
/// Softirqs were disabled once for this object.
pub(crate) struct NoSoftirq(NotThreadSafe);

impl NoSoftirq {
    /// Begins the section. Sections nest. Not with interrupts disabled.
    pub(crate) fn enter() -> Self {
        // SAFETY: `drop` ends it.
        unsafe { h::local_bh_disable() };
        // INVARIANT: just done.
        Self(NotThreadSafe)
    }
}

impl Drop for NoSoftirq {
    fn drop(&mut self) {
        // SAFETY: the same thread, which has disabled them once by the invariant.
        unsafe { h::local_bh_enable() };
    }
}
