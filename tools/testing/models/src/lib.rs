// SPDX-License-Identifier: GPL-2.0

//! Models of the places where processors meet without a lock: see "Processors that meet without a
//! lock" in rsiw-locking.rst.
//!
//! loom runs each model in all orders in which its threads may go on, and has each load return any
//! value that the orderings allow. Where it can, a model runs the driver's own file (`ffi`, `mr`,
//! `notes` and `qp` here), for which the crate `kernel` of this folder stands for the kernel's.
//! Where code is C, or copies between shared memory and the rest, a model has a copy of a few
//! lines, which [`copies`] compares with the source.
//!
//! [`check`] shows that each ordering is needed: it runs the models once more for each, with that
//! one weakened, and one of them has to fail.
#![cfg(test)]

mod check;
mod copies;
mod models;

// The driver.
mod ffi;
mod mr;
mod proto;
mod qp;

#[path = "../../../../drivers/infiniband/sw/rsiw/notes.rs"]
mod notes;
