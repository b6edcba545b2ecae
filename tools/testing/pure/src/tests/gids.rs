// SPDX-License-Identifier: GPL-2.0

//! Which address has which GID index.

use crate::proto::by_number::{self, Gid, GidTable, MAX_GIDS, NO_GID};
use crate::support::rng::{Choices, Rng};

const FIRST: Gid = [0xfe; 16];

fn gid(n: u8) -> Gid {
    [n; 16]
}

fn gids(table: &GidTable) -> Vec<Gid> {
    (0..MAX_GIDS).map(|index| table.get(index)).collect()
}

/// An address keeps its index while others come and go, and a free index is used again.
#[test]
fn an_index_stays() {
    let mut table = GidTable::EMPTY;
    assert!(table.follow(FIRST, &[gid(1), gid(2), gid(3)]));
    assert_eq!(gids(&table)[..5], [FIRST, gid(1), gid(2), gid(3), NO_GID]);
    assert!(table.follow(FIRST, &[gid(3), gid(1)]));
    assert_eq!(gids(&table)[..4], [FIRST, gid(1), NO_GID, gid(3)]);
    assert!(table.follow(FIRST, &[gid(4), gid(3), gid(5), gid(1)]));
    assert_eq!(
        gids(&table)[..6],
        [FIRST, gid(1), gid(4), gid(3), gid(5), NO_GID]
    );
    assert!(
        !table.follow(FIRST, &[gid(1), gid(5), gid(3), gid(4)]),
        "only the order changed"
    );
}

/// The GID of index 0 has no other index, and none is twice.
#[test]
fn each_has_one() {
    let mut table = GidTable::EMPTY;
    assert!(table.follow(FIRST, &[gid(1), FIRST, gid(1), NO_GID, gid(2)]));
    assert_eq!(gids(&table)[..4], [FIRST, gid(1), gid(2), NO_GID]);
    // The hardware address becomes one of which an address is made already.
    assert!(table.follow(gid(1), &[gid(1), gid(2)]));
    assert_eq!(gids(&table)[..4], [gid(1), NO_GID, gid(2), NO_GID]);
}

/// What finds no index gets one when another address goes.
#[test]
fn too_many() {
    let mut table = GidTable::EMPTY;
    let all: Vec<Gid> = (1..=40).map(gid).collect();
    assert!(table.follow(FIRST, &all));
    assert_eq!(table.get(MAX_GIDS - 1), gid(31));
    assert_eq!(table.get(MAX_GIDS), NO_GID);
    assert!(table.follow(FIRST, &all[1..]));
    assert_eq!(table.get(1), gid(32));
    assert_eq!(table.get(MAX_GIDS - 1), gid(31));
}

/// Whatever comes and goes: what is there is there once, what stays does not move, and the table
/// says that it has changed if it has.
#[test]
fn any_changes() {
    let mut rng = Rng::new(1);
    for _ in 0..2_000 {
        let mut table = GidTable::EMPTY;
        for _ in 0..10 {
            let addresses: Vec<Gid> = (0..rng.below(40))
                .map(|_| gid(rng.below(48) as u8))
                .collect();
            let first = gid(200 + rng.below(2) as u8);
            let before = gids(&table);
            let changed = table.follow(first, &addresses);
            let after = gids(&table);
            assert_eq!(changed, before != after);
            assert_eq!(after[0], first);
            for (index, gid) in after
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(_, gid)| **gid != NO_GID)
            {
                assert!(addresses.contains(gid));
                assert_eq!(after.iter().filter(|other| *other == gid).count(), 1);
                if let Some(was) = before.iter().skip(1).position(|other| other == gid) {
                    assert_eq!(was + 1, index, "it has moved");
                }
            }
            let left_out = addresses
                .iter()
                .any(|gid| *gid != NO_GID && !after.contains(gid));
            assert!(!left_out || !after.contains(&NO_GID), "there was room");
        }
    }
}

fn addresses_of(gids: (Gid, Gid), first: Gid, addresses: &[Gid]) -> Option<(Gid, Gid)> {
    by_number::addresses_of(gids, first, addresses.iter().copied())
}

/// Both GIDs are what they say if the interface has index 0's, or if neither is that.
#[test]
fn addresses_as_named() {
    let all = [gid(1), gid(2), FIRST];
    assert_eq!(
        addresses_of((FIRST, gid(9)), FIRST, &all),
        Some((FIRST, gid(9)))
    );
    assert_eq!(
        addresses_of((FIRST, FIRST), FIRST, &all),
        Some((FIRST, FIRST))
    );
    assert_eq!(
        addresses_of((gid(2), gid(9)), FIRST, &all[..2]),
        Some((gid(2), gid(9)))
    );
    assert_eq!(addresses_of((gid(9), gid(1)), FIRST, &all), None);
}

/// An interface without the address of index 0 has another one stand in for it, at both ends the
/// same one; but not for a peer elsewhere, and not if it has none.
#[test]
fn index_0_is_no_address() {
    let all = [gid(1), gid(2)];
    for (own, peer, stand_in) in [
        (FIRST, FIRST, gid(1)),
        (FIRST, gid(2), gid(2)),
        (gid(2), FIRST, gid(2)),
    ] {
        let both = Some((stand_in, stand_in));
        assert_eq!(addresses_of((own, peer), FIRST, &all), both);
        assert_eq!(addresses_of((peer, own), FIRST, &all), both);
    }
    assert_eq!(addresses_of((FIRST, gid(9)), FIRST, &all), None);
    assert_eq!(addresses_of((gid(9), FIRST), FIRST, &all), None);
    assert_eq!(addresses_of((FIRST, FIRST), FIRST, &[]), None);
}
