// SPDX-License-Identifier: GPL-2.0

//! Choices for tests: pseudo-random from a seed, or what a fuzzer says.

/// A source of choices.
pub(crate) trait Choices {
    /// The next 64 bits.
    fn bits(&mut self) -> u64;

    /// A number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        (self.bits() % n as u64) as usize
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// `n` octets.
    #[cfg(test)]
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }
}

/// The xorshift64* generator.
#[cfg(test)]
pub(crate) struct Rng(u64);

#[cfg(test)]
impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
}

#[cfg(test)]
impl Choices for Rng {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }
}

/// Choices from a fuzzer's input, then zeroes.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Choices for Input<'_> {
    fn bits(&mut self) -> u64 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        u64::from(first)
    }
}
