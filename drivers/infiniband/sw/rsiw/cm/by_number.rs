// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that their consumers connect by number: the steps of the consumers, and the Requests
//! of peers. `proto::by_number` makes the decisions. The consumers' calls return at once; each such
//! queue pair has a [`Pairing`], whose work item does the rest.
//!
//! A device listens for Requests only while a pairing needs that, so a host without programs that
//! connect by number has no open port. A Request that comes before its queue pair is ready is
//! parked.
//!
//! Locks: `MeetingPlace::book` > the QP's mutex.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::acceptor::{
    join,
    Acceptor,
    Acceptors,
    ListenAt, //
};
use super::endpoint::{
    Endpoint,
    Endpoints, //
};
use super::listener::{
    Addressee,
    Listener,
    TakesRequests, //
};
use super::pairing::{
    gid,
    ip,
    refuse,
    Pairing, //
};
use super::registry::{
    Registry,
    Turns, //
};
use super::request;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::rdma::attr::{
    IbQpState,
    QpModify,
    Qpn, //
};
use crate::ffi::rdma::iwcm::Addresses;
use crate::ffi::rsiw::params;
use crate::ffi::time;
use crate::gids;
use crate::log::Author;
use crate::proto::by_number::{
    judge,
    Callee,
    Caller,
    Gid,
    Hello,
    Objection,
    Pair,
    QpEnd,
    Verdict, //
};
use crate::proto::counters::Counter;
use crate::proto::crowd::{
    Crowd,
    Place,
    Source, //
};
use crate::qp::{
    Qp,
    QpTable, //
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr, //
};
use core::num::Saturating;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::{
    new_mutex,
    Arc,
    Mutex, //
};

/// How many Requests a device keeps at most for queue pairs that are not ready yet.
const PARKED: usize = 256;

/// Returns whether a change is about a queue pair that is connected by number, or is to be. Only
/// such a change names the peer's address: the RDMA CM names none for an iWARP device.
pub(crate) fn concerns(qp: &Qp, attr: &QpModify) -> bool {
    let names_peer = attr.state == Some(IbQpState::Rtr) && attr.path.address.is_some();
    names_peer || qp.is_by_number()
}

/// Changes a queue pair as its consumer asks, all or nothing.
///
/// # Errors
///
/// `EINVAL` for a step that is not possible, or for an address without a GID; `EADDRNOTAVAIL` if
/// the interface does not have the address; `EADDRINUSE` if somebody else has the port;
/// `EOPNOTSUPP` for a queue pair that is to be connected to itself with TLS, for one of a consumer
/// in the kernel, or if connecting by number is turned off; `ENOMEM`.
pub(crate) fn modify(place: &Arc<MeetingPlace>, qp: &Arc<Qp>, attr: &QpModify) -> Result {
    let seen = qp.shared.query().state;
    if attr.cur_state.is_some_and(|state| state != seen) {
        return Err(EINVAL);
    }
    let result = match attr.state {
        Some(IbQpState::Rtr) => place.meet(qp, attr),
        Some(IbQpState::Rts) => place.ready_to_send(qp, attr).map_err(plain),
        Some(IbQpState::Reset) => {
            qp.reset();
            return Ok(());
        }
        Some(IbQpState::Err) => {
            qp.leave();
            Ok(())
        }
        Some(IbQpState::Init | IbQpState::Sqd | IbQpState::Sqe) => {
            Err((EINVAL, "a step that a QP connected by number cannot take"))
        }
        None => {
            qp.note_path(attr);
            Ok(())
        }
    };
    result.map_err(|(error, cause)| {
        let (num, separator) = (qp.shared.id.num(), if cause.is_empty() { "" } else { ": " });
        place.endpoints.dev.log(
            Author::Process,
            fmt!("QP {num}: cannot be connected by number: {error:?}{separator}{cause}"),
        );
        error
    })?;
    // The rights of the peer may change with a step, or without one.
    let others = QpModify {
        access: attr.access,
        ..QpModify::default()
    };
    qp.modify(&others)
}

/// The queue pairs of a device that are connected by number.
#[pin_data]
pub(crate) struct MeetingPlace {
    pub(super) endpoints: Arc<Endpoints>,
    qps: Arc<QpTable>,
    acceptors: Arc<Acceptors>,
    #[pin]
    pairings: Registry<Pairing>,
    #[pin]
    book: Mutex<Book>,
    /// The listeners for IPv4 and IPv6.
    #[pin]
    listening: Mutex<[OpenListener; 2]>,
}

/// The pairings, and the Requests that wait for one.
struct Book {
    /// By QP number.
    pairings: RBTree<u32, Arc<Pairing>>,
    /// Endpoints whose Requests came early, by the QP number in the Request and the peer's address.
    parked: RBTree<(u32, Gid), Parked>,
    /// Limits how many endpoints are parked.
    crowd: Crowd<KVVec<Place>>,
}

#[derive(Clone, Copy)]
struct Parked {
    /// The number of the endpoint.
    number: usize,
    source: Source,
    hello: Hello,
}

/// A listener that exists as long as somebody needs it.
struct OpenListener {
    users: Saturating<usize>,
    open: Option<(Arc<Listener>, Arc<Acceptor>)>,
}

impl OpenListener {
    const NOBODY: Self = Self {
        users: Saturating(0),
        open: None,
    };
}

/// Why a step is refused: the error number, and the cause in words, which may be empty.
type Why = (Error, &'static str);

/// Returns an error whose number says enough.
fn plain(error: Error) -> Why {
    (error, "")
}

impl Book {
    /// Takes out what is parked for a queue pair by its peer.
    fn take_parked(&mut self, key: (u32, Gid)) -> Option<Parked> {
        let parked = self.parked.remove(&key)?;
        self.crowd.remove(parked.source, parked.number);
        Some(parked)
    }

    /// Parks an endpoint. Returns the numbers of the endpoints that have to go for it.
    fn park(&mut self, key: (u32, Gid), parked: Parked) -> Result<[Option<usize>; 2]> {
        let node = RBTreeNode::new(key, parked, GFP_KERNEL_ACCOUNT)?;
        let replaced = self.take_parked(key).map(|old| old.number);
        let now = time::now_ms();
        let crowded = self
            .crowd
            .admit(Place::new(parked.source, parked.number, now));
        if let Some(number) = crowded {
            // Bound: [`PARKED`].
            let of_it = self.parked.iter().find(|(_, other)| other.number == number);
            if let Some(key) = of_it.map(|(key, _)| *key) {
                let _ = self.parked.remove(&key);
            }
        }
        self.parked.insert(node);
        Ok([replaced, crowded])
    }
}

impl MeetingPlace {
    pub(super) fn new(
        endpoints: &Arc<Endpoints>,
        qps: &Arc<QpTable>,
        acceptors: &Arc<Acceptors>,
    ) -> Result<Arc<Self>> {
        let book = Book {
            pairings: RBTree::new(),
            parked: RBTree::new(),
            crowd: Crowd::new(KVVec::from_elem(Place::FREE, PARKED, GFP_KERNEL)?),
        };
        Arc::pin_init(
            pin_init!(Self {
                endpoints: endpoints.clone(),
                qps: qps.clone(),
                acceptors: acceptors.clone(),
                pairings <- Registry::new(),
                book <- new_mutex!(book, "rsiw::cm::MeetingPlace::book"),
                listening <- new_mutex!(
                    [OpenListener::NOBODY, OpenListener::NOBODY],
                    "rsiw::cm::MeetingPlace::listening"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a queue pair's step to RTR, and begins to connect it to its peer.
    fn meet(self: &Arc<Self>, qp: &Arc<Qp>, attr: &QpModify) -> Result<(), Why> {
        let id = &qp.shared.id;
        let netdev = self.endpoints.dev.netdev().ok_or(plain(ENODEV))?;
        let port = params::qp_port();
        if port == 0 {
            return Err((EOPNOTSUPP, "the parameter qp_port is 0"));
        }
        if id.is_of_kernel() {
            return Err((EOPNOTSUPP, "it is one of the kernel's"));
        }
        let address = attr.path.address.ok_or(plain(EINVAL))?;
        let gids = address.gids.ok_or((EINVAL, "the address has no GID"))?;
        let dest = attr.path.dest_qpn.ok_or(plain(EINVAL))?;
        let psn = attr.path.rq_psn.ok_or(plain(EINVAL))?;
        let guid = self.endpoints.dev.guid();
        let (own, peer) = gids::addresses(&netdev, guid, gids)
            .map_err(plain)?
            .ok_or((EADDRNOTAVAIL, "the interface does not have this address"))?;
        let pair = Pair::new(QpEnd::new(id.num().0, own), QpEnd::new(dest.0, peer), psn);
        if pair.caller() == Caller::Nobody && self.endpoints.dev.tls().is_some() {
            return Err((EOPNOTSUPP, "with TLS it cannot be connected to itself"));
        }
        let (local, remote) = (ip(own), ip(peer));
        if local.is_ipv4() != remote.is_ipv4() {
            return Err((EINVAL, "the GIDs are of different address families"));
        }
        let listens = pair.listens();
        if listens {
            self.listen(&netdev, local.is_ipv6(), port)?;
        }
        let begun = self.begin(qp, attr, pair, port);
        match begun {
            Ok(pairing) => pairing.queue(),
            Err(error) => {
                if listens {
                    self.stop_listening(local.is_ipv6());
                }
                return Err(plain(error));
            }
        }
        Ok(())
    }

    fn begin(
        self: &Arc<Self>,
        qp: &Arc<Qp>,
        attr: &QpModify,
        pair: Pair,
        port: u16,
    ) -> Result<Arc<Pairing>> {
        let tos = attr.path.address.map_or(0, |address| address.traffic_class);
        let pairing = self.pairings.add(|number| {
            Pairing::new(self.clone(), number, qp.clone(), pair, port, tos) //
        })?;
        let node = RBTreeNode::new(pair.own.qpn(), pairing.clone(), GFP_KERNEL_ACCOUNT);
        let begun = node.and_then(|node| {
            // One lock for both: `judge` finds the pairing of each queue pair that waits.
            let mut book = self.book.lock();
            qp.begin_to_meet(pair, attr, pairing.clone())?;
            let old = book.pairings.insert(node);
            drop(book);
            drop(old);
            Ok(())
        });
        if let Err(error) = begun {
            self.pairings.remove(&pairing);
            return Err(error);
        }
        Ok(pairing)
    }

    /// Takes the step to RTS. The pairing may have waited for it before it dials.
    fn ready_to_send(&self, qp: &Arc<Qp>, attr: &QpModify) -> Result {
        qp.ready_to_send(attr)?;
        let qpn = qp.shared.id.num().0;
        let pairing = self.book.lock().pairings.get(&qpn).cloned();
        if let Some(pairing) = pairing {
            pairing.hurry();
        }
        Ok(())
    }

    /// Makes the device listen in an address family, until [`MeetingPlace::stop_listening`].
    fn listen(self: &Arc<Self>, netdev: &NetDevice, is_ipv6: bool, port: u16) -> Result<(), Why> {
        let mut all = self.listening.lock();
        let listening = all.get_mut(usize::from(is_ipv6)).ok_or(plain(EINVAL))?;
        if listening.open.is_none() {
            let any: IpAddr = match is_ipv6 {
                true => Ipv6Addr::UNSPECIFIED.into(),
                false => Ipv4Addr::UNSPECIFIED.into(),
            };
            let addr = SocketAddr::from((any, port));
            let open = self.open(netdev, addr);
            listening.open = Some(open.map_err(|error| (error, "cannot listen at the port"))?);
        }
        listening.users += 1;
        Ok(())
    }

    fn open(
        self: &Arc<Self>,
        netdev: &NetDevice,
        addr: SocketAddr,
    ) -> Result<(Arc<Listener>, Arc<Acceptor>)> {
        let dev = &self.endpoints.dev;
        let turns = Turns::new(dev.queues(), request::read)?;
        let asked = Addressee::Other(self.clone());
        // The largest backlog: a program connects all of its queue pairs at once.
        let listener = Listener::new(&self.endpoints, turns, asked, u32::MAX)?;
        let place = ListenAt::for_numbers(&self.acceptors, dev, netdev, addr);
        let acceptor = join(&listener, place)?;
        Ok((listener, acceptor))
    }

    fn stop_listening(&self, is_ipv6: bool) {
        let mut all = self.listening.lock();
        if let Some(listening) = all.get_mut(usize::from(is_ipv6)) {
            listening.users -= 1;
            if listening.users.0 == 0 {
                close(listening.open.take());
            }
        }
    }

    /// Takes out the parked Request of the peer of `pair`, if there is one. Returns its endpoint,
    /// and what the peer says.
    pub(super) fn take_parked(&self, pair: &Pair) -> Option<(Arc<Endpoint>, Hello)> {
        let key = (pair.own.qpn(), pair.peer.gid());
        let parked = self.book.lock().take_parked(key)?;
        let endpoint = self.endpoints.all.get(parked.number)?;
        Some((endpoint, parked.hello))
    }

    /// Forgets a pairing that is over, unless it is forgotten already.
    pub(super) fn forget(&self, pairing: &Arc<Pairing>) {
        if !self.pairings.remove(pairing) {
            return;
        }
        let qpn = pairing.pair().own.qpn();
        let mut book = self.book.lock();
        let is_own = |other: &Arc<Pairing>| Arc::ptr_eq(other, pairing);
        let old = match book.pairings.get(&qpn).is_some_and(is_own) {
            true => book.pairings.remove(&qpn),
            false => None,
        };
        drop(book);
        drop(old);
        if pairing.pair().listens() {
            let is_ipv6 = ip(pairing.pair().own.gid()).is_ipv6();
            self.stop_listening(is_ipv6);
        }
    }

    /// Lets no more queue pairs meet, as the device goes away.
    pub(super) fn close(&self) {
        self.pairings.close();
        // Bound: two.
        for listening in self.listening.lock().iter_mut() {
            close(listening.open.take());
        }
        self.pairings.for_each(Pairing::finish);
    }

    /// Waits until no pairing is left.
    pub(super) fn wait_for_pairings(&self) {
        self.pairings.wait_empty();
    }

    /// Returns the pairing that a Request is for, or `None` if the Request was parked.
    fn judge(
        &self,
        number: usize,
        addresses: &Addresses,
        data: &[u8],
    ) -> Result<Option<(Arc<Pairing>, Hello)>, Objection> {
        let hello = Hello::parse(data)?;
        let from = addresses.remote.ip();
        let (peer, own) = (gid(from), gid(addresses.local.ip()));
        let mut book = self.book.lock();
        let qp = self.qps.lookup(Qpn(hello.to));
        let seen = qp.map_or(Callee::Nobody, |qp| qp.as_callee());
        match judge(&hello, peer, own, seen) {
            Verdict::Accept => match book.pairings.get(&hello.to) {
                Some(pairing) => Ok(Some((pairing.clone(), hello))),
                None => Err(Objection::Taken),
            },
            Verdict::Park => {
                let source = Source::of(from);
                let parked = Parked {
                    number,
                    source,
                    hello,
                };
                let gone = book.park((hello.to, peer), parked);
                drop(book);
                // Bound: two.
                for number in gone.map_err(|_| Objection::Crowded)?.into_iter().flatten() {
                    if let Some(endpoint) = self.endpoints.all.get(number) {
                        endpoint.shut();
                    }
                }
                Ok(None)
            }
            Verdict::Refuse(objection) => Err(objection),
        }
    }
}

/// Ends listening, if there is a listener.
fn close(open: Option<(Arc<Listener>, Arc<Acceptor>)>) {
    if let Some((listener, acceptor)) = open {
        listener.close();
        acceptor.leave(&listener);
    }
}

impl TakesRequests for MeetingPlace {
    fn asked(&self, number: usize, addresses: &Addresses, data: &[u8]) {
        let Some(endpoint) = self.endpoints.all.get(number) else {
            return;
        };
        match self.judge(number, addresses, data) {
            Ok(Some((pairing, hello))) => pairing.accept(&endpoint, hello),
            Ok(None) => self.endpoints.dev.count(Some(Counter::QpParked)),
            Err(objection) => refuse(&endpoint, objection),
        }
    }
}
