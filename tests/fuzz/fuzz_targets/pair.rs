// SPDX-License-Identifier: GPL-2.0

//! Arbitrary requests of two hosts over any network; see `roce_tests::fuzz::pair`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::pair::pair(data));
