// SPDX-License-Identifier: GPL-2.0

//! The endpoint of a connection: what `proto::connection` needs of the kernel to be carried out,
//! and what it is told.
//!
//! Context: see the methods; the work runs in process context.
#![forbid(unsafe_code)]

use super::{
    active::{
        self,
        Dial, //
    },
    listen::Listener,
    outputs::code,
    registry::Entry,
    turns::InTurn,
    Cm,
};
use crate::{
    ffi::{
        mm::noio::NoIo,
        net::{
            Callbacks,
            LockedSock,
            StreamEvent,
            StreamHandler,
            TcpSocket,
            TcpState, //
        },
        rdma::{
            details::Details,
            iwcm::{
                Addresses,
                CmId,
                ConsumerId, //
            },
        },
        time::timer::{
            Expires,
            Timer, //
        },
    },
    limits::Quota,
    notes::{
        Noticeboard,
        Slot, //
    },
    proto::{
        conn::{
            Initiator,
            Responder, //
        },
        connection::{
            Awaits,
            Code,
            Connection,
            Input,
            StreamEnd, //
        },
        names::Name,
        notes::{
            self,
            EndpointNote,
            Noted,
            Notes, //
        },
    },
    qp::{
        manager::Manager,
        Qp, //
    },
    wire::mpa,
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
        new_spinlock,
        new_spinlock_irq,
        Arc,
        ArcBorrow,
        Mutex,
        MutexGuard,
        SpinLock,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// Who acts in the place of an endpoint's work.
#[derive(Clone)]
pub(super) enum Deputy {
    /// The side that was connected to: its listener.
    Listener(Arc<Listener>),
    /// The side that connects: the device's.
    Initiators,
}

/// What the endpoint's mutex guards.
pub(super) struct EndpointState {
    pub(super) connection: Connection<KBox<Initiator>, KBox<Responder>>,
    /// Initiator, until there is a connection, or none: what to connect to.
    pub(super) dial: Option<KBox<Dial>>,
    /// Why the Request could not be sent, which the connection is to be told.
    pub(super) unsent: Option<Code>,
    pub(super) sock: Option<Arc<TcpSocket>>,
    /// While set-up, or lingering, receives.
    pub(super) callbacks: Option<Callbacks<Endpoint>>,
    pub(super) qp: Option<Arc<Qp>>,
    /// A refused connection's place among those that linger.
    pub(super) refused: Option<Quota>,
    /// Notes that were taken and not acted upon yet; none unless the work does so.
    left: Notes<EndpointNote>,
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
            unsent: None,
            sock: None,
            callbacks: None,
            qp: None,
            refused: None,
            left: Notes::NONE,
        }
    }

    /// Both ends of the socket.
    pub(super) fn both_ends(&self) -> Option<Addresses> {
        let sock = self.sock.as_ref()?;
        Some(Addresses {
            local: sock.local_addr().ok()?.get()?,
            remote: sock.peer_addr().ok()?.get()?,
        })
    }

    /// Whether the initiator's process is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.dial
            .as_ref()
            .is_some_and(|dial| dial.process.is_ending())
    }

    /// Whether the connection lingers, and TCP has not delivered all that was sent.
    fn is_unacknowledged(&self) -> bool {
        let sock = self.sock.as_ref();
        self.connection.awaits() == Awaits::Drained
            && sock.is_some_and(|sock| !sock.is_acknowledged())
    }
}

/// What others may look at. They must not take the endpoint's mutex for that: work that finds it
/// taken leaves the endpoint to whoever has it.
struct Shown {
    cm_id: Option<ARef<CmId>>,
    /// What its consumer knows or has known it by.
    consumer: Option<ConsumerId>,
    phase: Name,
}

/// One connection.
#[pin_data]
pub(crate) struct Endpoint {
    pub(super) cm: Arc<Cm>,
    /// By which iw_cm and the registry know it.
    pub(super) number: usize,
    #[pin]
    timer: Timer<Self>,
    /// What the work is to act upon.
    notes: Noticeboard<EndpointNote>,
    /// What goes with [`EndpointNote::StreamEnded`].
    #[pin]
    stream_end: Slot<StreamEnd>,
    /// Whose work acts in the place of the endpoint's, until there is a Request.
    #[pin]
    deputy: SpinLockIrq<Option<Deputy>>,
    #[pin]
    pub(super) state: Mutex<EndpointState>,
    /// Written under the mutex.
    #[pin]
    shown: SpinLock<Shown>,
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
    /// Makes an endpoint and registers it. It stays as it is until its connection is set and it is
    /// kicked.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is going away.
    pub(super) fn register(cm: &Arc<Cm>) -> Result<Arc<Self>> {
        cm.endpoints.add(|number| Self::new(cm.clone(), number))
    }

    fn new(cm: Arc<Cm>, number: usize) -> Result<Arc<Self>> {
        let state = EndpointState::new();
        let shown = Shown {
            cm_id: None,
            consumer: None,
            phase: state.connection.phase(),
        };
        Arc::pin_init(
            pin_init!(Self {
                cm,
                number,
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

    /// Tells how the connection is, if `id` is the consumer's identifier of it. Waits for nobody.
    /// Process context.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(super) fn describe(&self, id: ConsumerId, to: &mut Details<'_>) -> Result {
        let phase = {
            let shown = self.shown.lock();
            if !shown.cm_id.as_ref().is_some_and(|own| own.is_of(id)) {
                return Ok(());
            }
            shown.phase
        };
        to.number(c"conn", self.trace_number())?;
        to.word(c"phase", phase)
    }

    /// The number by which traces know it.
    pub(super) fn trace_number(&self) -> u32 {
        // CAST: its low half is enough to tell connections apart.
        self.number as u32
    }

    /// Gives the endpoint its connection, and shows its phase.
    pub(super) fn begin(
        &self,
        st: &mut EndpointState,
        connection: Connection<KBox<Initiator>, KBox<Responder>>,
    ) {
        self.show_phase(connection.phase());
        st.connection = connection;
    }

    /// Shows the phase of the connection. Under the mutex.
    pub(super) fn show_phase(&self, phase: Name) {
        self.shown.lock().phase = phase;
    }

    /// Returns the consumer's identifier of the connection, if there is one.
    pub(super) fn cm_id(&self) -> Option<ARef<CmId>> {
        self.shown.lock().cm_id.clone()
    }

    /// Sets the consumer's identifier of the connection. Under the mutex.
    pub(super) fn set_cm_id(&self, id: ARef<CmId>) {
        let old = self.shown.lock().cm_id.replace(id);
        drop(old);
    }

    /// Lets the consumer's identifier of the connection be found by what the consumer knows it by.
    /// Under the mutex, and while there is a connection.
    pub(super) fn introduce(&self, consumer: ConsumerId) {
        self.shown.lock().consumer = Some(consumer);
        self.cm.endpoints.introduce(self.number, consumer);
    }

    /// Takes the consumer's identifier of the connection away. Under the mutex.
    pub(super) fn take_cm_id(&self) -> Option<ARef<CmId>> {
        self.shown.lock().cm_id.take()
    }

    /// Queues the work, or lets the deputy's look at the endpoint. Any context.
    pub(super) fn kick(this: impl Into<Arc<Self>>) {
        let this: Arc<Self> = this.into();
        {
            let deputy = this.deputy.lock();
            match &*deputy {
                Some(Deputy::Listener(listener)) => return listener.turns.arrived(this.clone()),
                Some(Deputy::Initiators) => return this.cm.initiators.arrived(this.clone()),
                None => {}
            }
        }
        this.queue();
    }

    /// Queues the endpoint's own work. Any context.
    fn queue(self: &Arc<Self>) {
        // If it is queued already it will see what the caller noted.
        let _ = self.cm.dev.cm_queue().enqueue(self.clone());
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

    /// Leaves a note for the work. Any context.
    fn note(self: &Arc<Self>, note: EndpointNote) {
        self.notes.leave(note);
        Self::kick(self.clone());
    }

    /// Ends the connection whatever its state: the device or the listener goes away.
    pub(super) fn shut(self: &Arc<Self>) {
        self.note(EndpointNote::Shut);
    }

    /// Sets the timer.
    pub(super) fn arm(self: &Arc<Self>, st: &mut EndpointState, ms: u32) {
        self.disarm(st);
        Timer::start(self, ms);
    }

    /// Stops the timer, which has not run out then.
    pub(super) fn disarm(self: &Arc<Self>, st: &mut EndpointState) {
        Timer::stop(self);
        self.notes.take(EndpointNote::Expired);
        st.left.remove(EndpointNote::Expired);
    }

    /// Whether the connection is to end before it begins.
    pub(super) fn is_given_up(&self) -> bool {
        let notes = self.notes.peek();
        notes.contains(EndpointNote::Shut) || notes.contains(EndpointNote::Abort)
    }

    /// Whether the timer has run out since it was set.
    pub(super) fn has_expired(&self) -> bool {
        self.notes.peek().contains(EndpointNote::Expired)
    }

    /// Feeds the connection with the notes and with what is found at the socket.
    fn advance(self: &Arc<Self>, st: &mut EndpointState) {
        if st.connection.is_new() {
            return;
        }
        let taken = self.notes.take_all();
        notes::act(st, taken, |st, note| self.act_upon(st, note));
        if let Some(code) = st.unsent.take() {
            self.tell(st, Input::Failed(code));
        }
        self.look(st);
    }

    /// Feeds the connection with a note.
    fn act_upon(self: &Arc<Self>, st: &mut EndpointState, note: EndpointNote) {
        match note {
            EndpointNote::FirstSegment => self.tell(st, Input::FirstSegment),
            EndpointNote::PeerClosing => self.tell(st, Input::PeerClosing),
            EndpointNote::StreamEnded => {
                let end = self.stream_end.take();
                if let Some(end) = end.filter(|_| st.connection.is_running()) {
                    st.left.forget_ends();
                    self.tell(st, Input::StreamEnded(end));
                }
            }
            EndpointNote::Shut => {
                st.left.forget_ends();
                self.tell(st, Input::Shut);
            }
            EndpointNote::Abort => self.tell(st, Input::Abort),
            EndpointNote::Expired => {
                let input = if st.is_unacknowledged() {
                    Input::Unacknowledged
                } else {
                    Input::Expired {
                        is_ending: st.is_ending(),
                    }
                };
                self.tell(st, input);
            }
        }
    }

    /// Looks for what the connection waits for.
    fn look(self: &Arc<Self>, st: &mut EndpointState) {
        match st.connection.awaits() {
            Awaits::Nothing => {}
            Awaits::Connected => {
                // Who acts for this endpoint leaves it what is not connected.
                if self.deputy().is_none() {
                    let error = st.sock.as_ref().and_then(|sock| sock.error());
                    self.tell(st, Input::Closed(error.map(code)));
                }
            }
            Awaits::Frame(_) => self.read_frame(st),
            Awaits::Acknowledgement => {
                if st.sock.as_ref().is_none_or(|sock| sock.may_finish()) {
                    self.tell(st, Input::Acknowledged);
                }
                self.drain(st);
            }
            Awaits::Drained => self.drain(st),
        }
    }

    /// Reads the peer's frame and nothing behind it (T-25).
    fn read_frame(self: &Arc<Self>, st: &mut EndpointState) {
        let mut buf = [0; mpa::MAX_FRAME];
        while let Awaits::Frame(wanted) = st.connection.awaits() {
            let Some(space) = buf.get_mut(..wanted).filter(|space| !space.is_empty()) else {
                return;
            };
            let received = match &st.sock {
                Some(sock) => sock.recv(space),
                None => Ok(0),
            };
            let input = match received {
                Ok(n) if n > 0 => Input::Octets(buf.get(..n).unwrap_or(&[])),
                Err(e) if e == EAGAIN => return,
                _ => Input::Closed(None),
            };
            self.tell(st, input);
        }
    }

    /// Drops what the peer sent, and looks for its FIN.
    fn drain(self: &Arc<Self>, st: &mut EndpointState) {
        if st.sock.as_ref().is_none_or(drained) {
            self.tell(st, Input::Drained);
        }
    }

    /// Acts as the listener's work, upon what happened before there was a Request. The endpoint's
    /// own work takes over when there is one, and its event is delivered, or when there will be
    /// none.
    pub(super) fn read(self: &Arc<Self>) {
        if let Some(Deputy::Listener(listener)) = self.deputy() {
            // Nobody else knows the endpoint, so that no process keeps this waiting.
            let mut st = self.state.lock();
            self.advance(&mut st);
            if matches!(st.connection.awaits(), Awaits::Frame(_)) {
                return;
            }
            let request = self.next_event(&mut st);
            drop(st);
            listener.forget(self.number);
            if let Some(request) = request {
                self.deliver(request);
            }
        }
        self.take_over();
    }

    /// Acts as the work of the device's initiators, which is everybody's: sends the Request as soon
    /// as TCP is connected. Whatever may wait for a process is left to the endpoint's own work.
    pub(super) fn request(self: &Arc<Self>) {
        // Whoever has the mutex kicks the endpoint when it is unlocked.
        if let Some(mut st) = self.state.try_lock() {
            if active::request(self, &mut st) {
                drop(st);
                self.take_over();
            }
        }
    }

    /// Drops what a closed endpoint still has. Returns whether it is closed.
    fn retire(self: &Arc<Self>, mut st: MutexGuard<'_, EndpointState>) -> bool {
        if !st.connection.is_closed() {
            return false;
        }
        self.disarm(&mut st);
        let callbacks = st.callbacks.take();
        let sock = st.sock.take();
        let qp = st.qp.take();
        let cm_id = self.take_cm_id();
        drop(st);
        drop((callbacks, sock, qp, cm_id));
        true
    }
}

impl InTurn for Endpoint {}

impl Entry for Endpoint {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        self.shown.lock().consumer
    }
}

/// Takes what was received from the socket; returns whether the peer's FIN was there too, or TCP
/// is gone.
fn drained(sock: &Arc<TcpSocket>) -> bool {
    sock.with_lock(|sk| loop {
        match sk.read(|chunk| chunk.len()) {
            Ok(dropped) if dropped > 0 => {}
            _ => return sk.peer_fin() || sk.state() == TcpState::Closed,
        }
    })
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        // A process may have the mutex, and be kept off the processor. The work of others does not
        // wait for it: each of its calls kicks the endpoint when it has unlocked the mutex.
        while let Some(mut st) = this.state.try_lock() {
            this.advance(&mut st);
            let Some(pending) = this.next_event(&mut st) else {
                if this.retire(st) {
                    this.cm.endpoints.remove(&this);
                } else if this.deputy().is_some() {
                    Self::kick(this.clone());
                }
                return;
            };
            drop(st);
            this.deliver(pending);
        }
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

    fn write_space(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }

    fn state_change(this: ArcBorrow<'_, Self>, _event: StreamEvent) {
        Self::kick(this);
    }
}
