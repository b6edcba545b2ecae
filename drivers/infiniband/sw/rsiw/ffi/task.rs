// SPDX-License-Identifier: GPL-2.0

//! The running thread, processes, and threads that serve one.
//!
//! - [`may_sleep`] and others tell what a call may do where the core's interface does not: whether
//!   it may sleep, whether it is a softirq, who else wants the processor. [`NoSoftirq`] keeps
//!   softirqs off.
//! - [`Process`] and [`Identity`] remember on whose behalf something was made.
//! - [`serving::ServingThread`] is a thread of the kernel that is a part of a process, counts for
//!   its limits, and ends with it (`vhost_task`).
//!
//! # Lifetimes and context
//!
//! A serving thread has the object that it serves until it is told to end, and keeps the module
//! until it has ended; nobody waits for it, as a debugger may have stopped it.
//!
//! Each function says its context. Most look at the running thread, and answer for this moment
//! only. An interface should itself say whether a call may sleep; see `rsiw-tricks.rst`.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::task;
//! use kernel::{prelude::*, sync::{Arc, Mutex}};
//!
//! /// Does the work at once if the caller lets it sleep; returns whether it has.
//! fn do_at_once(work: &Arc<Mutex<u32>>) -> bool {
//!     if !task::may_sleep() {
//!         return false;
//!     }
//!     *work.lock() = 0;
//!     true
//! }
//! ```
//!
//! C headers: [`include/linux/preempt.h`](srctree/include/linux/preempt.h),
//! [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h),
//! [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)

pub(crate) mod serving;

use super::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::Flags,
    current,
    prelude::*,
    sync::aref::ARef,
    task::Task,
    types::NotThreadSafe, //
};

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

/// Returns whether the scheduler prefers other threads to this one, so that whoever waits for this
/// thread might wait for long. Process context.
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

/// Returns the flags for allocating in a call of a process, whose memory cgroup is charged, or in
/// one of a consumer in the kernel, where nobody is. Process context.
pub(crate) const fn memory_for(is_process: bool) -> Flags {
    if is_process {
        GFP_KERNEL_ACCOUNT
    } else {
        GFP_KERNEL
    }
}

/// Returns whether the caller is a thread of the kernel, which serves no process. Process context.
pub(crate) fn is_kernel_thread() -> bool {
    // SAFETY: looks at flags of the thread.
    unsafe { h::is_kernel_thread() }
}

/// A process, which may have ended.
pub(crate) struct Process(ARef<Task>);

impl Process {
    /// Returns the calling process. Process context.
    pub(crate) fn current() -> Self {
        let task: &Task = current!();
        Self(task.into())
    }

    /// Returns whether the process is about to end, or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: the reference keeps the task, and with it what all threads share.
        unsafe { h::process_is_ending(self.0.as_ptr()) }
    }
}

/// The identity of a process, which may have ended. Its number may be that of another process by
/// then.
///
/// # Invariants
///
/// Owns a reference of the `struct pid`.
pub(crate) struct Identity(NonNull<b::pid>);

// SAFETY: the reference may be used and given back by any thread, and in any context.
unsafe impl Send for Identity {}
// SAFETY: only the address is looked at.
unsafe impl Sync for Identity {}

impl Identity {
    /// Returns the identity of the calling process, or `ESRCH` if it is about to end. Process
    /// context.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: the function has no preconditions.
        let pid = NonNull::new(unsafe { h::current_process() }).ok_or(ESRCH)?;
        // INVARIANT: the call has taken the reference.
        Ok(Self(pid))
    }

    /// Returns whether this is the identity of the calling process. Process context.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: only the address is looked at.
        unsafe { h::process_is_current(self.0.as_ptr()) }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // SAFETY: the reference is owned by the type invariants.
        unsafe { h::put_pid(self.0.as_ptr()) };
    }
}
