// SPDX-License-Identifier: GPL-2.0

//! Completion vectors: the processor on which a kernel consumer's handler is called (V-RNIC-14).
//!
//! A vector is a processor; where an adapter would interrupt it, this queues work for it. The
//! handler is always called in softirq, as with an adapter: never by a thread that is in a call of
//! the consumer, and may have its locks, and never twice at a time. Processes have no use for that:
//! what their handler does is to wake them, wherever they are.
//!
//! Context: any; creation sleeps.
#![forbid(unsafe_code)]

use crate::ffi::{
    rdma::handle::CqHandle,
    rsiw::queues::Queues,
    task::context::{
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
    /// The vector `cpu` of the queue that `handle` is of.
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

    /// Has the handler called in softirq on the vector's processor, or on this one if that does not
    /// run; here and now if this is such a softirq. Calls that are still to come become one. Any
    /// context with interrupts on, without a lock that the handler might take.
    pub(super) fn notify(this: &Arc<Self>) {
        let is_here = is_softirq();
        // From the look at the processor to the handler's end. In a thread the softirq runs when
        // this ends, and no other thread has to be woken for it.
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
