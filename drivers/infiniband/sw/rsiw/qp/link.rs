// SPDX-License-Identifier: GPL-2.0

//! A TCP socket and the batch in front of it, as the sender sees them.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::Qp;
use crate::{
    ffi::{
        crc::crc32c,
        log::pr_ratelimited,
        net::{
            self,
            Mark,
            TcpSocket,
            TcpState,
            TxBatch, //
        },
        page::PageSlice,
    },
    proto::{
        link::{
            Broken,
            Link,
            Piece,
            Refused,
            SendFlags, //
        },
        sender::BATCH_OCTETS,
    },
    wire::fpdu::{
        Crc,
        MAX_FPDU, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Chunks of a batch, if each is a page: the last FPDU may go beyond [`BATCH_OCTETS`], with
/// markers, and the first and last chunk may be begun.
const BATCH_CHUNKS: usize = (BATCH_OCTETS + MAX_FPDU + MAX_FPDU / 128) / PAGE_SIZE + 2;

/// Makes a batch that is empty.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn batch(qp: &Qp) -> Result<TxBatch> {
    TxBatch::new(qp.dev.chunks.clone(), BATCH_CHUNKS)
}

/// The socket of a connection, and its batch.
pub(super) struct TcpLink<'a> {
    pub(super) qp: &'a Qp,
    pub(super) sock: &'a TcpSocket,
    pub(super) batch: &'a mut TxBatch,
}

impl Link for TcpLink<'_> {
    type Mark = Mark;

    fn segment_size(&self) -> u32 {
        self.sock.mss()
    }

    fn space(&self) -> usize {
        self.sock.send_space()
    }

    fn len(&self) -> usize {
        self.batch.remaining()
    }

    fn reserve(&mut self, len: u32) -> bool {
        self.batch.reserve(len).is_ok()
    }

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

    #[inline]
    fn room(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        self.batch.piece(len, count)
    }

    #[inline]
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

    fn send(&mut self, how: SendFlags) -> Result<(), Refused> {
        let SendFlags { more, eor, cut } = how;
        let flags = net::SendFlags { more, eor, cut };
        let octets = self.batch.remaining();
        let sent = self.sock.send_batch(self.batch, flags);
        self.qp.trace_batch(octets, self.batch.remaining(), sent);
        let Err(error) = sent else {
            return Ok(());
        };
        // If the connection is not broken yet, it has to be. The socket's callbacks tell of it.
        if self.sock.state() != TcpState::Closed {
            let (dev, num) = (self.qp.dev.handle(), self.qp.num());
            pr_ratelimited!("{dev}: QP {num}: TCP does not send: {error:?}\n");
        }
        self.sock.abort();
        Err(Refused)
    }
}

impl Piece<TcpLink<'_>> for PageSlice<'_> {
    fn len(&self) -> u32 {
        PageSlice::len(self)
    }

    fn sub(&self, at: u32, len: u32) -> Option<Self> {
        PageSlice::sub(self, at, len)
    }

    fn put(&self, link: &mut TcpLink<'_>) -> Result<(), Broken> {
        link.batch.push_pages(self).map_err(|_| Broken)
    }

    #[inline]
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Broken> {
        self.copy_out(out).map_err(|_| Broken)
    }
}
