// SPDX-License-Identifier: GPL-2.0

//! Connection set-up: both roles against each other and against frames made by hand.

mod enhanced;
mod frames;

use crate::proto::message::Rtr;
use crate::proto::negotiate::Depths;
use crate::proto::setup::{Config, Initiator, Params, Reason, Responder, SetupEvent};
use crate::support::by_hand;
pub(super) use crate::support::by_hand::{mpa as frame, C, M, R, REP, REQ, S};
use crate::support::rng::{Choices, Rng};
use crate::wire::mpa::{Enhanced, RtrSet, MAX_FRAME, NO_NEGOTIATION};
use crate::wire::terminate::TermError;
use crate::wire::Short;

/// FPDUs may be longer than segments.
pub(super) const L: u8 = 0x08;

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

pub(super) fn words(ird: u16, ord: u16, bits: [bool; 4]) -> Vec<u8> {
    let flags = bits
        .iter()
        .fold(0, |flags, bit| (flags << 1) | u8::from(*bit));
    by_hand::words(flags, ird, ord).to_vec()
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
