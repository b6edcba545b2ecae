// SPDX-License-Identifier: GPL-2.0

//! The workqueues of the module, and where its devices have their files.
//!
//! Context: process, if a method does not say otherwise.

use crate::ffi::{
    debugfs::Directory,
    module::Loaded,
    task::Reaping,
    workqueue::OwnedQueue, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What all devices of the module use.
pub(crate) struct Queues {
    /// For queue pairs. It is urgent, as a thread that polls for a completion would otherwise keep
    /// the processor, and with it the work item that is to bring the completion.
    pub(crate) data: OwnedQueue,
    /// For sending what can wait a little while more of it comes.
    pub(crate) patient: OwnedQueue,
    /// For handlers of completions, and what else is due on one processor.
    pub(crate) softirq: OwnedQueue,
    /// For connections. Their work runs side by side, so that one which waits for its process does
    /// not hold up others.
    pub(crate) cm: OwnedQueue,
    /// See [`Reaping::reaping`].
    pub(crate) reaping: OwnedQueue,
    loaded: Loaded,
    /// Where devices have their files.
    pub(crate) debugfs: Arc<Directory>,
}

impl Queues {
    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded
    }

    fn drain(&self) {
        self.cm.drain();
        self.patient.drain();
        self.data.drain();
        self.softirq.drain();
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

/// Keeps the queues of the module. Dropping this waits for what is queued.
pub(crate) struct SharedQueues(Arc<Queues>);

impl SharedQueues {
    /// Makes the queues, when the module is loaded, or returns `ENOMEM`.
    pub(crate) fn new(loaded: Loaded) -> Result<Self> {
        let queues = Queues {
            data: OwnedQueue::new_urgent(c"rsiw")?,
            patient: OwnedQueue::new_adjustable(c"rsiw-post")?,
            softirq: OwnedQueue::new_softirq(c"rsiw-comp")?,
            cm: OwnedQueue::new(c"rsiw-cm")?,
            reaping: OwnedQueue::new_idle(c"rsiw-reap")?,
            loaded,
            debugfs: Arc::new(Directory::new(c"rsiw"), GFP_KERNEL)?,
        };
        Ok(Self(Arc::new(queues, GFP_KERNEL)?))
    }

    pub(crate) fn get(&self) -> &Arc<Queues> {
        &self.0
    }
}

impl Drop for SharedQueues {
    fn drop(&mut self) {
        // What is dropped in RCU callbacks may queue work, and the other way round.
        self.0.drain();
        kernel::sync::rcu::rcu_barrier();
        self.0.drain();
    }
}
