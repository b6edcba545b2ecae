// SPDX-License-Identifier: GPL-2.0

//! What the core shows of objects: counters (`struct rdma_hw_stats`), each with a copy per
//! processor, and what `rdma resource show -dd` tells beyond what the core knows.
//!
//! The details are for everybody: neither the core nor the message, which has no sender, says
//! whether the administrator asks. (A thread may write to a socket that another one opened.)
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h),
//! [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h),
//! [`include/linux/percpu.h`](srctree/include/linux/percpu.h)
//!
//! Context: process, in the call of whoever asks. Counting: any.

use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// Milliseconds for which sysfs shows what it has read: the core's default.
const LIFESPAN: usize = b::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize; // CAST: a small number.

/// Describes a counter to the core.
#[repr(transparent)]
pub(crate) struct StatDesc(b::rdma_stat_desc);

impl StatDesc {
    /// Describes a counter that the administrator knows by `name`.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(b::rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr().cast(),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }
}

/// Makes the structure in which the core asks for all counters. The core frees it.
pub(super) fn alloc<C: Counted>() -> *mut b::rdma_hw_stats {
    // CAST: at most 64.
    let len = C::DESCS.len() as c_int;
    // SAFETY: the descriptions are static and transparent, and there are `len` of them.
    unsafe { b::rdma_alloc_hw_stats_struct(C::DESCS.as_ptr().cast(), len, LIFESPAN) }
}

/// Fills in the sums. Returns how many there are.
///
/// # Safety
///
/// `stats` came from [`alloc`] of the same counters, and the core has locked it.
pub(super) unsafe fn fill<C: Counted>(stats: *mut b::rdma_hw_stats, counts: &Counts<C>) -> c_int {
    // SAFETY: by the caller's promise; this is the address of one of its fields.
    let values = unsafe { &raw mut (*stats).value }.cast::<u64>();
    for i in 0..C::DESCS.len() {
        // SAFETY: `alloc` has asked for as many values as there are descriptions.
        unsafe { values.add(i).write(counts.sum_at(i)) };
    }
    // CAST: at most 64.
    C::DESCS.len() as c_int
}

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
        assert!(!C::DESCS.is_empty());
        C::DESCS.len()
    };

    /// Makes counters that are all zero. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: no requirements; process context.
        let sums = NonNull::new(unsafe { h::counts_alloc(Self::LEN) }).ok_or(ENOMEM)?;
        // INVARIANT: just allocated, with room for that many.
        Ok(Arc::new(
            Self {
                sums,
                _counters: PhantomData,
            },
            GFP_KERNEL,
        )?)
    }

    /// `counts` has counts of the first `N` counters. Adds those whose bit is set in `marks` to the
    /// sums, and sets them to 0.
    #[inline(always)]
    pub(crate) fn take<const N: usize>(&self, counts: &mut [u64; N], marks: u64) {
        let marks = marks
            & const {
                assert!(1 <= N && N <= 64 && N <= Self::LEN);
                u64::MAX >> (64 - N)
            };
        // SAFETY: the arrays have `N` numbers or more, and no mark is beyond `N`.
        unsafe { h::counts_take(self.sums.as_ptr(), counts.as_mut_ptr(), marks) };
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

/// Where details go: pairs of a name and a value.
///
/// # Invariants
///
/// `msg` is a netlink message with an open nest of driver attributes.
pub(crate) struct Details<'a> {
    msg: *mut b::sk_buff,
    _msg: PhantomData<&'a mut b::sk_buff>,
}

impl Details<'_> {
    /// Adds a number. Fails with `EMSGSIZE` if there is no room, as all these methods do.
    pub(crate) fn number(&mut self, name: &CStr, value: impl Into<u64>) -> Result {
        let name = name.as_char_ptr();
        // SAFETY: by the invariant; the name is a C string.
        to_result(unsafe { b::rdma_nl_put_driver_u64(self.msg, name, value.into()) })
    }

    pub(crate) fn count(&mut self, name: &CStr, value: usize) -> Result {
        self.number(name, u64::try_from(value).unwrap_or(u64::MAX))
    }

    pub(crate) fn hex(&mut self, name: &CStr, value: u64) -> Result {
        let name = name.as_char_ptr();
        // SAFETY: by the invariant; the name is a C string.
        to_result(unsafe { b::rdma_nl_put_driver_u64_hex(self.msg, name, value) })
    }

    pub(crate) fn word(&mut self, name: &CStr, value: &CStr) -> Result {
        let (name, value) = (name.as_char_ptr(), value.as_char_ptr());
        // SAFETY: by the invariant; both are C strings.
        to_result(unsafe { b::rdma_nl_put_driver_string(self.msg, name, value) })
    }

    pub(crate) fn flag(&mut self, name: &CStr, value: bool) -> Result {
        self.word(name, if value { c"yes" } else { c"no" })
    }
}

/// Lets `tell` add details to a message. Returns 0 or an error. After `EMSGSIZE` the core asks once
/// more, with an empty message.
///
/// # Safety
///
/// `msg` is the message that the core passed to a callback, which goes on until this returns.
pub(super) unsafe fn fill_details(
    msg: *mut b::sk_buff,
    tell: impl FnOnce(&mut Details<'_>) -> Result,
) -> c_int {
    // SAFETY: by the caller's promise.
    let nest = unsafe { h::driver_nest_start(msg) };
    if nest.is_null() {
        return EMSGSIZE.to_errno();
    }
    // INVARIANT: just opened.
    let mut details = Details {
        msg,
        _msg: PhantomData,
    };
    match tell(&mut details) {
        Ok(()) => {
            // SAFETY: the nest is that of this message.
            unsafe { h::driver_nest_end(msg, nest) };
            0
        }
        Err(e) => {
            // SAFETY: as above.
            unsafe { h::driver_nest_cancel(msg, nest) };
            e.to_errno()
        }
    }
}
