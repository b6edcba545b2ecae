// SPDX-License-Identifier: GPL-2.0

//! Synchronisation that the kernel crate does not offer.
//!
//! - [`gate::Gate`] counts its users, in any context, and can be closed for good, which sleeps
//!   until all have left. Users of [`kernel::revocable::Revocable`] are in RCU read-side sections,
//!   where they cannot sleep, and which a peer's transfers would make long.
//! - [`rcu_table::RcuTable`] finds reference-counted objects by their number without a lock, and
//!   hands out references. [`kernel::xarray::XArray`] takes its lock to look something up.
//! - [`cell::ExclusiveCell`] lends its value to one function at a time, without the count of
//!   borrows of `RefCell`, whose overflow would panic.
//!
//! # Context
//!
//! Entering and leaving a gate, and looking something up, are done in any context. Closing a gate
//! sleeps, and so does inserting.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::sync::gate::Gate;
//! use kernel::prelude::*;
//!
//! #[pin_data]
//! struct Shared {
//!     #[pin]
//!     gate: Gate,
//! }
//!
//! impl Shared {
//!     fn use_it(&self) -> Result {
//!         let _inside = self.gate.enter().ok_or(ENODEV)?;
//!         // It is not taken apart before `_inside` is dropped.
//!         Ok(())
//!     }
//!
//!     fn take_apart(&self) {
//!         self.gate.close_and_wait();
//!         // Nobody is inside any more, and nobody gets in.
//!     }
//! }
//! ```

pub(crate) mod cell;
pub(crate) mod gate;
pub(crate) mod rcu_table;
