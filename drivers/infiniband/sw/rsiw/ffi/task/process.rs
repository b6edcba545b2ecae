// SPDX-License-Identifier: GPL-2.0

//! Processes on whose behalf something is done.
//!
//! C header: [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)
//!
//! Context: any, if a function does not say otherwise.

use crate::ffi::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::Flags,
    current,
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

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

/// The identity of a process, which may have ended. Its number may be another one's by then.
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
    /// Returns that of the calling process, or `ESRCH` if it is about to end. Process context.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: the function has no preconditions.
        let pid = NonNull::new(unsafe { h::current_process() }).ok_or(ESRCH)?;
        // INVARIANT: the call has taken the reference.
        Ok(Self(pid))
    }

    /// Returns whether it is that of the calling process. Process context.
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
