// SPDX-License-Identifier: GPL-2.0

//! Who sends: each row of the table, what is counted of doorbells, and what is left to gather.

use crate::proto::reads::{Inbound, InboundRead, InboundReads};
use crate::proto::schedule::Actor::{self, Caller, Later, Nobody, Patient, Soon, Urgent};
use crate::proto::schedule::Reason::{self, *};
use crate::proto::schedule::{who, Doorbells, Gathering, Pace, PostRow, ReadRows, Ringing};
use crate::proto::tuning::{RowLimits, READ_ROW, ROW, ROW_LOOK, ROW_PAUSE, WAITED};
use crate::wire::ddp::Msn;
use crate::wire::rdmap::ReadRequest;

/// What the row says if the consumer polls, and if it waits for a notification.
const POLLS_OR_WAITS: [bool; 2] = [false, true];

/// Who acts, whatever the consumer does, which must not be asked: that costs something.
fn always(reason: Reason) -> Actor {
    who(reason, || {
        panic!("{reason:?}: what the consumer does does not count")
    })
}

/// Who acts if the consumer polls, and who if it waits.
fn by_consumer(reason: Reason) -> [Actor; 2] {
    POLLS_OR_WAITS.map(|waits| who(reason, || waits))
}

/// A thread that rings the doorbell sends itself unless it is one of many, or somebody else does.
#[test]
fn doorbells() {
    assert_eq!(always(Doorbell(Pace::Slow)), Caller);
    assert_eq!(by_consumer(Doorbell(Pace::Fast)), [Later, Patient]);
    assert_eq!(by_consumer(Busy { sends: true }), [Urgent, Patient]);
    // What is not sent is flushed, under the mutex.
    assert_eq!(always(Busy { sends: false }), Caller);
}

/// A row of a process that posts one request a microsecond, `depth` at most, the first one with
/// that number. Returns how many were there when the row was over, and for how long that had been
/// all.
fn post_row(row: &mut PostRow, first: u32, depth: u32) -> (u32, u32) {
    let mut wait = ROW_LOOK.default;
    assert!(row.begin(first, wait, 0));
    // Another doorbell, because somebody else has sent.
    assert!(!row.begin(first.wrapping_add(1), wait, 0));
    let mut now = 0;
    loop {
        now += wait;
        let there = (1 + now).min(depth);
        let (number, most) = row.unseen().expect("a row");
        let seen = number.wrapping_sub(first);
        let more = there.saturating_sub(seen).min(most);
        match row.look(more) {
            Some(us) => wait = us,
            None => break,
        }
    }
    assert!(row.unseen().is_none());
    ((1 + now).min(depth), (1 + now).saturating_sub(depth))
}

/// However many requests a process has on its way, they gather, and soon are not waited for much
/// longer than it takes until all are there.
#[test]
fn posts_gather() {
    for depth in 1..200 {
        let mut row = PostRow::new();
        let mut first = u32::MAX - 50;
        let mut late = 0;
        for n in 0..400 {
            let (count, in_vain) = post_row(&mut row, first, depth);
            first = first.wrapping_add(count);
            assert!(count >= depth.min(64), "{depth}: {count}");
            if n >= 10 {
                late += in_vain;
            }
        }
        assert!(late <= 390 * 10, "{depth}: {late}");
    }
    // What is waited for after each request of a program with one is little, see the next test for
    // how seldom that is.
    assert_eq!(post_row(&mut PostRow::new(), 0, 1), (1, ROW_LOOK.default));
}

/// A smaller depth is found out, and a larger one.
#[test]
fn posts_of_another_depth() {
    let mut row = PostRow::new();
    for (depth, before) in [(40, 64), (5, 40), (50, 5)] {
        for _ in 0..60 {
            post_row(&mut row, 7, depth);
        }
        let (count, in_vain) = post_row(&mut row, 7, depth);
        assert_eq!(count, depth, "after {before}");
        assert!(in_vain <= 40, "{depth}: {in_vain}");
    }
}

/// A row whose requests somebody else has taken is over at the next look.
#[test]
fn posts_that_are_gone() {
    let mut row = PostRow::new();
    assert!(row.unseen().is_none());
    assert!(row.begin(3, ROW_LOOK.default, 0));
    assert_eq!(row.unseen().map(|(number, _)| number), Some(4));
    assert_eq!(row.look(0), None);
    assert!(row.begin(4, ROW_LOOK.default, 0));
    // The stream ends, nobody looks any more, and the queue pair is connected again.
    row.end();
    assert!(row.unseen().is_none());
    assert!(row.begin(4, ROW_LOOK.default, 0));
}

/// Without a time to wait a look is due after the shortest there is.
#[test]
fn posts_without_a_wait() {
    let mut row = PostRow::new();
    assert!(row.begin(3, 0, 0));
    assert_eq!(row.look(1), Some(1));
    assert_eq!(row.look(0), None);
}

/// The second request of a row is waited for as long as one takes by itself, and for no longer than
/// the longest look; those behind it are not.
#[test]
fn posts_that_come_late() {
    let mut row = PostRow::new();
    for (patience, looks) in [(0, 1), (5, 1), (6, 2), (16, 4), (40, 8), (1_000_000, 8)] {
        assert!(row.begin(3, 5, patience));
        for _ in 1..looks {
            assert_eq!(row.look(0), Some(5), "{patience}");
        }
        assert_eq!(row.look(0), None, "{patience}");
    }
    let mut row = PostRow::new();
    assert!(row.begin(3, 5, 40));
    assert_eq!(row.look(0), Some(5));
    assert!(row.look(1).is_some());
    assert_eq!(row.look(0), None);
    // Nobody waits without end where no time is to pass between two looks.
    assert!(row.begin(3, 0, 40));
    assert!((0..50).any(|_| row.look(0).is_none()));
}

/// How long a request takes by itself is a mean, not the least: a peer that runs in between now and
/// then is a part of it.
#[test]
fn posts_of_which_some_are_quick() {
    let mut ringer = Ringer::default();
    for n in 0..200 {
        ringer.ring(if n % 4 == 0 { 46_000 } else { 6_000 }, 1);
    }
    let given = rows_of_posts(&mut ringer, 8, 8 * 10_000, 16_000);
    assert!(given > 2_700, "{given}");
    // What is waited for a second one is as long.
    let us = ringer.doorbells.takes_time();
    assert!((10..=20).contains(&us), "{us}");
    assert_eq!(Doorbells::default().takes_time(), 0);
}

/// A consumer that waits has its requests left to a work item's turn, or given a time, whichever
/// pays; where neither does, both are tried now and then.
#[test]
fn posts_of_a_consumer_that_waits() {
    for (turn_pays, time_pays) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut ringer = Ringer::default();
        let mut pace = ringer.ring(16_000, 1);
        let (mut turns, mut times) = (0, 0);
        for _ in 0..3_000 {
            if pace == Pace::Slow {
                pace = ringer.ring(16_000, 1);
                continue;
            }
            let in_turn = ringer.doorbells.leaves_to_turn();
            *(if in_turn { &mut turns } else { &mut times }) += 1;
            let pays = if in_turn { turn_pays } else { time_pays };
            pace = ringer.ring(
                if pays { 80_000 } else { 25_000 },
                if pays { 16 } else { 1 },
            );
        }
        let seen = (turns > 2_500, times > 2_500);
        // The turn comes first.
        assert_eq!(
            seen,
            (turn_pays, time_pays && !turn_pays),
            "{turns} {times}"
        );
        assert!(turn_pays || turns < 10, "{turns}");
        assert_eq!(times > 0, !turn_pays, "{times}");
    }
}

/// Rings for rows of `count` requests, which take `row` nanoseconds, where one by itself takes
/// `alone`. Returns how many of 3,000 doorbells were left to gather.
fn rows_of_posts(ringer: &mut Ringer, count: u32, row: u64, alone: u64) -> usize {
    let mut pace = ringer.ring(alone, 1);
    let mut given = 0;
    for _ in 0..3_000 {
        pace = if pace == Pace::Fast {
            // That counts only where the time is not known.
            ringer.doorbells.takes_time();
            given += 1;
            ringer.ring(row, count)
        } else {
            ringer.ring(alone, 1)
        };
    }
    given
}

/// Requests are left to gather if they get on faster so. If not, those that follow are sent one by
/// one, for longer each time.
#[test]
fn posts_that_pay() {
    for (count, row, pays) in [
        (1, 2_000, false),
        (4, 3_900, true),
        (4, 4_100, false),
        (4, 30_000, false),
        (64, 60_000, true),
        (64, 70_000, false),
    ] {
        let given = rows_of_posts(&mut Ringer::default(), count, row, 1_000);
        assert_eq!(given > 2_700, pays, "{count} in {row}: {given}");
        assert!(pays || given < 30, "{count} in {row}: {given}");
    }
}

/// What a request takes by itself is found out again, whether that has become more or less.
#[test]
fn posts_that_no_longer_pay() {
    let mut ringer = Ringer::default();
    for (alone, least, most) in [(2_000, 2_700, 3_000), (900, 0, 150), (2_000, 2_000, 3_000)] {
        let given = rows_of_posts(&mut ringer, 8, 8_000, alone);
        assert!((least..=most).contains(&given), "{alone}: {given}");
    }
}

/// A row in which the consumer was kept from the processor does not end what pays.
#[test]
fn posts_that_were_interrupted() {
    let mut ringer = Ringer::default();
    let mut pace = ringer.ring(6_000, 1);
    let mut by_itself = 0;
    for n in 0..1_000 {
        pace = if pace == Pace::Fast {
            ringer.ring(16 * if n % 8 == 7 { 6_200 } else { 3_000 }, 16)
        } else {
            by_itself += 1;
            ringer.ring(6_000, 1)
        };
    }
    // What one takes is found out again now and then.
    assert!((8..=80).contains(&by_itself), "{by_itself}");
}

/// A thread that was kept from the processor for a while does not make others seem fast.
#[test]
fn posts_after_an_interruption() {
    let mut ringer = Ringer::default();
    rows_of_posts(&mut ringer, 4, 30_000, 1_000);
    ringer.ring(90_000, 1);
    let given = rows_of_posts(&mut ringer, 4, 30_000, 1_000);
    assert!(given < 30, "{given}");
}

/// Where the time is not known, because something else came in between, few are not worth it.
#[test]
fn posts_of_which_little_is_known() {
    for (count, pays) in [(3, false), (4, true)] {
        let mut ringer = Ringer::default();
        ringer.ring(1_000_000, 1);
        ringer.ring(1, 1);
        assert_eq!(ringer.ring(1, 1), Pace::Fast);
        ringer.doorbells.takes_time();
        ringer.ring_answered(count);
        ringer.ring(1, 1);
        let pace = ringer.ring(1, 1);
        assert_eq!(pace == Pace::Fast, pays, "{count}");
    }
}

/// Behind rows that paid, the first of which little is known does not count, a second one does.
#[test]
fn posts_of_which_little_is_known_now() {
    let mut ringer = Ringer::default();
    rows_of_posts(&mut ringer, 16, 16 * 3_000, 6_000);
    for again in [true, false] {
        while ringer.ring(6_000, 1) == Pace::Slow {}
        if again {
            assert_eq!(ringer.ring(16 * 3_000, 16), Pace::Fast);
        }
        ringer.doorbells.takes_time();
        ringer.ring_answered(1);
        ringer.ring(6_000, 1);
        let pace = ringer.ring(6_000, 1);
        assert_eq!(pace == Pace::Fast, again);
    }
}

/// Consumers in the kernel post in any context. Where the thread may sleep it sends, unless others
/// send, its post is one of many, or more is to be done than to send.
#[test]
fn kernel_consumers() {
    assert_eq!(always(KernelPost { may_sleep: false }), Urgent);
    assert_eq!(always(KernelPost { may_sleep: true }), Caller);
    assert_eq!(always(KernelBusy), Urgent);
    assert_eq!(always(KernelDoorbell(Pace::Slow)), Caller);
    assert_eq!(always(KernelDoorbell(Pace::Fast)), Urgent);
    assert_eq!(always(KernelRecv { flushes: true }), Urgent);
    assert_eq!(always(KernelRecv { flushes: false }), Nobody);
}

/// Reads that come in rows of so many, each behind the one before, which is answered by and by.
/// Returns for how many rows the last Read was left to gather on, which is in vain, and how many
/// Reads the work item was asked to answer at once.
fn rows(reads: &mut ReadRows, depth: usize, count: usize) -> (usize, usize) {
    let (mut stalls, mut at_once) = (0, 0);
    for _ in 0..count {
        let mut last = Pace::Fast;
        for waiting in 1..=depth {
            last = reads.arrive(waiting, false, READ_ROW.default as usize);
            at_once += usize::from(last == Pace::Slow);
        }
        if last == Pace::Fast {
            stalls += 1;
            while reads.pause(depth) == Some(Pace::Fast) {}
        }
    }
    (stalls, at_once)
}

/// However many Reads a peer has on its way, it seldom waits for more to come than there are, and
/// mostly one change of task answers all of them, up to a limit.
#[test]
fn reads_of_the_peer() {
    assert_eq!(always(PeerRead(Pace::Slow)), Urgent);
    assert_eq!(always(PeerRead(Pace::Fast)), Soon);
    let limit = READ_ROW.default as usize;
    for depth in 1..=2 * limit {
        let mut reads = ReadRows::new();
        let (stalls, _) = rows(&mut reads, depth, 20);
        assert!(stalls <= 4, "{depth}: {stalls} of the first 20");
        let (stalls, at_once) = rows(&mut reads, depth, 2_000);
        assert!(stalls <= 16, "{depth}: {stalls}");
        let each = 1 + depth.saturating_sub(limit);
        assert!(at_once <= 2_000 * each, "{depth}: {at_once}");
    }
}

/// Another depth is found out: a smaller one in some rows, a larger one in a few rows more
/// than it takes until more are expected again.
#[test]
fn reads_of_another_depth() {
    let mut reads = ReadRows::new();
    rows(&mut reads, 8, 100);
    assert!(rows(&mut reads, 2, 100).0 <= 12);
    // Nothing is waited for any more.
    assert!(rows(&mut reads, 2, 100).0 <= 2);
    let (_, at_once) = rows(&mut reads, 8, 300);
    assert!(at_once < 8 * 300);
    let (_, at_once) = rows(&mut reads, 8, 100);
    assert_eq!(at_once, 100);
}

/// Reads are left to gather while more of them come, and answered after a pause.
#[test]
fn reads_after_a_pause() {
    let limit = READ_ROW.default as usize;
    let mut reads = ReadRows::new();
    assert_eq!(reads.pause(0), None);
    rows(&mut reads, limit, 100);
    // The first ones of a row that is as long.
    assert_eq!(reads.arrive(1, false, limit), Pace::Fast);
    assert_eq!(reads.pause(1), Some(Pace::Fast));
    assert_eq!(reads.arrive(2, false, limit), Pace::Fast);
    assert_eq!(reads.arrive(3, false, limit), Pace::Fast);
    assert_eq!(reads.pause(3), Some(Pace::Fast));
    assert_eq!(reads.pause(3), Some(Pace::Slow));
    // They were answered before the timer had run out.
    assert_eq!(reads.pause(0), None);
    // Somebody answers already.
    for waiting in 1..=limit {
        reads.arrive(waiting, false, limit);
    }
    assert_eq!(reads.pause(limit), None);
}

/// What fills a batch is answered at once.
#[test]
fn reads_that_are_enough() {
    let limit = READ_ROW.default as usize;
    let mut reads = ReadRows::new();
    rows(&mut reads, limit, 100);
    assert_eq!(reads.arrive(1, false, limit), Pace::Fast);
    assert_eq!(reads.arrive(2, true, limit), Pace::Slow);
    assert_eq!(reads.arrive(1, true, limit), Pace::Slow);

    let mut inbound = InboundReads::new(vec![Inbound::default(); 16]);
    let request = ReadRequest {
        len: 50,
        ..ReadRequest::default()
    };
    let msn = Msn(1);
    let read = Inbound::Read(InboundRead { msn, request });
    let mut push = |batch| inbound.push(read, limit, batch).unwrap();
    // Nothing is known of the peer: time for two.
    assert_eq!([push(101), push(150)], [Pace::Fast, Pace::Slow]);
    while inbound.pop().is_some() {}
    // The octets of those that were answered do not count.
    assert_eq!(inbound.push(read, limit, 51), Ok(Pace::Fast));
}

/// Without a limit above one none is left to gather.
#[test]
fn reads_that_may_not_gather() {
    let mut reads = ReadRows::new();
    for waiting in [1, 2, 3, 1, 1, 1, 7, 1] {
        assert_eq!(
            reads.arrive(waiting, false, READ_ROW.range.0 as usize),
            Pace::Slow
        );
    }
}

/// A response lets go on what waited for it: the FIN, or a request.
#[test]
fn responses() {
    for stalled in [false, true] {
        let draining = true;
        assert_eq!(always(ReadDone { draining, stalled }), Urgent);
    }
    let draining = false;
    let stalled = ReadDone {
        draining,
        stalled: true,
    };
    assert_eq!(by_consumer(stalled), [Urgent, Patient]);
    let idle = ReadDone {
        draining,
        stalled: false,
    };
    assert_eq!(always(idle), Nobody);
}

/// What else only a work item can do is urgent.
#[test]
fn always_urgent() {
    for reason in [Room, PeerHeard, GoOn, Note] {
        assert_eq!(always(reason), Urgent, "{reason:?}");
    }
}

/// Nothing is left to nobody but what needs nobody, and a consumer that waits makes work patient,
/// never more urgent.
#[test]
fn waiting_only_makes_patient() {
    for reason in every_reason() {
        let [polls, waits] = by_consumer(reason);
        assert!(
            polls == waits || matches!((polls, waits), (Urgent | Later, Patient)),
            "{reason:?}"
        );
        assert_eq!(
            polls == Nobody,
            matches!(
                reason,
                KernelRecv { flushes: false }
                    | ReadDone {
                        draining: false,
                        stalled: false
                    }
            ),
            "{reason:?}"
        );
        // Only who rings a doorbell, or posts in the kernel, can be the one to act.
        let posts = matches!(
            reason,
            Busy { .. } | Doorbell(_) | KernelPost { may_sleep: true } | KernelDoorbell(_)
        );
        assert!(polls != Caller || posts, "{reason:?}");
    }
}

fn every_reason() -> Vec<Reason> {
    let mut all = vec![
        Doorbell(Pace::Slow),
        Doorbell(Pace::Fast),
        KernelBusy,
        KernelDoorbell(Pace::Slow),
        KernelDoorbell(Pace::Fast),
        Room,
        PeerHeard,
        GoOn,
        Note,
    ];
    for yes in [false, true] {
        all.push(Busy { sends: yes });
        all.push(KernelPost { may_sleep: yes });
        all.push(KernelRecv { flushes: yes });
        for stalled in [false, true] {
            let draining = yes;
            all.push(ReadDone { draining, stalled });
        }
        all.push(PeerRead(if yes { Pace::Slow } else { Pace::Fast }));
    }
    all
}

/// A consumer that rings doorbells, and those who take its requests.
struct Ringer {
    doorbells: Doorbells,
    now: u64,
    taken: u32,
    notified: u32,
    limits: RowLimits,
}

impl Default for Ringer {
    fn default() -> Self {
        Ringer {
            doorbells: Doorbells::default(),
            now: 0,
            taken: 0,
            notified: 0,
            limits: RowLimits {
                doorbells: ROW.default,
                pause: ROW_PAUSE.default,
            },
        }
    }
}

impl Ringer {
    /// Rings `after` so many nanoseconds, when `taken` requests were taken since the last doorbell.
    fn ring(&mut self, after: u64, taken: u32) -> Pace {
        self.now += after;
        self.taken = self.taken.wrapping_add(taken);
        let ringing = Ringing {
            answered: false,
            taken: self.taken,
            notified: self.notified,
            limits: self.limits,
        };
        self.doorbells.ring(&ringing, || self.now)
    }

    /// Rings after data came in. The time does not count.
    fn ring_answered(&mut self, taken: u32) -> Pace {
        self.taken = self.taken.wrapping_add(taken);
        let ringing = Ringing {
            answered: true,
            taken: self.taken,
            notified: self.notified,
            limits: self.limits,
        };
        self.doorbells
            .ring(&ringing, || panic!("the time was asked for"))
    }
}

/// The third doorbell in a row without an answer is one of many, and so are those that follow, if
/// more than one request is taken each time, in no more time.
#[test]
fn a_row_of_doorbells() {
    let mut ringer = Ringer {
        now: 1_000_000,
        ..Ringer::default()
    };
    assert_eq!(ringer.ring(0, 0), Pace::Slow);
    assert_eq!(ringer.ring(50_000, 1), Pace::Slow);
    assert_eq!(ringer.ring(50_000, 1), Pace::Fast);
    for _ in 0..60 {
        assert_eq!(ringer.ring(100_000, 2), Pace::Fast);
    }
    // A pause begins a new row.
    assert_eq!(ringer.ring(100_001, 2), Pace::Slow);
    assert_eq!(ringer.ring(0, 1), Pace::Slow);
    assert_eq!(ringer.ring(0, 1), Pace::Fast);
    // So does an answer: a thread that waits for each answer always sends itself.
    for _ in 0..100 {
        assert_eq!(ringer.ring_answered(2), Pace::Slow);
    }
    // The one that was answered is the first of the row, however long ago it was.
    assert_eq!(ringer.ring(1_000_000, 1), Pace::Slow);
    assert_eq!(ringer.ring(0, 1), Pace::Fast);
}

/// The time that sending takes is no pause, whoever sends.
#[test]
fn requests_that_take_long() {
    let mut ringer = Ringer {
        now: 1_000_000,
        ..Ringer::default()
    };
    let mut paces = Vec::new();
    for _ in 0..4 {
        paces.push(ringer.ring(100_000, 2));
        ringer.now += 1_000_000;
        ringer.doorbells.sent(|| ringer.now);
    }
    assert_eq!(paces, [Pace::Slow, Pace::Slow, Pace::Fast, Pace::Fast]);
    assert_eq!(ringer.ring(100_001, 2), Pace::Slow);
    // Nobody asks for the time after an answer, or where there are no doorbells.
    ringer.ring_answered(1);
    ringer.doorbells.sent(|| panic!("after an answer"));
    Doorbells::default().sent(|| panic!("without doorbells"));
}

/// If one request is taken each time, the thread that posts sends. It leaves one to a work item now
/// and then, less and less often, until several are taken together.
#[test]
fn requests_that_do_not_gather() {
    let mut ringer = Ringer::default();
    let mut slow = 0;
    let mut rows = Vec::new();
    for _ in 0..2000 {
        match ringer.ring(10, 1) {
            Pace::Slow => slow += 1,
            Pace::Fast => rows.push(core::mem::take(&mut slow)),
        }
    }
    assert_eq!(rows[..8], [2, 8, 16, 32, 64, 128, 256, 256]);
    while ringer.ring(10, 1) == Pace::Slow {}
    for _ in 0..10 {
        assert_eq!(ringer.ring(10, 16), Pace::Fast);
    }
    // The next time in vain counts as the first one.
    for _ in 0..8 {
        assert_eq!(ringer.ring(10, 1), Pace::Slow);
    }
    assert_eq!(ringer.ring(10, 1), Pace::Fast);
}

/// A doorbell while those that were left to gather are on their way says nothing about them: a
/// consumer in the kernel rings whether they were taken or not.
#[test]
fn doorbells_before_any_is_taken() {
    let mut ringer = Ringer::default();
    ringer.ring(1_000_000, 1);
    ringer.ring(1, 1);
    for _ in 0..60 {
        for _ in 0..5 {
            assert_eq!(ringer.ring(1, 0), Pace::Fast);
        }
        assert_eq!(ringer.ring(1, 5), Pace::Fast);
    }
    // All of them, and it was but one.
    assert_eq!(ringer.ring(1, 1), Pace::Slow);
}

/// What counts is what the first doorbell of a row says of the requests that gathered before. That
/// the thread sends the first ones of the row one by one does not.
#[test]
fn bursts_that_gather() {
    let mut ringer = Ringer::default();
    for _ in 0..60 {
        assert_eq!(ringer.ring(1_000_000, 14), Pace::Slow);
        assert_eq!(ringer.ring(10, 1), Pace::Slow);
        assert_eq!(ringer.ring(10, 1), Pace::Fast);
    }
}

/// A consumer counts as one that waits for some milliseconds after it was notified.
#[test]
fn notified_consumers() {
    let mut ringer = Ringer::default();
    ringer.ring(1_000_000, 1);
    assert!(!ringer.doorbells.has_waited(WAITED.default));
    ringer.notified = u32::MAX;
    ringer.ring_answered(1);
    assert!(
        !ringer.doorbells.has_waited(WAITED.default),
        "that is not looked at"
    );
    ringer.ring(1_000_000, 1);
    assert!(ringer.doorbells.has_waited(WAITED.default));
    ringer.ring(4_000_000, 1);
    assert!(ringer.doorbells.has_waited(WAITED.default));
    ringer.ring(1, 1);
    assert!(!ringer.doorbells.has_waited(WAITED.default));
    ringer.notified = 0;
    ringer.ring(1, 1);
    assert!(ringer.doorbells.has_waited(WAITED.default));
}

/// A clock that stands still or goes back, and a row without end, are no harm.
#[test]
fn doorbells_without_end() {
    let mut ringer = Ringer {
        now: u64::MAX,
        ..Ringer::default()
    };
    assert_eq!(ringer.ring(0, 2), Pace::Slow);
    ringer.now = 0;
    assert_eq!(ringer.ring(0, 2), Pace::Slow);
    for _ in 0..10 {
        assert_eq!(ringer.ring(0, 2), Pace::Fast);
    }
    ringer.now = u64::MAX;
    assert_eq!(ringer.ring(0, 2), Pace::Slow);
}

/// After a time in vain nothing is left to gather, for longer each time. Requests that come
/// together end that, whether they were left to gather or not.
#[test]
fn gathering() {
    let mut gathering = Gathering::new(256);
    assert!(gathering.tries());
    for expected in [8, 16, 32, 64, 128, 256, 256] {
        gathering.found(false);
        let mut pause = 0;
        while !gathering.tries() {
            gathering.found(false);
            pause += 1;
        }
        assert_eq!(pause, expected);
    }
    gathering.found(true);
    assert!(gathering.tries());
    gathering.found(false);
    assert!(!gathering.tries());
    gathering.found(true);
    assert!(gathering.tries());
}

/// A row can be as short as nothing, and as long as never to end; what counts as a pause, as
/// waiting and as large can be chosen, too.
#[test]
fn other_limits() {
    let mut ringer = Ringer::default();
    ringer.limits.doorbells = ROW.range.0;
    assert_eq!(ringer.ring(1_000_000, 2), Pace::Fast);
    ringer.limits.doorbells = ROW.range.1;
    for _ in 0..1000 {
        assert_eq!(ringer.ring(1, 2), Pace::Slow);
    }
    ringer.limits = RowLimits {
        doorbells: 1,
        pause: ROW_PAUSE.range.0,
    };
    for _ in 0..10 {
        assert_eq!(ringer.ring(1, 2), Pace::Slow);
    }
    ringer.limits.pause = ROW_PAUSE.range.1;
    assert_eq!(ringer.ring(1_000_000_000, 2), Pace::Fast);
    assert_eq!(ringer.ring(1_000_000_001, 2), Pace::Slow);
    ringer.notified = 1;
    ringer.ring(1, 1);
    assert!(ringer.doorbells.has_waited(WAITED.range.0));
    ringer.ring(1, 1);
    assert!(!ringer.doorbells.has_waited(WAITED.range.0));
    assert!(ringer.doorbells.has_waited(WAITED.range.1));
}
