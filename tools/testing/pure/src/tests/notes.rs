// SPDX-License-Identifier: GPL-2.0

//! Notes for work items: each is acted upon once, in order, unless another settles it.

use std::fmt::Debug;

use crate::proto::notes::{act_upon_each, EndpointNote, Note, Noted, Notes, QpNote};

/// What a mutex guards.
struct Guarded<N> {
    left: Notes<N>,
    seen: Vec<N>,
}

impl<N: Note> Guarded<N> {
    fn new() -> Self {
        Self {
            left: Notes::NONE,
            seen: Vec::new(),
        }
    }
}

impl<N: Note> Noted for Guarded<N> {
    type Note = N;

    fn left(&mut self) -> &mut Notes<N> {
        &mut self.left
    }
}

fn set<N: Note>(notes: &[N]) -> Notes<N> {
    notes
        .iter()
        .fold(Notes::NONE, |notes, note| notes.with(*note))
}

/// Every set of notes of a kind.
fn every_set<N: Note>() -> impl Iterator<Item = Notes<N>> {
    (0..1u32 << N::ALL.len()).map(Notes::from_bits)
}

/// The set as a list, in order.
fn listed<N: Note>(notes: Notes<N>) -> Vec<N> {
    let all = N::ALL.iter().copied();
    all.filter(|note| notes.contains(*note)).collect()
}

fn bits_are_apart<N: Note + Debug>() {
    let mut seen = 0;
    for note in N::ALL {
        assert_eq!(note.bit().count_ones(), 1, "{note:?}");
        assert_eq!(seen & note.bit(), 0, "{note:?}");
        seen |= note.bit();
    }
    // So that `every_set` has them all.
    assert_eq!(seen, (1 << N::ALL.len()) - 1);
}

#[test]
fn each_note_has_a_bit() {
    bits_are_apart::<QpNote>();
    bits_are_apart::<EndpointNote>();
    // A note that is not in the list would never be acted upon.
    for note in QpNote::ALL {
        match note {
            QpNote::Failure
            | QpNote::Terminate
            | QpNote::DataInClosing
            | QpNote::Socket
            | QpNote::Timeout
            | QpNote::Lost
            | QpNote::Again => {}
        }
    }
    assert_eq!((QpNote::ALL.len(), EndpointNote::ALL.len()), (7, 7));
}

fn acts_upon_each_once<N: Note + Debug>() {
    for taken in every_set::<N>() {
        let mut guarded = Guarded::new();
        act_upon_each(&mut guarded, taken, |guarded, note| guarded.seen.push(note));
        assert_eq!(guarded.seen, listed(taken));
        assert_eq!(guarded.left.bits(), 0);
    }
}

#[test]
fn each_once_and_in_order() {
    acts_upon_each_once::<QpNote>();
    acts_upon_each_once::<EndpointNote>();
}

/// Whichever note stops the timer, or sets it anew: the timer has not run out then, and all else is
/// acted upon.
fn a_timer_that_is_stopped<N: Note + Debug>(timer: N) {
    for taken in every_set::<N>() {
        for stops in N::ALL.iter().copied().filter(|note| *note != timer) {
            let mut guarded = Guarded::new();
            act_upon_each(&mut guarded, taken, |guarded, note| {
                guarded.seen.push(note);
                if note == stops {
                    guarded.left().remove(timer);
                }
            });
            let before = |note: &N| N::ALL.iter().position(|other| other == note);
            let in_time = taken.contains(stops) && before(&stops) < before(&timer);
            let expected = if in_time { taken.without(timer) } else { taken };
            assert_eq!(guarded.seen, listed(expected), "{stops:?}");
        }
    }
}

#[test]
fn stopped_timers() {
    a_timer_that_is_stopped(QpNote::Timeout);
    a_timer_that_is_stopped(EndpointNote::Expired);
}

/// The peer's Terminate is told before the FIN behind it, and what this side found before either.
#[test]
fn order_of_a_stream() {
    use QpNote::{DataInClosing, Failure, Lost, Socket, Terminate, Timeout};
    let all = set(&[Lost, Timeout, Socket, DataInClosing, Terminate, Failure]);
    assert_eq!(
        listed(all),
        [Failure, Terminate, DataInClosing, Socket, Timeout, Lost]
    );
}

/// What ends a connection ends it once: the rest of that kind is forgotten.
#[test]
fn one_end() {
    use EndpointNote::{Abort, DrivenOut, Expired, FirstSegment, PeerClosing, Shut, StreamEnded};
    for taken in every_set::<EndpointNote>() {
        let mut guarded = Guarded::new();
        act_upon_each(&mut guarded, taken, |guarded, note| {
            guarded.seen.push(note);
            if matches!(note, StreamEnded | Shut | Abort) {
                guarded.left().forget_ends();
            }
        });
        let first = [StreamEnded, Shut, Abort]
            .into_iter()
            .find(|end| taken.contains(*end));
        let others = [FirstSegment, PeerClosing, DrivenOut, Expired];
        let expected = others
            .into_iter()
            .filter(|note| taken.contains(*note))
            .chain(first)
            .fold(Notes::NONE, Notes::with);
        assert_eq!(guarded.seen, listed(expected));
    }
}

#[test]
fn sets_of_notes() {
    use QpNote::{Lost, Socket, Timeout};
    let mut notes = set(&[Socket, Lost]);
    assert!(notes.contains(Socket) && !notes.contains(Timeout));
    assert_eq!(notes.only(Lost), set(&[Lost]));
    assert_eq!(notes.only(Timeout), Notes::NONE);
    assert_eq!(notes.without(Lost), set(&[Socket]));
    notes.insert(Timeout);
    // Noted again, it is there once.
    notes.insert(Timeout);
    assert!(notes.remove(Timeout) && !notes.remove(Timeout));
    assert_eq!(notes, set(&[Lost, Socket]));
    assert_eq!(Notes::from_bits(notes.bits()), notes);
}
