// SPDX-License-Identifier: GPL-2.0

//! TLS below MPA: on connections of a device that has TLS, the handshake comes between TCP and the
//! Request. No standard says how TLS and MPA go together; both ends have to be set up for it.
//!
//! During the handshake the socket belongs to the daemon that does the handshake, and has no
//! callbacks. The timer of the connection's phase keeps running.
//!
//! Context: process, under the endpoint's mutex.
#![forbid(unsafe_code)]

use super::endpoint::{
    Deputy,
    Endpoint,
    EndpointState,
    Security, //
};
use super::listener::Listener;
use super::registry::{
    Entry,
    Line,
    WAIT_MS, //
};
use crate::ffi::net::tls::{
    Handshake,
    HandshakeHandler,
    Side, //
};
use crate::ffi::net::{
    Callbacks,
    TcpSocket, //
};
use crate::log::Author;
use crate::proto::connection::REQUEST_MS;
use crate::wire::tls::{
    Opening,
    OPENING, //
};
use crate::wire::Short;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// How long the daemon may take, in milliseconds: less than the phases of a connection in which
/// there is a handshake.
pub(super) const HANDSHAKE_MS: u32 = 10_000;
/// The kernel limits how many handshakes wait for the daemon. If there are too many, the side that
/// was connected to asks again after this many milliseconds, the other side at the next tick of its
/// phase.
const RETRY_MS: u32 = 50;

impl Endpoint {
    /// Returns the state of TLS that a new connection begins with, on the side `side`.
    pub(super) fn wanted_security(&self, side: Side) -> Security {
        match (self.dev().tls(), side) {
            (None, _) => Security::Settled,
            (Some(_), Side::Client) => Security::WANTED,
            (Some(_), Side::Server) => Security::Silent,
        }
    }

    /// Returns who can cause what happens to a connection while it is set up: the peer of the queue
    /// pair that connects or accepts it, or whoever asks for it.
    pub(super) fn author(&self, st: &EndpointState) -> Author {
        let has_shown = matches!(st.security, Security::Settled) && self.dev().tls().is_some();
        match &st.qp {
            Some(qp) => qp.shared.id.peer_author(),
            None if has_shown => Author::Asker,
            None => Author::Stranger,
        }
    }

    /// Goes on with TLS as far as possible on a connected socket, as `side`. Returns whether MPA
    /// may use the socket, or the error if it never may. The handshake kicks the endpoint when it
    /// ends.
    pub(super) fn secure(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result<bool> {
        if matches!(st.security, Security::Silent) {
            match st
                .sock
                .as_ref()
                .map_or(Err(ECONNRESET), |sock| opening(sock))
            {
                Ok(true) => {
                    self.stand_in_line(st, side)?;
                    st.security = Security::WANTED;
                }
                Ok(false) => return Ok(false),
                // No failure of TLS: port scanners and health checks say nothing (T-42b).
                Err(e) if e != EPROTO => return Err(e),
                Err(e) => self.fail(st, e),
            }
        }
        let outcome = match &st.security {
            Security::Settled => return Ok(true),
            Security::Silent => return Ok(false),
            Security::Failed(error) => return Err(*error),
            Security::Wanted { left } => {
                let left = *left;
                match self.begin_handshake(st, side) {
                    Err(e) if e == EAGAIN && left > 0 => {
                        self.try_again(st, side, left);
                        Ok(false)
                    }
                    other => other.map(|()| false),
                }
            }
            Security::UnderWay(handshake) => match handshake.outcome() {
                None => Ok(false),
                Some(ended) => ended.and_then(|()| self.end_handshake(st, side)),
            },
            Security::InLine { left } => {
                let is_over = *left == 0 || st.is_first_in_line();
                if is_over {
                    self.leave_line(st, side);
                }
                Ok(is_over)
            }
        };
        outcome.inspect_err(|error| self.fail(st, *error))
    }

    /// Logs why TLS has failed on a connection, and gives it up.
    fn fail(&self, st: &mut EndpointState, error: Error) {
        let why = match error {
            e if e == EKEYREJECTED => " (another key, or none of tls_keyring)",
            _ => "",
        };
        let author = self.author(st);
        self.dev()
            .log(author, fmt!("no TLS on a connection: {error:?}{why}"));
        st.security = Security::Failed(error);
    }

    fn begin_handshake(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result {
        self.stand_in_line(st, side)?;
        let sock = st.sock.clone().ok_or(ECONNRESET)?;
        let credentials = self.dev().tls().ok_or(EINVAL)?;
        let host = self.host();
        if let Some(listener) = &host {
            listener.begin_handshake(st.source, self.number())?;
        }
        st.callbacks = None;
        let start = |claim| Handshake::start(claim, side, credentials, HANDSHAKE_MS, self.clone());
        let handshake = sock.claim().and_then(start).or_else(|error| {
            if let Some(listener) = &host {
                listener.put_off(st.source, self.number())?;
            }
            Err(error)
        })?;
        if side == Side::Server {
            self.arm(st, REQUEST_MS);
        }
        st.security = Security::UnderWay(handshake);
        Ok(())
    }

    /// Returns the listener that the connection belongs to until there is a Request.
    fn host(&self) -> Option<Arc<Listener>> {
        match self.deputy() {
            Some(Deputy::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// Leaves the handshake to a later try.
    fn try_again(self: &Arc<Self>, st: &mut EndpointState, side: Side, left: u32) {
        // On the side that connects, the timer of the phase ticks anyway, as long as the phase
        // lasts.
        if side == Side::Server {
            let left = left.saturating_sub(RETRY_MS);
            st.security = Security::Wanted { left };
            self.arm(st, RETRY_MS);
        }
    }

    fn stand_in_line(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result {
        let ends = st.both_ends().ok_or(ECONNRESET)?;
        let line = match side {
            Side::Client => Line::To(ends.remote),
            Side::Server => Line::From(ends.remote.ip(), ends.local.port()),
        };
        self.stand_in(st, line)
    }

    /// Lets MPA begin, even if older connections have not begun with it.
    fn leave_line(self: &Arc<Self>, st: &mut EndpointState, side: Side) {
        st.security = Security::Settled;
        if side == Side::Server {
            self.arm(st, REQUEST_MS);
        }
    }

    /// Takes the socket back from the daemon. Returns whether MPA may begin at once.
    fn end_handshake(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result<bool> {
        if let Some(listener) = self.host() {
            listener.end_handshake(st.source, self.number())?;
        }
        // The daemon has the socket until the handshake is dropped.
        st.security = Security::Settled;
        let sock = st.sock.as_ref().ok_or(ECONNRESET)?;
        st.callbacks = Some(Callbacks::install(sock.claim()?, self.clone())?);
        if st.is_first_in_line() {
            return Ok(true);
        }
        st.security = Security::InLine { left: WAIT_MS };
        // On the side that connects, the timer of the phase ticks anyway.
        if side == Side::Server {
            self.arm(st, WAIT_MS);
        }
        Ok(false)
    }
}

/// Looks how the stream of a peer begins. Returns whether the first record of a ClientHello is
/// there, and is complete: the daemon is asked only then, as each handshake costs it a process.
/// Fails with `EPROTO` if the stream begins with something else, or with TCP's error.
fn opening(sock: &TcpSocket) -> Result<bool> {
    let mut octets = [0; OPENING];
    let count = match sock.peek(&mut octets) {
        Err(e) if e == EAGAIN => return Ok(false),
        Ok(0) => return Err(ECONNRESET),
        other => other?,
    };
    match Opening::parse(octets.get(..count).unwrap_or(&[])) {
        Ok(Opening::ClientHello(len)) => Ok(sock.unread() >= len),
        Ok(Opening::Other) => Err(EPROTO),
        Err(Short) => Ok(false),
    }
}

impl HandshakeHandler for Endpoint {
    fn ended(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }
}
