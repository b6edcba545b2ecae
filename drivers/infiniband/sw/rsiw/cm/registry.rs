// SPDX-License-Identifier: GPL-2.0

//! Finds objects by their number, and by their consumers' identifiers.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::ffi::rdma::iwcm::ConsumerId;
use core::num::Saturating;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        new_condvar,
        new_spinlock,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        SpinLock, //
    },
    time::msecs_to_jiffies,
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
    /// meanwhile. Without memory it is not found, which matters to nobody.
    pub(super) fn introduce(&self, number: usize, consumer: ConsumerId) {
        if let Ok(node) = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT) {
            let node = node.into_node(consumer, number);
            let old = self.inner.lock().consumers.insert(node);
            drop(old);
        }
    }

    /// Returns the object that was introduced by this identifier last.
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

    /// Takes no more objects.
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
