// SPDX-License-Identifier: GPL-2.0

//! Listening TCP sockets, consumers' calls that start and stop listening, and the choice of the
//! listener that gets a connection.
//!
//! A connection belongs to the device that owns its local address, because the RDMA CM puts its
//! identifier there. The interface by which packets come in does not matter, unless the device is
//! bound to its interface ([`Ways::Interface`]): packets from other interfaces do not get to such a
//! device.
//!
//! A consumer that listens on the wildcard has a listener on each device. The listeners in one
//! network namespace, or in one VRF of it, share a socket. A listener at an address has a socket of
//! its own. Its device may lose the address later.
//!
//! A listener of a bound device has a socket of its own that is bound to the interface, and gets
//! its connections from this socket. On the wildcard it joins the shared socket as well: the shared
//! socket holds the port, and TCP prefers the bound socket for what comes by the interface.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::calls;
use super::endpoint::Endpoints;
use super::listener::{
    Addressee,
    Listener, //
};
use super::registry::{
    Entry,
    Registry,
    Turns, //
};
use super::request;
use crate::device::Device;
use crate::ffi::mm::{
    NoIo,
    Payer, //
};
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::{
    ListenHandler,
    ListenSocket,
    TcpSocket,
    Ways, //
};
use crate::ffi::rdma::iwcm::{
    CallId,
    CmId,
    ConsumerId,
    LocalOwner,
    Mapping, //
};
use crate::ffi::rsiw::Queues;
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::log::Author;
use crate::num::Length;
use crate::proto::drain::drain;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};
use kernel::sync::aref::ARef;
use kernel::sync::{
    new_mutex,
    new_spinlock,
    Arc,
    ArcBorrow,
    Mutex,
    SpinLock, //
};
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// How many connections are taken from TCP before others get the worker.
const ACCEPT_BUDGET: usize = 64;
/// Least length of TCP's queue of new connections, whatever the consumer asks for. Connections
/// leave the queue at once, but a burst that overflows it loses a second to TCP's retransmission.
const TCP_BACKLOG: u32 = 128;
/// Milliseconds until the next try, if a connection could not be taken from TCP.
const RETRY_MS: u32 = 100;

/// What the wildcard listeners of one consumer have in common. The RDMA CM gives a wildcard port of
/// a port space to one consumer per namespace. TCP has one space of ports only, so consumers in
/// different port spaces must not share a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WildcardKey {
    namespace: u64,
    /// Index of the VRF's interface; zero is none.
    vrf: i32,
    is_ipv6: bool,
    port_space: u32,
    /// The consumer's port. `tcp_port` differs from it if the port mapper chose another one.
    port: u16,
    tcp_port: u16,
}

/// The sockets that wildcard listeners share.
#[pin_data]
pub(crate) struct Acceptors {
    /// Held while a listener joins or leaves a socket, and so while the socket is made or closed.
    #[pin]
    shared: Mutex<RBTree<WildcardKey, Arc<Acceptor>>>,
}

impl Acceptors {
    /// Creates an empty table, or returns `ENOMEM`.
    pub(crate) fn none() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                shared <- new_mutex!(RBTree::new(), "rsiw::cm::Acceptors::shared"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Where a consumer wants to listen: its address, the TCP port that the port mapper chose, if any,
/// and the sockets that are shared.
pub(super) struct ListenAt<'a> {
    acceptors: &'a Arc<Acceptors>,
    netdev: &'a NetDevice,
    addr: SocketAddr,
    /// The port space of the RDMA CM that the port is in; zero is none.
    port_space: u32,
    is_v6_only: bool,
    tos: Option<u8>,
    ways: Ways,
    mapped_port: Option<u16>,
    backlog: u32,
}

impl<'a> ListenAt<'a> {
    fn new(
        acceptors: &'a Arc<Acceptors>,
        dev: &Device,
        id: CallId<'_>,
        netdev: &'a NetDevice,
        addr: SocketAddr,
        backlog: u32,
    ) -> Self {
        Self {
            acceptors,
            netdev,
            addr,
            port_space: id.port_space(),
            is_v6_only: id.afonly(),
            tos: id.tos(),
            ways: dev.ways(),
            mapped_port: calls::mapped_port(dev, id, netdev),
            backlog: backlog.max(TCP_BACKLOG),
        }
    }

    /// Returns the place at which a device listens for queue pairs that are connected by number.
    pub(super) fn for_numbers(
        acceptors: &'a Arc<Acceptors>,
        dev: &Device,
        netdev: &'a NetDevice,
        addr: SocketAddr,
    ) -> Self {
        Self {
            acceptors,
            netdev,
            addr,
            port_space: 0,
            is_v6_only: true,
            tos: None,
            ways: dev.ways(),
            mapped_port: None,
            backlog: TCP_BACKLOG,
        }
    }

    /// Returns the key of the socket. Only a socket on the wildcard is shared.
    fn key(&self) -> Option<WildcardKey> {
        self.addr.ip().is_unspecified().then(|| WildcardKey {
            namespace: self.netdev.namespace(),
            vrf: self.netdev.vrf(),
            is_ipv6: self.addr.is_ipv6(),
            port_space: self.port_space,
            port: self.addr.port(),
            tcp_port: self.mapped_port.unwrap_or(self.addr.port()),
        })
    }

    /// Makes the socket for a role, and binds it.
    fn socket(&self, role: &Role) -> Result<Arc<TcpSocket>> {
        let mut addr = self.addr;
        let ways = match role {
            Role::Shared { .. } => Ways::Vrf,
            Role::Single | Role::Below(_) => self.ways,
        };
        let sock = TcpSocket::new(self.netdev, &addr, ways)?;
        if addr.is_ipv6() && self.is_v6_only {
            sock.set_v6only()?;
        }
        if let Some(tos) = self.tos {
            sock.set_tos(tos);
        }
        if let Some(port) = self.mapped_port {
            addr.set_port(port);
        }
        match role {
            Role::Below(_) => sock.bind_below(&addr)?,
            _ if self.mapped_port.is_some() => sock.bind_beside(&addr)?,
            _ => sock.bind(&addr)?,
        }
        Ok(sock)
    }
}

/// Which listeners a socket belongs to.
enum Role {
    /// The socket of one listener, at an address.
    Single,
    /// The socket of all listeners with this key. It is one of the sockets in `all`.
    Shared {
        key: WildcardKey,
        all: Arc<Acceptors>,
    },
    /// The socket of one listener on the wildcard whose device is bound. The listener has joined
    /// the shared socket in here, too.
    Below(Arc<Acceptor>),
}

/// A socket that listens.
#[pin_data]
pub(super) struct Acceptor {
    queues: Arc<Queues>,
    role: Role,
    /// Who pays for connections until they have a QP: the process that listens, or nobody if that is
    /// for queue pairs that are connected by number.
    payer: Payer,
    /// Locked by consumers' calls, and by the work that takes connections from TCP.
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

/// Lets `listener` get the connections to a place. If somebody else listens at the port that the
/// port mapper chose, the consumer's own port is used.
pub(super) fn join(listener: &Arc<Listener>, mut place: ListenAt<'_>) -> Result<Arc<Acceptor>> {
    match (Acceptor::at(&place, listener), place.mapped_port) {
        (Err(e), Some(port)) if e == EADDRINUSE => {
            // Any process may claim to be the port mapper.
            listener.endpoints.dev.log(
                Author::Process,
                fmt!("port mapper: somebody listens at port {port}"),
            );
            place.mapped_port = None;
            Acceptor::at(&place, listener)
        }
        (other, _) => other,
    }
}

impl Acceptor {
    /// Finds or makes the socket for a place, and lets `listener` have its connections.
    fn at(place: &ListenAt<'_>, listener: &Arc<Listener>) -> Result<Arc<Self>> {
        let queues = listener.endpoints.dev.queues();
        let Some(key) = place.key() else {
            return Self::new(place, queues, Role::Single, listener);
        };
        let shared = Self::shared(place, key, queues, listener)?;
        match place.ways {
            Ways::Vrf => Ok(shared),
            Ways::Interface => Self::new(place, queues, Role::Below(shared.clone()), listener)
                .inspect_err(|_| shared.leave(listener)),
        }
    }

    /// Finds or makes the socket that has this key, and adds `listener`.
    fn shared(
        place: &ListenAt<'_>,
        key: WildcardKey,
        queues: &Arc<Queues>,
        listener: &Arc<Listener>,
    ) -> Result<Arc<Self>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let all = place.acceptors.clone();
        let mut shared = place.acceptors.shared.lock();
        if let Some(this) = shared.get(&key) {
            let mut slot = this.open.lock();
            let open = Option::as_mut(&mut *slot).ok_or(EINVAL)?;
            open.listeners = joined(&open.listeners, listener)?;
            return Ok(this.clone());
        }
        let this = Self::new(place, queues, Role::Shared { key, all }, listener)?;
        shared.insert(node.into_node(key, this.clone()));
        Ok(this)
    }

    fn new(
        place: &ListenAt<'_>,
        queues: &Arc<Queues>,
        role: Role,
        listener: &Arc<Listener>,
    ) -> Result<Arc<Self>> {
        let sock = place.socket(&role)?;
        let is_below = matches!(role, Role::Below(_));
        let listeners = joined(&[], listener)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                queues: queues.clone(),
                role,
                payer: Payer::of_caller(),
                open <- new_mutex!(None, "rsiw::cm::Acceptor::open"),
                work <- new_work!("rsiw::cm::Acceptor::work"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let sock = if is_below {
            ListenSocket::listen_below(sock, this.clone(), place.backlog)?
        } else {
            ListenSocket::listen(sock, this.clone(), place.backlog)?
        };
        *this.open.lock() = Some(Open { sock, listeners });
        // Connections may have come before the socket was in its place.
        this.queue();
        Ok(this)
    }

    /// Gives `listener` no more connections. Closes the socket, and so frees its port, when no
    /// listener is left.
    pub(super) fn leave(self: &Arc<Self>, listener: &Arc<Listener>) {
        match &self.role {
            Role::Single => self.remove(listener, || {}),
            Role::Shared { key, all } => {
                let mut shared = all.shared.lock();
                self.remove(listener, || {
                    let _ = shared.remove(key);
                });
            }
            Role::Below(shared) => {
                self.remove(listener, || {});
                shared.leave(listener);
            }
        }
    }

    /// Removes `listener`; if it was the last one, calls `forget` and closes the socket.
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
        // Nobody starts the timer without a socket.
        Timer::stop(self);
        drop(last);
    }

    /// Takes a connection from TCP, and finds its listener. This is done under the mutex, so that
    /// whoever closes the socket has the last reference. A connection for which there is no memory
    /// stays in TCP's queue. TCP does not report it again, so the timer starts the next try.
    fn next(self: &Arc<Self>) -> Option<(Arc<TcpSocket>, Option<Arc<Listener>>)> {
        let open = self.open.lock();
        let open = open.as_ref()?;
        let sock = open.sock.accept(&self.payer).unwrap_or_else(|_| {
            Timer::start(self, RETRY_MS);
            None
        })?;
        let listener = self.choose(&sock, &open.listeners);
        Some((sock, listener))
    }

    /// Returns the listener that gets a connection, or logs that none does. Listeners of bound
    /// devices get nothing from the shared socket: what TCP gives to it came by other interfaces.
    fn choose(&self, sock: &TcpSocket, listeners: &[Arc<Listener>]) -> Option<Arc<Listener>> {
        let owner = owner(sock, listeners);
        let is_shared = matches!(self.role, Role::Shared { .. });
        let (why, of) = match &owner {
            Some(owner) if is_shared && owner.endpoints.dev.ways() == Ways::Interface => {
                ("by another interface is refused", owner)
            }
            Some(_) => return owner,
            None if is_shared => (
                "to an address of no device that is listened on",
                listeners.first()?,
            ),
            None => (
                "to an address of another device is refused",
                listeners.first()?,
            ),
        };
        let dev = &of.endpoints.dev;
        dev.log(Author::Stranger, fmt!("a connection {why}"));
        None
    }

    /// Queues the work. Any context.
    fn queue(self: &Arc<Self>) {
        let _ = self.queues.cm.enqueue(self.clone());
    }
}

/// Returns the listeners `all`, followed by `one`.
fn joined(all: &[Arc<Listener>], one: &Arc<Listener>) -> Result<KVec<Arc<Listener>>> {
    let mut joined = KVec::with_capacity(all.len().try_add(1)?, GFP_KERNEL_ACCOUNT)?;
    for listener in Iterator::chain(all.iter(), [one]) {
        joined
            .push_within_capacity(listener.clone())
            .map_err(|_| ENOMEM)?;
    }
    Ok(joined)
}

/// Returns the listener on the device that owns the local address of a connection. `listeners` is
/// in the order in which the devices were registered.
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
        let admit = |(sock, listener): (Arc<TcpSocket>, Option<Arc<Listener>>)| match listener {
            // An error closes the socket.
            Some(listener) => drop(request::create(&listener, sock, &this.payer)),
            None => sock.abort(),
        };
        this.payer
            .pays(|| drain(ACCEPT_BUDGET, || this.next(), admit))
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

/// One listening identifier of a consumer.
#[pin_data]
pub(super) struct Listening {
    number: usize,
    consumer: ConsumerId,
    /// What the core needs back when the consumer stops listening.
    mapping: Option<Mapping>,
    pub(super) listener: Arc<Listener>,
    /// Where its connections come from, until it is closed.
    #[pin]
    acceptor: SpinLock<Option<Arc<Acceptor>>>,
}

/// Returns whether a consumer listens on the wildcard, or on a loopback address. Such a consumer
/// listens on the devices of all namespaces, also on those that are added later.
pub(super) fn is_on_all(id: CallId<'_>) -> bool {
    id.local_addr()
        .is_some_and(|addr| addr.ip().is_unspecified() || addr.ip().is_loopback())
}

/// Starts to listen: see [`super::create_listen`].
pub(super) fn create(
    all: &Registry<Listening>,
    acceptors: &Arc<Acceptors>,
    endpoints: &Arc<Endpoints>,
    id: CallId<'_>,
    backlog: u32,
) -> Result<(), calls::Refusal> {
    let dev = &endpoints.dev;
    let addr = id.local_addr().ok_or(EAFNOSUPPORT)?;
    let netdev = dev.netdev().ok_or(ENODEV)?;
    // A consumer that listens on all devices is not reachable by devices of other namespaces, where
    // its port may be somebody else's.
    if !id.sees(&netdev) {
        return if is_on_all(id) {
            Ok(())
        } else {
            Err(calls::NOT_IN_NAMESPACE)
        };
    }
    // What comes to a loopback address is for the device over the loopback interface.
    if addr.ip().is_loopback() && !netdev.is_loopback() {
        return Ok(());
    }
    let turns = Turns::new(dev.queues(), request::read)?;
    let addressee = Addressee::Consumer(id.into());
    let listener = Listener::new(endpoints, turns, addressee, backlog)?;
    let mapping = id.hide_mapping();
    let listening = all.add(|number| {
        id.set_provider_data(number);
        Arc::pin_init(
            pin_init!(Listening {
                number,
                consumer: id.consumer(),
                mapping,
                listener,
                acceptor <- new_spinlock!(None, "rsiw::cm::Listening::acceptor"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    });
    let result = listening.and_then(|this| {
        all.introduce(this.number, this.consumer);
        let place = ListenAt::new(acceptors, dev, id, &netdev, addr, backlog);
        this.open(place).inspect_err(|_| {
            all.remove(&this);
            this.close();
        })
    });
    if let Some(mapping) = mapping.filter(|_| result.is_err()) {
        id.restore_mapping(mapping);
    }
    Ok(result?)
}

/// Stops listening: see [`super::destroy_listen`].
pub(super) fn destroy(all: &Registry<Listening>, id: &CmId) -> Result {
    let this = all.get(id.provider_data());
    if let Some(this) = this.filter(|this| all.remove(this)) {
        this.close();
        if let Some(mapping) = this.mapping {
            id.restore_mapping(mapping);
        }
    }
    Ok(())
}

impl Listening {
    fn open(self: &Arc<Self>, place: ListenAt<'_>) -> Result {
        let acceptor = join(&self.listener, place)?;
        *self.acceptor.lock() = Some(acceptor);
        // The device may be going away, and may have closed the listener in between.
        if self.listener.is_closed() {
            self.close();
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Stops listening, and ends connections without a Request. Frees the port if nobody else
    /// uses it.
    pub(super) fn close(self: &Arc<Self>) {
        // The listener is closed before the acceptor is taken: `open` sets the acceptor, and then
        // looks whether the listener is closed.
        self.listener.close();
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            acceptor.leave(&self.listener);
        }
    }
}

impl Entry for Listening {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        Some(self.consumer)
    }
}
