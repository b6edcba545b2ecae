// SPDX-License-Identifier: GPL-2.0

//! How much receiving does at a time; sizes are in [`tuning`](super::tuning). Any context.
//!
//! Octets alone are no measure: an FPDU of nothing takes as long as hundreds of octets, and so does
//! each piece of memory that a payload is spread over. What is left when a budget is spent is for
//! the work item. An FPDU that was begun is finished: it is at most 64 KiB long, and has as many
//! pieces as a receive has elements and its regions have extents.
#![forbid(unsafe_code)]

/// What an FPDU costs beside its octets.
const FPDU: usize = 512;
/// What a piece of memory costs beside its octets.
const PIECE: usize = 256;

/// What may still be done, in octets or what takes as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn new(octets: u32) -> Self {
        // CAST: 32 bits fit.
        Self(octets as usize)
    }

    /// Returns whether nothing more may be begun.
    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Counts octets that are copied or dropped.
    pub(crate) fn octets(&mut self, n: usize) {
        self.0 = self.0.saturating_sub(n);
    }

    pub(crate) fn fpdu(&mut self) {
        self.octets(FPDU);
    }

    pub(crate) fn piece(&mut self) {
        self.octets(PIECE);
    }
}
