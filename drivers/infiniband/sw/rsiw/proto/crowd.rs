// SPDX-License-Identifier: GPL-2.0

//! A bounded number of connections that wait for something of their peers, and the choice of the
//! one that has to go if there are too many: strangers may open any number, and must not keep
//! others out (T-42).
//!
//! Where there is no room, the oldest connection of the source that has most of them has to go. So
//! nobody can drive out others by opening many connections, unless from as many sources.
#![forbid(unsafe_code)]

use core::cmp::Reverse;
use core::mem::swap;
use core::net::{
    IpAddr,
    Ipv6Addr, //
};
use core::ops::DerefMut;

/// For this many milliseconds a connection stays in a crowd undisturbed. Afterwards it may have to
/// go for a connection of another source that would have to wait ([`Crowd::admit_in_turn`]).
const UNDISTURBED_MS: u64 = 3_000;

/// Where connections come from: an address of IPv4, or a network of IPv6 with 2^64 addresses, of
/// which a host may use any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source(u128);

impl Source {
    pub(crate) const UNKNOWN: Self = Self(0);
    const HOST: u128 = (1 << 64) - 1;

    pub(crate) fn of(addr: IpAddr) -> Self {
        Self(match addr {
            IpAddr::V4(addr) => addr.to_ipv6_mapped().to_bits(),
            IpAddr::V6(addr) if addr.to_ipv4_mapped().is_some() => addr.to_bits(),
            IpAddr::V6(addr) => Ipv6Addr::to_bits(addr) & !Self::HOST,
        })
    }
}

/// A connection in a crowd. A newer connection has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    source: Source,
    number: usize,
    since_ms: u64,
}

impl Place {
    pub(crate) const FREE: Self = Self {
        source: Source::UNKNOWN,
        number: 0,
        since_ms: 0,
    };

    /// Returns the place of a connection from `source` that comes into a crowd at `since_ms`.
    pub(crate) fn new(source: Source, number: usize, since_ms: u64) -> Self {
        Self {
            source,
            number,
            since_ms,
        }
    }
}

/// The connections in a crowd. The memory `S` bounds their number.
pub(crate) struct Crowd<S> {
    places: S,
    /// How many of `places` are taken: the first ones, in order.
    taken: usize,
}

impl<S: DerefMut<Target = [Place]>> Crowd<S> {
    pub(crate) fn new(places: S) -> Self {
        Self { places, taken: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    fn taken(&self) -> &[Place] {
        self.places.get(..self.taken).unwrap_or(&[])
    }

    /// Adds a connection. Returns the number of another one that has to go for it, if one has to.
    pub(crate) fn admit(&mut self, place: Place) -> Option<usize> {
        let goes = self.is_full().then(|| self.first_to_go()).flatten();
        if let Some(goes) = goes {
            self.remove(goes.source, goes.number);
        }
        self.insert(place);
        goes.map(|goes| goes.number)
    }

    /// Adds a connection as [`Crowd::admit`] does, unless it has to wait. It has to wait if there
    /// is no room and the connection that would have to go may not be driven out. That connection
    /// may be driven out if it has been there for [`UNDISTURBED_MS`] and its source would still
    /// have at least as many connections as that of the new one.
    pub(crate) fn admit_in_turn(&mut self, place: Place) -> Result<Option<usize>, Crowded> {
        if self.is_full() {
            let own = self.count(place.source).saturating_add(1);
            let goes = self.first_to_go().ok_or(Crowded)?;
            let ms = place.since_ms.saturating_sub(goes.since_ms);
            if self.count(goes.source) <= own || ms < UNDISTURBED_MS {
                return Err(Crowded);
            }
        }
        Ok(self.admit(place))
    }

    /// Removes a connection. Returns whether it was there.
    pub(crate) fn remove(&mut self, source: Source, number: usize) -> bool {
        let at = self.first_place(|place| (place.source, place.number) == (source, number));
        let behind = self.places.get_mut(at..self.taken).unwrap_or_default();
        let was_there = !behind.is_empty();
        let mut next = Place::FREE;
        // Bound: the places.
        for place in behind.iter_mut().rev() {
            swap(place, &mut next);
        }
        self.taken = self.taken.saturating_sub(was_there.into());
        was_there
    }

    /// Removes any one of the connections, and returns its number.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let last = *self.taken().last()?;
        self.taken = self.taken.saturating_sub(1);
        Some(last.number)
    }

    fn is_full(&self) -> bool {
        self.taken == self.places.len()
    }

    /// Returns the index of the first taken place for which `holds` is true, or the number of taken
    /// places if there is none.
    fn first_place(&self, holds: impl Fn(&Place) -> bool) -> usize {
        // Bound: the places.
        let found = (0..self.taken)
            .zip(self.taken())
            .find(|(_, place)| holds(place));
        found.map_or(self.taken, |(at, _)| at)
    }

    fn count(&self, source: Source) -> usize {
        // Bound: the places.
        self.taken().iter().fold(0_usize, |count, place| {
            count.saturating_add((place.source == source).into())
        })
    }

    /// Returns the oldest connection of the source that has most connections.
    fn first_to_go(&self) -> Option<Place> {
        let mut most = (0_usize, None::<Place>);
        let mut same = most;
        // Bound: the places.
        for place in self.taken() {
            same = match same {
                (len, Some(oldest)) if oldest.source == place.source => {
                    (len.saturating_add(1), Some(oldest))
                }
                _ => (1, Some(*place)),
            };
            let rank = |(len, oldest): (usize, Option<Place>)| {
                (len, oldest.map(|oldest| Reverse(oldest.number)))
            };
            if rank(same) > rank(most) {
                most = same;
            }
        }
        most.1
    }

    /// Adds a connection. There is room for it, unless there are no places at all.
    fn insert(&mut self, place: Place) {
        let at = self.first_place(|other| *other >= place);
        self.taken = self.taken.saturating_add(1).min(self.places.len());
        let behind = self.places.get_mut(at..self.taken).unwrap_or_default();
        let mut next = place;
        // Bound: the places.
        for place in behind {
            swap(place, &mut next);
        }
    }
}

/// There is no room in a crowd at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;
