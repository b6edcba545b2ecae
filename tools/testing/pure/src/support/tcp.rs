// SPDX-License-Identifier: GPL-2.0

//! TCP as a sender finds it: it takes what a test, or the other side, lets it.

use super::crc::crc32c;
use super::queue::{Did, Log};
use super::room::Room;
use crate::num::Broken;
use crate::proto::drain::{Stop, Waker};
use crate::proto::transport::{Capacity, Refused, SendFlags, Shortage, Transport};
use crate::wire::fpdu::Crc;
use std::collections::VecDeque;

/// The answer of an other end on this host that takes a segment later.
pub(crate) fn waits() -> Result<bool, Stop> {
    Err(Waker::OtherEnd.mark(|| ()).into())
}

/// TCP, and a batch in front of it.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) segment: u32,
    /// Octets that TCP says it would take,
    pub(crate) space: usize,
    /// and that it does take.
    pub(crate) takes: usize,
    /// Octets that a batch has room for.
    pub(crate) room: usize,
    /// Batches, and segments past it, that it still takes.
    pub(crate) allowance: usize,
    /// Octets after which a batch breaks, whatever it said about room.
    pub(crate) breaks_at: usize,
    /// A batch cannot forget a part of it.
    pub(crate) keeps: bool,
    pub(crate) refuses: bool,
    /// It has refused, and tells of the end of the connection.
    pub(super) has_refused: bool,
    /// Memory may not be waited for.
    pub(crate) is_hasty: bool,
    /// What becomes of segments that go past TCP; without that they do not.
    pub(crate) direct: Option<Result<bool, Stop>>,
    /// What lacks room does so as the batch is full, not for want of memory.
    pub(crate) is_full: bool,
    /// Those that did: headers and payload.
    pub(crate) handed: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// There is another side, which takes in what is sent, and a segment past TCP only if nothing is
    /// in front of it.
    pub(crate) is_read: bool,
    /// Octets of these since the last batch.
    since: usize,
    /// The mark of whoever wakes the sender, until the next run: TCP, the other end or the timer.
    pub(crate) marked: Option<Waker>,
    batch: Vec<u8>,
    piece: Room,
    /// What was sent, and how.
    pub(crate) out: Vec<u8>,
    pub(crate) flags: Vec<SendFlags>,
    pub(super) log: Log,
}

impl Tcp {
    /// One that takes everything, in segments of up to so many octets.
    pub(super) fn new(segment: u32) -> Self {
        Self {
            segment,
            space: usize::MAX,
            takes: usize::MAX,
            room: usize::MAX,
            allowance: usize::MAX,
            breaks_at: usize::MAX,
            keeps: false,
            refuses: false,
            has_refused: false,
            is_hasty: false,
            direct: None,
            is_full: false,
            handed: VecDeque::new(),
            is_read: false,
            since: 0,
            marked: None,
            batch: Vec::new(),
            piece: Room::default(),
            out: Vec::new(),
            flags: Vec::new(),
            log: Log::default(),
        }
    }

    /// Whether a batch waits to be sent.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// A segment goes past it.
    pub(super) fn hand_over(&mut self, front: &[u8], payload: Vec<u8>) {
        self.allowance -= 1;
        self.since += front.len() + payload.len();
        self.handed.push_back((front.to_vec(), payload));
    }

    /// Has `waker` wake the sender.
    fn waits_for(&mut self, waker: Waker) -> Stop {
        waker.mark(|| self.marked = Some(waker)).into()
    }

    /// Takes everything from now on, in segments of the same size.
    pub(crate) fn heal(&mut self) {
        self.space = usize::MAX;
        self.takes = usize::MAX;
        self.room = usize::MAX;
        self.breaks_at = usize::MAX;
        self.keeps = false;
    }
}

impl Transport for Tcp {
    type Mark = usize;

    fn is_direct(&self) -> bool {
        self.direct.is_some() && self.batch.is_empty()
    }

    fn has_placed(&self) -> bool {
        true
    }

    fn prepare(&mut self, _front: &[u8]) -> Result<bool, Stop> {
        assert!(self.is_direct());
        let answer = if self.is_read && (!self.out.is_empty() || self.allowance == 0) {
            waits()
        } else if self.is_read && self.since > self.space {
            Err(Stop::Again)
        } else {
            self.direct.expect("direct")
        };
        if answer == Ok(false) {
            self.direct = None;
            self.since = 0;
        }
        match answer {
            Err(Stop::For(_)) => Err(self.waits_for(Waker::OtherEnd)),
            _ => answer,
        }
    }

    fn capacity(&self) -> Capacity {
        let is_direct = self.is_direct();
        Capacity {
            segment_size: match is_direct {
                true => u32::MAX,
                false => self.segment,
            },
            space: match is_direct && !self.is_read {
                true => usize::MAX,
                false => self.space,
            },
        }
    }

    fn unsent(&self) -> usize {
        self.batch.len() + self.since
    }

    fn reserve(&mut self, len: u32) -> Result<(), Shortage> {
        match self.batch.len() + len as usize <= self.room {
            true => Ok(()),
            false if self.is_full => Err(Shortage::Room),
            false => Err(Shortage::Memory),
        }
    }

    fn starve(&mut self) -> Stop {
        match self.is_hasty {
            true => Stop::Again,
            false => self.waits_for(Waker::Timer),
        }
    }

    fn mark(&self) -> usize {
        self.batch.len()
    }

    fn truncate(&mut self, mark: usize) -> Result<(), Broken> {
        assert!(mark <= self.batch.len());
        if self.keeps {
            self.batch.clear();
            return Err(Broken);
        }
        self.batch.truncate(mark);
        Ok(())
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Broken> {
        let fits = self.breaks_at.saturating_sub(self.batch.len());
        self.batch.extend(octets.iter().take(fits));
        if octets.len() > fits {
            return Err(Broken);
        }
        Ok(())
    }

    fn put_with<R, E: From<Broken>>(
        &mut self,
        len: u32,
        count: u32,
        write: impl FnOnce(&mut [u8]) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let left = self.breaks_at.min(self.room);
        let left = left.saturating_sub(self.batch.len());
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let room = self.piece.get(len, count, left / len)?;
        let octets = room.len() as u32;
        let written = write(room);
        if written.is_ok() {
            self.piece.commit(octets, &mut self.batch);
        }
        Some(written)
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn crc_since(&self, mark: usize) -> Result<Crc, Broken> {
        Ok(Crc::new().update(crc32c, &self.batch[mark..]))
    }

    fn send(&mut self, how: SendFlags) -> Result<Stop, Refused> {
        if std::mem::take(&mut self.since) > 0 {
            assert!(self.batch.is_empty(), "one way at a time");
            self.log.borrow_mut().push(Did::Sent);
            return Ok(Stop::Empty);
        }
        assert!(!self.batch.is_empty(), "nothing is sent");
        if self.refuses {
            self.batch.clear();
            return Err(Refused(Waker::Socket.mark(|| self.has_refused = true)));
        }
        // A real other side takes in at once what is handed over; here TCP waits until it has.
        if self.allowance == 0 || (self.is_read && !self.handed.is_empty()) {
            return Ok(self.waits_for(Waker::Socket));
        }
        self.allowance -= 1;
        self.flags.push(how);
        let n = self.takes.min(self.batch.len());
        if self.takes != usize::MAX {
            self.takes -= n;
        }
        self.out.extend(self.batch.drain(..n));
        if !self.batch.is_empty() {
            return Ok(self.waits_for(Waker::Socket));
        }
        self.log.borrow_mut().push(Did::Sent);
        Ok(Stop::Empty)
    }
}
