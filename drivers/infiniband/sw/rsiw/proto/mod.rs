// SPDX-License-Identifier: GPL-2.0

//! Protocol behaviour: state machines without I/O, which return what to do.
//!
//! Pure: no kernel, no allocation, no lock, no clock. Octets, time-outs and requests come in as
//! arguments, actions go out as data. Whoever owns a state machine serialises its use, in the
//! context that its module names.
#![forbid(unsafe_code)]

pub(crate) mod by_number;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod crowd;
pub(crate) mod datagram;
pub(crate) mod deframer;
pub(crate) mod drain;
pub(crate) mod failure;
pub(crate) mod fin;
pub(crate) mod frame;
pub(crate) mod message;
pub(crate) mod negotiate;
pub(crate) mod notes;
pub(crate) mod placement;
pub(crate) mod reads;
pub(crate) mod receiver;
pub(crate) mod request;
pub(crate) mod ring;
pub(crate) mod schedule;
pub(crate) mod segment;
pub(crate) mod sender;
pub(crate) mod sends;
pub(crate) mod setup;
pub(crate) mod state;
pub(crate) mod transport;
pub(crate) mod tuning;
