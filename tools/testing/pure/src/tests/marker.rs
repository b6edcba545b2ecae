// SPDX-License-Identifier: GPL-2.0

//! Markers against a model that looks at each 512th octet of the stream (M-MPA-15 to 17).

use crate::support::rng::{Choices, Rng};
use crate::wire::fpdu::Markers;

/// Reads a marked stream the dumb way: every 512 octets there is a marker.
struct Model {
    /// Octets of the stream so far.
    pos: u64,
}

impl Model {
    /// The markers that an FPDU of `len` octets must get, as (octets of FPDU before it, FPDUPTR).
    fn fpdu(&mut self, len: u32) -> Vec<(u32, u16)> {
        let mut markers = Vec::new();
        // Stream position of the length field; unknown until a marker in front of it is over.
        let mut start = None;
        for at in 0..len {
            if self.pos % 512 == 0 {
                let ptr = start.map_or(0, |start| self.pos - start);
                markers.push((at, u16::try_from(ptr).unwrap()));
                self.pos += 4;
            }
            start.get_or_insert(self.pos);
            self.pos += 1;
        }
        markers
    }
}

/// 100,000 FPDUs with odd sizes; the stream passes 2^32 octets on the way.
#[test]
fn m_mpa_15_16_positions_and_pointers() {
    let mut rng = Rng::new(1);
    let mut markers = Markers::new();
    let mut model = Model { pos: 0 };
    let mut at_each_place = [0u32; 3];
    for n in 0..100_000 {
        let len = match rng.below(50) {
            0 => 4 * (5 + rng.below(16190)),
            1..=5 => 4 * (5 + rng.below(127)),
            _ => 4 * (5 + rng.below(40)),
        } as u32;
        let overhead = markers.overhead(len);
        let got: Vec<_> = markers.next_fpdu(len).collect();
        let want = model.fpdu(len);
        assert_eq!(overhead as usize, 4 * got.len(), "FPDU {n}");
        assert_eq!(got.len(), want.len(), "FPDU {n} of {len}");
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.at, want.0);
            assert_eq!(got.bytes[..2], [0, 0]);
            assert_eq!(got.bytes[2..], want.1.to_be_bytes());
            assert_eq!(want.1 & 3, 0, "M-MPA-16: low bits");
            // M-MPA-17: in front of the length field, right behind the pad, elsewhere.
            let place = match got.at {
                0 => 0,
                at if at == len - 4 => 1,
                _ => 2,
            };
            at_each_place[place] += 1;
        }
    }
    assert!(at_each_place.iter().all(|&n| n > 100), "{at_each_place:?}");
}

/// Every length at every phase, so that no boundary is left out.
#[test]
fn m_mpa_15_every_phase() {
    for first in (0..=1024).step_by(4) {
        for len in (20..=1100).step_by(4) {
            let mut markers = Markers::new();
            let mut model = Model { pos: 0 };
            for len in [first + 4, len, 24, 512, 508] {
                let got: Vec<_> = markers
                    .next_fpdu(len)
                    .map(|m| (m.at, u16::from_be_bytes([m.bytes[2], m.bytes[3]])))
                    .collect();
                assert_eq!(got, model.fpdu(len));
            }
        }
    }
}
