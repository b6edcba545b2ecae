// SPDX-License-Identifier: GPL-2.0

//! The side that was connected to; and reading of MPA frames for both sides.
#![forbid(unsafe_code)]

use super::{
    config,
    depths,
    endpoint::{
        Link,
        Phase,
        State, //
    },
    events::{
        event_depths,
        private_data,
        Established,
        Request, //
    },
    listen::Listener,
    own_qp,
    teardown::send_whole,
    turns::Deputy,
    Endpoint,
    ANSWER_MS,
    REQUEST_MS,
    RTR_MS, //
};
use crate::{
    device::{
        Device,
        Quota, //
    },
    ffi::{
        iwcm::{
            Addresses,
            CallId,
            CmId,
            ConnParam, //
        },
        log::pr_ratelimited,
        net::{
            Callbacks,
            TcpSocket,
            TcpState, //
        },
    },
    proto::{
        collector::Reason,
        conn::{
            Event,
            Fed,
            Initiator,
            Params,
            Responder, //
        },
        negotiate::EventDepths,
    },
    qp::Qp,
    wire::mpa, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    },
};

/// A side of MPA set-up that takes in a frame.
pub(super) trait Feed {
    /// Octets to read next.
    fn wanted(&self) -> usize;
    /// Takes octets in.
    fn feed(&mut self, bytes: &[u8]) -> Fed;
}

impl Feed for Initiator {
    fn wanted(&self) -> usize {
        Initiator::wanted(self)
    }

    fn feed(&mut self, bytes: &[u8]) -> Fed {
        Initiator::feed(self, bytes)
    }
}

impl Feed for Responder {
    fn wanted(&self) -> usize {
        Responder::wanted(self)
    }

    fn feed(&mut self, bytes: &[u8]) -> Fed {
        Responder::feed(self, bytes)
    }
}

/// What reading led to.
pub(super) enum Read {
    /// The frame is not complete.
    Pending,
    /// It is, or it is wrong.
    Event(Event),
    /// TCP ended before it was complete.
    Closed,
}

/// Reads the peer's frame and nothing behind it (T-25); tells whether there were any octets.
pub(super) fn read_frame(sock: &TcpSocket, mpa: &mut impl Feed) -> (Read, bool) {
    let mut buf = [0; mpa::MAX_FRAME];
    let mut heard = false;
    loop {
        let wanted = mpa.wanted();
        let Some(space) = buf.get_mut(..wanted).filter(|space| !space.is_empty()) else {
            return (Read::Pending, heard);
        };
        let n = match sock.recv(space) {
            Ok(0) => return (Read::Closed, heard),
            Ok(n) => n,
            Err(e) if e == EAGAIN => return (Read::Pending, heard),
            Err(_) => return (Read::Closed, heard),
        };
        heard = true;
        let fed = mpa.feed(buf.get(..n).unwrap_or(&[]));
        if let Some(event) = fed.event {
            return (Read::Event(event), heard);
        }
    }
}

/// Makes an endpoint for a TCP connection that was just accepted.
pub(super) fn create(listener: &Arc<Listener>, sock: Arc<TcpSocket>) -> Result {
    let mpa = KBox::new(Responder::new(config(mpa::REV_2)), GFP_KERNEL)?;
    let this = Endpoint::register(&listener.dev)?;
    let mut st = this.state.lock();
    st.phase = Phase::Closed;
    let result = listener
        .admit(this.number)
        .and_then(|()| {
            this.leave_to(Deputy::Listener(listener.clone()));
            Callbacks::install(sock.clone(), this.clone())
        })
        .map(|callbacks| {
            st.callbacks = Some(callbacks);
            st.sock = Some(sock);
            st.phase = Phase::AwaitRequest(mpa);
            this.arm(REQUEST_MS);
        });
    drop(st);
    // The Request may be there already; if there was an error the endpoint goes away.
    Endpoint::kick(this);
    result
}

/// The Request may have come.
pub(super) fn await_request(this: &Arc<Endpoint>, st: &mut State, mut mpa: KBox<Responder>) {
    let Some(sock) = st.sock.clone() else {
        return;
    };
    let (read, heard) = read_frame(&sock, &mut *mpa);
    match read {
        Read::Pending => st.phase = Phase::AwaitRequest(mpa),
        Read::Event(Event::Request(depths)) => {
            let told = tell(this, st, &sock, &mpa, depths);
            st.phase = Phase::Requested(mpa);
            if told.is_err() {
                refuse(this, st, &[]);
            }
        }
        Read::Event(event) => {
            let reason = match event {
                Event::Failed(failure) => failure.reason,
                _ => Reason::Crossed,
            };
            pr_ratelimited!("{}: bad MPA Request: {:?}\n", this.dev.handle(), reason);
            this.reset(st);
        }
        Read::Closed => {
            // Port scanners and health checks say nothing (T-42b).
            if heard {
                pr_ratelimited!("{}: MPA Request was cut\n", this.dev.handle());
            }
            this.reset(st);
        }
    }
}

/// Prepares the event for the consumer of the listener.
fn tell(
    this: &Arc<Endpoint>,
    st: &mut State,
    sock: &TcpSocket,
    mpa: &Responder,
    depths: EventDepths,
) -> Result {
    let Some(Deputy::Listener(listener)) = this.deputy() else {
        return Err(EINVAL);
    };
    listener.forget(this.number);
    st.outbox.request = Some(Request {
        listener,
        addresses: Addresses {
            local: sock.local_addr()?.get().ok_or(EAFNOSUPPORT)?,
            remote: sock.peer_addr()?.get().ok_or(EAFNOSUPPORT)?,
        },
        depths: event_depths(depths),
        data: private_data(mpa.private_data())?,
    });
    this.arm(ANSWER_MS);
    Ok(())
}

/// The consumer has not answered yet. If TCP is gone, it learns that from its answer.
pub(super) fn requested(_this: &Arc<Endpoint>, st: &mut State, mpa: KBox<Responder>) {
    if st
        .sock
        .as_ref()
        .is_some_and(|sock| sock.state() == TcpState::Closed)
    {
        st.callbacks = None;
        st.sock = None;
    }
    st.phase = Phase::Requested(mpa);
}

/// Refuses a request: Reply, FIN, and then the peer's FIN is waited for, unless too many wait.
pub(super) fn refuse(this: &Arc<Endpoint>, st: &mut State, data: &[u8]) {
    let phase = core::mem::replace(&mut st.phase, Phase::Closed);
    let Phase::Requested(mut mpa) = phase else {
        st.phase = phase;
        return;
    };
    st.outbox.request = None;
    let mut frame = [0; mpa::MAX_FRAME];
    let sent = mpa
        .reject(data, &mut frame)
        .map_err(|_| EINVAL)
        .and_then(|n| {
            let sock = st.sock.as_ref().ok_or(ECONNRESET)?;
            send_whole(sock, frame.get(..n).ok_or(EINVAL)?)
        });
    st.refused = Quota::take(&this.dev, |limits| &limits.refused).ok();
    if sent.is_ok() && st.refused.is_some() {
        this.close(st);
    } else {
        this.reset(st);
    }
}

/// See [`super::reject`].
pub(super) fn reject(dev: &Device, id: &CmId, private_data: &[u8]) -> Result {
    // Without an endpoint the connection is gone already, which is what is asked for.
    let Some(this) = dev.cm.get(id.provider_data()) else {
        return Ok(());
    };
    refuse(&this, &mut this.state.lock(), private_data);
    Endpoint::kick(this);
    Ok(())
}

/// See [`super::accept`].
pub(super) fn accept(dev: &Arc<Device>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    let this = dev.cm.get(id.provider_data()).ok_or(ECONNRESET)?;
    let mut st = this.state.lock();
    let phase = core::mem::replace(&mut st.phase, Phase::Closed);
    let Phase::Requested(mut mpa) = phase else {
        st.phase = phase;
        return Err(ECONNRESET);
    };
    let result = own_qp(dev, param.qpn, id).and_then(|qp| run(&this, &mut st, &mut mpa, qp, param));
    match result {
        Ok(params) => {
            let depths = event_depths(params.event);
            if params.peer_to_peer {
                st.link = Link::Accepted(depths);
                this.arm(RTR_MS);
            } else {
                st.link = Link::Up;
                this.disarm();
                st.outbox.established = Some(Established {
                    error: None,
                    depths,
                });
            }
            st.cm_id = Some(id.into());
            st.phase = Phase::Running;
        }
        // iw_cm is through with the connection.
        Err(_) => this.reset(&mut st),
    }
    drop(st);
    Endpoint::kick(this);
    result.map(|_| ())
}

/// Sends the Reply and gives the stream to the QP.
///
/// What the initiator sends upon the Reply waits in the socket until the QP drains it (T-25).
fn run(
    this: &Arc<Endpoint>,
    st: &mut State,
    mpa: &mut Responder,
    qp: Arc<Qp>,
    param: &ConnParam<'_>,
) -> Result<Params> {
    let sock = st.sock.clone().ok_or(ECONNRESET)?;
    let mut frame = [0; mpa::MAX_FRAME];
    let (n, params) = mpa
        .accept(depths(param), param.private_data, &mut frame)
        .map_err(|_| EINVAL)?;
    let frame = frame.get(..n).ok_or(EINVAL)?;
    qp.attach(this.clone())?;
    st.callbacks = None;
    let result = send_whole(&sock, frame).and_then(|()| qp.start(&sock, &params, this));
    match result {
        Ok(()) => {
            st.qp = Some(qp);
            Ok(params)
        }
        Err(e) => {
            qp.detach(this);
            pr_ratelimited!("{}: accept failed: {:?}\n", this.dev.handle(), e);
            Err(ECONNRESET)
        }
    }
}
