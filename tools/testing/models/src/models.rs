// SPDX-License-Identifier: GPL-2.0

//! The models of files that all of the crate can see. Others are beside their files.

pub(crate) mod bits;
pub(crate) mod completions;
pub(crate) mod gate;
pub(crate) mod look_word;
mod movable;
mod noticeboard;
pub(crate) mod placement;
pub(crate) mod rcu_table;
pub(crate) mod recv_ring;
pub(crate) mod room;
pub(crate) mod send_ring;
mod short_timer;
pub(crate) mod wakers;

use kernel::{prelude::*, sync::Arc};
use loom::{cell::UnsafeCell, thread};

/// Memory that is read and written as plain memory is: loom fails if one does so without having
/// waited for another one that writes.
pub(crate) struct Plain(UnsafeCell<()>);

// SAFETY: loom has one thread, and there is nothing in it.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

impl Plain {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

/// Runs both at the same time, and returns when both are through.
fn beside<T: Send + Sync + 'static>(shared: T, one: fn(&T), other: fn(&T)) -> Arc<T> {
    beside_all(shared, one, [other])
}

/// The same with any number of others.
fn beside_all<T, const N: usize>(shared: T, one: fn(&T), others: [fn(&T); N]) -> Arc<T>
where
    T: Send + Sync + 'static,
{
    let shared = Arc::new(shared, GFP_KERNEL).unwrap();
    let threads = others.map(|other| {
        let shared = shared.clone();
        thread::spawn(move || other(&shared))
    });
    one(&shared);
    for thread in threads {
        thread.join().unwrap();
    }
    shared
}
