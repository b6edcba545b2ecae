// SPDX-License-Identifier: GPL-2.0

//! The order of Requests where a handshake of TLS comes before them.
//!
//! Handshakes go on beside each other, and end in any order. Programs count on that of their calls
//! (see [`super::turns`]). So a connection that is through with its handshake waits for older ones
//! of its [`Line`] that have begun theirs: who connects sends Requests in the order of the calls, and
//! whoever was connected to takes them in the order in which TCP connected. It does not wait for
//! peers that say nothing, and no longer than [`WAIT_MS`].
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::registry::Entry;
use core::net::{
    IpAddr,
    SocketAddr, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// How long a connection waits for older ones, in milliseconds: much less than its peer waits for
/// the Request, or for the answer.
pub(super) const WAIT_MS: u32 = 5_000;

/// Connections among which there is an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// Those that were accepted at a port, and come from one address. What a stranger elsewhere does
    /// makes nobody wait.
    From(IpAddr, u16),
    /// Those that connect to one place.
    To(SocketAddr),
}

/// What can stand in a line.
pub(super) trait InLine: Entry {
    /// Called when nobody older is left in the line. Must not wait.
    fn is_first(self: Arc<Self>);
}

/// All lines of a device, each in the order of the numbers.
#[pin_data]
pub(super) struct Lines<T: InLine> {
    #[pin]
    all: SpinLock<RBTree<(Line, usize), Arc<T>>>,
}

impl<T: InLine> Lines<T> {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                all <- new_spinlock!(RBTree::new(), "rsiw::cm::Lines::all"),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts an object into a line, until the result is dropped.
    pub(super) fn join(self: &Arc<Self>, line: Line, object: Arc<T>) -> Result<Spot<T>> {
        let key = (line, object.number());
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?.into_node(key, object);
        let old = self.all.lock().insert(node);
        drop(old);
        Ok(Spot {
            lines: self.clone(),
            key,
        })
    }

    /// Returns the first one in a line.
    fn first(&self, line: Line) -> Option<Arc<T>> {
        let all = self.all.lock();
        let cursor = all.cursor_lower_bound(&(line, 0))?;
        let (key, object) = cursor.current();
        (key.0 == line).then(|| object.clone())
    }
}

/// An object's place in a line.
pub(super) struct Spot<T: InLine> {
    lines: Arc<Lines<T>>,
    key: (Line, usize),
}

impl<T: InLine> Spot<T> {
    /// Returns whether nobody older is in the line. If not, [`InLine::is_first`] is called later.
    pub(super) fn is_first(&self) -> bool {
        let (line, number) = self.key;
        self.lines
            .first(line)
            .is_none_or(|first| first.number() >= number)
    }
}

impl<T: InLine> Drop for Spot<T> {
    fn drop(&mut self) {
        let object = self.lines.all.lock().remove(&self.key);
        drop(object);
        if let Some(first) = self.lines.first(self.key.0) {
            T::is_first(first);
        }
    }
}
