// SPDX-License-Identifier: GPL-2.0

//! Starting the requests of the send queue: fences, ORD, and what is wrong with them from the start
//! (V-FNC, V-RD, V-WC).
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    failure::Failure,
    outgoing::{
        Origin,
        Outgoing, //
    },
    sq::{
        BadWqe,
        Operation,
        SqRing,
        Wqe, //
    },
    Qp, //
};
use crate::{
    abi::WcStatus,
    mr::access::Access,
    proto::{
        reads::OrqEntry,
        tx::{
            may_start,
            Kind,
            Start,
            Tx, //
        },
    },
    wire::{
        ddp::{
            Stag,
            TaggedOffset, //
        },
        rdmap::ReadRequest,
        terminate::TermError,
    },
};
use kernel::sync::Arc;

/// The sink that a Read of nothing names: nobody checks it, but some adapters refuse zero.
const NO_SINK: Stag = Stag(1);

/// Takes the oldest request, if it may start, and puts it into `to`. Gives whether it did.
///
/// # Errors
///
/// It is taken, but cannot be carried out.
pub(super) fn next_request(
    qp: &Arc<Qp>,
    ring: &mut SqRing,
    tx: &mut Tx,
    to: &mut Outgoing,
) -> Result<bool, Failure> {
    let wqe = match ring.peek() {
        None => return Ok(false),
        Some(Ok(wqe)) => wqe,
        Some(Err(BadWqe { work, status })) => {
            ring.consume();
            return Err(Failure {
                in_completion: qp.fail_new_send(work, status),
                ..TermError::LocalCatastrophic.into()
            });
        }
    };
    let sink = match wqe.operation {
        Operation::Read { .. } => Some(read_sink(qp, &wqe)),
        _ => None,
    };
    let mut sq = qp.sq.lock();
    if sq.order.is_full() {
        sq.stalled = true;
        return Ok(false);
    }
    let earlier = !sq.order.is_empty();
    let reads = sq.orq.outstanding();
    let start = may_start(wqe.class(), wqe.fence, reads, sq.ord, earlier);
    let failed = match (start, &sink) {
        (Start::Wait, _) => {
            sq.stalled = true;
            return Ok(false);
        }
        (Start::NoReadResources, _) => Some(WcStatus::LocQpOpErr),
        (Start::Now, Some(Err(status))) => Some(*status),
        (Start::Now, _) => None,
    };
    if let Some(status) = failed {
        drop(sq);
        ring.consume();
        return Err(Failure {
            in_completion: qp.fail_new_send(wqe.work, status),
            ..TermError::LocalCatastrophic.into()
        });
    }
    let full = |_| Failure::from(TermError::LocalCatastrophic);
    let token = sq.order.push(wqe.work).map_err(full)?;
    let kind = match (wqe.operation, sink) {
        (Operation::Read { stag, to }, Some(Ok((sink_stag, sink_to)))) => {
            sq.orq
                .push(OrqEntry {
                    sink_stag,
                    sink_to,
                    len: wqe.len,
                    done: 0,
                    id: token.0.into(),
                    rtr: false,
                })
                .map_err(full)?;
            let request = ReadRequest {
                sink_stag,
                sink_to,
                len: wqe.len,
                source_stag: stag,
                source_to: to,
            };
            Kind::ReadRequest(request)
        }
        (Operation::Write { stag, to }, _) => Kind::Write { stag, to },
        (operation, _) => {
            let invalidate = match operation {
                Operation::Send { invalidate } => invalidate,
                _ => None,
            };
            Kind::Send {
                solicited: wqe.solicited,
                invalidate,
            }
        }
    };
    drop(sq);
    ring.consume();
    let message = tx.message(kind, wqe.len);
    match kind {
        // It completes with its response.
        Kind::ReadRequest(_) => to.begin(message, Origin::Bare),
        _ => to.begin(message, Origin::Request(wqe, token)),
    }
    Ok(true)
}

/// The sink of a Read, which this side must be allowed to write (T-22).
fn read_sink(qp: &Qp, wqe: &Wqe) -> Result<(Stag, TaggedOffset), WcStatus> {
    let Some(sge) = wqe.sges().first().filter(|sge| sge.length > 0) else {
        return Ok((NO_SINK, TaggedOffset(0)));
    };
    let stag = Stag(sge.lkey);
    match qp.access(stag, Access::LOCAL_WRITE, sge.laddr, sge.length) {
        Ok(_) => Ok((stag, TaggedOffset(sge.laddr))),
        Err(_) => Err(WcStatus::LocProtErr),
    }
}
