// SPDX-License-Identifier: GPL-2.0

//! Positions: numbers of things that come one after the other for ever, such as the entries that a
//! queue has had. They wrap.
//!
//! Pure: any context.
#![forbid(unsafe_code)]

use core::ops::{
    Add,
    Sub, //
};

/// The number of one of these things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(u32);

impl Position {
    pub(crate) const FIRST: Self = Self(0);

    /// Returns the position that has this [`Position::number`].
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn advance(&mut self) {
        *self = *self + 1;
    }
}

impl Add<u32> for Position {
    type Output = Self;

    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Position {
    type Output = Self;

    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

/// Counts from an earlier position up to this one.
impl Sub for Position {
    type Output = u32;

    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}
