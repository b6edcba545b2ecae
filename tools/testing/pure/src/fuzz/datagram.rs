// SPDX-License-Identifier: GPL-2.0

//! Packets that may be datagrams.

use crate::proto::by_number::Gid;
use crate::proto::datagram::{Datagram, Discard};
use crate::support::crc::crc32;
use crate::support::datagram::sealed;
use crate::wire::roce::{ICRC_LEN, UDP_LEN};

/// A packet whose IP header is as long as the first octet says.
pub(super) fn parse(data: &[u8]) {
    let Some((&len, packet)) = data.split_first() else {
        return;
    };
    let (ip, udp) = packet.split_at(usize::from(len).min(packet.len()));
    let parsed = Datagram::parse(ip, udp, crc32);
    // A fuzzer does not guess an ICRC. So it has a second try, with one that is always right.
    let icrc = udp.last_chunk().map_or(0, |icrc| u32::from_le_bytes(*icrc));
    let other = Datagram::parse(ip, udp, |_, _| !icrc);
    assert!(parsed == other || parsed == Err(Discard::Icrc));
    if let Ok(datagram) = other {
        check(&datagram, udp);
        send_again(&datagram);
    }
}

/// The parts of a datagram are all of the packet, in their order.
fn check(datagram: &Datagram<'_>, udp: &[u8]) {
    let (headers, message) = (&datagram.headers, datagram.message);
    let front = UDP_LEN.saturating_add(headers.len());
    let parts = [front, message.len(), headers.pad.into(), ICRC_LEN];
    assert_eq!(parts.iter().sum::<usize>(), udp.len());
    assert!(udp
        .get(front..)
        .is_some_and(|rest| rest.starts_with(message)));
}

/// The same message between the same addresses is the same datagram, if the sender's pad is the one
/// that a message needs.
fn send_again(datagram: &Datagram<'_>) {
    let grh = datagram.grh.last_chunk::<32>().and_then(|addresses| {
        let (from, to) = addresses.split_first_chunk()?;
        Some((*from, to.try_into().ok()?))
    });
    let (from, to): (Gid, Gid) = grh.unwrap_or_default();
    let message = datagram.message;
    let Some(packet) = sealed(message, datagram.headers, (from, to)) else {
        return;
    };
    let again = Datagram::parse(&packet.ip, &packet.udp, crc32);
    assert!(again.is_ok_and(|again| {
        let mut headers = datagram.headers;
        headers.pad = again.headers.pad;
        (again.headers, again.message) == (headers, message)
    }));
}
