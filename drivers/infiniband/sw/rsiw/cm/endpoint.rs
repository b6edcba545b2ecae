// SPDX-License-Identifier: GPL-2.0

//! One connection, from its first SYN to its last event.
#![forbid(unsafe_code)]

use super::{
    active::{
        self,
        Attempt, //
    },
    events::{
        Established,
        Outbox,
        Pending, //
    },
    passive,
    turns::Deputy,
    TICK_MS, //
};
use crate::{
    device::{
        Device,
        Quota, //
    },
    ffi::{
        iwcm::{
            CmId,
            Depths, //
        },
        log::pr_ratelimited,
        net::{
            Callbacks,
            LockedSock,
            StreamEvent,
            StreamHandler,
            TcpSocket, //
        },
        noio::NoIo,
        timer::{
            Expires,
            Timer, //
        },
    },
    proto::conn::Responder,
    qp::Qp, //
};
use kernel::{
    impl_has_work,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        ListLinks,
        TryNewListArc, //
    },
    new_work,
    prelude::*,
    sync::{
        aref::ARef,
        new_mutex,
        new_spinlock_irq,
        Arc,
        ArcBorrow,
        Mutex,
        MutexGuard,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// TCP is gone, or was reset.
    Reset,
    /// A FIN was sent, perhaps behind a Terminate: the close must not turn into a RST that
    /// destroys it (T-32).
    Graceful,
}

/// Where a connection is. What belongs to a step goes with it.
pub(super) enum Phase {
    /// Being made; the work leaves it alone.
    New,
    /// Initiator: TCP connects.
    Connecting(KBox<Attempt>),
    /// Initiator: the Request is sent.
    AwaitReply(KBox<Attempt>),
    /// Responder: TCP is up.
    AwaitRequest(KBox<Responder>),
    /// Responder: the consumer has to answer.
    Requested(KBox<Responder>),
    /// The QP has the stream.
    Running,
    /// The connection is over; the FIN waits until the peer has what stands in front of it.
    Finishing,
    /// The connection is over; what the peer still sends is dropped until its FIN comes.
    Lingering,
    /// Nothing is left but events to deliver.
    Closed,
}

/// Whether a close event is due when the stream ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// No: iw_cm does not know of a connection.
    Down,
    /// After an established event: the consumer accepted.
    Accepted(Depths),
    /// Yes.
    Up,
}

/// What the endpoint's mutex guards.
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) link: Link,
    pub(super) sock: Option<Arc<TcpSocket>>,
    /// While set-up, or lingering, receives.
    pub(super) callbacks: Option<Callbacks<Endpoint>>,
    pub(super) cm_id: Option<ARef<CmId>>,
    pub(super) qp: Option<Arc<Qp>>,
    /// A refused connection's place among those that linger.
    pub(super) refused: Option<Quota>,
    pub(super) outbox: Outbox,
}

impl State {
    fn new() -> Self {
        Self {
            phase: Phase::New,
            link: Link::Down,
            sock: None,
            callbacks: None,
            cm_id: None,
            qp: None,
            refused: None,
            outbox: Outbox::default(),
        }
    }
}

/// Notes for the work, left in any context.
#[derive(Default)]
struct Notes {
    abort: bool,
    shut: bool,
    expired: bool,
    rtr: bool,
    peer_closing: bool,
    stream_end: Option<StreamEnd>,
}

/// One connection.
#[pin_data]
pub(crate) struct Endpoint {
    pub(super) dev: Arc<Device>,
    /// By which iw_cm and the registry know it.
    pub(super) number: usize,
    #[pin]
    timer: Timer<Self>,
    #[pin]
    notes: SpinLockIrq<Notes>,
    /// Whose work acts in the place of the endpoint's, until there is a Request.
    #[pin]
    deputy: SpinLockIrq<Option<Deputy>>,
    #[pin]
    pub(super) state: Mutex<State>,
    #[pin]
    work: Work<Self>,
    #[pin]
    in_list: AtomicTracker,
    /// Of [`super::turns::Turns`].
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
    /// Makes an endpoint and registers it. It stays as it is until its phase is set and it is
    /// kicked.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is going away.
    pub(super) fn register(dev: &Arc<Device>) -> Result<Arc<Self>> {
        dev.cm.add(|number| Self::new(dev.clone(), number))
    }

    fn new(dev: Arc<Device>, number: usize) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                dev,
                number,
                timer <- Timer::new(),
                notes <- new_spinlock_irq!(Notes::default(), "rsiw::cm::Endpoint::notes"),
                deputy <- new_spinlock_irq!(None, "rsiw::cm::Endpoint::deputy"),
                state <- new_mutex!(State::new(), "rsiw::cm::Endpoint::state"),
                work <- new_work!("rsiw::cm::Endpoint::work"),
                in_list <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Queues the work, or lets the deputy's look at the endpoint. Any context.
    pub(super) fn kick(this: impl Into<Arc<Self>>) {
        let this: Arc<Self> = this.into();
        {
            let deputy = this.deputy.lock();
            match &*deputy {
                Some(Deputy::Listener(listener)) => return listener.arrived(this.clone()),
                Some(Deputy::Initiators) => return this.dev.initiators.arrived(this.clone()),
                None => {}
            }
        }
        this.queue();
    }

    /// Queues the endpoint's own work. Any context.
    fn queue(self: &Arc<Self>) {
        // If it is queued already it will see what the caller noted.
        let _ = self.dev.cm_queue().enqueue(self.clone());
    }

    /// Lets `deputy` act for the endpoint until there is a Request.
    pub(super) fn leave_to(&self, deputy: Deputy) {
        *self.deputy.lock() = Some(deputy);
    }

    /// Who acts for the endpoint, if somebody does.
    pub(super) fn deputy(&self) -> Option<Deputy> {
        self.deputy.lock().clone()
    }

    /// Lets the endpoint's own work act from now on.
    fn take_over(self: &Arc<Self>) {
        let deputy = self.deputy.lock().take();
        drop(deputy);
        self.queue();
    }

    fn note(self: &Arc<Self>, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock());
        Self::kick(self.clone());
    }

    /// The QP that is set aside for this connection, but was not given the stream yet, goes away
    /// or into error. Any context.
    pub(crate) fn abort(self: &Arc<Self>) {
        self.note(|notes| notes.abort = true);
    }

    /// Responder: the first segment was received. Any context.
    pub(crate) fn rtr_received(self: &Arc<Self>) {
        self.note(|notes| notes.rtr = true);
    }

    /// The peer has begun to close. Any context.
    pub(crate) fn peer_closing(self: &Arc<Self>) {
        self.note(|notes| notes.peer_closing = true);
    }

    /// The QP has left the stream, once and for all: it is in its final state and flushed, and
    /// has nothing on the socket any more. Any context.
    pub(crate) fn stream_closed(self: &Arc<Self>, end: StreamEnd) {
        self.note(|notes| notes.stream_end = Some(end));
    }

    /// Ends the connection whatever its state: the device or the listener goes away.
    pub(super) fn shut(self: &Arc<Self>) {
        self.note(|notes| notes.shut = true);
    }

    /// Sets the timer for a new step. Under the mutex.
    pub(super) fn arm(self: &Arc<Self>, ms: u32) {
        self.disarm();
        Timer::start(self, ms);
    }

    /// Stops the timer. Under the mutex.
    pub(super) fn disarm(self: &Arc<Self>) {
        Timer::stop(self);
        self.notes.lock().expired = false;
    }

    /// Whether the connection is to end before it begins.
    pub(super) fn is_given_up(&self) -> bool {
        let notes = self.notes.lock();
        notes.shut || notes.abort
    }

    /// Whether the timer has run out since it was set.
    pub(super) fn has_expired(&self) -> bool {
        self.notes.lock().expired
    }

    /// Looks at the notes and at the socket, and takes the steps that are due.
    fn advance(self: &Arc<Self>, st: &mut State) {
        if matches!(st.phase, Phase::New) {
            return;
        }
        let notes = core::mem::take(&mut *self.notes.lock());
        if matches!(st.phase, Phase::Running) {
            self.running(st, &notes);
        } else if notes.shut || notes.abort {
            self.give_up(st, ECONNRESET);
        } else if notes.expired {
            self.expire(st);
        }
        match core::mem::replace(&mut st.phase, Phase::Closed) {
            Phase::Connecting(attempt) => active::connecting(self, st, attempt),
            Phase::AwaitReply(attempt) => active::await_reply(self, st, attempt),
            Phase::AwaitRequest(mpa) => passive::await_request(self, st, mpa),
            Phase::Requested(mpa) => passive::requested(self, st, mpa),
            Phase::Finishing => {
                st.phase = Phase::Finishing;
                self.finish(st);
            }
            Phase::Lingering => {
                st.phase = Phase::Lingering;
                self.linger(st);
            }
            other => st.phase = other,
        }
    }

    fn running(self: &Arc<Self>, st: &mut State, notes: &Notes) {
        if notes.rtr {
            if let Link::Accepted(depths) = st.link {
                self.disarm();
                st.outbox.established = Some(Established {
                    error: None,
                    depths,
                });
                st.link = Link::Up;
            }
        }
        if notes.peer_closing && st.link == Link::Up {
            st.outbox.disconnect = true;
        }
        if let Some(end) = notes.stream_end {
            self.stream_ended(st, end);
        } else if notes.shut || notes.expired {
            if notes.expired {
                pr_ratelimited!("{}: the peer does not begin to send\n", self.dev.handle());
            }
            if let Some(qp) = &st.qp {
                qp.abort();
            }
        }
    }

    /// The timer of a step before or after the connection ran out.
    fn expire(self: &Arc<Self>, st: &mut State) {
        if matches!(st.phase, Phase::Finishing) {
            return self.send_fin(st);
        }
        if let Phase::Connecting(attempt) | Phase::AwaitReply(attempt) = &mut st.phase {
            if attempt.goes_on() {
                return self.arm(TICK_MS);
            }
        }
        match st.phase {
            Phase::Connecting(_) | Phase::AwaitReply(_) => {
                pr_ratelimited!("{}: no answer to a connect\n", self.dev.handle());
            }
            Phase::AwaitRequest(_) => {
                pr_ratelimited!("{}: no MPA Request on a connection\n", self.dev.handle());
            }
            Phase::Requested(_) => {
                pr_ratelimited!("{}: request not answered in time\n", self.dev.handle());
            }
            Phase::New | Phase::Running | Phase::Finishing | Phase::Lingering | Phase::Closed => {}
        }
        self.give_up(st, ETIMEDOUT);
    }

    /// Acts as the listener's work, upon what happened before there was a Request. The endpoint's own
    /// work takes over when there is one, and its event is delivered, or when there will be none.
    pub(super) fn read(self: &Arc<Self>) {
        if let Some(Deputy::Listener(listener)) = self.deputy() {
            // Nobody else knows the endpoint, so that no process keeps this waiting.
            let mut st = self.state.lock();
            if matches!(st.phase, Phase::AwaitRequest(_)) {
                self.advance(&mut st);
            }
            if matches!(st.phase, Phase::AwaitRequest(_)) {
                return;
            }
            let request = st.outbox.request.take();
            drop(st);
            if let Some(request) = request {
                self.deliver(&Pending::Request(request), None);
            }
            listener.forget(self.number);
        }
        self.take_over();
    }

    /// Acts as the work of [`super::Initiators`], which is everybody's: sends the Request as soon as
    /// TCP is connected. Whatever may wait for a process is left to the endpoint's own work.
    pub(super) fn request(self: &Arc<Self>) {
        // Whoever has the mutex kicks the endpoint when it is unlocked.
        if let Some(mut st) = self.state.try_lock() {
            if active::request(self, &mut st) {
                drop(st);
                self.take_over();
            }
        }
    }

    /// Delivers what is due to `id`, or finds out that nothing will ever be.
    fn deliver(self: &Arc<Self>, pending: &Pending, id: Option<ARef<CmId>>) {
        if pending.deliver(id.as_deref(), self.number).is_err() {
            let mut st = self.state.lock();
            if st.cm_id.is_none() {
                st.cm_id = id;
            }
            self.undelivered(&mut st, pending);
        }
    }

    /// Drops what a closed endpoint still has. Returns whether it is closed.
    fn retire(self: &Arc<Self>, mut st: MutexGuard<'_, State>) -> bool {
        if !matches!(st.phase, Phase::Closed) {
            return false;
        }
        self.disarm();
        let callbacks = st.callbacks.take();
        let sock = st.sock.take();
        let qp = st.qp.take();
        let cm_id = st.cm_id.take();
        drop(st);
        drop((callbacks, sock, qp, cm_id));
        true
    }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        // A process may have the mutex, and be kept off the processor. The work of others does not
        // wait for it: each of its calls kicks the endpoint when it has unlocked the mutex.
        while let Some(mut st) = this.state.try_lock() {
            this.advance(&mut st);
            let Some(pending) = st.outbox.next() else {
                if this.retire(st) {
                    this.dev.cm.remove(this.number);
                } else if this.deputy().is_some() {
                    Self::kick(this.clone());
                }
                return;
            };
            let id = if pending.is_last() {
                st.cm_id.take()
            } else {
                st.cm_id.clone()
            };
            drop(st);
            this.deliver(&pending, id);
        }
    }
}

impl Expires for Endpoint {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.notes.lock().expired = true;
        Self::kick(this);
    }
}

impl StreamHandler for Endpoint {
    fn data_ready(this: ArcBorrow<'_, Self>, _sk: &mut LockedSock<'_>) {
        Self::kick(this);
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }

    fn state_change(this: ArcBorrow<'_, Self>, _event: StreamEvent) {
        Self::kick(this);
    }
}
