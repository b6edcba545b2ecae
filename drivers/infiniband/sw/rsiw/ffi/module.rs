// SPDX-License-Identifier: GPL-2.0

//! How long the code of this module stays, and whether other modules are loaded. Context: process.

use super::raw::h;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    AtomicFlag,
    Relaxed, //
};
use kernel::sync::rcu;
use kernel::InPlaceModule;

/// What a module consists of, in the order in which it is dropped.
pub(crate) trait Parts: Send + Sync + Sized {
    /// Makes the parts when the module is loaded. If this fails, loading fails with the same error.
    fn init(loaded: Loaded) -> impl PinInit<Self, Error>;
}

/// Shows that the code of this module stays until RCU callbacks, and work that frees memory, have
/// run. Only a [`Module`] makes one, and waits for them in the end.
#[derive(Clone, Copy)]
pub(crate) struct Loaded(());

impl Loaded {
    /// Keeps the module from being unloaded. Returns `None` if that has begun.
    pub(crate) fn hold(self) -> Option<InUse> {
        // SAFETY: no requirements.
        unsafe { h::hold_this_module() }.then_some(InUse(()))
    }

    /// Makes one for tests, which run while the module stays.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn for_test() -> Self {
        Self(())
    }
}

/// Keeps the module from being unloaded while it exists. The code that runs after the drop is still
/// the module's, so unloading has to wait for that code in another way.
pub(crate) struct InUse(());

impl Drop for InUse {
    fn drop(&mut self) {
        // SAFETY: `hold` has counted it.
        unsafe { h::release_this_module() };
    }
}

/// The state of this module, to be named in `module!`.
#[pin_data]
pub(crate) struct Module<T> {
    #[pin]
    parts: T,
    _last: Last,
}

impl<T: Parts> InPlaceModule for Module<T> {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _last: Last,
            parts <- T::init(Loaded(())),
        })
    }
}

/// The part that is dropped last.
struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        rcu::rcu_barrier();
        // SAFETY: no requirements; process context.
        unsafe { h::shared_flush() };
        await_calls();
    }
}

/// Whether [`note_calls`] was called since the module was loaded.
static ANY_CALLS: AtomicFlag = AtomicFlag::new(false);

/// Notes that C was given a function of this module which it may call in a task that can be
/// preempted, without a lock, a reference or RCU that tells when the call is over. Unloading waits
/// until no task is preempted in such a function. The function's last instructions must not sleep.
pub(in crate::ffi) fn note_calls() {
    ANY_CALLS.store(true, Relaxed);
}

/// Waits until all tasks have left the functions that [`note_calls`] is about.
fn await_calls() {
    if ANY_CALLS.load(Relaxed) {
        // SAFETY: no requirements; process context.
        unsafe { h::tasks_wait() };
    }
}

/// Returns whether a module of that name is loaded, or being loaded.
pub(crate) fn is_loaded(name: &CStr) -> bool {
    // SAFETY: the name is a C string.
    unsafe { h::module_is_loaded(name.as_char_ptr()) }
}
