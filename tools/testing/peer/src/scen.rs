// SPDX-License-Identifier: GPL-2.0

//! The scenarios, by subject.
#![forbid(unsafe_code)]

mod access;
mod active;
mod atomic;
mod close;
mod drain;
mod enhanced;
mod errors;
mod first;
mod fpdu;
mod invalidate;
mod marker;
mod mpa;
mod order;
mod read;
mod reader;
mod send;
mod stop;
mod storm;
mod terminate;

use crate::scenario::List;

/// All scenarios.
pub fn all() -> List {
    let mut list = List::default();
    mpa::add(&mut list);
    enhanced::add(&mut list);
    active::add(&mut list);
    first::add(&mut list);
    marker::add(&mut list);
    fpdu::add(&mut list);
    errors::add(&mut list);
    send::add(&mut list);
    access::add(&mut list);
    read::add(&mut list);
    reader::add(&mut list);
    atomic::add(&mut list);
    invalidate::add(&mut list);
    terminate::add(&mut list);
    stop::add(&mut list);
    order::add(&mut list);
    close::add(&mut list);
    drain::add(&mut list);
    storm::add(&mut list);
    list
}
