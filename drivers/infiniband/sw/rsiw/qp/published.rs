// SPDX-License-Identifier: GPL-2.0

//! A copy of a queue pair's state for those who do not hold its mutex.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::proto::state::QpState;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Release, //
};

/// Each state at the place of its number.
const STATES: [QpState; 6] = [
    QpState::Idle,
    QpState::Rts,
    QpState::Draining,
    QpState::Closing,
    QpState::Terminate,
    QpState::Error,
];

const _: () = {
    let mut n = 0;
    while n < STATES.len() {
        assert!(STATES[n] as usize == n);
        n = n.wrapping_add(1);
    }
};

/// The state as it was published last.
pub(super) struct Published(Atomic<u32>);

impl Published {
    /// Idle.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(QpState::Idle as u32))
    }

    /// Returns the state, which may be another by now.
    pub(super) fn load(&self) -> QpState {
        // CAST: 32 bits fit.
        let number = self.0.load(Acquire) as usize;
        STATES.get(number).copied().unwrap_or_default()
    }

    /// Publishes the state. Under the queue pair's mutex.
    pub(super) fn store(&self, state: QpState) {
        // CAST: the number of a variant.
        self.0.store(state as u32, Release);
    }
}
