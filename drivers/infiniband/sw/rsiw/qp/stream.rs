// SPDX-License-Identifier: GPL-2.0

//! A QP's end of its TCP connection: what the socket's callbacks find.
//!
//! The state of receiving belongs to whoever holds the socket's lock.
//!
//! Context: callbacks run in softirq or process context with the socket's lock held.
#![forbid(unsafe_code)]

use super::{
    ends::End,
    kept::Kept,
    rx::RxState,
    Qp, //
};
use crate::{
    ffi::{
        net::{
            LockedBySock,
            LockedSock,
            StreamEvent,
            StreamHandler,
            TcpSocket,
            TcpState, //
        },
        time::timer::{
            Expires,
            Timer, //
        },
    },
    mr::Mr,
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
        fpdu::MAX_FPDU,
        terminate::TermError, //
    },
};
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        AllocError, //
    },
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
    rx: LockedBySock<Option<KBox<RxState>>>,
    /// The other end of the connection, if it is on this host, until one of both has ended.
    #[pin]
    pub(super) peer: SpinLockIrq<Option<Arc<End>>>,
    /// Whether there may be one. Never set before `peer` is.
    pub(super) has_peer: AtomicFlag,
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

/// What receiving has to be given before it can go on.
struct Lack {
    /// A staging buffer.
    staging: bool,
    /// That nobody uses this region.
    quiet: Option<Arc<Mr>>,
}

impl Lack {
    /// Gets it. Returns what became of the buffer, if one is wanted. Process context; waits for
    /// those who use the region, one of whom may be this side's sender, who needs the socket.
    fn get(self) -> Option<Result<KVVec<u8>, AllocError>> {
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let buffer = self.staging.then(|| KVVec::from_elem(0, MAX_FPDU, flags));
        if let Some(mr) = self.quiet {
            mr.wait_quiet();
        }
        buffer
    }
}

impl Stream {
    /// For a new connection on `sock`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(qp: Arc<Qp>, sock: &TcpSocket, params: &Params) -> Result<Arc<Self>> {
        let rx = KBox::new(RxState::new(params, qp.max_recv_sge())?, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                qp,
                rx: LockedBySock::new(sock, Some(rx)),
                peer <- new_spinlock_irq!(None, "rsiw::Stream::peer"),
                has_peer: AtomicFlag::new(false),
                awaited: AtomicFlag::new(false),
                retry <- Timer::new(),
                pauses: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes the state of receiving out of its slot, if it is there.
    #[inline]
    pub(super) fn take_rx(&self, sk: &mut LockedSock<'_>) -> Option<KBox<RxState>> {
        self.rx.get(sk)?.take()
    }

    /// Puts the state of receiving back into its slot.
    #[inline]
    pub(super) fn put_rx(&self, sk: &mut LockedSock<'_>, rx: KBox<RxState>) {
        if let Some(slot) = self.rx.get(sk) {
            *slot = Some(rx);
        }
    }

    /// Takes in what was received, as much as `budget` allows.
    fn receive(&self, sk: &mut LockedSock<'_>, budget: Budget) -> Left {
        let Some(mut rx) = self.take_rx(sk) else {
            return Left {
                more: false,
                starved: false,
                without_recv: false,
                spent: false,
            };
        };
        {
            let mut kept = Kept::NONE;
            let mut intake = rx.intake(&self.qp, &mut kept);
            intake.begin(budget);
            // What cannot be read is not there: the connection is over, or a listener's.
            let _ = sk.read(|chunk| intake.consume(chunk));
        }
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
        self.put_rx(sk, rx);
        left
    }

    /// Takes in what was received and tells how the connection is. Process context, no lock held.
    pub(super) fn drain(self: &Arc<Self>, sock: &TcpSocket) -> Seen {
        let seen = sock.with_lock(|sk| match self.lacks(sk) {
            None => Ok(self.look(sk)),
            Some(lack) => Err(lack),
        });
        let seen = seen.unwrap_or_else(|lack| {
            let staging = lack.get();
            sock.with_lock(|sk| {
                if let Some(staging) = staging {
                    self.set_staging(sk, staging);
                }
                self.look(sk)
            })
        });
        self.wake_sender();
        seen
    }

    /// What receiving has to be given before it can go on.
    fn lacks(&self, sk: &mut LockedSock<'_>) -> Option<Lack> {
        let rx = self.rx.get(sk)?.as_ref()?;
        let (staging, quiet) = (rx.wants_staging(), rx.waits_for().cloned());
        (staging || quiet.is_some()).then_some(Lack { staging, quiet })
    }

    /// Takes in what was received and tells how the connection is.
    fn look(self: &Arc<Self>, sk: &mut LockedSock<'_>) -> Seen {
        let left = self.receive(sk, self.qp.dev.tuning.work_budget());
        if left.starved {
            Timer::start(self, RETRY_MS);
        } else if left.without_recv {
            self.pause(sk);
        }
        let rx = self.rx.get(sk).and_then(|slot| slot.as_ref());
        let cut = rx.is_some_and(|rx| rx.is_cut());
        let closed = (sk.state() == TcpState::Closed).then(|| sk.error());
        Seen {
            more: left.more && !left.starved && !left.without_recv,
            fin: sk.peer_fin() && !left.more,
            cut,
            closed,
        }
    }

    /// Gives the receiver the buffer that it asked for. Without memory for it the timer lets it be
    /// asked for again, for a while.
    fn set_staging(&self, sk: &mut LockedSock<'_>, buffer: Result<KVVec<u8>, AllocError>) {
        let Some(rx) = self.rx.get(sk).and_then(|slot| slot.as_mut()) else {
            return;
        };
        match buffer {
            Ok(buffer) => rx.set_staging(buffer),
            Err(_) if rx.tried() <= RETRIES => {}
            Err(_) => {
                let failure =
                    Failure::new(TermError::LocalCatastrophic, "no memory to receive with");
                let mut kept = Kept::NONE;
                rx.intake(&self.qp, &mut kept).fail(failure);
            }
        }
    }

    /// Has a receive looked for again after a while, if that is not going to be done anyway.
    fn pause(self: &Arc<Self>, sk: &mut LockedSock<'_>) {
        if self.pauses.load(Relaxed) {
            return;
        }
        let Some(rx) = self.rx.get(sk).and_then(|slot| slot.as_mut()) else {
            return;
        };
        self.pauses.store(true, Relaxed);
        Timer::start(self, rx.pause());
    }

    /// Whether a message that came in whole waits for a region to be quiet.
    pub(super) fn is_waiting(&self, sk: &mut LockedSock<'_>) -> bool {
        let rx = self.rx.get(sk).and_then(|slot| slot.as_ref());
        rx.is_some_and(|rx| rx.waits_for().is_some())
    }

    /// The receive in progress, to be flushed. Receiving goes on.
    pub(super) fn take_recv(&self, sk: &mut LockedSock<'_>) -> Option<Recv> {
        self.rx.get(sk)?.as_mut()?.take_recv()
    }

    /// Ends receiving, with the callbacks gone and the socket's lock held; returns the state.
    pub(super) fn end(&self, sk: &mut LockedSock<'_>) -> Option<KBox<RxState>> {
        self.take_rx(sk)
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
            this.qp.notes.leave(QpNote::Socket);
        }
        this.qp.ring_if_noted();
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
