// SPDX-License-Identifier: GPL-2.0

//! Queue pairs for unreliable datagrams (UD), of processes with own rings. They have nothing in
//! common with those that have a stream: [`UdQp`] sends in the call of the process, or in a work
//! item, by a socket of its own; the ports of the device ([`ports`]) receive, and find a queue pair
//! by its number.
//!
//! A process names in each request where the datagram goes: an address handle is a matter of its
//! library. The states and the packets are in `proto::datagram`.
//!
//! Locks: `UdQp::sending`, or `UdQp::receiving` > `UdQp::steps`; none is held while a completion is
//! told. Nobody waits for room in a socket: whoever finds none leaves the rest to the work item,
//! which the socket's callback queues.
//!
//! Context: process; softirq where datagrams are received.
#![forbid(unsafe_code)]

pub(crate) mod ports;
mod rq;
mod sq;

use self::ports::UdPorts;
use self::rq::UdRq;
use self::sq::{
    UdSender,
    UdSq, //
};
use crate::abi::own::{
    self,
    Features, //
};
use crate::abi::{
    CreateQpResp,
    Rings, //
};
use crate::cq::{
    Completion,
    Cq,
    Overflow, //
};
use crate::device::Pd;
use crate::ffi::net::udp::{
    Readiness,
    UdpHandler,
    UdpSocket, //
};
use crate::ffi::rdma::attr::{
    AccessFlags,
    AsyncEvent,
    IbQpState,
    QpCap,
    QpModify,
    QpPath,
    QpQuery,
    Qpn, //
};
use crate::ffi::rdma::handle::QpHandle;
use crate::ffi::rdma::udata::{
    MmapEntry,
    Udata, //
};
use crate::limits::{
    fit,
    Quota, //
};
use crate::log::Author;
use crate::proto::counters::Counter;
use crate::proto::datagram::{
    UdAttrs,
    UdState, //
};
use crate::proto::drain::Drained;
use crate::proto::failure::{
    Cause,
    Fault, //
};
use crate::proto::receiver::Extra;
use crate::proto::request::OperationType;
use crate::proto::sends::Status;
use crate::qp::Table;
use crate::queue::rq::{
    Rq,
    UserRq, //
};
use crate::queue::shared::{
    new_recv_ring,
    new_ring, //
};
use crate::srq::Srq;
use core::ops::RangeInclusive;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::barrier::smp_mb;
use kernel::sync::{
    new_mutex,
    new_spinlock_irq,
    Arc,
    ArcBorrow,
    Mutex,
    SpinLockIrq, //
};
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// Numbers of these queue pairs: the upper half. Those with a stream have the lower one.
pub(crate) const NUMBERS: RangeInclusive<u32> = 0x80_0000..=0xff_fffe;

/// Queue pairs for datagrams by number.
pub(crate) type UdQpTable = Table<UdQp>;

/// The existing objects that a queue pair is made of.
pub(crate) struct UdParts {
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) features: Features,
}

#[pin_data]
pub(crate) struct UdQp {
    /// Set once, before anybody else knows of the queue pair.
    num: Atomic<Qpn>,
    ports: Arc<UdPorts>,
    handle: Arc<QpHandle>,
    pd: Arc<Pd>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    srq: Option<Arc<Srq>>,
    cap: QpCap,
    sig_all: bool,
    send_offer: MmapEntry,
    /// `None` with a shared receive queue.
    recv_offer: Option<MmapEntry>,
    /// [`UdAttrs`]. Changes under `steps`.
    attrs: Atomic<u64>,
    /// What the consumer has set, which a query returns. The lock also keeps steps apart.
    #[pin]
    steps: SpinLockIrq<QpPath>,
    #[pin]
    sending: Mutex<UdSq>,
    /// A request waits for room in the socket.
    waits: Atomic<bool>,
    #[pin]
    receiving: SpinLockIrq<UdRq>,
    /// Goes on with what a call has left.
    #[pin]
    work: Work<Self>,
    _quota: Quota,
}

impl_has_work! {
    impl HasWork<Self> for UdQp { self.work }
}

impl UdQp {
    /// Creates a queue pair for the calling process; replaces the sizes that are asked for in `cap`
    /// by those given.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for consumers that have no own rings, and where datagrams are switched off or
    /// would go past TLS. `EINVAL` for sizes beyond the maxima and for a bad request, `ENOMEM`.
    pub(crate) fn create(
        ports: &Arc<UdPorts>,
        handle: Arc<QpHandle>,
        parts: UdParts,
        cap: &mut QpCap,
        sig_all: bool,
        udata: &mut Udata<'_>,
    ) -> Result<(Arc<Self>, Qpn)> {
        let UdParts {
            pd,
            send_cq,
            recv_cq,
            srq,
            features,
        } = parts;
        if !features.has_datagrams() {
            return Err(EOPNOTSUPP);
        }
        if features.may_ask_to_poll() {
            let req = udata.read_if_there::<own::CreateQpReq>()?;
            // Nobody polls for datagrams, whatever the process asks for.
            let _ = req.map_or(Ok(0), |req| req.poll_us())?;
        }
        let layout = Rings::Own.layout();
        fit(cap, srq.is_some(), layout.max_sge, layout.max_inline)?;
        cap.max_inline_data = layout.max_inline;
        let dev = pd.device();
        let quota = Quota::take(dev.limits(), |limits| &limits.ud_qps)?;
        let user = ports.join()?;
        let netdev = dev.netdev().ok_or(ENODEV)?;
        let sock = UdpSocket::sender(&netdev, user.number)?;
        let loaded = dev.queues().loaded();
        let (sq, send_offer) = new_ring(layout.sqe, cap.max_send_wr, udata, loaded)?;
        cap.max_send_wr = sq.len();
        let (rq, recv_offer, max_recv_sge) = match &srq {
            Some(srq) => (None, None, srq.max_sge()),
            None => {
                let tells = features.tells_of_flushes();
                let (ring, word, offer) =
                    new_recv_ring(layout.rqe, cap.max_recv_wr, tells, udata, loaded)?;
                cap.max_recv_wr = ring.len();
                let rq = Rq::User(UserRq::new(ring, layout, word, cap.max_recv_sge));
                (Some(rq), Some(offer), cap.max_recv_sge)
            }
        };
        let sending = UdSq::new(sq, cap.max_send_sge)?;
        let receiving = UdRq::new(rq, max_recv_sge)?;
        let cap = *cap;
        let qp = Arc::pin_init(
            pin_init!(Self {
                num: Atomic::new(Qpn(0)),
                ports: ports.clone(),
                handle,
                pd,
                send_cq,
                recv_cq,
                srq,
                cap,
                sig_all,
                send_offer,
                recv_offer,
                attrs: Atomic::new(UdAttrs::NEW.to_word()),
                steps <- new_spinlock_irq!(QpPath::NOTHING, "rsiw::UdQp::steps"),
                sending <- new_mutex!(sending, "rsiw::UdQp::sending"),
                waits: Atomic::new(false),
                receiving <- new_spinlock_irq!(receiving, "rsiw::UdQp::receiving"),
                work <- new_work!("rsiw::UdQp::work"),
                _quota: quota,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let num = match ports.qps.insert(qp.clone(), GFP_KERNEL_ACCOUNT) {
            Ok(num) => num,
            Err(e) => {
                qp.forget_offers();
                return Err(e);
            }
        };
        qp.num.store(num, Relaxed);
        let ready = Readiness::install(&sock, qp.clone()).map(|readiness| {
            qp.sending.lock().sender = Some(UdSender { readiness, user });
        });
        if let Err(e) = ready.and_then(|()| qp.answer(features, udata)) {
            qp.destroy();
            return Err(e);
        }
        Ok((qp, num))
    }

    /// Tells the process how to map the rings.
    fn answer(&self, features: Features, udata: &mut Udata<'_>) -> Result {
        let base = CreateQpResp {
            qp_id: self.num().0,
            num_sqe: self.cap.max_send_wr,
            num_rqe: self.cap.max_recv_wr,
            pad: 0,
            sq_key: self.send_offer.key(),
            rq_key: self.recv_offer.as_ref().map_or(0, MmapEntry::key),
        };
        if !features.may_ask_to_poll() {
            return udata.respond(&base);
        }
        udata.respond(&own::CreateQpResp {
            base,
            ..Default::default()
        })
    }

    fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    fn forget_offers(&self) {
        self.send_offer.remove();
        if let Some(offer) = &self.recv_offer {
            offer.remove();
        }
    }

    /// Returns the attributes. They may say, to somebody who holds the lock of a queue, that the
    /// queue is not used any more. Then nothing is left to do: whoever has changed the attributes
    /// takes that lock afterwards.
    fn attrs(&self) -> UdAttrs {
        UdAttrs::of_word(self.attrs.load(Acquire))
    }

    fn set_attrs(&self, attrs: UdAttrs) {
        self.attrs.store(attrs.to_word(), Release);
        // Whoever posts sets the flags of an entry, then looks at the state; this side looks at the
        // rings next. One of the two sees the other.
        smp_mb(Full);
    }

    /// Takes a step of the consumer's, or changes attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a step that does not exist or lacks the Q_Key, `EOPNOTSUPP` for other sizes.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpModify) -> Result {
        if attr.cap.is_some() {
            return Err(EOPNOTSUPP);
        }
        let to = attr.state.map(state_of).transpose()?;
        let mut steps = self.steps.lock();
        let UdAttrs { state: from, qkey } = self.attrs();
        if let Some(believed) = attr.cur_state {
            if state_of(believed)? != from {
                return Err(EINVAL);
            }
        }
        let to = to.unwrap_or(from);
        let lacks_qkey = (from, to) == (UdState::Reset, UdState::Init) && attr.path.qkey.is_none();
        if !from.leads_to(to) && from != to || lacks_qkey {
            return Err(EINVAL);
        }
        if to == UdState::Reset {
            *steps = QpPath::NOTHING;
            self.set_attrs(UdAttrs::NEW);
        } else {
            steps.extend(&attr.path);
            self.set_attrs(UdAttrs {
                state: to,
                qkey: attr.path.qkey.unwrap_or(qkey),
            });
        }
        drop(steps);
        match to {
            UdState::Reset if from != to => self.reset(),
            UdState::Rts if from != to => {
                let psn = attr.path.sq_psn.unwrap_or(0);
                self.sending.lock().begin_at(psn);
                self.go_on();
            }
            UdState::Error => self.enter_error(from),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn query(&self) -> QpQuery {
        let UdAttrs { state, qkey } = self.attrs();
        let path = *self.steps.lock();
        QpQuery {
            state: match state {
                UdState::Reset => IbQpState::Reset,
                UdState::Init => IbQpState::Init,
                UdState::Rtr => IbQpState::Rtr,
                UdState::Rts => IbQpState::Rts,
                UdState::Error => IbQpState::Err,
            },
            cap: self.cap,
            access: AccessFlags::NONE,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            sig_all: self.sig_all,
            mtu: self.ports.dev.port().mtu,
            path: QpPath {
                qkey: Some(qkey),
                ..path
            },
        }
    }

    /// Takes note that the process has posted something that it has to tell of.
    pub(crate) fn doorbell(self: &Arc<Self>) {
        self.go_on();
    }

    /// Does what the state is for: sends, or flushes.
    fn go_on(self: &Arc<Self>) {
        match self.attrs().state {
            UdState::Rts => self.send_all().or_leave_to(|| self.leave_to_work()),
            UdState::Error => self.complete_flushed(),
            UdState::Reset | UdState::Init | UdState::Rtr => {}
        }
    }

    fn leave_to_work(self: &Arc<Self>) {
        let _ = self.ports.dev.queues().patient.enqueue(self.clone());
    }

    /// Drops what is in the queues.
    fn reset(&self) {
        let _ = self.sending.lock().drop_posted();
        self.drop_recvs();
    }

    /// Goes into error, unless the consumer has reset the queue pair. Called under the lock of the
    /// queue that has failed, so that this is about what is in there: a reset takes that lock, too.
    /// Returns the state before, with which the caller calls [`UdQp::enter_error`] once it holds no
    /// lock.
    fn fail(&self) -> Option<UdState> {
        let steps = self.steps.lock();
        let UdAttrs { state: from, qkey } = self.attrs();
        if from == UdState::Reset {
            return None;
        }
        let state = UdState::Error;
        self.set_attrs(UdAttrs { state, qkey });
        drop(steps);
        Some(from)
    }

    fn enter_error(self: &Arc<Self>, from: UdState) {
        self.complete_flushed();
        self.tell_of_last(from);
    }

    /// Tells the consumer that this queue pair takes nothing more from a shared receive queue, if
    /// it has just gone into error. Any context.
    fn tell_of_last(&self, from: UdState) {
        if from != UdState::Error && self.srq.is_some() {
            self.handle.event(AsyncEvent::LastWqeReached);
        }
    }

    /// Completes all that is posted as flushed, if the state still is that of error. Called without
    /// a lock.
    fn complete_flushed(self: &Arc<Self>) {
        let sends = self.flush_sends();
        let recvs = self.flush_recvs();
        if [sends, recvs].contains(&Drained::Again) {
            self.leave_to_work();
        }
    }

    /// Adds a completion to `cq`. Returns whether the consumer is to be told. Fails if it is lost.
    fn complete(
        &self,
        cq: &Cq,
        (id, operation): (u64, OperationType),
        status: Status<Fault>,
        (bytes, extra, solicited): (u32, Extra, bool),
    ) -> Result<bool, Overflow> {
        let is_recv = operation == OperationType::Receive;
        // Bound: the counters that a completion has.
        for counter in match is_recv {
            true => Counter::of_recv(status),
            false => Counter::of_send(status),
        } {
            self.ports.dev.count(counter);
        }
        let completion = Completion {
            id,
            operation,
            status,
            bytes,
            cause: Cause::NONE,
            extra,
            qp: self.num(),
            solicited,
        };
        cq.add(&completion, &self.handle, None)
            .inspect_err(|Overflow| self.ports.dev.count(Some(Counter::CqOverflows)))
    }

    /// Ends the queue pair: whoever has found it by its number is done with it when this returns.
    pub(crate) fn destroy(&self) {
        self.ports.qps.remove(self.num());
        let steps = self.steps.lock();
        self.set_attrs(UdAttrs::NEW);
        drop(steps);
        self.reset();
        self.forget_offers();
        let sender = self.sending.lock().sender.take();
        drop(sender);
    }

    fn log(&self, why: &str) {
        let num = self.num();
        self.ports.dev.log(Author::Process, fmt!("QP {num}: {why}"));
    }
}

/// Returns the state that the consumer asks for, or `EINVAL` if datagrams do not have that state.
fn state_of(state: IbQpState) -> Result<UdState> {
    Ok(match state {
        IbQpState::Reset => UdState::Reset,
        IbQpState::Init => UdState::Init,
        IbQpState::Rtr => UdState::Rtr,
        IbQpState::Rts => UdState::Rts,
        IbQpState::Err => UdState::Error,
        IbQpState::Sqd | IbQpState::Sqe => return Err(EINVAL),
    })
}

impl UdpHandler for UdQp {
    fn ready(this: ArcBorrow<'_, Self>) {
        // Whoever has found no room sets it, then looks for room once more.
        if this.waits.xchg(false, Full) {
            Arc::from(this).leave_to_work();
        }
    }
}

impl WorkItem for UdQp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.go_on();
    }
}
