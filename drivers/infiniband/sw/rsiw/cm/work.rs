// SPDX-License-Identifier: GPL-2.0

//! The work of an endpoint: feeds the connection with what was noted, and what is at the socket.
//!
//! Context: process, under the endpoint's mutex where a function is given what that guards.
#![forbid(unsafe_code)]

use super::{
    endpoint::{
        Endpoint,
        EndpointState,
        Security, //
    },
    outputs::code,
    turns::WAIT_MS, //
};
use crate::{
    ffi::{
        mm::NoIo,
        net::{
            tls::Side,
            TcpSocket,
            TcpState, //
        },
    },
    proto::{
        connection::{
            Awaits,
            Input, //
        },
        notes::{
            self,
            EndpointNote, //
        },
    },
    wire::mpa, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        MutexGuard, //
    },
    workqueue::WorkItem, //
};

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
            EndpointNote::Shut => {
                st.left.forget_ends();
                self.feed(st, Input::Shut);
            }
            EndpointNote::Abort => self.feed(st, Input::Abort),
            // The caller goes on with the handshake next.
            EndpointNote::Expired if st.security.is_tried_again() => {}
            EndpointNote::Expired if st.security.is_in_line() => st.security.elapsed(WAIT_MS),
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
                // A deputy leaves the endpoint to this work only when it will not connect.
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

    /// Drops what the peer sent, and looks for its FIN. Goes on later if that is much.
    fn drain(self: &Arc<Self>, st: &mut EndpointState) {
        match st.sock.as_ref().map_or(Some(true), drained) {
            Some(true) => self.feed(st, Input::Drained),
            Some(false) => {}
            None => Self::kick(self.clone()),
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
        let security = core::mem::replace(&mut st.security, Security::Settled);
        let spot = st.spot.take();
        let qp = st.qp.take();
        let cm_id = self.take_cm_id();
        drop(st);
        drop((callbacks, security, spot, sock, qp, cm_id));
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
