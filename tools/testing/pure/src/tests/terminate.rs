// SPDX-License-Identifier: GPL-2.0

//! The Terminate message against bytes worked out from the RFC's bit numbers (T-1).

use crate::proto::message::{self, MAX_TERMINATE};
use crate::support::by_hand;
use crate::support::crc::crc32c;
use crate::support::frames::{split, without_markers};
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::fpdu::Markers;
use crate::wire::rdmap::{Opcode, ReadRequest};
use crate::wire::terminate::{Quote, Quoted, Received, TermError, Terminate};

/// Untagged header of a Terminate: QN 2, MSN 1, MO 0 (P-RDMAP-17).
const DDP: [u8; 18] = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];

fn write_header() -> Vec<u8> {
    by_hand::write(0xdead_beef, 0x1000, &[])
}

fn send_header() -> Vec<u8> {
    by_hand::send(7, &[])
}

fn read_request() -> Vec<u8> {
    let (sink, len, source) = ((0x101, 0x2000), 0x1000, (0x202, 0x3000));
    by_hand::Read { sink, len, source }.request(3)
}

/// What follows the DDP header of the FPDU that is sent.
fn sent(error: TermError, quote: Option<Quote>) -> Vec<u8> {
    let message = Terminate { error, quote };
    let mut out = [0xaa; MAX_TERMINATE];
    let fpdu = message::terminate(&message, None, Some(crc32c), &mut out).unwrap();
    let (seen, 0) = split(fpdu, Some(true)) else {
        panic!();
    };
    assert_eq!((seen.len(), &seen[0].ulpdu[..18]), (1, &DDP[..]));

    // M-MPA-14, M-MPA-15: as the first FPDU of a stream with markers; with CRC and without.
    for crc in [Some(crc32c as fn(u32, &[u8]) -> u32), None] {
        let mut markers = Markers::new();
        let mut out = [0xaa; MAX_TERMINATE];
        let marked = message::terminate(&message, Some(&mut markers), crc, &mut out).unwrap();
        assert_eq!(marked[..4], [0; 4]);
        let plain = without_markers(marked, crc.is_some());
        assert_eq!(split(&plain, None).0, seen);
    }
    seen[0].ulpdu[18..].to_vec()
}

/// P-TERM-1, P-TERM-3, P-TERM-4: a Write with a bad STag, `11 00 C0 00`.
#[test]
fn p_term_1_bad_stag_write() {
    let quote = Quote::new(&[write_header(), vec![0x55; 40]].concat(), 1014);
    let want = [&[0x11, 0x00, 0xc0, 0x00, 0x03, 0xf6][..], &write_header()].concat();
    assert_eq!(sent(TermError::TaggedStag, quote), want);
}

/// Whoever leaves says how many messages are placed; no other Terminate says that.
#[test]
fn leaving() {
    for placed in [0, 1, u32::MAX] {
        let quote = Quote::placed(placed);
        let octets = sent(TermError::Leaving, Some(quote));
        let received = Received::parse(&octets).expect("whole");
        assert_eq!((received.code, received.placed()), (0x0f01, Some(placed)));
        assert_eq!(received.refused_read(), None);
        let other = sent(TermError::UntaggedMsn, Some(quote));
        assert_eq!(Received::parse(&other).expect("whole").placed(), None);
    }
    let bare = sent(TermError::Leaving, None);
    assert_eq!(Received::parse(&bare).expect("whole").placed(), None);
}

/// P-TERM-5: layer 1, untagged: length and 18 octets of header.
#[test]
fn p_term_5_no_buffer_send() {
    let quote = Quote::new(&send_header(), 18);
    let want = [&[0x12, 0x02, 0xc0, 0x00, 0x00, 0x12][..], &send_header()].concat();
    assert_eq!(sent(TermError::UntaggedNoBuffer, quote), want);
}

/// P-TERM-5, P-TERM-6: layer 0 type 1: length, DDP header and the Read Request header.
#[test]
fn p_term_6_read_request() {
    let quote = Quote::new(&read_request(), 46);
    let want = [&[0x01, 0x02, 0xe0, 0x00, 0x00, 0x2e][..], &read_request()].concat();
    assert_eq!(sent(TermError::RemoteAccess, quote), want);
}

/// P-TERM-6: a Read that breaks after 0x800 octets.
#[test]
fn p_term_6_read_under_way() {
    let request = ReadRequest::parse(&read_request()[18..]).unwrap();
    let quote = Quote::read_request(request, Msn(3), 0x800);
    let mut quoted = read_request();
    // Sink TO 0x2800, size 0x800, source TO 0x3800.
    quoted[18 + 10] = 0x28;
    quoted[18 + 14] = 0x08;
    quoted[18 + 26] = 0x38;
    let want = [&[0x01, 0x00, 0xe0, 0x00, 0x00, 0x2e][..], &quoted].concat();
    assert_eq!(sent(TermError::RemoteStag, Some(quote)), want);
}

/// P-TERM-5: layer 0 type 2: length and DDP header, never the RDMAP header.
#[test]
fn p_term_5_operation_errors() {
    let mut request = read_request();
    request[1] = 0x81;
    let quote = Quote::new(&request, 46);
    let want = [&[0x02, 0x05, 0xc0, 0x00, 0x00, 0x2e][..], &request[..18]].concat();
    assert_eq!(sent(TermError::RdmapVersion, quote), want);
    let quote = Quote::new(&send_header(), 30);
    let want = [&[0x01, 0x09, 0xc0, 0x00, 0x00, 0x1e][..], &send_header()].concat();
    assert_eq!(sent(TermError::RemoteCannotInvalidate, quote), want);
}

/// P-TERM-5, P-TERM-7, V-TM-6: layer 0 type 0 and layer 2 quote nothing; nor does an error that
/// belongs to no segment.
#[test]
fn p_term_7_no_headers() {
    let quote = Quote::new(&write_header(), 100);
    assert_eq!(sent(TermError::LocalCatastrophic, quote), [0, 0, 0, 0]);
    assert_eq!(sent(TermError::MpaCrc, quote), [0x20, 0x02, 0, 0]);
    assert_eq!(sent(TermError::MpaFpdu, quote), [0x20, 0x03, 0, 0]);
    assert_eq!(
        sent(TermError::MpaInsufficientIrd, None),
        [0x20, 0x06, 0, 0]
    );
    assert_eq!(sent(TermError::MpaNoMatchingRtr, None), [0x20, 0x07, 0, 0]);
    assert_eq!(
        sent(TermError::CatastrophicStream, None),
        [0x02, 0x07, 0, 0]
    );
}

/// T-46: headers cut short are not quoted beyond what is there.
#[test]
fn quotes_of_short_segments() {
    assert_eq!(Quote::new(&[], 0), None);
    assert_eq!(Quote::new(&write_header()[..13], 13), None);
    assert_eq!(Quote::new(&send_header()[..17], 17), None);
    let quote = Quote::new(&read_request()[..45], 45);
    let want = [
        &[0x01, 0x00, 0xc0, 0x00, 0x00, 0x2d][..],
        &read_request()[..18],
    ]
    .concat();
    assert_eq!(sent(TermError::RemoteStag, quote), want);
}

/// P-TERM-2: what is sent is understood.
#[test]
fn p_term_2_receive() {
    let got = Received::parse(&sent(
        TermError::TaggedStag,
        Quote::new(&write_header(), 1014),
    ));
    let want = Received {
        code: 0x1100,
        segment_len: Some(1014),
        quoted: Some(Quoted::Tagged {
            opcode: Some(Opcode::Write),
            stag: Stag(0xdead_beef),
            to: TaggedOffset(0x1000),
        }),
        read_request: None,
    };
    assert_eq!(got, Some(want));

    let got = Received::parse(&sent(
        TermError::RemoteAccess,
        Quote::new(&read_request(), 46),
    ));
    let got = got.unwrap();
    assert_eq!(got.code, 0x0102);
    assert_eq!(got.read_request, ReadRequest::parse(&read_request()[18..]));
    let want = Quoted::Untagged {
        opcode: Some(Opcode::ReadRequest),
        qn: 1,
        msn: Msn(3),
        mo: 0,
    };
    assert_eq!(got.quoted, Some(want));
}

/// X-IANA-1, T-46: unknown codes and parts that are announced but missing.
#[test]
fn x_iana_1_odd_terminates() {
    assert_eq!(Received::parse(&[0x0a, 0x7f, 0]), None);
    let got = Received::parse(&[0x0a, 0x7f, 0, 0]).unwrap();
    assert_eq!((got.code, got.quoted), (0x0a7f, None));
    let whole = sent(TermError::RemoteAccess, Quote::new(&read_request(), 46));
    for n in 4..whole.len() {
        let got = Received::parse(&whole[..n]).unwrap();
        assert_eq!(got.code, 0x0102);
        assert_eq!(got.quoted.is_some(), n >= 4 + 2 + 18);
        assert_eq!(got.read_request, None);
    }
}

/// P-TERM-8, D-DDP-24, M-MPA-30, X-IANA-1: the table of codes.
#[test]
fn p_term_8_codes() {
    use TermError::*;
    let all = [
        (LocalCatastrophic, 0x0000),
        (RemoteStag, 0x0100),
        (RemoteBounds, 0x0101),
        (RemoteAccess, 0x0102),
        (RemoteNotAssociated, 0x0103),
        (RemoteWrap, 0x0104),
        (RemoteCannotInvalidate, 0x0109),
        (RemoteUnspecified, 0x01ff),
        (RdmapVersion, 0x0205),
        (UnexpectedOpcode, 0x0206),
        (CatastrophicStream, 0x0207),
        (CatastrophicGlobal, 0x0208),
        (OpCannotInvalidate, 0x0209),
        (OpUnspecified, 0x02ff),
        (DdpLocalCatastrophic, 0x1000),
        (TaggedStag, 0x1100),
        (TaggedBounds, 0x1101),
        (TaggedNotAssociated, 0x1102),
        (TaggedWrap, 0x1103),
        (TaggedVersion, 0x1104),
        (UntaggedQn, 0x1201),
        (UntaggedNoBuffer, 0x1202),
        (UntaggedMsn, 0x1203),
        (UntaggedMo, 0x1204),
        (UntaggedTooLong, 0x1205),
        (UntaggedVersion, 0x1206),
        (MpaCrc, 0x2002),
        (MpaFpdu, 0x2003),
        (MpaLocalCatastrophic, 0x2005),
        (MpaInsufficientIrd, 0x2006),
        (MpaNoMatchingRtr, 0x2007),
    ];
    for (error, code) in all {
        assert_eq!(error.code(), code);
    }
}
