// SPDX-License-Identifier: GPL-2.0

//! Processes on whose behalf something is done.
//!
//! C header: [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)
//!
//! Context: any, but for the one that it is made in.

use super::raw::h;
use kernel::{
    alloc::Flags,
    current,
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

/// How to allocate in a call of a process, whose memory cgroup is charged with it, or else in one
/// of a consumer in the kernel, where nobody is. Process context.
pub(crate) const fn memory_for(is_process: bool) -> Flags {
    if is_process {
        GFP_KERNEL_ACCOUNT
    } else {
        GFP_KERNEL
    }
}

/// A process, which may have ended.
pub(crate) struct Process(ARef<Task>);

impl Process {
    /// The one that makes the call. Process context.
    pub(crate) fn current() -> Self {
        let task: &Task = current!();
        Self(task.into())
    }

    /// Whether the process is about to end, or has.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: the reference keeps the task, and with it what all threads share.
        unsafe { h::process_is_ending(self.0.as_ptr()) }
    }
}
