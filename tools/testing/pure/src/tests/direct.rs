// SPDX-License-Identifier: GPL-2.0

//! Which sockets are the two ends of one connection.

use crate::proto::transport::{are_two_ends, is_empty, Numbers, Scope};

/// The numbers of both ends when each has sent `sent` octets from `isn` on, of which `received` have
/// come and `acknowledged` are acknowledged.
fn ends(isn: [u32; 2], sent: u32, received: u32, acknowledged: u32) -> [Numbers; 2] {
    let end = |own: u32, other: u32| Numbers {
        acknowledged: own.wrapping_add(acknowledged),
        written: own.wrapping_add(sent),
        received: other.wrapping_add(received),
    };
    [end(isn[0], isn[1]), end(isn[1], isn[0])]
}

#[test]
fn two_ends_of_one_connection() {
    for isn in [[1, 1], [77, 0xffff_fff0], [0xffff_ffff, 0x8000_0000]] {
        for (sent, received, acknowledged) in [(0, 0, 0), (9, 9, 9), (9, 5, 5), (1 << 20, 70, 3)] {
            let [a, b] = ends(isn, sent, received, acknowledged);
            assert!(are_two_ends(&a, &b) && are_two_ends(&b, &a));
        }
    }
}

#[test]
fn ends_of_two_connections() {
    let [a, b] = ends([1_000, 5_000], 100, 50, 20);
    // It has received what was acknowledged and not more than was written.
    for received in [a.acknowledged.wrapping_sub(1), a.written + 1, a.received] {
        let other = Numbers { received, ..b };
        assert!(!are_two_ends(&a, &other) && !are_two_ends(&other, &a));
    }
    // One direction fits.
    let [_, other] = ends([1_000, 9_000], 100, 50, 20);
    assert!(!are_two_ends(&a, &other));
    // Numbers that no TCP has: all of them under way.
    let all = Numbers {
        acknowledged: a.written.wrapping_add(1),
        ..a
    };
    assert!(!are_two_ends(&all, &b));
}

#[test]
fn empty_when_all_is_read() {
    assert!(is_empty(7, 7) && is_empty(0, 0));
    assert!(!is_empty(7, 6) && !is_empty(0, u32::MAX));
}

#[test]
fn scopes() {
    let scopes = [0, 1, 2, 3, 255].map(Scope::of);
    use Scope::{Host, Namespace, Nowhere};
    assert_eq!(scopes, [Nowhere, Namespace, Host, Namespace, Namespace]);
}
