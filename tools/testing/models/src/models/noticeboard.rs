// SPDX-License-Identifier: GPL-2.0

//! `notes.rs`: who leaves notes meets the work item, which takes them.

use crate::{
    check::{check, Spare},
    models::Plain,
    notes::{Noticeboard, Slot},
    proto::notes::{Notes, QpNote},
};
use kernel::{
    init::PinInit,
    prelude::*,
    sync::{atomic::*, Arc, Mutex},
    weak::Strength,
    workqueue::Work,
};
use loom::thread;

struct Qp {
    notes: Noticeboard<QpNote>,
    failure: Slot<u32>,
    /// What is only looked at, and not noted.
    mark: Atomic<u32>,
    /// What belongs to the note [`QpNote::Again`], without a lock.
    plain: Plain,
    work: Work,
    /// The mutex, and what was acted upon.
    inner: Mutex<Notes<QpNote>>,
}

impl Qp {
    fn note(&self, note: QpNote) {
        self.notes.leave(note);
        self.work.queue();
    }

    /// What the work item does, if it is queued.
    fn work(&self) {
        if !self.work.begin() {
            return;
        }
        let mut acted = self.inner.lock();
        let mut taken = self.notes.take_all_but(QpNote::Socket);
        if self.notes.take(QpNote::Socket) {
            taken.insert(QpNote::Socket);
        }
        self.act(taken, &mut acted);
    }

    /// The same for who takes all.
    fn work_on_all(&self) {
        if self.work.begin() {
            let mut acted = self.inner.lock();
            let taken = self.notes.take_all();
            self.act(taken, &mut acted);
        }
    }

    fn act(&self, taken: Notes<QpNote>, acted: &mut Notes<QpNote>) {
        if taken.contains(QpNote::Again) {
            self.plain.read();
        }
        if taken.contains(QpNote::Failure) {
            assert_eq!(self.failure.take(), Some(7));
        }
        *acted = Notes::from_bits(acted.bits() | taken.bits());
    }
}

fn with(work: fn(&Qp)) {
    let qp = Qp {
        notes: Noticeboard::new(),
        failure: Slot::new().init(),
        mark: Atomic::new(0),
        plain: Plain::new(),
        work: Work::new(),
        inner: Mutex::new(Notes::NONE),
    };
    let qp = Arc::new(qp, GFP_KERNEL).unwrap();
    let leave: [fn(&Qp); 2] = [
        |qp| {
            qp.plain.write();
            qp.note(QpNote::Again);
        },
        |qp| {
            qp.failure.put_first(7);
            qp.notes.leave(QpNote::Failure);
            qp.mark.store(1, Relaxed);
            qp.work.queue();
        },
    ];
    let threads = leave.map(|leave| {
        let qp = qp.clone();
        thread::spawn(move || leave(&qp))
    });
    work(&qp);
    for thread in threads {
        thread.join().unwrap();
    }
    let marked = qp.inner.lock().contains(QpNote::Failure);
    if marked {
        assert_eq!(qp.mark.load(Relaxed), 1);
    }
    // If it is queued, it runs once more.
    work(&qp);
    let acted = *qp.inner.lock();
    assert!(acted.contains(QpNote::Again) && acted.contains(QpNote::Failure));
}

#[test]
fn noticeboard() {
    check(
        "rsiw/notes.rs",
        &[|| with(Qp::work), || with(Qp::work_on_all)],
        &[
            Spare {
                line: "self.bits.xchg(0, Full)",
                enough: Strength::Acquire,
                because: "nobody looks at what was done before notes were taken",
            },
            Spare {
                line: "self.bits.cmpxchg(old, new, Full)",
                enough: Strength::AcquireRelease,
                because: "the work is queued by a full barrier, and begins with one",
            },
        ],
    );
}
