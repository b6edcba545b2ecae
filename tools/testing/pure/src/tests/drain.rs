// SPDX-License-Identifier: GPL-2.0

//! T-11: a drain ends empty or with a successor. The ring of a process and its doorbell, with the
//! steps of both sides in every order.

use crate::proto::drain::{drain, Drained, Relook};
use std::cell::{Cell, RefCell};

/// How many requests are posted.
const POSTS: usize = 6;
/// Points between the driver's steps at which the process may take some of its own, and how many.
const POINTS: u32 = 8;
const STEPS: usize = 3;

/// A ring and the process that posts to it, as the library does.
struct Process {
    valid: Vec<bool>,
    posted: usize,
    /// It has set the flag of an entry, and looks at the one in front next.
    looks: bool,
    /// Calls of the driver that are still to be answered.
    calls: usize,
}

impl Process {
    fn slot(&self, number: usize) -> usize {
        number % self.valid.len()
    }

    /// Takes one step, if it can.
    fn step(&mut self) {
        let at = self.slot(self.posted);
        if self.looks {
            let before = self.slot(self.posted + self.valid.len() - 1);
            // In a ring of one entry that is the same one, and says nothing.
            if self.valid.len() == 1 || !self.valid[before] {
                self.calls += 1;
            }
            self.looks = false;
            self.posted += 1;
        } else if self.posted < POSTS && !self.valid[at] {
            self.valid[at] = true;
            self.looks = true;
        }
    }
}

/// Runs a ring of `len` entries, of which the driver takes `most` at a time. Digit by digit `order`
/// says how many steps the process takes at a point. Returns how many requests are left although
/// nobody is at work on them.
fn left_over(len: usize, most: usize, order: usize, has_successor: bool) -> usize {
    let process = RefCell::new(Process {
        valid: vec![false; len],
        posted: 0,
        looks: false,
        calls: 0,
    });
    let order = Cell::new(order);
    let others = || {
        for _ in 0..order.replace(order.get() / STEPS) % STEPS {
            process.borrow_mut().step();
        }
    };
    let taken = Cell::new(0);
    // The process begins, and is called back whenever the driver has nothing to do.
    for _ in 0..2 * POSTS {
        process.borrow_mut().step();
        let mut goes_on = false;
        while goes_on || process.borrow().calls > 0 {
            process.borrow_mut().calls = 0;
            let take = || {
                others();
                let mut process = process.borrow_mut();
                let at = process.slot(taken.get());
                let is_valid = std::mem::take(&mut process.valid[at]);
                drop(process);
                // It is free, and what is next is looked at afterwards.
                is_valid.then(|| taken.set(taken.get() + 1))
            };
            goes_on = false;
            let drained = drain(most, take, |()| ());
            others();
            match has_successor {
                true => drained.or_leave_to(|| goes_on = true),
                false => assert!(matches!(drained, Drained::Empty | Drained::Again)),
            }
        }
    }
    let process = process.into_inner();
    assert!(!process.looks && taken.get() <= process.posted);
    process.posted - taken.get()
}

fn orders() -> std::ops::Range<usize> {
    0..STEPS.pow(POINTS)
}

#[test]
fn nothing_is_left() {
    for len in [1, 2, 4] {
        for most in 1..=len {
            for order in orders() {
                assert_eq!(left_over(len, most, order, true), 0, "{len} {most} {order}");
            }
        }
    }
}

/// The orders are those that matter: without a successor requests are left.
#[test]
fn without_a_successor() {
    for len in [2, 4] {
        assert!(
            orders().any(|order| left_over(len, len, order, false) > 0),
            "{len}"
        );
    }
}

#[test]
fn ends_empty_or_goes_on() {
    for (held, most, want) in [
        (0, 0, Drained::Again),
        (0, 1, Drained::Empty),
        (2, 2, Drained::Again),
    ] {
        let mut entries = (0..held).collect::<Vec<i32>>();
        let mut got = vec![];
        assert_eq!(drain(most, || entries.pop(), |entry| got.push(entry)), want);
        assert_eq!(got.len(), usize::min(held as usize, most));
    }
}

/// V-ST-29: of receives that nobody tells of, each is found after as long again as it took to come,
/// or 16 s, at most; and a queue that is left alone is rarely looked at.
#[test]
fn v_st_29_looks_again() {
    for came in 0..200_000u64 {
        let (mut relook, mut now, mut looks) = (Relook::FIRST, 0, 0);
        loop {
            now += u64::from(relook.ms());
            looks += 1;
            if now >= came {
                break;
            }
            relook = relook.later();
        }
        assert!(now - came <= (came + 1).min(16_384), "{came} {now}");
        assert!(looks <= 15 + came / 16_384, "{came} {looks}");
    }
}
