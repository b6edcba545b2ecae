// SPDX-License-Identifier: GPL-2.0

//! The requests that end with a batch: they complete once TCP, or the other end on this host, has
//! all of it.
//!
//! Under the lock of the sender.
#![forbid(unsafe_code)]

use crate::proto::order::Token;

/// Requests that may end with one batch.
const BATCH_ENDS: usize = 128;

/// The requests whose last octet is in the batch.
#[derive(Debug)]
pub(super) struct Ends {
    tokens: [Token; BATCH_ENDS],
    len: usize,
}

impl Ends {
    pub(super) const fn new() -> Self {
        Self {
            tokens: [Token(0); BATCH_ENDS],
            len: 0,
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len >= BATCH_ENDS
    }

    /// Adds a request. Returns whether there was room.
    pub(super) fn push(&mut self, token: Token) -> bool {
        let Some(slot) = self.tokens.get_mut(self.len) else {
            return false;
        };
        *slot = token;
        self.len = self.len.saturating_add(1);
        true
    }

    pub(super) fn tokens(&self) -> &[Token] {
        self.tokens.get(..self.len).unwrap_or(&self.tokens)
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
