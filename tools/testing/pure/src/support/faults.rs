// SPDX-License-Identifier: GPL-2.0

//! All faults of requests.

use crate::proto::failure::Fault;

/// All of them, in the order of their numbers in `vendor_err`, from 1 on.
pub(crate) const FAULTS: [Fault; 10] = [
    Fault::LocalLength,
    Fault::LocalProtection,
    Fault::LocalOperation,
    Fault::Bind,
    Fault::RemoteAccess,
    Fault::RemoteInvalid,
    Fault::General,
    Fault::RetryExceeded,
    Fault::RnrRetryExceeded,
    Fault::RemoteOperation,
];
