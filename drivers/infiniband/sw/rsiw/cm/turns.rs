// SPDX-License-Identifier: GPL-2.0

//! The order in which connections take their first step.
//!
//! Programs that connect many times at once count on their Requests leaving, and being told, in the
//! order of their calls: perftest numbers the queue pairs of both ends by it. Work items of
//! different endpoints overtake each other. So until an endpoint has sent or received its Request,
//! one work item acts in the place of its own, that of the [`Turns`] in which it waits: those of its
//! listener, or those of all endpoints of the device that connect.
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
/// Objects at most that another one passes, to be in front of newer ones.
const OVERTAKES: usize = 64;

/// What can wait for its turn.
pub(super) trait InTurn: Entry + ListItem + TryNewListArc + Send + Sync + 'static {}

/// Objects to which something has happened: in the order in which it did, but for those that are
/// older than others that still wait. Two processors may tell of two objects in either order, and
/// something else may have happened to the newer one before.
#[pin_data]
pub(super) struct Turns<T: InTurn> {
    queues: Arc<Queues>,
    /// What the work does with an object whose turn it is.
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
    /// Makes a queue in which nothing waits. Its work calls `step`, in process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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

    /// Puts an object to which something has happened behind the older ones, unless it waits
    /// already. Any context.
    pub(super) fn arrived(self: &Arc<Self>, object: Arc<T>) {
        self.push(object);
        self.queue();
    }

    fn push(&self, object: Arc<T>) {
        let number = object.number();
        // What happened before is seen by whoever takes the object out: the lock orders that.
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

    /// Takes out the object whose turn it is.
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
