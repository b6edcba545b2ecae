// SPDX-License-Identifier: GPL-2.0

//! What is known of a queue pair without its mutex: the state and a few numbers.
//!
//! Who looks at queue pairs of others takes no mutex: he may be a process of least priority. What he
//! sees is copied while its owner works.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use crate::proto::state::QpState;
use kernel::{
    num::casts::u32_as_usize,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
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
        n += 1;
    }
};

/// What was published last.
pub(super) struct Published {
    state: Atomic<u32>,
    /// IRD: that of the connection, or what the consumer wants for the next.
    ird: Atomic<u32>,
    /// How many requests a process has had taken from its queue; wraps.
    taken: Atomic<u32>,
    /// Octets of FPDUs that TCP has no room for.
    unsent: Atomic<u32>,
}

impl Published {
    /// Idle.
    pub(super) fn new(ird: u16) -> Self {
        Self {
            state: Atomic::new(QpState::Idle as u32),
            ird: Atomic::new(ird.into()),
            taken: Atomic::new(0),
            unsent: Atomic::new(0),
        }
    }

    /// Returns the state, which may be another by now.
    pub(super) fn state(&self) -> QpState {
        // CAST: 32 bits fit.
        let number = self.state.load(Acquire) as usize;
        STATES.get(number).copied().unwrap_or_default()
    }

    /// Publishes the state. Under the queue pair's mutex.
    pub(super) fn set_state(&self, state: QpState) {
        // CAST: the number of a variant.
        self.state.store(state as u32, Release);
    }

    /// Returns IRD.
    pub(super) fn ird(&self) -> u16 {
        // CAST: what was stored.
        self.ird.load(Relaxed) as u16
    }

    /// Sets IRD. Under the queue pair's mutex.
    pub(super) fn set_ird(&self, ird: u16) {
        self.ird.store(ird.into(), Relaxed);
    }

    /// Publishes how many requests of a process were taken. Under the queue pair's mutex.
    #[inline(always)]
    pub(super) fn took(&self, taken: u32) {
        self.taken.store(taken, Relaxed);
    }

    /// Publishes how many octets TCP has no room for. Under the queue pair's mutex.
    #[inline(always)]
    pub(super) fn left(&self, unsent: usize) {
        // CAST: a batch is smaller.
        self.unsent.store(unsent as u32, Relaxed);
    }

    /// How many requests a process has had taken from its queue; wraps.
    pub(super) fn taken(&self) -> u32 {
        self.taken.load(Relaxed)
    }

    /// Octets of FPDUs that TCP has no room for.
    pub(super) fn unsent(&self) -> usize {
        u32_as_usize(self.unsent.load(Relaxed))
    }
}
