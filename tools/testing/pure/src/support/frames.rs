// SPDX-License-Identifier: GPL-2.0

//! Messages, FPDU by FPDU.

use crate::proto::tx::{Frame, Message, MAX_HEADER};

/// The next FPDU of a message, which goes on behind it.
pub(crate) fn next(
    message: &mut Message,
    mulpdu: u16,
    out: &mut [u8; MAX_HEADER],
) -> Option<Frame> {
    let frame = message.frame(mulpdu, out)?;
    message.advance(&frame);
    Some(frame)
}
