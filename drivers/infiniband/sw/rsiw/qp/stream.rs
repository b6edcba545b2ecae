// SPDX-License-Identifier: GPL-2.0

//! A QP's end of its TCP connection: what the socket's callbacks find.
//!
//! The state of receiving belongs to whoever holds the socket's lock; it is taken out of its slot
//! while it is used, so that no spin lock is held over the copying.
//!
//! Context: callbacks run in softirq or process context with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    ends::End,
    rx::RxState,
    Qp, //
};
use crate::{
    ffi::{
        net::{
            LockedSock,
            StreamEvent,
            StreamHandler,
            TcpSocket,
            TcpState, //
        },
        timer::{
            Expires,
            Timer, //
        },
    },
    proto::{
        budget::Budget,
        conn::Params,
        counters::Counter,
        failure::Failure,
        notes::QpNote,
        receiver::Recv,
        schedule::Reason, //
    },
    wire::{
        ddp::Msn,
        fpdu::MAX_FPDU,
        terminate::TermError, //
    },
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        new_spinlock_irq,
        Arc,
        ArcBorrow,
        SpinLockIrq, //
    },
};

/// How often memory for a buffer is asked for again before the stream ends, and how long it takes
/// from one time to the next, in milliseconds.
const RETRIES: u32 = 50;
const RETRY_MS: u32 = 100;

/// What became of a connection, as seen with the socket locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Octets were left for later.
    pub(super) more: bool,
    /// The peer's FIN was received and all in front of it was read.
    pub(super) fin: bool,
    /// The stream ended inside an FPDU or a message.
    pub(super) cut: bool,
    /// TCP is done with the connection, in good order or not.
    pub(super) closed: Option<Option<Error>>,
}

/// The receiving side of a connection.
#[pin_data]
pub(crate) struct Stream {
    /// The QP; its reference to this is emptied when the connection ends.
    pub(super) qp: Arc<Qp>,
    /// `None` while in use, and after the end.
    #[pin]
    pub(super) rx: SpinLockIrq<Option<KBox<RxState>>>,
    /// The other end of the connection, if it is on this host, until one of both has ended.
    #[pin]
    pub(super) peer: SpinLockIrq<Option<Arc<End>>>,
    /// Whether the other end waits for this one to take in what it has. Set with the socket held.
    pub(super) awaited: AtomicFlag,
    /// Runs while there is no memory, or no receive, to receive with.
    #[pin]
    retry: Timer<Stream>,
    /// It runs until a receive is looked for again.
    pub(super) pauses: AtomicFlag,
}

/// What was left for the work item.
struct Left {
    /// There is more to do.
    more: bool,
    /// There is none to be done before the timer has run out.
    starved: bool,
    /// The peer's next message waits for a receive.
    without_recv: bool,
    /// The budget is used up.
    spent: bool,
}

impl Stream {
    /// For a new connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(qp: Arc<Qp>, params: &Params) -> Result<Arc<Self>> {
        let rx = KBox::new(RxState::new(params, qp.max_recv_sge())?, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                qp,
                rx <- new_spinlock_irq!(Some(rx), "rsiw::Stream::rx"),
                peer <- new_spinlock_irq!(None, "rsiw::Stream::peer"),
                awaited: AtomicFlag::new(false),
                retry <- Timer::new(),
                pauses: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes in what was received, as much as `budget` allows.
    fn receive(&self, sk: &mut LockedSock<'_>, budget: Budget) -> Left {
        // A statement of its own, so that the lock is not held any longer.
        let taken = self.rx.lock().take();
        let Some(mut rx) = taken else {
            return Left {
                more: false,
                starved: false,
                without_recv: false,
                spent: false,
            };
        };
        rx.begin(&self.qp, budget);
        // What cannot be read is not there: the connection is over, or a listener's.
        let _ = sk.read(|chunk| rx.consume(&self.qp, chunk));
        self.qp.count_received(rx.tally());
        let starved = rx.wants_staging() && rx.tries() > 0;
        let without_recv = rx.waits_for_recv();
        let waits = rx.wants_staging() || rx.waits_for().is_some() || without_recv;
        let left = Left {
            more: rx.is_spent() || waits,
            starved,
            without_recv,
            spent: rx.is_spent(),
        };
        *self.rx.lock() = Some(rx);
        left
    }

    /// Takes in what was received and tells how the connection is. Process context, no lock held.
    pub(super) fn drain(self: &Arc<Self>, sock: &TcpSocket) -> Seen {
        self.prepare_staging();
        self.wait_quiet();
        let seen = sock.with_lock(|sk| {
            let left = self.receive(sk, self.qp.dev.tuning.work_budget());
            if left.starved {
                Timer::start(self, RETRY_MS);
            } else if left.without_recv {
                self.pause();
            }
            let cut = self.rx.lock().as_ref().is_some_and(|rx| rx.is_cut());
            let closed = (sk.state() == TcpState::Closed).then(|| sk.error());
            Seen {
                more: left.more && !left.starved && !left.without_recv,
                fin: sk.peer_fin() && !left.more,
                cut,
                closed,
            }
        });
        self.wake_sender();
        seen
    }

    /// Gives the receiver the buffer that it asked for. Without memory for it the timer lets it be
    /// asked for again, for a while.
    fn prepare_staging(&self) {
        if !self.rx.lock().as_ref().is_some_and(|rx| rx.wants_staging()) {
            return;
        }
        let buffer = KVVec::from_elem(0, MAX_FPDU, GFP_KERNEL | __GFP_NOWARN);
        let mut slot = self.rx.lock();
        let Some(rx) = &mut *slot else {
            return;
        };
        match buffer {
            Ok(buffer) => rx.set_staging(buffer),
            Err(_) if rx.tried() <= RETRIES => {}
            Err(_) => {
                let failure =
                    Failure::new(TermError::LocalCatastrophic, "no memory to receive with");
                rx.fail(&self.qp, failure);
            }
        }
    }

    /// Has a receive looked for again after a while, if that is not going to be done anyway.
    fn pause(self: &Arc<Self>) {
        if self.pauses.load(Relaxed) {
            return;
        }
        let mut slot = self.rx.lock();
        let Some(rx) = &mut *slot else {
            return;
        };
        self.pauses.store(true, Relaxed);
        Timer::start(self, rx.pause());
    }

    /// Waits for those who use a region that the receiver wants to be quiet. One of them may be
    /// this side's sender, who needs the socket.
    fn wait_quiet(&self) {
        let mr = {
            let slot = self.rx.lock();
            slot.as_ref().and_then(|rx| rx.waits_for().cloned())
        };
        if let Some(mr) = mr {
            mr.wait_quiet();
        }
    }

    /// Whether a message that came in whole waits for a region to be quiet.
    pub(super) fn is_waiting(&self, _sk: &mut LockedSock<'_>) -> bool {
        let slot = self.rx.lock();
        slot.as_ref().is_some_and(|rx| rx.waits_for().is_some())
    }

    /// The numbers that the next Send and the next Read Request of the peer must have.
    pub(super) fn next(&self, _sk: &mut LockedSock<'_>) -> Option<(Msn, Msn)> {
        self.rx.lock().as_ref().map(|rx| rx.next())
    }

    /// The receive in progress, to be flushed. Receiving goes on.
    pub(super) fn take_recv(&self, _sk: &mut LockedSock<'_>) -> Option<Recv> {
        let taken = self.rx.lock().take();
        let mut rx = taken?;
        let recv = rx.take_recv();
        *self.rx.lock() = Some(rx);
        recv
    }

    /// Ends receiving, with the callbacks gone and the socket's lock held; returns the state.
    pub(super) fn end(&self, _sk: &mut LockedSock<'_>) -> Option<KBox<RxState>> {
        self.rx.lock().take()
    }
}

impl Expires for Stream {
    fn timer(&self) -> &Timer<Self> {
        &self.retry
    }

    fn expired(this: Arc<Self>) {
        this.pauses.store(false, Relaxed);
        this.qp.note(QpNote::Socket);
    }
}

impl StreamHandler for Stream {
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock<'_>) {
        let left = this.receive(sk, this.qp.dev.tuning.softirq_budget());
        this.qp.answered.store(true, Relaxed);
        if left.spent {
            this.qp.count(Counter::RxSoftirqBudget);
        }
        this.wake_sender();
        let later = left.starved || left.without_recv && this.pauses.load(Relaxed);
        if left.more && !later || sk.peer_fin() {
            this.qp.note(QpNote::Socket);
        }
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        this.qp.schedule(Reason::Room);
    }

    fn state_change(this: ArcBorrow<'_, Self>, event: StreamEvent) {
        match event {
            StreamEvent::Connected => {}
            StreamEvent::PeerFin | StreamEvent::Closed => this.qp.note(QpNote::Socket),
        }
    }
}
