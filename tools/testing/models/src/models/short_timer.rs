// SPDX-License-Identifier: GPL-2.0

//! `ffi/time/hrtimer.rs`: who has something for the timer to do meets the timer, which runs out.

use crate::{
    check::check,
    ffi::{
        raw::b,
        time::hrtimer::{ExpiresSoon, ShortTimer},
    },
};
use kernel::{
    init::PinInit,
    prelude::*,
    sync::{atomic::*, Arc},
};
use loom::thread;

struct Qp {
    timer: ShortTimer<Self>,
    posted: [Atomic<u32>; 2],
    seen: [Atomic<u32>; 2],
}

impl ExpiresSoon for Qp {
    fn short_timer(&self) -> &ShortTimer<Self> {
        &self.timer
    }

    fn soon_expired(this: Arc<Self>) {
        for (posted, seen) in this.posted.iter().zip(&this.seen) {
            seen.store(posted.load(Relaxed), Relaxed);
        }
    }
}

impl Qp {
    fn new() -> Arc<Self> {
        let qp = Self {
            timer: ShortTimer::new().init(),
            posted: [0; 2].map(Atomic::new),
            seen: [0; 2].map(Atomic::new),
        };
        Arc::new(qp, GFP_KERNEL).unwrap()
    }

    /// What a doorbell does that lets requests gather.
    fn post(this: &Arc<Self>, n: usize) {
        this.posted[n].store(1, Relaxed);
        ShortTimer::start(this, 10);
    }

    /// What the timer's interrupt does. C's timer is the first field of ours.
    fn run_out(&self) {
        let timer = (&raw const self.timer).cast_mut().cast::<b::hrtimer>();
        // SAFETY: it is initialised, and is a part of this.
        unsafe { b::run_out(timer) };
    }
}

/// Whatever was posted before the timer was started is seen when it runs out.
fn runs_out() {
    let qp = Qp::new();
    let threads = [0, 1].map(|n| {
        let qp = qp.clone();
        thread::spawn(move || Qp::post(&qp, n))
    });
    qp.run_out();
    for thread in threads {
        thread.join().unwrap();
    }
    qp.run_out();
    for seen in &qp.seen {
        assert_eq!(seen.load(Relaxed), 1);
    }
}

/// Stopping it takes back the reference, whoever was faster.
fn stops() {
    let qp = Qp::new();
    Qp::post(&qp, 0);
    let thread = {
        let qp = qp.clone();
        thread::spawn(move || qp.run_out())
    };
    ShortTimer::stop(&qp);
    thread.join().unwrap();
    Qp::post(&qp, 1);
    qp.run_out();
    assert_eq!(qp.seen[1].load(Relaxed), 1);
}

#[test]
fn short_timer() {
    check("ffi/time/hrtimer.rs", &[runs_out, stops], &[]);
}
