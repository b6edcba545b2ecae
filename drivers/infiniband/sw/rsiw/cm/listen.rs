// SPDX-License-Identifier: GPL-2.0

//! Listeners.
#![forbid(unsafe_code)]

use super::{
    not_in_namespace,
    passive, //
};
use crate::{
    device::Device,
    ffi::{
        iwcm::{
            CallId,
            CmId,
            Event, //
        },
        net::{
            ListenCallbacks,
            ListenHandler,
            ListenSocket,
            TcpSocket, //
        },
        noio::NoIo,
        timer::{
            Expires,
            Timer, //
        },
    },
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        aref::ARef,
        new_mutex,
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// Connections taken from TCP before others get the worker.
const ACCEPT_BUDGET: usize = 64;
/// Least and most connections that may have said nothing yet.
const HALF_OPEN: (usize, usize) = (128, 1024);
/// Least length of TCP's queue. Connections leave it at once, so that it says nothing about the
/// consumer; but a burst that it cannot take loses a second.
const TCP_BACKLOG: u32 = 128;
/// Milliseconds until what could not be taken from TCP is tried again.
const RETRY_MS: u32 = 100;

/// A listener of a consumer.
#[pin_data]
pub(crate) struct Listener {
    pub(super) dev: Arc<Device>,
    number: usize,
    cm_id: ARef<CmId>,
    #[pin]
    state: Mutex<Open>,
    #[pin]
    work: Work<Self>,
    #[pin]
    timer: Timer<Self>,
}

struct Open {
    sock: Option<ListenSocket<Listener>>,
    callbacks: Option<ListenCallbacks<Listener>>,
    /// Numbers of the endpoints without a Request, and zeros. If there is no room for another
    /// one, the oldest goes (T-42).
    half_open: KVec<usize>,
}

impl_has_work! {
    impl HasWork<Self> for Listener { self.work }
}

/// See [`super::create_listen`].
pub(super) fn create(dev: &Arc<Device>, id: CallId<'_>, backlog: u32) -> Result {
    let addr = id.local_addr().ok_or(EAFNOSUPPORT)?;
    let netdev = dev.netdev().ok_or(ENODEV)?;
    // A consumer that listens on the wildcard, or on a loopback address, listens on the devices of
    // all namespaces, also on those that others add later. Nobody can reach it through those of
    // others, where the port may be somebody else's.
    let ip = addr.ip();
    let on_all = ip.is_unspecified() || ip.is_loopback();
    if !id.sees(&netdev) {
        return if on_all {
            Ok(())
        } else {
            Err(not_in_namespace(dev))
        };
    }
    // What comes to a loopback address is for the device over the loopback interface.
    if ip.is_loopback() && !netdev.is_loopback() {
        return Ok(());
    }
    let sock = ListenSocket::new(&netdev, &addr)?;
    if addr.is_ipv6() && id.afonly() {
        sock.set_v6only()?;
    }
    // A consumer that listens on the wildcard does so on every RDMA device.
    if ip.is_unspecified() {
        sock.bind_to_device(&netdev)?;
    }
    if let Some(tos) = id.tos() {
        sock.set_tos(tos);
    }
    sock.bind(&addr)?;

    let (least, most) = HALF_OPEN;
    let half_open = usize::try_from(backlog)
        .unwrap_or(most)
        .max(least)
        .min(most);
    let open = Open {
        sock: None,
        callbacks: None,
        half_open: KVec::from_elem(0, half_open, GFP_KERNEL_ACCOUNT)?,
    };
    let this = dev.cm.add_listener(|number| {
        id.set_provider_data(number);
        Arc::pin_init(
            pin_init!(Listener {
                dev: dev.clone(),
                number,
                cm_id: id.into(),
                state <- new_mutex!(open, "rsiw::cm::Listener::state"),
                work <- new_work!("rsiw::cm::Listener::work"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    })?;
    let result = this.open(sock, backlog);
    if result.is_err() {
        dev.cm.remove_listener(this.number);
        this.close();
    }
    result
}

/// See [`super::destroy_listen`].
pub(super) fn destroy(dev: &Device, id: &CmId) -> Result {
    if let Some(this) = dev.cm.remove_listener(id.provider_data()) {
        this.close();
    }
    Ok(())
}

impl Listener {
    fn open(self: &Arc<Self>, sock: ListenSocket<Self>, backlog: u32) -> Result {
        let mut open = self.state.lock();
        open.callbacks = Some(ListenCallbacks::install(&sock, self.clone())?);
        sock.listen(backlog.max(TCP_BACKLOG))?;
        open.sock = Some(sock);
        drop(open);
        // Connections may have come before the socket was in its place.
        let _ = self.dev.cm_queue().enqueue(self.clone());
        Ok(())
    }

    /// Closes the socket, so that its port is free, and ends the connections without a Request.
    pub(super) fn close(self: &Arc<Self>) {
        let mut open = self.state.lock();
        let sock = open.sock.take();
        let callbacks = open.callbacks.take();
        let half_open = core::mem::replace(&mut open.half_open, KVec::new());
        drop(open);
        // Without a socket nobody starts it.
        Timer::stop(self);
        drop(callbacks);
        drop(sock);
        for number in half_open {
            self.end(number);
        }
    }

    /// Hands an event to the consumer. No lock may be held.
    pub(super) fn deliver(&self, event: &Event<'_>) -> Result {
        if self.state.lock().sock.is_none() {
            return Err(ECONNABORTED);
        }
        self.cm_id.deliver(event)
    }

    /// An endpoint has got its Request, or is gone.
    pub(super) fn forget(&self, number: usize) {
        let mut open = self.state.lock();
        if let Some(place) = open.half_open.iter_mut().find(|n| **n == number) {
            *place = 0;
        }
    }

    /// Takes a connection from TCP. Under the mutex, so that `close` gets the last reference. What
    /// there is no memory for stays in TCP's queue, which does not tell of it again.
    fn next(self: &Arc<Self>) -> Option<Arc<TcpSocket>> {
        let open = self.state.lock();
        open.sock.as_ref()?.accept().unwrap_or_else(|_| {
            Timer::start(self, RETRY_MS);
            None
        })
    }

    /// Counts a connection that has said nothing yet, and ends the oldest one if there are too
    /// many.
    pub(super) fn admit(&self, number: usize) -> Result {
        let mut open = self.state.lock();
        if open.sock.is_none() {
            return Err(ECONNABORTED);
        }
        // Numbers grow, so that the least is a free place or the oldest.
        let place = open.half_open.iter_mut().min().ok_or(ENOSPC)?;
        let oldest = core::mem::replace(place, number);
        drop(open);
        self.end(oldest);
        Ok(())
    }

    /// Ends a connection without a Request; zero is none.
    fn end(&self, number: usize) {
        if let Some(endpoint) = self.dev.cm.get(number) {
            endpoint.shut();
        }
    }
}

impl WorkItem for Listener {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        for _ in 0..ACCEPT_BUDGET {
            let Some(sock) = this.next() else {
                return;
            };
            // An error closes the socket.
            let _ = passive::create(&this, sock);
        }
        let dev = this.dev.clone();
        let _ = dev.cm_queue().enqueue(this);
    }
}

impl Expires for Listener {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        let dev = this.dev.clone();
        let _ = dev.cm_queue().enqueue(this);
    }
}

impl ListenHandler for Listener {
    fn incoming(this: ArcBorrow<'_, Self>) {
        let this: Arc<Self> = this.into();
        let dev = this.dev.clone();
        let _ = dev.cm_queue().enqueue(this);
    }
}
