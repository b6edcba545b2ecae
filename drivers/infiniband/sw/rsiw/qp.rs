// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (draft-hilland-rddp-verbs section 6).
//!
//! A QP consists of:
//!
//! - the [`shared::Shared`]: which QP it is ([`identity::QpIdentity`]), and what softirq shares
//!   with those who send.
//! - [`Inner`], under a mutex: the connection ([`Conn`]) and sending. Process context. The state
//!   changes under this mutex, too, but all can read it (`shared/published.rs`).
//! - the [`stream::Stream`]: receiving, under the socket's lock.
//! - work items and timers, which act for others ([`actors`]).
//!
//! Handlers of consumers and of the connection manager are called without any of these locks held.
//! A device finds its queue pairs by number in a [`Table`].
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

mod actors;
mod completions;
pub(crate) mod create;
mod describe;
pub(crate) mod direct;
pub(crate) mod identity;
mod intake;
mod memory;
mod poller;
mod sending;
pub(crate) mod shared;
mod source;
mod sq;
mod state;
mod stream;

use self::direct::{
    KnownEnd,
    LocalPeers, //
};
use self::intake::Receiving;
use self::poller::Poller;
use self::sending::Sending;
use self::shared::Shared;
use self::sq::SqRing;
use self::stream::Stream;
use crate::ffi::hash::random_u32;
use crate::ffi::module::Loaded;
use crate::ffi::net::Callbacks;
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::sync::rcu_table::RcuTable;
use crate::ffi::time::hrtimer::ShortTimer;
use crate::ffi::time::Timer;
use crate::limits::Quota;
use crate::proto::drain::{
    Relook,
    Stop, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::notes::{
    Noted,
    Notes,
    QpNote, //
};
use crate::proto::receiver::{
    Lack,
    Recv, //
};
use crate::proto::schedule::{
    Actor,
    Doorbells, //
};
use crate::proto::state::QpState;
use core::ops::RangeInclusive;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{
    Arc,
    Mutex,
    SpinLock, //
};
use kernel::workqueue::Work;

/// The queue pairs of a device, by number.
pub(crate) type QpTable = Table<Qp>;

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    #[pin]
    pub(crate) shared: Shared,
    table: Arc<QpTable>,
    /// Where connections of the queue pair look for their other ends.
    peers: Arc<LocalPeers>,
    /// Set if the send queue of a process may be polled.
    poller: Option<Pin<KBox<Poller<Qp>>>>,
    /// The connection, for [`Qp::describe`], which does not take the mutex.
    #[pin]
    shown: SpinLock<Option<Arc<Stream>>>,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    work: Work<Qp, { actors::ACTS }>,
    #[pin]
    posts: Work<Qp, { actors::SENDS }>,
    #[pin]
    timer: Timer<Qp>,
    /// The timer that runs while requests gather.
    #[pin]
    gathers: ShortTimer<Qp>,
    _quota: Quota,
}

impl Qp {
    /// Withdraws what the process was offered to map.
    fn forget_offers(&self) {
        self.shared.id.consumer.forget_rings();
        if let Some(poller) = &self.poller {
            poller.forget();
        }
    }

    /// Returns the poller, unless polling has ended for good.
    #[inline]
    fn active_poller(&self) -> Option<&Poller<Self>> {
        self.poller.as_deref().filter(|poller| !poller.is_over())
    }
}

/// Numbers of queue pairs with a stream: half of what 24 bits hold, without 0 and 1, which are
/// special elsewhere. Queue pairs for datagrams have the other half.
pub(crate) const NUMBERS: RangeInclusive<u32> = 2..=0x7f_ffff;

/// Queue pairs `Q` by number.
#[pin_data]
pub(crate) struct Table<Q: Send + Sync + 'static> {
    #[pin]
    qps: RcuTable<Q>,
    numbers: RangeInclusive<u32>,
}

impl<Q: Send + Sync + 'static> Table<Q> {
    /// Makes an empty table for queue pairs that have `numbers`. Sleeps.
    ///
    /// The numbers begin at a random one. So a stranger cannot guess those of queue pairs that are
    /// connected by number, and two hosts have the same numbers by chance only.
    pub(crate) fn new(numbers: RangeInclusive<u32>, loaded: Loaded) -> Result<Arc<Self>> {
        let first = numbers.start() | random_u32() & numbers.end();
        Arc::pin_init(
            pin_init!(Self {
                qps <- RcuTable::new(first, loaded),
                numbers,
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn lookup(&self, num: Qpn) -> Option<Arc<Q>> {
        self.qps.lookup(num.0)
    }

    /// Calls `f` for all queue pairs; see [`RcuTable::for_each`]. Process context if `f` needs it.
    pub(crate) fn for_each(&self, f: impl FnMut(Arc<Q>)) {
        self.qps.for_each(f);
    }

    /// Enters `qp`, in memory allocated with `flags`, and returns the number that it got, or
    /// `EBUSY` if none is free. Sleeps.
    pub(crate) fn insert(&self, qp: Arc<Q>, flags: Flags) -> Result<Qpn> {
        let numbers = self.numbers.clone();
        self.qps.insert_free(numbers, qp, flags).map(Qpn)
    }

    pub(crate) fn remove(&self, num: Qpn) {
        self.qps.remove(num.0);
    }
}

impl QpTable {
    /// Returns queue pair `num`, unless its consumer destroys it.
    pub(crate) fn find(&self, num: Qpn) -> Option<Arc<Qp>> {
        self.lookup(num).filter(|qp| !qp.is_ending())
    }
}

/// A connection, while TCP belongs to the QP.
struct Conn {
    callbacks: Callbacks<Stream>,
    stream: Arc<Stream>,
    sending: Sending,
    /// The entry by which the other end of the connection, if it is on this host, finds this end.
    entry: Option<KnownEnd>,
}

impl Conn {
    /// Returns whether the peer has acknowledged everything, including the FIN.
    fn is_delivered(&self) -> bool {
        self.sending.fin.is_sent() && self.stream.sock.is_acknowledged()
    }

    /// Takes the connection apart: no callback runs and nothing is received afterwards. Gives TCP
    /// back to the connection manager, which releases it. Returns what the receiver held.
    fn dismantle(self) -> Option<KBox<Receiving>> {
        let Self {
            callbacks,
            stream,
            sending: _,
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
struct Inner {
    ring: SqRing,
    conn: Option<Conn>,
    /// Whether a connection was closed and the consumer has asked for nothing since.
    was_closed: bool,
    /// Whether `LAST_WQE_REACHED` was raised since the QP was made or last connected.
    last_wqe_told: bool,
    doorbells: Doorbells,
    /// In Error: when to look next at the receives of a process that does not tell of them.
    relook: Relook,
    /// The timer runs because requests wait for a peer that is gone.
    gives_up: bool,
    /// Notes that were taken and not acted upon yet; none unless the work item does so.
    left: Notes<QpNote>,
    /// What failed in `Qp::send_only`. Nothing is sent until
    /// [`Qp::settle`](Qp::settle) has acted upon it.
    failed: Option<Failure>,
    /// What the oldest request fails with when requests are flushed, if the QP is connected by
    /// number.
    blame: Option<Fault>,
    /// The receive of a message of which a part has come, once the stream has ended. It stays, like
    /// those in the queue, if the QP is connected by number.
    begun: Option<Recv>,
    /// The other end of a connection that has ended meanwhile, until somebody who may sleep drops
    /// it.
    spent_peer: Option<Arc<Stream>>,
}

impl Noted for Inner {
    type Note = QpNote;

    fn left(&mut self) -> &mut Notes<QpNote> {
        &mut self.left
    }
}

impl Inner {
    fn new(ring: SqRing) -> Self {
        Self {
            ring,
            conn: None,
            was_closed: false,
            last_wqe_told: false,
            doorbells: Doorbells::new(),
            relook: Relook::FIRST,
            gives_up: false,
            left: Notes::NONE,
            failed: None,
            blame: None,
            begun: None,
            spent_peer: None,
        }
    }

    /// Returns whether the peer has not acknowledged yet all that TCP was given. What is handed to
    /// the other end past TCP does not count.
    fn is_behind(&self) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| !conn.stream.sock.is_acknowledged())
    }

    /// Returns whether `stream` is that of the current connection.
    fn is_on(&self, stream: &Arc<Stream>) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| Arc::ptr_eq(&conn.stream, stream))
    }

    /// Transmits what may be sent in `state`, which is the QP's or a later one, until there is
    /// nothing more to send, or something else has to be done first. Returns `None` without a
    /// connection, and while a timer runs for want of memory. The caller sets the timer that the
    /// FIN may need.
    #[inline(always)]
    fn send(
        &mut self,
        shared: &Shared,
        state: QpState,
        actor: Actor,
        may_wait: bool,
    ) -> Option<Stop> {
        let conn = self.conn.as_mut()?;
        if conn.stream.starves() {
            return None;
        }
        let peer = conn.stream.peer();
        let (stream, ring) = (&conn.stream, &mut self.ring);
        let (sending, end) = (&mut conn.sending, peer.as_deref());
        let stop = sending.run(shared, stream, end, ring, state, may_wait);
        // The last reference to a stream may not be dropped where nothing may sleep.
        if let Some(last) = peer.and_then(Arc::into_unique_or_drop) {
            self.spent_peer = Some(last.into());
            shared.notes.leave(QpNote::Again);
        }
        shared.counts.count_sent(conn.sending.tally(), actor);
        shared.published.set_taken(ring.taken());
        shared.published.set_unsent(conn.sending.unsent());
        Some(stop)
    }

    /// Lets requests complete although the peer has not said that it has placed them, as the peer
    /// closes and says nothing more. They complete only if TCP has all that was to be sent.
    fn end_placement(&self, shared: &Shared) {
        if self.has_sent_all() {
            shared.sq.lock().placed_all();
        }
    }

    /// Returns whether TCP has all that was to be sent.
    fn has_sent_all(&self) -> bool {
        let conn = self.conn.as_ref();
        !conn.is_some_and(|conn| conn.sending.is_busy()) && self.ring.is_empty()
    }

    /// Completes what is due. Returns whether the connection may be closed gracefully then: nothing
    /// is to be sent or answered.
    fn complete_before_close(&self, shared: &Shared) -> bool {
        if shared.complete_due() {
            // Transmission may have waited for what has completed now, and some of the callers do
            // not send next.
            shared.notes.leave(QpNote::Again);
        }
        self.has_sent_all() && shared.sq.lock().is_empty() && shared.inbound.lock().is_empty()
    }

    /// Completes what is due. Returns whether the FIN may be sent then: the connection may be
    /// closed gracefully ([`Inner::complete_before_close`]), the peer has answered even a Read that
    /// is no request's, and no message of the peer's waits for a region to be quiet. Such a message
    /// is complete, and what it invalidates is invalid, so its receive must not be flushed. The
    /// work item completes it, and looks again.
    fn complete_before_fin(&self, shared: &Shared) -> bool {
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
    /// those it had taken are flushed (T-16). The caller reports it.
    ///
    /// A process is told once between connections: it could make the QP enter Error as often as it
    /// likes, and uverbs keeps all events that the process does not fetch. For a kernel consumer
    /// the core waits for an event each time that it drains the QP. An earlier event does no harm,
    /// as all is flushed when the modification to Error returns.
    fn tell_last_wqe(&mut self, shared: &Shared) -> bool {
        if shared.id.srq.is_none() || shared.flags.mute.load(Relaxed) {
            return false;
        }
        let is_told = core::mem::replace(&mut self.last_wqe_told, true);
        !is_told || shared.id.is_of_kernel()
    }
}
