// SPDX-License-Identifier: GPL-2.0

//! How many octets of a segment have to be read before it is known.

use crate::proto::rx::{is_enough, Rx, FRONT_LEN, HEAD_LEN};
use crate::support::limits::ALL;
use crate::support::rng::{Choices, Rng};
use crate::wire::mpa::RtrSet;
use crate::wire::terminate::Quote;

/// Where the first octets are said to be enough, they tell what more of them would.
#[test]
fn t_46_front_is_enough() {
    let mut rng = Rng::new(7);
    let mut enough = 0;
    for _ in 0..200_000 {
        let mut ulpdu = rng.bytes(HEAD_LEN + 10);
        if !rng.one_in(4) {
            ulpdu[0] = ulpdu[0] & 0xc0 | 1;
            ulpdu[1] = ulpdu[1] & 0x0f | 0x40;
        }
        if !rng.one_in(4) {
            ulpdu[6..18].fill(0);
            ulpdu[9] = rng.below(3) as u8;
            ulpdu[13] = rng.below(3) as u8;
        }
        let len = 14 + rng.below(70) as u16;
        let front = &ulpdu[..FRONT_LEN.min(len.into())];
        let head = &ulpdu[..HEAD_LEN.min(len.into())];
        if !is_enough(front) {
            continue;
        }
        enough += 1;
        let (mut rx, mut other) = (Rx::new(RtrSet::ALL), Rx::new(RtrSet::ALL));
        assert_eq!(rx.segment(front, len, &ALL), other.segment(head, len, &ALL));
        assert_eq!(Quote::new(front, len), Quote::new(head, len));
    }
    assert!(enough > 50_000);
}
