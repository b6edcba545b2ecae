// SPDX-License-Identifier: GPL-2.0

//! What is read of TLS 1.3 here (RFC 8446): whether a peer has begun a handshake. The rest is the
//! business of a daemon and of the kernel. Any context.
#![forbid(unsafe_code)]

use super::Short;

/// Octets of the header of a record (RFC 8446 section 5.1).
const RECORD_HEADER: usize = 5;
/// The most octets of a stream that [`Opening::parse`] looks at.
pub(crate) const OPENING: usize = RECORD_HEADER + 1;

/// A type of records.
const HANDSHAKE: u8 = 22;
/// What the legacy version of a record begins with.
const VERSION: u8 = 3;
/// A type of messages (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
/// Range of the length of the first record of a stream: a ClientHello without any extension, and
/// the most that a record may have.
const LENGTHS: core::ops::RangeInclusive<usize> = 45..=1 << 14;

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The stream begins with a ClientHello, or with the first part of one: a record of this many
    /// octets.
    ClientHello(usize),
    /// The stream begins with something else.
    Other,
}

impl Opening {
    /// Looks at the first octets of a stream. Fails if they may be those of a ClientHello, but are
    /// too few to tell.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, Short> {
        let fits =
            |at: usize, good: fn(u8) -> bool| octets.get(at).is_none_or(|octet| good(*octet));
        let is_good = fits(0, |kind| kind == HANDSHAKE)
            && fits(1, |major| major == VERSION)
            && fits(RECORD_HEADER, |message| message == CLIENT_HELLO);
        if !is_good {
            return Ok(Self::Other);
        }
        let [_, _, _, high, low, rest @ ..] = octets else {
            return Err(Short);
        };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if !LENGTHS.contains(&len) {
            return Ok(Self::Other);
        }
        if rest.is_empty() {
            return Err(Short);
        }
        Ok(Self::ClientHello(len.saturating_add(RECORD_HEADER)))
    }
}
