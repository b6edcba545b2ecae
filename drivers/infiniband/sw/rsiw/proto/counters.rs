// SPDX-License-Identifier: GPL-2.0

//! The counters of devices and queue pairs: their table, and what counts as what. Any context.
//!
//! Each half of a connection counts in a [`Tally`] of its own, in memory that its lock guards.
//! Whoever runs a half adds its tally to the sums, once for all that was sent or received in one
//! go. What happens rarely is added to the sums at once.
//!
//! Names follow those of other drivers where there are any (`out_of_buffer`, `rx_read_requests`,
//! `resp_remote_access_errors`). Only octets of payload are counted.
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
use super::message::Kind;
use super::segment::{
    Action,
    Segment,
    Target, //
};
use super::sends::Status;
use super::state::{
    async_class,
    Async, //
};
use crate::wire::terminate::TermError;
use core::ffi::CStr;

/// Declares the counters, in the order in which they are shown, with the administrator's names.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Counter {
            $($(#[$doc])* $counter,)*
        }

        impl Counter {
            /// All counters, each at its index.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$counter,)*];

            pub(crate) const fn name(self) -> &'static CStr {
                match self {
                    $(Self::$counter => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Sends of all kinds. A message is counted once all of it is in the batch or handed over.
    TxSends = c"tx_send_requests";
    TxSendBytes = c"tx_send_bytes";
    TxWrites = c"tx_write_requests";
    TxWriteBytes = c"tx_write_bytes";
    /// Messages of Immediate Data, alone or behind an RDMA Write.
    TxImmediates = c"tx_immediates";
    TxReads = c"tx_read_requests";
    TxAtomics = c"tx_atomic_requests";
    TxResponses = c"tx_read_responses";
    TxResponseBytes = c"tx_read_response_bytes";
    /// FPDUs of all messages above.
    TxFpdus = c"tx_fpdus";
    /// The part of these FPDUs that went to the other end on this host without TCP.
    TxDirectSegments = c"tx_direct_segments";
    /// Messages whose last segment went to the other end without TCP.
    TxDirectMessages = c"tx_direct_messages";
    TxDirectBytes = c"tx_direct_bytes";
    /// Calls of TCP, or turns at the other end on this host, in three counters: by threads that
    /// post, poll or change the state, by the urgent, and by the patient work item.
    TxByThread = c"tx_batches_thread";
    TxByUrgent = c"tx_batches_urgent";
    TxByPatient = c"tx_batches_patient";
    /// Runs of the sender that left the rest to another because their budget was used up.
    TxBudget = c"tx_budget_spent";
    /// Sends of all kinds whose last segment passed the protocol's checks.
    RxSends = c"rx_send_requests";
    /// Octets of these Sends, counted segment by segment.
    RxSendBytes = c"rx_send_bytes";
    RxWrites = c"rx_write_requests";
    RxWriteBytes = c"rx_write_bytes";
    RxImmediates = c"rx_immediates";
    RxReads = c"rx_read_requests";
    /// Atomic Requests whose operation is known.
    RxAtomics = c"rx_atomic_requests";
    RxResponses = c"rx_read_responses";
    RxResponseBytes = c"rx_read_response_bytes";
    /// FPDUs whose CRC is right, if they have one.
    RxFpdus = c"rx_fpdus";
    /// The part of these FPDUs that the other end on this host handed over without TCP.
    RxDirectSegments = c"rx_direct_segments";
    /// FPDUs that lay in several socket buffers and were taken in from there.
    RxFpdusJoined = c"rx_fpdus_joined";
    /// FPDUs that had to be collected in a buffer.
    RxFpdusInPieces = c"rx_fpdus_in_pieces";
    /// Softirqs that left data to the work item because their budget was used up.
    RxSoftirqBudget = c"rx_softirq_budget_spent";
    RxCrcErrors = c"rx_crc_errors";
    /// Connections that ended because a key of TLS had been used for long enough.
    TlsKeysUsedUp = c"tls_keys_used_up";
    /// Messages for which there was no receive. Each ends its stream.
    OutOfBuffer = c"out_of_buffer";
    /// Messages that had to wait for a receive.
    RxRecvWaits = c"rx_recv_waits";
    /// Accesses of peers that this side refused.
    RemoteAccessErrors = c"resp_remote_access_errors";
    /// Terminates sent, by the layer of their error.
    TxTerminateRdmap = c"tx_terminate_rdmap";
    TxTerminateDdp = c"tx_terminate_ddp";
    TxTerminateMpa = c"tx_terminate_mpa";
    /// Terminates received, by the layer of their error; an unknown layer counts as MPA.
    RxTerminateRdmap = c"rx_terminate_rdmap";
    RxTerminateDdp = c"rx_terminate_ddp";
    RxTerminateMpa = c"rx_terminate_mpa";
    /// Send requests that completed in error. The second counter has those that were flushed.
    SendErrors = c"req_cqe_error";
    SendsFlushed = c"req_cqe_flush_error";
    /// Receives that completed in error. The second counter has those that were flushed.
    RecvErrors = c"resp_cqe_error";
    RecvsFlushed = c"resp_cqe_flush_error";
    /// Receives that were shorter than their message.
    LengthErrors = c"resp_local_length_error";
    /// Completions for which the queue had no room. Each ends its stream.
    CqOverflows = c"cq_overflows";
    // The counters from here on are in no tally: see [`TALLIED`].
    /// Connections that this side asked for.
    ConnAsked = c"conn_asked";
    /// Requests of peers that consumers were told of, and how the consumers answered.
    ConnRequested = c"conn_requested";
    ConnAccepted = c"conn_accepted";
    ConnRejected = c"conn_rejected";
    /// Connections that a peer refused, or that nobody listened for.
    ConnRefused = c"conn_refused";
    /// Connections that came about, from either side.
    ConnEstablished = c"conn_established";
    /// Steps of set-up in which the peer or a consumer took too long.
    ConnTimedOut = c"conn_timed_out";
    /// Connections that did not come about for another reason.
    ConnFailed = c"conn_failed";
    /// Connections whose TCP was reset, or that lost their peer or their interface.
    ConnLost = c"conn_lost";
    /// Queue pairs that are connected by number and whose peer this side has called, and the calls
    /// that were repeated.
    QpDialed = c"qp_dialed";
    QpRedialed = c"qp_redialed";
    /// Requests for queue pairs that are connected by number: those that came before the queue pair
    /// was ready, and those that were refused.
    QpParked = c"qp_parked";
    QpRefused = c"qp_refused";
    /// Datagrams that were sent, that were received, and that were dropped: this host could not
    /// send them, or no queue pair took them.
    TxDatagrams = c"tx_datagrams";
    RxDatagrams = c"rx_datagrams";
    DatagramsDropped = c"datagrams_dropped";
}

pub(crate) const COUNT: usize = Counter::ALL.len();

/// How many counters a tally has: the first ones. The others are about set-up and datagrams, which
/// no half of a connection counts.
pub(crate) const TALLIED: usize = Counter::ConnAsked.index();

const _: () = assert!(TALLIED <= 64, "a tally marks counters in 64 bits");

impl Counter {
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        // CAST: the number of a variant.
        self as usize
    }

    /// Returns the counter of an event for the consumer of a connection.
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

    /// Returns the counter of a line for the log, unless an event tells the same.
    pub(crate) const fn of_log(log: &Log) -> Option<Self> {
        match log {
            Log::NoRequest | Log::NotAnswered => Some(Self::ConnTimedOut),
            Log::BadRequest(_) | Log::RequestCut | Log::NoRoom => Some(Self::ConnFailed),
            // An event tells the same, and is counted.
            Log::EventLost | Log::NoFirstSegment => None,
        }
    }

    /// Returns the counter of an error of this side.
    pub(crate) const fn of_failure(failure: &Failure) -> Option<Self> {
        match failure.error {
            TermError::MpaCrc => Some(Self::RxCrcErrors),
            TermError::UntaggedNoBuffer => Some(Self::OutOfBuffer),
            // A peer may lack a right although the code says something else: see `denied`.
            error if failure.denied || matches!(async_class(error), Async::Access) => {
                Some(Self::RemoteAccessErrors)
            }
            _ => None,
        }
    }

    /// Returns the counters of a Terminate with this code, `0xLTCC`: one for Terminates that were
    /// sent, and one for those that were received.
    pub(crate) const fn of_terminate(code: u16) -> (Self, Self) {
        match code >> 12 {
            0 => (Self::TxTerminateRdmap, Self::RxTerminateRdmap),
            1 => (Self::TxTerminateDdp, Self::RxTerminateDdp),
            _ => (Self::TxTerminateMpa, Self::RxTerminateMpa),
        }
    }

    /// Returns the counters of a completed send request, besides those of its message.
    #[inline]
    pub(crate) const fn of_send(status: Status<Fault>) -> [Option<Self>; 2] {
        match status {
            Status::Success => [None, None],
            Status::Flushed => [Some(Self::SendErrors), Some(Self::SendsFlushed)],
            Status::Failed(_) => [Some(Self::SendErrors), None],
        }
    }

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

/// Counts that are not in the sums yet. Under the lock of the half that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    counts: [u64; TALLIED],
    /// A bit for each counter that was added to.
    marks: u64,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            counts: [0; TALLIED],
            marks: 0,
        }
    }

    /// Adds to one of the first [`TALLIED`] counters; does nothing for another.
    #[inline(always)]
    pub(crate) fn add(&mut self, counter: Counter, n: u64) {
        if let Some(count) = self.counts.get_mut(counter.index()) {
            *count = count.wrapping_add(n);
            // CAST: less than 64.
            self.marks |= 1u64.wrapping_shl(counter.index() as u32);
        }
    }

    /// Returns all counts and the marks, or `None` if there are none. The caller adds the marked
    /// counts to the sums, and sets them to zero.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(&mut [u64; TALLIED], u64)> {
        let marks = core::mem::take(&mut self.marks);
        (marks != 0).then_some((&mut self.counts, marks))
    }

    /// Counts a message of `kind` with `octets` of payload, all of which is in the batch.
    #[inline(always)]
    pub(crate) fn sent(&mut self, kind: &Kind, octets: u32) {
        match kind {
            Kind::Send { .. } | Kind::SendImmediate { .. } => {
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

    /// Counts a segment that was handed over, with `octets` of payload.
    #[inline]
    pub(crate) fn handed_over(&mut self, octets: u32, is_last: bool) {
        self.add(Counter::TxDirectSegments, 1);
        self.add(Counter::TxDirectMessages, is_last.into());
        self.add(Counter::TxDirectBytes, octets.into());
    }

    /// Counts a segment that has passed the protocol's checks.
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
            Action::Terminate {
                placed: Some(_), ..
            } => {}
            Action::Terminate { code, .. } => {
                let (_, received) = Counter::of_terminate(code);
                self.add(received, 1);
            }
        }
    }

    /// Counts segments that went on with a message for `target`, with `octets` of payload.
    #[inline]
    pub(crate) fn went_on(&mut self, target: Target, octets: u32) {
        let bytes = match target {
            Target::Write(..) => Counter::RxWriteBytes,
            Target::Response(..) => Counter::RxResponseBytes,
            Target::Receive(_) => Counter::RxSendBytes,
        };
        self.add(bytes, octets.into());
    }

    pub(crate) fn terminate_sent(&mut self, error: TermError) {
        let (sent, _) = Counter::of_terminate(error.code());
        self.add(sent, 1);
    }
}
