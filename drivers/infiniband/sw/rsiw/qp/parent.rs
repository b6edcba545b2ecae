// SPDX-License-Identifier: GPL-2.0

//! The queue pair as it is seen by its stream, and by the other end of a connection on this host.
//! They know its [`Base`], and that a work item acts upon what they find.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::base::Base;
use crate::proto::{
    notes::QpNote,
    schedule::Actor, //
};
use kernel::sync::Arc;

/// The queue pair that a part belongs to.
pub(super) trait Parent: Send + Sync {
    fn base(&self) -> &Base;

    /// Has `actor` act, unless that is the caller.
    fn let_act(self: Arc<Self>, actor: Actor);

    /// Tells that the connection's first segment has passed the protocol's checks.
    fn first_segment(self: Arc<Self>);
}

impl dyn Parent {
    /// As [`Qp::urge`](super::Qp::urge).
    #[inline]
    pub(super) fn urge(self: &Arc<Self>) {
        self.clone().let_act(Actor::Urgent);
    }

    /// As [`Qp::note`](super::Qp::note).
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.base().notes.leave(note);
        self.urge();
    }

    /// As [`Qp::ring_if_noted`](super::Qp::ring_if_noted). `base` is that of this queue pair, which
    /// the caller has at hand.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>, base: &Base) {
        if base.is_noted() {
            self.urge();
        }
    }
}
