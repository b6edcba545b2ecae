// SPDX-License-Identifier: GPL-2.0

//! Files of `proto/`.

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/notes.rs"]
pub(crate) mod notes;

pub(crate) mod state {
    /// The states are only numbers here.
    #[allow(dead_code)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum QpState {
        #[default]
        Idle,
        Rts,
        Draining,
        Closing,
        Terminate,
        Error,
    }
}
