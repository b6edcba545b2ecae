// SPDX-License-Identifier: GPL-2.0

//! Says where the consumer of a queue pair is, for Receive Flow Steering (RFS).
//!
//! Payload is put into the consumer's memory in softirq, on whichever processor that runs, and the
//! consumer then reads it on its own processor. With RFS the softirq runs where the reader of a
//! socket is, and the network stack learns from `recvmsg` where that is. Consumers of verbs do not
//! call `recvmsg`, and those who poll call nothing at all. So now and then, when something arrives,
//! this code finds out where the consumer is, and makes a softirq there tell the stack.
//!
//! The place of a consumer is the processor on which its doorbell rang last, if that was a moment
//! ago. Otherwise it is the processor of the thread that made the queue pair, as long as that
//! thread runs now and then; if it does not, other threads do its work, and the place is unknown.
//! For a consumer in the kernel it is the processor that handles its completions.
//!
//! If RFS is off, all of this is one short call for each arrival and each doorbell.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::ffi::net::{
    Flow,
    TcpSocket, //
};
use crate::ffi::rsiw::Queues;
use crate::ffi::time;
use crate::qp::identity::QpIdentity;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// For how long the last doorbell tells where a consumer is, in milliseconds.
const DOORBELL_HOLDS_MS: u64 = 100;

/// What a stream has said of its consumer. It refers to nothing that must not be freed in softirq.
#[pin_data]
pub(in crate::qp) struct Steering {
    /// When the consumer was last looked for, in milliseconds; once in a millisecond is enough.
    looked_at: Atomic<u64>,
    /// When the doorbell rang last.
    rang_at: Atomic<u64>,
    /// How often the thread had got a processor at the last look.
    turns: Atomic<u64>,
    /// The hash of the flow, for the work.
    hash: Atomic<u32>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Steering { self.work }
}

impl Steering {
    pub(in crate::qp) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                looked_at: Atomic::new(0),
                rang_at: Atomic::new(0),
                turns: Atomic::new(0),
                hash: Atomic::new(0),
                work <- new_work!("rsiw::Steering::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Takes note that the doorbell rings, on the processor of the caller.
    #[inline(always)]
    pub(in crate::qp) fn rings(&self, sock: &TcpSocket) {
        if let Some(flow) = Flow::of(sock) {
            self.rings_for(flow);
        }
    }

    #[inline(never)]
    fn rings_for(&self, flow: Flow) {
        let ms = time::now_ms();
        if self.rang_at.load(Relaxed) != ms {
            self.rang_at.store(ms, Relaxed);
            flow.record_here();
        }
    }

    /// Takes note that something has arrived for `sock`, which is the queue pair's.
    #[inline(always)]
    pub(in crate::qp) fn arrived(self: &Arc<Self>, sock: &TcpSocket, id: &QpIdentity) {
        if let Some(flow) = Flow::of(sock) {
            self.arrived_for(flow, id);
        }
    }

    #[inline(never)]
    fn arrived_for(self: &Arc<Self>, flow: Flow, id: &QpIdentity) {
        let ms = time::now_ms();
        if self.looked_at.load(Relaxed) == ms {
            return;
        }
        self.looked_at.store(ms, Relaxed);
        if ms.saturating_sub(self.rang_at.load(Relaxed)) < DOORBELL_HOLDS_MS {
            return;
        }
        if let Some(cpu) = self.processor(id) {
            self.hash.store(flow.hash(), Relaxed);
            self.say(id.dev.queues(), flow, cpu);
        }
    }

    /// Returns the processor that the consumer is on, if that is known.
    fn processor(&self, id: &QpIdentity) -> Option<u32> {
        let Some(thread) = id.consumer.thread() else {
            return id.recv_cq.processor();
        };
        let place = thread.place()?;
        let before = self.turns.load(Relaxed);
        self.turns.store(place.turns, Relaxed);
        (place.runs || place.turns != before).then_some(place.cpu)
    }

    /// Says that `flow` is read on processor `cpu`.
    fn say(self: &Arc<Self>, queues: &Queues, flow: Flow, cpu: u32) {
        if !queues.softirq.enqueue_elsewhere(cpu, self.clone()) {
            flow.record_here();
        }
    }
}

impl WorkItem for Steering {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Some(flow) = Flow::from_hash(this.hash.load(Relaxed)) {
            flow.record_here();
        }
    }
}
