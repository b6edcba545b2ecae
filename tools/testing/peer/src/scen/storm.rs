// SPDX-License-Identifier: GPL-2.0
#![forbid(unsafe_code)]
pub fn add(_: &mut crate::scenario::List) {}
