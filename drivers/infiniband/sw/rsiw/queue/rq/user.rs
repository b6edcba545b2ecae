// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a process: a ring in shared memory.
//!
//! Context: any, under the queue's lock.
#![forbid(unsafe_code)]

use super::{
    BadRecv,
    Recv, //
};
use crate::{
    abi::{
        wqe,
        HasElements,
        RqeFront, //
    },
    ffi::mm::{
        position::Position,
        ring::{
            SharedRing,
            SharedWord, //
        },
    },
    queue::{
        sgl::SgList,
        shared::Moving, //
    },
};

/// The consuming end of a process's ring.
pub(crate) struct UserRq<E> {
    ring: SharedRing<E>,
    /// The next entry to be taken out.
    get: Position,
    max_sge: u32,
    /// Tells the process that it is to tell of what it posts; `None` if it knows of no such word.
    word: Option<SharedWord>,
    /// What the word says. The word itself is the process's, too.
    flushes: bool,
}

impl<E: HasElements> UserRq<E> {
    /// Takes over the consuming end of a ring.
    pub(crate) fn new(ring: SharedRing<E>, word: Option<SharedWord>, max_sge: u32) -> Self {
        Self {
            ring,
            get: Position::FIRST,
            max_sge,
            word,
            flushes: false,
        }
    }

    /// As [`super::Rq::set_flushes`].
    pub(crate) fn set_flushes(&mut self, flushes: bool) {
        self.flushes = flushes;
        if let Some(word) = &self.word {
            word.store(flushes.into());
        }
    }

    /// Has `word` tell the process from now on what the old one did, which is there afterwards.
    pub(crate) fn tell_by(&mut self, word: &mut Option<SharedWord>) {
        core::mem::swap(&mut self.word, word);
        self.set_flushes(self.flushes);
    }

    /// As [`super::Rq::is_told_of_posts`].
    pub(crate) fn is_told_of_posts(&self) -> bool {
        self.word.is_some()
    }

    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Returns the position of the next receive.
    pub(crate) fn taken(&self) -> Position {
        self.get
    }

    /// Begins to move to the empty ring `to`.
    pub(crate) fn moving_to(&self, to: SharedRing<E>) -> Moving<E> {
        Moving::new(self.ring.clone(), to, self.get)
    }

    /// Goes on in the new ring, as [`Moving::finish`] says.
    pub(crate) fn go_on_in(&mut self, moving: &mut Moving<E>) -> bool {
        moving.finish(&mut self.ring, self.get)
    }

    /// As [`super::Rq::holds`].
    pub(crate) fn holds(&self, count: u32) -> bool {
        // Receives are added in order: all are there if the last one is.
        let last = self.get + count - 1;
        count <= self.len() && self.ring.flags(last) & wqe::VALID != 0
    }

    #[inline]
    fn has_next(&self) -> bool {
        self.ring.flags(self.get) & wqe::VALID != 0
    }

    /// Gives the slot of the oldest receive back to the process.
    #[inline]
    fn consume(&mut self) {
        self.ring.set_flags(self.get, 0);
        self.get.advance();
    }

    /// As [`super::Rq::take`].
    #[inline(always)]
    pub(crate) fn take(&mut self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        if !self.has_next() {
            return None;
        }
        let front = self.ring.front(self.get);
        let RqeFront { id, num_sge, .. } = front;
        let (ring, count) = (&self.ring, num_sge.into());
        let len = match E::is_clean(&front) {
            true => sgl.copy_from_ring(ring, self.get, count, self.max_sge),
            false => None,
        };
        self.consume();
        Some(len.map_or(Err(BadRecv { id }), |len| Ok(Recv { id, len })))
    }

    /// As [`super::Rq::discard`].
    pub(crate) fn discard(&mut self) -> Option<u64> {
        if !self.has_next() {
            return None;
        }
        let RqeFront { id, .. } = self.ring.front(self.get);
        self.consume();
        Some(id)
    }
}
