// SPDX-License-Identifier: GPL-2.0

//! The side that connects.
#![forbid(unsafe_code)]

use super::{
    config,
    depths,
    endpoint::{
        Link,
        Phase,
        State, //
    },
    events::{
        copy,
        event_depths,
        private_data,
        Reply, //
    },
    not_in_namespace,
    own_qp,
    passive::{
        read_frame,
        Read, //
    },
    teardown::{
        send_terminate,
        send_whole, //
    },
    turns::Deputy,
    Endpoint,
    CONNECT_MS,
    REPLY_MS,
    TICK_MS, //
};
use crate::{
    device::Device,
    ffi::{
        iwcm::{
            Addresses,
            CallId,
            CmId,
            ConnParam, //
        },
        net::{
            Callbacks,
            TcpSocket,
            TcpState, //
        },
        process::Process,
    },
    proto::{
        collector::{
            Failure,
            Reason, //
        },
        conn::{
            Event,
            Initiator,
            Params, //
        },
        negotiate::{
            Depths,
            EventDepths, //
        },
    },
    wire::{
        mpa,
        terminate::TermError, //
    },
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    },
};

/// First port that is not reserved for privileged users.
const FIRST_USER_PORT: u16 = 1024;

/// What a consumer asked for, and how far that is.
pub(super) struct Attempt {
    local: SocketAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    want: Depths,
    private_data: KVec<u8>,
    rev: u8,
    mpa: Initiator,
    /// Why the Request could not be sent.
    unsent: Option<Error>,
    /// Octets of the Reply were received.
    heard: bool,
    /// On whose behalf.
    process: Process,
    /// Milliseconds that the step may still take.
    left: u32,
}

impl Attempt {
    fn new(id: &CmId, param: &ConnParam<'_>) -> Result<KBox<Self>> {
        let want = depths(param);
        let private_data = copy(param.private_data)?;
        let mpa = Initiator::new(config(mpa::REV_2), want);
        if private_data.len() > mpa.max_private_data() {
            return Err(EINVAL);
        }
        let attempt = Attempt {
            local: id.local_addr().ok_or(EAFNOSUPPORT)?,
            remote: id.remote_addr().ok_or(EAFNOSUPPORT)?,
            tos: id.tos(),
            want,
            private_data,
            rev: mpa::REV_2,
            mpa,
            unsent: None,
            heard: false,
            process: Process::current(),
            left: 0,
        };
        if attempt.local.is_ipv4() != attempt.remote.is_ipv4() {
            return Err(EAFNOSUPPORT);
        }
        Ok(KBox::new(attempt, GFP_KERNEL_ACCOUNT)?)
    }

    /// Begins a step of at most `ms` milliseconds.
    fn wait_for(&mut self, ms: u32) {
        self.left = ms;
    }

    /// Whether to go on waiting after [`TICK_MS`]. A process that ends waits for the connection
    /// manager, which waits for the reply event.
    pub(super) fn goes_on(&mut self) -> bool {
        self.left = self.left.saturating_sub(TICK_MS);
        self.left > 0 && !self.process.is_ending()
    }

    /// Whether another attempt with the older set-up may do better (RFC 6581 section 10).
    fn may_fall_back(&self, reason: Reason) -> bool {
        self.rev >= mpa::REV_2
            && match reason {
                Reason::NotEnhanced | Reason::Revision => true,
                Reason::Closed => !self.heard,
                _ => false,
            }
    }

    /// Prepares the attempt with the older set-up.
    fn fall_back(&mut self) {
        self.rev = mpa::REV_1;
        self.mpa = Initiator::new(config(self.rev), self.want);
        self.unsent = None;
        self.heard = false;
    }
}

/// Creates a socket and starts to connect it; `port` is the local port.
fn dial(
    this: &Arc<Endpoint>,
    st: &mut State,
    attempt: &Attempt,
    port: u16,
) -> Result<Arc<TcpSocket>> {
    let netdev = this.dev.netdev().ok_or(ENODEV)?;
    let sock = TcpSocket::new(&netdev, &attempt.local)?;
    if let Some(tos) = attempt.tos {
        sock.set_tos(tos);
    }
    let mut local = attempt.local;
    local.set_port(port);
    sock.bind(&local)?;
    st.callbacks = Some(Callbacks::install(sock.clone(), this.clone())?);
    match sock.connect(&attempt.remote) {
        // The peer's answer was there at once; the consumer learns of it as ever.
        Err(e) if e == ECONNREFUSED || e == ECONNRESET => Ok(sock),
        Err(e) => {
            st.callbacks = None;
            Err(e)
        }
        Ok(()) => Ok(sock),
    }
}

/// Starts to connect.
///
/// Ports of RDMA consumers have a number space of their own, in which a port is free that TCP may
/// be using. Then another is taken, unless the consumer wanted a privileged one.
fn start(this: &Arc<Endpoint>, st: &mut State, attempt: &mut Attempt) -> Result {
    // Before anything can queue the endpoint's own work: if that had the mutex when it is the
    // endpoint's turn, others would pass.
    this.leave_to(Deputy::Initiators);
    let port = attempt.local.port();
    let sock = match dial(this, st, attempt, port) {
        Err(e) if (e == EADDRINUSE || e == EADDRNOTAVAIL) && port >= FIRST_USER_PORT => {
            dial(this, st, attempt, 0)?
        }
        other => other?,
    };
    st.sock = Some(sock);
    attempt.wait_for(CONNECT_MS);
    this.arm(TICK_MS);
    Ok(())
}

/// See [`super::connect`].
pub(super) fn connect(dev: &Arc<Device>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    // The RDMA CM takes whatever device comes first for a loopback address.
    if !id.sees(&*dev.netdev().ok_or(ENODEV)?) {
        return Err(not_in_namespace(dev));
    }
    let qp = own_qp(dev, param.qpn, id)?;
    let mut attempt = Attempt::new(&id, param)?;
    let this = Endpoint::register(dev)?;
    let mut st = this.state.lock();
    st.phase = Phase::Closed;
    let result = qp
        .attach(this.clone())
        .and_then(|()| start(&this, &mut st, &mut attempt).inspect_err(|_| qp.detach(&this)));
    if result.is_ok() {
        st.phase = Phase::Connecting(attempt);
        st.cm_id = Some(id.into());
        st.qp = Some(qp);
    }
    let sock = st.sock.clone();
    drop(st);
    // As long as TCP connects, it is nobody's turn: TCP tells when that has changed, and until then
    // the timer has the endpoint looked at.
    let is_waiting = sock.is_some_and(|sock| sock.state() == TcpState::Connecting);
    if result.is_err() || !is_waiting {
        Endpoint::kick(this);
    }
    result
}

/// TCP may have connected; the Request is sent then. Returns whether the endpoint's own work has to
/// go on. Waits for nobody.
pub(super) fn request(this: &Arc<Endpoint>, st: &mut State) -> bool {
    let Phase::Connecting(attempt) = &mut st.phase else {
        return true;
    };
    if this.is_given_up() || attempt.unsent.is_some() {
        return true;
    }
    let Some(sock) = &st.sock else {
        return true;
    };
    match sock.state() {
        TcpState::Connecting => {
            if !this.has_expired() {
                return false;
            }
            if !attempt.goes_on() {
                return true;
            }
            this.arm(TICK_MS);
            return false;
        }
        TcpState::Closed | TcpState::Listen => return true,
        TcpState::Established | TcpState::CloseWait | TcpState::Closing => {}
    }
    if let Err(error) = send_request(sock, attempt) {
        attempt.unsent = Some(error);
        return true;
    }
    attempt.wait_for(REPLY_MS);
    st.phase = match core::mem::replace(&mut st.phase, Phase::Closed) {
        Phase::Connecting(attempt) => Phase::AwaitReply(attempt),
        other => other,
    };
    this.arm(TICK_MS);
    true
}

/// TCP has not connected, or the Request could not be sent.
pub(super) fn connecting(this: &Arc<Endpoint>, st: &mut State, attempt: KBox<Attempt>) {
    if this.deputy().is_some() {
        st.phase = Phase::Connecting(attempt);
        return;
    }
    let error = attempt
        .unsent
        .or_else(|| st.sock.as_ref().and_then(|sock| sock.error()))
        .unwrap_or(ECONNREFUSED);
    this.connect_failed(st, Reply::failed(error));
    this.reset(st);
}

fn send_request(sock: &TcpSocket, attempt: &mut Attempt) -> Result {
    let mut frame = [0; mpa::MAX_FRAME];
    let n = attempt
        .mpa
        .request(&attempt.private_data, &mut frame)
        .map_err(|_| EINVAL)?;
    send_whole(sock, frame.get(..n).ok_or(EINVAL)?)
}

/// The Reply may have come.
pub(super) fn await_reply(this: &Arc<Endpoint>, st: &mut State, mut attempt: KBox<Attempt>) {
    let Some(sock) = st.sock.clone() else {
        return this.connect_failed(st, Reply::failed(ECONNRESET));
    };
    let (read, heard) = read_frame(&sock, &mut attempt.mpa);
    attempt.heard |= heard;
    let event = match read {
        Read::Pending => {
            st.phase = Phase::AwaitReply(attempt);
            return;
        }
        Read::Event(event) => event,
        Read::Closed => match attempt.mpa.closed() {
            Some(event) => event,
            None => Event::Failed(Reason::Closed.into()),
        },
    };
    match event {
        Event::Established(params) => established(this, st, &sock, &attempt, &params),
        Event::Rejected(depths) => rejected(this, st, &attempt, depths),
        Event::Failed(failure) => failed(this, st, &sock, attempt, failure),
        // Not an event of an initiator.
        Event::Request(_) => {
            this.connect_failed(st, Reply::failed(EPROTO));
            this.reset(st);
        }
    }
}

/// The reply event of a connection that is up.
fn success(sock: &TcpSocket, attempt: &Attempt, depths: EventDepths) -> Result<Reply> {
    Ok(Reply {
        error: None,
        addresses: Some(Addresses {
            local: sock.local_addr()?.get().ok_or(EAFNOSUPPORT)?,
            remote: attempt.remote,
        }),
        depths: event_depths(depths),
        data: private_data(attempt.mpa.private_data())?,
    })
}

fn established(
    this: &Arc<Endpoint>,
    st: &mut State,
    sock: &Arc<TcpSocket>,
    attempt: &Attempt,
    params: &Params,
) {
    this.disarm();
    // The QP puts its own callbacks in the place of these, and drains the socket then (T-25).
    st.callbacks = None;
    let result = success(sock, attempt, params.event).and_then(|reply| {
        let qp = st.qp.as_ref().ok_or(EINVAL)?;
        qp.start(sock, params, this)?;
        Ok(reply)
    });
    match result {
        Ok(reply) => {
            st.outbox.reply = Some(reply);
            st.link = Link::Up;
            st.phase = Phase::Running;
        }
        Err(_) => {
            this.connect_failed(st, Reply::failed(ECONNRESET));
            // X-ENH-17.
            match send_terminate(sock, TermError::MpaLocalCatastrophic) {
                Ok(()) => this.close(st),
                Err(_) => this.reset(st),
            }
        }
    }
}

/// The consumer of the other side does not want the connection.
fn rejected(this: &Arc<Endpoint>, st: &mut State, attempt: &Attempt, depths: EventDepths) {
    let reply = Reply {
        depths: event_depths(depths),
        data: private_data(attempt.mpa.private_data()).unwrap_or(KVec::new()),
        ..Reply::failed(ECONNREFUSED)
    };
    this.connect_failed(st, reply);
    this.close(st);
}

fn failed(
    this: &Arc<Endpoint>,
    st: &mut State,
    sock: &TcpSocket,
    mut attempt: KBox<Attempt>,
    failure: Failure,
) {
    if attempt.may_fall_back(failure.reason) {
        this.reset(st);
        attempt.fall_back();
        match start(this, st, &mut attempt) {
            Ok(()) => st.phase = Phase::Connecting(attempt),
            Err(error) => this.connect_failed(st, Reply::failed(error)),
        }
        return;
    }
    let error = match failure.reason {
        Reason::Closed => ECONNRESET,
        _ => EPROTO,
    };
    this.connect_failed(st, Reply::failed(error));
    match failure.terminate {
        Some(code) if send_terminate(sock, code).is_ok() => this.close(st),
        _ => this.reset(st),
    }
}
