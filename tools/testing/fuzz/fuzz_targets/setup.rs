// SPDX-License-Identifier: GPL-2.0

//! See `rsiw_pure::fuzz::setup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rsiw_pure::fuzz::setup(data));
