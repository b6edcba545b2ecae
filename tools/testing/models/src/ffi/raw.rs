// SPDX-License-Identifier: GPL-2.0

//! The kernel's xarray and timers, and the C helpers around them.

/// What the kernel's bindings have.
#[allow(non_camel_case_types, non_upper_case_globals)]
pub(crate) mod b {
    use kernel::{prelude::*, sync::atomic::*, sync::Mutex};

    pub(crate) const GFP_KERNEL: Flags = kernel::alloc::GFP_KERNEL;
    pub(crate) const XA_PRESENT: u32 = 8;

    #[derive(Clone, Copy)]
    pub(crate) struct callback_head;

    /// Two entries, which share a place of the table.
    pub(crate) struct xarray {
        pub(super) lock: Mutex<()>,
        pub(super) entries: [Atomic<*mut c_void>; 2],
    }

    impl xarray {
        pub(super) fn entry(&self, index: usize) -> &Atomic<*mut c_void> {
            &self.entries[index / crate::ffi::sync::rcu_table::PLACES as usize]
        }
    }

    /// # Safety
    ///
    /// `xa` is initialised.
    pub(crate) unsafe fn xa_load(xa: *mut xarray, index: usize) -> *mut c_void {
        // SAFETY: by the caller's promise. `rcu_dereference()`: loom knows no dependencies.
        unsafe { &*xa }.entry(index).load(Acquire)
    }

    pub(crate) unsafe fn xa_find(_: *mut xarray, _: &mut usize, _: usize, _: u32) -> *mut c_void {
        unreachable!("no model goes through a table")
    }

    pub(crate) type clockid_t = i32;
    pub(crate) const CLOCK_MONOTONIC: u32 = 1;
    pub(crate) type hrtimer_mode = u32;
    pub(crate) const hrtimer_mode_HRTIMER_MODE_REL_SOFT: hrtimer_mode = 1;

    #[derive(PartialEq, Eq)]
    #[repr(C)]
    pub(crate) enum hrtimer_restart {
        HRTIMER_NORESTART,
    }

    type Function = unsafe extern "C" fn(*mut hrtimer) -> hrtimer_restart;

    /// A timer: whether it runs, and its function.
    pub(crate) struct hrtimer {
        runs: Mutex<bool>,
        function: Option<Function>,
    }

    /// # Safety
    ///
    /// `timer` is valid for writes.
    pub(crate) unsafe fn hrtimer_setup(
        timer: *mut hrtimer,
        function: Option<Function>,
        _: clockid_t,
        _: hrtimer_mode,
    ) {
        let runs = Mutex::new(false);
        // SAFETY: by the caller's promise.
        unsafe { timer.write(hrtimer { runs, function }) };
    }

    /// # Safety
    ///
    /// `timer` is initialised.
    pub(crate) unsafe fn hrtimer_start_range_ns(
        timer: *mut hrtimer,
        _: i64,
        _: u64,
        _: hrtimer_mode,
    ) {
        // SAFETY: by the caller's promise.
        *unsafe { &*timer }.runs.lock() = true;
    }

    /// # Safety
    ///
    /// `timer` is initialised, and its function does not run.
    pub(crate) unsafe fn hrtimer_cancel(timer: *mut hrtimer) -> i32 {
        // SAFETY: by the caller's promise.
        core::mem::replace(&mut *unsafe { &*timer }.runs.lock(), false).into()
    }

    /// Lets the timer run out, if it runs.
    ///
    /// # Safety
    ///
    /// `timer` is initialised and stays until it runs no more.
    pub(crate) unsafe fn run_out(timer: *mut hrtimer) {
        // SAFETY: by the caller's promise.
        if unsafe { hrtimer_cancel(timer) } != 0 {
            // SAFETY: as above.
            let function = unsafe { &*timer }.function.unwrap();
            // SAFETY: this is how the kernel calls it.
            unsafe { function(timer) };
        }
    }
}

/// What `ffi/helpers` has.
pub(crate) mod h {
    use super::b::{callback_head, xarray};
    use kernel::{prelude::*, sync::atomic::*, sync::rcu, sync::Mutex};

    /// # Safety
    ///
    /// `xa` is valid for writes.
    pub(crate) unsafe fn xa_init_alloc_irq_account(xa: *mut xarray) {
        let entries = [0; 2].map(|_| Atomic::new(core::ptr::null_mut()));
        let lock = Mutex::new(());
        // SAFETY: by the caller's promise.
        unsafe { xa.write(xarray { lock, entries }) };
    }

    /// Copy of `rsiw_helper_xa_insert_irq()` in `ffi/helpers/mem.c`.
    ///
    /// # Safety
    ///
    /// `xa` is initialised, and `place` null or from [`Atomic::as_ptr`].
    pub(crate) unsafe fn xa_insert_irq(
        xa: *mut xarray,
        index: usize,
        entry: *mut c_void,
        place: *mut *mut c_void,
        _: Flags,
    ) -> i32 {
        // SAFETY: by the caller's promise.
        let xa = unsafe { &*xa };
        let _lock = xa.lock.lock();
        // `rcu_assign_pointer()` of the xarray.
        xa.entry(index).store(entry, Release);
        // SAFETY: by the caller's promise.
        if let Some(place) = unsafe { place.cast::<Atomic<*mut c_void>>().as_ref() } {
            place.store(entry, Release);
        }
        0
    }

    /// Copy of `rsiw_helper_xa_erase_irqsave()` in `ffi/helpers/mem.c`.
    ///
    /// # Safety
    ///
    /// As of [`xa_insert_irq`].
    pub(crate) unsafe fn xa_erase_irqsave(
        xa: *mut xarray,
        index: usize,
        place: *mut *mut c_void,
    ) -> *mut c_void {
        // SAFETY: by the caller's promise.
        let xa = unsafe { &*xa };
        let _lock = xa.lock.lock();
        let entry = xa.entry(index).load(Relaxed);
        xa.entry(index).store(core::ptr::null_mut(), Relaxed);
        // SAFETY: by the caller's promise.
        match unsafe { place.cast::<Atomic<*mut c_void>>().as_ref() } {
            Some(place) if place.load(Relaxed) == entry => {
                place.store(core::ptr::null_mut(), Relaxed);
            }
            _ => {}
        }
        entry
    }

    pub(crate) unsafe fn xa_alloc_cyclic_irq(
        _: *mut xarray,
        _: &mut u32,
        _: *mut c_void,
        _: u32,
        _: u32,
        _: *mut u32,
        _: Flags,
    ) -> i32 {
        unreachable!("the models choose the indices")
    }

    /// Calls back when readers are gone. That is done at once, by waiting.
    ///
    /// # Safety
    ///
    /// `func` may be called with `head` then.
    pub(crate) unsafe fn call_rcu_hurry(
        head: *mut callback_head,
        func: Option<unsafe extern "C" fn(*mut callback_head)>,
    ) {
        rcu::synchronize_rcu();
        // SAFETY: by the caller's promise.
        unsafe { func.unwrap()(head) };
    }
}
