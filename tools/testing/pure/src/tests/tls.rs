// SPDX-License-Identifier: GPL-2.0

//! How a stream with TLS begins.

use crate::wire::tls::{Opening, OPENING};
use crate::wire::Short;

/// The first octets of a ClientHello in a record of this length.
fn hello(len: u16) -> [u8; OPENING] {
    let [high, low] = len.to_be_bytes();
    [22, 3, 1, high, low, 1]
}

/// A ClientHello is known by its first octets, and no sooner.
#[test]
fn client_hello() {
    for len in [45, 512, 1 << 14] {
        let octets = hello(len);
        for cut in 0..OPENING {
            assert_eq!(Opening::parse(&octets[..cut]), Err(Short), "{cut} octets");
        }
        let whole = Opening::ClientHello(usize::from(len) + 5);
        assert_eq!(Opening::parse(&octets), Ok(whole));
        // The versions that RFC 8446 appendix D.1 knows of.
        for minor in [0, 3] {
            let mut octets = octets;
            octets[2] = minor;
            assert_eq!(Opening::parse(&octets), Ok(whole));
        }
    }
}

/// Anything else is known as soon as it is there.
#[test]
fn other_than_a_client_hello() {
    let mpa = *b"MPA ID";
    assert_eq!(Opening::parse(&mpa[..1]), Ok(Opening::Other));
    assert_eq!(Opening::parse(&mpa), Ok(Opening::Other));
    for at in [0, 1, 5] {
        let mut octets = hello(512);
        octets[at] += 1;
        assert_eq!(Opening::parse(&octets), Ok(Opening::Other), "octet {at}");
        assert_eq!(Opening::parse(&octets[..=at]), Ok(Opening::Other));
    }
    for len in [0, 44, (1 << 14) + 1, u16::MAX] {
        assert_eq!(Opening::parse(&hello(len)[..5]), Ok(Opening::Other));
    }
}
