// SPDX-License-Identifier: GPL-2.0

//! The queue pair as two others see it: its stream, and the other end of a connection on this host.
//! They know its [`Base`], and that a work item acts upon what they find.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::base::Base;
use crate::proto::{
    notes::QpNote,
    schedule::{
        Actor,
        Reason, //
    },
};
use kernel::sync::Arc;

/// The queue pair that a part belongs to.
pub(super) trait Parent: Send + Sync {
    /// Returns what all parts share.
    fn base(&self) -> &Base;

    /// Has `actor` act, unless that is the caller.
    fn let_act(self: Arc<Self>, actor: Actor);

    /// Tells that the first segment of the connection has come, and has passed the protocol's
    /// checks.
    fn first_segment(self: Arc<Self>);
}

impl dyn Parent {
    /// Lets a work item act if `reason` asks for one. It is none of the reasons for which the caller
    /// acts by itself.
    #[inline]
    pub(super) fn schedule(self: &Arc<Self>, reason: Reason) {
        match self.base().who(reason) {
            Actor::Caller | Actor::Nobody => {}
            actor => self.clone().let_act(actor),
        }
    }

    /// Leaves a note for the work item. What goes with it is in its slot already.
    pub(super) fn note(self: &Arc<Self>, note: QpNote) {
        self.base().notes.leave(note);
        self.schedule(Reason::Note);
    }

    /// Lets the work item act upon what was noted, if anything was. `base` is that of this queue
    /// pair, which the caller has at hand.
    #[inline]
    pub(super) fn ring_if_noted(self: &Arc<Self>, base: &Base) {
        if base.is_noted() {
            self.schedule(Reason::Note);
        }
    }
}
