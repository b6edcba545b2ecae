// SPDX-License-Identifier: GPL-2.0

//! Arithmetic, in three kinds. What a number is decides what happens at the end of its range:
//!
//! | what | type | at the end |
//! |---|---|---|
//! | a position: of sequences, rings, counters | `Wrapping`, or its own type | goes on at zero |
//! | a budget: what may be done, what is left of something | `Saturating` | stays there |
//! | a length or place: octets, elements; checked where it came in | [`Length`] | [`Broken`] |
//!
//! The first two types are those of `core::num`. What a peer or a program may have chosen is added
//! with `checked_add`, and the `None` is answered like any other wrong input.
//! [`Length::end_within`] says whether a range lies within another one. `tools/lint/arithmetic.py`
//! checks this.
//!
//! `Bounded` of the kernel crate, a number with a fixed count of bits, is not used. Such numbers
//! here are STags and what UDP carries. They belong to the pure layers, which compile without the
//! kernel crate. Depths and the numbers of queue pairs have ranges that are no powers of two. A
//! number that a process or a peer names is looked up; if it is too large, nothing is found, as
//! with any other wrong number.
//!
//! Pure; any context.
#![forbid(unsafe_code)]

use core::num::TryFromIntError;

/// What was checked before does not hold: numbers of the driver's own contradict one another. Only
/// a defect of this driver can cause that. It ends the stream, with one line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<TryFromIntError> for Broken {
    fn from(_: TryFromIntError) -> Self {
        Self
    }
}

/// A number of octets or elements, or a place among them. What is added may be of any width.
pub(crate) trait Length: Copy + PartialOrd {
    fn try_add(self, n: impl TryInto<Self>) -> Result<Self, Broken>;

    fn try_sub(self, n: impl TryInto<Self>) -> Result<Self, Broken>;

    fn try_mul(self, n: impl TryInto<Self>) -> Result<Self, Broken>;

    /// Returns the end of the `n` octets or elements that begin here, if it is not behind `limit`.
    fn end_within(self, n: impl TryInto<Self>, limit: Self) -> Option<Self> {
        self.try_add(n).ok().filter(|end| *end <= limit)
    }
}

/// Implements [`Length`] for types of numbers.
macro_rules! lengths {
    ($($number:ty),*) => { $(
        impl Length for $number {
            #[inline(always)]
            fn try_add(self, n: impl TryInto<Self>) -> Result<Self, Broken> {
                let n = n.try_into().map_err(|_| Broken)?;
                self.checked_add(n).ok_or(Broken)
            }

            #[inline(always)]
            fn try_sub(self, n: impl TryInto<Self>) -> Result<Self, Broken> {
                let n = n.try_into().map_err(|_| Broken)?;
                self.checked_sub(n).ok_or(Broken)
            }

            #[inline(always)]
            fn try_mul(self, n: impl TryInto<Self>) -> Result<Self, Broken> {
                let n = n.try_into().map_err(|_| Broken)?;
                self.checked_mul(n).ok_or(Broken)
            }
        }
    )* };
}

lengths!(u16, u32, u64, usize);
