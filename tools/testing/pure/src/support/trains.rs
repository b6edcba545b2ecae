// SPDX-License-Identifier: GPL-2.0

//! Placing a train payload by payload, for the surroundings of a receiver.

use super::around::Around;
use super::piece::Octets;
use crate::proto::deframer::Train;
use crate::proto::segment::Target;
use crate::wire::ddp::{self, TaggedOffset};
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::TermError;

/// Places each payload of a train as if its FPDU came alone. Returns the number of payloads.
pub(super) fn place_each<C: Octets>(
    around: &mut Around,
    target: Target,
    train: &mut Train<'_, C>,
) -> Result<u32, TermError> {
    let (mut done, mut fpdus) = (0, 0);
    while let Some(at) = train.take() {
        train.count_piece();
        let header_len = match target {
            Target::Write(..) | Target::Response(..) => ddp::TAGGED_LEN,
            Target::Receive(_) => ddp::UNTAGGED_LEN,
        };
        let front = train.chunk().front(at - header_len - LEN_FIELD);
        assert!(front.is_some() && train.front() == front);
        let mut octets = vec![0; train.payload_len() as usize];
        train.chunk().copy(at, &mut octets);
        let behind = |to: TaggedOffset| TaggedOffset(to.0 + u64::from(done));
        let next = match target {
            Target::Write(stag, to) => Target::Write(stag, behind(to)),
            Target::Response(stag, to) => Target::Response(stag, behind(to)),
            Target::Receive(offset) => Target::Receive(offset + done),
        };
        let placed = around.place(next, octets);
        let is_write = matches!(target, Target::Write(..));
        assert!(
            placed.is_ok() || !is_write,
            "limited to what may be written"
        );
        placed?;
        done += train.payload_len();
        fpdus += 1;
    }
    Ok(fpdus)
}
