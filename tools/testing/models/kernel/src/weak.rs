// SPDX-License-Identifier: GPL-2.0

//! Which orderings a model has met, and which one of them counts for less than is written, to see
//! whether the model finds that.
//!
//! loom runs all threads of a model on the thread that has asked for it, so this is per thread.

use std::{cell::RefCell, collections::BTreeSet, panic::Location};

/// What an operation orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    Nothing,
    Acquire,
    Release,
    AcquireRelease,
    Full,
}

impl Strength {
    /// Returns the next weaker one, of which there may be several.
    pub fn weaker(self) -> &'static [Self] {
        match self {
            Self::Nothing => &[],
            Self::Acquire | Self::Release => &[Self::Nothing],
            Self::AcquireRelease => &[Self::Acquire, Self::Release],
            Self::Full => &[Self::AcquireRelease],
        }
    }
}

/// An operation in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
    pub written: Strength,
}

#[derive(Default)]
struct State {
    met: BTreeSet<Site>,
    weak: Option<(Site, Strength)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Takes what has been met so far.
pub fn take_met() -> BTreeSet<Site> {
    STATE.with_borrow_mut(|state| core::mem::take(&mut state.met))
}

/// Has the operation at a site order that much, or all as written.
pub fn set(weak: Option<(Site, Strength)>) {
    STATE.with_borrow_mut(|state| state.weak = weak);
}

/// Returns what an operation orders.
pub(crate) fn strength(written: Strength, at: &'static Location<'static>) -> Strength {
    if written == Strength::Nothing {
        return written;
    }
    let site = Site {
        file: at.file(),
        line: at.line(),
        column: at.column(),
        written,
    };
    STATE.with_borrow_mut(|state| {
        state.met.insert(site);
        match state.weak {
            Some((weak, strength)) if weak == site => strength,
            _ => written,
        }
    })
}
