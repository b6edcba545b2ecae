// SPDX-License-Identifier: GPL-2.0

//! Counters with a copy per processor.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h). Context: any, but for
//! making and freeing them.

use super::stats::StatDesc;
use crate::ffi::raw::h;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The counters of a driver.
pub(crate) trait Counted: Copy + Send + Sync + 'static {
    /// Describes all of them, at most 64, each at its index. A driver without counters names `()`,
    /// and has no [`Driver::counts`](super::driver::Driver::counts).
    const DESCS: &'static [StatDesc];

    /// Returns the place in [`Counted::DESCS`].
    fn index(self) -> usize;
}

impl Counted for () {
    const DESCS: &'static [StatDesc] = &[];

    fn index(self) -> usize {
        0
    }
}

/// A sum for each counter.
///
/// # Invariants
///
/// `sums` is a per-CPU area of [`Counts::LEN`] 64-bit numbers, which nobody else has.
pub(crate) struct Counts<C> {
    sums: NonNull<u64>,
    _counters: PhantomData<C>,
}

// SAFETY: the area is accessed by per-CPU operations only, from any thread.
unsafe impl<C> Send for Counts<C> {}
// SAFETY: see above.
unsafe impl<C> Sync for Counts<C> {}

impl<C: Counted> Counts<C> {
    const LEN: usize = {
        assert!(!C::DESCS.is_empty() && C::DESCS.len() <= 64);
        C::DESCS.len()
    };

    /// The marks that [`Counts::take`] heeds.
    const MARKS: u64 = u64::MAX >> (64 - Self::LEN);

    /// Makes counters that are all zero. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: no requirements; process context.
        let sums = NonNull::new(unsafe { h::counts_alloc(Self::LEN) }).ok_or(ENOMEM)?;
        // INVARIANT: just allocated, with room for so many.
        Ok(Arc::new(
            Self {
                sums,
                _counters: PhantomData,
            },
            GFP_KERNEL,
        )?)
    }

    /// Moves those of `counts` here whose bit is set in `marks`, unless `counts` is too short.
    #[inline(always)]
    pub(crate) fn take(&self, counts: &mut [u64], marks: u64) {
        if counts.len() >= Self::LEN {
            let marks = marks & Self::MARKS;
            // SAFETY: both arrays have `LEN` numbers, and no mark is beyond them.
            unsafe { h::counts_take(self.sums.as_ptr(), counts.as_mut_ptr(), marks) };
        }
    }

    pub(crate) fn add(&self, counter: C, n: u64) {
        // SAFETY: there are `LEN` numbers.
        unsafe { h::counts_add(self.sums.as_ptr(), Self::place(counter.index()), n) };
    }

    /// Returns the sum over all processors, with or without what is added meanwhile.
    pub(crate) fn sum(&self, counter: C) -> u64 {
        self.sum_at(counter.index())
    }

    pub(super) fn sum_at(&self, index: usize) -> u64 {
        // SAFETY: there are `LEN` numbers.
        unsafe { h::counts_sum(self.sums.as_ptr(), Self::place(index)) }
    }

    /// Returns the index of a counter's number: less than `LEN`, whatever the counter says.
    #[inline(always)]
    fn place(index: usize) -> usize {
        index.min(const { Self::LEN - 1 })
    }
}

impl<C> Drop for Counts<C> {
    fn drop(&mut self) {
        // SAFETY: by the invariant the area came from `counts_alloc`, and nobody uses it any more.
        unsafe { h::counts_free(self.sums.as_ptr()) };
    }
}
