// SPDX-License-Identifier: GPL-2.0

//! Threads in the kernel that serve a process and are a part of it, as those that it makes itself:
//! what they do counts for its limits and control groups, and they end with it.
//!
//! C header: [`include/linux/sched/vhost_task.h`](srctree/include/linux/sched/vhost_task.h)

use super::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        ArcBorrow,
        SpinLockIrq, //
    },
};

/// What a [`ServingThread`] does.
pub(crate) trait Serves: Send + Sync + 'static {
    /// The name of the thread.
    const NAME: &'static CStr;

    /// Returns whether there is something to do; if not, the thread sleeps until it is woken. Must
    /// not sleep.
    fn is_due(this: ArcBorrow<'_, Self>) -> bool;

    /// Does it, or a part of it that does not last long: whether the thread is to end is looked at
    /// in between. May sleep.
    fn serve(this: ArcBorrow<'_, Self>);

    /// The process was killed, and its thread ends: nothing is done any more. May sleep.
    fn is_over(this: ArcBorrow<'_, Self>);
}

/// A thread, and the object that it is for.
///
/// # Invariants
///
/// `task` is from `vhost_task_create` and was started; this is what it is stopped by, once.
/// `target` is from [`Arc::into_raw`] and stays until the thread was stopped.
struct Running<T> {
    task: NonNull<b::vhost_task>,
    target: *const T,
}

// SAFETY: any thread may wake and stop the task; `Serves` makes the target `Send` and `Sync`.
unsafe impl<T: Serves> Send for Running<T> {}

impl<T> Running<T> {
    /// Ends the thread and waits for it. Sleeps.
    fn stop(self) {
        // SAFETY: by the type invariants, and `self` is gone afterwards.
        unsafe { h::vhost_task_stop(self.task.as_ptr()) };
        // SAFETY: by the type invariants; the thread, which used it, has ended.
        drop(unsafe { Arc::from_raw(self.target) });
    }
}

/// A thread of a process, which keeps the object that it is for until it is stopped.
///
/// Where there is no thread, this may be dropped in softirq.
#[pin_data(PinnedDrop)]
pub(crate) struct ServingThread<T: Serves> {
    #[pin]
    running: SpinLockIrq<Option<Running<T>>>,
}

impl<T: Serves> ServingThread<T> {
    /// Whether the kernel has such threads: `CONFIG_VHOST_TASK`, which is selected by drivers that
    /// are built with the kernel.
    pub(crate) const EXIST: bool = cfg!(CONFIG_VHOST_TASK);

    /// There is no thread yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            running <- new_spinlock_irq!(None, "rsiw::ServingThread::running"),
        })
    }

    /// Makes the thread, as a part of the process that makes the call, for `target`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one, `EOPNOTSUPP` if the kernel has [none](Self::EXIST), and those of
    /// making a thread: `EAGAIN` if the process may not have more, `ENOMEM`.
    pub(crate) fn start(&self, target: Arc<T>) -> Result {
        let target = Arc::into_raw(target);
        // SAFETY: the functions take such a pointer, which stays until the thread was stopped; the
        // name is a string for ever.
        let task = unsafe {
            h::vhost_task_create(
                Some(call::<T>),
                Some(killed::<T>),
                target.cast_mut().cast(),
                T::NAME.as_char_ptr(),
            )
        };
        let task = match from_err_ptr(task) {
            Ok(task) => NonNull::new(task).ok_or(ENOMEM),
            Err(e) => Err(e),
        };
        let task = task.inspect_err(|_| {
            // SAFETY: from above; there is no thread that would use it.
            drop(unsafe { Arc::from_raw(target) });
        })?;
        // SAFETY: just made.
        unsafe { h::vhost_task_start(task.as_ptr()) };
        // INVARIANT: made and started above.
        let new = Running { task, target };
        let refused = {
            let mut running = self.running.lock();
            match &*running {
                Some(_) => Some(new),
                None => {
                    *running = Some(new);
                    None
                }
            }
        };
        match refused {
            Some(new) => {
                new.stop();
                Err(EBUSY)
            }
            None => Ok(()),
        }
    }

    /// Lets the thread see whether there is something to do. Any context.
    pub(crate) fn wake(&self) {
        if let Some(running) = &*self.running.lock() {
            // SAFETY: by the type invariants it was not stopped.
            unsafe { h::vhost_task_wake(running.task.as_ptr()) };
        }
    }

    /// Ends the thread, if there is one, and waits for it. Not from the thread itself. Sleeps.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.stop();
        }
    }
}

#[pinned_drop]
impl<T: Serves> PinnedDrop for ServingThread<T> {
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}

/// What the thread calls over and over. It is marked as about to sleep then.
///
/// # Safety
///
/// `target` must be from [`Arc::into_raw`] of an `Arc<T>`, and stay meanwhile.
unsafe extern "C" fn call<T: Serves>(target: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    let this = unsafe { ArcBorrow::from_raw(target.cast::<T>()) };
    if !T::is_due(this) {
        return false;
    }
    // SAFETY: says of the running thread what is true.
    unsafe { h::set_task_running() };
    T::serve(this);
    // SAFETY: no lock is held here.
    unsafe { h::cond_resched() };
    true
}

/// What the thread calls before it ends without having been stopped.
///
/// # Safety
///
/// As [`call`].
unsafe extern "C" fn killed<T: Serves>(target: *mut c_void) {
    // SAFETY: by the caller's promise.
    T::is_over(unsafe { ArcBorrow::from_raw(target.cast::<T>()) });
}
