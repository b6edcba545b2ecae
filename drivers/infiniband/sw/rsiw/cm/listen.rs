// SPDX-License-Identifier: GPL-2.0

//! Listeners.
#![forbid(unsafe_code)]

use super::{
    mapped_port,
    not_in_namespace,
    passive,
    turns::Turns,
    Cm,
    Endpoint, //
};
use crate::{
    ffi::{
        iwcm::{
            CallId,
            CmId,
            ConsumerId,
            Event,
            Mapping, //
        },
        log::pr_ratelimited,
        net::{
            netdev::NetDevice,
            ListenCallbacks,
            ListenHandler,
            ListenSocket,
            TcpSocket, //
        },
        noio::NoIo,
        rdma::details::Details,
        timer::{
            Expires,
            Timer, //
        },
    },
    proto::drain::drain,
};
use core::net::SocketAddr;
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        aref::ARef,
        new_mutex,
        new_spinlock,
        Arc,
        ArcBorrow,
        Mutex,
        SpinLock, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// Connections taken from TCP before others get the worker.
const ACCEPT_BUDGET: usize = 64;
/// Of the work item that reads Requests, beside the one that takes connections from TCP.
const READ: u64 = 1;
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
    pub(super) cm: Arc<Cm>,
    number: usize,
    cm_id: ARef<CmId>,
    /// What the core needs back when the consumer gives the listener up.
    mapping: Option<Mapping>,
    /// Between the consumer and the work that takes connections from TCP.
    #[pin]
    open: Mutex<Option<Open>>,
    #[pin]
    half_open: SpinLock<HalfOpen>,
    /// Of endpoints without a Request.
    #[pin]
    turns: Turns,
    #[pin]
    work: Work<Self>,
    #[pin]
    reading: Work<Self, READ>,
    #[pin]
    timer: Timer<Self>,
}

struct Open {
    sock: ListenSocket<Listener>,
    callbacks: ListenCallbacks<Listener>,
}

struct HalfOpen {
    /// Nobody listens any more.
    closed: bool,
    /// Numbers of the endpoints without a Request, and zeros. If there is no room for another
    /// one, the oldest goes (T-42).
    numbers: KVec<usize>,
}

impl_has_work! {
    impl HasWork<Self> for Listener { self.work }
    impl HasWork<Self, READ> for Listener { self.reading }
}

/// See [`super::create_listen`].
pub(super) fn create(cm: &Arc<Cm>, id: CallId<'_>, backlog: u32) -> Result {
    let addr = id.local_addr().ok_or(EAFNOSUPPORT)?;
    let netdev = cm.dev.netdev().ok_or(ENODEV)?;
    // A consumer that listens on the wildcard, or on a loopback address, listens on the devices of
    // all namespaces, also on those that others add later. Nobody can reach it through those of
    // others, where the port may be somebody else's.
    let ip = addr.ip();
    let on_all = ip.is_unspecified() || ip.is_loopback();
    if !id.sees(&netdev) {
        return if on_all {
            Ok(())
        } else {
            Err(not_in_namespace(&cm.dev))
        };
    }
    // What comes to a loopback address is for the device over the loopback interface.
    if ip.is_loopback() && !netdev.is_loopback() {
        return Ok(());
    }
    let sock = bound(cm, id, &netdev, addr)?;
    let (least, most) = HALF_OPEN;
    let places = usize::try_from(backlog)
        .unwrap_or(most)
        .max(least)
        .min(most);
    let half_open = HalfOpen {
        closed: false,
        numbers: KVec::from_elem(0, places, GFP_KERNEL_ACCOUNT)?,
    };
    let mapping = id.hide_mapping();
    let listener = cm.registry.add_listener(|number| {
        id.set_provider_data(number);
        Arc::pin_init(
            pin_init!(Listener {
                cm: cm.clone(),
                number,
                cm_id: id.into(),
                mapping,
                open <- new_mutex!(None, "rsiw::cm::Listener::open"),
                half_open <- new_spinlock!(half_open, "rsiw::cm::Listener::half_open"),
                turns <- Turns::new(),
                work <- new_work!("rsiw::cm::Listener::work"),
                reading <- new_work!("rsiw::cm::Listener::reading"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    });
    let result = listener.and_then(|this| {
        this.open(sock, backlog).inspect_err(|_| {
            cm.registry.remove_listener(this.number);
            this.close();
        })
    });
    if let Some(mapping) = mapping.filter(|_| result.is_err()) {
        id.restore_mapping(mapping);
    }
    result
}

/// Makes the socket for a listener at `addr`, bound to the port that the port mapper chose, or else
/// to that of `addr`.
fn bound(
    cm: &Cm,
    id: CallId<'_>,
    netdev: &NetDevice,
    addr: SocketAddr,
) -> Result<ListenSocket<Listener>> {
    let new = || -> Result<_> {
        let sock = ListenSocket::new(netdev, &addr)?;
        if addr.is_ipv6() && id.afonly() {
            sock.set_v6only()?;
        }
        // A consumer that listens on the wildcard does so on every RDMA device.
        if addr.ip().is_unspecified() {
            sock.bind_to_device(netdev)?;
        }
        if let Some(tos) = id.tos() {
            sock.set_tos(tos);
        }
        Ok(sock)
    };
    if let Some(port) = mapped_port(&cm.dev, &id, netdev) {
        let sock = new()?;
        let mut mapped = addr;
        mapped.set_port(port);
        match sock.bind_beside(&mapped) {
            Err(e) if e == EADDRINUSE => {
                let dev = cm.dev.handle();
                pr_ratelimited!("{dev}: port mapper: somebody listens at port {port}\n");
            }
            other => return other.map(|()| sock),
        }
    }
    let sock = new()?;
    sock.bind(&addr)?;
    Ok(sock)
}

/// See [`super::destroy_listen`].
pub(super) fn destroy(cm: &Cm, id: &CmId) -> Result {
    if let Some(this) = cm.registry.remove_listener(id.provider_data()) {
        this.close();
        if let Some(mapping) = this.mapping {
            id.restore_mapping(mapping);
        }
    }
    Ok(())
}

impl Listener {
    fn open(self: &Arc<Self>, sock: ListenSocket<Self>, backlog: u32) -> Result {
        let mut open = self.open.lock();
        let callbacks = ListenCallbacks::install(&sock, self.clone())?;
        sock.listen(backlog.max(TCP_BACKLOG))?;
        *open = Some(Open { sock, callbacks });
        drop(open);
        // Connections may have come before the socket was in its place.
        let _ = self.cm.dev.cm_queue().enqueue::<_, 0>(self.clone());
        Ok(())
    }

    /// Closes the socket, so that its port is free, and ends the connections without a Request.
    pub(super) fn close(self: &Arc<Self>) {
        let open = self.open.lock().take();
        let numbers = {
            let mut half_open = self.half_open.lock();
            half_open.closed = true;
            core::mem::replace(&mut half_open.numbers, KVec::new())
        };
        // Without a socket nobody starts it.
        Timer::stop(self);
        if let Some(Open { sock, callbacks }) = open {
            drop(callbacks);
            drop(sock);
        }
        for number in numbers {
            self.end(number);
        }
    }

    /// Whether it is that of a consumer's identifier.
    pub(super) fn is_of(&self, id: ConsumerId) -> bool {
        self.cm_id.is_of(id)
    }

    /// Tells how it is.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(super) fn describe(&self, to: &mut Details<'_>) -> Result {
        let (half_open, most) = {
            let half_open = self.half_open.lock();
            // As many as the backlog, at most 1,024.
            let taken = half_open.numbers.iter().filter(|n| **n != 0);
            let taken = taken.fold(0, |count: usize, _| count.saturating_add(1));
            (taken, half_open.numbers.len())
        };
        to.count(c"half_open", half_open)?;
        to.count(c"max_half_open", most)
    }

    /// By which iw_cm and the registry know it.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Hands an event to the consumer. No lock may be held.
    pub(super) fn deliver(&self, event: &Event<'_>) -> Result {
        if self.half_open.lock().closed {
            return Err(ECONNABORTED);
        }
        self.cm_id.deliver(event)
    }

    /// Something has happened to an endpoint without a Request. Any context.
    pub(super) fn arrived(self: &Arc<Self>, endpoint: Arc<Endpoint>) {
        self.turns.push(endpoint);
        let _ = self.cm.dev.cm_queue().enqueue::<_, READ>(self.clone());
    }

    /// An endpoint has got its Request, or is gone.
    pub(super) fn forget(&self, number: usize) {
        let mut half_open = self.half_open.lock();
        if let Some(place) = half_open.numbers.iter_mut().find(|n| **n == number) {
            *place = 0;
        }
    }

    /// Takes a connection from TCP. Under the mutex, so that `close` gets the last reference. What
    /// there is no memory for stays in TCP's queue, which does not tell of it again.
    fn next(self: &Arc<Self>) -> Option<Arc<TcpSocket>> {
        let open = self.open.lock();
        open.as_ref()?.sock.accept().unwrap_or_else(|_| {
            Timer::start(self, RETRY_MS);
            None
        })
    }

    /// Counts a connection that has said nothing yet, and ends the oldest one if there are too
    /// many.
    pub(super) fn admit(&self, number: usize) -> Result {
        let mut half_open = self.half_open.lock();
        if half_open.closed {
            return Err(ECONNABORTED);
        }
        // Numbers grow, so that the least is a free place or the oldest.
        let place = half_open.numbers.iter_mut().min().ok_or(ENOSPC)?;
        let oldest = core::mem::replace(place, number);
        drop(half_open);
        self.end(oldest);
        Ok(())
    }

    /// Ends a connection without a Request; zero is none.
    fn end(&self, number: usize) {
        if let Some(endpoint) = self.cm.registry.get(number) {
            endpoint.shut();
        }
    }
}

impl WorkItem for Listener {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        // An error closes the socket.
        let create = |sock| drop(passive::create(&this, sock));
        drain(ACCEPT_BUDGET, || this.next(), create).or_leave_to(|| {
            let dev = this.cm.dev.clone();
            let _ = dev.cm_queue().enqueue::<_, 0>(this);
        });
    }
}

impl WorkItem<READ> for Listener {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        this.turns.take(Endpoint::read).or_leave_to(|| {
            let dev = this.cm.dev.clone();
            let _ = dev.cm_queue().enqueue::<_, READ>(this);
        });
    }
}

impl Expires for Listener {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        let dev = this.cm.dev.clone();
        let _ = dev.cm_queue().enqueue::<_, 0>(this);
    }
}

impl ListenHandler for Listener {
    fn incoming(this: ArcBorrow<'_, Self>) {
        let this: Arc<Self> = this.into();
        let dev = this.cm.dev.clone();
        let _ = dev.cm_queue().enqueue::<_, 0>(this);
    }
}
