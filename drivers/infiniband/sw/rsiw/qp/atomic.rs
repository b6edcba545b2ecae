// SPDX-License-Identifier: GPL-2.0

//! Words of memory that Atomic Operations are about (RFC 7306 section 5).
//!
//! They are changed by single instructions of this host's processors, so an operation excludes those
//! of all other queue pairs and devices of this host, and what its programs do by such instructions.
//!
//! Context: softirq or process.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    failure::remote, //
};
use crate::{
    ffi::mm::page::Word,
    mr::{
        access::{
            Access,
            MrAccess, //
        },
        Mr,
    },
    wire::{
        atomic::{
            AtomicRequest,
            WORD_LEN, //
        },
        terminate::TermError,
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The word that `access` is for.
///
/// # Errors
///
/// How the peer is told that it is none: its address is not a multiple of its length, or it lies in
/// two places.
fn word(access: &MrAccess<Arc<Mr>>) -> Result<Word<'_>, TermError> {
    let slices = access.slices(0, WORD_LEN);
    let mut slices = slices.map_err(|_| TermError::LocalCatastrophic)?;
    // Memory of the kernel ends at the first address of its owner that is no memory.
    let slice = slices.next().ok_or(TermError::LocalCatastrophic)?;
    Word::new(slice).ok_or(TermError::CatastrophicStream)
}

impl Base {
    fn open_word(&self, request: &AtomicRequest) -> Result<MrAccess<Arc<Mr>>, TermError> {
        let (want, stag, to) = (Access::REMOTE_ATOMIC, request.stag, request.to.0);
        let access = self.access(stag, want, to, WORD_LEN);
        let access = access.inspect_err(|why| {
            self.trace_refused(want, *why, (stag, to), WORD_LEN);
        });
        access.map_err(remote)
    }

    /// Whether the peer may carry out an Atomic Operation.
    ///
    /// # Errors
    ///
    /// How the peer is told that it may not.
    pub(super) fn check_word(&self, request: &AtomicRequest) -> Result<(), TermError> {
        word(&self.open_word(request)?).map(|_| ())
    }

    /// Carries out an Atomic Operation of the peer. Returns what the word was before.
    ///
    /// # Errors
    ///
    /// As [`Base::check_word`]; nothing has changed.
    pub(super) fn change_word(&self, request: &AtomicRequest) -> Result<u64, TermError> {
        let access = self.open_word(request)?;
        let original = word(&access)?.change(|original| request.operation.apply(original));
        original.map_err(|_| TermError::LocalCatastrophic)
    }
}
