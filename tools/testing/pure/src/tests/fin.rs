// SPDX-License-Identifier: GPL-2.0

//! This side's FIN, and how long it waits.

use crate::proto::fin::{Fin, Step};

/// It goes at once where all is acknowledged, and is sent once.
#[test]
fn free_at_once() {
    let mut fin = Fin::No;
    assert!(!fin.is_due());
    assert_eq!(fin.step(true), None);
    assert!(!fin.expired());
    fin.want();
    assert!(fin.is_due());
    assert_eq!(fin.step(true), Some(Step::Send { has_waited: false }));
    assert_eq!(fin, Fin::Sent);
    fin.want();
    assert!(!fin.is_due());
    assert_eq!((fin.step(true), fin.step(false)), (None, None));
    assert!(!fin.expired());
}

/// It waits for acknowledgements, with one timer, until they are there.
#[test]
fn waits_for_acknowledgements() {
    let mut fin = Fin::No;
    fin.want();
    assert_eq!(fin.step(false), Some(Step::Wait));
    fin.want();
    assert_eq!(fin.step(false), None);
    assert!(fin.is_due());
    assert_eq!(fin.step(true), Some(Step::Send { has_waited: true }));
    assert!(!fin.expired());
    assert_eq!(fin.step(true), None);
}

/// It waits no longer than its timer, and only its own.
#[test]
fn waits_no_more() {
    let mut fin = Fin::No;
    fin.want();
    // A timer of something else.
    assert!(!fin.expired());
    assert_eq!(fin.step(false), Some(Step::Wait));
    assert!(fin.expired());
    assert!(!fin.expired());
    assert_eq!(fin.step(true), None);
    assert_eq!(fin, Fin::Sent);
}
