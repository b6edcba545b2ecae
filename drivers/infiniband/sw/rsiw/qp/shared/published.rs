// SPDX-License-Identifier: GPL-2.0

//! What is known of a queue pair without its mutex: the state and a few numbers.
//!
//! Whoever describes queue pairs may be a process of the least priority, and so takes no mutex. The
//! owner of the mutex publishes these values while it works.
//!
//! Context: any; the methods that store a value run under the queue pair's mutex.
#![forbid(unsafe_code)]

use crate::proto::state::QpState;
use kernel::num::casts::u32_as_usize;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The states, indexed by their discriminants.
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

pub(in crate::qp) struct Published {
    state: Atomic<u32>,
    /// IRD of the connection, or what the consumer wants for the next one.
    ird: Atomic<u32>,
    /// Requests taken out of a process's send queue; wraps.
    taken: Atomic<u32>,
    /// Octets of FPDUs that TCP has no room for.
    unsent: Atomic<u32>,
}

impl Published {
    pub(in crate::qp) fn new(ird: u16) -> Self {
        Self {
            state: Atomic::new(QpState::Idle as u32),
            ird: Atomic::new(ird.into()),
            taken: Atomic::new(0),
            unsent: Atomic::new(0),
        }
    }

    /// Returns the state, which may have changed by now.
    pub(in crate::qp) fn state(&self) -> QpState {
        // CAST: 32 bits fit.
        let number = self.state.load(Acquire) as usize;
        STATES.get(number).copied().unwrap_or_default()
    }

    pub(in crate::qp) fn set_state(&self, state: QpState) {
        // CAST: the number of a variant.
        self.state.store(state as u32, Release);
    }

    pub(in crate::qp) fn ird(&self) -> u16 {
        // CAST: what was stored.
        self.ird.load(Relaxed) as u16
    }

    pub(in crate::qp) fn set_ird(&self, ird: u16) {
        self.ird.store(ird.into(), Relaxed);
    }

    #[inline(always)]
    pub(in crate::qp) fn set_taken(&self, taken: u32) {
        self.taken.store(taken, Relaxed);
    }

    #[inline(always)]
    pub(in crate::qp) fn set_unsent(&self, unsent: usize) {
        // CAST: a batch is smaller.
        self.unsent.store(unsent as u32, Relaxed);
    }

    pub(in crate::qp) fn taken(&self) -> u32 {
        self.taken.load(Relaxed)
    }

    pub(in crate::qp) fn unsent(&self) -> usize {
        u32_as_usize(self.unsent.load(Relaxed))
    }
}
