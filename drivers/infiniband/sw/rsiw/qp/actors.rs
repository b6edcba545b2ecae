// SPDX-License-Identifier: GPL-2.0

//! Who acts for a queue pair: the threads that post, the thread that polls for a process, the work
//! items, and the timers. `proto::schedule` decides which of them does.
//!
//! - Threads that post: doorbells of processes, requests and receives of consumers in the kernel.
//! - The thread that polls the send queue of a process: see [`Poller`].
//! - Work items: what is left to them is noted, or waits in the queue. They act upon what callbacks
//!   found out, and send what the posting thread could not, or what was left to gather.
//!
//! Transmission is [`Inner::send`]; here is who calls it, and what is done when it stops.
//!
//! Context: work items and the thread that polls are processes, and doorbells are rung in process
//! context; timers run in softirq. Posting by consumers in the kernel, and leaving work to others,
//! is done in any context.
#![forbid(unsafe_code)]

use super::poller::Poller;
use super::sending::CLOSE_TIMEOUT_MS;
use super::shared::{
    Shared,
    Wakes, //
};
use super::state::After;
use super::stream::{
    Seen,
    Stream, //
};
use super::{
    Inner,
    Qp, //
};
use crate::ffi::mm::NoIo;
use crate::ffi::rdma::wr::{
    RecvChain,
    SendChain, //
};
use crate::ffi::rsiw::Queues;
use crate::ffi::task::{
    self,
    Serves, //
};
use crate::ffi::time::hrtimer::{
    ExpiresSoon,
    ShortTimer, //
};
use crate::ffi::time::{
    self,
    Expires,
    Timer, //
};
use crate::proto::counters::Counter;
use crate::proto::drain::Stop;
use crate::proto::failure::Cause;
use crate::proto::notes::{
    self,
    QpNote, //
};
use crate::proto::schedule::{
    Actor,
    Reason,
    GATHER_US,
    WORTH, //
};
use crate::proto::state::{
    remote_class,
    Post,
    QpEvent,
    QpState, //
};
use kernel::impl_has_work;
use kernel::prelude::*;
use kernel::processor::cpu_relax;
use kernel::sync::atomic::Relaxed;
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::workqueue::WorkItem;

impl_has_work! {
    impl HasWork<Self, ACTS> for Qp { self.work }
    impl HasWork<Self, SENDS> for Qp { self.posts }
}

impl WorkItem<ACTS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter_to_reclaim(this.shared.flags.reclaims.load(Relaxed));
        this.shared.id.payer.pays(|| this.act_upon_notes());
    }
}

impl WorkItem<SENDS> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        let _scope = NoIo::enter_to_reclaim(this.shared.flags.reclaims.load(Relaxed));
        this.shared.id.payer.pays(|| {
            let mut after = After::of(Actor::Patient);
            let mut inner = this.inner.lock();
            this.send_posts(&mut inner, &mut after);
            drop(inner);
            after.run(&this);
        });
    }
}

impl Expires for Qp {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.note(QpNote::Timeout);
    }
}

impl ExpiresSoon for Qp {
    fn short_timer(&self) -> &ShortTimer<Self> {
        &self.gathers
    }

    fn soon_expired(this: Arc<Self>) {
        this.queue(this.shared.who(Reason::Left));
    }
}

impl Qp {
    fn act_upon_notes(self: &Arc<Self>) {
        let looked = self.poll_socket();
        let mut after = After::of(Actor::Urgent);
        let mut inner = self.inner.lock();
        // The QP may have got another connection since `poll_socket`. The notes that are taken here
        // are about the connection that it has now. What was seen at the socket of an earlier
        // connection is forgotten.
        let seen = looked.and_then(|(stream, seen)| inner.is_on(&stream).then_some(seen));
        // Whoever has left a new note about the socket has queued this work again.
        let mut taken = self.shared.notes.take_all_but(QpNote::Socket);
        if seen.is_some() {
            taken.insert(QpNote::Socket);
        }
        // Requests that waited for what completes here are sent below.
        let _ = self.shared.complete_due();
        if self.settle(&mut inner, &mut after) && self.shared.state() != QpState::Error {
            // The time-out was about what has ended now.
            taken.remove(QpNote::Timeout);
        }
        notes::act_upon_each(&mut *inner, taken, |inner, note| {
            self.act_upon(inner, note, seen.as_ref(), &mut after);
        });
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if taken.contains(QpNote::Failure) {
            self.shared.id.send_cq.report();
            self.shared.id.recv_cq.report();
        }
        if seen.is_some_and(|seen| seen.more) {
            self.note(QpNote::Socket);
        }
    }

    /// Receives what waits in the socket if a note says so. Returns which connection that was, and
    /// what was seen.
    ///
    /// What the receiver notes meanwhile is acted upon before what is seen here: a Terminate before
    /// the FIN behind it.
    fn poll_socket(self: &Arc<Self>) -> Option<(Arc<Stream>, Seen)> {
        if !self.shared.notes.take(QpNote::Socket) {
            return None;
        }
        let stream = self.inner.lock().conn.as_ref()?.stream.clone();
        let seen = stream.drain();
        Some((stream, seen))
    }

    /// Feeds what happened to the state machine; `seen` is what [`QpNote::Socket`] is about.
    fn act_upon(
        self: &Arc<Self>,
        inner: &mut Inner,
        note: QpNote,
        seen: Option<&Seen>,
        after: &mut After,
    ) {
        match note {
            QpNote::Failure => {
                if let Some(failure) = self.shared.failure.take() {
                    self.local_error(inner, failure, after);
                }
            }
            QpNote::Terminate => {
                let end = self.shared.remote_end.take();
                if let Some(end) = end.filter(|end| !self.peer_left(inner, end, after)) {
                    self.shared.id.log_terminate(end.code);
                    self.shared.flags.ends_of(Cause::peer(end.code));
                    // Without a connection the requests have been flushed, or are nobody's. In
                    // Terminate something else has failed first (T-33).
                    let may_fail =
                        inner.conn.is_some() && self.shared.state() != QpState::Terminate;
                    let told = may_fail && self.shared.fail_refused(&end);
                    if may_fail && !told {
                        self.blame(inner, &end);
                    }
                    let event = (!told).then_some(remote_class(end.code));
                    self.feed(inner, QpEvent::TerminateReceived { event }, after);
                }
            }
            QpNote::DataInClosing => self.feed(inner, QpEvent::DataInClosing, after),
            QpNote::Socket => {
                if let Some(seen) = seen {
                    self.act_upon_socket(inner, seen, after);
                }
            }
            // The caller looks at the queues once all notes are acted upon.
            QpNote::Timeout if self.shared.state() == QpState::Error => {
                let later = inner.relook.later();
                self.look_again(inner, later);
            }
            QpNote::Timeout if inner.gives_up && self.shared.state() == QpState::Idle => {
                self.give_up(inner, "it is gone", after);
            }
            QpNote::Timeout => {
                if let Some(conn) = &mut inner.conn {
                    if conn.sending.fin.expired(&conn.stream.sock) {
                        return self.restart_timer(inner);
                    }
                    let may_go_on =
                        matches!(self.shared.state(), QpState::Draining | QpState::Closing);
                    if may_go_on && conn.sending.still_moves(&conn.stream) {
                        return self.start_timer(CLOSE_TIMEOUT_MS);
                    }
                }
                if self.shared.state() == QpState::Draining {
                    let id = &self.shared.id;
                    id.log_peer(fmt!("disconnects with requests not done in time"));
                }
                self.feed(inner, QpEvent::Timeout, after);
            }
            QpNote::Lost => self.feed(inner, QpEvent::Lost, after),
            // The caller goes on once all notes are acted upon.
            QpNote::Again => {}
        }
    }

    fn act_upon_socket(self: &Arc<Self>, inner: &mut Inner, seen: &Seen, after: &mut After) {
        if seen.fin {
            if self.shared.state().sends() && !self.is_by_number() {
                inner.end_placement(&self.shared);
            }
            let idle = !seen.cut && inner.complete_before_close(&self.shared);
            self.feed(inner, QpEvent::PeerFin { idle }, after);
        }
        match (seen.breach, seen.closed) {
            (Some(breach), _) => {
                let id = &self.shared.id;
                id.log_peer(fmt!("TLS ends the connection: {breach}"));
                if let Some(conn) = &inner.conn {
                    conn.stream.sock.abort();
                }
                self.feed(inner, QpEvent::PeerReset, after);
            }
            (None, None) => {}
            (None, Some(None)) => self.feed(inner, QpEvent::Closed, after),
            (None, Some(Some(e))) if e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH => {
                self.feed(inner, QpEvent::Lost, after);
            }
            (None, Some(Some(_))) => self.feed(inner, QpEvent::PeerReset, after),
        }
    }

    /// Feeds an event to the state machine, and ignores it if it does not fit the state any more.
    pub(super) fn feed(self: &Arc<Self>, inner: &mut Inner, event: QpEvent, after: &mut After) {
        let event = self.translate(inner, event);
        let in_vain = matches!(event, QpEvent::PeerGone { .. }) && self.was_in_vain();
        let waits = event == QpEvent::PeerGone { busy: true };
        let _ = self.apply(inner, event, None, after);
        if waits {
            self.begin_to_give_up(inner);
        }
        if in_vain {
            // Posts wait for the next stream.
            inner.was_closed = false;
        }
    }
}

/// The number of the work item that acts upon notes, and sends.
pub(super) const ACTS: u64 = 0;
/// The number of the work item that only sends.
pub(super) const SENDS: u64 = 1;

impl Wakes for Qp {
    #[inline]
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn wake(self: Arc<Self>, actor: Actor) {
        self.queue(actor);
    }
}

impl Qp {
    /// Queues the work item that `actor` is, or starts the timer that queues one. Does nothing if
    /// `actor` is the caller.
    #[inline(always)]
    pub(super) fn queue(self: &Arc<Self>, actor: Actor) {
        match actor {
            Actor::Urgent => self.urge(),
            Actor::Patient => {
                let patient = &self.shared.id.dev.queues().patient;
                // If this fails, the item is queued already, and will see whatever there is to see.
                let _ = patient.enqueue::<_, SENDS>(self.clone());
            }
            Actor::Later => ShortTimer::start(self, GATHER_US),
            Actor::Caller => {}
        }
    }

    /// Queues the urgent work item. It goes on in place of those who waited for something that is
    /// there now, and of those who have stopped although there may be more to do, of which nobody
    /// will tell. It is urgent because errors, the socket and timers must not wait for a program,
    /// and because a consumer may poll for what it sends, flushes or completes.
    pub(super) fn urge(self: &Arc<Self>) {
        // If this fails, the item is queued already, and will see whatever there is to see.
        let urgent = &self.shared.id.dev.queues().data;
        let _ = urgent.enqueue::<_, ACTS>(self.clone());
    }

    /// Leaves a note for the work item. The value that goes with the note is in its slot already.
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.shared.notes.leave(note);
        self.urge();
    }

    /// Lets the work item act upon what was noted, if anything was. Whoever sends or receives calls
    /// this at the end.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>) {
        if self.shared.is_noted() {
            self.urge();
        }
    }

    /// Notes that the peer is out of reach for good.
    pub(crate) fn lost(self: &Arc<Self>) {
        self.note(QpNote::Lost);
    }

    /// Starts the timer anew: [`QpNote::Timeout`] is left in `ms` milliseconds, and not before.
    pub(super) fn start_timer(self: &Arc<Self>, ms: u32) {
        self.cancel_timer();
        Timer::start(self, ms);
    }

    /// Stops the timer. The timer takes no lock that is held across this.
    pub(super) fn cancel_timer(self: &Arc<Self>) {
        Timer::stop(self);
        self.shared.notes.take(QpNote::Timeout);
    }

    /// Stops the timers, once nobody posts any more. This is needed without a connection, too:
    /// requests that are posted then may gather.
    pub(super) fn stop_timers(self: &Arc<Self>) {
        self.cancel_timer();
        ShortTimer::stop(self);
    }
}

impl Qp {
    /// Leaves what is to be done to `actor` ([`Qp::queue`]). Not inlined: callers mostly act
    /// themselves.
    #[inline(never)]
    fn hand_over(self: &Arc<Self>, actor: Actor) {
        self.queue(actor);
    }

    /// Returns who sends what a process has just posted.
    #[inline(always)]
    fn who_sends(&self, inner: &mut Inner) -> Actor {
        // Where the queue is polled, the thread that polls sees what is posted next.
        let answered = self.shared.take_answered() || self.active_poller().is_some();
        let doorbells = &mut inner.doorbells;
        doorbells.ring(
            inner.ring.taken(),
            self.shared.id.send_cq.notified(),
            answered,
        );
        let row = doorbells.row(!inner.ring.has_behind(WORTH - 1));
        let flags = &self.shared.flags;
        flags.has_slept.store(doorbells.has_slept(), Relaxed);
        let actor = self.shared.who(Reason::Doorbell(row));
        if actor != Actor::Caller {
            doorbells.leave();
        }
        actor
    }

    /// Sends on behalf of a process that rang the doorbell, or lets a work item do so. Returns
    /// `EINVAL` for the QP of a consumer in the kernel.
    pub(crate) fn doorbell(self: &Arc<Self>) -> Result {
        if self.shared.id.is_of_kernel() {
            return Err(EINVAL);
        }
        let mut inner = match self.inner.try_lock() {
            Some(inner) => inner,
            // What becomes of the request is known only under the mutex.
            None if !self.shared.state().sends() => self.inner.lock(),
            // Whoever has the mutex may have looked at the ring already, so somebody looks again.
            None => {
                let actor = self.shared.who(Reason::Left);
                self.shared.id.trace_doorbell(actor);
                self.hand_over(actor);
                if let Some(poller) = &self.poller {
                    poller.begin();
                }
                return Ok(());
            }
        };
        let mut after = After::default();
        if let Some(conn) = &inner.conn {
            conn.stream.steering.rings(&conn.stream.sock);
        }
        if self.shared.state().post_send(inner.was_closed) == Post::Queue {
            let actor = self.who_sends(&mut inner);
            self.shared.id.trace_doorbell(actor);
            if actor != Actor::Caller {
                drop(inner);
                self.hand_over(actor);
                return Ok(());
            }
        }
        self.send_posts(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if let Some(poller) = &self.poller {
            poller.begin();
        }
        Ok(())
    }

    /// Sends what was posted, or flushes it.
    pub(super) fn send_posts(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.progress(inner, after);
        self.flush_posted(inner, after);
    }

    /// Transmits what can be transmitted; failures of requests and responses change the state.
    pub(super) fn progress(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        self.settle(inner, after);
        while let Some(stop) = inner.send(&self.shared, self.shared.state(), after.actor, true) {
            self.restart_timer(inner);
            match stop {
                Stop::Empty
                    if self.shared.state() == QpState::Draining
                        && inner.complete_before_fin(&self.shared) =>
                {
                    let _ = self.apply(inner, QpEvent::Drained, None, after);
                }
                Stop::Empty | Stop::For(_) => return,
                Stop::Again => {
                    self.shared.counts.count(Counter::TxBudget);
                    return self.urge();
                }
                Stop::Failed(failure) => self.local_error(inner, failure, after),
            }
        }
    }

    /// Sets the timer for the FIN, if the FIN has asked for that.
    #[inline]
    pub(super) fn restart_timer(self: &Arc<Self>, inner: &mut Inner) {
        let conn = inner.conn.as_mut();
        if let Some(ms) = conn.and_then(|conn| conn.sending.fin.take_timer()) {
            self.start_timer(ms);
        }
    }

    /// Acts upon a failure that is known already, of [`Qp::send_only`] or of the receiver, before
    /// anything else is done. Returns whether there was one.
    pub(super) fn settle(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> bool {
        inner.spent_peer = None;
        let failure = inner.failed.take().or_else(|| self.shared.noted_failure());
        let is_failure = failure.is_some();
        if let Some(failure) = failure {
            self.local_error(inner, failure, after);
        }
        is_failure
    }

    /// Posts the requests of a kernel consumer, up to the first bad one; for errors see
    /// [`KernelSq::post`](super::sq::kernel::KernelSq::post). The calling thread sends them if it
    /// holds no spin lock and gets the mutex at once. Otherwise the work item sends or flushes
    /// them.
    pub(crate) fn post_send(self: &Arc<Self>, chain: &mut SendChain<'_>) -> Result {
        let Some(kernel) = self.shared.id.consumer.kernel() else {
            let _ = chain.next();
            return Err(EINVAL);
        };
        let result = kernel.posted.post(chain);
        let may_wait = task::may_sleep();
        let may_send = (may_wait || task::is_preemptible()) && !task::is_low_priority();
        match may_send {
            true => self.queue(self.shared.id.payer.pays(|| self.send_posted(may_wait))),
            // The consumer may have disabled interrupts, or have locks that its handlers take.
            false => self.urge(),
        }
        result
    }

    /// Sends what a kernel consumer has posted, on its thread. The thread may hold locks of the
    /// consumer, and memory or a file system may wait for the thread. So this only sends, and waits
    /// for no thread that might wait for those locks. Returns who is to act if this thread must
    /// not. Process context.
    fn send_posted(self: &Arc<Self>, may_wait: bool) -> Actor {
        let _scope = NoIo::enter();
        let Some(mut inner) = self.inner.try_lock() else {
            // Whoever has the mutex may have looked already, so somebody looks again.
            return Actor::Urgent;
        };
        let state = self.shared.state();
        let is_sent = state.sends() && state.post_send(inner.was_closed) == Post::Queue;
        // A Terminate and the FIN are the work item's.
        if !is_sent || inner.failed.is_some() {
            return Actor::Urgent;
        }
        let actor = self.shared.who(Reason::KernelPost {
            // If there was an answer, and this side is not behind, the peer has answered, and
            // acknowledged, all that was posted before.
            one_of_many: !may_wait && (!self.shared.take_answered() || inner.is_behind()),
        });
        if actor == Actor::Caller {
            self.send_only(&mut inner, may_wait);
        }
        actor
    }

    /// Transmits and does nothing else, on the thread of a kernel consumer, which may have locks of
    /// its own. What changes the state, or calls the consumer, is left to the work item. Without
    /// `may_wait`, what would have to wait is left to the work item, too.
    fn send_only(self: &Arc<Self>, inner: &mut Inner, may_wait: bool) {
        let stop = inner.send(&self.shared, self.shared.state(), Actor::Caller, may_wait);
        self.restart_timer(inner);
        match stop {
            // The FIN may be due.
            Some(Stop::Empty) if self.shared.state() == QpState::Draining => {
                self.shared.notes.leave(QpNote::Again);
            }
            None | Some(Stop::Empty | Stop::For(_)) => {}
            Some(Stop::Again) => {
                if may_wait {
                    self.shared.counts.count(Counter::TxBudget);
                }
                self.shared.notes.leave(QpNote::Again);
            }
            Some(Stop::Failed(failure)) => {
                inner.failed = Some(failure);
                self.shared.notes.leave(QpNote::Again);
            }
        }
        self.ring_if_noted();
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Fails as
    /// [`Rq::post`](crate::queue::rq::Rq::post).
    pub(crate) fn post_recv(self: &Arc<Self>, chain: &mut RecvChain<'_>) -> Result {
        let result = match &mut *self.shared.rq.lock() {
            Some(rq) => rq.post(chain),
            // Receives go to the shared queue (V-SRQ-8).
            None => {
                let _ = chain.next();
                Err(EINVAL)
            }
        };
        // Whoever flushes the queue changed the state before: either that flush sees these
        // receives, or the new state is seen here.
        if self.shared.state().post_recv() == Post::Flush {
            // The work item flushes them, behind what was posted before.
            self.urge();
        }
        result
    }
}

/// What one look at the ring has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// No request, or another thread has the mutex.
    Nothing,
    /// Requests, of which some were taken out.
    Taken,
    /// Requests that have to wait. Whoever goes on with them is notified by other means.
    Waiting,
}

impl Qp {
    /// Sends or flushes what is in the queue, without giving requests time to gather.
    fn deal_with_posted(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> Look {
        if inner.ring.is_empty() {
            return Look::Nothing;
        }
        let before = inner.ring.taken();
        self.send_posts(inner, after);
        if inner.ring.taken() == before {
            Look::Waiting
        } else {
            Look::Taken
        }
    }

    fn poll_once(self: &Arc<Self>) -> Look {
        let Some(mut inner) = self.inner.try_lock() else {
            return Look::Nothing;
        };
        let mut after = After::default();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        seen
    }

    /// Polls the ring for `us` microseconds at most, and ends early if the processor is wanted or a
    /// signal is pending. Returns whether a request was taken out.
    fn poll_for_a_while(self: &Arc<Self>, us: u32) -> bool {
        let end = time::now().saturating_add(u64::from(us).saturating_mul(1000));
        loop {
            match self.poll_once() {
                Look::Taken => return true,
                Look::Waiting => return false,
                Look::Nothing => {}
            }
            if time::now() >= end || task::is_wanted() || current!().signal_pending() {
                return false;
            }
            cpu_relax();
        }
    }

    /// Stops polling until the next doorbell, and handles what was posted before the process could
    /// see that.
    fn stop_polling(self: &Arc<Self>, poller: &Poller<Self>) {
        if !poller.pause() {
            return;
        }
        // The process sets the flags of an entry, then looks at the word. If it found the word
        // still set, the entry is seen below; if it found it cleared, it calls.
        smp_mb(Full);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if seen == Look::Taken {
            match current!().signal_pending() {
                // The thread may be stopped next, so the work item goes on.
                true => self.urge(),
                false => poller.resume(),
            }
        }
    }
}

impl Serves for Qp {
    type Reaper = Queues;

    const NAME: &'static CStr = c"rsiw-poll";

    fn is_due(this: ArcBorrow<'_, Self>) -> bool {
        this.poller.as_deref().is_some_and(Poller::is_due)
    }

    fn serve(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            poller.answer();
            // A signal stops the thread after this function has returned. Other processes may have
            // the queue pair, too, and must not rely on a thread that is stopped: so this does not
            // return while it polls.
            while poller.polls() {
                if !qp.poll_for_a_while(poller.us()) || current!().signal_pending() {
                    qp.stop_polling(poller);
                }
            }
        }
    }

    fn go_on_without(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(poller) = qp.poller.as_deref() {
            poller.set_over();
            // This barrier is needed for the same reason as in `stop_polling`. Other processes may
            // have the queue pair, too, and go on.
            smp_mb(Full);
            qp.urge();
        }
    }
}
