// SPDX-License-Identifier: GPL-2.0

//! Completion vectors: the processor on which a kernel consumer's handler is called (V-RNIC-14).
//!
//! A vector is a processor, for which this queues work where an adapter would interrupt it. The
//! handler is always called in softirq, as with an adapter: never by a thread inside a call of the
//! consumer, which may hold its locks, and never twice at a time. Processes need no vector: all
//! that their handler does is to wake them.
//!
//! Context: any; creation sleeps.
#![forbid(unsafe_code)]

use crate::ffi::{
    rdma::handle::CqHandle,
    rsiw::queues::Queues,
    task::{
        is_softirq,
        NoSoftirq, //
    },
};
use kernel::{
    impl_has_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        new_work,
        Work,
        WorkItem, //
    },
};

/// Calls the handler of a completion queue on one processor.
#[pin_data]
pub(super) struct Vector {
    handle: Arc<CqHandle>,
    queues: Arc<Queues>,
    cpu: u32,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Vector { self.work }
}

impl WorkItem for Vector {
    type Pointer = Arc<Self>;

    /// Softirq.
    fn run(this: Arc<Self>) {
        this.handle.notify();
    }
}

impl Vector {
    pub(super) fn new(handle: Arc<CqHandle>, queues: &Arc<Queues>, cpu: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                handle,
                queues: queues.clone(),
                cpu,
                work <- new_work!("rsiw::Vector::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has the handler called in softirq on the vector's processor, or on this processor if the
    /// vector's is offline; at once if this is a softirq on that processor. Several calls that are
    /// still to come become one. Any context with interrupts on, without a lock that the handler
    /// might take.
    pub(super) fn notify(this: &Arc<Self>) {
        let is_here = is_softirq();
        // Held from the look at the processor to the handler's end. In a thread the softirq runs
        // when this is dropped, and no other thread has to be woken for it.
        let _no_softirq = NoSoftirq::enter();
        let queue = &this.queues.completions;
        if queue.enqueue_elsewhere(this.cpu, this.clone()) {
            return;
        }
        if is_here {
            this.handle.notify();
        } else {
            // If that fails it is queued already, and runs later.
            let _ = queue.enqueue(this.clone());
        }
    }
}
