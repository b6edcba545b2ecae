// SPDX-License-Identifier: GPL-2.0

//! Writer of frames and segments, right and wrong, from the figures of RFC 5040, 5041, 5044 and
//! 6581. It shares nothing with the driver, so that an error in the driver's formats shows. The tests
//! of the protocol layers use it, too.
#![forbid(unsafe_code)]

use super::crc::crc32c;

/// MPA flags (RFC 5044 section 7.1.1, RFC 6581 section 6).
pub const M: u8 = 0x80;
pub const C: u8 = 0x40;
pub const R: u8 = 0x20;
pub const S: u8 = 0x10;
/// A bit that the RFCs reserve: FPDUs may be longer than segments, if both say so.
pub const L: u8 = 0x08;

pub const REQ: &[u8; 16] = b"MPA ID Req Frame";
pub const REP: &[u8; 16] = b"MPA ID Rep Frame";

/// RDMAP opcodes with RV = 1 (RFC 5040 section 4.1).
pub const WRITE: u8 = 0x40;
pub const READ_REQ: u8 = 0x41;
pub const READ_RESP: u8 = 0x42;
pub const SEND: u8 = 0x43;
pub const SEND_INV: u8 = 0x44;
pub const SEND_SE: u8 = 0x45;
pub const SEND_SE_INV: u8 = 0x46;
pub const TERMINATE: u8 = 0x47;

/// DDP control octets, DV = 1 (RFC 5041 section 4.1).
pub const T: u8 = 0x81;
pub const T_LAST: u8 = 0xc1;
pub const U: u8 = 0x01;
pub const U_LAST: u8 = 0x41;

/// An MPA frame with any length field.
pub fn mpa_len(key: &[u8; 16], flags: u8, rev: u8, pd_len: u16, data: &[u8]) -> Vec<u8> {
    let mut v = key.to_vec();
    v.extend([flags, rev]);
    v.extend(pd_len.to_be_bytes());
    v.extend(data);
    v
}

/// An MPA frame.
pub fn mpa(key: &[u8; 16], flags: u8, rev: u8, data: &[u8]) -> Vec<u8> {
    mpa_len(key, flags, rev, data.len() as u16, data)
}

/// The words of the enhanced set-up. `abcd` are the four flags as A=8, B=4, C=2, D=1.
pub fn words(abcd: u8, ird: u16, ord: u16) -> [u8; 4] {
    let first = (u16::from(abcd >> 2) << 14) | (ird & 0x3fff);
    let second = (u16::from(abcd & 3) << 14) | (ord & 0x3fff);
    let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
    [a, b, c, d]
}

/// The flags and depths in enhanced words, as `words` takes them.
pub fn read_words(w: &[u8]) -> (u8, u16, u16) {
    let first = u16::from_be_bytes([w[0], w[1]]);
    let second = u16::from_be_bytes([w[2], w[3]]);
    let abcd = (((first >> 14) << 2) | (second >> 14)) as u8;
    (abcd, first & 0x3fff, second & 0x3fff)
}

/// An FPDU around any ULPDU with a pad of `pad` octets and the CRC changed by `flip`.
pub fn fpdu_odd(ulpdu: &[u8], pad: u8, flip: u32) -> Vec<u8> {
    let mut v = (ulpdu.len() as u16).to_be_bytes().to_vec();
    v.extend(ulpdu);
    while v.len() % 4 != 0 {
        v.push(pad);
    }
    let crc = u32::from_be_bytes(crc32c(&v)) ^ flip;
    v.extend(crc.to_be_bytes());
    v
}

/// An FPDU.
pub fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    fpdu_odd(ulpdu, 0, 0)
}

/// A tagged segment.
pub fn tagged(control: u8, rdmap: u8, stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    let mut v = vec![control, rdmap];
    v.extend(stag.to_be_bytes());
    v.extend(to.to_be_bytes());
    v.extend(payload);
    v
}

/// An untagged segment; `inv` are the octets behind the RDMAP control octet.
pub fn untagged(ctl: u8, rdmap: u8, inv: u32, at: [u32; 3], payload: &[u8]) -> Vec<u8> {
    let mut v = vec![ctl, rdmap];
    v.extend(inv.to_be_bytes());
    for n in at {
        v.extend(n.to_be_bytes());
    }
    v.extend(payload);
    v
}

/// A Send of one segment.
pub fn send(msn: u32, payload: &[u8]) -> Vec<u8> {
    untagged(U_LAST, SEND, 0, [0, msn, 0], payload)
}

/// A Write of one segment.
pub fn write(stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    tagged(T_LAST, WRITE, stag, to, payload)
}

/// What a Read Request says.
#[derive(Clone, Copy)]
pub struct Read {
    pub sink: (u32, u64),
    pub len: u32,
    pub source: (u32, u64),
}

impl Read {
    /// The Read Request header (RFC 5040 section 4.4).
    pub fn header(&self) -> Vec<u8> {
        let mut v = self.sink.0.to_be_bytes().to_vec();
        v.extend(self.sink.1.to_be_bytes());
        v.extend(self.len.to_be_bytes());
        v.extend(self.source.0.to_be_bytes());
        v.extend(self.source.1.to_be_bytes());
        v
    }

    /// The message.
    pub fn request(&self, msn: u32) -> Vec<u8> {
        untagged(U_LAST, READ_REQ, 0, [1, msn, 0], &self.header())
    }
}

/// A Read Response of one segment.
pub fn read_resp(stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    tagged(T_LAST, READ_RESP, stag, to, payload)
}

/// A Terminate around its control word and what follows (RFC 5040 section 4.8).
pub fn terminate_raw(payload: &[u8]) -> Vec<u8> {
    untagged(U_LAST, TERMINATE, 0, [2, 1, 0], payload)
}

/// The Terminate for `code` that complains about the segment `bad` (RFC 5040 figures 7 to 10):
/// which parts are quoted depends on layer and type.
pub fn terminate(code: u16, bad: Option<&[u8]>) -> Vec<u8> {
    let [layer_type, number] = code.to_be_bytes();
    let quotes = match layer_type {
        0x01 | 0x02 | 0x10 | 0x11 | 0x12 => bad,
        _ => None,
    };
    let mut p = vec![layer_type, number, 0, 0];
    if let Some(bad) = quotes {
        let header = if bad[0] & 0x80 != 0 { 14 } else { 18 };
        p[2] = 0xc0;
        p.extend((bad.len() as u16).to_be_bytes());
        p.extend(&bad[..header]);
        if layer_type == 0x01 && bad[1] & 0x0f == 1 {
            p[2] = 0xe0;
            p.extend(&bad[header..header + 28]);
        }
    }
    terminate_raw(&p)
}

/// `n` octets that tell where they belong.
pub fn pattern(n: usize, seed: u8) -> Vec<u8> {
    (0..n)
        .map(|i| {
            (i as u8)
                .wrapping_mul(31)
                .wrapping_add((i >> 8) as u8)
                .wrapping_add(seed)
        })
        .collect()
}

/// As it is printed.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('?');
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// What `hex` has printed; `-` is nothing.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('-').as_bytes();
    let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    digits
        .chunks_exact(2)
        .map(|p| (nibble(p[0]) << 4) | nibble(p[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CRCs of RFC 5044 figures 5 and 6 without markers (M-MPA-4).
    #[test]
    fn sample_fpdus() {
        let sample = |msn| fpdu(&send(msn, &[0; 24]));
        assert_eq!(sample(1)[44..], [0xb7, 0x24, 0x3e, 0xc3]);
        assert_eq!(sample(2)[44..], [0x29, 0x0f, 0xbe, 0xde]);
    }

    #[test]
    fn enhanced_words() {
        assert_eq!(words(0xf, 2, 5), [0xc0, 2, 0xc0, 5]);
        assert_eq!(words(0xa, 0x3fff, 1), [0xbf, 0xff, 0x80, 1]);
        assert_eq!(read_words(&words(9, 300, 16382)), (9, 300, 16382));
    }
}
