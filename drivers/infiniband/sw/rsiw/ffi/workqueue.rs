// SPDX-License-Identifier: GPL-2.0

//! Workqueues of our own, and taking back delayed work.
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
    workqueue::{
        HasDelayedWork,
        Queue,
        Work,
        WorkItem, //
    },
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

/// Takes back delayed work of `item` that has not begun, and waits for it if it has.
///
/// Gives whether it was taken back. Sleeps; must not be called from the work itself, nor with a
/// lock held that the work takes.
pub(crate) fn cancel_delayed_sync<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID>,
{
    let ptr = Arc::as_ptr(item);
    // SAFETY: `item` is alive.
    let work = unsafe { T::raw_get_work(ptr.cast_mut()) };
    // SAFETY: `work` is alive.
    let work = unsafe { Work::raw_get(work) };
    // SAFETY: `HasDelayedWork` promises that the work is part of a delayed work.
    let dwork = unsafe { kernel::container_of!(work, b::delayed_work, work) };
    // SAFETY: the delayed work was initialised with `item`.
    let taken = unsafe { b::cancel_delayed_work_sync(dwork) };
    if taken {
        // SAFETY: queueing had turned a reference into the pending work; the work will not run, so
        // the reference is ours.
        drop(unsafe { Arc::from_raw(ptr) });
    }
    taken
}
