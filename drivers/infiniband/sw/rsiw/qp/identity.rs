// SPDX-License-Identifier: GPL-2.0

//! The identity of a queue pair ([`QpIdentity`]): what never changes, and is read without a lock.
//! Its consumer is a part of it ([`Consumer`]).
//!
//! Whoever needs no more than the identity uses the methods of this file: who may call the QP,
//! lines in the log, and trace events. Access to memory on behalf of the QP is in `memory.rs`.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use crate::cq::{
    Cq,
    Spare, //
};
use crate::device::{
    Device,
    Pd, //
};
use crate::ffi::mm::ring::{
    Position,
    SharedRing,
    SharedWord, //
};
use crate::ffi::mm::Payer;
use crate::ffi::rdma::attr::{
    QpCap,
    Qpn, //
};
use crate::ffi::rdma::handle::QpHandle;
use crate::ffi::rdma::iwcm::CallId;
use crate::ffi::rdma::udata::MmapEntry;
use crate::ffi::rsiw::trace;
use crate::ffi::task::{
    is_kernel_thread,
    Identity,
    Thread, //
};
use crate::log::Author;
use crate::mr::access::{
    Access,
    MrError, //
};
use crate::mr::window::{
    Binder,
    Party, //
};
use crate::mr::{
    By,
    PdId, //
};
use crate::proto::deframer::FPDU_FRONT;
use crate::proto::drain::Stop;
use crate::proto::failure::Failure;
use crate::proto::message::{
    Frame,
    Message, //
};
use crate::proto::schedule::Actor;
use crate::proto::state::{
    QpEvent,
    QpState, //
};
use crate::qp::sq::kernel::KernelSq;
use crate::queue::shared::{
    valid_from,
    Made, //
};
use crate::queue::Slots;
use crate::srq::Srq;
use crate::wire::ddp::{
    Header,
    Stag,
    UNTAGGED_LEN, //
};
use crate::wire::rdmap::{
    Control,
    Opcode, //
};
use crate::wire::terminate::{
    self,
    TermError,
    Terminate,
    CONTROL_LEN,
    MAX_ULPDU, //
};
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    new_mutex,
    new_spinlock_irq,
    Arc,
    Mutex,
    SpinLockIrq, //
};

/// What never changes about a queue pair.
pub(crate) struct QpIdentity {
    /// Set once, when the QP is entered in the device's table.
    pub(super) num: Atomic<Qpn>,
    pub(super) dev: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    pub(crate) handle: Arc<QpHandle>,
    /// The sizes that the QP was made with.
    pub(super) cap: QpCap,
    /// Whether all requests are signalled.
    pub(super) sig_all: bool,
    pub(super) consumer: Consumer,
    /// Who pays for what a connection needs: the process that made the QP.
    pub(crate) payer: Payer,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    pub(super) srq: Option<Arc<Srq>>,
    /// Identifies the QP to windows.
    pub(super) binder: Arc<Binder>,
}

impl QpIdentity {
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// Returns whether a consumer in the kernel made the QP.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.consumer, Consumer::Kernel(_))
    }

    /// Returns whether the QP cannot belong to the caller. Process context.
    pub(crate) fn is_of_others(&self) -> bool {
        self.consumer.is_not_the_caller()
    }

    /// Returns whether the caller may connect the QP by `id`. Others must not get hold of the QP by
    /// its number. A QP of a process belongs to that process. A QP of the kernel has no owner to
    /// compare with: it belongs to the identifier that it was made for.
    pub(crate) fn is_callers(&self, id: CallId<'_>) -> bool {
        match (&self.consumer, id.made(&self.handle)) {
            (Consumer::Process(process), None) => process.owner.is_current(),
            (Consumer::Kernel(_), Some(made)) => made,
            _ => false,
        }
    }

    /// Returns the queue pair as memory windows know it.
    pub(super) fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Returns the protection domain of the memory of receives: that of their queue (V-PD-7).
    pub(super) fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    pub(super) fn max_recv_sge(&self) -> u32 {
        match &self.srq {
            Some(srq) => srq.max_sge(),
            None => self.cap.max_recv_sge,
        }
    }

    /// Logs why this side ends the stream: an error of its consumer, or of the peer.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let author = match failure.error {
            TermError::LocalCatastrophic => self.own_author(),
            _ => self.peer_author(),
        };
        let detail = failure.detail.unwrap_or("");
        let separator = failure.detail.map_or("", |_| ": ");
        let (num, error, code) = (self.num(), failure.error, failure.error.code());
        self.dev.log(
            author,
            fmt!("QP {num}: ends the stream: {detail}{separator}{error:?} (Terminate {code:#06x})"),
        );
    }

    /// Logs that the peer has ended the stream.
    pub(super) fn log_terminate(&self, code: u16) {
        self.log_peer(fmt!("the peer ends the stream (Terminate {code:#06x})"));
    }

    /// Logs what the peer of this queue pair can cause.
    pub(super) fn log_peer(&self, line: fmt::Arguments<'_>) {
        let num = self.num();
        self.dev.log(self.peer_author(), fmt!("QP {num}: {line}"));
    }

    /// Returns who can cause lines about what this side does.
    fn own_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::Process,
            Consumer::Kernel(_) => Author::Kernel,
        }
    }

    /// Returns who can cause lines about what the peer does.
    pub(crate) fn peer_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::PeerOfProcess,
            Consumer::Kernel(_) => Author::PeerOfKernel,
        }
    }
}

/// Where the quote begins in a Terminate's ULPDU: length and headers of the segment at fault.
const QUOTE_AT: usize = UNTAGGED_LEN + CONTROL_LEN;

impl QpIdentity {
    #[inline(always)]
    pub(super) fn trace_state(&self, event: &QpEvent, from: QpState, to: QpState) {
        let (event, from, to) = (event.name(), from.name(), to.name());
        trace::qp_state(|| (self.dev.handle(), self.num().0, event, from, to));
    }

    /// Traces who sends upon a doorbell.
    #[inline(always)]
    pub(super) fn trace_doorbell(&self, actor: Actor) {
        trace::doorbell(|| (self.dev.handle(), self.num().0, actor.name()));
    }

    /// Traces that TCP was given a batch of `octets`, and did not take the last `left` of them.
    #[inline(always)]
    pub(super) fn trace_batch(&self, octets: usize, left: usize, sent: Result<usize>) {
        trace::batch(|| {
            let number = |n| u32::try_from(n).unwrap_or(u32::MAX);
            let error = sent.map_or_else(|e| e.to_errno(), |_| 0);
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, number(octets), number(left), error)
        });
    }

    /// Traces that the QP at the other end, on this host, was asked to take a segment.
    #[inline(always)]
    pub(super) fn trace_direct<'a>(
        &self,
        peer: impl FnOnce() -> &'a Self,
        answer: &Result<bool, Stop>,
    ) {
        trace::direct(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, peer().num().0, Stop::name_of(answer))
        });
    }

    /// Traces the FPDU of `frame` and equally long ones behind it, `count` in all.
    #[inline(always)]
    pub(super) fn trace_fpdus(&self, message: &Message, frame: &Frame, count: u32) {
        if trace::is_fpdu_tx_on() {
            self.trace_each_fpdu(message, *frame, count);
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_each_fpdu(&self, message: &Message, mut frame: Frame, count: u32) {
        for _ in 0..count {
            self.trace_fpdu(message, &frame);
            frame = frame.next();
        }
    }

    fn trace_fpdu(&self, message: &Message, frame: &Frame) {
        trace::fpdu_tx(|| {
            let opcode = Opcode::name_of(Some(message.kind().opcode()));
            let (msn, payload) = (message.msn().0, frame.payload.into());
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, opcode, msn, frame.offset, payload, frame.last)
        });
    }

    /// Traces a Terminate that was put into the batch.
    #[inline(always)]
    pub(super) fn trace_terminate(&self, message: &Terminate) {
        trace::terminate_tx(|event| {
            let mut ulpdu = [0; MAX_ULPDU];
            let len = message.emit(&mut ulpdu).into();
            let quote = ulpdu.get(QUOTE_AT..len).unwrap_or(&[]);
            event.emit(self.dev.handle(), self.num().0, message.error.code(), quote);
        });
    }

    /// Traces the ULPDU that a train took in last; `front` returns the first octets of its FPDU.
    #[inline(always)]
    pub(super) fn trace_train(&self, front: impl FnOnce() -> Option<[u8; FPDU_FRONT]>) {
        if trace::is_ulpdu_rx_on() {
            self.trace_front(front());
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_front(&self, front: Option<[u8; FPDU_FRONT]>) {
        if let Some(([hi, lo], head)) = front.as_ref().and_then(|front| front.split_first_chunk()) {
            self.trace_ulpdu(head, u16::from_be_bytes([*hi, *lo]));
        }
    }

    /// Traces a received ULPDU of `len` octets that begins with `head`.
    #[inline(always)]
    pub(super) fn trace_ulpdu(&self, head: &[u8], len: u16) {
        self.trace_terminate_received(head);
        trace::fpdu_rx(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            let Some((header, _)) = Header::parse(head) else {
                return (dev, num, c"cut", len.into(), false, 0, 0, 0, 0);
            };
            let opcode = Opcode::name_of(Control(header.rdmap()).opcode());
            let last = header.control().last();
            let (stag, to, msn, mo) = match header {
                Header::Tagged(h) => (h.stag.get(), h.to.get(), 0, 0),
                Header::Untagged(h) => (h.invalidate.get(), 0, h.msn.get(), h.mo.get()),
            };
            (dev, num, opcode, len.into(), last, stag, to, msn, mo)
        });
    }

    /// Traces the received ULPDU that begins with `head` if it is a Terminate.
    #[inline(always)]
    fn trace_terminate_received(&self, head: &[u8]) {
        trace::terminate_rx(|event| {
            let code = match Header::parse(head) {
                Some((header, payload))
                    if Control(header.rdmap()).opcode() == Some(Opcode::Terminate) =>
                {
                    terminate::Received::parse(payload).map(|received| received.code)
                }
                _ => None,
            };
            if let Some(code) = code {
                let quote = head.get(QUOTE_AT..).unwrap_or(&[]);
                event.emit(self.dev.handle(), self.num().0, code, quote);
            }
        });
    }

    #[cold]
    pub(super) fn trace_refused(&self, want: Access, why: MrError, at: (Stag, u64), len: u32) {
        let (stag, addr) = at;
        trace::refused(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, want.name(), why.name(), stag.0, addr, len)
        });
    }

    /// Traces the attempt to invalidate an STag.
    #[inline(always)]
    pub(super) fn trace_invalidate(
        &self,
        stag: Stag,
        by: By,
        result: core::result::Result<(), MrError>,
    ) {
        trace::invalidate(|| {
            let by: &CStr = match by {
                By::Peer => c"peer",
                By::Consumer => c"consumer",
            };
            let result = result.map_or_else(MrError::name, |()| c"done");
            (self.dev.handle(), self.num().0, stag.0, by, result)
        });
    }
}

pub(super) enum Consumer {
    Process(OfProcess),
    Kernel(OfKernel),
}

/// What a process has: rings that it maps.
pub(super) struct OfProcess {
    /// The only process that may connect the QP.
    pub(super) owner: Identity,
    /// The thread that has made the QP.
    pub(super) thread: Thread,
    pub(super) rings: Pin<KBox<ProcessRings>>,
    /// Whether its completions have room for immediate data.
    pub(super) takes_immediate: bool,
    /// Whether they also have room for immediate data that come with a Send.
    pub(super) takes_send_immediate: bool,
}

/// The offers to map rings.
pub(super) struct Offers {
    pub(super) send: MmapEntry,
    /// `None` if the receive queue is shared.
    pub(super) recv: Option<MmapEntry>,
}

impl Offers {
    /// Returns the keys of both, 0 where there is none.
    pub(super) fn keys(&self) -> (u64, u64) {
        let recv = self.recv.as_ref();
        (self.send.key(), recv.map_or(0, MmapEntry::key))
    }
}

/// Own rings that the queues of a process may go on in.
pub(super) struct NewRings {
    pub(super) sq: SharedRing,
    /// `None` if the receive queue is shared.
    pub(super) rq: Option<SharedRing>,
    /// The word behind the entries of `rq`, if the process knows of it.
    pub(super) word: Option<SharedWord>,
    pub(super) offers: Offers,
}

/// The offers to map the rings in use, and rings that were made for a move.
pub(super) struct OfferedRings {
    pub(super) offers: Offers,
    pub(super) made: Made<NewRings>,
}

/// The rings of a process.
#[pin_data]
pub(super) struct ProcessRings {
    /// Locked while the rings are replaced.
    #[pin]
    pub(super) offered: Mutex<OfferedRings>,
    /// The send queue for those who describe the QP. Besides them, only a resize takes this lock.
    #[pin]
    pub(super) posted: SpinLockIrq<SharedRing>,
}

impl ProcessRings {
    pub(super) fn new(offers: Offers, posted: SharedRing) -> Result<Pin<KBox<Self>>> {
        let offered = OfferedRings {
            offers,
            made: Made::NONE,
        };
        KBox::pin_init(
            pin_init!(Self {
                offered <- new_mutex!(offered, "rsiw::ProcessRings::offered"),
                posted <- new_spinlock_irq!(posted, "rsiw::ProcessRings::posted"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

/// What a consumer in the kernel has: queues in private memory.
pub(super) struct OfKernel {
    /// The process in whose call the QP was made; it may be a thread of the kernel.
    pub(super) maker: Identity,
    pub(super) posted: Arc<KernelSq>,
    pub(super) send_slots: Arc<Slots>,
    /// The slots of its own receive queue, or of the shared one.
    pub(super) recv_slots: Option<Arc<Slots>>,
    /// Room for completions of requests that the consumer did not count: those beyond the depth
    /// that it asked for.
    pub(super) spare: Spare,
}

impl Consumer {
    /// Returns whether the calling process cannot be the consumer. A consumer in the kernel calls
    /// in a thread of the kernel, which no process has, or in the process whose call made the QP,
    /// such as one that mounts a file system. Process context.
    pub(super) fn is_not_the_caller(&self) -> bool {
        match self {
            Self::Process(process) => !process.owner.is_current(),
            Self::Kernel(kernel) => !is_kernel_thread() && !kernel.maker.is_current(),
        }
    }

    /// Returns the thread of a process that has made the QP.
    pub(super) fn thread(&self) -> Option<&Thread> {
        match self {
            Self::Process(process) => Some(&process.thread),
            Self::Kernel(_) => None,
        }
    }

    pub(super) fn rings(&self) -> Option<&ProcessRings> {
        match self {
            Self::Process(process) => Some(&process.rings),
            Self::Kernel(_) => None,
        }
    }

    pub(super) fn kernel(&self) -> Option<&OfKernel> {
        match self {
            Self::Process(_) => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// Returns whether completions have room for immediate data.
    pub(super) fn takes_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_immediate,
            Self::Kernel(_) => true,
        }
    }

    /// Returns whether the consumer can be told of immediate data that come with a Send. Consumers
    /// in the kernel cannot, as they do not connect by number.
    pub(super) fn takes_send_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_send_immediate,
            Self::Kernel(_) => false,
        }
    }

    /// Returns the slots of the send queue, which completions free.
    pub(super) fn send_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel().map(|kernel| &kernel.send_slots)
    }

    pub(super) fn recv_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel()?.recv_slots.as_ref()
    }

    /// Returns whether requests seem to wait in the send queue; `next` is the number of a process's
    /// next request. Takes no lock of those who post or send.
    pub(super) fn has_posted(&self, next: u32) -> bool {
        match self {
            Self::Process(process) => {
                valid_from(&process.rings.posted.lock(), Position::of(next), 1) != 0
            }
            Self::Kernel(kernel) => !kernel.posted.seems_empty(),
        }
    }

    /// Returns the depth of the send queue, for a consumer in the kernel the one that it asked for.
    /// Takes no lock of those who post or send.
    pub(super) fn send_depth(&self) -> u32 {
        match self {
            Self::Process(process) => process.rings.posted.lock().len(),
            Self::Kernel(kernel) => kernel.posted.asked(),
        }
    }

    /// Returns the keys by which the send queue and the receive queue are mapped, 0 where there is
    /// none. Process context.
    pub(super) fn keys(&self) -> (u64, u64) {
        match self {
            Self::Process(process) => process.rings.offered.lock().offers.keys(),
            Self::Kernel(_) => (0, 0),
        }
    }

    /// Withdraws the offers to map the rings. Process context.
    pub(super) fn forget_rings(&self) {
        if let Self::Process(process) = self {
            let mut offered = process.rings.offered.lock();
            offered.made.forget();
            offered.offers.send.remove();
            if let Some(recv) = &offered.offers.recv {
                recv.remove();
            }
        }
    }
}
