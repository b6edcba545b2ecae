// SPDX-License-Identifier: GPL-2.0

//! Objects with numbers. A [`Registry`] finds them by number, or by the identifier of their
//! consumer. [`Turns`] takes their first steps in the order of their numbers.
//!
//! Programs that open many connections at once count on their Requests being sent, and reported, in
//! the order of their calls: perftest numbers the queue pairs of both ends by that order. Work
//! items of different endpoints may overtake each other. So until an endpoint has sent or received
//! its Request, the work item of the [`Turns`] in which it waits acts in the place of its own. Each
//! listener has such a queue, and each device one for all endpoints that connect.
//!
//! Handshakes of TLS, which come first, go on beside each other and end in any order. So a
//! connection that is through with its handshake waits for older ones of its [`Line`] that have
//! begun theirs: the side that connects sends Requests in the order of the calls, and the other
//! side takes them in the order in which TCP connected. A connection does not wait for peers that
//! say nothing, nor longer than [`WAIT_MS`].
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::ffi::mm::NoIo;
use crate::ffi::rdma::iwcm::ConsumerId;
use crate::ffi::rsiw::Queues;
use crate::proto::drain::drain;
use core::net::{
    IpAddr,
    SocketAddr, //
};
use core::num::Saturating;
use kernel::list::{
    List,
    ListArc,
    ListItem,
    TryNewListArc, //
};
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};
use kernel::sync::{
    new_condvar,
    new_spinlock,
    new_spinlock_irq,
    Arc,
    CondVar,
    CondVarTimeoutResult,
    SpinLock,
    SpinLockIrq, //
};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// An object of a registry.
pub(super) trait Entry {
    fn number(&self) -> usize;

    /// Returns the identifier that [`Registry::introduce`] was given, if it was called.
    fn consumer(&self) -> Option<ConsumerId>;
}

#[pin_data]
pub(super) struct Registry<T> {
    /// A spin lock: all processes share it, and one that is preempted must not hold it.
    #[pin]
    inner: SpinLock<Numbered<T>>,
    #[pin]
    empty: CondVar,
}

struct Numbered<T> {
    last: usize,
    closed: bool,
    objects: RBTree<usize, Arc<T>>,
    /// How many objects are in `objects`.
    count: Saturating<usize>,
    /// The numbers of objects, by the identifiers of consumers. An identifier that a consumer has
    /// given up may belong to another consumer by now.
    consumers: RBTree<ConsumerId, usize>,
}

impl<T> Numbered<T> {
    /// Returns a number that was not used before; never zero.
    fn next_number(&mut self) -> Result<usize> {
        self.check_open()?;
        self.last = self.last.checked_add(1).ok_or(ENOSPC)?;
        Ok(self.last)
    }

    fn check_open(&self) -> Result {
        if self.closed {
            return Err(ENODEV);
        }
        Ok(())
    }
}

impl<T: Entry> Registry<T> {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(
                Numbered {
                    last: 0,
                    closed: false,
                    objects: RBTree::new(),
                    count: Saturating(0),
                    consumers: RBTree::new(),
                },
                "rsiw::cm::Registry::inner"
            ),
            empty <- new_condvar!("rsiw::cm::Registry::empty"),
        })
    }

    /// Adds the object that `make` creates for a new number. Returns `ENODEV` if the registry
    /// is closed.
    pub(super) fn add(&self, make: impl FnOnce(usize) -> Result<Arc<T>>) -> Result<Arc<T>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let number = self.inner.lock().next_number()?;
        let object = make(number)?;
        let node = node.into_node(number, object.clone());
        let mut inner = self.inner.lock();
        inner.check_open()?;
        inner.objects.insert(node);
        inner.count += 1;
        Ok(object)
    }

    pub(super) fn get(&self, number: usize) -> Option<Arc<T>> {
        self.inner.lock().objects.get(&number).cloned()
    }

    /// Forgets an object. Returns whether it was there.
    pub(super) fn remove(&self, object: &T) -> bool {
        let (number, consumer) = (object.number(), object.consumer());
        let mut inner = self.inner.lock();
        if let Some(consumer) = consumer.filter(|id| inner.consumers.get(id) == Some(&number)) {
            let _ = inner.consumers.remove(&consumer);
        }
        let old = inner.objects.remove(&number);
        if old.is_some() {
            inner.count -= 1;
        }
        if inner.objects.is_empty() {
            self.empty.notify_all();
        }
        drop(inner);
        old.is_some()
    }

    /// Lets [`Registry::find`] find the object `number` by `consumer`; the caller keeps the object
    /// meanwhile. If there is no memory for that, observers do not see the object; nothing else
    /// depends on it.
    pub(super) fn introduce(&self, number: usize, consumer: ConsumerId) {
        if let Ok(node) = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT) {
            let node = node.into_node(consumer, number);
            let old = self.inner.lock().consumers.insert(node);
            drop(old);
        }
    }

    /// Returns the object that was last introduced by this identifier.
    pub(super) fn find(&self, consumer: ConsumerId) -> Option<Arc<T>> {
        let inner = self.inner.lock();
        let number = inner.consumers.get(&consumer)?;
        inner.objects.get(number).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.inner.lock().count.0
    }

    /// Calls `f`, with no lock held, for each object that there is when this begins.
    pub(super) fn for_each(&self, f: impl Fn(&Arc<T>)) {
        let newest = self.inner.lock().last;
        let mut from = 0;
        while let Some(object) = self.first(from, newest) {
            f(&object);
            from = object.number().saturating_add(1);
        }
    }

    /// Returns the object with the least number between `from` and `to`.
    fn first(&self, from: usize, to: usize) -> Option<Arc<T>> {
        let inner = self.inner.lock();
        let cursor = inner.objects.cursor_lower_bound(&from)?;
        let (number, object) = cursor.current();
        (*number <= to).then(|| object.clone())
    }

    /// Refuses objects from now on.
    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
    }

    /// Waits until no object is left, for at most `ms` milliseconds or until a signal.
    pub(super) fn wait_empty_for(&self, ms: u32) {
        let mut inner = self.inner.lock();
        let mut left = msecs_to_jiffies(ms);
        // Bound: one look each time; the lock is free while this waits.
        while !inner.objects.is_empty() {
            match self.empty.wait_interruptible_timeout(&mut inner, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout | CondVarTimeoutResult::Signal { .. } => return,
            }
        }
    }

    pub(super) fn wait_empty(&self) {
        let mut inner = self.inner.lock();
        // Bound: one look each time; the lock is free while this waits.
        while !inner.objects.is_empty() {
            self.empty.wait(&mut inner);
        }
    }
}

/// How many objects are acted upon before others get the worker.
const BUDGET: usize = 64;
/// How many newer objects an older one may go in front of.
const OVERTAKES: usize = 64;

/// What can wait for its turn.
pub(super) trait InTurn: Entry + ListItem + TryNewListArc + Send + Sync + 'static {}

/// Objects to which something has happened, in that order, except that an older object goes in
/// front of newer ones that still wait. For two processors may report two objects in either order,
/// and something else may have happened to the newer object before.
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
    /// Connections that were accepted at one port, and come from one address. So nobody waits for a
    /// stranger at another address.
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
    /// Returns whether nobody older is in the line. If somebody is, [`InLine::become_first`] is
    /// called later.
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
