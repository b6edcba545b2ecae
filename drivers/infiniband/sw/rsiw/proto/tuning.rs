// SPDX-License-Identifier: GPL-2.0

//! What of the data path an engineer may turn, from where to where.
//!
//! Whatever is chosen of these, streams go on, in order and whole, and what one call does stays
//! bounded: a budget is never nothing, and at the most what is said here.
//!
//! Pure: any context.
#![forbid(unsafe_code)]

use core::ffi::CStr;

/// A budget or threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob {
    /// How the administrator knows it; ends with the unit.
    pub(crate) name: &'static CStr,
    /// What it is unless the administrator says otherwise.
    pub(crate) default: u32,
    /// The least and the most that it can be.
    pub(crate) range: (u32, u32),
}

impl Knob {
    const fn new(name: &'static CStr, default: u32, range: (u32, u32)) -> Self {
        assert!(range.0 <= default && default <= range.1);
        Self {
            name,
            default,
            range,
        }
    }
}

/// What softirq takes in at a time, see [`Budget`](super::budget::Budget). Octets.
pub(crate) const RX_SOFTIRQ: Knob =
    Knob::new(c"rx_softirq_octets", 256 * 1024, (4096, 1024 * 1024));
/// What the work item takes in before others get the socket. Octets.
pub(crate) const RX_WORK: Knob = Knob::new(c"rx_work_octets", 1024 * 1024, (4096, 4 * 1024 * 1024));
/// Octets of a batch, where that many fit into the socket. The last FPDU may go beyond it. The
/// memory of a batch is made for the most.
pub(crate) const TX_BATCH: Knob = Knob::new(c"tx_batch_octets", 128 * 1024, (4096, 128 * 1024));
/// Octets that one caller sends before it leaves the rest to others.
pub(crate) const TX_RUN: Knob = Knob::new(c"tx_run_octets", 1024 * 1024, (4096, 1024 * 1024));
/// Doorbells in a row by which the posting thread sends itself.
pub(crate) const ROW: Knob = Knob::new(c"row_doorbells", 2, (0, 65_536));
/// A pause that begins a new row: from when a request was last posted or sent to the next doorbell.
/// Microseconds.
pub(crate) const ROW_PAUSE: Knob = Knob::new(c"row_pause_us", 100, (0, 1_000_000));
/// After how long requests of a consumer that polls, which are left to gather
/// ([`super::schedule::PostRow`]), are looked at first. Microseconds.
pub(crate) const ROW_LOOK: Knob = Knob::new(c"row_look_us", 5, (1, 1000));
/// For how long a consumer to which a notification came counts as one that waits for them.
/// Microseconds.
pub(crate) const WAITED: Knob = Knob::new(c"waited_us", 4_000, (0, 1_000_000));
/// Reads of the peer that are left to gather, at most ([`super::schedule::ReadRows`]).
pub(crate) const READ_ROW: Knob = Knob::new(c"read_row", 8, (1, 128));
/// If none has come for that long, those that are there are answered. Microseconds.
pub(crate) const READ_PAUSE: Knob = Knob::new(c"read_pause_us", 50, (1, 10_000));

/// What sending is bounded by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits {
    /// See [`TX_BATCH`].
    pub(crate) batch: u32,
    /// See [`TX_RUN`].
    pub(crate) run: u32,
}

/// What a row of doorbells is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLimits {
    /// See [`ROW`].
    pub(crate) doorbells: u32,
    /// See [`ROW_PAUSE`]; microseconds.
    pub(crate) pause: u32,
}

/// Whole microseconds in so many nanoseconds; the largest number if there are more.
pub(crate) fn micros(nanos: u64) -> u32 {
    u32::try_from(nanos / 1000).unwrap_or(u32::MAX)
}

/// Nanoseconds of so many microseconds.
pub(crate) const fn nanos(micros: u32) -> u64 {
    // CAST: 32 bits fit.
    (micros as u64).saturating_mul(1000)
}
