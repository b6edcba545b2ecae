// SPDX-License-Identifier: GPL-2.0

//! The queue pair, as its stream, and the other end of a connection on this host, see it: they know
//! its [`Base`], and that somebody acts upon what they find.
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
    /// Has act who is to act because of `reason`, which is none of those upon which a caller acts.
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
}
