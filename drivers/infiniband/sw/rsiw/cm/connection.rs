// SPDX-License-Identifier: GPL-2.0

//! Runs the `proto::connection` of an endpoint. The endpoint's work feeds the connection with what
//! was noted and what is at the socket, and carries out what the connection then says: timer,
//! callbacks, queue pair, TCP, and events for iw_cm. `proto::connection::interface` decides which
//! events there are, and in which order.
//!
//! Context: process; under the endpoint's mutex where a function is given an [`EndpointState`]. No
//! lock may be held while an event is delivered.
#![forbid(unsafe_code)]

use super::endpoint::{
    Deputy,
    Endpoint,
    EndpointState,
    OwnConnection,
    Recipient,
    Security, //
};
use super::listener::Listener;
use super::registry::{
    Entry,
    WAIT_MS, //
};
use crate::ffi::hash::crc32c;
use crate::ffi::mm::NoIo;
use crate::ffi::net::tls::Side;
use crate::ffi::net::{
    Callbacks,
    TcpSocket,
    TcpState, //
};
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::rdma::iwcm::{
    self,
    Addresses,
    Depths,
    MAX_EVENT_DATA, //
};
use crate::ffi::rsiw::trace;
use crate::limits::Quota;
use crate::log::Author;
use crate::proto::connection::{
    self,
    Ask,
    Awaits,
    Code,
    Event,
    Input,
    Log,
    Outputs,
    Tcp,
    Timer, //
};
use crate::proto::counters::Counter;
use crate::proto::message;
use crate::proto::negotiate::EventDepths;
use crate::proto::notes::{
    self,
    EndpointNote, //
};
use crate::proto::setup::Params;
use crate::wire::fpdu::Markers;
use crate::wire::mpa;
use crate::wire::terminate::{
    TermError,
    Terminate, //
};
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    MutexGuard, //
};
use kernel::workqueue::WorkItem;

pub(super) fn errno(error: connection::Error) -> Error {
    match error {
        connection::Error::Reset => ECONNRESET,
        connection::Error::Refused => ECONNREFUSED,
        connection::Error::TimedOut => ETIMEDOUT,
        connection::Error::Protocol => EPROTO,
        connection::Error::NoMemory => ENOMEM,
        connection::Error::Invalid => EINVAL,
        connection::Error::Other(Code(errno)) => Error::from_errno(errno),
    }
}

pub(super) fn code(error: Error) -> Code {
    Code(error.to_errno())
}

impl Endpoint {
    /// Gives the endpoint its connection, and does what follows. Fails as [`Endpoint::try_feed`].
    pub(super) fn begin(
        self: &Arc<Self>,
        st: &mut EndpointState,
        connection: OwnConnection,
        outputs: Outputs,
    ) -> Result {
        self.show_phase(connection.phase());
        st.connection = connection;
        self.perform(st, outputs, &mut [])
    }

    /// Feeds the connection, and does what follows. Returns an error if the consumer's call that
    /// `input` stands for fails.
    pub(super) fn try_feed(self: &Arc<Self>, st: &mut EndpointState, input: Input<'_>) -> Result {
        if !input.makes_frame() {
            let outputs = self.step(&mut st.connection, input, &mut []);
            return self.perform(st, outputs, &mut []);
        }
        let mut frame = [0; mpa::MAX_FRAME];
        let outputs = self.step(&mut st.connection, input, &mut frame);
        self.perform(st, outputs, &mut frame)
    }

    /// Takes one step of the connection, and traces it.
    pub(super) fn step(
        &self,
        connection: &mut OwnConnection,
        input: Input<'_>,
        frame: &mut [u8],
    ) -> Outputs {
        let (name, from) = (input.name(), connection.phase());
        let outputs = connection.step(input, frame);
        let to = connection.phase();
        self.show_phase(to);
        trace::setup(|| (self.dev().handle(), self.trace_number(), name, from, to));
        outputs
    }

    /// Feeds the connection, and does what follows, for an input that is not the call of a
    /// consumer: there is nobody to tell of an error.
    pub(super) fn feed(self: &Arc<Self>, st: &mut EndpointState, input: Input<'_>) {
        let _ = self.try_feed(st, input);
    }

    /// Does what the connection says, and tells the connection the result. Fails as `try_feed`.
    pub(super) fn perform(
        self: &Arc<Self>,
        st: &mut EndpointState,
        mut outputs: Outputs,
        frame: &mut [u8],
    ) -> Result {
        let mut result = Ok(());
        loop {
            self.apply(st, &outputs);
            if let Some(error) = outputs.fails {
                result = Err(errno(error));
            }
            let Some(ask) = outputs.ask else {
                return result;
            };
            let answer = match self.attempt(st, ask, frame) {
                Ok(()) => Input::Done,
                Err(error) => Input::Failed(code(error)),
            };
            outputs = self.step(&mut st.connection, answer, frame);
        }
    }

    /// Carries out the outputs that cannot fail.
    fn apply(self: &Arc<Self>, st: &mut EndpointState, outputs: &Outputs) {
        if let Some(log) = outputs.log {
            self.log(st, log);
        }
        match outputs.timer {
            Some(Timer::Arm(ms)) => self.arm(st, ms),
            Some(Timer::Disarm) => self.disarm(st),
            None => {}
        }
        match outputs.callbacks {
            Some(connection::Callbacks::Install) => {
                // If this fails, the timer ends the connection.
                let install = |sock: &Arc<TcpSocket>| {
                    Callbacks::install(sock.claim().ok()?, self.clone()).ok()
                };
                st.callbacks = st.sock.as_ref().and_then(install);
            }
            Some(connection::Callbacks::Remove) => st.callbacks = None,
            None => {}
        }
        match outputs.qp {
            Some(connection::Qp::Detach(error)) => self.detach(st, error),
            Some(connection::Qp::Abort) => {
                if let Some(qp) = &st.qp {
                    qp.abort(&**self);
                }
            }
            Some(connection::Qp::Forget) => st.qp = None,
            None => {}
        }
        match outputs.tcp {
            Some(Tcp::Reset) => {
                if let Some(sock) = st.sock.take() {
                    sock.abort();
                }
            }
            Some(Tcp::Release) => {
                // The FIN was sent before, except in a race. Closing the socket would send one,
                // too, but no close_notify.
                if let Some(sock) = st.sock.take() {
                    sock.shutdown_write();
                }
            }
            None => {}
        }
    }

    /// Lets go of the QP, which is free again, and logs the error if there is one.
    fn detach(self: &Arc<Self>, st: &mut EndpointState, error: Option<connection::Error>) {
        st.dial = None;
        if let Some(qp) = st.qp.take() {
            // A matchmaker tries again, and logs its last failure itself.
            if let Some(error) = error.map(errno).filter(|_| self.matchmaker().is_none()) {
                let num = qp.shared.id.num();
                self.dev().log(
                    qp.shared.id.peer_author(),
                    fmt!("QP {num}: connect failed: {error:?}"),
                );
            }
            qp.shared.set_aside.forget(&**self);
        }
    }

    /// Carries out the output that may fail.
    fn attempt(self: &Arc<Self>, st: &mut EndpointState, ask: Ask, frame: &[u8]) -> Result {
        match ask {
            Ask::Dial => self.dial(st),
            Ask::Request(len) => send_frame(st, frame, len),
            Ask::Start { reply, params } => self.start_qp(st, frame, reply, &params),
            Ask::Refuse(len) => {
                send_frame(st, frame, len)?;
                st.refused = Some(Quota::take(self.dev().limits(), |limits| &limits.refused)?);
                Ok(())
            }
            Ask::Finish { anyway } => finish(st, anyway),
            Ask::Terminate { error, markers } => {
                send_terminate(st.sock.as_ref().ok_or(ECONNRESET)?, error, markers)?;
                let (sent, _) = Counter::of_terminate(error.code());
                self.dev().count(Some(sent));
                Ok(())
            }
        }
    }

    fn dial(self: &Arc<Self>, st: &mut EndpointState) -> Result {
        // The deputy comes before anything can queue the endpoint's own work: if that work had the
        // mutex when the endpoint's turn comes, other endpoints would overtake this one.
        self.leave_to(Deputy::Initiators);
        let dial = st.dial.as_ref().ok_or(EINVAL)?;
        let dev = self.dev();
        let netdev = dev.netdev().ok_or(ENODEV)?;
        let (sock, callbacks) = dial.connect(&netdev, self, dev.tls().is_some(), &self.payer)?;
        st.callbacks = Some(callbacks);
        st.sock = Some(sock);
        st.security = self.wanted_security(Side::Client);
        Ok(())
    }

    /// Sends the Reply of a responder, and gives the stream to the QP. What the initiator sends
    /// upon the Reply waits in the socket until the QP drains it (T-25).
    fn start_qp(
        self: &Arc<Self>,
        st: &mut EndpointState,
        frame: &[u8],
        reply: usize,
        params: &Params,
    ) -> Result {
        let sock = st.sock.clone().ok_or(ECONNRESET)?;
        let qp = st.qp.clone().ok_or(EINVAL)?;
        if reply > 0 {
            match send_frame(st, frame, reply) {
                // The peer has given up. The QP finds that out, as if the peer had gone a
                // moment later.
                Err(_) if sock.state() == TcpState::Closed => {}
                result => result?,
            }
        }
        match self.matchmaker() {
            Some(matchmaker) => matchmaker.start(&sock, params, st.connection.reply_data())?,
            None => qp.start(&sock, params, &**self)?,
        }
        st.dial = None;
        Ok(())
    }

    fn log(&self, st: &EndpointState, log: Log) {
        self.dev().count(Counter::of_log(&log));
        let (dev, asker) = (self.dev(), self.author(st));
        match log {
            Log::NoRequest => dev.log(asker, fmt!("no MPA Request on a connection")),
            Log::BadRequest(reason) => dev.log(asker, fmt!("bad MPA Request: {reason:?}")),
            Log::RequestCut => dev.log(asker, fmt!("MPA Request was cut")),
            Log::NotAnswered => dev.log(asker, fmt!("request not answered in time")),
            Log::NoFirstSegment => {
                let num = st.qp.as_ref().map_or(Qpn(0), |qp| qp.shared.id.num());
                dev.log(asker, fmt!("QP {num}: the peer does not begin to send"));
            }
            Log::NoRoom => dev.log(asker, fmt!("no room for a connection request")),
            Log::EventLost => dev.log(Author::Kernel, fmt!("event lost")),
        }
    }
}

fn finish(st: &EndpointState, anyway: bool) -> Result {
    match &st.sock {
        Some(sock) if anyway => sock.shutdown_write(),
        Some(sock) if !sock.try_shutdown_write() => return Err(ENOBUFS),
        _ => {}
    }
    Ok(())
}

fn send_frame(st: &EndpointState, frame: &[u8], len: usize) -> Result {
    let sock = st.sock.as_ref().ok_or(ECONNRESET)?;
    send_whole(sock, frame.get(..len).ok_or(EINVAL)?)
}

/// Sends a Terminate as the first FPDU of a stream that will have no other.
fn send_terminate(sock: &TcpSocket, error: TermError, markers: bool) -> Result {
    let terminate = Terminate { error, quote: None };
    let mut markers = markers.then(Markers::new);
    let mut fpdu = [0; message::MAX_TERMINATE];
    // It always has a CRC; a peer that does not want CRCs ignores it.
    let fpdu = message::terminate(&terminate, markers.as_mut(), Some(crc32c), &mut fpdu);
    send_whole(sock, fpdu.ok_or(EINVAL)?)
}

/// Sends a frame that fits the empty send queue of a new connection; if not, returns `ENOBUFS`.
pub(super) fn send_whole(sock: &TcpSocket, frame: &[u8]) -> Result {
    if sock.send(frame)? == frame.len() {
        Ok(())
    } else {
        Err(ENOBUFS)
    }
}

fn event_depths(depths: EventDepths) -> Depths {
    Depths {
        ird: depths.ird,
        ord: depths.ord,
    }
}

/// Returns the counter of an event. A refusal or a time-out that TCP reports counts as one of MPA.
fn counter_of(event: &Event) -> Option<Counter> {
    match event.error().map(errno) {
        Some(e) if e == ECONNREFUSED => Some(Counter::ConnRefused),
        Some(e) if e == ETIMEDOUT => Some(Counter::ConnTimedOut),
        _ => Counter::of_event(event),
    }
}

/// An event taken from a connection, and all that its delivery needs.
pub(super) struct PendingEvent {
    event: Event,
    /// Private data, cut to what an event may carry (T-10).
    data: [u8; MAX_EVENT_DATA],
    /// The ends of the connection, for a Request.
    addresses: Option<Addresses>,
    /// The listener that a Request goes to.
    listener: Option<Arc<Listener>>,
    /// Who gets all other events.
    recipient: Option<Recipient>,
}

impl PendingEvent {
    fn deliver(&self, number: usize) -> Result {
        if let Some(Recipient::Matchmaker(matchmaker)) = &self.recipient {
            matchmaker.told(&self.event, &self.data);
            return Ok(());
        }
        let data = |len| self.data.get(..len).unwrap_or(&[]);
        let event = match self.event {
            Event::Request { depths, data: len } => {
                let listener = self.listener.as_ref().ok_or(EINVAL)?;
                let addresses = self.addresses.ok_or(EAFNOSUPPORT)?;
                return listener.deliver(number, addresses, event_depths(depths), data(len));
            }
            Event::Reply {
                error,
                depths,
                data: len,
            } => iwcm::Event::ConnectReply {
                error: error.map(errno),
                depths: event_depths(depths),
                private_data: data(len),
            },
            Event::Established { error: _, depths } => iwcm::Event::Established {
                depths: event_depths(depths),
            },
            Event::Disconnect => iwcm::Event::Disconnect,
            Event::Close => iwcm::Event::Close,
        };
        match &self.recipient {
            Some(Recipient::Consumer(id)) => id.deliver(&event),
            _ => Err(EINVAL),
        }
    }
}

impl Endpoint {
    /// Takes the next event that is due. Under the mutex.
    pub(super) fn next_event(&self, st: &mut EndpointState) -> Option<PendingEvent> {
        let mut data = [0; MAX_EVENT_DATA];
        let event = st.connection.next_event(&mut data)?;
        // From the first event on, iw_cm does not wait for the connection.
        st.process = None;
        self.dev().count(counter_of(&event));
        let error = event.error().map_or(0, |error| errno(error).to_errno());
        let number = self.trace_number();
        trace::setup_event(|| (self.dev().handle(), number, event.name(), error));
        let (listener, addresses) = match event {
            Event::Request { .. } => match self.deputy() {
                Some(Deputy::Listener(listener)) => (Some(listener), st.both_ends()),
                _ => (None, None),
            },
            _ => (None, None),
        };
        let recipient = if event.is_last() {
            self.take_recipient()
        } else {
            self.recipient()
        };
        Some(PendingEvent {
            event,
            data,
            addresses,
            listener,
            recipient,
        })
    }

    /// Delivers an event. If that fails, the connection is told so.
    pub(super) fn deliver(self: &Arc<Self>, pending: PendingEvent) {
        let input = match pending.deliver(self.number()) {
            Ok(()) => return,
            // The listener was closed before its consumer could be told.
            Err(e) if e == ECONNABORTED => Input::Shut,
            Err(_) => Input::Undelivered(pending.event),
        };
        let mut st = self.state.lock();
        if let Some(recipient) = pending.recipient.filter(|_| self.recipient().is_none()) {
            self.set_recipient(recipient);
        }
        self.feed(&mut st, input);
    }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIo::enter();
        this.payer.pays(|| this.act());
    }
}

impl Endpoint {
    fn act(self: &Arc<Self>) {
        // A process may hold the mutex and be preempted. The work of other endpoints must not wait
        // for it, so this does not wait for the mutex either: each call of a process kicks the
        // endpoint when it has unlocked the mutex.
        while let Some(mut st) = self.state.try_lock() {
            self.advance(&mut st);
            let Some(pending) = self.next_event(&mut st) else {
                if self.retire(st) {
                    self.endpoints.all.remove(self);
                } else if self.deputy().is_some() {
                    Self::kick(self.clone());
                }
                return;
            };
            drop(st);
            self.deliver(pending);
        }
    }

    pub(super) fn advance(self: &Arc<Self>, st: &mut EndpointState) {
        if st.connection.is_new() {
            return;
        }
        let taken = self.notes.take_all();
        notes::act_upon_each(st, taken, |st, note| self.feed_note(st, note));
        if let Some(code) = st.unsent.take() {
            self.feed(st, Input::Failed(code));
        }
        self.poll(st);
    }

    fn feed_note(self: &Arc<Self>, st: &mut EndpointState, note: EndpointNote) {
        match note {
            EndpointNote::FirstSegment => self.feed(st, Input::FirstSegment),
            EndpointNote::PeerClosing => self.feed(st, Input::PeerClosing),
            EndpointNote::StreamEnded => {
                let end = self.stream_end.take();
                if let Some(end) = end.filter(|_| st.connection.is_running()) {
                    st.left.forget_ends();
                    self.feed(st, Input::StreamEnded(end));
                }
            }
            EndpointNote::DrivenOut => self.feed(st, Input::DrivenOut),
            EndpointNote::Shut => {
                st.left.forget_ends();
                self.feed(st, Input::Shut);
            }
            EndpointNote::Abort => self.feed(st, Input::Abort),
            // The timer ran for the next try of the handshake, which the caller makes now.
            EndpointNote::Expired if st.security.is_tried_again() => {}
            // An initiator has waited in line for as long as it may.
            EndpointNote::Expired
                if st.security.is_in_line() && st.connection.awaits() != Awaits::Connected =>
            {
                st.security.elapsed(WAIT_MS);
            }
            EndpointNote::Expired => {
                let input = if st.is_unacknowledged() {
                    Input::Unacknowledged
                } else {
                    Input::Expired {
                        is_ending: st.is_ending(),
                    }
                };
                self.feed(st, input);
            }
        }
    }

    /// Feeds the connection with what it waits for, if that is at the socket.
    fn poll(self: &Arc<Self>, st: &mut EndpointState) {
        match st.connection.awaits() {
            Awaits::Nothing => {}
            Awaits::Connected => {
                // An endpoint that waits for TCP has a deputy, unless it will never connect.
                if self.deputy().is_none() {
                    let error = match &st.security {
                        Security::Failed(error) => Some(*error),
                        _ => st.sock.as_ref().and_then(|sock| sock.error()),
                    };
                    self.feed(st, Input::Closed(error.map(code)));
                }
            }
            Awaits::Frame(_) => match self.secure(st, Side::Server) {
                Ok(true) => self.read_frame(st),
                Ok(false) => {}
                Err(error) => self.feed(st, Input::Closed(Some(code(error)))),
            },
            Awaits::Acknowledgement => {
                if st.sock.as_ref().is_none_or(|sock| sock.may_finish()) {
                    self.feed(st, Input::Acknowledged);
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
                Some(sock) => sock.with_lock(|sk| sk.recv(space)),
                None => Ok(0),
            };
            let input = match received {
                Ok(n) if n > 0 => Input::Octets(buf.get(..n).unwrap_or(&[])),
                Err(e) if e == EAGAIN => return,
                Err(e) if e == EINTR => return Self::kick(self.clone()),
                _ => Input::Closed(None),
            };
            self.feed(st, input);
        }
    }

    /// Drops what the peer sent, and looks for its FIN. Goes on later if the peer sent much.
    fn drain(self: &Arc<Self>, st: &mut EndpointState) {
        match st.sock.as_ref().map_or(Some(true), drained) {
            Some(true) => self.feed(st, Input::Drained),
            Some(false) => {}
            None => Self::kick(self.clone()),
        }
    }

    /// Drops what the endpoint still has, if it is closed. Returns whether it is closed.
    fn retire(self: &Arc<Self>, mut st: MutexGuard<'_, EndpointState>) -> bool {
        if !st.connection.is_closed() {
            return false;
        }
        self.disarm(&mut st);
        let callbacks = st.callbacks.take();
        let sock = st.sock.take();
        let security = core::mem::replace(&mut st.security, Security::Settled);
        let spot = st.spot.take();
        let qp = st.qp.take();
        let recipient = self.take_recipient();
        drop(st);
        drop((callbacks, security, spot, sock, qp, recipient));
        true
    }
}

/// Drops what was received. Returns whether the peer's FIN was there too, or TCP is closed; `None`
/// if there may be more.
fn drained(sock: &Arc<TcpSocket>) -> Option<bool> {
    sock.with_lock(|sk| loop {
        match sk.read(|chunk| chunk.len()) {
            Ok(dropped) if dropped > 0 => {}
            Err(e) if e == EINTR => return None,
            _ => return Some(sk.peer_fin() || sk.state() == TcpState::Closed),
        }
    })
}
