// SPDX-License-Identifier: GPL-2.0

//! A TCP socket and the batch in front of it, as the sender sees them.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    base::Base,
    direct::Direct,
    stream::Stream, //
};
use crate::{
    ffi::{
        hash::crc32c,
        mm::page::PageSlice,
        net::{
            self,
            Mark,
            TcpState,
            TxBatch, //
        },
    },
    proto::{
        drain::{
            Stop,
            Waker, //
        },
        transport::{
            Broken,
            Piece,
            Refused,
            SendFlags,
            Transport, //
        },
        tuning::TX_BATCH, //
    },
    wire::fpdu::{
        Crc,
        MAX_FPDU, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Chunks of a batch, if each is a page: the last FPDU may go beyond [`TX_BATCH`], with markers,
/// and the first and last chunk may be used in part.
const BATCH_CHUNKS: usize = (TX_BATCH.range.1 as usize + MAX_FPDU + MAX_FPDU / 128) / PAGE_SIZE + 2;

/// Makes an empty batch.
pub(super) fn batch(qp: &Base) -> Result<TxBatch> {
    TxBatch::new(qp.dev.chunks.clone(), BATCH_CHUNKS)
}

pub(super) struct TcpTransport<'a> {
    pub(super) qp: &'a Base,
    pub(super) stream: &'a Arc<Stream>,
    pub(super) batch: &'a mut TxBatch,
    /// Whether the caller may wait for memory, for the socket and for those who use a region.
    pub(super) may_wait: bool,
    /// Set if the other end of the connection is on this host.
    pub(super) direct: Option<Direct<'a>>,
}

impl Transport for TcpTransport<'_> {
    type Mark = Mark;

    #[inline]
    fn is_direct(&self) -> bool {
        // TCP has to take the rest of an earlier batch first.
        self.direct.is_some() && self.batch.is_empty()
    }

    #[inline]
    fn prepare(&mut self, front: &[u8]) -> Result<bool, Stop> {
        let Some(direct) = &mut self.direct else {
            return Ok(false);
        };
        let answer = direct.prepare(front);
        self.qp.trace_direct(|| direct.peer(), &answer);
        if matches!(answer, Ok(false)) {
            self.direct = None;
        }
        answer
    }

    #[inline]
    fn segment_size(&self) -> u32 {
        if self.is_direct() {
            return u32::MAX;
        }
        self.stream.sock.mss()
    }

    fn space(&self) -> usize {
        if self.is_direct() {
            return usize::MAX;
        }
        self.stream.sock.send_space()
    }

    fn len(&self) -> usize {
        let direct = self.direct.as_ref().map_or(0, Direct::len);
        self.batch.remaining().saturating_add(direct)
    }

    fn may_wait(&self) -> bool {
        self.may_wait
    }

    #[inline(always)]
    fn reserve(&mut self, len: u32) -> bool {
        self.batch.reserve(len, self.may_wait).is_ok()
    }

    fn starve(&mut self) -> Stop {
        match self.may_wait {
            true => self.stream.starve().into(),
            false => Stop::Again,
        }
    }

    #[inline]
    fn mark(&self) -> Mark {
        self.batch.mark()
    }

    fn truncate(&mut self, mark: Mark) -> Result<(), Broken> {
        self.batch.truncate(mark).map_err(|_| Broken)
    }

    fn clear(&mut self) {
        self.batch.clear();
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Broken> {
        self.batch.push_bytes(octets).map_err(|_| Broken)
    }

    #[inline(always)]
    fn room(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        self.batch.piece(len, count)
    }

    #[inline(always)]
    fn commit(&mut self, len: u32) -> Result<(), Broken> {
        self.batch.commit(len).map_err(|_| Broken)
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn crc_since(&self, mark: Mark) -> Result<Crc, Broken> {
        let octets = self.batch.since(mark).map_err(|_| Broken)?;
        Ok(octets.fold(Crc::new(), |crc, octets| crc.update(crc32c, octets)))
    }

    fn send(&mut self, how: SendFlags) -> Result<Stop, Refused> {
        if let Some(direct) = &mut self.direct {
            // TCP works on this side's socket now: no other one may be held meanwhile.
            direct.let_go();
            if self.batch.is_empty() {
                return Ok(Stop::Empty);
            }
        }
        let SendFlags { more, eor, cut } = how;
        let flags = net::SendFlags { more, eor, cut };
        let octets = self.batch.remaining();
        let sent = match self.may_wait {
            true => self.stream.sock.send_batch(self.batch, flags),
            false => self.stream.sock.send_batch_at_once(self.batch, flags),
        };
        self.qp.trace_batch(octets, self.batch.remaining(), sent);
        let error = match sent {
            Ok(_) if self.batch.is_empty() => return Ok(Stop::Empty),
            // TCP sets the mark where it finds no room (`SOCK_NOSPACE`).
            Ok(_) => return Ok(Waker::Socket.mark(|| {}).into()),
            // Who may wait asks again, and is told of the same error.
            Err(e) if !self.may_wait && e != EIO => return Ok(Stop::Again),
            Err(e) if e == ENOBUFS => return Ok(self.starve()),
            Err(e) => e,
        };
        // The connection has to end, if it has not yet. The socket's callbacks report that.
        if self.stream.sock.state() != TcpState::Closed {
            self.qp.log_peer(fmt!("TCP does not send: {error:?}"));
        }
        Err(Refused(Waker::Socket.mark(|| self.stream.sock.abort())))
    }
}

impl Piece<TcpTransport<'_>> for PageSlice<'_> {
    #[inline]
    fn len(&self) -> u32 {
        PageSlice::len(self)
    }

    #[inline]
    fn take_front(&mut self, len: u32) -> Self {
        PageSlice::take_front(self, len)
    }

    fn put(&self, transport: &mut TcpTransport<'_>) -> Result<(), Broken> {
        transport.batch.push_pages(self).map_err(|_| Broken)
    }

    #[inline]
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Broken> {
        self.copy_out(out).map_err(|_| Broken)
    }
}
