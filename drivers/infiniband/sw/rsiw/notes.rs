// SPDX-License-Identifier: GPL-2.0

//! Notes that are left in any context, for the work item of a queue pair or an endpoint.
//!
//! `proto::notes` says which notes there are, and what is done about them. No note is lost if the
//! work is queued after it was left: either the run that was queued for it sees the note, or a run
//! that had begun before has seen it.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::proto::notes::{
    Note,
    Notes, //
};
use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::{
    new_spinlock_irq,
    SpinLockIrq, //
};

/// The notes of one object.
pub(crate) struct Noticeboard<N> {
    bits: Atomic<u32>,
    _kind: PhantomData<fn() -> N>,
}

impl<N: Note> Noticeboard<N> {
    pub(crate) fn new() -> Self {
        Self {
            bits: Atomic::new(0),
            _kind: PhantomData,
        }
    }

    /// Returns the notes, which others may change meanwhile. No ordering.
    pub(crate) fn peek(&self) -> Notes<N> {
        Notes::from_bits(self.bits.load(Relaxed))
    }

    /// Leaves a note. The caller has to queue the work afterwards.
    pub(crate) fn leave(&self, note: N) {
        self.change(|notes| notes.with(note));
    }

    /// Takes all notes but `other` at once.
    pub(crate) fn take_all_but(&self, other: N) -> Notes<N> {
        if self.peek().without(other) == Notes::NONE {
            return Notes::NONE;
        }
        self.change(|notes| notes.only(other)).without(other)
    }

    /// Takes all notes at once.
    pub(crate) fn take_all(&self) -> Notes<N> {
        if self.peek() == Notes::NONE {
            return Notes::NONE;
        }
        Notes::from_bits(self.bits.xchg(0, Full))
    }

    /// Takes `note`. Returns whether it was there.
    pub(crate) fn take(&self, note: N) -> bool {
        self.peek().contains(note) && self.change(|notes| notes.without(note)).contains(note)
    }

    /// Changes the notes. Returns the notes from before.
    fn change(&self, change: impl Fn(Notes<N>) -> Notes<N>) -> Notes<N> {
        let mut old = self.bits.load(Relaxed);
        // Bound: this is tried again only if another thread has left or taken a note meanwhile.
        loop {
            let new = change(Notes::from_bits(old)).bits();
            match self.bits.cmpxchg(old, new, Full) {
                Ok(old) => return Notes::from_bits(old),
                Err(other) => old = other,
            }
        }
    }
}

/// What goes with a note: the first value since it was taken last.
#[pin_data]
pub(crate) struct Slot<T> {
    #[pin]
    value: SpinLockIrq<Option<T>>,
}

impl<T: Unpin> Slot<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            value <- new_spinlock_irq!(None, "rsiw::notes::Slot::value"),
        })
    }

    /// Puts a value there, unless there is one. The caller leaves the note afterwards.
    pub(crate) fn put_first(&self, value: T) {
        self.value.lock().get_or_insert(value);
    }

    /// Takes the value. There may be none although there was a note: whoever came while another
    /// value was there has left a note, too.
    pub(crate) fn take(&self) -> Option<T> {
        self.value.lock().take()
    }
}
