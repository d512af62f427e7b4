// SPDX-License-Identifier: GPL-2.0

//! Arbitrary state transitions of two QPs with work requests; see `roce_tests::fuzz::states`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::states::states(data));
