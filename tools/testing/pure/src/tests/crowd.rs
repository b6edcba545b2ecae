// SPDX-License-Identifier: GPL-2.0

//! Who has to go where too many wait.

use crate::proto::crowd::{Crowd, Crowded, Place, Source};
use crate::support::rng::{Choices, Rng};
use std::collections::BTreeMap;
use std::net::IpAddr;

fn crowd(places: usize) -> Crowd<Vec<Place>> {
    Crowd::new(vec![Place::FREE; places])
}

fn from(addr: &str) -> Source {
    Source::of(addr.parse::<IpAddr>().unwrap())
}

/// An address of IPv4 is a place of its own, also as one of IPv6; one of IPv6 is its network.
#[test]
fn places_of_addresses() {
    assert_eq!(from("192.0.2.1"), from("::ffff:192.0.2.1"));
    assert_ne!(from("192.0.2.1"), from("192.0.2.2"));
    assert_eq!(from("2001:db8::1"), from("2001:db8::2:0:0:1"));
    assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
    assert_ne!(from("::1"), from("127.0.0.1"));
}

/// A flood from one place drives out itself, and nobody else.
#[test]
fn one_stranger() {
    let (friend, stranger) = (from("192.0.2.1"), from("192.0.2.2"));
    let mut crowd = crowd(128);
    let friends: Vec<usize> = (1..=20).collect();
    for number in &friends {
        assert_eq!(crowd.admit(Place::new(friend, *number, 0)), None);
    }
    for number in 100..10_000 {
        if let Some(goes) = crowd.admit(Place::new(stranger, number, 0)) {
            // The oldest of those.
            assert_eq!(goes, number - 108);
        }
    }
    for number in &friends {
        assert!(crowd.remove(friend, *number), "{number} is gone");
    }
    assert_eq!(crowd.len(), 108);
}

/// Of many who come from somewhere else each, the oldest one goes.
#[test]
fn the_oldest() {
    let mut crowd = crowd(8);
    for number in 1..100u32 {
        let source = Source::of(IpAddr::from(number.reverse_bits().to_be_bytes()));
        let goes = crowd.admit(Place::new(source, number as usize, 0));
        assert_eq!(goes, (number > 8).then(|| number as usize - 8));
    }
}

/// Who can wait drives out nobody who has as few, or has come lately.
#[test]
fn who_waits_drives_out_nobody() {
    let (friend, stranger) = (from("192.0.2.1"), from("192.0.2.2"));
    let mut crowd = crowd(4);
    for number in 1..=4 {
        assert_eq!(
            crowd.admit_in_turn(Place::new(stranger, number, 1000)),
            Ok(None)
        );
    }
    assert_eq!(
        crowd.admit_in_turn(Place::new(stranger, 5, 60_000)),
        Err(Crowded)
    );
    assert_eq!(
        crowd.admit_in_turn(Place::new(friend, 6, 3999)),
        Err(Crowded)
    );
    assert_eq!(
        crowd.admit_in_turn(Place::new(friend, 6, 4000)),
        Ok(Some(1))
    );
    assert_eq!(
        crowd.admit_in_turn(Place::new(friend, 7, 4000)),
        Ok(Some(2))
    );
    assert_eq!(
        crowd.admit_in_turn(Place::new(friend, 8, 60_000)),
        Err(Crowded)
    );
    assert!(crowd.remove(stranger, 3));
    assert_eq!(crowd.admit_in_turn(Place::new(friend, 8, 4000)), Ok(None));
}

/// Without places nobody is in a crowd, and nobody goes.
#[test]
fn no_places() {
    let (mut crowd, source) = (crowd(0), from("192.0.2.1"));
    let place = Place::new(source, 1, 0);
    assert_eq!(crowd.admit(place), None);
    assert_eq!(crowd.admit_in_turn(place), Err(Crowded));
    assert!(!crowd.remove(source, 1));
    assert_eq!((crowd.len(), crowd.pop()), (0, None));
}

/// Whatever comes and goes: it has whom it was given, and one goes from where there are most.
#[test]
fn as_a_map() {
    let mut rng = Rng::new(48);
    for places in 1..12 {
        let (mut crowd, mut model) = (crowd(places), BTreeMap::new());
        for number in 1..3000 {
            let source = Source::of(IpAddr::from([192, 0, 2, rng.below(4) as u8]));
            if rng.one_in(3) {
                let any = rng.below(number);
                let there = model.get(&any).copied();
                if let Some(source) = there {
                    assert!(crowd.remove(source, any));
                    model.remove(&any);
                }
                assert!(!crowd.remove(source, any));
                continue;
            }
            let was_full = model.len() == places;
            let goes = crowd.admit(Place::new(source, number, 0));
            assert_eq!(goes.is_some(), was_full);
            if let Some(goes) = goes {
                let count = |source| model.values().filter(|other| **other == source).count();
                let most = model.values().copied().map(count).max();
                let oldest = model
                    .iter()
                    .find(|(_, source)| Some(count(**source)) == most);
                assert_eq!(Some(&goes), oldest.map(|(number, _)| number));
                model.remove(&goes);
            }
            model.insert(number, source);
            assert_eq!(crowd.len(), model.len());
        }
        while let Some(number) = crowd.pop() {
            assert!(model.remove(&number).is_some());
        }
        assert!(model.is_empty());
    }
}
