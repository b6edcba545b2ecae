// SPDX-License-Identifier: GPL-2.0

//! The running thread, processes, and threads that serve one.
//!
//! - [`may_sleep`] and others tell what a call may do, where the core's interface does not say it:
//!   whether it may sleep, and who else wants the processor. [`NoSoftirq`] keeps softirqs off.
//! - [`Process`] and [`Identity`] remember on whose behalf something was made; [`Thread`] is the
//!   thread that did it, and tells where it runs.
//! - [`ServingThread`] is a thread of the kernel that serves a process and is a part of it, like
//!   the threads that the process makes itself: what it does counts for the limits and control
//!   groups of the process, and it ends with the process (`vhost_task`).
//!
//! # Lifetimes and context
//!
//! A serving thread has the object that it serves until it is told to end. It also stops with its
//! process: by a signal, the freezer or a debugger. A stopped thread does not end when it is told
//! to, so nobody waits for one. It asks to be reaped when it runs again. Until then it keeps the
//! module, whose code it runs, from being unloaded.
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
//! [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h),
//! [`include/linux/sched/vhost_task.h`](srctree/include/linux/sched/vhost_task.h)

use super::raw::{
    b,
    h, //
};
use crate::ffi::module::{
    InUse,
    Loaded, //
};
use crate::ffi::workqueue::OwnedQueue;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::cpu::CpuId;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    ArcBorrow,
    SpinLockIrq, //
};
use kernel::task::Task;
use kernel::types::NotThreadSafe;
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    current,
    impl_has_work,
    new_work, //
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
/// does not reclaim memory. The caller may be an RCU reader, or about to wait for something, so it
/// may not sleep. Always false in a kernel that does not count all of that.
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

/// Keeps this thread on its processor, where no softirq begins. Pending softirqs run when this is
/// dropped.
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

    /// Returns whether `cpu` is this processor, or in one package with it, and so shares a cache
    /// with it on most machines. (Modules are not told which ones share a cache.)
    pub(crate) fn is_near(&self, cpu: u32) -> bool {
        // No processor has a number that is too large for a `CpuId`.
        let Some(cpu) = CpuId::from_u32(cpu) else {
            return false;
        };
        // SAFETY: the thread stays on its processor, by the invariant; the number is that of a
        // possible processor.
        unsafe { h::cpu_is_near(cpu.as_u32()) }
    }
}

impl Drop for NoSoftirq {
    fn drop(&mut self) {
        // SAFETY: the same thread, which has disabled them once by the invariant.
        unsafe { h::local_bh_enable() };
    }
}

/// Returns the flags for allocating in a call of a process, whose memory cgroup is charged, or in a
/// call of a consumer in the kernel, where no group is charged. Process context.
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

/// A process, which may have ended. It is known by one of its threads.
pub(crate) struct Process(Thread);

impl Process {
    /// Returns the calling process. Process context.
    pub(crate) fn current() -> Self {
        Self(Thread::current())
    }

    /// Returns whether the process is about to end, or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: the reference keeps the task, and with it what all threads share.
        unsafe { h::process_is_ending(self.0 .0.as_ptr()) }
    }
}

/// A thread, which may have ended.
pub(crate) struct Thread(ARef<Task>);

/// Where a thread is at a moment.
#[derive(Clone, Copy)]
pub(crate) struct ThreadPlace {
    /// The processor that it runs on, or ran on last.
    pub(crate) cpu: u32,
    pub(crate) runs: bool,
    /// How often it has got a processor.
    pub(crate) turns: u64,
}

impl Thread {
    /// Returns the calling thread. Process context.
    pub(crate) fn current() -> Self {
        let task: &Task = current!();
        Self(task.into())
    }

    /// Returns where the thread is; `None` if it has ended. Any context.
    pub(crate) fn place(&self) -> Option<ThreadPlace> {
        let (mut runs, mut turns) = (false, 0);
        // SAFETY: the reference keeps the task, of which the function reads a few words; the other
        // pointers lead to local variables.
        let cpu = unsafe { h::thread_place(self.0.as_ptr(), &raw mut runs, &raw mut turns) };
        let cpu = u32::try_from(cpu).ok()?;
        Some(ThreadPlace { cpu, runs, turns })
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

/// The part of a module that takes back its threads.
pub(crate) trait Reaping: Send + Sync {
    /// Returns the queue on which threads are reaped. A thread may be stopped in the midst of
    /// ending, so nobody waits for this queue while the module is in use.
    fn reaping(&self) -> &OwnedQueue;

    fn loaded(&self) -> Loaded;
}

/// What a [`ServingThread`] does.
pub(crate) trait Serves: Send + Sync + 'static {
    type Reaper: Reaping;

    const NAME: &'static CStr;

    /// Returns whether there is something to do; if not, the thread sleeps until it is woken. Must
    /// not sleep.
    fn is_due(this: ArcBorrow<'_, Self>) -> bool;

    /// Does what there is to do, or a short part of that: between two calls the thread looks
    /// whether it is to end or to stop. May sleep.
    fn serve(this: ArcBorrow<'_, Self>);

    /// Called when the process was killed and its thread ends; [`Serves::serve`] is not called
    /// again. May sleep.
    fn go_on_without(this: ArcBorrow<'_, Self>);
}

/// A thread that is not reaped yet.
///
/// # Invariants
///
/// It is from `vhost_task_create` and was not stopped. It has a reference to its [`ServingThread`],
/// from [`Arc::into_raw`].
struct VhostTask(NonNull<b::vhost_task>);

// SAFETY: any thread may wake and stop the task.
unsafe impl Send for VhostTask {}

struct State<T> {
    /// The thread was made, or is being made.
    begun: bool,
    /// The object that the thread serves, until the thread is to end.
    target: Option<Arc<T>>,
    task: Option<VhostTask>,
    /// Keeps the module loaded. Dropped when the thread can no longer go on with code of the
    /// module.
    in_use: Option<InUse>,
    /// The thread has asked to be reaped.
    ends: bool,
}

/// A thread of a process. It keeps the object that it serves until it is told to end.
#[pin_data]
pub(crate) struct ServingThread<T: Serves> {
    #[pin]
    state: SpinLockIrq<State<T>>,
    #[pin]
    reaping: Work<Self>,
    reaper: Arc<T::Reaper>,
}

impl_has_work! {
    impl{T: Serves} HasWork<Self> for ServingThread<T> { self.reaping }
}

impl<T: Serves> ServingThread<T> {
    /// Whether the kernel has such threads: `CONFIG_VHOST_TASK`, which is selected by drivers that
    /// are built with the kernel.
    pub(crate) const EXIST: bool = cfg!(CONFIG_VHOST_TASK);

    /// Makes what belongs to a thread, but not yet the thread: [`ServingThread::start`] does that.
    pub(crate) fn new(reaper: &Arc<T::Reaper>) -> Result<Arc<Self>> {
        let state = State {
            begun: false,
            target: None,
            task: None,
            in_use: None,
            ends: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock_irq!(state, "rsiw::ServingThread::state"),
                reaping <- new_work!("rsiw::ServingThread::reaping"),
                reaper: reaper.clone(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Makes the thread, as a part of the calling process, for `target`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it was made before, or the module is being unloaded; `EOPNOTSUPP` if the kernel
    /// has [none](Self::EXIST); `EAGAIN` if the process may not have more threads; `ENOMEM`;
    /// `ERESTARTNOINTR` if a signal is pending, after which it can be tried again.
    pub(crate) fn start(self: &Arc<Self>, target: Arc<T>) -> Result {
        let in_use = self.reaper.loaded().hold().ok_or(EBUSY)?;
        if core::mem::replace(&mut self.state.lock().begun, true) {
            return Err(EBUSY);
        }
        let own = Arc::into_raw(self.clone());
        // SAFETY: the functions take such a pointer, which the thread has until it is reaped; the
        // name is a static string.
        let task = unsafe {
            h::vhost_task_create(
                Some(call::<T>),
                Some(killed::<T>),
                own.cast_mut().cast(),
                T::NAME.as_char_ptr(),
            )
        };
        let task = match from_err_ptr(task) {
            Ok(task) => NonNull::new(task).ok_or(ENOMEM),
            Err(e) => Err(e),
        };
        let task = task.inspect_err(|_| {
            // SAFETY: from above; there is no thread that would use it.
            drop(unsafe { Arc::from_raw(own) });
        })?;
        {
            let mut state = self.state.lock();
            state.target = Some(target);
            // INVARIANT: just made, with the reference from above.
            state.task = Some(VhostTask(task));
            state.in_use = Some(in_use);
        }
        // SAFETY: just made. It is reaped when it asks for that, which it does not before it runs.
        unsafe { h::vhost_task_start(task.as_ptr()) };
        Ok(())
    }

    /// Wakes the thread, which looks whether there is something to do. Any context.
    pub(crate) fn wake(&self) {
        if let Some(task) = &self.state.lock().task {
            // SAFETY: by the type invariant it was not stopped.
            unsafe { h::vhost_task_wake(task.0.as_ptr()) };
        }
    }

    /// Tells the thread, if there is one, to end, and waits for nobody: it may be serving at this
    /// moment, but does not begin again. May drop the last reference to the target.
    pub(crate) fn end(&self) {
        let target = self.state.lock().target.take();
        self.wake();
        drop(target);
    }

    /// Queues the reaping of the thread, which is ending, if that was not done yet. Returns whether
    /// this call did so.
    fn ask_for_reaping(self: ArcBorrow<'_, Self>) -> bool {
        let is_first = !core::mem::replace(&mut self.state.lock().ends, true);
        if is_first {
            let _ = self.reaper.reaping().enqueue::<_, 0>(Arc::from(self));
        }
        is_first
    }
}

impl<T: Serves> WorkItem for ServingThread<T> {
    type Pointer = Arc<Self>;

    /// Waits for the thread, which has asked for that. The thread is about to sleep in
    /// `vhost_task.c`, or to end; only a signal that comes at this very moment can stop it there.
    fn run(this: Arc<Self>) {
        let (task, in_use) = {
            let mut state = this.state.lock();
            (state.task.take(), state.in_use.take())
        };
        if let Some(task) = task {
            // SAFETY: by the type invariant, and `task` is gone afterwards.
            unsafe { h::vhost_task_stop(task.0.as_ptr()) };
            // SAFETY: the thread's reference, by the type invariant; the thread has ended.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(&this)) });
        }
        // The module may be unloaded from here on. Unloading waits for the queue, and so for the
        // code that follows.
        drop(in_use);
    }
}

/// The function that the thread calls over and over. Each time it is marked as about to sleep.
///
/// # Safety
///
/// `this` must be the reference of the running thread to its [`ServingThread`].
unsafe extern "C" fn call<T: Serves>(this: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    let this = unsafe { ArcBorrow::from_raw(this.cast::<ServingThread<T>>()) };
    let target = {
        let state = this.state.lock();
        match &state.target {
            Some(target) if !T::is_due(target.as_arc_borrow()) => return false,
            Some(target) => Some(target.clone()),
            None if state.ends => return false,
            None => None,
        }
    };
    // SAFETY: marks the running thread as running, which it is.
    unsafe { h::set_task_running() };
    match target {
        Some(target) => T::serve(target.as_arc_borrow()),
        // The thread is about to be stopped, and comes back here when it goes on. Reaping it now
        // would have to wait for that.
        None if current!().signal_pending() => {}
        None => {
            this.ask_for_reaping();
        }
    }
    // SAFETY: no lock is held here.
    unsafe { h::cond_resched() };
    true
}

/// The function that the thread calls before it ends without having been stopped.
///
/// # Safety
///
/// See [`call`].
unsafe extern "C" fn killed<T: Serves>(this: *mut c_void) {
    // SAFETY: by the caller's promise.
    let this = unsafe { ArcBorrow::from_raw(this.cast::<ServingThread<T>>()) };
    let target = this.state.lock().target.take();
    if let Some(target) = target {
        T::go_on_without(target.as_arc_borrow());
    }
    if this.ask_for_reaping() {
        // Nothing stops the thread any more, so unloading the module may wait for it, with the
        // queue. Whoever has waited for the process can unload the module.
        let in_use = this.state.lock().in_use.take();
        drop(in_use);
    }
}
