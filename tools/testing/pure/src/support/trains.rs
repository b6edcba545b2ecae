// SPDX-License-Identifier: GPL-2.0

//! Placing a train payload by payload, for both surroundings of receivers.

use super::piece::Piece;
use crate::proto::chunk::{Chunk, Payload, Source};
use crate::proto::receiver::{Env, Unplaced};
use crate::proto::rx::Going;
use crate::proto::train::Train;
use crate::support::tuning::WORK;
use crate::wire::ddp::{self, TaggedOffset};
use crate::wire::fpdu::LEN_FIELD;

/// Places each payload of a train as if its FPDU came alone. Returns the number of payloads.
pub(super) fn place_each<'c, E: Env<Piece<'c>>>(
    env: &mut E,
    going: Going,
    train: &mut Train<'_, Piece<'c>>,
) -> Result<u32, Unplaced> {
    let (mut done, mut fpdus) = (0, 0);
    while let Some((at, len)) = train.take() {
        train.count_piece();
        let header_len = match going {
            Going::Write(..) | Going::Response(..) => ddp::TAGGED_LEN,
            Going::Send { .. } => ddp::UNTAGGED_LEN,
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
            len,
        };
        let mut budget = WORK;
        let budget = &mut budget;
        let behind = |to: TaggedOffset| TaggedOffset(to.0 + u64::from(done));
        match going {
            Going::Write(stag, to) => {
                let placed = env.place_write(stag, behind(to), &payload, budget);
                placed.expect("the train was limited to what may be written");
            }
            Going::Response(stag, to) => env.place_response(stag, behind(to), &payload, budget)?,
            Going::Send { mo, .. } => env.place_recv(mo + done, &payload, budget)?,
        }
        done += len;
        fpdus += 1;
    }
    Ok(fpdus)
}
