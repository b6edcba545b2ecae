// SPDX-License-Identifier: GPL-2.0

//! Endpoints and listeners of a device, by number.
#![forbid(unsafe_code)]

use super::{
    listen::Listener,
    Endpoint, //
};
use crate::ffi::rdma::{
    details::Details,
    iwcm::ConsumerId, //
};
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

/// Endpoints and listeners of a device.
#[pin_data]
pub(super) struct Registry {
    /// A spin lock: all processes share it, and one that is kept off the processor must not hold
    /// it.
    #[pin]
    inner: SpinLock<Inner>,
    #[pin]
    empty: CondVar,
}

struct Inner {
    last: usize,
    closed: bool,
    endpoints: RBTree<usize, Arc<Endpoint>>,
    listeners: RBTree<usize, Arc<Listener>>,
    /// Numbers by the identifiers of consumers. One that a consumer has given up may be another's
    /// by now.
    consumers: RBTree<ConsumerId, usize>,
}

impl Inner {
    /// A number that was not used before; never zero.
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

    /// Forgets that `consumer` knows the number.
    fn forget(&mut self, number: usize, consumer: Option<ConsumerId>) {
        if let Some(consumer) = consumer {
            if self.consumers.get(&consumer) == Some(&number) {
                let _ = self.consumers.remove(&consumer);
            }
        }
    }
}

impl Registry {
    /// An empty registry.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(
                Inner {
                    last: 0,
                    closed: false,
                    endpoints: RBTree::new(),
                    listeners: RBTree::new(),
                    consumers: RBTree::new(),
                },
                "rsiw::cm::Registry::inner"
            ),
            empty <- new_condvar!("rsiw::cm::Registry::empty"),
        })
    }

    /// Adds the endpoint that `make` creates for a number.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is going away.
    pub(super) fn add(
        &self,
        make: impl FnOnce(usize) -> Result<Arc<Endpoint>>,
    ) -> Result<Arc<Endpoint>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let number = self.inner.lock().next_number()?;
        let endpoint = make(number)?;
        let node = node.into_node(number, endpoint.clone());
        let mut inner = self.inner.lock();
        inner.check_open()?;
        inner.endpoints.insert(node);
        Ok(endpoint)
    }

    /// The endpoint of that number.
    pub(super) fn get(&self, number: usize) -> Option<Arc<Endpoint>> {
        self.inner.lock().endpoints.get(&number).cloned()
    }

    /// Forgets an endpoint, and its consumer's identifier if it has one.
    pub(super) fn remove(&self, number: usize, consumer: Option<ConsumerId>) {
        let mut inner = self.inner.lock();
        inner.forget(number, consumer);
        let old = inner.endpoints.remove(&number);
        if inner.endpoints.is_empty() {
            self.empty.notify_all();
        }
        drop(inner);
        drop(old);
    }

    /// Adds the listener that `make` creates for a number.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is going away.
    pub(super) fn add_listener(
        &self,
        make: impl FnOnce(usize) -> Result<Arc<Listener>>,
    ) -> Result<Arc<Listener>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let number = self.inner.lock().next_number()?;
        let listener = make(number)?;
        let node = node.into_node(number, listener.clone());
        let mut inner = self.inner.lock();
        inner.check_open()?;
        inner.listeners.insert(node);
        Ok(listener)
    }

    /// Takes the listener of that number out.
    pub(super) fn remove_listener(&self, number: usize) -> Option<Arc<Listener>> {
        let mut inner = self.inner.lock();
        let listener = inner.listeners.remove(&number)?;
        inner.forget(number, Some(listener.consumer()));
        Some(listener)
    }

    /// Takes any listener out.
    fn pop_listener(&self) -> Option<Arc<Listener>> {
        let number = self.inner.lock().listeners.keys().next().copied()?;
        self.remove_listener(number)
    }

    /// Lets the endpoint or listener of that number, which stays meanwhile, be found by its
    /// consumer's identifier. Nobody depends on that: without memory it is not found.
    pub(super) fn introduce(&self, number: usize, consumer: ConsumerId) {
        if let Ok(node) = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT) {
            let node = node.into_node(consumer, number);
            let old = self.inner.lock().consumers.insert(node);
            drop(old);
        }
    }

    /// Calls `f` for each endpoint that there is when this begins, with no lock held.
    fn for_each(&self, f: impl Fn(&Arc<Endpoint>)) {
        let newest = self.inner.lock().last;
        let mut from = 0;
        while let Some(endpoint) = self.first(from, newest) {
            f(&endpoint);
            from = endpoint.number.saturating_add(1);
        }
    }

    /// The endpoint with the least number of those from `from` to `to`.
    fn first(&self, from: usize, to: usize) -> Option<Arc<Endpoint>> {
        let inner = self.inner.lock();
        let cursor = inner.endpoints.cursor_lower_bound(&from)?;
        let (number, endpoint) = cursor.current();
        (*number <= to).then(|| endpoint.clone())
    }

    /// The listener with the least number from `from` on.
    fn first_listener(&self, from: usize) -> Option<Arc<Listener>> {
        let inner = self.inner.lock();
        let cursor = inner.listeners.cursor_lower_bound(&from)?;
        Some(cursor.current().1.clone())
    }

    /// Tells how the endpoint or the listener of a consumer's identifier is, if there is one. Waits
    /// for nobody.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(super) fn describe(&self, id: ConsumerId, to: &mut Details<'_>) -> Result {
        let (endpoint, listener) = {
            let inner = self.inner.lock();
            let Some(number) = inner.consumers.get(&id) else {
                return Ok(());
            };
            let endpoint = inner.endpoints.get(number).cloned();
            (endpoint, inner.listeners.get(number).cloned())
        };
        if let Some(listener) = listener {
            return listener.describe(to);
        }
        let Some(endpoint) = endpoint else {
            return Ok(());
        };
        let Some(phase) = endpoint.phase_of(id) else {
            return Ok(());
        };
        to.number(c"conn", endpoint.trace_number())?;
        to.word(c"phase", phase)
    }

    /// How many listeners their consumers have not given up.
    pub(super) fn listeners(&self) -> usize {
        let inner = self.inner.lock();
        let all = inner.listeners.keys();
        all.fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Takes no more connections, neither from consumers nor from peers.
    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        let mut from = 0;
        while let Some(listener) = self.first_listener(from) {
            listener.close();
            from = listener.number().saturating_add(1);
        }
    }

    /// Ends all connections, and waits until they are over, but not longer than `ms` milliseconds.
    pub(super) fn end_all(&self, ms: u32) {
        self.for_each(Endpoint::shut);
        let mut inner = self.inner.lock();
        let mut left = msecs_to_jiffies(ms);
        // Bound: one look each time; the lock is free while this waits.
        while !inner.endpoints.is_empty() {
            match self.empty.wait_interruptible_timeout(&mut inner, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout | CondVarTimeoutResult::Signal { .. } => return,
            }
        }
    }

    /// Ends everything, forgets all listeners, and waits until no endpoint is left.
    pub(super) fn close_all(&self) {
        self.close();
        while let Some(listener) = self.pop_listener() {
            drop(listener);
        }
        self.for_each(Endpoint::shut);
        let mut inner = self.inner.lock();
        // Bound: one look each time; the lock is free while this waits.
        while !inner.endpoints.is_empty() {
            self.empty.wait(&mut inner);
        }
    }
}
