// SPDX-License-Identifier: GPL-2.0

//! Connects one queue pair to its peer, which the consumer has named by number.
//!
//! Each such queue pair has a [`Pairing`] from the step to RTR until its stream has ended. The
//! pairing is the manager of the queue pair, and is told of the events of its present endpoint. The
//! end that dials makes one endpoint after the other until the peer answers; the other end takes an
//! endpoint from the [`MeetingPlace`]. A queue pair that is connected to itself has a TCP socket
//! that is connected to itself, and no endpoint: there is nothing to negotiate.
//!
//! Locks: endpoint mutex > the QP's mutex; `Pairing::progress` is taken last.
//!
//! Context: process, unless a method says otherwise.
#![forbid(unsafe_code)]

use super::by_number::{
    ListensAt,
    MeetingPlace,
    Way, //
};
use super::calls;
use super::endpoint::{
    Endpoint,
    EndpointState,
    Matchmaker,
    Recipient, //
};
use super::registry::Entry;
use super::secure::HANDSHAKE_MS;
use crate::ffi::mm::NoIo;
use crate::ffi::net::{
    TcpSocket,
    TcpState, //
};
use crate::ffi::rdma::iwcm::ConsumerId;
use crate::ffi::time::{
    self,
    Expires,
    Timer, //
};
use crate::limits::MAX_READS;
use crate::log::Author;
use crate::proto::by_number::{
    Caller,
    Gid,
    Hello,
    Objection,
    Pair,
    Silence,
    Trying, //
};
use crate::proto::connection::{
    Connection,
    Event,
    Input,
    StreamEnd, //
};
use crate::proto::counters::Counter;
use crate::proto::negotiate::Depths;
use crate::proto::setup::{
    Initiator,
    Params, //
};
use crate::qp::shared::{
    is_same,
    Manager, //
};
use crate::qp::Qp;
use core::net::{
    IpAddr,
    Ipv6Addr, //
};
use kernel::prelude::*;
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    SpinLockIrq, //
};
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// The depths that each end asks for. What the consumer allows is known only later, and limits the
/// Reads that this end has outstanding.
const DEPTHS: Depths = Depths {
    ird: MAX_READS,
    ord: MAX_READS,
};

/// Refuses a Request that is not answered yet.
pub(super) fn refuse(endpoint: &Arc<Endpoint>, objection: Objection) {
    let mut st = endpoint.state.lock();
    endpoint.dev().log(
        endpoint.author(&st),
        fmt!("a Request by number is refused: {}", objection.text()),
    );
    endpoint.dev().count(Some(Counter::QpRefused));
    let private_data = &objection.to_wire();
    endpoint.feed(&mut st, Input::Reject { private_data });
    drop(st);
    Endpoint::kick(endpoint.clone());
}

/// Returns the IP address that a GID stands for.
pub(super) fn ip(gid: Gid) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

pub(super) fn gid(ip: IpAddr) -> Gid {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// A queue pair that is to meet its peer, or has met it.
#[pin_data]
pub(super) struct Pairing {
    place: Arc<MeetingPlace>,
    number: usize,
    qp: Arc<Qp>,
    pair: Pair,
    way: Way,
    tos: u8,
    #[pin]
    progress: SpinLockIrq<Progress>,
    #[pin]
    timer: Timer<Self>,
    #[pin]
    work: Work<Self>,
}

struct Progress {
    /// The connection of the two queue pairs, or the present try to make one.
    endpoint: Option<Arc<Endpoint>>,
    /// A Request of the peer that is to be accepted.
    asked: Option<(Arc<Endpoint>, Hello)>,
    /// The socket of a queue pair that is connected to itself.
    own: Option<Arc<TcpSocket>>,
    trying: Trying,
    silence: Silence,
    /// Why the two queue pairs could not meet, the last time.
    objection: Option<Objection>,
    /// The stream has ended. The two may meet again if nothing has come of the stream.
    has_ended: bool,
    /// The queue pair does not wait for its peer any more, and has no stream.
    is_over: bool,
}

impl_has_work! {
    impl HasWork<Self> for Pairing { self.work }
}

impl Pairing {
    pub(super) fn new(
        place: Arc<MeetingPlace>,
        number: usize,
        qp: Arc<Qp>,
        pair: Pair,
        way: Way,
        tos: u8,
    ) -> Result<Arc<Self>> {
        let progress = Progress {
            endpoint: None,
            asked: None,
            own: None,
            trying: Trying::NOT_YET,
            silence: Silence::NONE,
            objection: None,
            has_ended: false,
            is_over: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                place,
                number,
                qp,
                pair,
                way,
                tos,
                progress <- new_spinlock_irq!(progress, "rsiw::cm::Pairing::progress"),
                timer <- Timer::new(),
                work <- new_work!("rsiw::cm::Pairing::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Returns where the device listens for this pairing, if it is the peer who connects.
    pub(super) fn listens_at(&self) -> Option<ListensAt> {
        ListensAt::of(&self.pair, self.way)
    }

    /// Queues the work. Any context.
    pub(super) fn queue(self: &Arc<Self>) {
        let _ = self.place.endpoints.dev.cm_queue().enqueue(self.clone());
    }

    /// Ends the pairing, and returns what `take` takes of the endpoint that it has. Any context.
    fn end(
        self: &Arc<Self>,
        take: impl FnOnce(&mut Option<Arc<Endpoint>>) -> Option<Arc<Endpoint>>,
    ) -> Option<Arc<Endpoint>> {
        let mut progress = self.progress.lock();
        progress.is_over = true;
        let endpoint = take(&mut progress.endpoint);
        drop(progress);
        self.queue();
        endpoint
    }

    /// Ends the pairing if the two have not met, as the device goes away. The endpoint keeps its
    /// place: it may be giving the stream to the queue pair at this moment, and then it has to end
    /// that stream.
    pub(super) fn finish(self: &Arc<Self>) {
        if self.qp.has_stream() {
            return;
        }
        if let Some(endpoint) = self.end(|endpoint| endpoint.clone()) {
            endpoint.shut();
        }
    }

    /// Makes `endpoint` the present one, unless the pairing is over.
    fn take_on(&self, endpoint: &Arc<Endpoint>) -> Result {
        let mut progress = self.progress.lock();
        if progress.is_over {
            return Err(ECANCELED);
        }
        progress.endpoint = Some(endpoint.clone());
        Ok(())
    }

    fn let_go(&self) {
        let endpoint = self.progress.lock().endpoint.take();
        drop(endpoint);
        self.qp.part(self);
    }

    fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.progress.lock().endpoint.clone()
    }

    fn act(self: &Arc<Self>) {
        let (has_ended, is_over, own) = {
            let mut progress = self.progress.lock();
            let has_ended = core::mem::take(&mut progress.has_ended);
            let is_over = progress.is_over;
            let own = progress.own.take_if(|_| has_ended || is_over);
            (has_ended, is_over, own)
        };
        drop(own);
        if is_over || (has_ended && !self.meets_again()) {
            return self.clean_up();
        }
        let asked = self.progress.lock().asked.take();
        if let Some((endpoint, hello)) = asked {
            self.accept(&endpoint, hello);
        }
        if self.pair.dials() {
            let sends = self.qp.may_send_by_now();
            let put_off = self.progress.lock().trying.put_off(sends);
            if let Some(ms) = put_off {
                return Timer::start(self, ms);
            }
        }
        if self.endpoint().is_none() {
            let is_first = self.progress.lock().trying.is_first();
            let tried = match self.pair.caller() {
                Caller::ThisEnd => self.dial(),
                Caller::Nobody => self.join(),
                Caller::OtherEnd => {
                    self.look();
                    Ok(())
                }
            };
            // If the queue pair has gone away meanwhile, this is no error.
            let still_waits = || self.qp.waits_for_peer(&**self).is_some();
            if let Some(error) = tried.err().filter(|_| is_first && still_waits()) {
                self.place.endpoints.dev.log(
                    Author::Process,
                    fmt!("QP {}: cannot dial: {error:?}", self.pair.own.qpn()),
                );
            }
        }
        let Some((posted, most_ms)) = self.qp.waits_for_peer(&**self) else {
            return self.watch();
        };
        // More time for a handshake of TLS, which takes a process on either host.
        let more_ms = self.place.endpoints.dev.tls().map_or(0, |_| HANDSHAKE_MS);
        let most_ms = most_ms.saturating_add(more_ms);
        let now = time::now_ms();
        let (pause, objection) = {
            let mut progress = self.progress.lock();
            let pause = progress.trying.next(now, posted, most_ms);
            (pause, progress.objection)
        };
        match pause {
            Some(ms) => Timer::start(self, ms),
            None => self.qp.unreachable(objection, &**self),
        }
    }

    /// Waits for the peer once more, if nothing has come of the stream that has ended, and nobody
    /// has begun to connect the queue pair anew.
    fn meets_again(self: &Arc<Self>) -> bool {
        self.place.has(self) && self.qp.meets_again(self.clone())
    }

    /// Looks whether the peer answers, now and then while there is a stream. TCP would try for much
    /// longer than the consumer has set.
    fn watch(self: &Arc<Self>) {
        let Some((most_ms, unanswered_ms)) = self.qp.peer_answers(&**self) else {
            return;
        };
        let now = time::now_ms();
        let is_silent = {
            let silence = &mut self.progress.lock().silence;
            silence.look(now, unanswered_ms, most_ms)
        };
        match is_silent {
            true => self.qp.peer_is_lost(&**self),
            false => Timer::start(self, Silence::pause(most_ms)),
        }
    }

    /// Lets the first try begin, if it has waited for the step to RTS.
    pub(super) fn hurry(self: &Arc<Self>) {
        if self.pair.dials() && self.progress.lock().trying.is_first() {
            self.queue();
        }
    }

    /// Drops what is left of a pairing that is over. It stays over, also if the timer has just run
    /// out: its queue pair may be connected anew by now, by another pairing.
    fn clean_up(self: &Arc<Self>) {
        let asked = {
            let mut progress = self.progress.lock();
            progress.is_over = true;
            progress.asked.take()
        };
        if let Some((endpoint, _)) = asked {
            refuse(&endpoint, Objection::Taken);
        }
        Timer::stop(self);
        self.place.forget(self);
    }

    /// Connects the queue pair to itself, step by step: it gets its stream once TCP is connected.
    fn join(self: &Arc<Self>) -> Result {
        if self.qp.waits_for_peer(&**self).is_none() {
            return Ok(());
        }
        let own = self.progress.lock().own.clone();
        let sock = match own {
            Some(sock) => sock,
            None => self.connect_to_itself()?,
        };
        match sock.state() {
            TcpState::Connecting => return Ok(()),
            TcpState::Established => {}
            _ => {
                self.progress.lock().own = None;
                return Err(sock.error().unwrap_or(ECONNRESET));
            }
        }
        let hello = self.qp.hello(&**self).ok_or(ECANCELED)?;
        if let Err(objection) = self.qp.meet(hello, &**self) {
            self.progress.lock().objection = Some(objection);
            return Err(EPROTO);
        }
        let params = Params::with_itself(&calls::config(&self.place.endpoints.dev));
        let started = self.qp.start(&sock, &params, &**self);
        if started.is_err() {
            self.qp.part(&**self);
        }
        started
    }

    /// Makes the socket, and begins to connect it to itself.
    fn connect_to_itself(&self) -> Result<Arc<TcpSocket>> {
        let dev = &self.place.endpoints.dev;
        let netdev = dev.netdev().ok_or(ENODEV)?;
        let at = netdev.address(self.pair.own.gid(), 0);
        let sock = calls::connect_to_itself(dev, &netdev, &at, self.tos, &self.qp.shared.id.payer)?;
        dev.count(Some(Counter::QpDialed));
        self.progress.lock().own = Some(sock.clone());
        Ok(sock)
    }

    /// Begins to connect to the peer.
    fn dial(self: &Arc<Self>) -> Result {
        let endpoints = &self.place.endpoints;
        let dev = &endpoints.dev;
        let netdev = dev.netdev().ok_or(ENODEV)?;
        let hello = self.qp.hello(&**self).ok_or(ECANCELED)?.to_wire();
        let initiator = Initiator::only_enhanced(calls::config(dev), DEPTHS);
        let initiator = KBox::new(initiator, GFP_KERNEL_ACCOUNT)?;
        let local = netdev.address(self.pair.own.gid(), 0);
        let remote = netdev.address(self.pair.peer.gid(), self.way.port);
        let dial = calls::Dial::by_number(dev, (local, remote), self.tos, &hello)?;
        let endpoint = endpoints.add(self.qp.shared.id.payer.clone())?;
        let mut st = endpoint.state.lock();
        st.connection = Connection::closed();
        let result = self.take_on(&endpoint).and_then(|()| {
            st.qp = Some(self.qp.clone());
            st.dial = Some(dial);
            endpoint.set_recipient(Recipient::Matchmaker(self.clone()));
            let (connection, outputs) = Connection::initiator(initiator);
            endpoint.begin(&mut st, connection, outputs)
        });
        drop(st);
        if result.is_err() {
            self.let_go();
        }
        // While the mutex was held, TCP and the timer may have kicked the endpoint in vain.
        Endpoint::kick(endpoint);
        let counter = match self.progress.lock().trying.is_first() {
            true => Counter::QpDialed,
            false => Counter::QpRedialed,
        };
        dev.count(Some(counter));
        result
    }

    /// Looks whether the peer's Request was there before this side was ready.
    fn look(self: &Arc<Self>) {
        if let Some((endpoint, hello)) = self.place.take_parked(&self.pair) {
            self.accept(&endpoint, hello);
        }
    }

    /// Leaves the peer's Request to the work, which accepts it. Waits for nobody.
    pub(super) fn ask(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        hello: Hello,
    ) -> Result<(), Objection> {
        let earlier = {
            let mut progress = self.progress.lock();
            if progress.is_over {
                return Err(Objection::Taken);
            }
            progress.asked.replace((endpoint.clone(), hello))
        };
        if let Some((earlier, _)) = earlier {
            earlier.shut();
        }
        self.queue();
        Ok(())
    }

    /// Accepts the peer's Request.
    fn accept(self: &Arc<Self>, endpoint: &Arc<Endpoint>, hello: Hello) {
        let mut st = endpoint.state.lock();
        // The peer may have given up, or the Request may have waited for too long.
        if !st.connection.is_requested() {
            return;
        }
        let objection = match self.qp.meet(hello, &**self) {
            Ok(own) => self.try_accept(endpoint, &mut st, own).err(),
            Err(objection) => Some(objection),
        };
        drop(st);
        match objection {
            Some(objection) => refuse(endpoint, objection),
            None => Endpoint::kick(endpoint.clone()),
        }
    }

    fn try_accept(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        st: &mut EndpointState,
        own: Hello,
    ) -> Result<(), Objection> {
        if self.take_on(endpoint).is_err() {
            self.qp.part(&**self);
            return Err(Objection::Taken);
        }
        st.qp = Some(self.qp.clone());
        endpoint.set_recipient(Recipient::Matchmaker(self.clone()));
        if let Some(sock) = &st.sock {
            sock.charge_to(&self.qp.shared.id.payer);
        }
        let accept = Input::Accept {
            want: DEPTHS,
            private_data: &own.to_wire(),
        };
        // If this fails, TCP is reset, and the peer tries again.
        if endpoint.try_feed(st, accept).is_err() {
            self.let_go();
        }
        Ok(())
    }
}

impl Matchmaker for Pairing {
    /// The side that dials checks what the peer said in its Reply; the other side has checked the
    /// Request.
    fn start(&self, sock: &Arc<TcpSocket>, params: &Params, reply: &[u8]) -> Result {
        if self.pair.dials() {
            let met = Hello::parse(reply).and_then(|hello| self.qp.meet(hello, self));
            if let Err(objection) = met {
                self.progress.lock().objection = Some(objection);
                return Err(EPROTO);
            }
        }
        self.qp.start(sock, params, self)
    }

    fn told(&self, event: &Event, data: &[u8]) {
        if let Event::Reply {
            error: Some(_),
            data: len,
            ..
        } = *event
        {
            let objection = match data.get(..len) {
                Some(data) if len > 0 => Hello::parse(data).err(),
                _ => None,
            };
            self.let_go();
            let before = self.progress.lock().objection;
            if let Some(objection) = objection.filter(|_| objection != before) {
                self.progress.lock().objection = Some(objection);
                self.place.endpoints.dev.log(
                    self.qp.shared.id.peer_author(),
                    fmt!(
                        "QP {}: the peer refuses to connect by number: {}",
                        self.pair.own.qpn(),
                        objection.text()
                    ),
                );
            }
        }
    }
}

impl WorkItem for Pairing {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        this.qp.shared.id.payer.pays(|| this.act());
    }
}

impl Expires for Pairing {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.queue();
    }
}

impl Entry for Pairing {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        None
    }
}

impl Manager for Pairing {
    fn abort(self: Arc<Self>) {
        if let Some(endpoint) = self.end(Option::take) {
            Manager::abort(endpoint);
        }
    }

    fn first_segment(self: Arc<Self>) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.first_segment();
        }
    }

    fn peer_closing(self: Arc<Self>) {}

    fn stream_ended(self: Arc<Self>, end: StreamEnd) {
        let endpoint = {
            let mut progress = self.progress.lock();
            progress.has_ended = true;
            progress.endpoint.take()
        };
        self.queue();
        if let Some(endpoint) = endpoint {
            endpoint.stream_ended(end);
        }
    }

    fn leaves_to(&self, other: &dyn Manager) -> bool {
        let progress = self.progress.lock();
        let endpoint = progress.endpoint.as_ref();
        endpoint.is_some_and(|endpoint| is_same(&**endpoint, other))
    }
}
