// SPDX-License-Identifier: GPL-2.0

//! What the QP's mutex protects: the connection and sending. The state changes under it, too, but
//! can be read by all ([`Published`](super::published::Published)).
//!
//! Context: process, under that mutex.
#![forbid(unsafe_code)]

use super::{
    direct::KnownEnd,
    rx::Receiving,
    shared::Shared,
    sq::SqRing,
    stream::Stream,
    tx::TxState, //
};
use crate::{
    ffi::{
        net::Callbacks,
        time::Timer, //
    },
    proto::{
        drain::{
            Relook,
            Stop, //
        },
        failure::Failure,
        notes::{
            Noted,
            Notes,
            QpNote, //
        },
        receiver::Lack,
        schedule::{
            Actor,
            Doorbells, //
        },
        state::QpState, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// A connection, while TCP belongs to the QP.
pub(super) struct Conn {
    pub(super) callbacks: Callbacks<Stream>,
    pub(super) stream: Arc<Stream>,
    pub(super) tx: TxState,
    /// The entry by which the other end of the connection, if it is on this host, finds this end.
    pub(super) entry: Option<KnownEnd>,
}

impl Conn {
    /// Returns whether the peer has acknowledged everything, including the FIN.
    pub(super) fn is_delivered(&self) -> bool {
        self.tx.fin.is_sent() && self.stream.sock.is_acknowledged()
    }

    /// Takes the connection apart: no callback runs and nothing is received afterwards. Gives TCP
    /// back to the connection manager, which releases it. Returns what the receiver held.
    pub(super) fn dismantle(self) -> Option<KBox<Receiving>> {
        let Self {
            callbacks,
            stream,
            tx: _,
            entry,
        } = self;
        // This comes first, so that nobody finds what is taken apart.
        drop(entry);
        drop(callbacks);
        let rx = stream.sock.with_lock(|sk| stream.end(sk));
        // Without a receiver nobody starts the timer again.
        Timer::stop(&stream);
        rx
    }
}

/// What the QP's mutex protects.
pub(super) struct Inner {
    pub(super) ring: SqRing,
    pub(super) conn: Option<Conn>,
    /// Whether a connection was closed and the consumer has asked for nothing since.
    pub(super) was_closed: bool,
    /// Whether `LAST_WQE_REACHED` was raised since the QP was made or last connected.
    pub(super) last_wqe_told: bool,
    pub(super) doorbells: Doorbells,
    /// When to look next at the receives of a process that does not tell of them, in Error.
    pub(super) relook: Relook,
    /// Notes that were taken and not acted upon yet; none unless the work item does so.
    pub(super) left: Notes<QpNote>,
    /// What failed in `Qp::send_only`. Nothing is sent until
    /// [`Qp::settle`](super::Qp::settle) has acted upon it.
    pub(super) failed: Option<Failure>,
    /// The other end of a connection that has ended meanwhile, until somebody drops it who may sleep.
    pub(super) spent_peer: Option<Arc<Stream>>,
}

impl Noted for Inner {
    type Note = QpNote;

    fn left(&mut self) -> &mut Notes<QpNote> {
        &mut self.left
    }
}

impl Inner {
    pub(super) fn new(ring: SqRing) -> Self {
        Self {
            ring,
            conn: None,
            was_closed: false,
            last_wqe_told: false,
            doorbells: Doorbells::new(),
            relook: Relook::FIRST,
            left: Notes::NONE,
            failed: None,
            spent_peer: None,
        }
    }

    /// Returns whether the peer has not acknowledged yet all that TCP was given. What is handed to
    /// the other end past TCP does not count.
    pub(super) fn is_behind(&self) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| !conn.stream.sock.is_acknowledged())
    }

    /// Returns whether `stream` is that of the current connection.
    pub(super) fn is_on(&self, stream: &Arc<Stream>) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| Arc::ptr_eq(&conn.stream, stream))
    }

    /// Transmits until there is nothing more to send, or something else has to be done first.
    /// Returns `None` without a connection, and while a timer runs for want of memory. The caller
    /// sets the timer that the FIN may need.
    #[inline(always)]
    pub(super) fn send(&mut self, shared: &Shared, actor: Actor, may_wait: bool) -> Option<Stop> {
        let state = shared.state();
        let conn = self.conn.as_mut()?;
        if conn.stream.starves() {
            return None;
        }
        let peer = conn.stream.peer();
        let (stream, ring) = (&conn.stream, &mut self.ring);
        let (tx, end) = (&mut conn.tx, peer.as_deref());
        let stop = tx.run(shared, stream, end, ring, state, may_wait);
        // The last reference to a stream may not be dropped where nothing may sleep.
        if let Some(last) = peer.and_then(Arc::into_unique_or_drop) {
            self.spent_peer = Some(last.into());
            shared.notes.leave(QpNote::Again);
        }
        shared.counts.count_sent(conn.tx.tally(), actor);
        shared.published.set_taken(ring.taken());
        shared.published.set_unsent(conn.tx.unsent());
        Some(stop)
    }

    /// Completes what is due. Returns whether the connection may be closed gracefully then: nothing
    /// is to be sent or answered.
    pub(super) fn complete_before_close(&self, shared: &Shared) -> bool {
        if shared.complete_due() {
            // Some of those who ask this do not send next, and transmission may have waited for
            // what has left.
            shared.notes.leave(QpNote::Again);
        }
        let busy = self.conn.as_ref().is_some_and(|conn| conn.tx.is_busy());
        !busy
            && self.ring.is_empty()
            && shared.sq.lock().is_empty()
            && shared.inbound.lock().is_empty()
    }

    /// Completes what is due. Returns whether the FIN may be sent then: the connection may be
    /// closed gracefully ([`Inner::complete_before_close`]), the peer has answered even a Read that
    /// is no request's, and no message of the peer's waits for a region to be quiet. Such a message
    /// is complete, and what it invalidates is invalid, so its receive must not be flushed. The
    /// work item completes it, and looks again.
    pub(super) fn complete_before_fin(&self, shared: &Shared) -> bool {
        self.complete_before_close(shared)
            && shared.sq.lock().outbound.outstanding() == 0
            && !self.conn.as_ref().is_some_and(|conn| {
                let stream = &conn.stream;
                stream.sock.with_lock(|sk| {
                    let part = stream.receiving(sk);
                    part.is_some_and(|part| part.receiver.lacks() == Lack::Quiet)
                })
            })
    }

    /// Returns whether to report that the QP takes no more receives of a shared queue, and that
    /// those it had taken are flushed (T-16). The caller does so.
    ///
    /// A process is told once between connections: it could have the QP enter Error as often as it
    /// likes, and uverbs keeps all events that it does not fetch. For a kernel consumer the core
    /// waits for an event each time that it drains the QP.
    pub(super) fn tell_last_wqe(&mut self, shared: &Shared) -> bool {
        if shared.state() != QpState::Error
            || shared.id.srq.is_none()
            || shared.flags.destroyed.load(Relaxed)
        {
            return false;
        }
        let is_told = core::mem::replace(&mut self.last_wqe_told, true);
        !is_told || shared.id.is_of_kernel()
    }
}
