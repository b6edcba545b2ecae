// SPDX-License-Identifier: GPL-2.0

//! What an engineer may adjust in the data path, and within which range. With any of these values,
//! streams go on in order and whole, and what one call does stays bounded: a budget is never 0.
//! Pure: any context.
#![forbid(unsafe_code)]

use core::ffi::CStr;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob {
    /// The name that the administrator sees; it ends with the unit.
    pub(crate) name: &'static CStr,
    pub(crate) default: u32,
    /// The least and the greatest value.
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

/// Octets that softirq takes in at a time, see [`Budget`](super::deframer::Budget).
pub(crate) const RX_SOFTIRQ: Knob =
    Knob::new(c"rx_softirq_octets", 256 * 1024, (4096, 1024 * 1024));
/// Octets that the work item takes in before others get the socket.
pub(crate) const RX_WORK: Knob = Knob::new(c"rx_work_octets", 1024 * 1024, (4096, 4 * 1024 * 1024));
/// Octets of a batch, if as many fit into the socket. The last FPDU may go beyond. The memory of a
/// batch is made for the greatest value.
pub(crate) const TX_BATCH: Knob = Knob::new(c"tx_batch_octets", 128 * 1024, (4096, 128 * 1024));
/// Octets that one caller sends before it leaves the rest to others.
pub(crate) const TX_RUN: Knob = Knob::new(c"tx_run_octets", 1024 * 1024, (4096, 1024 * 1024));

#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits {
    /// See [`TX_BATCH`].
    pub(crate) batch: u32,
    /// See [`TX_RUN`].
    pub(crate) run: u32,
}
