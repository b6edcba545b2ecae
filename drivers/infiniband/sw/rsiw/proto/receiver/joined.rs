// SPDX-License-Identifier: GPL-2.0

//! FPDUs that begin in one chunk and end in another one (RFC 5044 section 5.2).
//!
//! TCP has what was received in buffers, each a chunk. Where the octets behind a chunk can be read,
//! an FPDU that ends there is taken in from where it lies, as one that is whole in its chunk. An
//! FPDU of which the rest is still to come stays in TCP until then. Where neither can be, it is
//! collected in the staging buffer.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Receiver, //
};
use crate::proto::chunk::{
    Chunk,
    Reach,
    Rest,
    Source,
    FPDU_FRONT, //
};
use crate::proto::counters::Counter;
use crate::proto::deframer::{
    ByteSource,
    Fpdu,
    Place,
    Step, //
};
use crate::proto::failure::Failure;
use crate::wire::ddp;
use crate::wire::fpdu::{
    fpdu_len,
    LEN_FIELD, //
};
use core::ops::DerefMut;

/// The FPDU that begins at octet `at` of a chunk and does not end there, and its first octets.
/// `Err` says why it cannot be taken in from there.
fn find<C: Chunk>(chunk: &C, at: usize) -> Result<([u8; FPDU_FRONT], Fpdu), Reach> {
    let reach = |len| match chunk.reach(at, len) {
        Reach::Here => Ok(()),
        other => Err(other),
    };
    let mut len = [0; LEN_FIELD];
    reach(len.len())?;
    chunk.copy_to(at, &mut len).map_err(|_| Reach::Apart)?;
    let ulpdu_len = u16::from_be_bytes(len);
    // No header is as short. The deframer tells the peer so at once: no more octets may come.
    if usize::from(ulpdu_len) < ddp::TAGGED_LEN {
        return Err(Reach::Apart);
    }
    let len = fpdu_len(ulpdu_len);
    reach(len)?;
    // No other FPDU is shorter than the front.
    let front = chunk.front(at).ok_or(Reach::Apart)?;
    let place = Place::Chunk;
    Ok((
        front,
        Fpdu {
            place,
            ulpdu_len,
            len,
        },
    ))
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Returns how many of the `len` octets of a chunk were taken in with those before it.
    #[inline]
    pub(super) fn skip_ahead(&mut self, len: usize) -> usize {
        let skip = self.ahead.min(len);
        self.ahead = self.ahead.saturating_sub(skip);
        skip
    }

    /// As [`Receiver::step`], for an FPDU that may lie in several chunks.
    #[inline(never)]
    pub(super) fn step_apart<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
    ) -> Result<Option<usize>, Failure> {
        let before = self.deframer;
        if self.deframer.staged() == 0 {
            if let Some(taken) = self.step_joined(env, chunk, at)? {
                return Ok(taken);
            }
        }
        let fault = |_| Failure::defect("the stream cannot be read");
        let rest = Rest::new(chunk, at).map_err(fault)?;
        match self.deframer.next(&rest)? {
            Step::NeedMore => Ok(None),
            Step::Stage { at: to, n } => {
                let Some(staging) = &mut self.staging else {
                    // A buffer of this size is not to be had in softirq.
                    self.deframer = before;
                    self.wants_staging = true;
                    return Ok(None);
                };
                let range = to.checked_add(n).map(|end| to..end);
                let out = range.and_then(|range| staging.get_mut(range));
                let out = out.ok_or_else(|| Failure::defect("an FPDU does not fit its buffer"))?;
                rest.copy_to(0, out).map_err(fault)?;
                Ok(Some(n))
            }
            Step::Fpdu(fpdu) => match fpdu.place {
                Place::Chunk => {
                    let source = Source::Chunk { chunk, at };
                    let taken = self.fpdu(env, &source, rest.front(), &fpdu)?;
                    Ok(taken.then_some(fpdu.len))
                }
                Place::Staging => {
                    self.tally.add(Counter::RxFpdusInPieces, 1);
                    let taken = self.staged::<C, E>(env, fpdu)?;
                    Ok(taken.then_some(0))
                }
            },
        }
    }

    /// Takes in an FPDU that begins at octet `at` of a chunk and ends behind the chunk, if that is
    /// possible. Returns what [`Receiver::step`] is to return, if that is known.
    ///
    /// # Errors
    ///
    /// The stream must end.
    fn step_joined<C: Chunk, E: Env<C>>(
        &mut self,
        env: &mut E,
        chunk: &C,
        at: usize,
    ) -> Result<Option<Option<usize>>, Failure> {
        let left = chunk.len().saturating_sub(at);
        if left == 0 {
            return Ok(Some(None));
        }
        let (front, fpdu) = match find(chunk, at) {
            Ok(found) => found,
            Err(Reach::Later) => return Ok(Some(None)),
            Err(Reach::Apart | Reach::Here) => return Ok(None),
        };
        if !self.fpdu(env, &Source::Chunk { chunk, at }, &front, &fpdu)? {
            return Ok(Some(None));
        }
        self.tally.add(Counter::RxFpdusJoined, 1);
        let ahead = fpdu.len.checked_sub(left);
        self.ahead = ahead.ok_or_else(|| Failure::defect("an FPDU ends in its chunk"))?;
        self.budget.octets(self.ahead);
        Ok(Some(Some(left)))
    }
}
