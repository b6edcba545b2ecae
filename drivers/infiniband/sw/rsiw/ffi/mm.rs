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
//! - [`scope::NoIo`] keeps allocations of a thread from starting input and output.
//! - [`scope::Payer`] is the memory cgroup that pays for what a work item allocates.
//!
//! # Lifetimes and context
//!
//! A piece borrows from what has the memory pinned, which is guarded by a gate
//! ([`gate`](crate::ffi::sync::gate)). Shared memory is freed with the last reference in the
//! kernel; a process that still maps its pages keeps them. Any context, but making shared
//! memory sleeps.
//!
//! # What it does not do
//!
//! [`ring`] has the layout that iWARP providers of user space use: entries with flags that say who
//! owns them. A driver with other rings writes them on [`ring::SharedMemory`].
//!
//! # Examples
//!
//! ```
//! use crate::ffi::mm::{page::PageSlice, scope::NoIo};
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

pub(crate) mod movable;
pub(crate) mod page;
pub(crate) mod ring;
pub(crate) mod scope;
