// SPDX-License-Identifier: GPL-2.0

//! This side's FIN, and how long it waits.

use crate::proto::fin::{Fin, Movement, Step, FIN_RETRIES, MOST_PERIODS};

/// What is to be done to send it.
const fn send(has_waited: bool, anyway: bool) -> Option<Step> {
    Some(Step::Send { has_waited, anyway })
}

/// It goes at once where all is acknowledged, and is sent once.
#[test]
fn free_at_once() {
    let mut fin = Fin::No;
    assert!(!fin.is_due());
    assert_eq!(fin.step(true), None);
    assert_eq!(fin.expired(), None);
    fin.want();
    assert!(fin.is_due());
    assert_eq!(fin.step(true), send(false, false));
    assert_eq!(fin.answer(true), None);
    assert_eq!(fin, Fin::Sent);
    fin.want();
    assert!(!fin.is_due());
    assert_eq!((fin.step(true), fin.step(false)), (None, None));
    assert_eq!((fin.expired(), fin.answer(false)), (None, None));
    assert_eq!(fin, Fin::Sent);
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
    assert_eq!(fin.step(true), send(true, false));
    assert_eq!(fin.answer(true), None);
    assert_eq!((fin.expired(), fin.step(true)), (None, None));
}

/// It waits no longer than its timer, and only its own.
#[test]
fn waits_no_more() {
    let mut fin = Fin::No;
    fin.want();
    // A timer of something else.
    assert_eq!(fin.expired(), None);
    assert_eq!(fin.step(false), Some(Step::Wait));
    assert_eq!(fin.expired(), send(true, false));
    assert_eq!(fin.answer(true), None);
    assert_eq!((fin.expired(), fin.step(true)), (None, None));
    assert_eq!(fin, Fin::Sent);
}

/// What was refused is tried again when the timer runs out, and at no other time; it goes at last
/// whatever is in front of it.
#[test]
fn refused() {
    let mut fin = Fin::No;
    fin.want();
    // An answer to something else.
    assert_eq!(fin.answer(false), None);
    assert_eq!(fin.step(true), send(false, false));
    for left in (0..FIN_RETRIES).rev() {
        assert_eq!(fin.answer(false), Some(Step::Wait));
        assert!(!fin.is_due());
        assert_eq!((fin.step(true), fin.step(false)), (None, None));
        let mut later = fin;
        assert_eq!(later.expired(), send(true, left == 0));
        assert_eq!(later.answer(true), None);
        assert_eq!(later, Fin::Sent);
        assert_eq!(fin.expired(), send(true, left == 0));
    }
}

/// A stream that stands still is given no further time-out, whichever side stands still.
#[test]
fn stands_still() {
    assert!(!Movement::begin((7, 9)).goes_on((7, 9)));
    for moved in [(8, 9), (7, 10), (6, 9), (0, 0)] {
        let mut movement = Movement::begin((7, 9));
        assert!(movement.goes_on(moved));
        assert!(!movement.goes_on(moved));
    }
}

/// One that moves for ever is given up at last, also where the numbers wrap.
#[test]
fn moves_for_ever() {
    let mut movement = Movement::begin((u32::MAX, 0));
    for n in 1..u32::from(MOST_PERIODS) {
        assert!(movement.goes_on((n.wrapping_sub(1), 0)), "{n}");
    }
    assert!(!movement.goes_on((77, 0)));
    assert!(!movement.goes_on((78, 0)));
}
