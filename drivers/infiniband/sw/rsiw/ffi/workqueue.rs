// SPDX-License-Identifier: GPL-2.0

//! Workqueues of our own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use super::{
    debugfs::Directory,
    module::Loaded,
    raw::{
        b,
        h, //
    },
};
use core::{
    any::Any,
    ptr::NonNull, //
};
use kernel::{
    cpu::CpuId,
    interrupt::local_interrupt_disable,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    workqueue::{
        Queue,
        RawWorkItem, //
    },
};

/// For work that sleeps, and may be waited for while memory is reclaimed.
const UNBOUND: u32 = b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM;

/// A workqueue that is destroyed when it is dropped, after all work on it is done.
///
/// It does not show the [`Queue`] that it is: that takes delayed work too, for whose timer
/// destroying a queue does not wait.
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

    /// Makes a queue whose work runs in softirq, on the processor that it is queued for.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_softirq(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags_WQ_BH | b::wq_flags_WQ_PERCPU, 0)
    }

    /// As [`OwnedQueue::new`], for work that nobody waits for while memory is reclaimed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_idle(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags_WQ_UNBOUND, 0)
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

    /// Queues work for the processor `cpu`, unless that is the one that this runs on, or none that
    /// runs. Returns whether it did; work that was queued already is not queued again, and counts
    /// as queued. Any context.
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

    /// Waits until the work that is queued now is done.
    pub(crate) fn flush(&self) {
        // SAFETY: by the invariant the queue is valid.
        unsafe { b::__flush_workqueue(self.0.as_ptr()) };
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
    // SAFETY: nobody looks at it before `SHARED_STATE` says that it is initialised.
    unsafe(uninit) static SHARED: Mutex<Option<Arc<Queues>>> = None;
}

/// What became of [`SHARED`]: nothing, being initialised, or initialised for good.
static SHARED_STATE: Atomic<u32> = Atomic::new(UNUSED);
const UNUSED: u32 = 0;
const BEGUN: u32 = 1;
const READY: u32 = 2;

/// How many things the devices of the module share beside the queues.
const COMMON: usize = 2;

/// What the devices of the module share beside the queues. This layer does not know its type.
pub(crate) trait Common: Send + Sync {
    /// The value, of its own type.
    fn as_any(&self) -> &dyn Any;
}

/// The queues of the module, and what else all devices use.
pub(crate) struct Queues {
    /// For queue pairs. Urgent, because who polls for a completion would keep the work item that is
    /// to bring it off the processor.
    pub(crate) data: OwnedQueue,
    /// For sending what can wait a little while more of it comes.
    pub(crate) patient: OwnedQueue,
    /// For handlers of completions.
    pub(crate) completions: OwnedQueue,
    /// For connections. Not one by one: one that waits for its process must not keep others
    /// waiting.
    pub(crate) cm: OwnedQueue,
    /// For reaping threads of processes. One of them may be stopped in the midst of ending, so
    /// nobody waits for this queue while the module is in use.
    pub(crate) reaping: OwnedQueue,
    loaded: Loaded,
    common: [Arc<dyn Common>; COMMON],
    /// Where devices have their files.
    pub(crate) debugfs: Arc<Directory>,
}

impl Queues {
    /// Shows that the module is loaded.
    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// Returns the `T` that the devices of the module share, if there is one.
    pub(crate) fn common<T: Common + 'static>(&self) -> Option<&T> {
        self.common
            .iter()
            .find_map(|one| one.as_any().downcast_ref())
    }

    fn drain(&self) {
        self.cm.drain();
        self.patient.drain();
        self.data.drain();
        self.completions.drain();
        self.reaping.drain();
    }
}

/// Keeps the queues of the module while it exists.
pub(crate) struct SharedQueues(Arc<Queues>);

impl SharedQueues {
    /// Makes the queues when the module is loaded. `common` goes with them.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are some, `ENOMEM`.
    pub(crate) fn new(loaded: Loaded, common: [Arc<dyn Common>; COMMON]) -> Result<Self> {
        match SHARED_STATE.cmpxchg(UNUSED, BEGUN, Relaxed) {
            Ok(_) => {
                // SAFETY: only one caller gets here, once, and nobody looks at it before the store.
                unsafe { SHARED.init() };
                SHARED_STATE.store(READY, Release);
            }
            Err(READY) => {}
            Err(_) => return Err(EBUSY),
        }
        // Pairs with the release above, where another call made it.
        SHARED_STATE.load(Acquire);
        let mut shared = SHARED.lock();
        if shared.is_some() {
            return Err(EBUSY);
        }
        let queues = Queues {
            data: OwnedQueue::new_urgent(c"rsiw")?,
            patient: OwnedQueue::new(c"rsiw-post")?,
            completions: OwnedQueue::new_softirq(c"rsiw-comp")?,
            cm: OwnedQueue::new(c"rsiw-cm")?,
            reaping: OwnedQueue::new_idle(c"rsiw-reap")?,
            loaded,
            common,
            debugfs: Arc::new(Directory::new(c"rsiw"), GFP_KERNEL)?,
        };
        let queues = Arc::new(queues, GFP_KERNEL)?;
        *shared = Some(queues.clone());
        Ok(Self(queues))
    }

    /// Calls `f` with the queues, while they exist; one call at a time. Process context.
    pub(crate) fn with<R>(f: impl FnOnce(&Arc<Queues>) -> R) -> Option<R> {
        if SHARED_STATE.load(Acquire) != READY {
            return None;
        }
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
