// SPDX-License-Identifier: GPL-2.0

//! Workqueues of our own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use super::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::cpu::CpuId;
use kernel::interrupt::local_interrupt_disable;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::workqueue::{
    Queue,
    RawWorkItem,
    Work, //
};

/// For work that sleeps, and that may be waited for while memory is reclaimed.
const UNBOUND: u32 = b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM;

/// A workqueue that is destroyed when it is dropped, after all work on it is done.
///
/// It gives no access to its [`Queue`], as destroying the queue does not wait for the timers of
/// delayed work.
///
/// # Invariants
///
/// The pointer is valid until it is dropped.
pub(crate) struct OwnedQueue(NonNull<b::workqueue_struct>);

// SAFETY: workqueues may be used from any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: see above.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes a queue whose work runs on any CPU, concurrently, and also while memory is reclaimed.
    /// Fails with `ENOMEM`, as do all of these.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, UNBOUND)
    }

    /// Makes a queue of which the administrator can choose the CPUs, and the priority, in
    /// `/sys/devices/virtual/workqueue/NAME`. Otherwise as [`OwnedQueue::new`].
    pub(crate) fn new_adjustable(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, UNBOUND | b::wq_flags_WQ_SYSFS)
    }

    /// Makes a queue whose work runs before that of others. Otherwise as
    /// [`OwnedQueue::new_adjustable`].
    pub(crate) fn new_urgent(name: &'static CStr) -> Result<Self> {
        let urgent = b::wq_flags_WQ_HIGHPRI | b::wq_flags_WQ_SYSFS;
        Self::with_flags(name, UNBOUND | urgent)
    }

    /// Makes a queue whose work runs in softirq, on the processor that it is queued for.
    pub(crate) fn new_softirq(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags_WQ_BH | b::wq_flags_WQ_PERCPU)
    }

    /// Makes a queue for work that nobody waits for while memory is reclaimed. Otherwise as
    /// [`OwnedQueue::new`].
    pub(crate) fn new_idle(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags_WQ_UNBOUND)
    }

    fn with_flags(name: &'static CStr, flags: u32) -> Result<Self> {
        // SAFETY: the format takes one string, which is given; 0 is the usual number of workers.
        let raw =
            unsafe { b::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, 0, name.as_char_ptr()) };
        // INVARIANT: it was just made.
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is valid; nobody can reach it any more.
        unsafe { b::destroy_workqueue(self.0.as_ptr()) };
    }
}

impl OwnedQueue {
    /// Queues work, unless it is queued already. Any context.
    pub(crate) fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // SAFETY: by the invariant the queue is valid as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }.enqueue(work)
    }

    /// Queues work for the processor `cpu`, unless that is the current one or does not run. Returns
    /// whether it did; work that was queued already stays where it is and counts as queued. Any
    /// context.
    pub(crate) fn enqueue_elsewhere<W, const ID: u64>(&self, cpu: u32, work: W) -> bool
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // This code stays on its processor meanwhile, and the other one does not go away.
        let _here = local_interrupt_disable();
        let Some(cpu) = CpuId::from_u32(cpu) else {
            return false;
        };
        if cpu == CpuId::current() || !is_online(cpu) {
            return false;
        }
        // CAST: numbers of processors are small.
        let raw = cpu.as_u32() as c_int;
        let queue = self.0.as_ptr();
        // SAFETY: the queue is valid by the type invariant, and the item by what `__enqueue`
        // guarantees; `queue_work_on` returns false only for what is queued. The work is `Send` and
        // static. The processor runs, and does not stop while interrupts are disabled here.
        unsafe { work.__enqueue(move |item| b::queue_work_on(raw, queue, item)) };
        true
    }

    /// Waits until the work that is queued now is done.
    pub(crate) fn flush(&self) {
        // SAFETY: by the invariant the queue is valid.
        unsafe { b::__flush_workqueue(self.0.as_ptr()) };
    }

    /// Waits until the queue is empty: also for work that its own work queues.
    pub(crate) fn drain(&self) {
        // SAFETY: by the invariant the queue is valid.
        unsafe { b::drain_workqueue(self.0.as_ptr()) };
    }
}

/// Waits until `work` is done, if it is queued or runs.
pub(crate) fn flush<T, const ID: u64>(work: &Work<T, ID>) {
    // SAFETY: `work` is a live item, which its constructor has initialised.
    unsafe { b::flush_work(Work::raw_get(work)) };
}

fn is_online(cpu: CpuId) -> bool {
    // SAFETY: the number is that of a possible processor.
    unsafe { h::cpu_online(cpu.as_u32()) }
}
