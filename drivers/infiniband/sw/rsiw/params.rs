// SPDX-License-Identifier: GPL-2.0

//! Module parameters: defaults for new connections.
//!
//! Context: any.
#![forbid(unsafe_code)]

use crate::module_parameters;

/// Whether this side asks for CRCs (RFC 5044 section 4.4): on unless the administrator says no;
/// used unless both sides say no.
pub(crate) fn mpa_crc() -> bool {
    module_parameters::mpa_crc.value()
}

/// Whether the link type `siw` is registered too, for tools that name it.
pub(crate) fn siw_link_type() -> bool {
    module_parameters::siw_link_type.value()
}
