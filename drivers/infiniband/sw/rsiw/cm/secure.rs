// SPDX-License-Identifier: GPL-2.0

//! TLS below MPA: its handshake comes between TCP and the Request, on connections of a device that
//! has it. No standard says how the two go together; both ends have to be told.
//!
//! Meanwhile the socket is the daemon's that does the handshake, and has no callbacks. The timer of
//! the connection's phase goes on.
//!
//! Context: process, under the endpoint's mutex.
#![forbid(unsafe_code)]

use super::endpoint::{
    Endpoint,
    EndpointState,
    Security, //
};
use crate::{
    ffi::net::{
        tls::{
            Handshake,
            HandshakeHandler,
            Side, //
        },
        Callbacks, //
    },
    log::Author,
    proto::connection::REQUEST_MS,
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// How long the daemon may take, in milliseconds: less than the phases in which it has to.
const HANDSHAKE_MS: u32 = 10_000;
/// The kernel limits how many handshakes wait for the daemon. Beyond that the side that was connected
/// to asks again after so many milliseconds, the other side at the next tick of its phase.
const RETRY_MS: u32 = 50;

impl Endpoint {
    /// Returns what a new connection wants.
    pub(super) fn wanted_security(&self) -> Security {
        match self.dev().tls() {
            Some(_) => Security::WANTED,
            None => Security::Settled,
        }
    }

    /// Returns who can cause what happens to a connection while it is set up: the peer of the queue
    /// pair that connects or accepts it, or whoever asks for it.
    pub(super) fn author(&self, st: &EndpointState) -> Author {
        let has_shown = matches!(st.security, Security::Settled) && self.dev().tls().is_some();
        match &st.qp {
            Some(qp) => qp.peer_author(),
            None if has_shown => Author::Asker,
            None => Author::Stranger,
        }
    }

    /// Goes on with TLS as far as possible on a connected socket, as `side`. Returns whether MPA may
    /// use the socket, or why it never may. The handshake kicks the endpoint when it ends.
    pub(super) fn secure(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result<bool> {
        let outcome = match &st.security {
            Security::Settled => return Ok(true),
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
                Some(ended) => ended.and_then(|()| self.end_handshake(st)).map(|()| true),
            },
        };
        outcome.inspect_err(|error| {
            let why = match *error {
                e if e == EKEYREJECTED => " (another key, or none of tls_keyring)",
                _ => "",
            };
            let author = self.author(st);
            self.dev()
                .log(author, fmt!("no TLS on a connection: {error:?}{why}"));
            st.security = Security::Failed(*error);
        })
    }

    fn begin_handshake(self: &Arc<Self>, st: &mut EndpointState, side: Side) -> Result {
        let sock = st.sock.as_ref().ok_or(ECONNRESET)?;
        let credentials = self.dev().tls().ok_or(EINVAL)?;
        st.callbacks = None;
        let (claim, handler) = (sock.claim()?, self.clone());
        let handshake = Handshake::start(claim, side, credentials, HANDSHAKE_MS, handler)?;
        if st.security.is_tried_again() {
            self.arm(st, REQUEST_MS);
        }
        st.security = Security::UnderWay(handshake);
        Ok(())
    }

    /// Has the handshake begun later.
    fn try_again(self: &Arc<Self>, st: &mut EndpointState, side: Side, left: u32) {
        // The timer of the other side ticks anyway, as long as the phase lasts.
        if side == Side::Server {
            let left = left.saturating_sub(RETRY_MS);
            st.security = Security::Wanted { left };
            self.arm(st, RETRY_MS);
        }
    }

    fn end_handshake(self: &Arc<Self>, st: &mut EndpointState) -> Result {
        // The handshake has the socket until it is dropped.
        st.security = Security::Settled;
        let sock = st.sock.as_ref().ok_or(ECONNRESET)?;
        st.callbacks = Some(Callbacks::install(sock.claim()?, self.clone())?);
        Ok(())
    }
}

impl HandshakeHandler for Endpoint {
    fn ended(this: ArcBorrow<'_, Self>) {
        Self::kick(this);
    }
}
