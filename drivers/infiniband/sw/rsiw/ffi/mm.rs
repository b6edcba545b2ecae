// SPDX-License-Identifier: GPL-2.0

//! Memory of consumers, which anybody may write at any time, and memory of the driver that
//! processes map.
//!
//! - [`page::PageSlice`] is a piece of pinned memory of a consumer. Its owner, a peer and this host
//!   access it without a lock, so there is never a reference to the octets: they are
//!   copied, the last octet last. Memory that a consumer in the kernel names by its address is cut
//!   into such pieces, too.
//! - [`ring::SharedMemory`] is memory of the driver that a process maps; [`ring`] is typed access
//!   to queues there, by copy, with indices that cannot lead outside.
//! - [`NoIo`] is a scope in which allocations of the thread start no input or output. Whoever moves
//!   data for a file system or a block device must not wait for it to write pages back: the writing
//!   may wait for that data.
//! - [`Payer`] is the memory cgroup that memory is charged to. What is allocated with
//!   `__GFP_ACCOUNT` is charged to the group of the thread. A work item runs in a thread of the
//!   kernel, which has no group, so the group of whoever queues the work has to be remembered.
//!
//! # Lifetimes and context
//!
//! A piece borrows from what has the memory pinned, which is guarded by a gate
//! ([`gate`](crate::ffi::sync::gate)). Shared memory is freed with the last reference in the
//! kernel; a process that still maps its pages keeps them. Any context, except that making shared
//! memory sleeps, and scopes are for process context.
//!
//! # What it does not do
//!
//! [`ring`] has the layout that iWARP providers of user space use: entries with flags that say who
//! owns them. A driver with other rings writes them on [`ring::SharedMemory`].
//!
//! # Examples
//!
//! ```
//! use crate::ffi::mm::{page::PageSlice, NoIo};
//! use kernel::prelude::*;
//!
//! /// Copies the first octets of `piece` out, for a consumer that may be a file system.
//! fn begin_of(piece: &PageSlice<'_>) -> Result<KVec<u8>> {
//!     let _scope = NoIo::enter();
//!     let mut octets = KVec::from_elem(0, 64, GFP_KERNEL)?;
//!     piece.copy_out(&mut octets)?;
//!     Ok(octets)
//! }
//! ```
//!
//! C headers: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

pub(crate) mod movable;
pub(crate) mod page;
pub(crate) mod ring;

use super::raw::{
    b,
    h, //
};
use crate::num::Broken;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// If lengths contradict one another, what they are for is not done: `EIO`, and one line in the
/// log.
impl From<Broken> for Error {
    #[cold]
    fn from(Broken: Broken) -> Self {
        kernel::pr_err_once!("BUG: lengths contradict one another\n");
        EIO
    }
}

/// A scope in which no allocation of this thread, whatever its flags, starts input or output.
///
/// # Invariants
///
/// `added` are the thread's flags that this scope has set.
pub(crate) struct NoIo {
    added: u32,
    _thread: NotThreadSafe,
}

impl NoIo {
    /// Begins the scope. Scopes of one thread nest.
    pub(crate) fn enter() -> Self {
        Self::enter_to_reclaim(false)
    }

    /// Begins the scope. With `reclaims` the kernel may need what this thread does in order to free
    /// memory. So allocations may use the reserves that the kernel keeps for this, and fail instead
    /// of waiting once these are used up.
    pub(crate) fn enter_to_reclaim(reclaims: bool) -> Self {
        // INVARIANT: the call returns the flags that it has set.
        Self {
            // SAFETY: changes flags of the calling thread only.
            added: unsafe { h::memalloc_save(reclaims) },
            _thread: NotThreadSafe,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: the same thread, and the flags that the scope has set, by the invariant.
        unsafe { h::memalloc_restore(self.added) };
    }
}

/// A memory cgroup, or nobody.
///
/// # Invariants
///
/// Null, or a group of which this value owns a reference.
pub(crate) struct Payer(*mut b::mem_cgroup);

// SAFETY: the reference may be used and given back by any thread, and in any context.
unsafe impl Send for Payer {}
// SAFETY: only the address is looked at, and the reference counted.
unsafe impl Sync for Payer {}

impl Payer {
    /// Returns the group of the calling process; nobody in a thread of the kernel. Within
    /// [`Payer::pays`] it is the group that pays there. Process context.
    pub(crate) fn of_caller() -> Self {
        // INVARIANT: the call has taken the reference.
        //
        // SAFETY: looks at the calling thread.
        Self(unsafe { h::memcg_of_caller() })
    }

    /// Returns nobody. That is for what consumers in the kernel need, whichever process their
    /// threads work for at the moment.
    pub(crate) fn nobody() -> Self {
        // INVARIANT: null, or the root group, which is always there and not counted.
        //
        // SAFETY: reads an address.
        Self(unsafe { h::memcg_of_nobody() })
    }

    /// Calls `f`, in which this group pays for what the thread allocates with `__GFP_ACCOUNT`.
    /// Calls nest. If the group is at its limit, the thread waits for memory, so nothing that
    /// others wait for belongs in `f`.
    #[inline]
    pub(crate) fn pays<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the group stays as long as this value, which is borrowed until the end of the
        // call; who paid before is put back then, by the same thread in the same context.
        let before = unsafe { h::memcg_pays(self.0) };
        let result = f();
        // SAFETY: what the first call returned is still there: whoever set it waits for this call.
        unsafe { h::memcg_pays(before) };
        result
    }

    pub(in crate::ffi) fn as_ptr(&self) -> *mut b::mem_cgroup {
        self.0
    }
}

impl Clone for Payer {
    fn clone(&self) -> Self {
        // SAFETY: the group is live by the type invariants.
        unsafe { h::memcg_get(self.0) };
        // INVARIANT: just taken.
        Self(self.0)
    }
}

impl Drop for Payer {
    fn drop(&mut self) {
        // SAFETY: the reference is owned by the type invariants.
        unsafe { h::memcg_put(self.0) };
    }
}
