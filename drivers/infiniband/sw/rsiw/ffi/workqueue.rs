// SPDX-License-Identifier: GPL-2.0

//! Workqueues of our own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use super::raw::{
    b,
    h, //
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    cpu::CpuId,
    interrupt::local_interrupt_disable,
    prelude::*,
    str::CStr,
    sync::Arc,
    workqueue::{
        Queue,
        RawWorkItem, //
    },
};

/// For work that sleeps, and may be waited for while memory is reclaimed.
const UNBOUND: u32 = b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM;

/// A workqueue that is destroyed when it is dropped, after all work on it is done.
///
/// Delayed work must not be put on it: the queue would not wait for the timer.
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
    /// Makes a queue whose work may run on any CPU, at the same time, and while memory is being
    /// reclaimed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, UNBOUND, 0)
    }

    /// As [`OwnedQueue::new`], but the work runs before what others have to do. The administrator
    /// can change that, and choose the CPUs, in `/sys/devices/virtual/workqueue/NAME`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_urgent(name: &'static CStr) -> Result<Self> {
        let urgent = b::wq_flags_WQ_HIGHPRI | b::wq_flags_WQ_SYSFS;
        Self::with_flags(name, UNBOUND | urgent, 0)
    }

    /// Makes a queue whose work runs one by one, in the order in which it was queued.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_ordered(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, UNBOUND | b::wq_flags___WQ_ORDERED, 1)
    }

    /// Makes a queue whose work runs in softirq, on the processor that it is queued for.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_softirq(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags_WQ_BH | b::wq_flags_WQ_PERCPU, 0)
    }

    fn with_flags(name: &'static CStr, flags: u32, max_active: c_int) -> Result<Self> {
        // SAFETY: the format takes one string, which is given.
        let raw = unsafe {
            b::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, max_active, name.as_char_ptr())
        };
        // INVARIANT: it was just made.
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: by the invariant the queue is valid as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is valid; nobody can reach it any more.
        unsafe { b::destroy_workqueue(self.0.as_ptr()) };
    }
}

impl OwnedQueue {
    /// Queues work for the processor `cpu`, unless that is the one that this runs on, or none that
    /// runs. Gives whether it did; work that was queued already is not queued again, and counts as
    /// queued. Any context.
    pub(crate) fn enqueue_elsewhere<W, const ID: u64>(&self, cpu: u32, work: W) -> bool
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // Neither this work nor that processor goes away meanwhile.
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

    /// Waits until the queue is empty, work queued by its own work included.
    pub(crate) fn drain(&self) {
        // SAFETY: by the invariant the queue is valid.
        unsafe { b::drain_workqueue(self.0.as_ptr()) };
    }
}

/// Whether the processor runs.
fn is_online(cpu: CpuId) -> bool {
    // SAFETY: the number is that of a processor that there may be.
    unsafe { h::cpu_online(cpu.as_u32()) }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `SharedQueue::new`, before anybody can ask for it.
    unsafe(uninit) static SHARED: Mutex<Option<Arc<Queues>>> = None;
}

/// The queues of the module.
pub(crate) struct Queues {
    /// For queue pairs. Urgent, because who polls for a completion would keep the work item that is
    /// to bring it off the processor.
    pub(crate) data: OwnedQueue,
    /// For sending what can wait a little while more of it comes.
    pub(crate) patient: OwnedQueue,
    /// For handlers of completions.
    pub(crate) completions: OwnedQueue,
    /// For connections: requests reach the consumer in the order in which they came.
    pub(crate) cm: OwnedQueue,
}

impl Queues {
    fn drain(&self) {
        self.cm.drain();
        self.patient.drain();
        self.data.drain();
        self.completions.drain();
    }
}

/// Keeps the queues of the module while it exists.
pub(crate) struct SharedQueues(Arc<Queues>);

impl SharedQueues {
    /// Makes the queues. To be called once, when the module is loaded.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let queues = Queues {
            data: OwnedQueue::new_urgent(c"rsiw")?,
            patient: OwnedQueue::new(c"rsiw-post")?,
            completions: OwnedQueue::new_softirq(c"rsiw-comp")?,
            cm: OwnedQueue::new_ordered(c"rsiw-cm")?,
        };
        let queues = Arc::new(queues, GFP_KERNEL)?;
        // SAFETY: called once, by the initialisation of the module.
        unsafe { SHARED.init() };
        *SHARED.lock() = Some(queues.clone());
        Ok(Self(queues))
    }

    /// Calls `f` with the queues, while they exist; one call at a time. Process context.
    pub(crate) fn with<R>(f: impl FnOnce(&Arc<Queues>) -> R) -> Option<R> {
        SHARED.lock().as_ref().map(f)
    }
}

impl Drop for SharedQueues {
    fn drop(&mut self) {
        drop(SHARED.lock().take());
        // What is dropped in RCU callbacks may queue work, and the other way round.
        self.0.drain();
        kernel::sync::rcu::rcu_barrier();
        self.0.drain();
    }
}
