// SPDX-License-Identifier: GPL-2.0

//! References that are counted.

use crate::{
    alloc::Flags,
    error::{Error, Result},
    init::PinInit,
};
use loom::cell::UnsafeCell;
use std::{ops::Deref, sync};

/// A reference. loom does not see the count, to have less to try, but it sees whoever uses this
/// reference without having waited for its making, or while it is dropped.
pub struct Arc<T> {
    value: sync::Arc<T>,
    lives: UnsafeCell<()>,
}

// SAFETY: loom has one thread, and checks how `lives` is used.
unsafe impl<T: Send + Sync> Send for Arc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Arc<T> {}

impl<T> Arc<T> {
    fn over(value: sync::Arc<T>) -> Self {
        Self {
            value,
            lives: UnsafeCell::new(()),
        }
    }

    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok::<_, Error>(Self::over(sync::Arc::new(value)))
    }

    pub fn pin_init(value: impl PinInit<T>, flags: Flags) -> Result<Self> {
        Self::new(value.init(), flags)
    }

    pub fn into_raw(self) -> *const T {
        sync::Arc::into_raw(self.value.clone())
    }

    /// # Safety
    ///
    /// As for the standard library's.
    pub unsafe fn from_raw(raw: *const T) -> Self {
        // SAFETY: by the caller's promise.
        Self::over(unsafe { sync::Arc::from_raw(raw) })
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        self.lives.with(|_| Self::over(self.value.clone()))
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        // What ends a model that has failed is not part of it.
        if !std::thread::panicking() {
            self.lives.with_mut(|_| ());
        }
    }
}
