// SPDX-License-Identifier: GPL-2.0

//! A gate that many may pass and one may close for good.
//!
//! It answers the question of teardown: nobody uses this any more, and nobody will. Memory regions
//! have one (deregistration ends all access, T-20), and so have handles to objects of the RDMA core
//! (no upcall after destroy).
//!
//! Unsafe code in `ffi/` relies on this file: after [`Gate::close_and_wait`] returned, no guard of
//! the gate exists and [`Gate::enter`] gives out none; and the same while [`Gate::exclusively`] runs.
//!
//! Context: [`Gate::enter`] and [`Gate::leave`] in any context, [`Gate::close_and_wait`] sleeps.
#![forbid(unsafe_code)]

use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        barrier::smp_mb,
        Arc,
        Completion, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Set in [`Gate::state`] once the gate is closed.
const CLOSED: u32 = 1 << 31;
/// Set in [`Gate::state`] while someone has the place behind it for himself. The bits below count
/// the users inside.
const EXCLUSIVE: u32 = 1 << 30;

/// How long to wait for others before looking again.
pub(crate) const PAUSE: Delta = Delta::from_micros(20);

/// A count of users that can be shut and waited for.
#[pin_data]
pub(crate) struct Gate {
    state: Atomic<u32>,
    #[pin]
    empty: Completion,
}

impl Gate {
    /// Makes an open gate with nobody inside.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0),
            empty <- Completion::new(),
        })
    }

    /// Goes in, unless the gate is closed. The guard goes out when it is dropped.
    pub(crate) fn enter(&self) -> Option<GateGuard<&Gate>> {
        GateGuard::new(self)
    }

    /// Goes out without a guard: for one whose guard was forgotten.
    pub(crate) fn leave(&self) {
        // Release: what the user did inside comes before what the closer does afterwards.
        if self.state.fetch_sub(1, Release) == CLOSED | 1 {
            self.empty.complete_all();
        }
    }

    /// Closes the gate and sleeps until all users have left. Later calls wait as well.
    ///
    /// The caller must not be inside.
    pub(crate) fn close_and_wait(&self) {
        let mut state = self.state.load(Relaxed);
        while state & CLOSED == 0 {
            match self.state.cmpxchg(state, state | CLOSED, Full) {
                Ok(old) => {
                    if old == 0 {
                        self.empty.complete_all();
                    }
                    break;
                }
                Err(now) => state = now,
            }
        }
        self.empty.wait_for_completion();
        // Pairs with the release in `leave`, also where the completion was done long ago.
        self.state.load(Acquire);
    }

    /// Whether the gate was closed. Any context.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Relaxed) & CLOSED != 0
    }

    /// Whether nobody is inside at this moment. Any context.
    ///
    /// Fully ordered: what the caller wrote before is seen by whoever goes in afterwards.
    pub(crate) fn is_empty(&self) -> bool {
        smp_mb(Full);
        self.state.load(Acquire) & !CLOSED == 0
    }

    /// Waits for a moment in which nobody is inside. For gates that nobody stays behind for longer
    /// than it takes to copy something, and which new users do not enter. Sleeps.
    pub(crate) fn wait_empty(&self) {
        while !self.is_empty() {
            fsleep(PAUSE);
        }
    }

    /// Runs `f` with nobody inside; who wants to go in meanwhile is turned away. Any context.
    ///
    /// Returns `None`, without having run `f`, if somebody is inside or the gate is closed.
    pub(crate) fn exclusively<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.state.cmpxchg(0, EXCLUSIVE, Full).ok()?;
        let result = f();
        // Release: what `f` did comes before what the next user does.
        if self.state.fetch_sub(EXCLUSIVE, Release) == CLOSED | EXCLUSIVE {
            self.empty.complete_all();
        }
        Some(result)
    }

    /// Counts a user in. Must be undone by [`Gate::leave`] if it returns true.
    fn try_enter(&self) -> bool {
        if self.state.fetch_add(1, Full) & (CLOSED | EXCLUSIVE) == 0 {
            return true;
        }
        self.leave();
        false
    }
}

/// What has a gate.
///
/// Implementations must return the same gate each time; `ffi/` relies on it.
pub(crate) trait Gated {
    /// The gate.
    fn gate(&self) -> &Gate;
}

impl Gated for Gate {
    fn gate(&self) -> &Gate {
        self
    }
}

/// A pointer to something gated that always leads to the same object.
pub(crate) trait GatePtr: Deref<Target: Gated> {}

impl<T: Gated> GatePtr for &T {}
impl<T: Gated> GatePtr for Arc<T> {}

/// Proof that its holder is inside a gate; going out when dropped. Owns or borrows what has the
/// gate, depending on `P`.
///
/// # Invariants
///
/// The gate of `ptr` counts this guard as a user.
pub(crate) struct GateGuard<P: GatePtr> {
    ptr: P,
}

impl<P: GatePtr> GateGuard<P> {
    /// Goes in through `ptr`, unless the gate is closed.
    pub(crate) fn new(ptr: P) -> Option<Self> {
        if ptr.gate().try_enter() {
            // INVARIANT: the user was just counted.
            Some(Self { ptr })
        } else {
            None
        }
    }

    /// The gate that this guard is inside of.
    pub(crate) fn gate(&self) -> &Gate {
        self.ptr.gate()
    }
}

impl<P: GatePtr> Deref for GateGuard<P> {
    type Target = P::Target;

    fn deref(&self) -> &P::Target {
        &self.ptr
    }
}

impl<P: GatePtr> Drop for GateGuard<P> {
    fn drop(&mut self) {
        self.ptr.gate().leave();
    }
}
