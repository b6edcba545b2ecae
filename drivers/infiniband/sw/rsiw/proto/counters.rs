// SPDX-License-Identifier: GPL-2.0

//! What is counted, by device or by queue pair: the table of counters, and who counts what.
//!
//! The table below is the only place that names a counter to the administrator. A half of a
//! connection counts in a [`Tally`] of its own, in memory that its lock guards; whoever runs it
//! moves that to where it is summed up, once for all that was sent or received in one go. What
//! happens rarely is added there at once.
//!
//! Names follow those of other drivers where there are any (`out_of_buffer`, `rx_read_requests`,
//! `resp_remote_access_errors`). Octets are of payload.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::connection::{
    Error,
    Event,
    Log, //
};
use super::failure::{
    Failure,
    Fault, //
};
use super::order::Status;
use super::rx::{
    Action,
    Segment,
    Target, //
};
use super::tx::Kind;
use crate::wire::terminate::{
    Layer,
    TermError, //
};
use core::ffi::CStr;

/// Declares the counters, in the order in which they are shown.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal;)*) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Counter {
            $($(#[$doc])* $counter,)*
        }

        impl Counter {
            /// All of them, each at its index.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$counter,)*];

            /// How the administrator knows it.
            pub(crate) const fn name(self) -> &'static CStr {
                match self {
                    $(Self::$counter => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Sends of all kinds whose last octet was given to TCP.
    TxSends = c"tx_send_requests";
    /// Octets of these.
    TxSendBytes = c"tx_send_bytes";
    /// RDMA Writes.
    TxWrites = c"tx_write_requests";
    /// Octets of these.
    TxWriteBytes = c"tx_write_bytes";
    /// Immediate Data, also that behind an RDMA Write.
    TxImmediates = c"tx_immediates";
    /// Read Requests.
    TxReads = c"tx_read_requests";
    /// Atomic Requests.
    TxAtomics = c"tx_atomic_requests";
    /// Read Responses.
    TxResponses = c"tx_read_responses";
    /// Octets of these.
    TxResponseBytes = c"tx_read_response_bytes";
    /// FPDUs that carry these messages.
    TxFpdus = c"tx_fpdus";
    /// FPDUs of these that went to the other end on this host without TCP.
    TxDirectSegments = c"tx_direct_segments";
    /// Messages whose last segment went so.
    TxDirectMessages = c"tx_direct_messages";
    /// Octets of payload that went so.
    TxDirectBytes = c"tx_direct_bytes";
    /// Calls of TCP, or turns at the other end on this host, by a thread that posts or that changes
    /// the state.
    TxByThread = c"tx_batches_thread";
    /// The same by the urgent work item.
    TxByUrgent = c"tx_batches_urgent";
    /// The same by the patient work item.
    TxByPatient = c"tx_batches_patient";
    /// Runs of the sender that left the rest to another because their budget was used up.
    TxBudget = c"tx_budget_spent";
    /// Sends of all kinds whose last segment passed the protocol's checks.
    RxSends = c"rx_send_requests";
    /// Octets of these, segment by segment.
    RxSendBytes = c"rx_send_bytes";
    /// RDMA Writes.
    RxWrites = c"rx_write_requests";
    /// Octets of these.
    RxWriteBytes = c"rx_write_bytes";
    /// Immediate Data.
    RxImmediates = c"rx_immediates";
    /// Read Requests.
    RxReads = c"rx_read_requests";
    /// Atomic Requests whose operation is known.
    RxAtomics = c"rx_atomic_requests";
    /// Read Responses.
    RxResponses = c"rx_read_responses";
    /// Octets of these.
    RxResponseBytes = c"rx_read_response_bytes";
    /// FPDUs with a right CRC.
    RxFpdus = c"rx_fpdus";
    /// FPDUs of these that the other end on this host has handed over without TCP.
    RxDirectSegments = c"rx_direct_segments";
    /// FPDUs that lay in several socket buffers and were taken in from there.
    RxFpdusJoined = c"rx_fpdus_joined";
    /// FPDUs that were not in one piece and had to be collected in a buffer.
    RxFpdusInPieces = c"rx_fpdus_in_pieces";
    /// Softirqs that left data to the work item because their budget was used up.
    RxSoftirqBudget = c"rx_softirq_budget_spent";
    /// FPDUs with a wrong CRC. Each ends its stream.
    RxCrcErrors = c"rx_crc_errors";
    /// Messages for which there was no receive. Each ends its stream.
    OutOfBuffer = c"out_of_buffer";
    /// Messages that had to wait for a receive.
    RxRecvWaits = c"rx_recv_waits";
    /// Accesses of peers that were refused.
    RemoteAccessErrors = c"resp_remote_access_errors";
    /// Terminates sent, about an error of RDMAP, of DDP, of MPA.
    TxTerminateRdmap = c"tx_terminate_rdmap";
    /// See [`Counter::TxTerminateRdmap`].
    TxTerminateDdp = c"tx_terminate_ddp";
    /// See [`Counter::TxTerminateRdmap`].
    TxTerminateMpa = c"tx_terminate_mpa";
    /// Terminates received, likewise.
    RxTerminateRdmap = c"rx_terminate_rdmap";
    /// See [`Counter::RxTerminateRdmap`].
    RxTerminateDdp = c"rx_terminate_ddp";
    /// See [`Counter::RxTerminateRdmap`]; also those of no known layer.
    RxTerminateMpa = c"rx_terminate_mpa";
    /// Send requests that completed in error.
    SendErrors = c"req_cqe_error";
    /// Those of them that were flushed.
    SendsFlushed = c"req_cqe_flush_error";
    /// Receives that completed in error.
    RecvErrors = c"resp_cqe_error";
    /// Those of them that were flushed.
    RecvsFlushed = c"resp_cqe_flush_error";
    /// Receives that were shorter than their message.
    LengthErrors = c"resp_local_length_error";
    /// Completions for which the queue had no room. Each ends its stream.
    CqOverflows = c"cq_overflows";
    /// Connections that this side asked for.
    ConnAsked = c"conn_asked";
    /// Requests of peers that consumers were told of.
    ConnRequested = c"conn_requested";
    /// Requests that consumers accepted.
    ConnAccepted = c"conn_accepted";
    /// Requests that consumers rejected.
    ConnRejected = c"conn_rejected";
    /// Connections that a peer refused.
    ConnRefused = c"conn_refused";
    /// Connections that came about, begun by either side.
    ConnEstablished = c"conn_established";
    /// Steps of set-up that took too long, of the peer or of a consumer.
    ConnTimedOut = c"conn_timed_out";
    /// Connections that did not come about for another reason.
    ConnFailed = c"conn_failed";
    /// Connections whose TCP was reset, or that lost their peer or their interface.
    ConnLost = c"conn_lost";
}

/// How many counters there are.
pub(crate) const COUNT: usize = Counter::ALL.len();

const _: () = assert!(COUNT <= 64, "a tally marks counters in 64 bits");

impl Counter {
    /// Its place among [`Counter::ALL`].
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        // CAST: the number of a variant.
        self as usize
    }

    /// What an event for the consumer of a connection tells of.
    pub(crate) const fn of_event(event: &Event) -> Option<Self> {
        match event {
            Event::Request { .. } => Some(Self::ConnRequested),
            Event::Reply { error: None, .. } | Event::Established { error: None, .. } => {
                Some(Self::ConnEstablished)
            }
            Event::Reply {
                error: Some(error), ..
            }
            | Event::Established {
                error: Some(error), ..
            } => Some(match error {
                Error::TimedOut => Self::ConnTimedOut,
                Error::Refused => Self::ConnRefused,
                _ => Self::ConnFailed,
            }),
            Event::Disconnect | Event::Close => None,
        }
    }

    /// What a line for the log tells of that no event does.
    pub(crate) const fn of_log(log: &Log) -> Option<Self> {
        match log {
            Log::NoRequest | Log::NotAnswered | Log::NoFirstSegment => Some(Self::ConnTimedOut),
            Log::BadRequest(_) | Log::RequestCut | Log::NoRoom => Some(Self::ConnFailed),
            // An event tells of these, or they are of the consumer's doing.
            Log::EventLost => None,
        }
    }

    /// What an error of this side is about.
    pub(crate) const fn of_failure(failure: &Failure) -> Option<Self> {
        use TermError::*;

        match failure.error {
            MpaCrc => Some(Self::RxCrcErrors),
            UntaggedNoBuffer => Some(Self::OutOfBuffer),
            RemoteStag
            | RemoteBounds
            | RemoteAccess
            | RemoteNotAssociated
            | RemoteWrap
            | RemoteCannotInvalidate
            | TaggedStag
            | TaggedBounds
            | TaggedNotAssociated
            | TaggedWrap => Some(Self::RemoteAccessErrors),
            // With this code the peer is told of a Read that the consumer has not enabled.
            _ if failure.denied => Some(Self::RemoteAccessErrors),
            _ => None,
        }
    }

    /// What a Terminate about `error` counts as that is sent.
    pub(crate) const fn of_terminate(error: TermError) -> Self {
        match Layer::of(error.code()) {
            Some(Layer::Rdmap) => Self::TxTerminateRdmap,
            Some(Layer::Ddp) => Self::TxTerminateDdp,
            Some(Layer::Mpa) | None => Self::TxTerminateMpa,
        }
    }

    /// What a completed send request counts as, besides its message.
    #[inline]
    pub(crate) const fn of_send(status: Status<Fault>) -> [Option<Self>; 2] {
        match status {
            Status::Success => [None, None],
            Status::Flushed => [Some(Self::SendErrors), Some(Self::SendsFlushed)],
            Status::Failed(_) => [Some(Self::SendErrors), None],
        }
    }

    /// The same for a receive.
    #[inline]
    pub(crate) const fn of_recv(status: Status<Fault>) -> [Option<Self>; 2] {
        match status {
            Status::Success => [None, None],
            Status::Flushed => [Some(Self::RecvErrors), Some(Self::RecvsFlushed)],
            Status::Failed(Fault::LocalLength) => {
                [Some(Self::RecvErrors), Some(Self::LengthErrors)]
            }
            Status::Failed(_) => [Some(Self::RecvErrors), None],
        }
    }
}

/// Counts that were not summed up yet. Under the lock of what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    counts: [u64; COUNT],
    /// A bit for each counter that was added to.
    marks: u64,
}

impl Tally {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self {
            counts: [0; COUNT],
            marks: 0,
        }
    }

    /// Adds `n`.
    #[inline(always)]
    pub(crate) fn add(&mut self, counter: Counter, n: u64) {
        if let Some(count) = self.counts.get_mut(counter.index()) {
            *count = count.wrapping_add(n);
        }
        // CAST: less than 64.
        self.marks |= 1u64.wrapping_shl(counter.index() as u32);
    }

    /// All counts, for who moves those of the marked ones elsewhere and sets them to zero; `None`
    /// if there is nothing to move.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(&mut [u64; COUNT], u64)> {
        let marks = core::mem::take(&mut self.marks);
        (marks != 0).then_some((&mut self.counts, marks))
    }

    /// A message of `kind` and so many octets of payload is in the batch.
    #[inline(always)]
    pub(crate) fn sent(&mut self, kind: &Kind, octets: u32) {
        match kind {
            Kind::Send { .. } => {
                self.add(Counter::TxSends, 1);
                self.add(Counter::TxSendBytes, octets.into());
            }
            Kind::Write { .. } => {
                self.add(Counter::TxWrites, 1);
                self.add(Counter::TxWriteBytes, octets.into());
            }
            Kind::Immediate { .. } => self.add(Counter::TxImmediates, 1),
            Kind::ReadRequest(_) => self.add(Counter::TxReads, 1),
            Kind::AtomicRequest(_) => self.add(Counter::TxAtomics, 1),
            Kind::AtomicResponse(_) => {}
            Kind::ReadResponse(_) => {
                self.add(Counter::TxResponses, 1);
                self.add(Counter::TxResponseBytes, octets.into());
            }
        }
    }

    /// A segment with `octets` of payload was handed over, the last of its message or not.
    #[inline]
    pub(crate) fn handed_over(&mut self, octets: u32, is_last: bool) {
        self.add(Counter::TxDirectSegments, 1);
        self.add(Counter::TxDirectMessages, is_last.into());
        self.add(Counter::TxDirectBytes, octets.into());
    }

    /// A segment has passed the protocol's checks.
    #[inline]
    pub(crate) fn received(&mut self, segment: &Segment) {
        let octets = segment.payload_len.into();
        match segment.action {
            // The receiver counts Atomic Requests that it can read.
            Action::Ignore | Action::AtomicRequest { .. } | Action::AtomicResponse(_) => {}
            Action::Write { last, .. } => {
                self.add(Counter::RxWrites, last.into());
                self.add(Counter::RxWriteBytes, octets);
            }
            Action::ReadResponse { last, .. } => {
                self.add(Counter::RxResponses, last.into());
                self.add(Counter::RxResponseBytes, octets);
            }
            Action::Send { last, .. } => {
                self.add(Counter::RxSends, last.into());
                self.add(Counter::RxSendBytes, octets);
            }
            Action::Immediate { .. } => self.add(Counter::RxImmediates, 1),
            Action::ReadRequest { .. } => self.add(Counter::RxReads, 1),
            Action::Terminate { code, .. } => self.add(
                match Layer::of(code) {
                    Some(Layer::Rdmap) => Counter::RxTerminateRdmap,
                    Some(Layer::Ddp) => Counter::RxTerminateDdp,
                    Some(Layer::Mpa) | None => Counter::RxTerminateMpa,
                },
                1,
            ),
        }
    }

    /// Segments with `octets` of payload went on with a message that goes to `target`.
    #[inline]
    pub(crate) fn went_on(&mut self, target: Target, octets: u32) {
        let bytes = match target {
            Target::Write(..) => Counter::RxWriteBytes,
            Target::Response(..) => Counter::RxResponseBytes,
            Target::Receive(_) => Counter::RxSendBytes,
        };
        self.add(bytes, octets.into());
    }

    /// A Terminate about `error` is in the batch.
    pub(crate) fn terminate_sent(&mut self, error: TermError) {
        self.add(Counter::of_terminate(error), 1);
    }
}
