// SPDX-License-Identifier: GPL-2.0

//! What is known of a queue pair without its mutex.
//!
//! Who looks at queue pairs of others takes no mutex, and no socket's lock: he may be a process of
//! least priority. What he sees is copied while its owner works; what belongs to TCP is read as it
//! is.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use super::stream::Stream;
use crate::{
    ffi::net::TcpSocket,
    proto::{
        conn::Params,
        direct::is_empty,
        state::QpState, //
    },
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// Each state at the place of its number.
const STATES: [QpState; 6] = [
    QpState::Idle,
    QpState::Rts,
    QpState::Draining,
    QpState::Closing,
    QpState::Terminate,
    QpState::Error,
];

const _: () = {
    let mut n = 0;
    while n < STATES.len() {
        assert!(STATES[n] as usize == n);
        n = n.wrapping_add(1);
    }
};

/// What was published last.
#[pin_data]
pub(super) struct Published {
    state: Atomic<u32>,
    /// IRD: that of the connection, or what the consumer wants for the next.
    ird: Atomic<u32>,
    /// How many requests a process has had taken from its queue; wraps.
    taken: Atomic<u32>,
    /// Octets of FPDUs that TCP has no room for.
    unsent: Atomic<u32>,
    /// Taken by who begins and ends a connection, and by who looks.
    #[pin]
    conn: SpinLock<Option<Shown>>,
}

/// A connection.
struct Shown {
    stream: Arc<Stream>,
    sock: Arc<TcpSocket>,
    crc: bool,
    markers: bool,
}

/// What a connection looks like at a moment.
pub(super) struct Sight {
    /// FPDUs have CRCs,
    pub(super) crc: bool,
    /// and markers.
    pub(super) markers: bool,
    /// Messages go past TCP at this moment, from this side and to it.
    pub(super) direct: (bool, bool),
    /// The number of the other end's queue pair, if it is on this host.
    pub(super) peer: Option<u32>,
    /// Octets of data that fit a segment of TCP.
    pub(super) mss: u32,
    /// Octets that the peer has not acknowledged,
    pub(super) unacked: u32,
    /// that TCP has not sent,
    pub(super) unsent: u32,
    /// and that were not read.
    pub(super) unread: u32,
}

impl Shown {
    fn sight(&self) -> Sight {
        let past = |from: &TcpSocket, to: &TcpSocket| {
            is_empty(from.numbers().write_seq, to.numbers().copied_seq)
        };
        let (direct, peer) = match &*self.stream.peer.lock() {
            Some(end) => (
                (past(&self.sock, &end.sock), past(&end.sock, &self.sock)),
                Some(end.stream.qp.num().0),
            ),
            None => ((false, false), None),
        };
        let tcp = self.sock.numbers();
        Sight {
            crc: self.crc,
            markers: self.markers,
            direct,
            peer,
            mss: self.sock.mss(),
            unacked: tcp.snd_nxt.wrapping_sub(tcp.snd_una),
            unsent: tcp.write_seq.wrapping_sub(tcp.snd_nxt),
            unread: tcp.rcv_nxt.wrapping_sub(tcp.copied_seq),
        }
    }
}

impl Published {
    /// Idle.
    pub(super) fn new(ird: u16) -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(QpState::Idle as u32),
            ird: Atomic::new(ird.into()),
            taken: Atomic::new(0),
            unsent: Atomic::new(0),
            conn <- new_spinlock!(None, "rsiw::Published::conn"),
        })
    }

    /// Returns the state, which may be another by now.
    pub(super) fn load(&self) -> QpState {
        // CAST: 32 bits fit.
        let number = self.state.load(Acquire) as usize;
        STATES.get(number).copied().unwrap_or_default()
    }

    /// Publishes the state. Under the queue pair's mutex.
    pub(super) fn store(&self, state: QpState) {
        // CAST: the number of a variant.
        self.state.store(state as u32, Release);
    }

    /// Returns IRD.
    pub(super) fn ird(&self) -> u16 {
        // CAST: what was stored.
        self.ird.load(Relaxed) as u16
    }

    /// Sets IRD. Under the queue pair's mutex.
    pub(super) fn set_ird(&self, ird: u16) {
        self.ird.store(ird.into(), Relaxed);
    }

    /// Publishes how many requests of a process were taken. Under the queue pair's mutex.
    #[inline(always)]
    pub(super) fn took(&self, taken: u32) {
        self.taken.store(taken, Relaxed);
    }

    /// Publishes how many octets TCP has no room for. Under the queue pair's mutex.
    #[inline(always)]
    pub(super) fn left(&self, unsent: usize) {
        // CAST: a batch is smaller.
        self.unsent.store(unsent as u32, Relaxed);
    }

    /// How many requests a process has had taken from its queue; wraps.
    pub(super) fn taken(&self) -> u32 {
        self.taken.load(Relaxed)
    }

    /// Octets of FPDUs that TCP has no room for.
    pub(super) fn unsent(&self) -> usize {
        u32_as_usize(self.unsent.load(Relaxed))
    }

    /// Shows the connection from now on. Process context, under the queue pair's mutex.
    pub(super) fn connected(&self, stream: &Arc<Stream>, sock: &Arc<TcpSocket>, params: &Params) {
        let shown = Shown {
            stream: stream.clone(),
            sock: sock.clone(),
            crc: params.crc,
            markers: params.send_markers,
        };
        let old = self.conn.lock().replace(shown);
        drop(old);
    }

    /// Shows no connection any more. Process context.
    pub(super) fn disconnected(&self) {
        let old = self.conn.lock().take();
        self.unsent.store(0, Relaxed);
        drop(old);
    }

    /// Looks at the connection, if there is one. Process context. Nobody is given a reference: the
    /// socket is not kept by who looks.
    pub(super) fn look(&self) -> Option<Sight> {
        self.conn.lock().as_ref().map(Shown::sight)
    }
}
