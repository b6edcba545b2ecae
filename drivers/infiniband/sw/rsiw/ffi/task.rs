// SPDX-License-Identifier: GPL-2.0

//! The running thread, processes, and threads that serve one.
//!
//! - [`context`] tells what a call may do where the core's interface does not: whether it may
//!   sleep, whether it is a softirq, who else wants the processor. [`context::NoSoftirq`] keeps
//!   softirqs off.
//! - [`process::Process`] and [`process::Identity`] remember on whose behalf something was made.
//! - [`serving::ServingThread`] is a thread of the kernel that is a part of a process, counts for
//!   its limits, and ends with it (`vhost_task`).
//!
//! # Lifetimes and context
//!
//! A serving thread has the object that it serves until it is told to end, and keeps the module
//! until it has ended; nobody waits for it, as a debugger may have stopped it.
//!
//! Each function says its context. Most look at the running thread, and answer for this moment
//! only. An interface should itself say whether a call may sleep; see `rsiw-tricks.rst`.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::task::context;
//! use kernel::{prelude::*, sync::{Arc, Mutex}};
//!
//! /// Does the work at once if the caller lets it sleep; returns whether it has.
//! fn do_at_once(work: &Arc<Mutex<u32>>) -> bool {
//!     if !context::may_sleep() {
//!         return false;
//!     }
//!     *work.lock() = 0;
//!     true
//! }
//! ```

pub(crate) mod context;
pub(crate) mod process;
pub(crate) mod serving;
