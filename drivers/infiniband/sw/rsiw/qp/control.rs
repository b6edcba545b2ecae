// SPDX-License-Identifier: GPL-2.0

//! State of a QP and its connection: what may change it, and the verbs that ask for a change.
//!
//! `proto::state` says which state follows; `effects` carries the transitions out.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    direct::Prepared,
    effects::After,
    inner::{
        Conn,
        Inner, //
    },
    manager::Manager,
    shared::Shared,
    stream::Stream,
    tx::TxState,
    Qp, //
};
use crate::{
    ffi::{
        net::{
            Callbacks,
            TcpSocket, //
        },
        rdma::attr::{
            AccessFlags,
            IbQpState,
            QpModify, //
        },
        task::Process, //
    },
    limits::MAX_READS,
    proto::{
        failure::Cause,
        notes::QpNote,
        reads::{
            Inbound,
            InboundReads,
            OutboundRead,
            OutboundReads, //
        },
        setup::Params,
        state::{
            self,
            QpEvent,
            QpState, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Rights of the peer unless the consumer sets others.
const DEFAULT_RIGHTS: AccessFlags = AccessFlags::REMOTE_WRITE.union(AccessFlags::REMOTE_READ);

impl Qp {
    /// Sets the QP aside for the connection of `manager`, or returns `EISCONN` if it is set aside
    /// for another one, or is in a state that cannot be connected.
    pub(crate) fn attach(&self, manager: Arc<dyn Manager>) -> Result {
        let mut inner = self.inner.lock();
        if self.shared.state() != QpState::Idle {
            return Err(EISCONN);
        }
        self.shared.set_aside.set(manager)?;
        inner.was_closed = false;
        Ok(())
    }

    /// Takes over an established TCP connection after MPA set-up. Data that waits in the socket is
    /// received after this has returned (T-25).
    ///
    /// # Errors
    ///
    /// `EISCONN` if the QP is connected or in error, `ECONNRESET` if it does not wait for `manager`
    /// any more, `ENOMEM`; the socket is untouched then.
    pub(crate) fn start(
        self: &Arc<Self>,
        sock: &Arc<TcpSocket>,
        params: &Params,
        manager: &dyn Manager,
    ) -> Result {
        let payer = &self.shared.id.payer;
        payer.pays(|| self.take_stream(sock, params, manager))
    }

    /// See [`Qp::start`].
    fn take_stream(
        self: &Arc<Self>,
        sock: &Arc<TcpSocket>,
        params: &Params,
        manager: &dyn Manager,
    ) -> Result {
        let inbound = KVec::from_elem(Inbound::default(), params.ird.into(), GFP_KERNEL_ACCOUNT)?;
        let outbound = KVec::from_elem(
            OutboundRead::default(),
            params.outbound_slots().into(),
            GFP_KERNEL_ACCOUNT,
        )?;
        let shared = &self.shared;
        let tx = TxState::new(&shared.id, params, sock.mss())?;
        let stream = Stream::new(self.clone(), sock, params)?;
        let prepared = Prepared::new(&self.peers, &stream);

        let mut inner = self.inner.lock();
        let (state, _) = state::next(shared.state(), QpEvent::Connected).map_err(|_| EISCONN)?;
        if !shared.set_aside.is_for(manager) {
            return Err(ECONNRESET);
        }
        let idle_inbound = {
            let mut old = shared.inbound.lock();
            core::mem::replace(&mut *old, InboundReads::new(inbound))
        };
        let old_outbound = {
            let mut sq = shared.sq.lock();
            sq.ord = params.ord.into();
            core::mem::replace(&mut sq.outbound, OutboundReads::new(outbound))
        };
        shared.forget_connection();
        inner.failed = None;
        // Nothing was sent yet.
        shared.flags.answered.store(true, Relaxed);
        // The connection manager sets no rights on the connecting side before there is a
        // connection. The regions decide what the peer may do then.
        let _ = shared
            .flags
            .access
            .cmpxchg(AccessFlags::NONE, DEFAULT_RIGHTS, Relaxed);
        inner.conn = Some(Conn {
            callbacks: Callbacks::install(sock.claim()?, stream.clone())?,
            stream,
            tx,
            entry: None,
        });
        shared
            .id
            .trace_state(&QpEvent::Connected, shared.state(), state);
        shared.flags.ended_by.store(Cause::NONE.0, Relaxed);
        shared.published.set_ird(params.ird);
        inner.last_wqe_told = false;
        shared.set_state(state);
        if let Some(conn) = &mut inner.conn {
            conn.entry = prepared.map(Prepared::enter);
            self.show(Some(conn.stream.clone()));
        }
        drop(inner);
        drop((idle_inbound, old_outbound));
        self.note(QpNote::Socket);
        Ok(())
    }

    /// Ends the connection, or its set-up, abruptly. Used by the connection manager.
    pub(crate) fn abort(self: &Arc<Self>) {
        self.transition(|_| QpEvent::Modify {
            to: QpState::Error,
            idle: false,
            flushed: false,
        });
    }

    /// Applies an event and does what follows from it.
    fn transition(self: &Arc<Self>, event: impl FnOnce(&Inner) -> QpEvent) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.settle_now(&mut inner, &mut after);
        let event = event(&inner);
        let _ = self.apply(&mut inner, event, None, &mut after);
        self.progress(&mut inner, &mut after);
        drop(inner);
        after.run(self);
    }

    /// Acts upon a failure that is known already ([`Qp::settle`]), and tells the peer at once: the
    /// caller may end the connection next.
    fn settle_now(self: &Arc<Self>, inner: &mut Inner, after: &mut After) {
        if self.settle(inner, after) {
            self.progress(inner, after);
        }
    }

    /// Changes attributes other than queue sizes as a consumer asks, all or nothing. Returns
    /// `EINVAL` for a transition that is not allowed, and a value that is not possible.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpModify) -> Result {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let result = self.modify_under(&mut inner, attr, &mut after);
        drop(inner);
        after.run(self);
        result
    }

    /// Does the part of [`Qp::modify`] that needs the mutex.
    fn modify_under(
        self: &Arc<Self>,
        inner: &mut Inner,
        attr: &QpModify,
        after: &mut After,
    ) -> Result {
        let ord = attr.max_rd_atomic.map(u16::from);
        let ird = attr.max_dest_rd_atomic.map(u16::from);
        self.shared.check_depths(ord, ird)?;
        if let Some(state) = attr.cur_state {
            if rdmac_state(state) != self.shared.state().in_verbs() {
                return Err(EINVAL);
            }
        }
        if let Some(target) = attr.state {
            let to = rdmac_state(target);
            // iWARP does not have this step between INIT and RTS.
            let is_step = target == IbQpState::Rtr
                && matches!(self.shared.state(), QpState::Idle | QpState::Rts);
            if !is_step {
                if self.shared.state() == QpState::Error {
                    // What was posted in Error is flushed here: it must not be left to the next
                    // connection.
                    self.flush_posted(inner, after);
                }
                self.settle_now(inner, after);
                let event = QpEvent::Modify {
                    to,
                    idle: inner.complete_before_fin(&self.shared),
                    flushed: inner.ring.is_empty(),
                };
                self.apply(inner, event, None, after)?;
                self.progress(inner, after);
            }
        }
        if let Some(ord) = ord {
            self.shared.sq.lock().ord = ord.into();
        }
        if let Some(ird) = ird {
            self.shared.published.set_ird(ird);
        }
        if let Some(access) = attr.access {
            self.shared.flags.access.store(access, Relaxed);
        }
        Ok(())
    }

    /// Ends the connection and whatever the QP does, for good. What has completed is still sent,
    /// unless the process has died: its peer must not take that for a graceful end. Returns
    /// `EBUSY`, and changes nothing, while windows are bound through the QP (V-QP-24).
    pub(crate) fn destroy(self: &Arc<Self>) -> Result {
        let id = &self.shared.id;
        id.binder.end()?;
        if let Some(poller) = &self.poller {
            poller.end();
        }
        self.table.remove(id.num());
        self.shared.flags.destroyed.store(true, Relaxed);
        self.transition(|inner| QpEvent::Destroy {
            idle: inner.complete_before_close(&self.shared) && !Process::current().is_ending(),
        });
        self.stop_timers();
        id.send_cq.forget(&id.handle);
        id.recv_cq.forget(&id.handle);
        self.forget_offers();
        id.pd.leave();
        Ok(())
    }
}

impl Shared {
    /// Checks whether ORD and IRD may be set to these values now.
    fn check_depths(&self, ord: Option<u16>, ird: Option<u16>) -> Result {
        let connected = self.state() != QpState::Idle && self.state() != QpState::Error;
        let (max_ord, max_ird) = if connected {
            (self.sq.lock().ord, self.published.ird())
        } else {
            (MAX_READS.into(), MAX_READS)
        };
        if ord.is_some_and(|ord| usize::from(ord) > max_ord) || ird.is_some_and(|ird| ird > max_ird)
        {
            return Err(EINVAL);
        }
        // The peer was told the IRD, so it does not change now.
        if connected && ird.is_some_and(|ird| ird != self.published.ird()) {
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// Returns the state that a verbs state stands for.
fn rdmac_state(state: IbQpState) -> QpState {
    match state {
        IbQpState::Reset | IbQpState::Init => QpState::Idle,
        IbQpState::Rtr | IbQpState::Rts => QpState::Rts,
        IbQpState::Sqd => QpState::Closing,
        IbQpState::Sqe => QpState::Terminate,
        IbQpState::Err => QpState::Error,
    }
}
