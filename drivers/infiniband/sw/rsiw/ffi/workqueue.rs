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
    /// Makes a queue whose work may run on any CPU and while memory is being reclaimed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        // SAFETY: the format takes one string, which is given.
        let raw = unsafe {
            b::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM,
                0,
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
    unsafe(uninit) static SHARED: Mutex<Option<Arc<OwnedQueue>>> = None;
}

/// The one queue of the module, while this exists.
pub(crate) struct SharedQueue(Arc<OwnedQueue>);

impl SharedQueue {
    /// Makes the queue. To be called once, when the module is loaded.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        let queue = Arc::new(OwnedQueue::new(name)?, GFP_KERNEL)?;
        // SAFETY: called once, by the initialisation of the module.
        unsafe { SHARED.init() };
        *SHARED.lock() = Some(queue.clone());
        Ok(Self(queue))
    }

    /// The queue, while it exists. Process context.
    pub(crate) fn get() -> Option<Arc<OwnedQueue>> {
        SHARED.lock().clone()
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        drop(SHARED.lock().take());
        // What is dropped in RCU callbacks may queue work, and the other way round.
        self.0.drain();
        kernel::sync::rcu::rcu_barrier();
        self.0.drain();
    }
}
