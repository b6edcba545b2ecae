// SPDX-License-Identifier: GPL-2.0

//! Tests of the pure layers. Names and comments quote the rows of the requirements they show.

mod atomic;
mod by_number;
mod cause;
mod connection;
mod counters;
mod crowd;
mod datagram;
mod deframer;
mod direct;
mod drain;
mod exhaustive;
mod fin;
mod fuzz;
mod gids;
mod golden;
mod marker;
mod message;
mod names;
mod notes;
mod num;
mod past_tcp;
mod patience;
mod queues;
mod receiver;
mod roce;
mod schedule;
mod segment;
mod segment_front;
mod sender;
mod setup;
mod state;
mod terminate;
mod tls;
mod trains;
mod two_peers;
