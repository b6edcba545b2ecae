// SPDX-License-Identifier: GPL-2.0

//! Locks, references and what waits, by loom.

pub mod atomic;
pub mod rcu;

mod arc;

pub use arc::Arc;

use crate::init::PinInit;
use std::ops::{Deref, DerefMut};

pub mod barrier {
    pub use super::atomic::{smp_mb, Full, Read};
}

/// A spin lock. Interrupts are other threads here.
pub struct SpinLockIrq<T>(loom::sync::Mutex<T>);

pub type SpinLock<T> = SpinLockIrq<T>;
pub type Mutex<T> = SpinLockIrq<T>;

pub struct Guard<'a, T>(loom::sync::MutexGuard<'a, T>);

impl<T> SpinLockIrq<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> Guard<'_, T> {
        atomic::any_order();
        Guard(self.0.lock().unwrap())
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        atomic::any_order();
        Some(Guard(self.0.try_lock().ok()?))
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[macro_export]
macro_rules! new_spinlock_irq {
    ($value:expr, $name:literal) => {
        $crate::sync::SpinLockIrq::new($value)
    };
}
pub use new_spinlock_irq;

/// Something that may be waited for. As in the kernel, who waits takes a lock in any case.
pub struct Completion {
    done: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl Completion {
    pub fn new() -> impl PinInit<Self> {
        Self {
            done: loom::sync::Mutex::new(false),
            changed: loom::sync::Condvar::new(),
        }
    }

    pub fn complete_all(&self) {
        *self.done.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub fn wait_for_completion(&self) {
        let mut done = self.done.lock().unwrap();
        while !*done {
            done = self.changed.wait(done).unwrap();
        }
    }
}
