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
    sgl::SgList,
    sq::{
        BadWqe,
        Operation,
        SqRing, //
    },
    Qp, //
};
use crate::{
    abi::{
        Sge,
        WcStatus, //
    },
    ffi::rdma::wr::{
        Binding,
        Registration, //
    },
    mr::{
        fast::FastError,
        By, //
    },
    proto::{
        order::Token,
        reads::{
            OrqEntry,
            Purpose, //
        },
        tx::{
            may_start,
            Class,
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

/// What is to be sent next.
pub(super) enum Next {
    /// The message that was begun.
    Message,
    /// Nothing, or nothing that may start.
    Nothing,
    /// Nothing before TCP has what was made so far.
    AfterFlush,
}

/// What holds at the moment.
pub(super) struct Now {
    /// TCP has all there was to send.
    pub(super) is_flushed: bool,
    /// The peer may be sent to. What concerns this side only does not wait for that.
    pub(super) may_send: bool,
}

/// Takes the oldest request that may start and is to be sent, and puts it into `out`; carries out
/// those that are not to be sent.
///
/// # Errors
///
/// It is taken, but cannot be carried out.
pub(super) fn next_request(
    qp: &Arc<Qp>,
    ring: &mut SqRing,
    tx: &mut Tx,
    out: &mut Outgoing,
    now: &Now,
) -> Result<Next, Failure> {
    loop {
        let wqe = match ring.peek(&mut out.sgl) {
            None => return Ok(Next::Nothing),
            Some(Ok(wqe)) => wqe,
            Some(Err(BadWqe { work, status })) => {
                if !qp.sq.lock().has_room() {
                    return Ok(Next::Nothing);
                }
                ring.consume();
                return Err(Failure {
                    in_completion: qp.fail_new_send(work, status),
                    ..TermError::LocalCatastrophic.into()
                });
            }
        };
        let takes_back = matches!(
            wqe.operation,
            Operation::Invalidate { .. } | Operation::Bind(_)
        );
        if !now.may_send && matches!(wqe.class(), Class::Transfer | Class::Read) {
            return Ok(Next::Nothing);
        }
        let sink = match wqe.operation {
            Operation::Read { invalidate, .. } => Some(read_sink(qp, &out.sgl, invalidate)),
            _ => None,
        };
        let mut sq = qp.sq.lock();
        if !sq.has_room() {
            return Ok(Next::Nothing);
        }
        let earlier = !sq.order.is_empty();
        let reads = sq.orq.outstanding();
        let start = may_start(wqe.class(), wqe.fence, reads, sq.ord, earlier);
        let failed = match (start, &sink) {
            (Start::Wait, _) => {
                sq.stalled = true;
                return Ok(Next::Nothing);
            }
            // What is in front of it may be read from the region.
            (Start::Now, _) if takes_back && !now.is_flushed => return Ok(Next::AfterFlush),
            // STag 0 is nobody's: the peer need not be asked (V-STAG0-8).
            (Start::Now, _)
                if matches!(wqe.operation, Operation::Write { stag: Stag(0), .. })
                    && wqe.len > 0 =>
            {
                Some(WcStatus::LocProtErr)
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
            (
                Operation::Read {
                    stag,
                    to,
                    invalidate,
                },
                Some(Ok((sink_stag, sink_to))),
            ) => {
                sq.orq
                    .push(OrqEntry {
                        sink_stag,
                        sink_to,
                        len: wqe.len,
                        done: 0,
                        purpose: Purpose::Request { token, invalidate },
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
            (Operation::Invalidate { stag }, _) => {
                drop(sq);
                ring.consume();
                finish(qp, token, invalidate(qp, stag))?;
                continue;
            }
            (Operation::Register(wr), _) => {
                drop(sq);
                ring.consume();
                finish(qp, token, register(qp, &wr))?;
                continue;
            }
            (Operation::Bind(wr), _) => {
                drop(sq);
                ring.consume();
                finish(qp, token, bind(qp, &wr))?;
                continue;
            }
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
        out.begin(
            message,
            match kind {
                // It completes with its response.
                Kind::ReadRequest(_) => Origin::Bare,
                _ => Origin::Request(wqe, token),
            },
        );
        return Ok(Next::Message);
    }
}

/// The sink of a Read, which this side must be allowed to write (T-22) if there is anything to
/// write.
fn read_sink(qp: &Qp, sgl: &SgList, invalidate: bool) -> Result<(Stag, TaggedOffset), WcStatus> {
    let is_used = |sge: &&Sge| sge.length > 0 || invalidate;
    let Some(sge) = sgl.elements().first().filter(is_used) else {
        return Ok((NO_SINK, TaggedOffset(0)));
    };
    let stag = Stag(sge.lkey);
    if sge.length == 0 {
        return Ok((stag, TaggedOffset(sge.laddr)));
    }
    match qp.access_sink(stag, sge.laddr, sge.length) {
        Ok(_) => Ok((stag, TaggedOffset(sge.laddr))),
        Err(_) => Err(WcStatus::LocProtErr),
    }
}

/// Ends a request that is not sent.
fn finish(qp: &Arc<Qp>, token: Token, result: Result<(), WcStatus>) -> Result<(), Failure> {
    match result {
        Ok(()) => {
            qp.sends_done(&[token]);
            Ok(())
        }
        Err(status) => Err(Failure {
            in_completion: qp.fail_send(token, status),
            ..TermError::LocalCatastrophic.into()
        }),
    }
}

/// Carries out a local invalidation (V-INV). When it completes, nobody uses the memory.
fn invalidate(qp: &Qp, stag: Stag) -> Result<(), WcStatus> {
    let mr = qp.dev.stags.lookup(stag).ok_or(WcStatus::LocQpOpErr)?;
    qp.invalidate(mr, stag, By::Consumer)
        .map_err(|_| WcStatus::LocProtErr)?
        .wait_quiet();
    Ok(())
}

/// Carries out a fast registration (V-MR-17, V-MR-18).
fn register(qp: &Qp, wr: &Registration) -> Result<(), WcStatus> {
    let mr = qp
        .dev
        .stags
        .lookup(Stag(wr.stag))
        .ok_or(WcStatus::LocProtErr)?;
    mr.register_fast(qp.pd.id(), wr).map_err(|e| match e {
        FastError::Stag | FastError::Pd => WcStatus::LocProtErr,
        _ => WcStatus::LocQpOpErr,
    })
}

/// Carries out a bind of a window (V-MW-2, V-MW-4).
fn bind(qp: &Qp, wr: &Binding) -> Result<(), WcStatus> {
    let find = |stag| qp.dev.stags.lookup(Stag(stag)).ok_or(WcStatus::MwBindErr);
    let (window, region) = (find(wr.window)?, find(wr.region)?);
    window
        .window()
        .ok_or(WcStatus::MwBindErr)?
        .bind(window.stag(), wr, region, qp.party())
        .map_err(|_| WcStatus::MwBindErr)
}
