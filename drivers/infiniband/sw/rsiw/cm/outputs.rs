// SPDX-License-Identifier: GPL-2.0

//! Carries out what a connection says: timer, callbacks, queue pair, TCP.
//!
//! Context: process, under the endpoint's mutex.
#![forbid(unsafe_code)]

use super::endpoint::{
    Deputy,
    Endpoint,
    EndpointState,
    OwnConnection, //
};
use crate::{
    ffi::{
        crc::crc32c,
        net::{
            tls::Side,
            Callbacks,
            TcpSocket,
            TcpState, //
        },
        rdma::attr::Qpn,
        rsiw::trace,
    },
    limits::Quota,
    log::Author,
    proto::{
        connection::{
            self,
            Ask,
            Code,
            Input,
            Log,
            Outputs,
            Tcp,
            Timer, //
        },
        counters::Counter,
        setup::Params,
        tx,
    },
    wire::{
        marker::Markers,
        mpa,
        terminate::{
            TermError,
            Terminate, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

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

    /// Feeds the connection, and does what follows. An error is that of the consumer's call that
    /// `input` is about.
    pub(super) fn try_feed(self: &Arc<Self>, st: &mut EndpointState, input: Input<'_>) -> Result {
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

    /// As [`Endpoint::try_feed`], for what is no consumer's call.
    pub(super) fn feed(self: &Arc<Self>, st: &mut EndpointState, input: Input<'_>) {
        let _ = self.try_feed(st, input);
    }

    /// Does what the connection says, and tells it what came of that. Fails as `try_feed`.
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

    /// Does all that cannot fail.
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
                // Without them the timer ends the connection.
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
                    qp.abort();
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
                // The FIN was sent, but for a race: closing a socket sends no close_notify.
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
            if let Some(error) = error.map(errno) {
                let num = qp.num();
                self.dev().log(
                    qp.peer_author(),
                    fmt!("QP {num}: connect failed: {error:?}"),
                );
            }
            qp.detach(&**self);
        }
    }

    /// Does what may fail.
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
                self.dev().count(Some(Counter::of_terminate(error)));
                Ok(())
            }
        }
    }

    fn dial(self: &Arc<Self>, st: &mut EndpointState) -> Result {
        // Before anything can queue the endpoint's own work: if that held the mutex when it is the
        // endpoint's turn, others would overtake it.
        self.leave_to(Deputy::Initiators);
        let dial = st.dial.as_ref().ok_or(EINVAL)?;
        let dev = self.dev();
        let netdev = dev.netdev().ok_or(ENODEV)?;
        let (sock, callbacks) = dial.connect(&netdev, self, dev.tls().is_some())?;
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
        qp.start(&sock, params, &**self)?;
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
                let num = st.qp.as_ref().map_or(Qpn(0), |qp| qp.num());
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
    let message = Terminate { error, quote: None };
    let mut markers = markers.then(Markers::new);
    let mut fpdu = [0; tx::MAX_TERMINATE];
    // A peer that does not want CRCs ignores this one.
    let fpdu = tx::terminate(&message, markers.as_mut(), Some(crc32c), &mut fpdu);
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
