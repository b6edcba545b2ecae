// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that their consumers connect by number, as with InfiniBand. Two programs exchange
//! the addresses, QP numbers and packet sequence numbers (PSNs) of their queue pairs in some way of
//! their own. With the step to RTR each program gives those of the peer to its own queue pair. This
//! file decides what follows from that. The connection manager has no consumer here.
//!
//! Both ends run this driver. The end with the higher number connects ([`Pair::dials`]): it sends a
//! Request whose private data is a [`Hello`]. The other end judges the Request ([`judge`]) and
//! answers with a `Hello` of its own, or with an objection. Either end may be ready first: the end
//! that dials tries again ([`Trying`]), and a Request that comes early is parked.
//!
//! A `Hello` says with which PSN its sender expects the other end to begin. An end knows its own
//! first PSN from the step to RTS on, and then compares it with what the other end expects. PSNs
//! have no other use here: many programs use constants.
//!
//! The addresses are GIDs ([`GidTable`]). Programs exchange GIDs, but name them to the driver by an
//! index. So an address keeps its index for as long as the interface has the address, whatever
//! other addresses come and go. Index 0 has the GID that is made of the hardware address: the RDMA
//! CM uses the GID of index 0, whatever it is.
//!
//! Pure: any context, under the lock of the object that owns the value.
#![forbid(unsafe_code)]

use core::cmp::Ordering;
use core::num::Saturating;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::FromBytes as _;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// A GID, or an IPv6 address, in network order. IPv4 addresses are IPv4-mapped (RFC 4291 section
/// 2.5.5.2).
pub(crate) type Gid = [u8; 16];

/// How many GIDs a port can have.
pub(crate) const MAX_GIDS: usize = 32;

/// The entry of an index without a GID, as in the RDMA core.
pub(crate) const NO_GID: Gid = [0; 16];

/// The GIDs of a port, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GidTable([Gid; MAX_GIDS]);

impl GidTable {
    pub(crate) const EMPTY: Self = Self([NO_GID; MAX_GIDS]);

    /// Returns the GID of an index; [`NO_GID`] if it has none.
    pub(crate) fn get(&self, index: usize) -> Gid {
        self.0.get(index).copied().unwrap_or(NO_GID)
    }

    /// Brings the table up to date: `first` is the GID of index 0, and `addresses` are what the
    /// interface has now. Addresses for which no index is free are left out. Returns whether the
    /// table has changed.
    pub(crate) fn follow(&mut self, first: Gid, addresses: &[Gid]) -> bool {
        let before = *self;
        let [index_0, others @ ..] = &mut self.0;
        *index_0 = first;
        for gid in others.iter_mut() {
            if *gid == first || !addresses.contains(gid) {
                *gid = NO_GID;
            }
        }
        for address in addresses {
            if *address == NO_GID || *address == first || others.contains(address) {
                continue;
            }
            let Some(free) = others.iter_mut().find(|gid| **gid == NO_GID) else {
                break;
            };
            *free = *address;
        }
        *self != before
    }
}

/// Returns the addresses that two GIDs stand for, this end's and the peer's, as in a step to RTR or
/// in a datagram. `None` if this end's is not one of `addresses`, which are the interface's.
///
/// `first` is the GID of index 0. If it is none of `addresses`, it names this device, and then both
/// ends are on this device. Both get the same address: the other GID, or the first of `addresses`
/// if both GIDs are `first`.
pub(crate) fn addresses_of(
    (own, peer): (Gid, Gid),
    first: Gid,
    addresses: impl Iterator<Item = Gid> + Clone,
) -> Option<(Gid, Gid)> {
    // Bound: the addresses that have a GID.
    let has = |gid: &Gid| addresses.clone().any(|address| address == *gid);
    if has(&first) || (own != first && peer != first) {
        return has(&own).then_some((own, peer));
    }
    let other = if own == first { peer } else { own };
    let stand_in = match other == first {
        true => addresses.clone().next()?,
        false => Some(other).filter(has)?,
    };
    Some((stand_in, stand_in))
}

/// QP numbers and PSNs have 24 bits.
const MASK_24: u32 = 0xff_ffff;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QpEnd {
    /// Ends are compared by this field first. So both ends agree on who dials, even if programs
    /// name one end by different addresses.
    qpn: u32,
    gid: Gid,
}

impl QpEnd {
    pub(crate) const fn new(qpn: u32, gid: Gid) -> Self {
        Self {
            qpn: qpn & MASK_24,
            gid,
        }
    }

    pub(crate) const fn qpn(&self) -> u32 {
        self.qpn
    }

    pub(crate) const fn gid(&self) -> Gid {
        self.gid
    }
}

/// What the step to RTR tells of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) own: QpEnd,
    pub(crate) peer: QpEnd,
    /// The PSN that the peer begins with.
    expected_psn: u32,
}

/// Who connects the two ends of a pair; the other one listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    ThisEnd,
    OtherEnd,
    /// Both are the same queue pair, which is connected to itself.
    Nobody,
}

impl Pair {
    pub(crate) fn new(own: QpEnd, peer: QpEnd, expected_psn: u32) -> Self {
        Self {
            own,
            peer,
            expected_psn: expected_psn & MASK_24,
        }
    }

    /// Returns who connects, which both ends find in the same way.
    pub(crate) fn caller(&self) -> Caller {
        match self.own.cmp(&self.peer) {
            Ordering::Greater => Caller::ThisEnd,
            Ordering::Less => Caller::OtherEnd,
            Ordering::Equal => Caller::Nobody,
        }
    }

    pub(crate) fn dials(&self) -> bool {
        self.caller() == Caller::ThisEnd
    }

    pub(crate) fn listens(&self) -> bool {
        self.caller() == Caller::OtherEnd
    }

    /// Returns what this end says to the other one. `rnr_retry` is how often this end repeats a
    /// message for which the peer has no receive, if that is known yet. `takes_immediate` says
    /// whether this end's consumer can be told of immediate data that come with a Send.
    pub(crate) fn hello(&self, rnr_retry: Option<u8>, takes_immediate: bool) -> Hello {
        Hello {
            from: self.own.qpn,
            to: self.peer.qpn,
            expects_psn: self.expected_psn,
            rnr_retry,
            takes_immediate,
        }
    }

    /// Checks what the other end says. `psn` is the PSN that this end begins with, if it is known
    /// yet.
    pub(crate) fn check(&self, hello: &Hello, psn: Option<u32>) -> Result<(), Objection> {
        if (hello.from, hello.to) != (self.peer.qpn, self.own.qpn) {
            return Err(Objection::NotExpected);
        }
        hello.check_psn(psn)
    }
}

/// How many octets of private data Requests and Replies have.
pub(crate) const HELLO_LEN: usize = 32;
const MAGIC: [u8; 8] = *b"rsiwQPs\0";
const VERSION: u8 = 1;
/// The value of `rnr_retry` that means "not known".
const UNKNOWN: u8 = 0xff;
/// The flag of an end whose consumer can be told of immediate data that come with a Send.
const TAKES_IMMEDIATE: u8 = 1 << 0;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHello {
    magic: [u8; 8],
    version: u8,
    /// Zero, or why the Request is refused.
    objection: u8,
    rnr_retry: u8,
    /// [`TAKES_IMMEDIATE`] or nothing.
    flags: u8,
    from: U32,
    to: U32,
    expects_psn: U32,
    reserved: [u8; 8],
}

const _: () = assert!(size_of::<RawHello>() == HELLO_LEN);

/// What one end says to the other, as the private data of the Request or of the Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) from: u32,
    pub(crate) to: u32,
    expects_psn: u32,
    /// How often the sender of this `Hello` repeats a message for which there is no receive.
    pub(crate) rnr_retry: Option<u8>,
    /// The sender of this `Hello` takes Sends with immediate data.
    pub(crate) takes_immediate: bool,
}

impl Hello {
    /// Reads the private data of a Request, or of a Reply, which may be an objection.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Objection> {
        // The end that listens gets private data of any length; a later version may have more.
        let (raw, _) = RawHello::read_from_prefix(data).map_err(|_| Objection::Foreign)?;
        if raw.magic != MAGIC {
            return Err(Objection::Foreign);
        }
        if raw.objection != 0 {
            return Err(Objection::from_wire(raw.objection));
        }
        if raw.version != VERSION {
            return Err(Objection::Version);
        }
        Ok(Self {
            from: raw.from.get() & MASK_24,
            to: raw.to.get() & MASK_24,
            expects_psn: raw.expects_psn.get() & MASK_24,
            rnr_retry: (raw.rnr_retry != UNKNOWN).then_some(raw.rnr_retry),
            takes_immediate: raw.flags & TAKES_IMMEDIATE != 0,
        })
    }

    pub(crate) fn to_wire(self) -> [u8; HELLO_LEN] {
        zerocopy::transmute!(RawHello {
            magic: MAGIC,
            version: VERSION,
            objection: 0,
            rnr_retry: self.rnr_retry.unwrap_or(UNKNOWN),
            flags: match self.takes_immediate {
                true => TAKES_IMMEDIATE,
                false => 0,
            },
            from: U32::new(self.from),
            to: U32::new(self.to),
            expects_psn: U32::new(self.expects_psn),
            reserved: [0; 8],
        })
    }

    /// Checks whether the sender of this `Hello` expects `psn`, with which this end begins; any
    /// `Hello` is right if that is not known yet.
    pub(crate) fn check_psn(&self, psn: Option<u32>) -> Result<(), Objection> {
        match psn {
            Some(psn) if psn & MASK_24 != self.expects_psn => Err(Objection::Psn),
            _ => Ok(()),
        }
    }
}

/// Why two ends do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The private data of the other end is no `Hello`.
    Foreign,
    Version,
    /// There is no QP of that number.
    NoSuchQp,
    /// The QP expects another peer.
    NotExpected,
    /// The QP has, or had, a connection.
    Taken,
    Psn,
    /// Too many Requests wait for queue pairs that are not ready.
    Crowded,
}

impl Objection {
    const fn code(self) -> u8 {
        match self {
            Self::Foreign => 1,
            Self::Version => 2,
            Self::NoSuchQp => 3,
            Self::NotExpected => 4,
            Self::Taken => 5,
            Self::Psn => 6,
            Self::Crowded => 7,
        }
    }

    const fn from_wire(code: u8) -> Self {
        match code {
            2 => Self::Version,
            3 => Self::NoSuchQp,
            4 => Self::NotExpected,
            5 => Self::Taken,
            6 => Self::Psn,
            7 => Self::Crowded,
            _ => Self::Foreign,
        }
    }

    /// Returns the private data of the Reply that refuses.
    pub(crate) fn to_wire(self) -> [u8; HELLO_LEN] {
        zerocopy::transmute!(RawHello {
            magic: MAGIC,
            version: VERSION,
            objection: self.code(),
            rnr_retry: UNKNOWN,
            flags: 0,
            from: U32::new(0),
            to: U32::new(0),
            expects_psn: U32::new(0),
            reserved: [0; 8],
        })
    }

    /// Returns the words for the log.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Foreign => "the peer does not connect by number",
            Self::Version => "the peer has another version of the driver",
            Self::NoSuchQp => "there is no such QP",
            Self::NotExpected => "the QP expects another peer",
            Self::Taken => "the QP has a connection, or had one",
            Self::Psn => "the PSNs do not match",
            Self::Crowded => "too many wait for queue pairs that are not ready",
        }
    }
}

/// What the side that gets a Request finds under the QP number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    Nobody,
    /// The QP exists, but its consumer has not named a peer yet.
    Unready,
    /// The QP waits for this peer, and begins with this PSN, if that is known yet.
    Waits(Pair, Option<u32>),
    /// The QP has a connection, had one, or is in error.
    Taken,
}

/// What to do with a Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// Keep the Request until the QP is ready.
    Park,
    Refuse(Objection),
}

/// Returns what to do with a Request that says `hello`. `from` and `to` are the addresses of its
/// TCP connection; `seen` is what is found under the QP number that it names.
pub(crate) fn judge(hello: &Hello, from: Gid, to: Gid, seen: Callee) -> Verdict {
    match seen {
        Callee::Nobody => Verdict::Refuse(Objection::NoSuchQp),
        Callee::Unready => Verdict::Park,
        Callee::Taken => Verdict::Refuse(Objection::Taken),
        Callee::Waits(pair, psn) => {
            // The consumer has asked for a connection between two addresses, and for no other.
            if (pair.peer.gid, pair.own.gid) != (from, to) || !pair.listens() {
                return Verdict::Refuse(Objection::NotExpected);
            }
            match pair.check(hello, psn) {
                Ok(()) => Verdict::Accept,
                Err(objection) => Verdict::Refuse(objection),
            }
        }
    }
}

/// The first pause between two tries, or looks, in milliseconds, and the longest one.
const FIRST_PAUSE: Saturating<u32> = Saturating(50);
const LONGEST_PAUSE: Saturating<u32> = Saturating(1_000);
/// For how many milliseconds the first try waits for the step to RTS.
const PUT_OFF_MS: u32 = 200;
/// The least and the most milliseconds that requests wait for a peer that does not answer.
const LEAST_WAIT_MS: u32 = 2_000;
const MOST_WAIT_MS: u32 = 60_000;

/// When a look was taken last, by a clock of milliseconds. A look that is not the first one ends a
/// pause, or comes before its end, as something has happened.
#[derive(Clone, Copy, Debug)]
struct LastLook(Option<u64>);

impl LastLook {
    const NONE: Self = Self(None);

    /// Takes a look. Returns how many milliseconds of the pause of `pause` have passed. A look that
    /// comes late counts no more than the pause: what is waited for may be newer.
    fn passed(&mut self, now: u64, pause: u32) -> u32 {
        let before = self.0.replace(now).unwrap_or(now);
        let passed = u32::try_from(now.saturating_sub(before));
        passed.unwrap_or(u32::MAX).min(pause)
    }
}

/// How long an end has tried to meet the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trying {
    last: LastLook,
    pause: Saturating<u32>,
    /// How many milliseconds requests have waited.
    waited: Saturating<u32>,
    is_put_off: bool,
}

impl Trying {
    pub(crate) const NOT_YET: Self = Self {
        last: LastLook::NONE,
        pause: Saturating(0),
        waited: Saturating(0),
        is_put_off: false,
    };

    /// Returns for how many milliseconds to put off the first try; `None` if it is due. It is put
    /// off once, while the consumer has not taken the step to RTS (`sends`), because that step sets
    /// a part of what the peer is told. Most consumers take that step at once, but some only after
    /// the two ends have met.
    pub(crate) fn put_off(&mut self, sends: bool) -> Option<u32> {
        let is_due = sends || self.is_put_off || !self.is_first();
        self.is_put_off |= !is_due;
        (!is_due).then_some(PUT_OFF_MS)
    }

    /// Returns whether there has been no pause yet.
    pub(crate) fn is_first(&self) -> bool {
        self.pause.0 == 0
    }

    /// Returns the milliseconds of the next pause. All calls but the first end a pause, maybe before
    /// its time. `now` is the time in milliseconds, `posted` says whether requests wait, and
    /// `most_ms` for how long they may. `None` if requests have waited for too long.
    pub(crate) fn next(&mut self, now: u64, posted: bool, most_ms: u32) -> Option<u32> {
        let passed = self.last.passed(now, self.pause.0);
        match posted {
            true => self.waited += passed,
            // No request waits for the peer, which may come minutes later.
            false => self.waited = Saturating(0),
        }
        if self.waited.0 >= most_ms {
            return None;
        }
        self.pause = (self.pause + self.pause)
            .max(FIRST_PAUSE)
            .min(LONGEST_PAUSE);
        Some(self.pause.0)
    }
}

/// How long the peer of a connection has been silent although it had to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    last: LastLook,
    /// For how many milliseconds it has been silent.
    silent: Saturating<u32>,
}

impl Silence {
    pub(crate) const NONE: Self = Self {
        last: LastLook::NONE,
        silent: Saturating(0),
    };

    /// Returns the milliseconds until the next look at a peer that has `most_ms` to answer.
    pub(crate) fn pause(most_ms: u32) -> u32 {
        (most_ms / 4).clamp(500, 5_000)
    }

    /// Looks at the peer at the time `now`, [`Silence::pause`] after the last look, or before that.
    /// `unanswered_ms` is the time since the peer last acknowledged something; `None` if it has
    /// nothing to acknowledge. Returns whether it has been silent for `most_ms`.
    pub(crate) fn look(&mut self, now: u64, unanswered_ms: Option<u32>, most_ms: u32) -> bool {
        let passed = self.last.passed(now, Self::pause(most_ms));
        match unanswered_ms {
            // Counts the pause, not `ms`: what waits for an acknowledgement may be newer than the
            // last acknowledgement.
            Some(ms) if ms >= passed => self.silent += passed,
            _ => self.silent = Saturating(0),
        }
        self.silent.0 >= most_ms
    }
}

/// Returns how many milliseconds requests wait for a peer that does not answer, by the attributes
/// `timeout` (4.096 us times 2 to that power; 0 is for ever) and `retry_cnt`.
pub(crate) fn answer_ms(timeout: u8, retry_cnt: u8) -> u32 {
    let tries = u64::from(retry_cnt).saturating_add(1);
    let ns = match timeout {
        1..=31 => 4_096_u64.checked_shl(timeout.into()),
        _ => None,
    };
    let ms = ns.unwrap_or(u64::MAX).saturating_mul(tries) / 1_000_000;
    u32::try_from(ms)
        .unwrap_or(u32::MAX)
        .clamp(LEAST_WAIT_MS, MOST_WAIT_MS)
}

/// The value of `rnr_retry` that means "for ever".
const FOR_EVER: u8 = 7;

/// Pauses that `min_rnr_timer` stands for, in units of 10 us (InfiniBand Architecture, volume 1,
/// table "Encoding for RNR NAK Timer Field").
const RNR_10_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Returns how many milliseconds a message waits for a receive. `rnr_retry` is the sender's, `None`
/// if the sender has not said; `min_rnr_timer` is the receiver's.
pub(crate) fn receive_ms(rnr_retry: Option<u8>, min_rnr_timer: u8) -> u32 {
    match rnr_retry.unwrap_or(FOR_EVER) {
        0 => 0,
        FOR_EVER.. => u32::MAX,
        tries => {
            let pause = RNR_10_US.get(usize::from(min_rnr_timer & 0x1f));
            let us_10 = pause.copied().unwrap_or(0).saturating_mul(tries.into());
            us_10.div_ceil(100)
        }
    }
}
