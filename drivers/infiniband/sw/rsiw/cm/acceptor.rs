// SPDX-License-Identifier: GPL-2.0

//! TCP sockets that listen, and whose listener a connection is for.
//!
//! A connection belongs to the device that owns its local address, because the RDMA CM puts its
//! identifier there. The interface by which packets come in does not matter.
//!
//! A consumer that listens on the wildcard has a listener on each device. Those in one network
//! namespace, or in one VRF of it, share a socket. A listener at an address has a socket of its own;
//! its device may have lost that address since.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    calls::mapped_port,
    listener::Listener,
    passive, //
};
use crate::{
    device::Device,
    ffi::{
        log::pr_ratelimited,
        mm::noio::NoIo,
        net::{
            netdev::NetDevice,
            ListenHandler,
            ListenSocket,
            TcpSocket, //
        },
        rdma::iwcm::{
            CallId,
            LocalOwner, //
        },
        rsiw::queues::{
            Common,
            Queues, //
        },
        time::timer::{
            Expires,
            Timer, //
        },
    },
    proto::drain::drain,
};
use core::{
    any::Any,
    net::SocketAddr, //
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
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
/// Least length of TCP's queue. Connections leave it at once, so that it says nothing about the
/// consumer; but a burst that it cannot take loses a second.
const TCP_BACKLOG: u32 = 128;
/// Milliseconds until what could not be taken from TCP is tried again.
const RETRY_MS: u32 = 100;

/// What the listeners of one consumer on the wildcard have in common. The RDMA CM gives a port on
/// the wildcard to one consumer in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: u64,
    /// Index of the VRF's interface; zero is none.
    vrf: i32,
    is_ipv6: bool,
    /// The consumer's.
    port: u16,
    /// That of TCP.
    tcp_port: u16,
}

/// The sockets of those who listen on the wildcard.
#[pin_data]
pub(crate) struct Acceptors {
    /// Held while listeners join a socket and leave it, and so while it is made and closed.
    #[pin]
    shared: Mutex<RBTree<Key, Arc<Acceptor>>>,
}

impl Common for Acceptors {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Acceptors {
    /// Nobody listens yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn none() -> Result<Arc<dyn Common>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                shared <- new_mutex!(RBTree::new(), "rsiw::cm::Acceptors::shared"),
            }),
            GFP_KERNEL,
        )?;
        Ok(this)
    }
}

/// Where somebody wants to listen.
pub(super) struct Place<'a> {
    id: CallId<'a>,
    netdev: &'a NetDevice,
    /// The consumer's.
    addr: SocketAddr,
    /// The port mapper's, if it chose one.
    mapped_port: Option<u16>,
    backlog: u32,
}

impl<'a> Place<'a> {
    /// The address `addr`, of whose port the port mapper may have made another.
    pub(super) fn new(
        dev: &Device,
        id: CallId<'a>,
        netdev: &'a NetDevice,
        addr: SocketAddr,
        backlog: u32,
    ) -> Self {
        Self {
            id,
            netdev,
            addr,
            mapped_port: mapped_port(dev, &id, netdev),
            backlog: backlog.max(TCP_BACKLOG),
        }
    }

    /// The key of the socket, if it is one that is shared.
    fn key(&self) -> Option<Key> {
        self.addr.ip().is_unspecified().then(|| Key {
            namespace: self.netdev.namespace(),
            vrf: self.netdev.vrf(),
            is_ipv6: self.addr.is_ipv6(),
            port: self.addr.port(),
            tcp_port: self.mapped_port.unwrap_or(self.addr.port()),
        })
    }

    /// Makes the socket, which is bound.
    fn socket(&self) -> Result<Arc<TcpSocket>> {
        let mut addr = self.addr;
        let sock = TcpSocket::new(self.netdev, &addr)?;
        if addr.is_ipv6() && self.id.afonly() {
            sock.set_v6only()?;
        }
        if let Some(tos) = self.id.tos() {
            sock.set_tos(tos);
        }
        if let Some(port) = self.mapped_port {
            addr.set_port(port);
            sock.bind_beside(&addr)?;
        } else {
            sock.bind(&addr)?;
        }
        Ok(sock)
    }
}

/// A socket that listens.
#[pin_data]
pub(super) struct Acceptor {
    queues: Arc<Queues>,
    /// By which others find it.
    key: Option<Key>,
    /// Between the consumer and the work that takes connections from TCP.
    #[pin]
    open: Mutex<Option<Open>>,
    #[pin]
    work: Work<Self>,
    #[pin]
    timer: Timer<Self>,
}

struct Open {
    sock: ListenSocket<Acceptor>,
    listeners: KVec<Arc<Listener>>,
}

impl_has_work! {
    impl HasWork<Self> for Acceptor { self.work }
}

/// Lets `listener` have the connections to a place.
pub(super) fn join(listener: &Arc<Listener>, mut place: Place<'_>) -> Result<Arc<Acceptor>> {
    match (Acceptor::at(&place, listener), place.mapped_port) {
        (Err(e), Some(port)) if e == EADDRINUSE => {
            let dev = listener.endpoints.dev.handle();
            pr_ratelimited!("{dev}: port mapper: somebody listens at port {port}\n");
            place.mapped_port = None;
            Acceptor::at(&place, listener)
        }
        (other, _) => other,
    }
}

impl Acceptor {
    /// Finds or makes the socket for a place, and lets `listener` have its connections.
    fn at(place: &Place<'_>, listener: &Arc<Listener>) -> Result<Arc<Self>> {
        let queues = listener.endpoints.dev.queues();
        let Some(key) = place.key() else {
            return Self::new(place, queues, None, listener);
        };
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut shared = queues.common::<Acceptors>().ok_or(EINVAL)?.shared.lock();
        if let Some(this) = shared.get(&key) {
            let mut slot = this.open.lock();
            let open = Option::as_mut(&mut *slot).ok_or(EINVAL)?;
            open.listeners = joined(&open.listeners, listener)?;
            return Ok(this.clone());
        }
        let this = Self::new(place, queues, Some(key), listener)?;
        shared.insert(node.into_node(key, this.clone()));
        Ok(this)
    }

    /// Makes a socket that listens, and is shared if it has a key.
    fn new(
        place: &Place<'_>,
        queues: &Arc<Queues>,
        key: Option<Key>,
        listener: &Arc<Listener>,
    ) -> Result<Arc<Self>> {
        let sock = place.socket()?;
        let listeners = joined(&[], listener)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                queues: queues.clone(),
                key,
                open <- new_mutex!(None, "rsiw::cm::Acceptor::open"),
                work <- new_work!("rsiw::cm::Acceptor::work"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let sock = ListenSocket::listen(sock, this.clone(), place.backlog)?;
        *this.open.lock() = Some(Open { sock, listeners });
        // Connections may have come before the socket was in its place.
        this.queue();
        Ok(this)
    }

    /// `listener` is to get no more connections. Closes the socket when nobody is left, so that its
    /// port is free.
    pub(super) fn leave(self: &Arc<Self>, listener: &Arc<Listener>) {
        let Some(key) = &self.key else {
            return self.remove(listener, || {});
        };
        if let Some(all) = self.queues.common::<Acceptors>() {
            let mut shared = all.shared.lock();
            self.remove(listener, || {
                let _ = shared.remove(key);
            });
        }
    }

    /// Takes `listener` out; if it was the last one calls `forget` and closes the socket.
    fn remove(self: &Arc<Self>, listener: &Arc<Listener>, forget: impl FnOnce()) {
        let mut slot = self.open.lock();
        let Some(open) = &mut *slot else {
            return;
        };
        let mut others = open.listeners.iter();
        if let Some(index) = others.position(|other| Arc::ptr_eq(other, listener)) {
            let _ = open.listeners.remove(index);
        }
        if !open.listeners.is_empty() {
            return;
        }
        let last = slot.take();
        drop(slot);
        forget();
        // Without a socket nobody starts it.
        Timer::stop(self);
        drop(last);
    }

    /// Takes a connection from TCP, and finds out whose it is. Under the mutex, so that who closes
    /// the socket gets the last reference. What there is no memory for stays in TCP's queue, which
    /// does not tell of it again.
    fn next(self: &Arc<Self>) -> Option<(Arc<TcpSocket>, Option<Arc<Listener>>)> {
        let open = self.open.lock();
        let open = open.as_ref()?;
        let sock = open.sock.accept().unwrap_or_else(|_| {
            Timer::start(self, RETRY_MS);
            None
        })?;
        let listener = owner(&sock, &open.listeners);
        if let (None, Some(any)) = (&listener, open.listeners.first()) {
            let dev = any.endpoints.dev.handle();
            pr_ratelimited!("{dev}: a connection to an address of no device that is listened on\n");
        }
        Some((sock, listener))
    }

    /// Has connections taken from TCP. Any context.
    fn queue(self: &Arc<Self>) {
        let _ = self.queues.cm.enqueue(self.clone());
    }
}

/// The listeners `all`, and behind them `one`.
fn joined(all: &[Arc<Listener>], one: &Arc<Listener>) -> Result<KVec<Arc<Listener>>> {
    let len = all.len().checked_add(1).ok_or(ENOMEM)?;
    let mut joined = KVec::with_capacity(len, GFP_KERNEL_ACCOUNT)?;
    for listener in Iterator::chain(all.iter(), [one]) {
        joined
            .push_within_capacity(listener.clone())
            .map_err(|_| ENOMEM)?;
    }
    Ok(joined)
}

/// The listener of the device that owns the local address of a connection. They are in the order in
/// which the devices were registered.
fn owner(sock: &TcpSocket, listeners: &[Arc<Listener>]) -> Option<Arc<Listener>> {
    let owner = LocalOwner::of(sock)?;
    let suits = |netdev: ARef<NetDevice>| owner.suits(&netdev);
    let mut all = listeners.iter();
    all.find(|listener| listener.endpoints.dev.netdev().is_some_and(suits))
        .cloned()
}

impl WorkItem for Acceptor {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        drain(
            ACCEPT_BUDGET,
            || this.next(),
            |(sock, listener)| match listener {
                // An error closes the socket.
                Some(listener) => drop(passive::create(&listener, sock)),
                None => sock.abort(),
            },
        )
        .or_leave_to(|| this.queue());
    }
}

impl Expires for Acceptor {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.queue();
    }
}

impl ListenHandler for Acceptor {
    fn incoming(this: ArcBorrow<'_, Self>) {
        let this: Arc<Self> = this.into();
        this.queue();
    }
}
