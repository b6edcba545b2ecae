// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations: sends ours, and carries out the peer's (RFC 7306 section 5).
//!
//! An operation of the peer is carried out when it is the oldest request that is not answered. So
//! they are carried out in the order of the requests, when what Reads in front of them have read is
//! in the batch (X-ATM-14). The response is the next message then. Under the lock of the sender.
#![forbid(unsafe_code)]

use super::{
    Atomics,
    Current,
    Env,
    Origin,
    Sender, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::request::Sink;
use crate::proto::transport::Transport;
use crate::proto::tx::{
    Kind,
    Tx, //
};
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse,
    WORD_LEN, //
};
use crate::wire::ddp::{
    Msn,
    Stag,
    TaggedOffset, //
};
use crate::wire::terminate::Quote;

/// Returns the request for an Atomic Operation of ours on the word at `to` of `stag`.
#[inline(never)]
pub(super) fn request<A: Atomics>(
    env: &A,
    tx: &Tx,
    stag: Stag,
    to: TaggedOffset,
) -> Result<Kind, Failure> {
    let operation = env.operands();
    let operation = operation.ok_or_else(|| Failure::defect("no operands are there"))?;
    // It is identified by its number, which no other one under way has.
    let (_, Msn(id)) = tx.next();
    Ok(Kind::AtomicRequest(AtomicRequest {
        id,
        stag,
        to,
        operation,
    }))
}

/// Returns where the result of an Atomic Operation of ours goes, if this side may write it.
#[inline(never)]
pub(super) fn sink<T: Transport, E: Env<T>>(env: &E) -> Result<(Stag, TaggedOffset), Fault> {
    let is_good = |sink: &Sink| sink.len == WORD_LEN && env.may_write(sink);
    let sink = env.sink().filter(is_good).ok_or(Fault::LocalProtection)?;
    Ok((sink.stag, sink.to))
}

impl Sender {
    /// Carries out the peer's oldest request, an Atomic Operation with the number `msn`, and makes
    /// the answer the current message. Fails if the peer may not do that.
    #[inline(never)]
    pub(super) fn perform_atomic<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        msn: Msn,
        request: &AtomicRequest,
    ) -> Result<(), Failure> {
        let original = env.change_word(request).map_err(|error| Failure {
            quote: Some(Quote::atomic_request(msn)),
            ..error.into()
        })?;
        let id = request.id;
        let kind = Kind::AtomicResponse(AtomicResponse { id, original });
        self.current = Some(Current {
            message: self.tx.message(kind, 0),
            then: None,
            origin: Origin::Peer(msn),
        });
        Ok(())
    }
}
