// SPDX-License-Identifier: GPL-2.0

//! Atomic Requests of the peer, and the responses to ours (RFC 7306 section 5).
//!
//! A request is checked and queued among the Reads of the peer; the sender carries it out. A response
//! has the result, which goes to the sink of our oldest request.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::{
    Env,
    Receiver,
    Unplaced, //
};
use crate::proto::counters::Counter;
use crate::proto::failure::Failure;
use crate::proto::reads::Response;
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse, //
};
use crate::wire::ddp::{
    Msn,
    Stag,
    TaggedOffset,
    UNTAGGED_LEN, //
};
use crate::wire::terminate::TermError;
use core::ops::DerefMut;

/// What a receiver needs of its surroundings for Atomic Operations.
pub(crate) trait Atomics {
    /// Queues an Atomic Operation of the peer, if the peer may do that there.
    ///
    /// # Errors
    ///
    /// What the Terminate has to say.
    fn atomic_request(&mut self, msn: Msn, request: AtomicRequest) -> Result<(), TermError>;

    /// Gives an Atomic Response to our Atomic Operations: see
    /// [`crate::proto::reads::OutboundReads::atomic_response`].
    ///
    /// # Errors
    ///
    /// What the Terminate has to say.
    fn atomic_response(&mut self, id: u32) -> Result<Response, TermError>;

    /// Places the result of an Atomic Operation, in the byte order of this host, if this side may
    /// write there.
    ///
    /// # Errors
    ///
    /// It may not.
    fn place_result(&mut self, stag: Stag, to: TaggedOffset, result: u64) -> Result<(), Unplaced>;
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Takes in an Atomic Request, whose ULPDU begins with `head`.
    ///
    /// # Errors
    ///
    /// The stream must end.
    pub(super) fn atomic_request<A: Atomics>(
        &mut self,
        env: &mut A,
        msn: Msn,
        head: &[u8],
    ) -> Result<(), Failure> {
        let request = head.get(UNTAGGED_LEN..).and_then(AtomicRequest::parse);
        // All octets are there: what is wrong is the AOpcode.
        let request = request.ok_or(TermError::UnexpectedOpcode)?;
        self.tally.add(Counter::RxAtomics, 1);
        Ok(env.atomic_request(msn, request)?)
    }

    /// Places the result of an Atomic Operation of ours and completes it.
    ///
    /// # Errors
    ///
    /// The stream must end.
    pub(super) fn atomic_response<C, E: Env<C>>(
        &mut self,
        env: &mut E,
        AtomicResponse { id, original }: AtomicResponse,
    ) -> Result<(), Failure> {
        let response = env.atomic_response(id)?;
        let entry = &response.entry;
        if let Err(Unplaced) = env.place_result(entry.sink_stag, entry.sink_to, original) {
            return Err(Self::refuse_response(env, &response));
        }
        self.end_response(env, &response)
    }
}
