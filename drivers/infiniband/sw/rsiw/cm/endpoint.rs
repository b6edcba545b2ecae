// SPDX-License-Identifier: GPL-2.0

//! Endpoints. An endpoint has what a `proto::connection` needs of the kernel, and the notes that
//! callbacks, the timer and the QP leave for the work.
//!
//! Context: see the methods.
#![forbid(unsafe_code)]

use super::calls::Dial;
use super::listener::Listener;
use super::registry::{
    Entry,
    InLine,
    InTurn,
    Line,
    Lines,
    Registry,
    Spot,
    Turns, //
};
use crate::device::Device;
use crate::ffi::mm::Payer;
use crate::ffi::net::tls::Handshake;
use crate::ffi::net::{
    Callbacks,
    LockedSock,
    StreamEvent,
    StreamHandler,
    TcpSocket, //
};
use crate::ffi::rdma::iwcm::{
    AcceptRef,
    Addresses,
    CallId,
    CmId,
    ConsumerId, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::task::Process;
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::limits::Quota;
use crate::notes::{
    Noticeboard,
    Slot, //
};
use crate::proto::connection::{
    Awaits,
    Code,
    Connection,
    Event,
    StreamEnd, //
};
use crate::proto::crowd::Source;
use crate::proto::notes::{
    EndpointNote,
    Noted,
    Notes, //
};
use crate::proto::setup::{
    Initiator,
    Params,
    Responder, //
};
use crate::qp::shared::Manager;
use crate::qp::Qp;
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    AtomicTracker,
    ListLinks,
    TryNewListArc, //
};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{
    new_mutex,
    new_spinlock,
    new_spinlock_irq,
    Arc,
    ArcBorrow,
    Mutex,
    SpinLock,
    SpinLockIrq, //
};
use kernel::workqueue::Work;
use kernel::{
    impl_has_work,
    new_work, //
};

/// How long a handshake of TLS may wait for others, in milliseconds.
const PATIENCE_MS: u32 = 10_000;

/// Who is told of the connection's events.
#[derive(Clone)]
pub(super) enum Recipient {
    /// A consumer of the connection manager, by its identifier.
    Consumer(ARef<CmId>),
    /// Who connects a queue pair by number.
    Matchmaker(Arc<dyn Matchmaker>),
}

/// Who connects a queue pair by number, and is told of the connection in the place of a consumer.
/// Process context.
pub(super) trait Matchmaker: Send + Sync {
    /// Gives the stream to the queue pair, as [`Qp::start`] does. On the side that connects,
    /// `reply` is the private data of the Reply.
    fn start(&self, sock: &Arc<TcpSocket>, params: &Params, reply: &[u8]) -> Result;

    /// Takes note of an event of the connection; `data` begins with the private data of a Reply.
    fn told(&self, event: &Event, data: &[u8]);
}

/// Who acts for the endpoint until there is a Request: instead of the endpoint's own work item, a
/// work item that many endpoints share runs for it (see [`super::registry`]).
#[derive(Clone)]
pub(super) enum Deputy {
    /// The work item of the listener, on the side that was connected to.
    Listener(Arc<Listener>),
    /// The work item of the device, on the side that connects.
    Initiators,
}

/// How far the TLS of a connection is (see [`super::secure`]).
pub(super) enum Security {
    /// The connection has TLS, or is to have none.
    Settled,
    /// On the side that was connected to: the peer has not sent all of its ClientHello.
    Silent,
    /// The handshake is to begin once TCP is connected, and within `left` milliseconds from then
    /// on.
    Wanted {
        left: u32,
    },
    UnderWay(Handshake<Endpoint>),
    /// The connection has TLS, and waits for older ones, for `left` milliseconds at most.
    InLine {
        left: u32,
    },
    Failed(Error),
}

impl Security {
    pub(super) const WANTED: Self = Self::Wanted { left: PATIENCE_MS };

    /// Takes note that `ms` milliseconds have passed.
    pub(super) fn elapsed(&mut self, ms: u32) {
        if let Self::InLine { left } = self {
            *left = left.saturating_sub(ms);
        }
    }

    pub(super) fn is_in_line(&self) -> bool {
        matches!(self, Self::InLine { .. })
    }

    /// Returns whether the timer runs for the next try to ask for a handshake.
    pub(super) fn is_tried_again(&self) -> bool {
        matches!(self, Self::Wanted { left } if *left < PATIENCE_MS)
    }
}

/// A connection that keeps the set-up state of either side in a `KBox`.
pub(super) type OwnConnection = Connection<KBox<Initiator>, KBox<Responder>>;

/// What the endpoint's mutex guards.
pub(super) struct EndpointState {
    pub(super) connection: OwnConnection,
    /// The request of an initiator, until the connection is up or has failed.
    pub(super) dial: Option<KBox<Dial>>,
    /// The process that connects or has accepted, until its consumer is told how that ended.
    pub(super) process: Option<Process>,
    /// Why the Request could not be sent; the work feeds it to the connection.
    pub(super) unsent: Option<Code>,
    pub(super) sock: Option<Arc<TcpSocket>>,
    /// Where the connection comes from, if it was accepted.
    pub(super) source: Source,
    pub(super) security: Security,
    /// The place in a line: from the beginning of a handshake of TLS until the Request was sent, or
    /// its event delivered.
    pub(super) spot: Option<Spot<Endpoint>>,
    /// The callbacks during set-up, and while lingering; in between the QP has its own.
    pub(super) callbacks: Option<Callbacks<Endpoint>>,
    pub(super) qp: Option<Arc<Qp>>,
    /// What iw_cm has got for the accept.
    pub(super) accepted: Option<AcceptRef>,
    /// The place of a refused connection among those that linger.
    pub(super) refused: Option<Quota>,
    /// Notes that were taken and not acted upon yet; empty except in `advance`.
    pub(super) left: Notes<EndpointNote>,
}

impl Noted for EndpointState {
    type Note = EndpointNote;

    fn left(&mut self) -> &mut Notes<EndpointNote> {
        &mut self.left
    }
}

impl EndpointState {
    fn new() -> Self {
        Self {
            connection: Connection::new(),
            dial: None,
            process: None,
            unsent: None,
            sock: None,
            source: Source::UNKNOWN,
            security: Security::Settled,
            spot: None,
            callbacks: None,
            qp: None,
            accepted: None,
            refused: None,
            left: Notes::NONE,
        }
    }

    pub(super) fn both_ends(&self) -> Option<Addresses> {
        let sock = self.sock.as_ref()?;
        Some(Addresses {
            local: sock.local_addr().ok()?.get()?,
            remote: sock.peer_addr().ok()?.get()?,
        })
    }

    /// Returns whether no older connection of its line is about to send or receive its Request.
    pub(super) fn is_first_in_line(&self) -> bool {
        self.spot.as_ref().is_none_or(Spot::is_first)
    }

    /// Returns whether the process that waits for the connection is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_ending)
    }

    /// Returns whether the connection lingers, and TCP has not delivered all that was sent.
    pub(super) fn is_unacknowledged(&self) -> bool {
        let sock = self.sock.as_ref();
        self.connection.awaits() == Awaits::Drained
            && sock.is_some_and(|sock| !sock.is_acknowledged())
    }
}

/// What observers may see. They must not take the endpoint's mutex: work that finds it taken leaves
/// the endpoint to whoever holds it.
struct Visible {
    recipient: Option<Recipient>,
    /// The identifier by which the consumer knows, or has known, the connection.
    consumer: Option<ConsumerId>,
    phase: &'static CStr,
}

/// The endpoints of a device, and what they have in common.
#[pin_data]
pub(super) struct Endpoints {
    pub(super) dev: Arc<Device>,
    #[pin]
    pub(super) all: Registry<Endpoint>,
    /// Endpoints that connect and have not sent their Request.
    initiators: Arc<Turns<Endpoint>>,
    lines: Arc<Lines<Endpoint>>,
}

impl Endpoints {
    pub(super) fn new(dev: &Arc<Device>, initiators: Arc<Turns<Endpoint>>) -> Result<Arc<Self>> {
        let lines = Lines::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                all <- Registry::new(),
                initiators,
                lines,
            }),
            GFP_KERNEL,
        )
    }

    /// Adds an endpoint, or returns `ENODEV` if the device is going away. The endpoint does nothing
    /// until its connection is set and it is kicked. `payer` pays for what its work allocates.
    pub(super) fn add(self: &Arc<Self>, payer: Payer) -> Result<Arc<Endpoint>> {
        self.all
            .add(|number| Endpoint::new(self.clone(), number, payer))
    }
}

/// One connection.
#[pin_data]
pub(super) struct Endpoint {
    pub(super) endpoints: Arc<Endpoints>,
    /// The number by which iw_cm and the registry know the endpoint.
    number: usize,
    /// Who pays until there is a QP, which has a payer of its own.
    pub(super) payer: Payer,
    #[pin]
    timer: Timer<Self>,
    pub(super) notes: Noticeboard<EndpointNote>,
    /// How the stream ended, for [`EndpointNote::StreamEnded`].
    #[pin]
    pub(super) stream_end: Slot<StreamEnd>,
    #[pin]
    deputy: SpinLockIrq<Option<Deputy>>,
    #[pin]
    pub(super) state: Mutex<EndpointState>,
    /// Written under the mutex.
    #[pin]
    shown: SpinLock<Visible>,
    #[pin]
    work: Work<Self>,
    #[pin]
    in_list: AtomicTracker,
    /// The links of the list in [`super::registry::Turns`].
    #[pin]
    links: ListLinks,
}

impl_has_work! {
    impl HasWork<Self> for Endpoint { self.work }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Endpoint { tracked_by in_list: AtomicTracker; }
}

impl_list_item! {
    impl ListItem<0> for Endpoint { using ListLinks { self.links }; }
}

impl Endpoint {
    fn new(endpoints: Arc<Endpoints>, number: usize, payer: Payer) -> Result<Arc<Self>> {
        let state = EndpointState::new();
        let shown = Visible {
            recipient: None,
            consumer: None,
            phase: state.connection.phase(),
        };
        Arc::pin_init(
            pin_init!(Self {
                endpoints,
                number,
                payer,
                timer <- Timer::new(),
                notes: Noticeboard::new(),
                stream_end <- Slot::new(),
                deputy <- new_spinlock_irq!(None, "rsiw::cm::Endpoint::deputy"),
                state <- new_mutex!(state, "rsiw::cm::Endpoint::state"),
                shown <- new_spinlock!(shown, "rsiw::cm::Endpoint::shown"),
                work <- new_work!("rsiw::cm::Endpoint::work"),
                in_list <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn dev(&self) -> &Device {
        &self.endpoints.dev
    }

    /// Describes the connection, if `id` is its consumer's identifier. Waits for nobody.
    /// Process context.
    pub(super) fn describe(&self, id: ConsumerId, to: &mut Details<'_>) -> Result {
        let phase = {
            let shown = self.shown.lock();
            match &shown.recipient {
                Some(Recipient::Consumer(own)) if own.is_of(id) => shown.phase,
                _ => return Ok(()),
            }
        };
        to.number(c"conn", self.trace_number())?;
        to.word(c"phase", phase)
    }

    /// Returns the number that trace events show.
    pub(super) fn trace_number(&self) -> u32 {
        // CAST: its low half is enough to tell connections apart.
        self.number as u32
    }

    /// Returns who connects the queue pair by number, if somebody does.
    pub(super) fn matchmaker(&self) -> Option<Arc<dyn Matchmaker>> {
        match self.recipient() {
            Some(Recipient::Matchmaker(matchmaker)) => Some(matchmaker),
            _ => None,
        }
    }

    /// Publishes the phase of the connection. Under the mutex.
    pub(super) fn show_phase(&self, phase: &'static CStr) {
        self.shown.lock().phase = phase;
    }

    pub(super) fn recipient(&self) -> Option<Recipient> {
        self.shown.lock().recipient.clone()
    }

    /// Under the mutex.
    pub(super) fn set_recipient(&self, recipient: Recipient) {
        let old = self.shown.lock().recipient.replace(recipient);
        drop(old);
    }

    /// Sets the identifier by which a consumer connects or accepts, and lets [`Registry::find`]
    /// find the endpoint by it. Under the mutex, and while there is a connection.
    pub(super) fn introduce(&self, id: CallId<'_>) {
        self.set_recipient(Recipient::Consumer(id.into()));
        let consumer = id.consumer();
        self.shown.lock().consumer = Some(consumer);
        self.endpoints.all.introduce(self.number, consumer);
    }

    /// Under the mutex.
    pub(super) fn take_recipient(&self) -> Option<Recipient> {
        self.shown.lock().recipient.take()
    }

    /// Queues the work: the deputy's if there is one, else the endpoint's own. Any context.
    pub(super) fn kick(this: impl Into<Arc<Self>>) {
        let this: Arc<Self> = this.into();
        {
            let deputy = this.deputy.lock();
            match &*deputy {
                Some(Deputy::Listener(listener)) => return listener.turns.arrived(this.clone()),
                Some(Deputy::Initiators) => return this.endpoints.initiators.arrived(this.clone()),
                None => {}
            }
        }
        this.queue();
    }

    /// Queues the endpoint's own work. Any context.
    fn queue(self: &Arc<Self>) {
        // If the work is queued already, it will see what the caller has noted.
        let _ = self.dev().cm_queue().enqueue(self.clone());
    }

    /// Puts the endpoint into a line, behind older connections. Under the mutex.
    pub(super) fn stand_in(self: &Arc<Self>, st: &mut EndpointState, line: Line) -> Result {
        if st.spot.is_none() {
            st.spot = Some(self.endpoints.lines.join(line, self.clone())?);
        }
        Ok(())
    }

    pub(super) fn leave_to(&self, deputy: Deputy) {
        *self.deputy.lock() = Some(deputy);
    }

    pub(super) fn deputy(&self) -> Option<Deputy> {
        self.deputy.lock().clone()
    }

    /// Lets the endpoint's own work act from now on.
    pub(super) fn take_over(self: &Arc<Self>) {
        let deputy = self.deputy.lock().take();
        drop(deputy);
        self.queue();
    }

    /// Leaves a note for the work. Any context.
    fn note(self: &Arc<Self>, note: EndpointNote) {
        self.notes.leave(note);
        Self::kick(self.clone());
    }

    /// Ends the connection if its Request is not there yet ([`EndpointNote::DrivenOut`]).
    pub(super) fn drive_out(self: &Arc<Self>) {
        self.note(EndpointNote::DrivenOut);
    }

    /// Ends the connection whatever its state: the device goes away, or its parked Request has to
    /// go.
    pub(super) fn shut(self: &Arc<Self>) {
        self.note(EndpointNote::Shut);
    }

    pub(super) fn arm(self: &Arc<Self>, st: &mut EndpointState, ms: u32) {
        self.disarm(st);
        Timer::start(self, ms);
    }

    /// Stops the timer, and forgets that it has expired, if it has.
    pub(super) fn disarm(self: &Arc<Self>, st: &mut EndpointState) {
        Timer::stop(self);
        self.notes.take(EndpointNote::Expired);
        st.left.remove(EndpointNote::Expired);
    }

    /// Returns whether somebody has asked to end the connection.
    pub(super) fn is_given_up(&self) -> bool {
        let notes = self.notes.peek();
        notes.contains(EndpointNote::Shut) || notes.contains(EndpointNote::Abort)
    }

    /// Returns whether the timer has expired since it was set.
    pub(super) fn has_expired(&self) -> bool {
        self.notes.peek().contains(EndpointNote::Expired)
    }
}

impl InTurn for Endpoint {}

impl InLine for Endpoint {
    fn become_first(self: Arc<Self>) {
        Self::kick(self);
    }
}

impl Entry for Endpoint {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        self.shown.lock().consumer
    }
}

impl Expires for Endpoint {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.note(EndpointNote::Expired);
    }
}

impl Manager for Endpoint {
    fn abort(self: Arc<Self>) {
        self.note(EndpointNote::Abort);
    }

    fn first_segment(self: Arc<Self>) {
        self.note(EndpointNote::FirstSegment);
    }

    fn peer_closing(self: Arc<Self>) {
        self.note(EndpointNote::PeerClosing);
    }

    fn stream_ended(self: Arc<Self>, end: StreamEnd) {
        self.stream_end.put_first(end);
        self.note(EndpointNote::StreamEnded);
    }
}

impl StreamHandler for Endpoint {
    fn data_ready(this: ArcBorrow<'_, Self>, _sk: &mut LockedSock<'_>) {
        Self::kick(this);
    }

    fn records_ready(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }

    fn state_change(this: ArcBorrow<'_, Self>, _event: StreamEvent) {
        Self::kick(this);
    }
}
