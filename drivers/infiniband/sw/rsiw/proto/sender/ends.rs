// SPDX-License-Identifier: GPL-2.0

//! What ends with a batch: requests, which complete once TCP, or the other end on this host, has
//! all of it, and requests of the peer, whose slots are free then. Under the lock of the sender.
#![forbid(unsafe_code)]

use super::Env;
use crate::proto::failure::Failure;
use crate::proto::order::Token;
use crate::proto::reads::InboundReads;
use crate::proto::transport::Transport;
use crate::wire::ddp::Msn;
use core::num::Saturating;

/// The most requests that may end with one batch.
const BATCH_ENDS: usize = 128;

/// The requests whose last octet is in the batch.
#[derive(Debug)]
pub(super) struct Ends {
    tokens: [Token; BATCH_ENDS],
    len: Saturating<usize>,
}

impl Ends {
    pub(super) const fn new() -> Self {
        Self {
            tokens: [Token(0); BATCH_ENDS],
            len: Saturating(0),
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len.0 >= BATCH_ENDS
    }

    /// Adds a request. Returns whether there was room.
    pub(super) fn push(&mut self, token: Token) -> bool {
        let Some(slot) = self.tokens.get_mut(self.len.0) else {
            return false;
        };
        *slot = token;
        self.len += 1;
        true
    }

    pub(super) fn tokens(&self) -> &[Token] {
        self.tokens.get(..self.len.0).unwrap_or(&self.tokens)
    }

    pub(super) fn clear(&mut self) {
        self.len.0 = 0;
    }
}

/// Frees the slot of the peer's Read or Atomic Operation that is answered. Call before the peer can
/// have all of the response, as its next request may come then. Fails if it is not the oldest one.
pub(super) fn end_response<T: Transport, E: Env<T>>(env: &E, msn: Msn) -> Result<(), Failure> {
    if env.with_inbound(InboundReads::pop) != Some(msn) {
        return Err(Failure::defect("a request that is answered was not there"));
    }
    Ok(())
}
