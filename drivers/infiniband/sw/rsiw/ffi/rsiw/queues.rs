// SPDX-License-Identifier: GPL-2.0

//! The workqueues of the module, and what else its devices share. Only the static lock is unsafe.
//!
//! Context: process, if a method does not say otherwise.

use crate::ffi::{
    debugfs::Directory,
    module::Loaded,
    task::serving::Reaping,
    workqueue::OwnedQueue, //
};
use core::any::Any;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};

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

/// Something that the devices of the module share. This layer does not know its type.
pub(crate) trait Common: Send + Sync {
    fn as_any(&self) -> &dyn Any;
}

/// What the devices of the module share.
pub(crate) struct Queues {
    /// For queue pairs. Urgent, because a thread that polls for a completion would keep the work
    /// item that is to bring it off the processor.
    pub(crate) data: OwnedQueue,
    /// For sending what can wait a little while more of it comes.
    pub(crate) patient: OwnedQueue,
    /// For handlers of completions.
    pub(crate) completions: OwnedQueue,
    /// For connections. Not one by one: one that waits for its process must not hold up others.
    pub(crate) cm: OwnedQueue,
    /// See [`Reaping::reaping`].
    pub(crate) reaping: OwnedQueue,
    loaded: Loaded,
    common: [Arc<dyn Common>; COMMON],
    /// Where devices have their files.
    pub(crate) debugfs: Arc<Directory>,
}

impl Queues {
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

impl Reaping for Queues {
    fn reaping(&self) -> &OwnedQueue {
        &self.reaping
    }

    fn loaded(&self) -> Loaded {
        self.loaded
    }
}

/// Keeps the queues of the module while it exists.
pub(crate) struct SharedQueues(Arc<Queues>);

impl SharedQueues {
    /// Makes the queues, with `common`, when the module is loaded, or fails with `EBUSY` if there
    /// are some already.
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
