// SPDX-License-Identifier: GPL-2.0

//! Words of memory that Atomic Operations change (RFC 7306 section 5).
//!
//! They are changed by single instructions of this host's processors. So an operation is atomic
//! with respect to those of all other queue pairs and devices of this host, and to such
//! instructions of its programs.
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

/// Returns the word that `access` covers, or how the peer is told that it is none: its address is
/// not a multiple of its length, or it lies in two places.
fn word(access: &MrAccess<Arc<Mr>>) -> Result<Word<'_>, TermError> {
    let slices = access.slices(0, WORD_LEN);
    let mut slices = slices.map_err(|_| TermError::LocalCatastrophic)?;
    // Slices of kernel memory end early at an address that is not memory.
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

    /// Checks that the peer may carry out an Atomic Operation, or returns how it is told that it
    /// may not.
    pub(super) fn check_word(&self, request: &AtomicRequest) -> Result<(), TermError> {
        word(&self.open_word(request)?).map(|_| ())
    }

    /// Carries out an Atomic Operation of the peer and returns the original value. Fails as
    /// [`Base::check_word`]; then nothing has changed.
    pub(super) fn change_word(&self, request: &AtomicRequest) -> Result<u64, TermError> {
        let access = self.open_word(request)?;
        let original = word(&access)?.change(|original| request.operation.apply(original));
        original.map_err(|_| TermError::LocalCatastrophic)
    }
}
