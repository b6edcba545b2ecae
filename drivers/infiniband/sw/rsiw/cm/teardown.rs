// SPDX-License-Identifier: GPL-2.0

//! The ends of a connection: failed set-up, the end of the stream, lingering.
//!
//! All under the endpoint's mutex.
#![forbid(unsafe_code)]

use super::{
    endpoint::{
        Link,
        Phase,
        State, //
    },
    events::{
        Established,
        Pending,
        Reply, //
    },
    passive,
    Endpoint,
    StreamEnd,
    FIN_WAIT_MS,
    LINGER_MS, //
};
use crate::{
    ffi::{
        crc::crc32c,
        log::pr_ratelimited,
        net::{
            Callbacks,
            TcpSocket,
            TcpState, //
        },
    },
    proto::tx,
    wire::{
        fpdu::{
            Crc,
            Trailer,
            MAX_TRAILER, //
        },
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

impl Endpoint {
    /// Ends a connection that the QP does not have; the peer gets a RST.
    pub(super) fn give_up(self: &Arc<Self>, st: &mut State, error: Error) {
        match core::mem::replace(&mut st.phase, Phase::Closed) {
            Phase::Connecting(_) | Phase::AwaitReply(_) => {
                self.connect_failed(st, Reply::failed(error));
            }
            Phase::AwaitRequest(_) | Phase::Requested(_) => st.outbox.request = None,
            phase @ Phase::Running => {
                st.phase = phase;
                return;
            }
            Phase::New | Phase::Finishing | Phase::Lingering | Phase::Closed => {}
        }
        self.reset(st);
    }

    /// There will be no connection: the QP is free again, and the consumer is told.
    pub(super) fn connect_failed(self: &Arc<Self>, st: &mut State, reply: Reply) {
        if let Some(qp) = st.qp.take() {
            if let Some(error) = reply.error {
                let dev = self.dev.handle();
                pr_ratelimited!("{}: QP {}: connect failed: {:?}\n", dev, qp.num(), error);
            }
            qp.detach(self);
        }
        st.outbox.reply = Some(reply);
    }

    /// Resets TCP and lets go of the socket.
    pub(super) fn reset(self: &Arc<Self>, st: &mut State) {
        self.disarm();
        st.callbacks = None;
        if let Some(sock) = st.sock.take() {
            sock.abort();
        }
        st.phase = Phase::Closed;
    }

    /// The QP has left the stream.
    pub(super) fn stream_ended(self: &Arc<Self>, st: &mut State, end: StreamEnd) {
        match core::mem::replace(&mut st.link, Link::Down) {
            Link::Down => {}
            Link::Accepted(depths) => {
                st.outbox.established = Some(Established {
                    error: Some(ECONNRESET),
                    depths,
                });
                st.outbox.close = true;
            }
            Link::Up => st.outbox.close = true,
        }
        st.qp = None;
        match end {
            StreamEnd::Reset => self.reset(st),
            StreamEnd::Graceful => self.close(st),
        }
    }

    /// Sends a FIN, if the peer has what stands in front of it or does not acknowledge that in
    /// [`FIN_WAIT_MS`] (see `qp::fin`), and lingers until the peer's: data that nobody reads must not
    /// turn the close into a RST, which could destroy what was sent last (T-32).
    pub(super) fn close(self: &Arc<Self>, st: &mut State) {
        self.disarm();
        st.phase = Phase::Closed;
        let Some(sock) = &st.sock else {
            return;
        };
        if st.callbacks.is_none() {
            st.callbacks = Callbacks::install(sock.clone(), self.clone()).ok();
        }
        st.phase = Phase::Finishing;
        self.arm(FIN_WAIT_MS);
        self.finish(st);
    }

    /// Sends the FIN if it is time.
    pub(super) fn finish(self: &Arc<Self>, st: &mut State) {
        if st.sock.as_ref().is_none_or(|sock| sock.may_finish()) {
            self.send_fin(st);
        }
        self.linger(st);
    }

    /// Sends the FIN.
    pub(super) fn send_fin(self: &Arc<Self>, st: &mut State) {
        if let Some(sock) = &st.sock {
            sock.shutdown_write();
        }
        st.phase = Phase::Lingering;
        self.arm(LINGER_MS);
    }

    /// Drops what the peer sent; closed once its FIN is there.
    pub(super) fn linger(self: &Arc<Self>, st: &mut State) {
        let over = st.sock.as_ref().is_none_or(drained);
        if over {
            self.disarm();
            st.callbacks = None;
            st.sock = None;
            st.phase = Phase::Closed;
        }
    }

    /// An event could not be delivered.
    pub(super) fn undelivered(self: &Arc<Self>, st: &mut State, pending: &Pending) {
        match pending {
            Pending::Request(_) => {
                pr_ratelimited!("{}: no room for a connection request\n", self.dev.handle());
                passive::refuse(self, st, &[]);
            }
            // Private data takes memory; without it the event gets through.
            Pending::Reply(reply) if !reply.data.is_empty() => {
                if reply.error.is_none() {
                    st.link = Link::Down;
                    if let Some(qp) = &st.qp {
                        qp.abort();
                    }
                }
                st.outbox.disconnect = false;
                st.outbox.close = false;
                st.outbox.reply = Some(Reply::failed(reply.error.unwrap_or(ENOMEM)));
            }
            _ => pr_ratelimited!("{}: event lost\n", self.dev.handle()),
        }
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

/// Sends a Terminate as the first FPDU of a stream that will have no other.
pub(super) fn send_terminate(sock: &TcpSocket, error: TermError) -> Result {
    let mut header = [0; tx::TERMINATE_HEADER];
    let message = Terminate { error, quote: None };
    let frame = tx::terminate(&message, &mut header);
    let header = header.get(..frame.header_len).ok_or(EINVAL)?;
    // A peer that does not want CRCs ignores this one.
    let crc = Crc::new().update(crc32c, header);
    let trailer = Trailer::new(frame.ulpdu_len, Some(crc), crc32c);
    let mut fpdu = [0; tx::TERMINATE_HEADER + MAX_TRAILER];
    let mut len = 0usize;
    for (to, from) in fpdu
        .iter_mut()
        .zip(Iterator::chain(header.iter(), trailer.as_bytes()))
    {
        *to = *from;
        len = len.saturating_add(1);
    }
    send_whole(sock, fpdu.get(..len).ok_or(EINVAL)?)
}

/// Sends a frame that fits the empty send queue of a new connection.
///
/// # Errors
///
/// `ENOBUFS` if it does not.
pub(super) fn send_whole(sock: &TcpSocket, frame: &[u8]) -> Result {
    if sock.send(frame)? == frame.len() {
        Ok(())
    } else {
        Err(ENOBUFS)
    }
}
