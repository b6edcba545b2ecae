// SPDX-License-Identifier: GPL-2.0

//! A keyed permutation of the STag indices: a Feistel network of two 12-bit halves. Pure.
//!
//! Applied to a counter it yields each index once before any comes again, in an order that nobody
//! can predict without the key (RFC 5042 section 6.1: STags hard to guess, reused late). Unlike
//! random numbers it needs no memory of what was used lately.
#![forbid(unsafe_code)]

/// Bits of an STag index.
pub(super) const INDEX_BITS: u32 = 24;

const HALF_BITS: u32 = INDEX_BITS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;
const ROUNDS: u64 = 6;

/// Permutes the numbers of [`INDEX_BITS`] bits; the rest of `index` is ignored. `hash` is the keyed
/// function.
pub(super) fn permute(index: u32, hash: impl Fn(u64) -> u64) -> u32 {
    let mut left = (index >> HALF_BITS) & HALF_MASK;
    let mut right = index & HALF_MASK;
    for round in 0..ROUNDS {
        // CAST: the low bits are all that is wanted.
        let mix = hash((round << 32) | u64::from(right)) as u32 & HALF_MASK;
        (left, right) = (right, left ^ mix);
    }
    (left << HALF_BITS) | right
}

#[cfg(test)]
mod tests {
    use super::{
        permute,
        INDEX_BITS, //
    };

    /// This is not SipHash, but it mixes well enough for a test.
    fn hash(v: u64) -> u64 {
        let v = (v ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (v ^ (v >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 17
    }

    #[test]
    fn each_index_comes_once() {
        let mut seen = vec![false; 1 << INDEX_BITS];
        for i in 0..1 << INDEX_BITS {
            let slot = seen.get_mut(permute(i, hash) as usize).unwrap();
            assert!(!core::mem::replace(slot, true), "{i}");
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        let near = (0..1000)
            .filter(|&i| permute(i, hash).abs_diff(permute(i + 1, hash)) < 1 << 12)
            .count();
        assert!(near < 10, "{near}");
    }
}
