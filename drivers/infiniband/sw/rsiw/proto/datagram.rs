// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams: how a packet is made and taken apart, and the states of a queue pair that
//! sends and receives packets (InfiniBand Architecture Specification, volume 1, sections 10.3 and
//! 11.2, annex A17).
//!
//! A message is one packet. It may get lost, and is then lost silently: no peer is told, and no
//! request or receive fails. Whoever knows the number and the Q_Key of a queue pair may send to it.
//!
//! Context: any; whoever owns a queue pair serialises its steps.
#![forbid(unsafe_code)]

use super::by_number::Gid;
use crate::wire::roce::{
    Headers,
    Icrc,
    NoDatagram,
    GRH_LEN,
    GRH_NEXT,
    ICRC_LEN,
    IPV4_LEN,
    IPV6_LEN,
    MAX_HEADERS,
    UDP,
    UDP_LEN, //
};

/// Octets in front of and behind a message, in the memory that it is sent from.
pub(crate) const ROOM_IN_FRONT: usize = MAX_HEADERS;
pub(crate) const ROOM_BEHIND: usize = MAX_PAD + ICRC_LEN;
const MAX_PAD: usize = 3;

/// The octets in front of an IPv4 address in a GID.
const IPV4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Returns the IPv4 address in a GID, if there is one.
fn ipv4(gid: &Gid) -> Option<[u8; 4]> {
    let (prefix, address) = gid.split_last_chunk()?;
    (prefix == IPV4_MAPPED).then_some(*address)
}

/// The IP header of a packet, as the ICRC covers it: with zeros in place of what routers may
/// change.
struct IpHeader {
    octets: [u8; IPV6_LEN],
    len: usize,
}

impl IpHeader {
    /// Returns the header that the host puts in front of `udp_len` octets; `None` if the addresses
    /// are of different families. IPv4 packets are not fragmented, and so need no identification.
    fn of(from: &Gid, to: &Gid, udp_len: u16) -> Option<Self> {
        let mut octets = [0; IPV6_LEN];
        let len = match (ipv4(from), ipv4(to)) {
            (Some(from), Some(to)) => {
                let total = udp_len.checked_add(IPV4_LEN as u16)?.to_be_bytes(); // CAST: 20.
                let header = [
                    &[0x45, 0][..],
                    &total,
                    &[0, 0, 0x40, 0, 0, UDP, 0, 0],
                    &from,
                    &to,
                ];
                join(&mut octets, &header)
            }
            (None, None) => {
                let header = [
                    &[0x60, 0, 0, 0][..],
                    &udp_len.to_be_bytes(),
                    &[UDP, 0],
                    from,
                    to,
                ];
                join(&mut octets, &header)
            }
            _ => return None,
        };
        Some(Self { octets, len })
    }

    fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or(&[])
    }
}

/// Writes `parts` one behind the other, as far as there is room. Returns how many octets they have.
fn join(to: &mut [u8], parts: &[&[u8]]) -> usize {
    let octets = parts.iter().flat_map(|part| part.iter());
    for (to, from) in to.iter_mut().zip(octets) {
        *to = *from;
    }
    parts
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.len()))
}

/// Makes a packet of a message that lies in `room`, behind [`ROOM_IN_FRONT`] octets and in front of
/// [`ROOM_BEHIND`]: writes what stands around it, and returns the payload of UDP. `headers` has all
/// fields but the pad; `port` is the port of both ends. Returns `None` for a message that is too
/// long, or if the addresses are of different families.
pub(crate) fn seal<'a>(
    room: &'a mut [u8],
    message_len: usize,
    mut headers: Headers,
    (from, to): (&Gid, &Gid),
    port: u16,
    crc32: impl Fn(u32, &[u8]) -> u32,
) -> Option<&'a [u8]> {
    let pad = message_len.wrapping_neg() & MAX_PAD;
    headers.pad = pad as u8; // CAST: at most 3.
    let first = ROOM_IN_FRONT.checked_sub(headers.len())?;
    let padded = message_len.checked_add(pad)?;
    let icrc_at = padded.checked_add(ROOM_IN_FRONT)?;
    let end = icrc_at.checked_add(ICRC_LEN)?;
    let packet = room.get_mut(first..end)?;
    let (transport, message) = packet.split_at_mut_checked(headers.len())?;
    headers.write(transport).ok()?;
    let (message, icrc) = message.split_at_mut_checked(padded)?;
    message.get_mut(message_len..)?.fill(0);

    let udp_len = end.checked_sub(first)?.checked_add(UDP_LEN)?;
    let udp_len = u16::try_from(udp_len).ok()?;
    let ip = IpHeader::of(from, to, udp_len)?;
    let mut udp = [0; UDP_LEN];
    let (port, udp_len) = (port.to_be_bytes(), udp_len.to_be_bytes());
    let _ = join(&mut udp, &[&port, &port, &udp_len]);
    let begun = Icrc::begin(crc32, ip.as_bytes(), &udp, transport).ok()?;
    icrc.copy_from_slice(&begun.end(message));
    Some(packet)
}

/// The bits that say that an IPv4 packet is a fragment: others follow, or it is not the first.
const FRAGMENT: u16 = 0x3fff;

/// Returns the IP header with which `octets` begin, and the GRH that says the same. `None` if the
/// header has options, or is that of a fragment, or if no UDP header follows.
fn split_ip(octets: &[u8]) -> Option<(&[u8], [u8; GRH_LEN])> {
    let mut grh = [0; GRH_LEN];
    if let Some(ip) = octets.first_chunk::<IPV6_LEN>() {
        let [first, class_low, f1, f2, l1, l2, next, hops, addresses @ ..] = ip;
        if first >> 4 == 6 && *next == UDP {
            let start = [*first, *class_low, *f1, *f2, *l1, *l2, GRH_NEXT, *hops];
            let _ = join(&mut grh, &[&start, addresses]);
            return Some((ip, grh));
        }
    }
    let ip = octets.first_chunk::<IPV4_LEN>()?;
    let [0x45, tos, l1, l2, _, _, f1, f2, ttl, next, _, _, addresses @ ..] = ip else {
        return None;
    };
    let (from, to) = addresses.split_at_checked(4)?;
    // The length in an IPv4 header counts the header, too.
    let len = u16::from_be_bytes([*l1, *l2]).saturating_sub(IPV4_LEN as u16); // CAST: 20.
    let [l1, l2] = len.to_be_bytes();
    let start = [0x60 | (tos >> 4), tos << 4, 0, 0, l1, l2, GRH_NEXT, *ttl];
    let _ = join(&mut grh, &[&start, &IPV4_MAPPED, from, &IPV4_MAPPED, to]);
    let is_whole = u16::from_be_bytes([*f1, *f2]) & FRAGMENT == 0;
    (*next == UDP && is_whole).then_some((ip, grh))
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    /// It is no datagram.
    Malformed,
    /// Its ICRC is wrong.
    Icrc,
    /// There is no such queue pair, or it does not receive.
    NoQp,
    /// Its Q_Key is not that of the queue pair.
    Qkey,
    /// No receive is posted, or the oldest is too short for the message.
    NoReceive,
}

impl From<NoDatagram> for Discard {
    fn from(_: NoDatagram) -> Self {
        Self::Malformed
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) headers: Headers,
    /// What stands in front of the message in a receive: the header that InfiniBand would have
    /// (GRH). Libraries expect it there, because the core tells them that GIDs of iWARP are
    /// InfiniBand's.
    pub(crate) grh: [u8; GRH_LEN],
    pub(crate) message: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Returns how many octets of a receive the datagram takes.
    pub(crate) fn len(&self) -> u32 {
        let len = GRH_LEN.saturating_add(self.message.len());
        u32::try_from(len).unwrap_or(u32::MAX)
    }

    /// Takes a packet apart: `ip` begins with its IP header, `udp` is what follows that header.
    pub(crate) fn parse(
        ip: &[u8],
        udp: &'a [u8],
        crc32: impl Fn(u32, &[u8]) -> u32,
    ) -> Result<Self, Discard> {
        let (ip, grh) = split_ip(ip).ok_or(Discard::Malformed)?;
        let (udp, payload) = udp
            .split_first_chunk::<UDP_LEN>()
            .ok_or(Discard::Malformed)?;
        let (headers, rest) = Headers::parse(payload)?;
        let (padded, icrc) = rest
            .split_last_chunk::<ICRC_LEN>()
            .ok_or(Discard::Malformed)?;
        // IP puts packets together that are longer than any MTU.
        // CAST: 4096.
        if padded.len() & MAX_PAD != 0 || padded.len() > LONGEST_MESSAGE as usize {
            return Err(Discard::Malformed);
        }
        let transport = payload.get(..headers.len()).ok_or(Discard::Malformed)?;
        let begun = Icrc::begin(crc32, ip, udp, transport);
        if begun.map_err(NoDatagram::from)?.end(padded) != *icrc {
            return Err(Discard::Icrc);
        }
        let len = padded.len().checked_sub(headers.pad.into());
        let message = len.and_then(|len| padded.get(..len));
        Ok(Self {
            headers,
            grh,
            message: message.ok_or(Discard::Malformed)?,
        })
    }
}

/// The states of a queue pair for datagrams. Other states of InfiniBand are not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UdState {
    Reset,
    /// Receives may be posted.
    Init,
    /// It receives.
    Rtr,
    /// It sends, too.
    Rts,
    Error,
}

/// What decides whether a queue pair sends and receives. All of it fits one word, so that readers
/// take no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdAttrs {
    pub(crate) state: UdState,
    pub(crate) qkey: u32,
}

impl UdAttrs {
    /// The attributes of a new queue pair.
    pub(crate) const NEW: Self = Self {
        state: UdState::Reset,
        qkey: 0,
    };

    pub(crate) const fn to_word(self) -> u64 {
        // CAST: the numbers of the states, and 32 bits.
        ((self.state as u64) << 32) | self.qkey as u64
    }

    /// Returns the attributes of which [`UdAttrs::to_word`] has made `word`.
    pub(crate) const fn of_word(word: u64) -> Self {
        let state = match word >> 32 {
            0 => UdState::Reset,
            1 => UdState::Init,
            2 => UdState::Rtr,
            3 => UdState::Rts,
            _ => UdState::Error,
        };
        Self {
            state,
            qkey: word as u32, // CAST: the lower half.
        }
    }
}

impl UdState {
    /// Returns whether the consumer may take this step. A step from a state to itself changes
    /// attributes only.
    pub(crate) fn leads_to(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Reset | Self::Error)
                | (Self::Reset | Self::Init, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr | Self::Rts, Self::Rts)
        )
    }

    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts)
    }
}

/// The flag of a Q_Key in a request that asks for the queue pair's own Q_Key instead.
const OWN_QKEY: u32 = 1 << 31;

/// Returns the Q_Key of a datagram: `asked` is the one in its request, `own` that of its queue
/// pair.
pub(crate) const fn qkey(asked: u32, own: u32) -> u32 {
    match asked & OWN_QKEY {
        0 => asked,
        _ => own,
    }
}

/// The most octets that IP and all else around a message take.
pub(crate) const MOST_HEADERS: u32 = 80;
pub(crate) const LONGEST_MESSAGE: u32 = 4096;

const _: () = {
    let most = IPV6_LEN + UDP_LEN + MAX_HEADERS + MAX_PAD + ICRC_LEN;
    assert!(most <= MOST_HEADERS as usize); // CAST: 80.
};

/// Returns how many octets a message may have where packets have `mtu`: the longest of InfiniBand's
/// MTUs that leaves room for the headers.
pub(crate) fn longest_message(mtu: u32) -> u32 {
    let room = mtu.saturating_sub(MOST_HEADERS);
    [LONGEST_MESSAGE, 2048, 1024, 512]
        .into_iter()
        .find(|step| room >= *step)
        .unwrap_or(256)
}
