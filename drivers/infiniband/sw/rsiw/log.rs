// SPDX-License-Identifier: GPL-2.0

//! The lines that a device has in the kernel's log.
//!
//! Each line begins with the name of its device, and has an [`Author`]: who can have such lines
//! written as often as they like. Each author has a limit of its own on each device, because
//! whoever uses up a limit hides what shares it (T-44). So a process that asks for nonsense hides
//! neither what a stranger tries nor what becomes of a mount, nor what another device has to say.
//!
//! Lines that only the administrator can cause are written elsewhere, without a limit, and so are
//! `BUG`s, which are told once (`tools/lint/rules.py` has the list).
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::ffi::time::RateLimit;
use kernel::fmt::{
    self,
    Display, //
};
use kernel::prelude::*;

/// Who can cause a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// A process of this host, by its calls and requests.
    Process,
    /// The peer of a process's connection. A process may have both ends.
    PeerOfProcess,
    /// A consumer in the kernel, or nobody in particular, as for a lack of memory.
    Kernel,
    /// The peer of a connection of a consumer in the kernel.
    PeerOfKernel,
    /// Who asks for a connection, and has shown by TLS who he is.
    Asker,
    /// Who asks for a connection, and can be anybody.
    Stranger,
}

impl Author {
    const ALL: [Self; 6] = [
        Self::Process,
        Self::PeerOfProcess,
        Self::Kernel,
        Self::PeerOfKernel,
        Self::Asker,
        Self::Stranger,
    ];

    /// Returns the words for the author in the line that says how many lines were left out.
    const fn name(self) -> &'static str {
        match self {
            Self::Process => "processes",
            Self::PeerOfProcess => "peers of processes",
            Self::Kernel => "the kernel",
            Self::PeerOfKernel => "peers of the kernel",
            Self::Asker => "who asks for connections over TLS",
            Self::Stranger => "who asks for connections",
        }
    }
}

/// The limits of a device.
#[pin_data]
pub(crate) struct Log {
    #[pin]
    process: RateLimit,
    #[pin]
    peer_of_process: RateLimit,
    #[pin]
    kernel: RateLimit,
    #[pin]
    peer_of_kernel: RateLimit,
    #[pin]
    asker: RateLimit,
    #[pin]
    stranger: RateLimit,
}

impl Log {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            process <- RateLimit::new(),
            peer_of_process <- RateLimit::new(),
            kernel <- RateLimit::new(),
            peer_of_kernel <- RateLimit::new(),
            asker <- RateLimit::new(),
            stranger <- RateLimit::new(),
        })
    }

    fn limit(&self, author: Author) -> &RateLimit {
        match author {
            Author::Process => &self.process,
            Author::PeerOfProcess => &self.peer_of_process,
            Author::Kernel => &self.kernel,
            Author::PeerOfKernel => &self.peer_of_kernel,
            Author::Asker => &self.asker,
            Author::Stranger => &self.stranger,
        }
    }

    /// Writes `line` about the device that is called `dev`, unless `author` has caused too many of
    /// late. If lines were left out before, says how many.
    pub(crate) fn write(&self, dev: &impl Display, author: Author, line: fmt::Arguments<'_>) {
        if self.limit(author).allow() {
            self.tell_left_out(dev, author);
            pr_info!("{dev}: {line}\n");
        }
    }

    /// Says how many lines were left out since this was last said. For the end of the device.
    pub(crate) fn close(&self, dev: &impl Display) {
        for author in Author::ALL {
            self.tell_left_out(dev, author);
        }
    }

    fn tell_left_out(&self, dev: &impl Display, author: Author) {
        let missed = self.limit(author).take_missed();
        if missed > 0 {
            let who = author.name();
            pr_info!("{dev}: left out {missed} lines about {who}\n");
        }
    }
}
