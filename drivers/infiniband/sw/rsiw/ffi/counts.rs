// SPDX-License-Identifier: GPL-2.0

//! Counters with a copy per processor.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h).
//!
//! Context: any, but for making and freeing them.

use super::raw::h;
use crate::proto::counters::{
    Counter,
    Tally,
    COUNT, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A sum for each [`Counter`].
///
/// # Invariants
///
/// `sums` is a per-CPU area of [`COUNT`] 64-bit numbers, which nobody else has.
pub(crate) struct Counts {
    sums: NonNull<u64>,
}

// SAFETY: the area is accessed by per-CPU operations only, from any thread.
unsafe impl Send for Counts {}
// SAFETY: see above.
unsafe impl Sync for Counts {}

impl Counts {
    /// All zero. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: no requirements; process context.
        let sums = NonNull::new(unsafe { h::counts_alloc(COUNT) }).ok_or(ENOMEM)?;
        // INVARIANT: just allocated, with room for so many.
        Ok(Arc::new(Self { sums }, GFP_KERNEL)?)
    }

    /// Moves what `tally` has here.
    #[inline(always)]
    pub(crate) fn take(&self, tally: &mut Tally) {
        if let Some((counts, marks)) = tally.take() {
            let marks = marks & MARKS;
            // SAFETY: both arrays have `COUNT` numbers, and no mark is beyond them.
            unsafe { h::counts_take(self.sums.as_ptr(), counts.as_mut_ptr(), marks) };
        }
    }

    /// Adds `n` to one of them.
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        // SAFETY: there are `COUNT` numbers.
        unsafe { h::counts_add(self.sums.as_ptr(), index(counter), n) };
    }

    /// The sum over all processors. What is added meanwhile may be in it or not.
    pub(crate) fn sum(&self, counter: Counter) -> u64 {
        // SAFETY: there are `COUNT` numbers.
        unsafe { h::counts_sum(self.sums.as_ptr(), index(counter)) }
    }
}

/// Where the number of a counter is, which is less than [`COUNT`] whatever the counter says.
#[inline(always)]
fn index(counter: Counter) -> usize {
    const LAST: usize = COUNT - 1;
    counter.index().min(LAST)
}

/// The marks that a tally can have.
const MARKS: u64 = u64::MAX >> (64 - COUNT);

impl Drop for Counts {
    fn drop(&mut self) {
        // SAFETY: by the invariant the area is of `counts_alloc`, and nobody uses it any more.
        unsafe { h::counts_free(self.sums.as_ptr()) };
    }
}
