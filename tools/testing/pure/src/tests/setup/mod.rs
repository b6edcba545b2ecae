// SPDX-License-Identifier: GPL-2.0

//! Connection set-up: both roles against each other and against frames made by hand.

mod enhanced;
mod frames;

use crate::proto::collector::Reason;
use crate::proto::negotiate::Depths;
use crate::proto::setup::{Config, Initiator, Params, Responder, SetupEvent};
use crate::proto::tx::Rtr;
use crate::support::rng::{Choices, Rng};
use crate::wire::mpa::{Enhanced, RtrSet, MAX_FRAME, NO_NEGOTIATION};
use crate::wire::terminate::TermError;
use crate::wire::Short;

pub(super) const M: u8 = 0x80;
pub(super) const C: u8 = 0x40;
/// FPDUs may be longer than segments.
pub(super) const L: u8 = 0x08;
pub(super) const R: u8 = 0x20;
pub(super) const S: u8 = 0x10;

pub(super) const REQ: &[u8; 16] = b"MPA ID Req Frame";
pub(super) const REP: &[u8; 16] = b"MPA ID Rep Frame";

pub(super) fn depths(ird: u16, ord: u16) -> Depths {
    Depths { ird, ord }
}

pub(super) fn config(rev: u8) -> Config {
    Config {
        rev,
        crc: true,
        large_fpdus: false,
        peer_to_peer: false,
        rtr: RtrSet::ALL,
        cap: depths(128, 128),
    }
}

pub(super) fn p2p() -> Config {
    Config {
        peer_to_peer: true,
        ..config(2)
    }
}

/// A frame made by hand.
pub(super) fn frame(key: &[u8; 16], flags: u8, rev: u8, pd: &[u8]) -> Vec<u8> {
    let len = (pd.len() as u16).to_be_bytes();
    [&key[..], &[flags, rev], &len, pd].concat()
}

pub(super) fn words(ird: u16, ord: u16, bits: [bool; 4]) -> Vec<u8> {
    let [a, b, c, d] = bits.map(u16::from);
    let first = (a << 15) | (b << 14) | ird;
    let second = (c << 15) | (d << 14) | ord;
    [first.to_be_bytes(), second.to_be_bytes()].concat()
}

pub(super) const NO_BITS: [bool; 4] = [false; 4];

/// What a responder makes of `bytes`; it takes all of them or fails.
pub(super) fn respond(config: Config, bytes: &[u8]) -> (Responder, SetupEvent) {
    let mut responder = Responder::new(config);
    let fed = responder.feed(bytes);
    (responder, fed.event.expect("an event"))
}

pub(super) fn initiate(config: Config, want: Depths, bytes: &[u8]) -> (Initiator, SetupEvent) {
    let mut initiator = Initiator::new(config, want);
    let fed = initiator.feed(bytes);
    (initiator, fed.event.expect("an event"))
}

pub(super) fn accept(responder: &mut Responder, want: Depths, pd: &[u8]) -> (Vec<u8>, Params) {
    let mut out = [0xee; MAX_FRAME];
    let (n, params) = responder.accept(want, pd, &mut out).unwrap();
    (out[..n].to_vec(), params)
}

pub(super) fn established(event: SetupEvent) -> Params {
    match event {
        SetupEvent::Established(params) => params,
        other => panic!("{other:?}"),
    }
}

pub(super) fn reason(event: SetupEvent) -> (Reason, Option<TermError>) {
    match event {
        SetupEvent::Failed(f) => (f.reason, f.terminate),
        other => panic!("{other:?}"),
    }
}
