// SPDX-License-Identifier: GPL-2.0

//! Endpoints and listeners of a device, by number.
#![forbid(unsafe_code)]

use super::{
    listen::Listener,
    Endpoint, //
};
use crate::ffi::noio::NoIo;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        new_condvar,
        new_mutex,
        Arc,
        CondVar,
        Mutex, //
    },
};

/// Endpoints and listeners of a device.
#[pin_data]
pub(crate) struct Registry {
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    empty: CondVar,
}

struct Inner {
    last: usize,
    closed: bool,
    endpoints: RBTree<usize, Arc<Endpoint>>,
    listeners: RBTree<usize, Arc<Listener>>,
}

impl Inner {
    /// A number that was not used before; never zero.
    fn next_number(&mut self) -> Result<usize> {
        if self.closed {
            return Err(ENODEV);
        }
        self.last = self.last.checked_add(1).ok_or(ENOSPC)?;
        Ok(self.last)
    }
}

impl Registry {
    /// An empty registry.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner {
                    last: 0,
                    closed: false,
                    endpoints: RBTree::new(),
                    listeners: RBTree::new(),
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
        // Who removes an interface waits for the mutex, with the RTNL.
        let _scope = NoIo::enter();
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut inner = self.inner.lock();
        let number = inner.next_number()?;
        let endpoint = make(number)?;
        inner
            .endpoints
            .insert(node.into_node(number, endpoint.clone()));
        Ok(endpoint)
    }

    /// The endpoint of that number.
    pub(super) fn get(&self, number: usize) -> Option<Arc<Endpoint>> {
        self.inner.lock().endpoints.get(&number).cloned()
    }

    /// Forgets an endpoint.
    pub(super) fn remove(&self, number: usize) {
        let mut inner = self.inner.lock();
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
        let _scope = NoIo::enter();
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut inner = self.inner.lock();
        let number = inner.next_number()?;
        let listener = make(number)?;
        inner
            .listeners
            .insert(node.into_node(number, listener.clone()));
        Ok(listener)
    }

    /// Takes the listener of that number out.
    pub(super) fn remove_listener(&self, number: usize) -> Option<Arc<Listener>> {
        self.inner.lock().listeners.remove(&number)
    }

    /// Takes any listener out.
    fn pop_listener(&self) -> Option<Arc<Listener>> {
        let mut inner = self.inner.lock();
        let number = inner.listeners.keys().next().copied()?;
        inner.listeners.remove(&number)
    }

    /// Ends all connections that are being set up, or that wait for TCP to finish.
    pub(crate) fn abort_setups(&self) {
        for endpoint in self.inner.lock().endpoints.values() {
            endpoint.abort();
        }
    }

    /// Ends everything and waits until no endpoint is left.
    pub(super) fn close_all(&self) {
        self.inner.lock().closed = true;
        while let Some(listener) = self.pop_listener() {
            listener.close();
        }
        let mut inner = self.inner.lock();
        for endpoint in inner.endpoints.values() {
            endpoint.shut();
        }
        while !inner.endpoints.is_empty() {
            self.empty.wait(&mut inner);
        }
    }
}
