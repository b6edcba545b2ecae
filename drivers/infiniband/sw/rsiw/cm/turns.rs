// SPDX-License-Identifier: GPL-2.0

//! The order in which connections take their first step.
//!
//! Programs that open many connections at once count on their Requests being sent, and reported, in
//! the order of their calls: perftest numbers the queue pairs of both ends by it. Work items of
//! different endpoints may overtake each other. So until an endpoint has sent or received its
//! Request, the work item of the [`Turns`] in which it waits acts in the place of its own. Each
//! listener has such a queue, and each device one for all endpoints that connect.
//!
//! Where handshakes of TLS come first, these go on beside each other, and end in any order. So a
//! connection that is through with its handshake waits for older ones of its [`Line`] that have
//! begun theirs: who connects sends Requests in the order of the calls, and whoever was connected
//! to takes them in the order in which TCP connected. It does not wait for peers that say nothing,
//! and no longer than [`WAIT_MS`].
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::registry::Entry;
use crate::{
    ffi::{
        mm::NoIo,
        rsiw::queues::Queues, //
    },
    proto::drain::drain, //
};
use core::net::{
    IpAddr,
    SocketAddr, //
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
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        new_spinlock,
        new_spinlock_irq,
        Arc,
        SpinLock,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// How many objects are acted upon before others get the worker.
const BUDGET: usize = 64;
/// How many newer objects an older one may go in front of.
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

/// How long a connection waits for older ones, in milliseconds: much less than its peer waits for
/// the Request, or for the answer.
pub(super) const WAIT_MS: u32 = 5_000;

/// Connections among which there is an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// Connections that were accepted at one port, and come from one address. What a stranger
    /// elsewhere does makes nobody wait.
    From(IpAddr, u16),
    /// Connections that this side makes to one address and port.
    To(SocketAddr),
}

/// What can stand in a line.
pub(super) trait InLine: Entry {
    /// Called when nobody older is left in the line. Must not wait.
    fn become_first(self: Arc<Self>);
}

/// All lines of a device, each in the order of the numbers.
#[pin_data]
pub(super) struct Lines<T: InLine> {
    #[pin]
    all: SpinLock<RBTree<(Line, usize), Arc<T>>>,
}

impl<T: InLine> Lines<T> {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                all <- new_spinlock!(RBTree::new(), "rsiw::cm::Lines::all"),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts an object into a line, until the result is dropped.
    pub(super) fn join(self: &Arc<Self>, line: Line, object: Arc<T>) -> Result<Spot<T>> {
        let key = (line, object.number());
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?.into_node(key, object);
        let old = self.all.lock().insert(node);
        drop(old);
        Ok(Spot {
            lines: self.clone(),
            key,
        })
    }

    /// Returns the first one in a line.
    fn first(&self, line: Line) -> Option<Arc<T>> {
        let all = self.all.lock();
        let cursor = all.cursor_lower_bound(&(line, 0))?;
        let (key, object) = cursor.current();
        (key.0 == line).then(|| object.clone())
    }
}

/// An object's place in a line.
pub(super) struct Spot<T: InLine> {
    lines: Arc<Lines<T>>,
    key: (Line, usize),
}

impl<T: InLine> Spot<T> {
    /// Returns whether nobody older is in the line. If not, [`InLine::become_first`] is called later.
    pub(super) fn is_first(&self) -> bool {
        let (line, number) = self.key;
        self.lines
            .first(line)
            .is_none_or(|first| first.number() >= number)
    }
}

impl<T: InLine> Drop for Spot<T> {
    fn drop(&mut self) {
        let object = self.lines.all.lock().remove(&self.key);
        drop(object);
        if let Some(first) = self.lines.first(self.key.0) {
            T::become_first(first);
        }
    }
}
