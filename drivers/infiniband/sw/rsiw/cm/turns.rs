// SPDX-License-Identifier: GPL-2.0

//! The order in which connections take their first step.
//!
//! Programs that open many connections at once count on their Requests being sent, and reported, in
//! the order of their calls: perftest numbers the queue pairs of both ends by it. Work items of
//! different endpoints may overtake each other. So until an endpoint has sent or received its
//! Request, the work item of the [`Turns`] in which it waits acts in the place of its own. Each
//! listener has such a queue, and each device one for all endpoints that connect.
//!
//! Context: see the methods; the work runs in process context.
#![forbid(unsafe_code)]

use super::registry::Entry;
use crate::{
    ffi::{
        mm::noio::NoIo,
        rsiw::queues::Queues, //
    },
    proto::drain::drain,
};
use kernel::{
    impl_has_work,
    list::{
        List,
        ListArc,
        ListItem,
        TryNewListArc, //
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

/// Objects that are acted upon before others get the worker.
const BUDGET: usize = 64;
/// How many newer objects another one may pass at most.
const OVERTAKES: usize = 64;

/// What can wait for its turn.
pub(super) trait InTurn: Entry + ListItem + TryNewListArc + Send + Sync + 'static {}

/// Objects to which something has happened, in that order, but an older one goes in front of newer
/// ones that still wait: two processors may report two objects in either order, and something else
/// may have happened to the newer one before.
#[pin_data]
pub(super) struct Turns<T: InTurn> {
    queues: Arc<Queues>,
    /// What the work does with an object whose turn it is. Process context.
    step: fn(&Arc<T>),
    #[pin]
    waiting: SpinLockIrq<List<T>>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl{T: InTurn} HasWork<Self> for Turns<T> { self.work }
}

impl<T: InTurn> Turns<T> {
    pub(super) fn new(queues: &Arc<Queues>, step: fn(&Arc<T>)) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queues: queues.clone(),
                step,
                waiting <- new_spinlock_irq!(List::new(), "rsiw::cm::Turns::waiting"),
                work <- new_work!("rsiw::cm::Turns::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Queues an object to which something has happened, unless it waits already. Any context.
    pub(super) fn arrived(self: &Arc<Self>, object: Arc<T>) {
        self.push(object);
        self.queue();
    }

    fn push(&self, object: Arc<T>) {
        let number = object.number();
        // The lock makes what happened before visible to whoever takes the object out.
        let mut waiting = self.waiting.lock();
        let twice = match ListArc::try_from_arc(object) {
            Ok(object) => {
                let mut place = waiting.cursor_back();
                // Bound: a constant.
                for _ in 0..OVERTAKES {
                    let is_newer = place
                        .peek_prev()
                        .is_some_and(|other| other.number() > number);
                    if !is_newer || !place.move_prev() {
                        break;
                    }
                }
                place.insert(object);
                None
            }
            Err(object) => Some(object),
        };
        drop(waiting);
        drop(twice);
    }

    fn pop(&self) -> Option<Arc<T>> {
        let mut waiting = self.waiting.lock();
        waiting.pop_front().map(ListArc::into_arc)
    }

    fn queue(self: &Arc<Self>) {
        let _ = self.queues.cm.enqueue(self.clone());
    }
}

impl<T: InTurn> WorkItem for Turns<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        drain(BUDGET, || this.pop(), |object| (this.step)(&object)).or_leave_to(|| this.queue());
    }
}
