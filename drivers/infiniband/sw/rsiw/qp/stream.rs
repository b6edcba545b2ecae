// SPDX-License-Identifier: GPL-2.0

//! A QP's end of its TCP connection: what the socket's callbacks find.
//!
//! The state of receiving belongs to whoever holds the socket's lock.
//!
//! Context: callbacks run in softirq or process context with the socket's lock held.
#![forbid(unsafe_code)]

mod steering;

use self::steering::Steering;
use super::intake::{
    Intake,
    Receiving, //
};
use super::shared::{
    Shared,
    Wakes, //
};
use crate::ffi::net::tls::Notice;
use crate::ffi::net::{
    LockedBySock,
    LockedSock,
    StreamEvent,
    StreamHandler,
    TcpSocket,
    TcpState, //
};
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::mr::Mr;
use crate::proto::counters::Counter;
use crate::proto::deframer::Budget;
use crate::proto::drain::{
    Marked,
    Waker, //
};
use crate::proto::failure::Failure;
use crate::proto::notes::QpNote;
use crate::proto::receiver::Lack;
use crate::proto::setup::Params;
use crate::wire::fpdu::MAX_FPDU;
use crate::wire::terminate::TermError;
use core::num::Wrapping;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::alloc::AllocError;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    AtomicFlag,
    Relaxed,
    Release, //
};
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    ArcBorrow,
    SpinLockIrq, //
};

/// How often memory for a buffer is asked for again before the stream ends, and the milliseconds
/// from one time to the next.
const RETRIES: u32 = 50;
const RETRY_MS: u32 = 100;

/// How long nothing is sent after there was no memory to send with, in milliseconds.
const STARVED_MS: u32 = 10;

/// Why a stream over TLS has ended, or has to end, in another way than it should.
#[derive(Clone, Copy, Debug)]
pub(super) enum Breach {
    Notice(Notice),
    /// A record cannot be read.
    Unreadable(Error),
    /// The FIN was not announced through TLS, so anybody may have sent it.
    Unannounced,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notice(notice) => write!(f, "{notice:?}"),
            Self::Unreadable(error) => write!(f, "a record cannot be read: {error:?}"),
            Self::Unannounced => f.write_str("a FIN was not announced"),
        }
    }
}

/// What became of a connection, as seen with the socket locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Whether octets were left for later.
    pub(super) more: bool,
    /// Whether the peer's FIN was received and all in front of it was read.
    pub(super) fin: bool,
    /// Whether the stream ended inside an FPDU or a message.
    pub(super) cut: bool,
    /// Set once TCP is done with the connection; with its error, if there was one.
    pub(super) closed: Option<Option<Error>>,
    /// Set if the connection is to be reset because of what TLS says.
    pub(super) breach: Option<Breach>,
    /// Why reading has stopped, if that is known.
    stop: Option<Error>,
}

impl Seen {
    fn breached(self, breach: Breach) -> Self {
        Self {
            fin: false,
            breach: Some(breach),
            ..self
        }
    }
}

/// A QP's end of its TCP connection.
#[pin_data]
pub(crate) struct Stream {
    /// The QP. Its reference to this stream is dropped when the connection ends.
    pub(super) qp: Arc<dyn Wakes>,
    pub(super) sock: Arc<TcpSocket>,
    pub(super) has_crc: bool,
    /// This side's FPDUs have markers.
    pub(super) has_markers: bool,
    /// FPDUs may exceed a TCP segment, at both ends.
    pub(super) has_large_fpdus: bool,
    /// `None` while the receiving part is fed, and after the end.
    part: LockedBySock<Option<KBox<Receiving>>>,
    /// The other end of the connection, if it is on this host, until one of the two has ended.
    #[pin]
    pub(super) peer: SpinLockIrq<Option<Arc<Stream>>>,
    /// The other end once more, for those who describe the QP. Besides them, only set-up and end
    /// take this lock.
    #[pin]
    shown_peer: SpinLockIrq<Option<Arc<Stream>>>,
    /// Whether `peer` may be set. Never set before `peer` is.
    has_peer: AtomicFlag,
    /// Whether the other end, on this host, waits for this end to take in what it has received. Set
    /// with the socket held.
    awaited: AtomicFlag,
    /// How many segments the other end, on this host, has handed over; wraps. Changes with the
    /// socket held.
    handed: Atomic<u32>,
    /// The timer that runs while receiving lacks memory or a receive, or while there is no memory to
    /// send with.
    #[pin]
    retry: Timer<Stream>,
    /// Whether `retry` runs because of what receiving lacks.
    pub(super) pauses: AtomicFlag,
    /// There is no memory to send with: this side tries again when the timer has run out.
    starves: AtomicFlag,
    pub(super) steering: Arc<Steering>,
    /// The peer has said through TLS that its FIN is next. Set and read by [`Stream::drain`].
    is_closing: AtomicFlag,
}

/// What is needed before receiving can go on.
enum Need {
    Buffer,
    /// Nobody must use this region any more.
    Quiet(Arc<Mr>),
}

impl Need {
    /// Gets what is needed. For a buffer, returns it, or that there is no memory for it. For a
    /// region, waits for those who use it and returns `None`. Process context, without the socket:
    /// one of those users may be this side's sender, which needs the socket.
    fn get(self) -> Option<Result<KVVec<u8>, AllocError>> {
        match self {
            Self::Buffer => Some(KVVec::from_elem(
                0,
                MAX_FPDU,
                GFP_KERNEL_ACCOUNT | __GFP_NOWARN,
            )),
            Self::Quiet(mr) => {
                mr.wait_quiet();
                None
            }
        }
    }
}

impl Stream {
    pub(super) fn new(
        qp: Arc<dyn Wakes>,
        sock: &Arc<TcpSocket>,
        params: &Params,
    ) -> Result<Arc<Self>> {
        let max_sge = qp.shared().id.max_recv_sge();
        let part = KBox::new(Receiving::new(params, max_sge)?, GFP_KERNEL_ACCOUNT)?;
        let steering = Steering::new()?;
        Arc::pin_init(
            pin_init!(Self {
                qp,
                sock: sock.clone(),
                has_crc: params.crc,
                has_markers: params.send_markers,
                has_large_fpdus: params.large_fpdus,
                part: LockedBySock::new(sock, Some(part)),
                peer <- new_spinlock_irq!(None, "rsiw::Stream::peer"),
                shown_peer <- new_spinlock_irq!(None, "rsiw::Stream::shown_peer"),
                has_peer: AtomicFlag::new(false),
                awaited: AtomicFlag::new(false),
                handed: Atomic::new(0),
                retry <- Timer::new(),
                pauses: AtomicFlag::new(false),
                starves: AtomicFlag::new(false),
                steering,
                is_closing: AtomicFlag::new(false),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the receiving part, if it is in its place.
    pub(super) fn receiving<'a>(&'a self, sk: &'a mut LockedSock<'_>) -> Option<&'a mut Receiving> {
        self.part.get(sk)?.as_deref_mut()
    }

    /// Takes the receiving part out of its place for good, if it is there.
    pub(super) fn end(&self, sk: &mut LockedSock<'_>) -> Option<KBox<Receiving>> {
        self.part.get(sk)?.take()
    }

    /// Takes the receiving part out of its place, if it is there, to be fed as much as `budget`
    /// allows.
    #[inline]
    pub(super) fn take_part(&self, sk: &mut LockedSock<'_>, budget: Budget) -> Option<Intake<'_>> {
        Some(Intake::begin(&self.qp, self.end(sk)?, budget))
    }

    /// Puts the receiving part back, and counts what it was fed. Returns what it lacks.
    #[inline]
    pub(super) fn put_back(&self, sk: &mut LockedSock<'_>, mut intake: Intake<'_>) -> Lack {
        let counts = &intake.shared.counts;
        counts.count_up(&mut intake.part.receiver.tally);
        let lack = intake.part.receiver.lacks();
        if let Some(slot) = self.part.get(sk) {
            *slot = Some(intake.end());
        }
        lack
    }

    /// Takes in what was received, as much as `budget` allows. Returns what is lacking then, and
    /// how reading ended. Without TLS it fails only where there is nothing to read: the connection
    /// is over, or is a listener's.
    fn receive(&self, sk: &mut LockedSock<'_>, budget: Budget) -> (Lack, Result<usize>) {
        let Some(mut intake) = self.take_part(sk, budget) else {
            return (Lack::Nothing, Ok(0));
        };
        if intake.shared.flags.heard_of_peer().is_err() {
            // The first FPDU may be one that nobody answers, and a peer that closes then waits for
            // the acknowledgement (`proto::fin`).
            sk.acknowledge();
        }
        let read = sk.read(|chunk| intake.take(chunk));
        (self.put_back(sk, intake), read)
    }

    /// Takes in what was received, and returns what became of the connection. Process context, no
    /// lock held.
    pub(super) fn drain(self: &Arc<Self>) -> Seen {
        let seen = self.look();
        if self.sock.is_secure() {
            return self.heed_tls(seen);
        }
        seen
    }

    /// Adds what TLS says besides data; `seen` is what was seen before. After a record that is no
    /// data there is no more data: nobody here has new keys.
    fn heed_tls(self: &Arc<Self>, mut seen: Seen) -> Seen {
        if seen.stop == Some(EINVAL) && !self.is_closing.load(Relaxed) {
            match self.sock.take_notice() {
                Ok(Notice::Closing) => {
                    self.is_closing.store(true, Relaxed);
                    seen = self.look();
                }
                Ok(notice) => return seen.breached(Breach::Notice(notice)),
                // The error was that of a record that cannot be read.
                Err(_) => {}
            }
        }
        match seen.stop {
            Some(error) if error != EAGAIN && error != EINTR => match seen.closed {
                None => seen.breached(Breach::Unreadable(error)),
                // Reading has taken TCP's error away.
                Some(found) => Seen {
                    fin: false,
                    closed: Some(found.or(Some(error))),
                    ..seen
                },
            },
            _ if seen.fin && !self.is_closing.load(Relaxed) => seen.breached(Breach::Unannounced),
            _ => seen,
        }
    }

    /// Does the part of [`Stream::drain`] that all connections need.
    fn look(self: &Arc<Self>) -> Seen {
        let looked = self.sock.with_lock(|sk| match self.needs(sk) {
            None => Ok(self.inspect(sk)),
            Some(need) => Err(need),
        });
        let seen = looked.unwrap_or_else(|need| {
            let buffer = need.get();
            self.sock.with_lock(|sk| {
                if let Some(buffer) = buffer {
                    self.set_buffer(sk, buffer);
                }
                self.inspect(sk)
            })
        });
        self.wake_sender();
        seen
    }

    fn needs(&self, sk: &mut LockedSock<'_>) -> Option<Need> {
        let part = self.receiving(sk)?;
        match part.receiver.lacks() {
            Lack::Buffer => Some(Need::Buffer),
            Lack::Quiet => part.invalidated.clone().map(Need::Quiet),
            Lack::Nothing | Lack::Turn | Lack::Receive => None,
        }
    }

    /// Does the part of [`Stream::drain`] for which the socket is locked.
    fn inspect(self: &Arc<Self>, sk: &mut LockedSock<'_>) -> Seen {
        // Reading through TLS takes the error away.
        let error = sk.error();
        let (lack, read) = self.receive(sk, self.shared().id.dev.tuning.work_budget());
        if self.sock.is_key_used_up() {
            self.retire_key(sk);
        }
        let is_later = self.pause(sk, lack);
        let stop = read.err();
        let is_turn_over = stop == Some(EINTR);
        let cut = self
            .receiving(sk)
            .is_some_and(|part| part.receiver.is_cut());
        let is_closed = sk.state() == TcpState::Closed && !is_turn_over;
        Seen {
            more: is_turn_over || lack != Lack::Nothing && !is_later,
            fin: sk.peer_fin() && lack == Lack::Nothing && !is_turn_over,
            cut,
            closed: is_closed.then(|| error.or_else(|| sk.error())),
            breach: None,
            stop,
        }
    }

    /// Ends the stream before a key of TLS has encrypted too much. This side does so for what it
    /// receives. The peer does the same for what this side sends.
    #[cold]
    fn retire_key(&self, sk: &mut LockedSock<'_>) {
        let part = self.receiving(sk);
        if let Some(part) = part.filter(|part| !part.receiver.is_stopped()) {
            part.receiver.stop();
            let shared = self.shared();
            shared.counts.count(Counter::TlsKeysUsedUp);
            let what = "the key of TLS has encrypted enough";
            shared.fail(Failure::new(TermError::LocalCatastrophic, what));
        }
    }

    /// Gives the receiver the buffer that it lacks. If there was no memory for one, the buffer is
    /// asked for again each time the timer runs out, [`RETRIES`] times at most.
    fn set_buffer(&self, sk: &mut LockedSock<'_>, buffer: Result<KVVec<u8>, AllocError>) {
        let Some(part) = self.receiving(sk) else {
            return;
        };
        match buffer {
            Ok(buffer) => part.receiver.set_buffer(buffer),
            // While the timer runs, a request for memory does not count as a try.
            Err(_) if self.pauses.load(Relaxed) => {}
            Err(_) if part.tries.0 < RETRIES => part.tries += 1,
            Err(_) => {
                part.receiver.stop();
                let what = "no memory to receive with";
                let failure = Failure::new(TermError::LocalCatastrophic, what);
                self.shared().fail(failure);
            }
        }
    }

    /// Starts the timer if what is `lack`ing cannot be had now and may be waited for: memory for
    /// the buffer, or a receive. Returns whether that is so.
    fn pause(self: &Arc<Self>, sk: &mut LockedSock<'_>, lack: Lack) -> bool {
        let Some(part) = self.receiving(sk) else {
            return false;
        };
        let is_later = lack == Lack::Receive || lack == Lack::Buffer && part.tries.0 > 0;
        if is_later && !self.pauses.load(Relaxed) {
            let pause = match lack {
                Lack::Receive => part.receiver.pause(),
                _ => Some(RETRY_MS),
            };
            let Some(ms) = pause else {
                return false;
            };
            self.pauses.store(true, Relaxed);
            Timer::start(self, ms);
        }
        is_later
    }

    /// Makes this side send nothing, for want of memory, until the timer has run out: nobody else
    /// would tell when there is memory. Process context.
    pub(super) fn starve(self: &Arc<Self>) -> Marked {
        Waker::Timer.mark(|| {
            // ORDERING: if the timer has just cleared this, it is seen to have cleared `pauses`,
            // too.
            self.starves.xchg(true, Acquire);
            // If the timer runs already, it serves both sending and receiving.
            if !self.pauses.load(Relaxed) {
                Timer::start(self, STARVED_MS);
            }
        })
    }

    /// Returns whether sending waits for memory: see [`Stream::starve`].
    #[inline]
    pub(super) fn starves(&self) -> bool {
        self.starves.load(Relaxed)
    }

    /// Returns whether the timer runs. When it has run out, this side looks for what is `lack`ing.
    fn pauses_for(&self, lack: Lack) -> bool {
        matches!(lack, Lack::Receive | Lack::Buffer) && self.pauses.load(Relaxed)
    }

    /// Leaves a note for the work item, if receiving waits for something other than octets.
    pub(super) fn note_lack(&self, lack: Lack) {
        if lack != Lack::Nothing && !self.pauses_for(lack) {
            self.shared().notes.leave(QpNote::Socket);
        }
    }

    #[inline]
    pub(super) fn shared(&self) -> &Shared {
        self.qp.shared()
    }

    /// Returns the other end of the connection, if it is on this host. An end that is being linked
    /// at this moment may be missed.
    #[inline]
    pub(super) fn peer(&self) -> Option<Arc<Stream>> {
        if !self.has_peer.load(Relaxed) {
            return None;
        }
        self.peer.lock().clone()
    }

    /// Makes `other` the other end, of which there was none.
    pub(super) fn link_to(&self, other: Arc<Self>) {
        *self.shown_peer.lock() = Some(other.clone());
        *self.peer.lock() = Some(other);
        self.has_peer.store(true, Relaxed);
    }

    /// Calls `f` with the other end, if there is one. The links of that end stay meanwhile.
    pub(super) fn shown_peer<R>(&self, f: impl FnOnce(&Self) -> R) -> Option<R> {
        self.shown_peer.lock().as_deref().map(f)
    }

    /// Forgets the other end, and returns what is to be dropped without a lock.
    pub(super) fn unlink(&self) -> [Option<Arc<Self>>; 2] {
        [self.peer.lock().take(), self.shown_peer.lock().take()]
    }

    /// Counts a segment that the other end has handed over. With this socket held.
    #[inline]
    pub(super) fn count_handed(&self) {
        let handed = Wrapping(self.handed.load(Relaxed)) + Wrapping(1);
        self.handed.store(handed.0, Relaxed);
    }

    /// Returns two positions, of which one changes whenever the peer has taken something, and the
    /// other one whenever it has sent something, by TCP or past it.
    pub(super) fn positions(&self) -> (u32, u32) {
        let numbers = self.sock.numbers();
        let taken = self.shown_peer(|end| end.handed.load(Relaxed)).unwrap_or(0);
        let sent = self.handed.load(Relaxed);
        (
            (Wrapping(numbers.snd_una) + Wrapping(taken)).0,
            (Wrapping(numbers.rcv_nxt) + Wrapping(sent)).0,
        )
    }

    /// Marks that the sender of the other end waits, so that [`Stream::wake_sender`] wakes it. That
    /// sender calls this, with this socket held.
    pub(super) fn mark_awaited(&self) -> Marked {
        Waker::OtherEnd.mark(|| self.awaited.store(true, Relaxed))
    }

    /// Wakes the sender of the other end, if it waits for this end to take something in. Any
    /// context, with or without the socket's lock.
    #[inline]
    pub(super) fn wake_sender(&self) {
        if self.awaited.load(Relaxed) {
            self.wake_sender_now();
        }
    }

    #[inline(never)]
    fn wake_sender_now(&self) {
        // This is cleared first: a sender that waits from now on is woken by the next call.
        self.awaited.store(false, Relaxed);
        // No reference is taken: softirq must not drop what may be the last one.
        if let Some(other) = &*self.peer.lock() {
            other.qp.urge();
        }
    }
}

impl Expires for Stream {
    fn timer(&self) -> &Timer<Self> {
        &self.retry
    }

    fn expired(this: Arc<Self>) {
        this.pauses.store(false, Relaxed);
        this.starves.store(false, Release);
        this.qp.note(QpNote::Socket);
    }
}

impl StreamHandler for Stream {
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock<'_>) {
        let shared = this.shared();
        this.steering.arrived(&this.sock, &shared.id);
        let (lack, _) = this.receive(sk, shared.id.dev.tuning.softirq_budget());
        shared.flags.answered.store(true, Relaxed);
        if lack == Lack::Turn {
            shared.counts.count(Counter::RxSoftirqBudget);
        }
        this.wake_sender();
        this.note_lack(lack);
        if sk.peer_fin() {
            shared.notes.leave(QpNote::Socket);
        }
        if shared.is_noted() {
            this.qp.urge();
        }
    }

    fn records_ready(this: ArcBorrow<'_, Self>) {
        let shared = this.shared();
        this.steering.arrived(&this.sock, &shared.id);
        shared.flags.answered.store(true, Relaxed);
        this.qp.note(QpNote::Socket);
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        this.qp.urge();
    }

    fn state_change(this: ArcBorrow<'_, Self>, event: StreamEvent) {
        match event {
            StreamEvent::Connected => {}
            StreamEvent::PeerFin | StreamEvent::Closed => this.qp.note(QpNote::Socket),
        }
    }
}
