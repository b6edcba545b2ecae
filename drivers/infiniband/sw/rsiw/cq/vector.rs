// SPDX-License-Identifier: GPL-2.0

//! Completion vectors: the processor on which a kernel consumer's handler is called (V-RNIC-14).
//!
//! A vector is a processor; where an adapter would interrupt it, this queues work for it. Processes
//! have no use for that: what their handler does is to wake them, wherever they are.
//!
//! Context: any; creation sleeps.
#![forbid(unsafe_code)]

use crate::ffi::{
    migration::NoMigration,
    rdma::handle::CqHandle,
    workqueue::Queues, //
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

    /// Has the handler called on the vector's processor; here and now if that is this one, or none
    /// that runs. Calls that are still to come become one. Any context, without a lock that the
    /// handler might take.
    pub(super) fn notify(this: &Arc<Self>) {
        // From the look at the processor to the handler's end.
        let _here = NoMigration::enter();
        let queue = &this.queues.completions;
        if !queue.enqueue_elsewhere(this.cpu, this.clone()) {
            this.handle.notify();
        }
    }
}
