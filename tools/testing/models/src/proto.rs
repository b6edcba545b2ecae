// SPDX-License-Identifier: GPL-2.0

//! Files of `proto/`.

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/drain.rs"]
pub(crate) mod drain;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/notes.rs"]
pub(crate) mod notes;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/ring.rs"]
pub(crate) mod ring;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/sends.rs"]
pub(crate) mod sends;

pub(crate) mod failure {
    /// Nothing fails here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Fault;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Failure;
}

pub(crate) mod reads {
    /// Reads are only requests under way here.
    #[derive(Debug)]
    pub(crate) struct OutboundRead;

    #[derive(Debug)]
    pub(crate) struct OutboundReads<O>(#[allow(dead_code)] O);

    impl<O> OutboundReads<O> {
        pub(crate) const fn new(reads: O) -> Self {
            Self(reads)
        }
    }
}

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
