// SPDX-License-Identifier: GPL-2.0

//! The order in which connections take their first step.
//!
//! Programs that connect many times at once count on their Requests leaving, and being told, in the
//! order of their calls: perftest numbers the queue pairs of both ends by it. Work items of
//! different endpoints overtake each other. So until an endpoint has sent or received its Request,
//! one work item acts in the place of its own: that of its listener, or [`Initiators`].
//!
//! Context: see the methods; the work runs in process context.
#![forbid(unsafe_code)]

use super::{
    listen::Listener,
    Endpoint, //
};
use crate::{
    ffi::{
        mm::noio::NoIo,
        rsiw::queues::Queues, //
    },
    proto::drain::{
        drain,
        Drained, //
    },
};
use kernel::{
    impl_has_work,
    list::{
        List,
        ListArc, //
    },
    new_work,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// Endpoints that are looked at before others get the worker.
const BUDGET: usize = 64;
/// Endpoints at most that another one passes, to be in front of newer ones.
const OVERTAKES: usize = 64;

/// Who acts in the place of an endpoint's work.
#[derive(Clone)]
pub(super) enum Deputy {
    /// The side that was connected to: its listener.
    Listener(Arc<Listener>),
    /// The side that connects: the device's [`Initiators`].
    Initiators,
}

/// Endpoints to which something has happened: in the order in which it did, but for those that are
/// older than others that still wait. Two processors may tell of two connections in either order,
/// and something else may have happened to the newer one before.
#[pin_data]
pub(super) struct Turns {
    #[pin]
    endpoints: SpinLockIrq<List<Endpoint>>,
}

impl Turns {
    /// An empty queue.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            endpoints <- new_spinlock_irq!(List::new(), "rsiw::cm::Turns::endpoints"),
        })
    }

    /// Puts an endpoint behind the older ones, unless it waits already. Any context.
    pub(super) fn push(&self, endpoint: Arc<Endpoint>) {
        let number = endpoint.number;
        // What happened before is seen by whoever takes the endpoint out: the lock orders that.
        let mut endpoints = self.endpoints.lock();
        let waiting = match ListArc::try_from_arc(endpoint) {
            Ok(endpoint) => {
                let mut place = endpoints.cursor_back();
                // Bound: a constant.
                for _ in 0..OVERTAKES {
                    let is_newer = place.peek_prev().is_some_and(|other| other.number > number);
                    if !is_newer || !place.move_prev() {
                        break;
                    }
                }
                place.insert(endpoint);
                None
            }
            Err(endpoint) => Some(endpoint),
        };
        drop(endpoints);
        drop(waiting);
    }

    /// Calls `act` with one endpoint after the other, [`BUDGET`] at most. Process context.
    pub(super) fn take(&self, act: impl Fn(&Arc<Endpoint>)) -> Drained {
        drain(BUDGET, || self.pop(), |endpoint| act(&endpoint))
    }

    /// Takes the endpoint whose turn it is.
    fn pop(&self) -> Option<Arc<Endpoint>> {
        let mut endpoints = self.endpoints.lock();
        endpoints.pop_front().map(ListArc::into_arc)
    }
}

/// The endpoints of a device that connect and have not sent their Request.
#[pin_data]
pub(super) struct Initiators {
    queues: Arc<Queues>,
    #[pin]
    turns: Turns,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Initiators { self.work }
}

impl Initiators {
    /// For a device on which nothing connects yet.
    pub(super) fn new(queues: &Arc<Queues>) -> Result<Arc<Self>> {
        let queues = queues.clone();
        Arc::pin_init(
            pin_init!(Self {
                queues,
                turns <- Turns::new(),
                work <- new_work!("rsiw::cm::Initiators::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Something has happened to an endpoint that connects. Any context.
    pub(super) fn arrived(self: &Arc<Self>, endpoint: Arc<Endpoint>) {
        self.turns.push(endpoint);
        self.queue();
    }

    fn queue(self: &Arc<Self>) {
        let _ = self.queues.cm.enqueue(self.clone());
    }
}

impl WorkItem for Initiators {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        let drained = this.turns.take(Endpoint::request);
        drained.or_leave_to(|| this.queue());
    }
}
