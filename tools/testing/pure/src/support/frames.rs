// SPDX-License-Identifier: GPL-2.0

//! Messages, FPDU by FPDU, and streams of FPDUs.

use super::crc::crc32c;
use crate::proto::message::{Frame, Kind, Message, MAX_HEADER};
use crate::wire::ddp::{self, Stag, TaggedOffset};
use crate::wire::fpdu::{fpdu_len, Crc, CRC_LEN, LEN_FIELD};
use crate::wire::rdmap::{Control, Opcode, ReadRequest};

/// A Send with nothing special about it.
pub(crate) const SEND: Kind = Kind::Send {
    solicited: false,
    invalidate: None,
};

/// A response to a Read with this sink.
pub(crate) fn response(sink_stag: Stag, sink_to: TaggedOffset) -> Kind {
    Kind::ReadResponse(ReadRequest {
        sink_stag,
        sink_to,
        ..ReadRequest::default()
    })
}

/// The next FPDU of a message, which goes on behind it.
pub(crate) fn next(
    message: &mut Message,
    mulpdu: u16,
    out: &mut [u8; MAX_HEADER],
) -> Option<Frame> {
    let frame = message.frame(mulpdu).ok()?;
    out.fill(0);
    assert!(message.put_header(&frame, &mut out[..frame.header_len]));
    message.advance(&frame, 1).expect("it has this one");
    Some(frame)
}

/// The FPDU of a ULPDU.
pub(crate) fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let len = u16::try_from(ulpdu.len()).expect("a ULPDU");
    let mut fpdu = len.to_be_bytes().to_vec();
    fpdu.extend_from_slice(ulpdu);
    fpdu.resize(fpdu_len(len) - CRC_LEN, 0);
    let crc = Crc::new().update(crc32c, &fpdu);
    fpdu.extend_from_slice(&crc.to_wire());
    fpdu
}

/// An FPDU of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) opcode: Opcode,
    pub(crate) last: bool,
    pub(crate) ulpdu: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// Octets of the FPDU.
    pub(crate) len: usize,
}

/// The CRC field of an FPDU.
fn crc_of(octets: &[u8], has_crc: bool) -> [u8; CRC_LEN] {
    match has_crc {
        true => Crc::new().update(crc32c, octets).to_wire(),
        false => [0; CRC_LEN],
    }
}

/// The FPDUs of a stream, and how many octets there are behind them, which are not a whole one. The
/// CRCs are right if `has_crc`, else zero; `None` lets them be anything.
pub(crate) fn split(mut stream: &[u8], has_crc: Option<bool>) -> (Vec<Seen>, usize) {
    let mut found = Vec::new();
    while let Some((ulpdu_len, rest)) = stream.split_first_chunk::<LEN_FIELD>() {
        let ulpdu_len = u16::from_be_bytes(*ulpdu_len);
        let len = fpdu_len(ulpdu_len);
        if stream.len() < len {
            break;
        }
        if let Some(has_crc) = has_crc {
            let (octets, crc) = stream[..len].split_at(len - CRC_LEN);
            assert_eq!(crc, crc_of(octets, has_crc));
        }
        let ulpdu = &rest[..ulpdu_len.into()];
        let (header, payload) = ddp::Header::parse(ulpdu).expect("a segment");
        found.push(Seen {
            opcode: Control(header.rdmap()).opcode().expect("known"),
            last: header.control().last(),
            ulpdu: ulpdu.to_vec(),
            payload: payload.to_vec(),
            len,
        });
        stream = &stream[len..];
    }
    (found, stream.len())
}

/// The stream without its markers, whose pointers have to be right (RFC 5044 section 4.3), as the
/// CRCs, which are over the markers too.
pub(crate) fn without_markers(marked: &[u8], has_crc: bool) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut fpdu = Vec::new();
    let (mut start, mut left) = (0, 0);
    for (pos, word) in marked.chunks_exact(4).enumerate().map(|(n, w)| (4 * n, w)) {
        if pos % 512 == 0 {
            let ptr = usize::from(u16::from_be_bytes([word[2], word[3]]));
            assert_eq!(word[..2], [0, 0]);
            assert_eq!(ptr, if left == 0 { 0 } else { pos - start });
            fpdu.extend_from_slice(word);
            continue;
        }
        if left == 0 {
            start = pos;
            left = fpdu_len(u16::from_be_bytes([word[0], word[1]]));
        }
        plain.extend_from_slice(word);
        left -= 4;
        if left == 0 {
            assert_eq!(word, crc_of(&fpdu, has_crc));
            fpdu.clear();
        } else {
            fpdu.extend_from_slice(word);
        }
    }
    plain
}
