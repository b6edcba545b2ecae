// SPDX-License-Identifier: GPL-2.0

//! A receiver in its surroundings.

use super::around::Around;
pub(crate) use super::around::Faults;
use super::memory::Memory;
use super::piece::Piece;
use super::queue::{Log, Queue};
use crate::proto::deframer::{Budget, Reach};
use crate::proto::receiver::{Lack, Receiver, Recv};
use crate::proto::setup::Params;
use crate::support::tuning::SOFTIRQ;
use crate::wire::fpdu::MAX_FPDU;
use std::collections::VecDeque;

/// A receiver and its surroundings.
pub(crate) struct Receiving {
    pub(crate) receiver: Receiver<Vec<u8>>,
    pub(crate) around: Around,
    /// What was not taken yet.
    pub(crate) unread: Vec<u8>,
    /// Octets of the buffers that it lies in, if they are not one.
    buffers: Option<VecDeque<usize>>,
    /// What octets that are not there come to.
    pub(crate) missing: Reach,
    /// There is memory for the staging buffer.
    pub(crate) has_memory: bool,
}

impl Receiving {
    /// With room for so many Reads of ours.
    pub(crate) fn new(params: &Params) -> Self {
        let mut queue = Queue::new(0, Memory::Imagined, Log::default());
        queue.connect(params);
        Self {
            receiver: Receiver::new(params),
            around: Around::new(queue),
            unread: Vec::new(),
            buffers: None,
            missing: Reach::Apart,
            has_memory: true,
        }
    }

    /// The same; what is fed at once is in a buffer of its own, and segments are taken in from
    /// several. What is missing can be waited for.
    pub(crate) fn in_buffers(params: &Params) -> Self {
        Self {
            buffers: Some(VecDeque::new()),
            missing: Reach::Later,
            ..Self::new(params)
        }
    }

    /// Octets come in: takes what can be taken.
    pub(crate) fn feed(&mut self, octets: &[u8]) {
        self.unread.extend_from_slice(octets);
        if let Some(buffers) = &mut self.buffers {
            buffers.push_back(octets.len());
        }
        while self.turn(SOFTIRQ) {}
    }

    /// One turn, as in softirq or by the work item; returns whether it has to be followed by
    /// another.
    pub(crate) fn turn(&mut self, budget: Budget) -> bool {
        if self.has_memory && self.receiver.lacks() == Lack::Buffer {
            self.receiver.set_buffer(vec![0; MAX_FPDU]);
        }
        let around = &mut self.around;
        around.begin(&mut self.receiver, budget);
        loop {
            let front = self.buffers.as_ref().and_then(|b| b.front().copied());
            let len = front.unwrap_or(self.unread.len());
            let piece = Piece::front(&self.unread, len, self.missing);
            let n = around.take(&mut self.receiver, &piece);
            assert!(n <= len);
            self.unread.drain(..n);
            match &mut self.buffers {
                Some(buffers) if n == len => {
                    buffers.pop_front();
                }
                Some(buffers) => buffers[0] -= n,
                None => {}
            }
            if n < len || self.unread.is_empty() {
                break;
            }
        }
        match self.receiver.lacks() {
            Lack::Nothing => {
                assert!(self.unread.is_empty() || self.missing == Reach::Later);
                false
            }
            Lack::Turn => true,
            Lack::Buffer => self.has_memory,
            Lack::Quiet | Lack::Receive => false,
        }
    }

    /// The receive in progress is flushed.
    pub(crate) fn flush(&mut self) -> Option<Recv> {
        let recv = self.receiver.take_recv();
        assert_eq!(recv, self.around.flush());
        recv
    }

    /// What was done since this was asked last.
    #[cfg(test)]
    pub(crate) fn did(&mut self) -> Vec<super::around::Did> {
        std::mem::take(&mut self.around.did)
    }
}
