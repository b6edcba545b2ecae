// SPDX-License-Identifier: GPL-2.0

//! Workqueues of our own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use super::raw::b;
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc,
    workqueue::Queue, //
};

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
        Self::with_flags(name, 0, 0)
    }

    /// Makes a queue whose work runs one by one, in the order in which it was queued.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_ordered(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, b::wq_flags___WQ_ORDERED, 1)
    }

    fn with_flags(name: &'static CStr, flags: u32, max_active: c_int) -> Result<Self> {
        // SAFETY: the format takes one string, which is given.
        let raw = unsafe {
            b::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM | flags,
                max_active,
                name.as_char_ptr(),
            )
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
    /// Waits until the queue is empty, work queued by its own work included.
    pub(crate) fn drain(&self) {
        // SAFETY: by the invariant the queue is valid.
        unsafe { b::drain_workqueue(self.0.as_ptr()) };
    }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `SharedQueue::new`, before anybody can ask for it.
    unsafe(uninit) static SHARED: Mutex<Option<Arc<Queues>>> = None;
}

/// The queues of the module.
pub(crate) struct Queues {
    /// For queue pairs.
    pub(crate) data: OwnedQueue,
    /// For connections: requests reach the consumer in the order in which they came.
    pub(crate) cm: OwnedQueue,
}

impl Queues {
    fn drain(&self) {
        self.cm.drain();
        self.data.drain();
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
            data: OwnedQueue::new(c"rsiw")?,
            cm: OwnedQueue::new_ordered(c"rsiw-cm")?,
        };
        let queues = Arc::new(queues, GFP_KERNEL)?;
        // SAFETY: called once, by the initialisation of the module.
        unsafe { SHARED.init() };
        *SHARED.lock() = Some(queues.clone());
        Ok(Self(queues))
    }

    /// The queues, while they exist. Process context.
    pub(crate) fn get() -> Option<Arc<Queues>> {
        SHARED.lock().clone()
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
