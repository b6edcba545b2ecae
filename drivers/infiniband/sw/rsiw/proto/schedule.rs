// SPDX-License-Identifier: GPL-2.0

//! Who sends now: the thread at hand, the urgent work item of the queue pair, or its patient one.
//!
//! Sending from the thread at hand, that of a process or of a consumer in the kernel, which may not
//! sleep everywhere, brings one message to the peer soonest. A work item sends many
//! messages in one call of TCP. An urgent one runs before what else the processor has to do, so
//! that a program that polls does not keep it from bringing what is polled for; each run costs a
//! change of task. A patient one runs in its turn, while more to send gathers.
//!
//! Which of them is best depends on how much the consumer has on its way at a time. The consumer
//! does not say that, and the size of its requests does not tell it either: [`Gathering`] finds it
//! out.
//!
//! [`who`] is the whole table. Not in it is who has the queue pair's mutex anyway: threads that
//! change the state, by a verb or for the connection manager, send what the new state lets out
//! before they return, and a thread that rings the doorbell too late flushes what it posted.
//!
//! Pure: any context. No clock: points in time are nanoseconds of a monotonic one.
#![forbid(unsafe_code)]

use super::tuning::{
    micros,
    nanos,
    RowLimits, //
};

/// Requests that are dealt with one by one after the first time that others gathered in vain.
const FIRST_PAUSE: u16 = 8;
/// The most requests that are dealt with one by one after any later time.
const LONGEST_PAUSE: u16 = 256;
/// The same for Reads of a peer, where each time in vain takes longer.
const LONGEST_READ_PAUSE: u16 = 1024;
/// Requests of a process that are left to gather, at most.
const MOST_POSTS: u32 = 64;
/// Fewer than that are not worth the time in which they gathered, if that time is not known.
const FEWEST_POSTS: u32 = 4;
/// After so many rows, some requests are dealt with one by one, to find out again what one takes by
/// itself.
const KNOWN_ROWS: u32 = 128;
/// How many that are.
const TRIED_ALONE: u16 = 8;
/// One in so many rows of requests is given time for more than there were.
const MORE_POSTS: u32 = 8;
/// A time that is more than so many times the mean of those before counts as that many times.
const MOST_TIMES: u64 = 4;
/// The longest time between two looks at requests that gather, in microseconds.
const LONGEST_LOOK: u32 = 40;
/// Rows after which fewer Reads are expected, down to half, if as many did not come together again.
const RECENT_ROWS: u32 = 16;
/// A row that ended with a pause counts as so many of these rows.
const PAUSED_ROWS: u32 = 4;

/// Who is to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The thread that asks.
    #[default]
    Caller,
    /// The urgent work item, which acts upon what was noted, then sends or flushes.
    Urgent,
    /// The patient work item, which sends or flushes.
    Patient,
    /// The urgent work item, as soon as for a while nothing more has come to act upon.
    Soon,
    /// The urgent work item, after a short time in which more requests may come.
    Later,
    /// Nobody: there is nothing to do, or who does it is on his way.
    Nobody,
}

/// Finds out whether requests gather if they are left to a work item.
///
/// A work item costs a change of task. That pays if more requests come before it runs, which they
/// do not if the consumer has only one on its way at a time. So now and then a request is left to a
/// work item: if it was alone in the end, those that follow are dealt with one by one, twice as
/// many after each time in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// Requests that are still to be dealt with one by one.
    left: u16,
    /// What `left` becomes after the next time in vain.
    pause: u16,
    /// The most that becomes.
    longest: u16,
    /// Whether the last request was left to gather.
    tried: bool,
}

impl Gathering {
    /// The next request is left to gather. After times in vain, up to `longest` are not.
    pub(crate) const fn new(longest: u16) -> Self {
        Self {
            left: 0,
            pause: FIRST_PAUSE,
            longest,
            tried: false,
        }
    }

    /// Takes note whether requests have gathered, the last one among them.
    #[inline]
    pub(crate) fn found(&mut self, have_gathered: bool) {
        if have_gathered {
            *self = Self::new(self.longest);
        } else if core::mem::take(&mut self.tried) {
            self.left = self.pause;
            self.pause = self.pause.saturating_mul(2).min(self.longest);
        }
    }

    /// The next `count` requests are not left to gather.
    fn rest(&mut self, count: u16) {
        self.left = count;
        self.tried = false;
    }

    /// Returns whether the next request is left to gather.
    #[inline]
    pub(crate) fn tries(&mut self) -> bool {
        self.tried = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.tried
    }
}

/// What a doorbell is to its row: those that ring with little time in between, and no answer of the
/// peer. Or what a Read of the peer is to those that wait to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One of the first of its row, or one whose requests do not gather, or have gathered.
    Slow,
    /// One of many, whose requests are left to gather.
    Fast,
}

/// How many Reads of the peer come before it waits for an answer.
///
/// A work item costs a change of task, so Reads are left to gather while more of them come. Reads of
/// a row come one while another waits. If as many wait as at most in the last rows, no more are
/// expected. Now and then a row is given time for twice as many, as the peer may have more on its
/// way than was seen. A row that ends early says little: the work item may be running already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRows {
    /// How many Reads a row is expected to have: the most that waited at a time in one of the last
    /// rows.
    expected: usize,
    /// The most that waited at a time in a row since `expected` was set last.
    recent: usize,
    /// Rows since then.
    rows: u32,
    /// How many the row at hand is given time for.
    target: usize,
    /// The most that waited at a time in it.
    most: usize,
    /// How many waited when it was looked at last.
    looked: usize,
    gathering: Gathering,
}

impl ReadRows {
    /// Nothing is known of the peer.
    pub(crate) const fn new() -> Self {
        Self {
            expected: 1,
            recent: 0,
            rows: 0,
            target: 1,
            most: 0,
            looked: 0,
            gathering: Gathering::new(LONGEST_READ_PAUSE),
        }
    }

    /// Takes note of a Read, one of `waiting`, of which `limit` may gather; `is_enough` says whether
    /// what they ask for fills a batch, to which more of them would add nothing. Returns whether they
    /// are left to gather on ([`Pace::Fast`]).
    pub(crate) fn arrive(&mut self, waiting: usize, is_enough: bool, limit: usize) -> Pace {
        if waiting <= 1 {
            self.begin(limit);
        }
        self.most = self.most.max(waiting);
        if waiting < self.target && !is_enough {
            Pace::Fast
        } else {
            Pace::Slow
        }
    }

    /// Takes note that `waiting` Reads wait after a pause. Returns whether they are left to gather
    /// on, `None` if there are none, or were enough of them before.
    pub(crate) fn pause(&mut self, waiting: usize) -> Option<Pace> {
        if waiting == 0 || self.most >= self.target {
            return None;
        }
        if waiting > self.looked {
            self.looked = waiting;
            return Some(Pace::Fast);
        }
        self.rows = self.rows.saturating_add(PAUSED_ROWS);
        Some(Pace::Slow)
    }

    /// Begins a row, with what the one before has shown.
    fn begin(&mut self, limit: usize) {
        self.gathering.found(self.most > self.expected);
        self.recent = self.recent.max(self.most);
        self.rows = self.rows.saturating_add(1);
        if self.recent >= self.expected || self.rows >= RECENT_ROWS {
            // Not all at once: whoever posts them may have been kept from the processor.
            let least = self.expected.wrapping_shr(1).max(1);
            self.expected = self.recent.max(least).min(limit.max(1));
            self.recent = 0;
            self.rows = 0;
        }
        self.most = 0;
        self.looked = 0;
        let times = if self.gathering.tries() { 2 } else { 1 };
        self.target = self.expected.saturating_mul(times).min(limit);
    }
}

/// Requests of a process that polls, which are left to gather.
///
/// The library does not ring the doorbell while a request waits, so somebody looks now and then how
/// many there are. They are sent when no more have come, or as many as in the rows before: whoever
/// has so many on his way waits for these. Now and then a row is given time for twice as many. A
/// row in which no second request has come is over after the time that the first one would have
/// taken by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostRow {
    /// How many a row is expected to have.
    expected: u32,
    /// How many the row at hand is given time for.
    target: u32,
    /// How many waited when it was looked at last.
    looked: u32,
    /// Time from the last look to the next one, in microseconds.
    wait: u32,
    /// Time from the first request to the next look, in microseconds.
    elapsed: u32,
    /// For how long the second request is waited for, in microseconds.
    patience: u32,
    /// Rows since one was given more time.
    rows: u32,
    /// Number of the first request of the row at hand; wraps.
    first: Option<u32>,
}

impl PostRow {
    /// Nothing is known of the process.
    pub(crate) const fn new() -> Self {
        Self {
            expected: MOST_POSTS,
            target: MOST_POSTS,
            looked: 0,
            wait: 0,
            elapsed: 0,
            patience: 0,
            rows: 0,
            first: None,
        }
    }

    /// Begins a row with the request of that number, if there is none, of which the first look is
    /// due after `wait` microseconds; a second request is waited for up to `patience` microseconds.
    /// Returns whether there was none.
    pub(crate) fn begin(&mut self, first: u32, wait: u32, patience: u32) -> bool {
        if self.first.is_some() {
            return false;
        }
        self.first = Some(first);
        self.looked = 1;
        self.wait = wait;
        self.elapsed = wait;
        self.patience = patience.min(LONGEST_LOOK);
        self.rows = self.rows.saturating_add(1);
        let tries = self.rows >= MORE_POSTS;
        if tries {
            self.rows = 0;
        }
        let times = if tries { 2 } else { 1 };
        self.target = self.expected.saturating_mul(times).min(MOST_POSTS);
        true
    }

    /// The stream has ended, and the timer was stopped: there is no row.
    pub(crate) fn end(&mut self) {
        self.first = None;
    }

    /// Number of the first request of the row that was not there at the last look, and how many
    /// more are of interest; `None` if there is no row.
    pub(crate) fn unseen(&self) -> Option<(u32, u32)> {
        let first = self.first?;
        let left = self.target.saturating_sub(self.looked);
        Some((first.wrapping_add(self.looked), left))
    }

    /// Takes note of a look that found `more` requests. Returns after how many microseconds the
    /// next one is due; `None` if the row is over, and is to be sent.
    pub(crate) fn look(&mut self, more: u32) -> Option<u32> {
        self.looked = self.looked.saturating_add(more);
        if more > 0 && self.looked < self.target {
            // When all are there, if they go on to come like this.
            let missing = self.target.saturating_sub(self.looked);
            let due = missing
                .saturating_mul(self.elapsed)
                .checked_div(self.looked)
                .unwrap_or(0);
            let most = self.wait.saturating_mul(2).min(LONGEST_LOOK);
            self.wait = due.saturating_add(1).min(most).max(1);
            self.elapsed = self.elapsed.saturating_add(self.wait);
            return Some(self.wait);
        }
        if self.looked <= 1 && self.elapsed < self.patience {
            self.wait = self.wait.max(1);
            self.elapsed = self.elapsed.saturating_add(self.wait);
            return Some(self.wait);
        }
        // Not all at once: whoever posts them may have been kept from the processor.
        let least = self.expected.wrapping_shr(1);
        self.expected = self.looked.max(least).min(MOST_POSTS);
        self.first = None;
        None
    }
}

/// What is known when a doorbell rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ringing {
    /// Whether data came in since the last doorbell.
    pub(crate) answered: bool,
    /// Requests of a process, or posts of a consumer in the kernel, that were taken out of the send
    /// queue up to now; wraps.
    pub(crate) taken: u32,
    /// Notifications to the consumer of send completions up to now; wraps.
    pub(crate) notified: u32,
    /// What a row is.
    pub(crate) limits: RowLimits,
}

/// The doorbells of a queue pair. Under its mutex.
///
/// Whether requests are worth the time in which they gather is a matter of how many they are, of
/// what one takes by itself, and of how soon another thread runs. So both ways are compared by the
/// time from doorbell to doorbell, divided by the requests in between: that is the rate at which the
/// consumer gets on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Doorbells in the row.
    row: u32,
    /// When a request was last posted or sent, in nanoseconds, if the clock was read then.
    last: Option<u64>,
    /// [`Ringing::taken`] of the last doorbell.
    taken: u32,
    /// [`Ringing::notified`] of the last doorbell that was not answered.
    notified: u32,
    /// When that number was last found to have changed, in nanoseconds, if ever.
    waited: Option<u64>,
    /// Whether the last requests were given time to gather ([`PostRow`]).
    took_time: bool,
    /// Whether the thread that rang last dealt with what it posted.
    by_itself: bool,
    /// When the doorbell rang last before which all was taken, in nanoseconds, if that is known.
    began: Option<u64>,
    /// Mean time from one doorbell to the next where each request is dealt with by itself, in
    /// nanoseconds, if it is known. Not the shortest: the peer, or the consumer that is notified,
    /// may run in between only now and then.
    alone: Option<u64>,
    /// Mean time per request where requests gathered, in nanoseconds, since this did not pay last,
    /// if it is known.
    together: Option<u64>,
    /// Whether requests of a consumer that waits are left to a work item that runs in its turn, and
    /// not given a time: see [`Doorbells::leaves_to_turn`].
    in_turn: bool,
    /// Rows that were left to gather since that was last found out on purpose ([`KNOWN_ROWS`]).
    rows: u32,
    gathering: Gathering,
}

impl Default for Doorbells {
    fn default() -> Self {
        Self {
            row: 0,
            last: None,
            taken: 0,
            notified: 0,
            waited: None,
            took_time: false,
            by_itself: true,
            began: None,
            alone: None,
            together: None,
            in_turn: true,
            rows: 0,
            gathering: Gathering::new(LONGEST_PAUSE),
        }
    }
}

impl Doorbells {
    /// Counts a doorbell, and returns what it is to its row. `now` returns the time in nanoseconds.
    /// As reading the clock takes time, it is not called for a consumer that waits for each answer.
    #[inline]
    pub(crate) fn ring(&mut self, ringing: &Ringing, now: impl FnOnce() -> u64) -> Pace {
        let taken = core::mem::replace(&mut self.taken, ringing.taken);
        let taken = ringing.taken.wrapping_sub(taken);
        if ringing.answered {
            self.learn(taken, None, false);
            self.began = None;
            self.by_itself = true;
            self.row = 1;
            self.last = None;
            return Pace::Slow;
        }
        let now = now();
        let pause = nanos(ringing.limits.pause);
        let before_pause = self.last.filter(|last| now.saturating_sub(*last) > pause);
        let is_pause = before_pause.is_some();
        self.learn(taken, Some(before_pause.unwrap_or(now)), is_pause);
        if is_pause {
            self.row = 0;
        }
        // If none was taken yet, those that were left to gather are still on their way.
        if is_pause || taken > 0 || self.began.is_none() {
            self.began = Some(now);
        }
        self.last = Some(now);
        if ringing.notified != self.notified {
            self.notified = ringing.notified;
            self.waited = Some(now);
        }
        self.row = self.row.saturating_add(1);
        self.by_itself = self.row <= ringing.limits.doorbells || !self.gathering.tries();
        if self.by_itself {
            Pace::Slow
        } else {
            Pace::Fast
        }
    }

    /// Learns from the `taken` requests that were taken since the last doorbell; `end` is up to when
    /// the process was at it, if that is known, and `is_pause` whether it did something else since.
    #[inline]
    fn learn(&mut self, taken: u32, end: Option<u64>, is_pause: bool) {
        if taken == 0 {
            return;
        }
        let each = self.began.zip(end).and_then(|(began, end)| {
            let time = end.saturating_sub(began);
            time.checked_div(u64::from(taken))
        });
        let fewest = if core::mem::take(&mut self.took_time) {
            FEWEST_POSTS
        } else {
            2
        };
        if self.by_itself {
            if let Some(each) = each.filter(|_| !is_pause) {
                self.alone = Some(Self::mean(self.alone, each));
            }
            self.gathering.found(taken > 1);
            return;
        }
        let before = self.together;
        let together = each.map(|each| Self::mean(before, each));
        let has_paid = match each.zip(together) {
            // One that took long counts for little behind many that paid.
            Some((each, together)) => {
                taken > 1 && self.alone.is_none_or(|alone| each.min(together) <= alone)
            }
            // A single row whose time is not known does not end what has paid so far.
            None => taken >= fewest || before.is_some(),
        };
        self.together = together.filter(|_| has_paid);
        self.in_turn ^= !has_paid;
        self.gathering.found(has_paid);
        self.rows = self.rows.saturating_add(1);
        if has_paid && self.rows > KNOWN_ROWS {
            self.rows = 0;
            self.gathering.rest(TRIED_ALONE);
        }
    }

    /// The mean after `now`, which counts for a quarter; `before` is the one so far, if there is one.
    /// A time that is far too long is cut short ([`MOST_TIMES`]): the thread that rings may have been
    /// kept from the processor.
    fn mean(before: Option<u64>, now: u64) -> u64 {
        let Some(before) = before else {
            return now;
        };
        let now = now.min(before.saturating_mul(MOST_TIMES));
        before
            .saturating_sub(before.wrapping_shr(2))
            .saturating_add(now.wrapping_shr(2))
    }

    /// Takes note that the request at hand is given time, for others to come. Returns for how long
    /// that pays, in microseconds: as long as it would take by itself, if that is known.
    pub(crate) fn takes_time(&mut self) -> u32 {
        self.took_time = true;
        self.alone.map_or(0, micros)
    }

    /// Takes note that requests were sent, at the time that `now` returns: the time that it takes
    /// to send large ones is no pause of the consumer.
    #[inline]
    pub(crate) fn sent(&mut self, now: impl FnOnce() -> u64) {
        if self.row > 0 && self.last.is_some() {
            self.last = Some(now());
        }
    }

    /// Whether requests that gather are best left to a work item that runs in its turn, if the
    /// consumer waits for completions. That costs less than to look at them after a time, but its
    /// turn may be at once, before a second request is posted. If the one way did not pay, the other
    /// one is tried.
    #[inline]
    pub(crate) fn leaves_to_turn(&self) -> bool {
        self.in_turn
    }

    /// Whether a notification came to the consumer in the last `within` microseconds: it waits for
    /// them, though perhaps not for the next one yet. It does not ask for another before it has
    /// found nothing more to do.
    #[inline]
    pub(crate) fn has_waited(&self, within: u32) -> bool {
        self.last
            .zip(self.waited)
            .is_some_and(|(last, waited)| last.saturating_sub(waited) <= nanos(within))
    }
}

/// Why somebody may have to act, and what is known then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A process rang the doorbell while somebody else had the mutex; `sends` is whether requests
    /// are sent in this state.
    Busy { sends: bool },
    /// A process rang the doorbell, its thread has the mutex, and requests wait to be sent.
    Doorbell(Pace),
    /// A consumer in the kernel posted send requests, in any context; `may_sleep` is whether its
    /// thread may sleep there, and keep others waiting.
    KernelPost { may_sleep: bool },
    /// Its thread may sleep, but somebody else has the mutex, or more is to be done than to send.
    KernelBusy,
    /// Its thread may sleep and has the mutex, and requests wait to be sent.
    KernelDoorbell(Pace),
    /// A consumer in the kernel posted receives; `flushes` is whether they are flushed.
    KernelRecv { flushes: bool },
    /// There is room in the socket, or the peer has acknowledged all.
    Room,
    /// A Read of the peer is to be answered.
    PeerRead(Pace),
    /// The response to a Read is placed. `draining`: the FIN waits for the last one. `stalled`: a
    /// request waits for there being less of them.
    ReadDone { draining: bool, stalled: bool },
    /// The first segment of the peer, before which a responder may not send.
    PeerHeard,
    /// Somebody has stopped although there may be more to send, to flush or to complete, of which
    /// nobody tells: see [`Drained`](super::drain::Drained).
    GoOn,
    /// Something was noted that only the work item may act upon.
    Note,
}

/// Returns who acts because of `reason`; `waits` says whether the consumer of send completions, a
/// process, waits for a notification instead of polling, and work that runs in its turn gathers
/// requests meanwhile. It is asked only where that counts.
///
/// Inlined: most reasons are constants, of which nothing but the answer is left.
#[inline(always)]
pub(crate) fn who(reason: Reason, waits: impl Fn() -> bool) -> Actor {
    use Actor::{Caller, Later, Nobody, Patient, Soon, Urgent};
    use Reason::*;

    match reason {
        // Whoever has the mutex may have looked at the ring already, so somebody looks again. A
        // consumer that waits posts more before that; one that polls would keep a patient one away.
        Busy { sends: true } if waits() => Patient,
        Busy { sends: true } => Urgent,
        // Only under the mutex is known what becomes of the request: the thread waits for it.
        Busy { sends: false } => Caller,

        // A consumer that waits for an answer has nothing else on the way, and gets it soonest so.
        Doorbell(Pace::Slow) => Caller,
        // The library does not ring while a request waits, and many go to TCP in one call.
        Doorbell(Pace::Fast) if waits() => Patient,
        // One that polls would be interrupted at once, or never: no time to post more, or too much.
        Doorbell(Pace::Fast) => Later,

        // Who sends may sleep. The thread sends if it has the mutex at once: for how long others
        // have it is nothing that a post may depend on.
        KernelPost { may_sleep: true } => Caller,
        // The consumer may have disabled interrupts.
        KernelPost { may_sleep: false } => Urgent,
        // Somebody looks again, as for a process; what else there is to do, no thread of a consumer
        // does that may have its locks.
        KernelBusy => Urgent,
        // As for a process. Whether this consumer waits or polls is not known.
        KernelDoorbell(Pace::Slow) => Caller,
        KernelDoorbell(Pace::Fast) => Urgent,
        // Behind what was posted before.
        KernelRecv { flushes: true } => Urgent,
        // The stream takes it.
        KernelRecv { flushes: false } => Nobody,

        // TCP is about to run dry, or the FIN may go.
        Room => Urgent,

        // As many as that have gathered: the peer may wait for these before it asks for more.
        PeerRead(Pace::Slow) => Urgent,
        // Each alone would cost a change of task.
        PeerRead(Pace::Fast) => Soon,

        // The FIN may be due. A process that disconnects does not poll.
        ReadDone { draining: true, .. } => Urgent,
        // As for a request that is posted now.
        ReadDone { stalled: true, .. } if waits() => Patient,
        ReadDone { stalled: true, .. } => Urgent,
        ReadDone { .. } => Nobody,

        // Requests may have waited for this from the start.
        PeerHeard => Urgent,
        // The consumer may poll for the last of them.
        GoOn => Urgent,
        // Errors, the socket, timers: not to be kept waiting by a program.
        Note => Urgent,
    }
}
