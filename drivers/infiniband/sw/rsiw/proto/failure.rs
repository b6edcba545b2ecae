// SPDX-License-Identifier: GPL-2.0

//! What goes wrong: with one request, and with a stream.
//!
//! Any context.
#![forbid(unsafe_code)]

use crate::wire::terminate::{
    Quote,
    TermError, //
};

/// What was wrong with a request, as its completion says (draft-hilland-rddp-verbs section 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The message is longer than the request allows.
    LocalLength,
    /// A local STag, its rights or its bounds do not allow it.
    LocalProtection,
    /// The request makes no sense, or has no resources.
    LocalOperation,
    /// A window cannot be bound so.
    Bind,
    /// The peer does not allow the access.
    RemoteAccess,
    /// The peer refuses the request.
    RemoteInvalid,
    /// Anything else.
    General,
}

/// An error that ends the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// For the Terminate.
    pub(crate) error: TermError,
    /// The segment it is about.
    pub(crate) quote: Option<Quote>,
    /// A completion tells of it, so that no event must (T-33).
    pub(crate) in_completion: bool,
    /// The peer lacks a right, although the code says something else (V-AE-12).
    pub(crate) denied: bool,
    /// What the log says beside the error.
    pub(crate) cause: Option<&'static str>,
    /// Only a defect of this driver can bring it about.
    pub(crate) is_defect: bool,
}

impl Failure {
    /// An error of which the log tells the cause.
    pub(crate) const fn new(error: TermError, cause: &'static str) -> Self {
        Self {
            cause: Some(cause),
            ..Self::plain(error)
        }
    }

    /// What only a defect of this driver can bring about: the stream ends before wrong octets get
    /// anywhere.
    #[cold]
    pub(crate) const fn defect(what: &'static str) -> Self {
        Self {
            is_defect: true,
            ..Self::new(TermError::LocalCatastrophic, what)
        }
    }

    /// A request of this side cannot be carried out; `in_completion` says whether its completion
    /// tells of it.
    pub(crate) const fn of_request(in_completion: bool) -> Self {
        Self {
            in_completion,
            ..Self::plain(TermError::LocalCatastrophic)
        }
    }

    const fn plain(error: TermError) -> Self {
        Self {
            error,
            quote: None,
            in_completion: false,
            denied: false,
            cause: None,
            is_defect: false,
        }
    }
}

impl From<TermError> for Failure {
    fn from(error: TermError) -> Self {
        Self::plain(error)
    }
}
