// SPDX-License-Identifier: GPL-2.0

//! Arbitrary bytes as a packet; see `roce_tests::fuzz::parse`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::parse::parse(data));
