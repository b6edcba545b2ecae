// SPDX-License-Identifier: GPL-2.0

//! Memory.

use crate::{
    alloc::Flags,
    error::{Error, Result},
};
use std::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Deref,
};

/// Memory of its own. What was dropped stays in memory, so that a model that uses it all the same
/// fails, and not in a way that cannot be foretold.
pub struct KBox<T>(ManuallyDrop<Box<T>>);

impl<T> KBox<T> {
    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok(Self(ManuallyDrop::new(Box::new(value))))
    }

    pub fn into_raw(this: Self) -> *mut T {
        let mut this = ManuallyDrop::new(this);
        &raw mut **this.0
    }

    /// # Safety
    ///
    /// `raw` is from [`KBox::into_raw`], and nobody else's.
    pub unsafe fn from_raw(raw: *mut T) -> Self {
        // SAFETY: by the caller's promise.
        Self(ManuallyDrop::new(unsafe { Box::from_raw(raw) }))
    }
}

impl<T> Drop for KBox<T> {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { core::ptr::drop_in_place(&raw mut **self.0) };
    }
}

pub struct KVec<T>(Vec<T>);

impl<T> KVec<T> {
    #[expect(clippy::new_without_default, reason = "the kernel's has none")]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn with_capacity(n: usize, _: Flags) -> Result<Self> {
        Ok(Self(Vec::with_capacity(n)))
    }

    pub fn push_within_capacity(&mut self, value: T) -> Result {
        self.0.push(value);
        Ok::<(), Error>(())
    }
}

impl<T> Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// What C looks at. Here it may be moved.
#[repr(transparent)]
pub struct Opaque<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Opaque<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(MaybeUninit::new(value)))
    }

    pub const fn uninit() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    pub fn ffi_init(init: impl FnOnce(*mut T)) -> Self {
        let this = Self::uninit();
        init(this.get());
        this
    }

    pub const fn get(&self) -> *mut T {
        self.0.get().cast()
    }

    pub const fn cast_into(this: *const Self) -> *mut T {
        this.cast_mut().cast()
    }
}
