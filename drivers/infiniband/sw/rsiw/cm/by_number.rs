// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that their consumers connect by number: the steps of the consumers, and the Requests
//! of peers. `proto::by_number` makes the decisions. The consumers' calls return at once; each such
//! queue pair has a [`Pairing`], whose work item does the rest.
//!
//! A device listens for Requests only while a pairing needs that, so a host without programs that
//! connect by number has no open port. A Request that comes before its queue pair is ready is
//! parked.
//!
//! What all programs share here is under a spin lock, `MeetingPlace::book`, and nobody who has it
//! waits for a queue pair. So a Request only finds its pairing here, in the work of the listener;
//! the pairing's own work accepts it.
//!
//! Locks: endpoint mutex > `MeetingPlace::book` > what the QP has been told; `listening` >
//! `Acceptors::shared`.
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
    Endpoints,
    Matchmaker,
    Recipient, //
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
    Entry,
    Registry,
    Turns, //
};
use super::request;
use crate::ffi::mm::Payer;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::TcpSocket;
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
use crate::proto::connection::Event;
use crate::proto::counters::Counter;
use crate::proto::crowd::{
    Crowd,
    Place,
    Source, //
};
use crate::proto::setup::Params;
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
    new_spinlock,
    Arc,
    Mutex,
    SpinLock, //
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
    /// A spin lock: all programs share it, and one that is preempted must not hold it.
    #[pin]
    book: SpinLock<Book>,
    /// The listeners that somebody needs.
    #[pin]
    listening: Mutex<KVec<OpenListener>>,
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

/// By which way a queue pair and its peer connect, as it was when the queue pair took its step.
/// Others may have come by another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// The TCP port at which the end that does not dial listens.
    pub(super) port: u16,
    /// Index of the interface of the VRF that the device's interface is in; zero is none.
    vrf: i32,
}

/// Where a device listens for Requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ListensAt {
    is_ipv6: bool,
    way: Way,
}

impl ListensAt {
    /// Returns where to listen for the peer of `pair`, if it is the peer who connects.
    pub(super) fn of(pair: &Pair, way: Way) -> Option<Self> {
        let is_ipv6 = ip(pair.own.gid()).is_ipv6();
        pair.listens().then_some(Self { is_ipv6, way })
    }
}

/// A listener that exists as long as somebody needs it.
struct OpenListener {
    at: ListensAt,
    users: Saturating<usize>,
    listener: Arc<Listener>,
    acceptor: Arc<Acceptor>,
}

impl OpenListener {
    fn close(self) {
        self.listener.close();
        self.acceptor.leave(&self.listener);
    }
}

/// Stands for the consumer of an endpoint whose Request has come, until a pairing does. When the
/// endpoint ends before, it is not parked any more.
struct Unanswered {
    place: Arc<MeetingPlace>,
    /// Where the Request is parked, if it is.
    key: (u32, Gid),
    number: usize,
}

impl Matchmaker for Unanswered {
    fn start(&self, _sock: &Arc<TcpSocket>, _params: &Params, _reply: &[u8]) -> Result {
        Err(ECANCELED)
    }

    fn told(&self, _event: &Event, _data: &[u8]) {}
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.place.unpark(self.key, self.number);
    }
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

    /// Returns whether a pairing is the one of its queue pair.
    fn has(&self, pairing: &Arc<Pairing>) -> bool {
        let present = self.pairings.get(&pairing.pair().own.qpn());
        present.is_some_and(|present| Arc::ptr_eq(present, pairing))
    }

    /// Parks an endpoint. Returns the numbers of the endpoints that have to go for it.
    fn park(
        &mut self,
        node: RBTreeNode<(u32, Gid), Parked>,
        key: (u32, Gid),
        parked: Parked,
    ) -> [Option<usize>; 2] {
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
        [replaced, crowded]
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
                book <- new_spinlock!(book, "rsiw::cm::MeetingPlace::book"),
                listening <- new_mutex!(KVec::new(), "rsiw::cm::MeetingPlace::listening"),
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
        let vrf = netdev.vrf();
        let way = Way { port, vrf };
        let at = ListensAt::of(&pair, way);
        if let Some(at) = at {
            self.listen(&netdev, at)?;
        }
        let tos = address.traffic_class;
        let pairing = self.pairings.add(|number| {
            Pairing::new(self.clone(), number, qp.clone(), pair, way, tos) //
        });
        let pairing = pairing.map_err(|error| {
            if let Some(at) = at {
                self.stop_listening(at);
            }
            plain(error)
        })?;
        if let Err(error) = self.begin(qp, attr, &pairing) {
            self.forget(&pairing);
            return Err(plain(error));
        }
        // The first run looks whether the peer's Request was parked meanwhile. It also takes the
        // pairing out again if it is over by now, as the device goes away.
        pairing.queue();
        Ok(())
    }

    /// Sets the queue pair aside for the pairing, and enters that into the book.
    fn begin(&self, qp: &Qp, attr: &QpModify, pairing: &Arc<Pairing>) -> Result {
        let pair = *pairing.pair();
        let node = RBTreeNode::new(pair.own.qpn(), pairing.clone(), GFP_KERNEL_ACCOUNT)?;
        qp.begin_to_meet(pair, attr, pairing.clone())?;
        let mut book = self.book.lock();
        // Somebody may have reset the queue pair, and begun anew.
        let node = match qp.is_for(&**pairing) {
            true => Ok(book.pairings.insert(node)),
            false => Err(node),
        };
        drop(book);
        drop(node);
        Ok(())
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

    /// Makes the device listen, until [`MeetingPlace::stop_listening`].
    fn listen(self: &Arc<Self>, netdev: &NetDevice, at: ListensAt) -> Result<(), Why> {
        let mut all = self.listening.lock();
        // Bound: the ways that there have been while queue pairs waited: what the parameter was set
        // to, and where an administrator has moved the interface.
        if let Some(open) = all.iter_mut().find(|open| open.at == at) {
            open.users += 1;
            return Ok(());
        }
        // The compiler leaves checks of arithmetic in `reserve()`, which would call what panics.
        let count = all.len().saturating_add(1);
        let more = KVec::with_capacity(count, GFP_KERNEL);
        let mut more = more.map_err(|_| plain(ENOMEM))?;
        // All users of the device share the listener, so none of them pays for it, nor for who has
        // not said yet whom it wants.
        let open = Payer::nobody().pays(|| self.open(netdev, at));
        let open = open.map_err(|error| (error, "cannot listen at the port"))?;
        // There is room for all. Bound: as above.
        for open in core::mem::take(&mut *all) {
            more.push_within_capacity(open).map_err(|_| plain(ENOMEM))?;
        }
        more.push_within_capacity(open).map_err(|_| plain(ENOMEM))?;
        *all = more;
        Ok(())
    }

    fn open(self: &Arc<Self>, netdev: &NetDevice, at: ListensAt) -> Result<OpenListener> {
        let any: IpAddr = match at.is_ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let addr = SocketAddr::from((any, at.way.port));
        let dev = &self.endpoints.dev;
        let turns = Turns::new(dev.queues(), request::read)?;
        let asked = Addressee::Other(self.clone());
        // The largest backlog: a program connects all of its queue pairs at once.
        let listener = Listener::new(&self.endpoints, turns, asked, u32::MAX)?;
        let place = ListenAt::for_numbers(&self.acceptors, dev, netdev, addr);
        let acceptor = join(&listener, place)?;
        Ok(OpenListener {
            at,
            users: Saturating(1),
            listener,
            acceptor,
        })
    }

    fn stop_listening(&self, at: ListensAt) {
        let mut all = self.listening.lock();
        // There is none any more if the device goes away.
        let Some(index) = all.iter().position(|open| open.at == at) else {
            return;
        };
        let is_last = all.get_mut(index).is_some_and(|open| {
            open.users -= 1;
            open.users.0 == 0
        });
        if is_last {
            if let Ok(open) = all.remove(index) {
                open.close();
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

    /// Forgets what is parked there of endpoint `number`.
    fn unpark(&self, key: (u32, Gid), number: usize) {
        let mut book = self.book.lock();
        let parked = book.parked.get(&key);
        if parked.is_some_and(|parked| parked.number == number) {
            let _ = book.take_parked(key);
        }
    }

    /// Returns whether a pairing is the one of its queue pair.
    pub(super) fn has(&self, pairing: &Arc<Pairing>) -> bool {
        self.book.lock().has(pairing)
    }

    /// Forgets a pairing that is over.
    pub(super) fn forget(&self, pairing: &Arc<Pairing>) {
        let was_there = self.pairings.remove(pairing);
        // This comes each time: whoever took the step to RTR may have been on its way to the book
        // when the pairing was forgotten before.
        let mut book = self.book.lock();
        let old = match book.has(pairing) {
            true => book.pairings.remove(&pairing.pair().own.qpn()),
            false => None,
        };
        drop(book);
        drop(old);
        if let Some(at) = pairing.listens_at().filter(|_| was_there) {
            self.stop_listening(at);
        }
    }

    /// Lets no more queue pairs meet, as the device goes away.
    pub(super) fn close(&self) {
        self.pairings.close();
        let mut listening = self.listening.lock();
        for open in core::mem::take(&mut *listening) {
            open.close();
        }
        drop(listening);
        self.pairings.for_each(Pairing::finish);
    }

    /// Waits until no pairing is left.
    pub(super) fn wait_for_pairings(&self) {
        self.pairings.wait_empty();
    }

    /// Leaves a Request to the pairing that it is for, or parks it.
    fn consider(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        addresses: &Addresses,
        data: &[u8],
    ) -> Result<(), Objection> {
        let hello = Hello::parse(data)?;
        let from = addresses.remote.ip();
        let (peer, own) = (gid(from), gid(addresses.local.ip()));
        let (key, number) = ((hello.to, peer), endpoint.number());
        let parked = Parked {
            number,
            source: Source::of(from),
            hello,
        };
        let node = RBTreeNode::new(key, parked, GFP_KERNEL).map_err(|_| Objection::Crowded)?;
        let place = self.clone();
        let unanswered = Arc::new(Unanswered { place, key, number }, GFP_KERNEL);
        let unanswered = unanswered.map_err(|_| Objection::Crowded)?;
        {
            // Nobody else knows the endpoint yet, so no process keeps this waiting.
            let _st = endpoint.state.lock();
            endpoint.set_recipient(Recipient::Matchmaker(unanswered));
        }
        let qp = self.qps.find(Qpn(hello.to));
        let mut book = self.book.lock();
        let seen = qp.as_ref().map_or(Callee::Nobody, |qp| qp.as_callee());
        let pairing = match judge(&hello, peer, own, seen) {
            Verdict::Accept => book.pairings.get(&hello.to),
            Verdict::Park => None,
            Verdict::Refuse(objection) => return Err(objection),
        };
        // A queue pair may be ready before its pairing is in the book. Whoever enters it there has
        // the pairing look for what is parked next.
        let is_present =
            |pairing: &&Arc<Pairing>| qp.as_ref().is_some_and(|qp| qp.is_for(&***pairing));
        if let Some(pairing) = pairing.filter(is_present).cloned() {
            drop(book);
            return pairing.ask(endpoint, hello);
        }
        let gone = book.park(node, key, parked);
        drop(book);
        self.endpoints.dev.count(Some(Counter::QpParked));
        // Bound: two.
        for number in gone.into_iter().flatten() {
            if let Some(endpoint) = self.endpoints.all.get(number) {
                endpoint.shut();
            }
        }
        Ok(())
    }
}

impl TakesRequests for MeetingPlace {
    fn asked(self: Arc<Self>, number: usize, addresses: &Addresses, data: &[u8]) {
        let Some(endpoint) = self.endpoints.all.get(number) else {
            return;
        };
        if let Err(objection) = self.consider(&endpoint, addresses, data) {
            refuse(&endpoint, objection);
        }
    }
}
