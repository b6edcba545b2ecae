// SPDX-License-Identifier: GPL-2.0

//! The send queue of a kernel consumer.
//!
//! A request is validated when it is posted, and what is wrong with it is reported at once (V-IMM);
//! what depends on regions is reported by its completion (V-WR-21).
//!
//! Context: any; creation sleeps.
#![forbid(unsafe_code)]

use super::{
    BadWqe,
    Operands,
    Work,
    Wqe, //
};
use crate::abi::Sge;
use crate::ffi::rdma::wr::{
    AtomicOp,
    SendChain,
    SendOp,
    SendWr, //
};
use crate::ffi::sync::{
    Watch,
    Watched, //
};
use crate::proto::failure::Fault;
use crate::proto::request::{
    Local,
    Operation,
    OperationType, //
};
use crate::queue::{
    copy_elements,
    send_slots,
    Posted,
    SgList,
    Slots, //
};
use crate::wire::atomic::{
    AtomicOperation,
    WORD_LEN, //
};
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ImmediateData;
use kernel::num::casts::u32_as_usize;
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::{
    new_spinlock_irq,
    Arc, //
};
use zerocopy::IntoBytes;

/// A request, and what it has besides its elements, or what is wrong with it.
type Checked = Result<(Wqe, Option<Operands>), BadWqe>;

/// The requests that wait, in memory for one depth of the queue.
pub(in crate::qp) struct Requests {
    posted: Posted<Checked>,
    /// The depth that the consumer asked for. The queue has [`send_slots`] slots for that depth.
    asked: u32,
}

impl Requests {
    fn new(asked: u32, max_sge: u32, max_inline: u32) -> Result<Self> {
        Ok(Self {
            posted: Posted::new(send_slots(asked), max_sge, max_inline)?,
            asked,
        })
    }

    /// Returns the number of slots.
    pub(in crate::qp) fn depth(&self) -> u32 {
        send_slots(self.asked)
    }

    /// Returns the number of slots that the consumer did not ask for.
    pub(in crate::qp) fn spare(&self) -> u32 {
        self.depth().saturating_sub(self.asked)
    }
}

impl Watch for Requests {
    /// How many requests wait, and in the upper half the depth that the consumer asked for.
    #[inline(always)]
    fn word(&self) -> u64 {
        let waiting = self.posted.len() as u64; // CAST: at most the depth, 32 bits.
        waiting | u64::from(self.asked) << 32
    }
}

/// A send queue in private memory: the consumer fills it, and it is emptied under the QP's mutex.
#[pin_data]
pub(in crate::qp) struct KernelSq {
    sig_all: bool,
    max_sge: u32,
    max_inline: u32,
    #[pin]
    requests: Watched<Requests>,
}

impl KernelSq {
    /// Makes a queue for `asked` requests, with slots to spare.
    pub(in crate::qp) fn new(
        asked: u32,
        sig_all: bool,
        max_sge: u32,
        max_inline: u32,
    ) -> Result<Arc<Self>> {
        let requests = Requests::new(asked, max_sge, max_inline)?;
        Arc::pin_init(
            pin_init!(Self {
                sig_all,
                max_sge,
                max_inline,
                requests <-
                    Watched::new(new_spinlock_irq!(requests, "rsiw::KernelSq::requests")),
            }),
            GFP_KERNEL,
        )
    }

    /// Posts requests, up to the first bad one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the queue is full, `EINVAL` for what this driver does not support, too many
    /// elements, too much inline data, or a result that is not as long as a word. The requests in
    /// front of the bad one stay posted (V-WR-3).
    pub(in crate::qp) fn post(&self, chain: &mut SendChain<'_>) -> Result {
        let mut requests = self.requests.lock();
        let posted = &mut requests.posted;
        // Bound: as many as the consumer posts at a time, up to the depth.
        for wr in chain {
            let (request, used) = self.request(wr, posted.room()?)?;
            posted.push(request, used)?;
        }
        Ok(())
    }

    /// Returns the slots, which are freed as requests complete.
    pub(in crate::qp) fn slots(&self) -> Arc<Slots> {
        self.requests.lock().posted.slots().clone()
    }

    /// Makes empty [`Requests`] for a depth of `asked`, with slots to spare.
    pub(in crate::qp) fn another(&self, asked: u32) -> Result<Requests> {
        Requests::new(asked, self.max_sge, self.max_inline)
    }

    /// Calls `also` under the queue's lock. If that succeeds, moves all requests to `new`, which
    /// takes the place of the old memory; the old memory is in `new` afterwards, to be dropped
    /// without a lock. Returns `EINVAL` if more slots are taken than `new` has, or the error of
    /// `also`; then nothing has changed.
    pub(in crate::qp) fn replace(
        &self,
        new: &mut Requests,
        also: impl FnOnce() -> Result,
    ) -> Result {
        let mut requests = self.requests.lock();
        requests.posted.check_fits(&new.posted)?;
        also()?;
        requests.posted.move_to(&mut new.posted)?;
        core::mem::swap(&mut *requests, new);
        Ok(())
    }

    /// Returns the number of slots.
    pub(in crate::qp) fn len(&self) -> usize {
        self.requests.lock().posted.depth()
    }

    /// Returns the depth that the consumer asked for.
    pub(in crate::qp) fn asked(&self) -> u32 {
        (self.requests.word() >> 32) as u32 // CAST: the upper half.
    }

    /// Returns the number of slots beyond those that the consumer asked for.
    pub(in crate::qp) fn spare(&self) -> u32 {
        self.requests.lock().spare()
    }

    pub(in crate::qp) fn is_empty(&self) -> bool {
        self.requests.lock().posted.len() == 0
    }

    /// Returns whether no request seems to wait, for those who only describe the queue.
    pub(in crate::qp) fn seems_empty(&self) -> bool {
        self.requests.word() as u32 == 0 // CAST: the lower half.
    }

    /// [`super::SqRing::peek`] for a consumer in the kernel.
    pub(super) fn peek(
        &self,
        sgl: &mut SgList,
        operands: &mut Option<Operands>,
    ) -> Option<Result<Wqe, BadWqe>> {
        let mut requests = self.requests.lock();
        let (request, elements, room) = requests.posted.front()?;
        if let Ok((wqe, own)) = request {
            if let Some(own) = own.take() {
                *operands = Some(own);
            }
            let fits = if wqe.is_inline {
                let octets = room.as_bytes().get(..u32_as_usize(wqe.len));
                octets.is_some_and(|octets| sgl.set_octets(octets))
            } else {
                sgl.set(elements)
            };
            if !fits {
                pr_warn_once!("BUG: a request does not fit the list it is sent from\n");
                return Some(Err(BadWqe {
                    work: wqe.work,
                    fault: Fault::General,
                }));
            }
        }
        Some(match request {
            Ok((wqe, _)) => Ok(*wqe),
            Err(bad) => Err(*bad),
        })
    }

    pub(super) fn pop(&self) -> Option<Work> {
        let request = self.requests.lock().posted.pop()?;
        Some(match request {
            Ok((wqe, _)) => wqe.work,
            Err(bad) => bad.work,
        })
    }

    /// Validates a request and copies its elements or octets to `room`. Returns the request and
    /// how many elements it has.
    fn request(&self, wr: SendWr<'_>, room: &mut [Sge]) -> Result<(Checked, usize)> {
        let (operation, operands) = operation(wr.operation().ok_or(EINVAL)?);
        let is_local = operation.is_local();
        let is_atomic = matches!(operation, Operation::Atomic { .. });
        // An operation with a sink has one element.
        let has_sink = is_atomic || matches!(operation, Operation::Read { .. });
        let is_inline = wr.is_inline() && !is_local && !has_sink;
        let (used, len) = if is_local {
            (0, 0)
        } else if is_inline {
            // CAST: 32 bits fit.
            let room = room.as_mut_bytes().get_mut(..self.max_inline as usize);
            let len = wr.copy_inline(room.ok_or(EINVAL)?)?;
            // CAST: 64 bits.
            (0, len as u64)
        } else {
            let max = if has_sink { 1 } else { self.max_sge };
            copy_elements(wr.elements()?, room, max)?
        };
        if is_atomic && len != u64::from(WORD_LEN) {
            return Err(EINVAL);
        }
        if used == 0
            && matches!(
                operation,
                Operation::Read {
                    invalidate: true,
                    ..
                }
            )
        {
            // There is nothing to invalidate.
            return Err(EINVAL);
        }
        let mut work = Work {
            id: wr.id(),
            operation: operation.kind(),
            signalled: self.sig_all || wr.is_signalled(),
            bytes: 0,
        };
        let Ok(len) = u32::try_from(len) else {
            let fault = Fault::LocalLength;
            return Ok((Err(BadWqe { work, fault }), 0));
        };
        work.bytes = len;
        let wqe = Wqe {
            work,
            operation,
            solicited: wr.is_solicited(),
            fence: wr.is_fenced(),
            len,
            is_inline,
        };
        let operands = match operation {
            Operation::Local(Local::Register) => {
                let of = wr.into_registration().ok_or(EINVAL)?;
                Some(Operands::Register(of))
            }
            _ => operands,
        };
        Ok((Ok((wqe, operands)), used))
    }
}

/// Returns what a request does, and what it has besides its elements.
fn operation(asked: SendOp) -> (Operation, Option<Operands>) {
    let operation = match asked {
        SendOp::Send { invalidate } => Operation::Send {
            invalidate: invalidate.map(Stag),
        },
        SendOp::Write { to, immediate } => Operation::Write {
            stag: Stag(to.rkey),
            to: TaggedOffset(to.addr),
            immediate: immediate.map(ImmediateData::from_short),
        },
        SendOp::Read { from, invalidate } => Operation::Read {
            stag: Stag(from.rkey),
            to: TaggedOffset(from.addr),
            invalidate,
        },
        SendOp::Atomic { at, operation } => {
            let (kind, operation) = atomic(operation);
            let asked = Operation::Atomic {
                stag: Stag(at.rkey),
                to: TaggedOffset(at.addr),
                kind,
            };
            return (asked, Some(Operands::Atomic(operation)));
        }
        SendOp::Invalidate { key } => Operation::Local(Local::Invalidate { stag: Stag(key) }),
        SendOp::Register => Operation::Local(Local::Register),
        SendOp::Bind(of) => {
            let bind = Operation::Local(Local::Bind);
            return (bind, Some(Operands::Bind(of)));
        }
    };
    (operation, None)
}

/// Converts an Atomic Operation. Without masks all bits count and are one field.
fn atomic(asked: AtomicOp) -> (OperationType, AtomicOperation) {
    let cmp_swap = |compare, compare_mask, swap, swap_mask| AtomicOperation::CmpSwap {
        swap,
        swap_mask,
        compare,
        compare_mask,
    };
    match asked {
        AtomicOp::CompareSwap { compare, swap } => (
            OperationType::CompareSwap,
            cmp_swap(compare, u64::MAX, swap, u64::MAX),
        ),
        AtomicOp::FetchAdd { add } => (
            OperationType::FetchAdd,
            AtomicOperation::FetchAdd { add, mask: 0 },
        ),
        AtomicOp::MaskedCompareSwap {
            compare,
            compare_mask,
            swap,
            swap_mask,
        } => (
            OperationType::MaskedCompareSwap,
            cmp_swap(compare, compare_mask, swap, swap_mask),
        ),
        AtomicOp::MaskedFetchAdd { add, boundary } => (
            OperationType::MaskedFetchAdd,
            AtomicOperation::FetchAdd {
                add,
                mask: boundary,
            },
        ),
    }
}
