// SPDX-License-Identifier: GPL-2.0

//! Placing a train payload by payload, for both surroundings of receivers.

use super::piece::Piece;
use crate::proto::deframer::{Chunk, Payload, Source, Train};
use crate::proto::receiver::{Env, Unplaced};
use crate::proto::rx::Target;
use crate::support::tuning::WORK;
use crate::wire::ddp::{self, TaggedOffset};
use crate::wire::fpdu::LEN_FIELD;

/// Places each payload of a train as if its FPDU came alone. Returns the number of payloads.
pub(super) fn place_each<'c, E: Env<Piece<'c>>>(
    env: &mut E,
    target: Target,
    train: &mut Train<'_, Piece<'c>>,
) -> Result<u32, Unplaced> {
    let (mut done, mut fpdus) = (0, 0);
    while let Some(at) = train.take() {
        train.count_piece();
        let header_len = match target {
            Target::Write(..) | Target::Response(..) => ddp::TAGGED_LEN,
            Target::Receive(_) => ddp::UNTAGGED_LEN,
        };
        let front = train.chunk().front(at - header_len - LEN_FIELD);
        assert!(front.is_some() && train.front() == front);
        let source = Source::Chunk {
            chunk: train.chunk(),
            at,
        };
        let payload = Payload {
            source: &source,
            at: 0,
            len: train.payload_len(),
        };
        let behind = |to: TaggedOffset| TaggedOffset(to.0 + u64::from(done));
        let next = match target {
            Target::Write(stag, to) => Target::Write(stag, behind(to)),
            Target::Response(stag, to) => Target::Response(stag, behind(to)),
            Target::Receive(offset) => Target::Receive(offset + done),
        };
        let placed = env.place(next, &payload, &mut WORK.clone());
        let is_write = matches!(target, Target::Write(..));
        assert!(
            placed.is_ok() || !is_write,
            "limited to what may be written"
        );
        placed.map_err(|_| Unplaced)?;
        done += train.payload_len();
        fpdus += 1;
    }
    Ok(fpdus)
}
