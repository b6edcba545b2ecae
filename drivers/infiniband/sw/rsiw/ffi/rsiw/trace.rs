// SPDX-License-Identifier: GPL-2.0

//! Trace events (`rsiw_trace.h`).
//!
//! Each function is an event. An event that is off costs one instruction that does nothing: the
//! closure that collects the data runs only if it is on. `num` is the number of a queue pair,
//! `conn` that of a connection, `error` an errno or 0.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h).
//!
//! Context: any. Events have the device's name, and are left out once the core no longer has the
//! device.
#![cfg_attr(
    not(CONFIG_TRACEPOINTS),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "nobody can listen"
    )
)]

use crate::ffi::raw::b;
use crate::ffi::rdma::handle::{
    CqHandle,
    DeviceHandle, //
};
use kernel::jump_label::static_branch_unlikely;
use kernel::prelude::*;
use kernel::str::CStr;

/// A value of an event, as C takes it.
trait ToC {
    type C;

    fn to_c(self) -> Self::C;
}

impl ToC for &CStr {
    type C = *const c_char;

    fn to_c(self) -> Self::C {
        self.as_char_ptr()
    }
}

macro_rules! as_they_are {
    ($($number:ty),*) => { $(
        impl ToC for $number {
            type C = Self;

            #[inline(always)]
            fn to_c(self) -> Self {
                self
            }
        }
    )* };
}
as_they_are!(bool, u16, u32, u64, i32);

/// Runs the body if somebody listens to the event.
#[cfg(CONFIG_TRACEPOINTS)]
macro_rules! if_on {
    ($point:ident, { $($body:tt)* }) => {
        // SAFETY: the key is that of a trace point of this module.
        if unsafe { static_branch_unlikely!(b::$point, b::tracepoint, key) } {
            $($body)*
        }
    };
}

#[cfg(not(CONFIG_TRACEPOINTS))]
macro_rules! if_on {
    ($point:ident, $body:tt) => {};
}

/// Declares the functions: what they tell, the trace point, and C's function for it.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $kind:ty),*) = $point:ident, $call:ident;
    )*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name<'a>(tell: impl FnOnce() -> (&'a DeviceHandle, $($kind),*)) {
            if_on!($point, {
                let (dev, $($arg),*) = tell();
                emit(dev, |dev| {
                    // SAFETY: the device lives during the call, and all names are C strings.
                    unsafe { b::$call(dev, $($arg.to_c()),*) };
                });
            });
        }
    )* };
}

/// Emits an event that somebody listens to.
#[cold]
#[inline(never)]
fn emit(dev: &DeviceHandle, call: impl FnOnce(*const b::ib_device)) {
    dev.with(|dev| call(dev));
}

type Name = &'static CStr;

events! {
    /// A state transition: event, state before and after it.
    fn qp_state(num: u32, event: Name, from: Name, to: Name) =
        __tracepoint_rsiw_qp_state, rust_do_trace_rsiw_qp_state;

    /// A step of set-up: input, phase before and after it.
    fn setup(conn: u32, input: Name, from: Name, to: Name) =
        __tracepoint_rsiw_setup, rust_do_trace_rsiw_setup;

    /// An event for the consumer of a connection.
    fn setup_event(conn: u32, event: Name, error: i32) =
        __tracepoint_rsiw_setup_event, rust_do_trace_rsiw_setup_event;

    /// A process rang the doorbell, and `actor` sends.
    fn doorbell(num: u32, actor: Name) =
        __tracepoint_rsiw_doorbell, rust_do_trace_rsiw_doorbell;

    /// TCP was given a batch, of which it did not take `left` octets.
    fn batch(num: u32, octets: u32, left: u32, error: i32) =
        __tracepoint_rsiw_batch, rust_do_trace_rsiw_batch;

    /// The other end on this host, queue pair `peer`, was asked to take a segment.
    fn direct(num: u32, peer: u32, outcome: Name) =
        __tracepoint_rsiw_direct, rust_do_trace_rsiw_direct;

    /// An FPDU is in the batch, or is handed to the other end on this host: octets of payload,
    /// whether it is the last of the message.
    fn fpdu_tx(num: u32, opcode: Name, msn: u32, offset: u32, payload: u32, last: bool) =
        __tracepoint_rsiw_fpdu_tx, rust_do_trace_rsiw_fpdu_tx;

    /// An FPDU with a right CRC came in: octets of the ULPDU, whether it is the last of the
    /// message, and from the header: STag and offset, or number and offset of the message.
    fn fpdu_rx(
        num: u32, opcode: Name, ulpdu: u32, last: bool, stag: u32, to: u64, msn: u32, mo: u32
    ) = __tracepoint_rsiw_fpdu_rx, rust_do_trace_rsiw_fpdu_rx;

    /// An access to memory was refused.
    fn refused(num: u32, access: Name, why: Name, stag: u32, addr: u64, len: u32) =
        __tracepoint_rsiw_refused, rust_do_trace_rsiw_refused;

    /// An STag was to be invalidated.
    fn invalidate(num: u32, stag: u32, by: Name, result: Name) =
        __tracepoint_rsiw_invalidate, rust_do_trace_rsiw_invalidate;
}

/// Returns whether somebody listens to [`fpdu_tx`]: for callers that have several FPDUs.
#[inline(always)]
pub(crate) fn is_fpdu_tx_on() -> bool {
    if_on!(__tracepoint_rsiw_fpdu_tx, {
        return true;
    });
    false
}

/// Returns whether somebody listens to what is told of received ULPDUs: [`fpdu_rx`] and
/// [`terminate_rx`].
#[inline(always)]
pub(crate) fn is_ulpdu_rx_on() -> bool {
    if_on!(__tracepoint_rsiw_fpdu_rx, {
        return true;
    });
    if_on!(__tracepoint_rsiw_terminate_rx, {
        return true;
    });
    false
}

/// An event for a Terminate: device, number of the queue pair, code, and what is quoted.
pub(crate) struct TerminateEvent(
    unsafe extern "C" fn(*const b::ib_device, u32, u16, *const u8, usize),
);

impl TerminateEvent {
    pub(crate) fn emit(self, dev: &DeviceHandle, num: u32, code: u16, quote: &[u8]) {
        emit(dev, |dev| {
            // SAFETY: the device lives during the call; so do the octets.
            unsafe { (self.0)(dev, num, code, quote.as_ptr(), quote.len()) };
        });
    }
}

/// Declares the function for a [`TerminateEvent`]: its trace point, and C's function for that.
macro_rules! terminate {
    ($(#[$doc:meta])* fn $name:ident = $point:ident, $call:ident;) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(tell: impl FnOnce(TerminateEvent)) {
            if_on!($point, {
                tell(TerminateEvent(b::$call));
            });
        }
    };
}

terminate! {
    /// A Terminate is in the batch.
    fn terminate_tx = __tracepoint_rsiw_terminate_tx, rust_do_trace_rsiw_terminate_tx;
}

terminate! {
    /// An ULPDU has come in, which may be a Terminate.
    fn terminate_rx = __tracepoint_rsiw_terminate_rx, rust_do_trace_rsiw_terminate_rx;
}

/// A completion was added to a queue: number of the queue pair, the consumer's name for the
/// request, operation, status, octets, why it failed.
#[inline(always)]
pub(crate) fn completion(cq: &CqHandle, tell: impl FnOnce() -> (u32, u64, Name, Name, u32, u32)) {
    if_on!(__tracepoint_rsiw_completion, {
        let (num, id, operation, status, octets, vendor_err) = tell();
        cq.with(|cq| {
            // SAFETY: the handle keeps the queue alive, and the queue keeps its device; names are C
            // strings.
            unsafe {
                b::rust_do_trace_rsiw_completion(
                    (*cq).device,
                    num,
                    id,
                    operation.to_c(),
                    status.to_c(),
                    octets,
                    vendor_err,
                )
            };
        });
    });
}
