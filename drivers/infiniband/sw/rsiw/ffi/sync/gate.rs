// SPDX-License-Identifier: GPL-2.0

//! A gate that many may pass and one may close for good.
//!
//! Teardown relies on it: once the gate is closed, nobody uses the object, and nobody will. Memory
//! regions have one (deregistration ends all access, T-20), and so have handles to objects of the
//! RDMA core (no upcall after destroy).
//!
//! Unsafe code relies on this file: after [`Gate::close_and_wait`] has returned, and while
//! [`Gate::exclusively`] runs, no guard of the gate exists and [`Gate::enter`] gives out none.
//! Guards that were forgotten count as if they existed.
//!
//! Context: any, but [`Gate::close_and_wait`] and [`Gate::wait_empty`] sleep.

use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::barrier::smp_mb;
use kernel::sync::{
    Arc,
    Completion, //
};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// Set in [`Gate::state`] once the gate is closed.
const CLOSED: u32 = 1 << 31;
/// Set in [`Gate::state`] while [`Gate::exclusively`] runs. The bits below count the users inside.
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
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0),
            empty <- Completion::new(),
        })
    }

    /// Goes in, unless the gate is closed or held [exclusively](Gate::exclusively). Dropping the
    /// guard goes out.
    pub(crate) fn enter(&self) -> Option<GateGuard<&Gate>> {
        GateGuard::new(self)
    }

    pub(crate) fn users(&self) -> u32 {
        self.state.load(Relaxed) & !(CLOSED | EXCLUSIVE)
    }

    /// Goes out without a guard.
    ///
    /// # Safety
    ///
    /// The call stands for the drop of a guard that was forgotten, or for a user that was counted
    /// by [`Gate::try_enter`]. This user is not inside any more.
    pub(in crate::ffi) unsafe fn leave(&self) {
        // Release: what the user did inside comes before what the closer does afterwards.
        if self.state.fetch_sub(1, Release) == CLOSED | 1 {
            self.empty.complete_all();
        }
    }

    /// Closes the gate and sleeps until all users have left. Later calls wait as well. The caller
    /// must not be inside.
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

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Relaxed) & CLOSED != 0
    }

    /// Returns whether nobody is inside at this moment. Fully ordered: what the caller wrote before
    /// is seen by whoever goes in afterwards.
    pub(crate) fn is_empty(&self) -> bool {
        smp_mb(Full);
        self.state.load(Acquire) & !CLOSED == 0
    }

    /// Waits for a moment in which nobody is inside. For gates that new users do not enter, and
    /// inside of which nobody stays longer than it takes to copy something. Sleeps.
    pub(crate) fn wait_empty(&self) {
        while !self.is_empty() {
            fsleep(PAUSE);
        }
    }

    /// Runs `f` with nobody inside; who wants to go in meanwhile is turned away. Returns `None`,
    /// without running `f`, if somebody is inside or the gate is closed.
    pub(crate) fn exclusively<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.state.cmpxchg(0, EXCLUSIVE, Full).ok()?;
        let result = f();
        // Release: what `f` did comes before what the next user does.
        if self.state.fetch_sub(EXCLUSIVE, Release) == CLOSED | EXCLUSIVE {
            self.empty.complete_all();
        }
        Some(result)
    }

    /// Counts a user in. Must be undone by [`Gate::leave`] if it returns true. Forgotten guards
    /// cannot overflow the count: [`EXCLUSIVE`] of them set that bit, and everybody is turned away
    /// from then on.
    #[inline]
    fn try_enter(&self) -> bool {
        if self.state.fetch_add(1, Full) & (CLOSED | EXCLUSIVE) == 0 {
            return true;
        }
        // SAFETY: the user was just counted, and is not let in.
        unsafe { self.leave() };
        false
    }
}

/// An object that has a gate.
pub(crate) trait Gated {
    /// Returns the gate to go in by. Each call may return another gate: a guard keeps the one that
    /// it went in by.
    fn gate(&self) -> &Gate;
}

impl Gated for Gate {
    fn gate(&self) -> &Gate {
        self
    }
}

/// A pointer to something gated.
///
/// # Safety
///
/// As long as the pointer lives, also when it is moved, `deref` leads to the same object, which
/// lives and may be borrowed.
pub(crate) unsafe trait GatePtr: Deref<Target: Gated> {}

// SAFETY: it borrows the object.
unsafe impl<T: Gated> GatePtr for &T {}
// SAFETY: it has a reference to the object, to which nobody gets exclusive access meanwhile.
unsafe impl<T: Gated> GatePtr for Arc<T> {}

/// Proof that its holder is inside a gate; dropping it goes out. Owns or borrows the object with
/// the gate, depending on `P`.
///
/// # Invariants
///
/// `gate` lives as long as `ptr`, and counts this guard as a user.
pub(crate) struct GateGuard<P: GatePtr> {
    gate: NonNull<Gate>,
    ptr: P,
}

// SAFETY: the guard has a pointer that may be sent, and a reference to a gate, which is `Sync`.
unsafe impl<P: GatePtr + Send> Send for GateGuard<P> {}
// SAFETY: as above.
unsafe impl<P: GatePtr + Sync> Sync for GateGuard<P> {}

impl<P: GatePtr> GateGuard<P> {
    /// Goes in through `ptr`, unless its gate is closed or held exclusively.
    #[inline(always)]
    pub(crate) fn new(ptr: P) -> Option<Self> {
        let gate = ptr.gate();
        if !gate.try_enter() {
            return None;
        }
        // INVARIANT: the user was just counted. By the promise of `GatePtr` the object, and the
        // gate that is borrowed from it, live as long as `ptr`, which the signature of `gate`
        // cannot say.
        Some(Self {
            gate: NonNull::from(gate),
            ptr,
        })
    }

    pub(crate) fn gate(&self) -> &Gate {
        // SAFETY: by the type invariants the gate lives as long as `self`.
        unsafe { self.gate.as_ref() }
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
        // SAFETY: by the type invariants the gate counts this user, who leaves; `ptr` goes later.
        unsafe { self.gate().leave() };
    }
}
